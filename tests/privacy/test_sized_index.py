"""Lists of units by size, and tables of all units: they change no integer, and one unit too few breaks the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from privacy import test_limits
from privacy.test_sizes import CROWD, MOST, PEOPLE, QUERIES, Row, anybody, most, opened, policy, row, stage_of, table
from source_kinds import KINDS
from support import cursor_of, examples

import dpsql
from dpsql.backends.base import Exact
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb.heavy_units import all_units, heavy_units
from dpsql.backends.duckdb.run import execute
from dpsql.backends.listed import HeavyUnits, listed_for
from dpsql.quote.indexed import units_table, uses_of
from dpsql.quote.model import Step
from dpsql.statistics.sized import Sized
from dpsql.store import unit_index

Change = Callable[[HeavyUnits], HeavyUnits]
HEAVY = [one for n, make in enumerate(PEOPLE.values()) for one in make(100 + n)]
UNLISTED = 2  # queries whose values aren't the table's own, or whose rows are read twice: the last ones


def lists(step: Step, cursor: Any) -> list[HeavyUnits]:
    """The tables of all units that a step's statements need."""
    needs = [need for use in uses_of(step) for need in use.needs]
    found = [
        heavy_units(need.of, need.limit, cursor, need.by)
        if need.sizes is None
        else all_units(need.of, need.sizes.columns, cursor)
        for need in needs
    ]
    return [one for one in found if one is not None]


def integers(step: Step, exact: Exact) -> list[list[list[int]]]:
    """What gets noise."""
    found = [m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies]) for m in step.measurements]
    return [[[int(n) for n in column] for column in columns] for columns in found]


def listed_ids(step: Step, known: Sequence[HeavyUnits]) -> set[int]:
    """Whom the statements look at apart."""
    found = [listed_for(use, known) for use in uses_of(step)]
    return {id for one in found if one is not None for id in one.units.column("unit").to_pylist()}


@pytest.mark.parametrize("sql", QUERIES[:-UNLISTED])
@pytest.mark.sample(5)
def test_a_list_by_size_changes_no_integer_and_names_whoever_is_above_it(sql: str) -> None:
    session, random = opened("add_remove"), Random(sql)
    people = [one for n in range(examples(6)) for one in anybody(random, 200 + n)]
    rows = [*CROWD, *HEAVY, *people]
    with closing(cursor_of(session)) as cursor:
        cursor.register("t", table(rows))
        for step in stage_of(session, sql).releases:
            known = lists(step, cursor)
            assert known or "DISTINCT" in sql
            assert integers(step, execute(step, cursor, None, known)) == integers(step, execute(step, cursor))
            named = listed_ids(step, known)
            assert 101 in named or not known  # who has most of everything
            assert set(range(12)) - named  # and there are some who needn't be looked at


