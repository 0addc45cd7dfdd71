"""Lists of units that are above a size, and tables of what each unit has: the same integers as without them.

A unit that is above its limit and isn't listed adds all of its rows, whatever the claimed sensitivity (INDEX-5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from privacy import test_sizes as sizes
from privacy.test_sizes import COLUMNS, CROWD, PEOPLE, Numbers, Row, anybody, measured, most, moved, row, table
from support import cursor_of, examples

import dpsql
from dpsql.backends import listed
from dpsql.backends.base import Exact
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb import heavy_units as heavy_units_module
from dpsql.backends.duckdb.cursor import Cursor
from dpsql.backends.duckdb.heavy_units import all_units, heavy_units
from dpsql.backends.duckdb.run import execute
from dpsql.backends.listed import HeavyUnits, listed_for
from dpsql.quote import limits
from dpsql.quote.indexed import UnitsTable, units_table, uses_of
from dpsql.quote.model import Stage, Step
from dpsql.statistics.sized import Sized
from dpsql.store import unit_index

LISTED = [
    "SELECT COUNT(*), SUM(x) FROM t",
    "SELECT SUM(i) FROM t",
    "SELECT k, SUM(x) FROM t GROUP BY k",
    "SELECT k, COUNT(*), SUM(d), AVG(d) FROM t GROUP BY k",
    "SELECT SUM(CASE WHEN b THEN x END), COUNT(i) FROM t",
    "SELECT k, SUM(i), SUM(i) FILTER (WHERE b), AVG(x), COUNT(i) FROM t GROUP BY k",
    "SELECT SUM(i) FILTER (WHERE x > 1), COUNT(*) FILTER (WHERE NOT b) FROM t",
    "SELECT k, AVG(i), SUM(CAST(b AS INTEGER)) FROM t WHERE i > -2 AND x < 4 GROUP BY k",
    "SELECT SUM(y) FROM (SELECT id, x * x - i AS y FROM t WHERE i BETWEEN -3 AND 9) AS s",
    "SELECT k, SUM(i), COUNT(*) FROM (SELECT id, k, i, ROW_NUMBER() OVER (PARTITION BY id ORDER BY i, x) AS n FROM t) "
    "AS s WHERE n < 20 GROUP BY k",
    "SELECT SUM(u.i), COUNT(*) FROM t AS u JOIN (SELECT id, MAX(x) AS m FROM t GROUP BY id) AS v ON u.id = v.id "
    "AND v.m > 1",
    "SELECT COUNT(*), SUM(a.i) FROM t AS a JOIN t AS b ON a.id = b.id AND b.i = 1",
]
OF_UNITS = [
    "SELECT COUNT(*) FROM (SELECT id, SUM(i) AS s FROM t GROUP BY id) AS u WHERE s > 5",
    "SELECT SUM(CLIP(s, 0, 9)) FROM (SELECT id, SUM(i) FILTER (WHERE b) AS s FROM t GROUP BY id) AS u",
    "SELECT AVG(CLIP(m, -3, 4)), COUNT(*) FROM (SELECT id, MAX(x) AS m, COUNT(*) AS n FROM t GROUP BY id) AS u "
    "WHERE n > 1 OR isnan(m)",
    "SELECT SUM(CLIP(n, 0, 3)), SUM(CLIP(a, 0, 99)) FROM (SELECT id, COUNT(i) AS n, AVG(d) AS a FROM t GROUP BY id) "
    "AS u",
]
HOSTILE = [one for n, make in enumerate(PEOPLE.values()) for one in make(100 + n)]


def steps(number: int, value: float = 0.25) -> list[Row]:
    """Units of sizes that lie close together, of rows and of values: some just below, others just above a limit."""
    return [
        row(1000 + unit, "abcd"[n % 4], 1 + unit % 9, value * (unit % 11), f"0.{10 + unit % 80}", n % 2 == 0)
        for unit in range(number)
        for n in range(1 + unit % 14)
    ]


def lists_of(step: Step, cursor: Cursor) -> list[HeavyUnits]:
    """What the statements of a step need: of a size a table of all units."""
    found = []
    for need in (need for use in uses_of(step) for need in use.needs):
        one = (
            heavy_units(need.of, need.limit, cursor, need.by)
            if need.sizes is None
            else all_units(need.of, need.sizes.columns, cursor)
        )
        assert one is not None
        found.append(one)
    return found


Change = Callable[[HeavyUnits], HeavyUnits]


def by_list(session: dpsql.Session, stage: Stage, rows: Sequence[Row], change: Change | None = None) -> Numbers:
    """The integers that get noise, by way of lists."""
    found = []
    with closing(cursor_of(session)) as cursor:
        cursor.register("t", table(rows))
        for step in stage.releases:
            lists = lists_of(step, cursor)
            assert lists and all(listed_for(use, lists) is not None for use in uses_of(step))
            exact = execute(step, cursor, None, lists if change is None else [change(one) for one in lists])
            for m in step.measurements:
                columns = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
                found.append([[int(n) for n in column] for column in columns])
    return found


def named(session: dpsql.Session, stage: Stage, rows: Sequence[Row]) -> tuple[int, int]:
    """How many units are listed above a size, and how many there are."""
    with closing(cursor_of(session)) as cursor:
        cursor.register("t", table(rows))
        (use,) = uses_of(stage.releases[0])
        lists = lists_of(stage.releases[0], cursor)
        found = listed_for(use, lists)
        assert found is not None and use.needs[0].sizes is not None
        return found.units.num_rows, lists[0].units.num_rows


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with dpsql.connect(sizes.policy("add_remove"), sources={"t": table(CROWD)}, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize("sql", LISTED)
@pytest.mark.sample(2)
def test_by_way_of_a_list_all_integers_are_the_same(session: dpsql.Session, sql: str) -> None:
    dice = Random(sql)
    people = [one for n in range(examples(4)) for one in anybody(dice, 200 + n)]
    for limit, unit in ((Fraction(8), Fraction(3)), (Fraction(7, 3), Fraction(1, 4)), (Fraction(90), Fraction(1))):
        stage = sizes.stage_of(session, sql, most=limit, unit=unit)
        for rows in ([*CROWD, *HOSTILE], [*CROWD, *steps(400)], [*steps(60, 0.01), *people], people):
            assert by_list(session, stage, rows) == measured(session, stage, rows)
    few, every = named(session, sizes.stage_of(session, sql, most=Fraction(9)), [*CROWD, *steps(400)])
    assert 0 < few < every  # or nothing would be told apart


@pytest.mark.parametrize("sql", LISTED)
@pytest.mark.sample(4)
def test_by_way_of_a_list_nobody_moves_integers_by_more_than_is_claimed(session: dpsql.Session, sql: str) -> None:
    stage = sizes.stage_of(session, sql)
    without = by_list(session, stage, CROWD)
    far = [Fraction(0)] * len(without)
    for make in PEOPLE.values():
        changes = moved(by_list(session, stage, [*CROWD, *make(77)]), without)
        for place, (m, (l1, l2_squared)) in enumerate(
            zip((m for step in stage.releases for m in step.measurements), changes, strict=True)
        ):
            assert l1 <= m.sensitivity.l1 and l2_squared <= m.sensitivity.l2_squared
            far[place] = max(far[place], Fraction(l1) / m.sensitivity.l1)
    assert max(far) > Fraction(1, 2)


def test_a_list_that_is_short_by_one_unit_would_break_the_claim(session: dpsql.Session) -> None:
    """Somebody with many rows of nothing, with one enormous sum, and with a little more than is allowed."""

    def without_77(heavy: HeavyUnits) -> HeavyUnits:
        return replace(heavy, units=heavy.units.filter(pa.compute.not_equal(heavy.units["unit"], 77)))

    for sql, mine in (
        (LISTED[0], [row(77)] * 40),
        (LISTED[0], [row(77, "a", 0, 4.25)] * 9),
        (LISTED[1], [row(77, "a", -3)] * 40),
        (LISTED[2], [row(77, "a", 0, 4.25)] * 9),
    ):
        stage = sizes.stage_of(session, sql)
        (claim,) = (m.sensitivity for step in stage.releases for m in step.measurements)
        before = by_list(session, stage, CROWD)
        ((kept, _),) = moved(by_list(session, stage, [*CROWD, *mine]), before)
        ((lost, _),) = moved(by_list(session, stage, [*CROWD, *mine], without_77), before)
        assert kept <= claim.l1 < lost


def test_values_that_are_rounded_up_to_their_grid_are_listed(session: dpsql.Session) -> None:
    """Half a step and a little more becomes a whole one: what values add up to on the grid is twice what they are."""
    sql = "SELECT SUM(x) FROM t"

    def planned(most: Fraction) -> tuple[Stage, int, float]:
        stage = sizes.stage_of(session, sql, most=most)
        (step,), (m,) = stage.releases, stage.releases[0].measurements
        value = step.calls[0].value
        assert value is not None and isinstance(m.statistic, Sized)
        return stage, m.statistic.most, float(value.grid.step)

    least = Fraction(planned(Fraction(1, 10**12))[2]) / sizes.UNIT  # of which a step counts as one row
    for steps_allowed in (3, 5, 40):
        stage, most, grid = planned(least * steps_allowed)
        assert most >= 3
        for rows in (most, most + 1, most + 2, 2 * most - 1):
            for part in (0.51, 0.6, 0.75, 0.99, 1.0, 1.49):
                mine = [row(77, "a", 0, part * grid)] * rows
                assert by_list(session, stage, [*CROWD, *mine]) == measured(session, stage, [*CROWD, *mine])


@pytest.mark.parametrize(
    "sums", ["SUM(i) FILTER (WHERE {}), SUM(i) FILTER (WHERE NOT {})", "SUM(CLIP(i, 0, 10)), SUM(CLIP(i, -3, 0))"]
)
def test_each_sum_of_a_size_has_a_total_of_its_own(session: dpsql.Session, sums: str) -> None:
    """Another FILTER, or another value, than the one of which somebody has much."""
    for condition in ("b", "x > 1"):
        stage = sizes.stage_of(session, f"SELECT {sums.format(condition, condition)} FROM t")
        for b, x in ((True, 0.0), (False, 4.0)):
            mine = [row(77, "a", -3, x, b=b)] * 9 + [row(78, "a", 10, x, b=b)] * 40
            assert by_list(session, stage, [*CROWD, *mine]) == measured(session, stage, [*CROWD, *mine])


def test_a_join_that_repeats_rows_lists_whoever_has_several_there(session: dpsql.Session) -> None:
    """Six rows of the table are far below the limit, and all of their pairs are above it."""
    stage = sizes.stage_of(session, LISTED[-1], most=Fraction(20))
    rows = [*CROWD, *[row(77, "a", 1)] * 6]
    assert by_list(session, stage, rows) == measured(session, stage, rows)


def test_what_no_table_of_units_tells_needs_no_list(session: dpsql.Session) -> None:
    """A value of another table, rows that are repeated, and numbers that are clipped once more within a unit."""
    for sql in (
        "SELECT u.k, COUNT(*), SUM(v.i) FROM t AS u JOIN t AS v ON u.id = v.id GROUP BY u.k",
        "SELECT k, AVG(i) FROM (SELECT id, k, i FROM t UNION ALL SELECT id, k, i FROM t) AS s GROUP BY k",
        "SELECT SUM(CLIP(CAST(i AS HUGEINT) * 1000000000000, 0, 10000000000000000)), COUNT(*) FROM t",
        "SELECT SUM(n) FROM (SELECT id, i, ROW_NUMBER() OVER (PARTITION BY id ORDER BY i, x) AS n FROM t) AS s "
        "WHERE n < 20",
        "SELECT SUM(s), COUNT(*) FROM (SELECT id, k, CLIP(SUM(i), 0, 9) AS s FROM t GROUP BY id, k) AS u",
    ):
        for step in sizes.stage_of(session, sql).releases:
            assert not any(need.sizes for use in uses_of(step) for need in use.needs), sql


# ---------------------------------------------------------------- kept by an engine, for later queries

ASKED = [
    "SELECT COUNT(*), SUM(x) FROM t",
    "SELECT k, COUNT(*), SUM(i) FROM t GROUP BY k",
    "SELECT k, SUM(i) FILTER (WHERE b), COUNT(*) FROM t GROUP BY k",
    "SELECT k, SUM(i) FILTER (WHERE NOT b), COUNT(*) FROM t GROUP BY k",
    "SELECT AVG(x), AVG(x) FILTER (WHERE k = 'a') FROM t WHERE x < 3",
    "SELECT AVG(x) FROM t WHERE x < 2 OR x > 3",
    "SELECT SUM(d) FROM t",
    "SELECT SUM(-d), COUNT(d) FROM t",
    *OF_UNITS,
]


def plenty(entry: dict[str, Any]) -> dpsql.Policy:
    """A policy with as much budget as it takes, for data that may change."""
    return dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**6, "delta": 1e-5},
            "privacy": {"max_groups": 4},
            "data": {"on_change": "accept" if entry else "refuse"},
            "tables": {"t": {**entry, "unit": "id", "columns": COLUMNS}},
        }
    )


CHOSEN = {"usual": 0.1, "limit": 6.0}
"""What is taken for released counts' choice of one query: any is within the claim."""


