"""Moments with a time zone, where Python knows no zones: neither pytz nor the system's files are there."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import dpsql
from dpsql.core.arrays import to_python
from dpsql.core.errors import ExtraError
from dpsql.core.extras import extra

WITHOUT = "import sys; sys.modules['pytz'] = sys.modules['tzdata'] = None\n"
ASKED = (
    "MIN(at)", "MEDIAN(at)", "QUANTILE_DISC(at, [0.5])", "MIN(CLIP(open, '2024-01-01', '2024-02-01'))",
    "DATE_TRUNC('day', at) AS d, COUNT(*)", "FIRST(day)",
)  # fmt: skip


def python(code: str, *, zones: bool) -> str:
    """What a process says that has zones, or has none."""
    env = {**os.environ, "PYTHONPATH": str(Path(dpsql.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code if zones else WITHOUT + code],
        env=env if zones else {**env, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_moment_with_a_zone_is_one_in_utc_and_a_list_holds_such() -> None:
    berlin = pa.array([datetime(2024, 1, 2, 3, tzinfo=UTC), None], pa.timestamp("us", "Europe/Berlin"))
    assert to_python(berlin) == [datetime(2024, 1, 2, 3, tzinfo=UTC), None]
    listed = pa.array([[datetime(2024, 1, 2, tzinfo=UTC)], None], pa.list_(pa.timestamp("ms", "UTC")))
    assert to_python(listed) == [[datetime(2024, 1, 2, tzinfo=UTC)], None]
    assert to_python(pa.array([1, None])) == [1, None]


def test_pyarrow_alone_gives_other_values_where_no_zones_are_known() -> None:
    """Why there is `to_python`; should it fail one day, that can go."""
    code = """if True:
        import pyarrow as pa
        try:
            print(pa.array([0], pa.timestamp("us", "UTC")).to_pylist())
        except Exception as error:
            print(type(error).__name__)
    """
    assert python(code, zones=False) != python(code, zones=True)


def test_answers_are_the_same_whatever_python_knows_of_zones() -> None:
    code = f"""if True:
        from datetime import UTC, datetime, timedelta
        import pyarrow as pa, dpsql
        from dpsql.answer.render import encode
        start = datetime(2024, 1, 1, tzinfo=UTC)
        moments = pa.array([start + timedelta(hours=h) for h in range(2000)], pa.timestamp("us", "UTC"))
        days = pa.table({{"day": pa.array([start], pa.timestamp("us", "UTC"))}})
        rows = pa.table({{"at": moments, "open": moments}})
        policy = dpsql.Policy.from_dict({{
            "budget": {{"epsilon": 10**9, "delta": 0}},
            "tables": {{
                "t": {{"unit": "row", "columns": {{"at": {{"min": start, "max": start + timedelta(days=90)}}}}}},
                "days": {{"public": True}},
            }},
        }})
        with dpsql.connect(policy, sources={{"t": rows, "days": days}}, ledger=":memory:") as session:
            for asked in {ASKED!r}:
                table = "days" if "FIRST" in asked else "t"
                group = " GROUP BY 1 ORDER BY 1 LIMIT 3" if "COUNT" in asked else ""
                text = f"SELECT {{asked}} FROM {{table}}{{group}}"
                try:
                    answer = session.query(text, epsilon=10**6)
                except dpsql.Error as refused:
                    print(asked, refused)
                else:
                    print(asked, [str(value)[:10] + str(value)[-6:] for row in answer.rows for value in row])
    """
    there = python(code, zones=True)
    assert python(code, zones=False) == there
    assert there.count("+00:00") >= len(ASKED) - 1


def test_what_an_extra_lacks_itself_is_told_like_an_extra_that_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halfway_there.py").write_text("raise ImportError('pandas >= 2.2 must be installed')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExtraError, match="can't be loaded") as refused:
        extra("halfway_there", "spark", "Spark")
    assert refused.value.hint == "pip install 'dpsql[spark]'"