@pytest.mark.parametrize("sql", QUERIES[-UNLISTED:])
def test_what_is_no_part_of_the_table_is_never_read_by_a_list(sql: str) -> None:
    """Values of another table of a join, and rows of a union, aren't those that a list adds up."""
    for step in stage_of(opened("add_remove"), sql).releases:
        assert not any(need.sizes for use in uses_of(step) for need in use.needs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(3)
def test_over_every_kind_of_source_a_list_by_size_changes_no_integer(kind: str, tmp_path: Path) -> None:
    clean = [one for one in [*CROWD, *HEAVY] if one[3] is None or abs(one[3]) < 1e9]
    data = table([(*r[:2], None if r[2] is None else max(-99, min(99, r[2])), *r[3:]) for r in clean])
    placed = KINDS[kind](data, tmp_path)
    given = {} if placed.object is None else {"t": placed.object}
    entry: dict[str, Any] = dict(placed.entry)
    made = policy("add_remove", entry)
    with dpsql.connect(made, sources=given, ledger=":memory:") as session, closing(cursor_of(session)) as cursor:
        for sql in QUERIES[:4]:
            for step in stage_of(session, sql).releases:
                known = lists(step, cursor)
                assert listed_ids(step, known)
                assert integers(step, execute(step, cursor, None, known)) == integers(step, execute(step, cursor))


def without_the_heaviest(one: HeavyUnits) -> HeavyUnits:
    return replace(one, units=one.units.filter(pa.array(np.asarray(one.units.column("unit")) != 77)))


def with_no_totals(one: HeavyUnits) -> HeavyUnits:
    """Every total is taken to be a tenth of what it is."""
    columns = {
        name: pa.array([None if v is None else type(v)(v / 10) for v in one.units.column(name).to_pylist()])
        if name.startswith("c")
        else one.units.column(name)
        for name in one.units.column_names
    }
    return replace(one, units=pa.table(columns))


@pytest.mark.parametrize("change", [without_the_heaviest, with_no_totals])
@pytest.mark.parametrize("sql", ["SELECT SUM(i) FROM t", "SELECT k, COUNT(*), SUM(d), AVG(d) FROM t GROUP BY k"])
def test_a_list_without_somebody_who_must_be_on_it_breaks_the_claim(sql: str, change: Change) -> None:
    """So that the tests above would see it."""
    session = opened("add_remove")
    mine = [row(77, "a", 10, 1.0, 20)] * 3 if change is with_no_totals else most(77)
    (step,) = stage_of(session, sql).releases
    sized = [place for place, m in enumerate(step.measurements) if isinstance(m.statistic, Sized)]
    seen = []
    for rows in ([*CROWD, *mine], CROWD):
        with closing(cursor_of(session)) as cursor:
            cursor.register("t", table(rows))
            known = [change(one) for one in lists(step, cursor)]
            seen.append(integers(step, execute(step, cursor, None, known)))
    (place,) = sized
    off = [abs(a - b) for p, q in zip(seen[0][place], seen[1][place], strict=True) for a, b in zip(p, q, strict=True)]
    assert sum(off) > step.measurements[place].sensitivity.l1


@pytest.mark.parametrize("order", ["SUM(i), SUM(i) FILTER (WHERE b)", "SUM(i) FILTER (WHERE b), SUM(i)"])
def test_sums_of_one_column_with_several_filters_have_totals_of_their_own(order: str) -> None:
    session = opened("add_remove")
    (step,) = stage_of(session, f"SELECT {order}, COUNT(*) FROM t").releases
    mine: list[Row] = [row(77, "a", 10, b=False)] * 3  # above the limit by the sum without a FILTER alone
    with closing(cursor_of(session)) as cursor:
        cursor.register("t", table([*CROWD, *mine]))
        known = lists(step, cursor)
        assert 77 in listed_ids(step, known)
        assert integers(step, execute(step, cursor, None, known)) == integers(step, execute(step, cursor))


def test_who_stays_below_the_limit_is_left_out_and_who_has_more_is_not() -> None:
    session = opened("add_remove")
    (step,) = stage_of(session, "SELECT COUNT(*), SUM(i) FROM t").releases
    people = [row(50, "a", None)] * int(MOST - 1) + [row(60, "a", None)] * int(MOST + 1) + [row(70, "a", 10)] * 3
    with closing(cursor_of(session)) as cursor:
        cursor.register("t", table(people))
        assert listed_ids(step, lists(step, cursor)) == {60, 70}


@pytest.mark.parametrize("sql", test_limits.QUERIES)
@pytest.mark.sample(4)
def test_histograms_over_a_table_of_units_have_the_same_integers(sql: str) -> None:
    session = test_limits.opened("add_remove", test_limits.CROWD)
    served = 0
    with session, closing(cursor_of(session)) as cursor:
        cursor.register("t", test_limits.table([*test_limits.CROWD, *test_limits.person(999)]))
        steps = test_limits.histograms(session, sql)
        for step in steps:
            wanted = units_table(step)
            if wanted is None:
                continue
            served += 1
            known = all_units(wanted.of, wanted.columns, cursor)
            assert known is not None
            counted = execute(step, cursor, None, [known])
            assert integers(step, counted) == integers(step, execute(step, cursor))
            short = replace(known, units=known.units.slice(1))
            assert integers(step, execute(step, cursor, None, [short])) != integers(step, counted)
    assert served or any(word in sql for word in ("WHERE x", "UNION", "GROUPING", "DISTINCT", "GROUP BY x"))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an engine looks for: tables of units, and lists of heavy ones. Every source is large enough for it."""
    found: list[str] = []

    def watched(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            found.append(name)
            return made(*given)

        return call

    monkeypatch.setattr(unit_index, "LARGE", 0)
    monkeypatch.setattr(duckdb_backend, "all_units", watched("units", all_units))
    monkeypatch.setattr(duckdb_backend, "heavy_units", watched("list", heavy_units))
    return found


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM t", "SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k"])
def test_an_engine_counts_the_rows_of_each_unit_once(sql: str, counts: list[str], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = [*test_limits.CROWD, *test_limits.person(999)]
    pq.write_table(test_limits.table([(i, k, x if abs(x) < 1e9 else 3.0) for i, k, x in rows]), tmp_path / "t.parquet")
    whole: dict[str, Any] = {
        "budget": {"epsilon": 100, "delta": 0},
        "tables": {"t": {"source": str(tmp_path / "t.parquet"), "unit": "id", "columns": test_limits.COLUMNS}},
    }
    with dpsql.connect(dpsql.Policy.from_dict(whole), ledger=":memory:") as session:
        session.query(sql, epsilon=1)
        assert counts.count("units") <= 1 + ("SUM" in sql)  # values are counted once it is known how large they are
        del counts[:]
        session.query(sql, epsilon=Fraction(1, 2))
        assert counts == []  # kept: the data are the same