def choose(dice: Random) -> None:
    CHOSEN.update(usual=0.75 * 2.0 ** -dice.choice([2, 4, 9]), limit=dice.choice([2.0, 6.0, 11.0, 45.0]))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """From now on sizes are as CHOSEN says, each step is measured with an engine's lists and without them, and both
    must be the same. How often which of them served."""
    counted: Counter[str] = Counter()

    def in_both_ways(
        step: Step, cursor: Cursor, given: Mapping[str, Any] | None, heavy: Sequence[HeavyUnits], again: Any
    ) -> Exact:
        plain = execute(step, cursor, given, (), again)
        exact = execute(step, cursor, given, heavy, again)
        for tally, numbers in plain.tallies.items():
            assert list(map(int, numbers)) == list(map(int, exact.tallies[tally])), step.name
        if heavy:
            of_units = units_table(step) is not None
            counted["tables of units" if of_units else "lists"] += 1
        return exact

    monkeypatch.setattr(duckdb_backend, "execute", in_both_ways)
    monkeypatch.setattr(unit_index, "LARGE", 0)
    monkeypatch.setattr(listed, "FEW", 1.0)
    monkeypatch.setattr(limits, "usual_part", lambda *_: CHOSEN["usual"])
    monkeypatch.setattr(limits, "choose_limit", lambda *_: CHOSEN["limit"])
    return counted


