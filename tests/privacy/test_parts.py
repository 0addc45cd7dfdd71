"""Units counted in parts: the same histograms as at once, and one vote of each unit (Theorems PARTS-1, LIMITS-1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from source_kinds import KINDS
from support import cursor_of, sampled

import dpsql
from dpsql.backends.duckdb import many_rows, run
from dpsql.backends.duckdb.many_rows import Sizes
from dpsql.backends.duckdb.run import execute
from dpsql.quote.model import Step

Row = tuple[int | None, str | None, float | None]
SQL = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t WHERE x > 1 OR x IS NULL GROUP BY k"
CROWD: list[Row] = [
    (i, None if j == 3 else f"k{(i * j) % 23}", None if j == 4 else float(j % 9))
    for i in range(60)
    for j in range(i % 17)
] + [(None, "k1", 5.0)] * 9
PARTS = Sizes(few=-1, counted=40)


def table(rows: Sequence[Row]) -> pa.Table:
    kinds = {"id": pa.int64(), "k": pa.string(), "x": pa.float64()}
    return pa.table({name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def opened(rows: Sequence[Row], kind: str, folder: Path) -> dpsql.Session:
    folder.mkdir()
    placed = KINDS[kind](table(rows), folder)
    columns: dict[str, dict[str, Any]] = {"x": {"min": 0, "max": 10}}
    if placed.entry:  # a CSV file has no types
        types = {"id": "BIGINT", "k": "VARCHAR", "x": "DOUBLE"}
        columns = {name: {"type": kind, **columns.get(name, {})} for name, kind in types.items()}
    entry = {"unit": "id", "columns": columns, **placed.entry}
    policy = {"budget": {"epsilon": 1000, "delta": 1e-4}, "tables": {"t": entry}}
    lent = None if placed.object is None else {"t": placed.object}
    return dpsql.connect(dpsql.Policy.from_dict(policy), sources=lent, ledger=":memory:")


def counts(session: dpsql.Session, steps: Sequence[Step]) -> list[list[int]]:
    """Every tally of these steps, cell by cell."""
    cursor = cursor_of(session)
    found = [execute(step, cursor, again={"t"}) for step in steps]
    cursor.close()
    return [[int(n) for n in exact.tallies[t]] for step, exact in zip(steps, found, strict=True) for t in step.tallies]


@pytest.mark.parametrize("kind", sampled(KINDS, 4))
def test_units_are_counted_in_parts_as_they_are_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person: list[Row] = [(99, f"k{i}", 2.0) for i in range(40)]
    with opened(CROWD, kind, tmp_path / "0") as session, opened([*CROWD, *person], kind, tmp_path / "1") as neighbour:
        limits, _ = session.explain(SQL, epsilon=1, delta="1e-6").stages
        steps = [step for step in limits.steps if isinstance(step, Step)]
        whole = counts(session, steps), counts(neighbour, steps)
        divided: list[int] = []

        def in_parts(statement: Any, tables: Any, cursor: Any) -> list[str]:
            divided.append(len(made := many_rows.texts_in_parts(statement, tables, cursor, PARTS)))
            return made

        monkeypatch.setattr(run, "texts_in_parts", in_parts)
        assert (counts(session, steps), counts(neighbour, steps)) == whole
        assert max(divided) >= 8  # there was something to divide
    for one, other in zip(*whole, strict=True):  # a unit has one vote in each histogram
        assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1
    assert sum(whole[1][0]) == sum(whole[0][0]) + 1


def test_rows_are_divided_by_how_many_there_are() -> None:
    sizes = Sizes()
    assert [sizes.parts(rows, sizes.counted) for rows in (0, 500_000, 2**22, 2**22 + 1, 10**7, 5 * 10**7)] == [
        1, 1, 1, 2, 4, 16,
    ]  # fmt: skip
    assert [sizes.parts(rows, sizes.capped) for rows in (10**7, 2**24 + 1, 5 * 10**7)] == [1, 2, 4]


def test_numbered_rows_and_slow_conditions_are_read_once() -> None:
    rows = table(CROWD)
    for unit, sql, again in (
        ("id", SQL, True),
        ("id", SQL.replace("x > 1", "k > 'k'"), True),
        ("id", SQL.replace("x > 1", "k LIKE 'k%1%2'"), False),
        ("row", SQL, False),
    ):
        policy = {
            "budget": {"epsilon": 1000, "delta": 1e-4},
            "privacy": {"max_groups": 2, "max_rows": 3, "limits_share": 0},
            "tables": {"t": {"unit": unit, "columns": {"x": {"min": 0, "max": 10}}}},
        }
        with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": rows}, ledger=":memory:") as session:
            (step,) = session.explain(sql, epsilon=1, delta="1e-6").steps
            cursor = cursor_of(session)
            found = many_rows.capped(step.statement, {"t"}, cursor, Sizes(few=-1))
            cursor.close()
            assert (found is not None) == again
