"""How often a query is parsed, bound, built, analyzed and calibrated: what tests/golden/work.txt says, or less.

The first time that a text is explained, the first time that it is asked, the second time, and at another ε.
`--update-golden` writes the file anew; numbers may only fall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_files import FOLDER

import dpsql
from dpsql import quoting
from dpsql.analyze import checked
from dpsql.quote import bounds, limits, stages

FILE = FOLDER / "work.txt"
COUNTED: tuple[tuple[str, Any, str], ...] = (
    ("parses", quoting, "parse"),
    ("binds", quoting, "bind"),
    ("builds", quoting, "build"),
    ("analyses", checked, "_analyzed"),
    ("counts of units", checked, "_analyzed_count"),
    ("ranges", bounds, "_analyzed_range"),
    ("calibrations", stages, "calibrate"),
    ("calibrations", limits, "calibrate"),
    ("calibrations", bounds, "calibrate"),
)
AVERAGE = "SELECT city, AVG(minutes) FROM visits WHERE minutes > 5 GROUP BY city"
JOINED = (
    "WITH v AS (SELECT person, city FROM visits WHERE minutes > 3) "
    "SELECT city, COUNT(*), AVG(age) FROM v JOIN people p ON v.person = p.person GROUP BY city"
)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "named limit, nothing counted": (AVERAGE, {"max_rows": 4}, {"limits_share": 0}),
    "named limit": (AVERAGE, {"max_rows": 4}, {}),
    "limits automatic": (AVERAGE, {}, {}),
    "automatic range, named limit": ("SELECT AVG(cost) FROM visits", {"max_rows": 4}, {}),
    "automatic range and limits": ("SELECT AVG(cost) FROM visits", {}, {}),
    "private keys": ("SELECT word, COUNT(*) FROM visits GROUP BY word", {"delta": "1e-7"}, {}),
    "CTE with a join, named limit": (JOINED, {"max_rows": 4}, {}),
    "CTE with a join, limits automatic": (JOINED, {}, {}),
}


@contextmanager
def opened(privacy: dict[str, Any]) -> Iterator[dpsql.Session]:
    rows = range(900)
    visits = pa.table(
        {
            "person": [i // 3 for i in rows],
            "city": [("Bern", "Lima", "Oslo")[i * i % 3] for i in rows],
            "minutes": [7 * i % 61 for i in rows],
            "cost": [float(i % 97) for i in rows],
            "word": [f"w{i % 4}" for i in rows],
        }
    )
    people = pa.table({"person": list(range(300)), "age": [i % 90 for i in range(300)]})
    policy = {
        "budget": {"epsilon": 1000, "delta": 1e-5},
        "privacy": privacy,
        "tables": {
            "visits": {
                "unit": "person",
                "columns": {
                    "city": {"values": ["Bern", "Lima", "Oslo"]},
                    "minutes": {"min": 0, "max": 60},
                    "cost": {"bounds": "auto"},
                },
            },
            "people": {"unit": "person", "columns": {"age": {"min": 0, "max": 100}}},
        },
    }
    sources = {"visits": visits, "people": people}
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources=sources, ledger=":memory:") as session:
        yield session


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Counts calls that are made meanwhile."""
    counts: Counter[str] = Counter()

    def noted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return plain(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, module, function in COUNTED:
            patch.setattr(module, function, noted(name, getattr(module, function)))
        yield counts


def work_of(sql: str, options: dict[str, Any], privacy: dict[str, Any]) -> Iterator[tuple[str, Counter[str]]]:
    times: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("explained", "explain", {"epsilon": 1}),
        ("asked", "query", {"epsilon": 1}),
        ("asked again", "query", {"epsilon": 1}),
        ("at another ε", "explain", {"epsilon": 2}),
    )
    with opened(privacy) as session:
        for time, method, more in times:
            with counting() as counts:
                getattr(session, method)(sql, **options, **more)
            yield time, counts


def shown() -> str:
    names = tuple(dict.fromkeys(name for name, _, _ in COUNTED))
    lines = [f"{'':48}{''.join(f'{name:>17}' for name in names)}"]
    for title, (sql, options, privacy) in CASES.items():
        for time, counts in work_of(sql, options, privacy):
            lines.append(f"{f'{title}, {time}':48}{''.join(f'{counts[name]:>17}' for name in names)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def test_planning_does_no_more_work_than_before(request: pytest.FixtureRequest) -> None:
    found = shown()
    if request.config.getoption("--update-golden"):
        FILE.write_text(found, encoding="utf-8")
    assert found == Path(FILE).read_text(encoding="utf-8")


def test_a_text_is_analyzed_once_for_every_price() -> None:
    for title, (sql, options, privacy) in CASES.items():
        for time, counts in work_of(sql, options, privacy):
            if "range" not in title:
                assert counts["builds"] <= (time == "explained"), (title, time)
                assert counts["analyses"] <= (time == "explained"), (title, time)