def test_whatever_was_asked_before_what_an_engine_kept_gives_the_same_integers(seen: Counter[str]) -> None:
    dice = Random("history")
    people = [one for n in range(12) for one in anybody(dice, 200 + n)]
    many = [row(n, "abcd"[n % 4], n % 13 - 3, n % 9 / 2, n % 99, n % 3 == 0) for n in range(5000, 5900)]
    rows = [*CROWD, *HOSTILE, *people, *steps(300), *many, row(None, "a", 9, 4.25)]
    with dpsql.connect(plenty({}), sources={"t": table(rows)}, ledger=":memory:") as session:
        for _ in range(examples(1)):
            for sql in dice.sample(ASKED, len(ASKED)):
                choose(dice)
                session.query(sql, epsilon=dice.choice([1, 3]), fresh=True)
                if dice.random() < 0.3:  # a list of those with many rows, in the place of the table of all units
                    session.query("SELECT COUNT(*) FROM t", epsilon=1, max_rows=dice.choice([1, 4, 9]), fresh=True)
    assert seen["tables of units"] > 10 and seen["lists"] > 1


def test_what_was_counted_of_other_data_serves_nobody(seen: Counter[str], tmp_path: Path) -> None:
    """Whoever has more rows than before is listed: the table of units is of the version that is read."""
    file, dice = tmp_path / "t.parquet", Random("versions")
    many = [row(n, "abcd"[n % 4], n % 13 - 3, n % 9 / 2, n % 99, n % 3 == 0) for n in range(5000, 5900)]
    pq.write_table(table([*CROWD, *many]), file)
    with dpsql.connect(plenty({"source": str(file)}), ledger=":memory:") as session:
        for more in ([], most(77, "a", 90), [*most(77, "a", 3), *most(78, "b", 200)]):
            pq.write_table(table([*CROWD, *many, *more]), file)
            for sql in ASKED[:3] + OF_UNITS[:2]:
                choose(dice)
                session.query(sql, epsilon=2, fresh=True)
    assert seen["tables of units"] > 5 and seen["lists"] > 1


def test_a_table_of_units_has_few_aggregates_whatever_was_asked_before(seen: Counter[str]) -> None:
    """Analysts choose aggregates, and each is counted and kept for all units: no later query pays for all of them."""
    with dpsql.connect(plenty({}), sources={"t": table([*CROWD, *HOSTILE])}, ledger=":memory:") as session:
        for n in range(2, 3 + 2 * unit_index.TOTALS):
            session.query(
                f"SELECT COUNT(*) FROM (SELECT id, SUM(i % {n}) AS s FROM t GROUP BY id) AS u WHERE s > 3", epsilon=1
            )
        kept = [one.heavy for one in session._engine._indexes._kept.values() if one.heavy.totals]
        assert [len(one.totals) for one in kept] == [unit_index.TOTALS]
        many = ", ".join(f"SUM(i % {n}) AS s{n}" for n in range(2, 3 + unit_index.TOTALS))
        session.query(f"SELECT COUNT(*) FROM (SELECT id, {many} FROM t GROUP BY id) AS u WHERE s2 + s9 > 3", epsilon=1)
    assert seen["tables of units"] == 2 * unit_index.TOTALS + 2


def test_a_list_of_some_units_is_no_table_of_all(session: dpsql.Session) -> None:
    """Nor is one with other aggregates: what a table of all units serves, it serves with those that are asked for."""
    (use,) = uses_of(sizes.stage_of(session, "SELECT COUNT(*), SUM(i) FROM t").releases[0])
    (need,) = use.needs
    assert need.sizes is not None
    with closing(cursor_of(session)) as cursor:
        some, bare = heavy_units(need.of, 1, cursor), all_units(need.of, (), cursor)
        every = all_units(need.of, need.sizes.columns, cursor)
    assert some is not None and bare is not None and every is not None
    asked = UnitsTable(need.of, need.sizes.columns)
    assert [one.holds(UnitsTable(need.of, ())) for one in (some, bare, every)] == [False, True, True]
    assert [one.holds(asked) for one in (some, bare, every)] == [False, False, True]
    assert [one.serves(need) for one in (some, bare, every)] == [False, False, True]
    rows = replace(need, sizes=None, limit=0)
    assert [one.serves(rows) for one in (some, bare, every)] == [False, True, True]


def test_of_too_many_units_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that ends somewhere would lack units."""
    rows = [row(n, "a", n % 5) for n in range(60)]
    with dpsql.connect(plenty({}), sources={"t": table(rows)}, ledger=":memory:") as session:
        stage = sizes.stage_of(session, "SELECT COUNT(*), SUM(i) FROM t")
        (use,) = uses_of(stage.releases[0])
        (need,) = use.needs
        assert need.sizes is not None
        for numbers, there in ((3 * 60, True), (3 * 60 - 1, False), (0, False)):
            monkeypatch.setattr(heavy_units_module, "MOST_NUMBERS", numbers)
            with closing(cursor_of(session)) as cursor:
                found = all_units(need.of, need.sizes.columns, cursor)
            assert (found is not None) == there and (found is None or found.units.num_rows == 60)
