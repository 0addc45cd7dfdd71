"""An index of heavy units changes no integer, and whatever isn't an index of these very rows is passed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from source_kinds import KINDS, csv_type
from sqlglot import exp
from support import cursor_of

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.backends.base import Exact
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.heavy_units import heavy_units
from dpsql.backends.duckdb.run import execute
from dpsql.backends.listed import HeavyUnits, Listed, listed_for
from dpsql.backends.statements.bounding import Form
from dpsql.backends.statements.render import render
from dpsql.backends.statements.results import integers
from dpsql.backends.statements.rows import CELLS
from dpsql.cli.main import cli
from dpsql.plan.nodes import Union
from dpsql.quote import indexed, refined
from dpsql.quote.indexed import uses_of
from dpsql.quote.model import Step
from dpsql.quote.refined import LISTED, told_apart
from dpsql.session import Engine
from dpsql.statistics.base import Choice
from dpsql.statistics.deviation import Deviation
from dpsql.statistics.ranks import Extreme, Quantiles
from dpsql.store import unit_index

N = 3
COLUMNS: dict[str, Any] = {"k": {"values": ["a", "b"]}, "v": {"min": -5, "max": 9}}
Row = tuple[Any, str | None, int | None]
QUERIES: dict[str, dict[str, Any]] = {
    "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k": {},
    "SELECT k, AVG(v), COUNT(v) FILTER (WHERE v > 0) FROM t WHERE v <> 4 GROUP BY k": {},
    "SELECT COUNT(*), SUM(v) FROM t": {},
    "SELECT k, COUNT(*), SUM(v) FROM t WHERE v > -9 GROUP BY k": {"max_rows": 5, "max_rows_per_group": N},
    "SELECT SUM(w) FROM (SELECT id, v * 2 AS w FROM t WHERE id <> '3') AS s WHERE w < 12": {},
    "SELECT k, COUNT(*) FROM t WHERE id IN (SELECT id FROM t WHERE v > 5) GROUP BY k": {},
    "SELECT COUNT(*) FROM (SELECT id, v, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v) AS n FROM t) AS s "
    "WHERE n < 9": {},
    f"SELECT k, {', '.join(f'SUM(v % {i})' for i in range(2, 13))}, COUNT(*) FROM t GROUP BY k": {},
    f"SELECT COUNT(*), {', '.join(f'SUM(v + {i}) FILTER (WHERE v < {i})' for i in range(11))} FROM t": {},
    "SELECT k AS l, v > 0 AS p, COUNT(*), SUM(v) FROM (SELECT id, k, v FROM t) GROUP BY l, p": {
        "max_rows": 50,
        "max_rows_per_group": N,
    },
    "SELECT label, COUNT(*) FROM t JOIN codes USING (k) GROUP BY label": {"max_rows": 9, "max_rows_per_group": N},
    "SELECT COUNT(DISTINCT v) FROM t": {},
    "SELECT label, COUNT(*), SUM(v) FROM t JOIN codes USING (k) GROUP BY label": {},
    "SELECT label, COUNT(DISTINCT v) FROM t LEFT JOIN codes USING (k) WHERE v < 5 GROUP BY label": {},
    "SELECT a.k, COUNT(*), SUM(b.v) FROM t AS a JOIN t AS b ON a.id = b.id AND b.v = 1 GROUP BY a.k": {},
    "SELECT COUNT(*), SUM(a.v) FROM t AS a LEFT JOIN t AS b ON a.id = b.id AND a.v < b.v": {"max_rows": 50},
    "SELECT k, COUNT(DISTINCT v % 5), COUNT(*) FROM t WHERE v <> 4 GROUP BY k": {"max_rows": 4},
    "SELECT k, COUNT(DISTINCT v) FILTER (WHERE v > -2) FROM t GROUP BY k": {"max_rows": 5, "max_rows_per_group": N},
    "SELECT k, MEDIAN(v) FROM t GROUP BY k": {},
    "SELECT MEDIAN(v), MAX(v) FILTER (WHERE v < 7), COUNT(*) FROM t": {},
    "SELECT k, QUANTILE_DISC(v, [0.2, 0.9]), MAD(v) FROM t WHERE v <> 4 GROUP BY k": {"max_rows": 4},
    "SELECT k, MIN(NULLIF(v, 2)), SUM(v) FROM t GROUP BY k": {"max_rows": 5, "max_rows_per_group": N},
    "SELECT k, MEDIAN(v) FILTER (WHERE v > -2) FROM t GROUP BY k": {"max_rows": 50, "max_rows_per_group": N},
    "SELECT label, MEDIAN(v) FROM t JOIN codes USING (k) GROUP BY label": {},
}


def person(name: str, count: int, v: int | None = None) -> list[Row]:
    return [(name, ("a", "b", "a", "elsewhere", None)[i % 5], i % 12 - 6 if v is None else v) for i in range(count)]


CROWD = [row for u in range(12) for row in person(str(u), u % 6)] + [(None, "a", 9)] * 4
HEAVY = person("heavy", 40, 9)
OWNED = [row for row in CROWD if row[0] is not None] + HEAVY
SAME = person("heavy", 30, -5)


def table(rows: Sequence[Row]) -> pa.Table:
    types = {"id": pa.string(), "k": pa.string(), "v": pa.int64()}
    return pa.table({name: pa.array([r[i] for r in rows], t) for i, (name, t) in enumerate(types.items())})


def opened(rows: Sequence[Row], kind: str, folder: Path, adjacency: str = "add_remove") -> dpsql.Session:
    folder.mkdir(parents=True)
    data = table(rows)
    placed = KINDS[kind](data, folder)
    columns = {name: {"type": csv_type(data.schema.field(name).type)} for name in data.column_names}
    typed = {name: {**(columns[name] if "CSV" in kind else {}), **COLUMNS.get(name, {})} for name in columns}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**6, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": N, "adjacency": adjacency},
            "tables": {
                "t": {**placed.entry, "unit": "id", "columns": typed},
                "codes": {"public": True},
                "twice": {"public": True},
            },
        }
    )
    codes = pa.table({"k": ["a", "b", "c"], "label": ["x", "x", "y"]})
    objects = {"codes": codes, "twice": pa.concat_tables([codes, codes])}
    if placed.object is not None:
        objects["t"] = placed.object
    return dpsql.connect(policy, sources=objects, ledger=":memory:")


Change = Callable[[HeavyUnits], HeavyUnits]


def planned(session: dpsql.Session, sql: str, **limits: Any) -> Step:
    (step,) = session.explain(sql, epsilon=1, **limits).steps
    assert isinstance(step, Step)
    return step


def measured(session: dpsql.Session, step: Step, change: Change | None = None) -> list[list[list[int]]]:
    """The integers that get noise, by way of an index: the same as without it, unless it was changed."""
    cursor = cursor_of(session)
    lists = indexes_of(step, cursor)
    exact = execute(step, cursor, None, lists if change is None else [change(one) for one in lists])
    plain = execute(step, cursor) if change is None else exact
    cursor.close()
    assert columns(step, exact) == columns(step, plain)
    return columns(step, exact)


def indexes_of(step: Step, cursor: Any) -> list[HeavyUnits]:
    """What all statements of a step need."""
    uses = uses_of(step)
    assert len(uses) > 0
    found = [heavy_units(need.of, need.limit, cursor, need.by) for use in uses for need in use.needs]
    lists = [one for one in found if one is not None]
    assert all(listed_for(use, lists) is not None for use in uses)
    return lists


def columns(step: Step, exact: Any) -> list[list[list[int]]]:
    made = (_measured(m.statistic, exact, 1 if step.cells is None else step.cells.num_rows) for m in step.measurements)
    return [[[int(v) for v in column] for column in one] for one in made]


def _measured(statistic: Any, exact: Any, cells: int) -> Any:
    """What gets noise; of a choice what its scores are made of: how often each value occurs in each cell."""
    if not isinstance(statistic, Quantiles | Extreme | Deviation):
        return statistic.columns([exact.tallies[t] for t in statistic.tallies])
    counts, grid = exact.spectra[statistic.spectrum], statistic.value.grid
    found = np.zeros((cells, grid.span + 1), dtype=np.int64)
    np.add.at(found, (counts.cells, counts.values - grid.low), counts.counts)
    return [found.reshape(-1)]


def share(step: Step, one: Any, other: Any) -> Fraction:
    """Which part of its claim a measurement has moved by, at most."""
    found: list[Fraction] = []
    for m, here, there in zip(step.measurements, one, other, strict=True):
        off = [x - y for a, b in zip(here, there, strict=True) for x, y in zip(a, b, strict=True)]
        if isinstance(m.statistic, Choice):  # Theorem QUANTILE-1 counts on the mass of rows
            unit = step.checked.bounding.contribution
            assert unit.mass is not None
            found.append(Fraction(sum(map(abs, off))) / ((2 if unit.replace else 1) * unit.mass * 2**step.bits))
            continue
        found.append(Fraction(sum(map(abs, off))) / m.sensitivity.l1)
        found.append(Fraction(sum(d * d for d in off)) / m.sensitivity.l2_squared)
    return max(found)


def moved(pair: tuple[dpsql.Session, dpsql.Session], sql: str, change: Change | None, **limits: Any) -> Fraction:
    """The same for two neighbours. What is planned can't depend on rows, so it is planned once."""
    step = planned(pair[0], sql, **limits)
    return share(step, *(measured(session, step, change) for session in pair))


FIRST = next(iter(QUERIES))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(3)
def test_with_an_index_one_unit_moves_integers_by_no_more_than_is_claimed(
    kind: str, adjacency: str, tmp_path: Path
) -> None:
    place, other = list(KINDS).index(kind), CROWD if adjacency == "add_remove" else CROWD + SAME
    queries = list(QUERIES) if kind == "Arrow" else [FIRST, list(QUERIES)[1 + place % (len(QUERIES) - 1)]]
    most = Fraction(0)
    with (
        opened(CROWD + HEAVY, kind, tmp_path / "with", adjacency) as one,
        opened(other, kind, tmp_path / "other", adjacency) as neighbour,
    ):
        for sql in queries:
            found = moved((one, neighbour), sql, None, **QUERIES[sql])
            assert found <= 1, sql
            most = max(most, found)
    assert most > Fraction(9, 10)  # and the claim is nearly used up, so that a little more would be seen


def test_told_apart_in_one_look_at_the_rows_units_have_the_same_integers(tmp_path: Path) -> None:
    """As statements for Spark have it (told_apart), here in DuckDB. A list may name more units than it must."""
    compared = 0
    with opened(CROWD + HEAVY, "Arrow", tmp_path / "a") as session, closing(cursor_of(session)) as cursor:
        for sql, limits in QUERIES.items():
            step = planned(session, sql, **limits)
            if step.histograms or step.matchings:  # these have no list there
                continue
            compared += 1
            (use,) = uses_of(step)
            found = listed_for(use, indexes_of(step, cursor))
            assert found is not None and found.units.num_rows
            for more in ([], ["1", "nobody"]):
                units = pa.table({"unit": [*found.units["unit"].to_pylist(), *more]})
                exact = in_one_look(step, units, cursor)
                assert columns(step, exact) == columns(step, execute(step, cursor)), sql
    assert compared > 10


def in_one_look(step: Step, units: pa.Table, cursor: Any) -> Exact:
    tree = render(told_apart(step.statement), Form.FEW)
    for part in tree.find_all(exp.Select):
        part.set("hint", None)
    cells = step.cells
    named = {LISTED: units}
    if cells is not None:
        named[CELLS] = cells.append_column("cell", pa.array(range(cells.num_rows), pa.int64()))
    for name, values in named.items():
        cursor.register(name, values)
    result = cursor.arrow(text_of(tree))
    for name in named:
        cursor.unregister(name)
    result = result if cells is None else result.sort_by("cell")
    return Exact({tally: integers(result.column(f"t{i}")) for i, tally in enumerate(step.tallies)})


# ---------------------------------------------------------------- what would go wrong without each condition


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dpsql.Session, dpsql.Session]]:
    """With the heavy unit, and without it."""
    folder = tmp_path_factory.mktemp("pair")
    with opened(CROWD + HEAVY, "Arrow", folder / "a") as one, opened(CROWD, "Arrow", folder / "b") as other:
        yield one, other


def test_an_index_without_one_heavy_unit_would_break_the_claim(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    def without_the_heaviest(heavy: HeavyUnits) -> HeavyUnits:
        return replace(heavy, units=heavy.units.slice(1))

    for sql in (FIRST, "SELECT k, MEDIAN(v) FROM t GROUP BY k", "SELECT MEDIAN(v) FROM t"):
        assert moved(pair, sql, None) <= 1 < moved(pair, sql, without_the_heaviest)


def test_a_list_that_is_short_by_one_unit_would_break_the_claim_of_distinct_values(tmp_path: Path) -> None:
    """Without its name, and with that of somebody who has as many rows as a limit that is one too large allows."""
    crowd = [(unit, "a", v) for unit, _, v in CROWD]
    with opened(crowd, "Arrow", tmp_path / "b") as other:
        for count, without in ((40, 0), (N + 1, N + 1)):
            rows = crowd + [("heavy", "a", 100 + i) for i in range(count)]

            def short(heavy: HeavyUnits, without: int = without) -> HeavyUnits:
                few = pa.compute.greater(heavy.units["rows"], without)
                return replace(heavy, units=heavy.units.filter(few) if without else heavy.units.slice(1))

            with opened(rows, "Arrow", tmp_path / f"{count}") as one:
                sql = "SELECT COUNT(DISTINCT v) FROM t"
                assert moved((one, other), sql, None) == 1 < moved((one, other), sql, short)


def test_an_index_from_one_row_more_on_would_break_the_claim(tmp_path: Path) -> None:
    """A unit with N + 1 rows isn't listed above N + 1, and keeps them all under a limit of N."""
    rows = CROWD + person("heavy", N + 1, 9)[: N + 1]
    flat = [(unit, "a", v) for unit, _, v in rows]
    crowd = [(unit, "a", v) for unit, _, v in CROWD]
    with opened(flat, "Arrow", tmp_path / "a") as one, opened(crowd, "Arrow", tmp_path / "b") as other:

        def later(heavy: HeavyUnits) -> HeavyUnits:
            few = heavy.units.filter(pa.compute.greater(heavy.units["rows"], N + 1))
            return replace(heavy, units=few)

        for sql in ("SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k, MAX(v) FROM t GROUP BY k"):
            assert moved((one, other), sql, None) <= 1 < moved((one, other), sql, later)


PEAK: dict[str, Any] = {"max_rows": 50, "max_rows_per_group": N}


@pytest.mark.parametrize(
    "sql", ["SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k, COUNT(DISTINCT v) FROM t GROUP BY k"]
)
def test_a_list_by_groups_that_is_short_by_one_unit_would_break_the_claim(sql: str, tmp_path: Path) -> None:
    """Without the unit's name, and from one row more on, of units that are within all limits but that of a group."""
    with opened(CROWD, "Arrow", tmp_path / "b") as other:
        for count, without in ((40, 0), (N + 1, N + 1)):

            def short(heavy: HeavyUnits, without: int = without) -> HeavyUnits:
                if not heavy.by:
                    return heavy
                few = pa.compute.greater(heavy.units["most"], without)
                return replace(heavy, units=heavy.units.filter(few) if without else heavy.units.slice(1))

            rows: list[Row] = [*CROWD, *(("heavy", "a", 100 + i) for i in range(count))]
            with opened(rows, "Arrow", tmp_path / f"{count}") as one:
                assert moved((one, other), sql, None, **PEAK) <= 1
                assert alone((one, other), sql, None) <= N < alone((one, other), sql, short)


def alone(pair: tuple[dpsql.Session, dpsql.Session], sql: str, change: Change | None) -> Fraction:
    """By how many rows, or values, the group moves that moves most."""
    step = planned(pair[0], sql, **PEAK)
    one, other = (measured(session, step, change) for session in pair)
    off = [
        abs(x - y)
        for a, b in zip(one, other, strict=True)
        for c, d in zip(a, b, strict=True)
        for x, y in zip(c, d, strict=True)
    ]
    return Fraction(max(off), 1 if "DISTINCT" in sql else 2**step.bits)


def test_groups_are_those_of_the_tables_own_columns(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    def needs(sql: str, **limits: Any) -> list[tuple[int, list[str]]]:
        (use,) = uses_of(planned(pair[0], sql, **{**PEAK, **limits}))
        return [(need.limit, [one.sql() for one in need.by]) for need in use.needs]

    by_k = [(50, []), (N, ['"k"'])]
    assert needs("SELECT k, COUNT(*) FROM t GROUP BY k") == by_k
    assert needs("SELECT l, COUNT(*) FROM (SELECT k AS l, v FROM t WHERE v < 5) GROUP BY l") == by_k
    assert needs("SELECT k, label, COUNT(*) FROM t JOIN codes USING (k) GROUP BY k, label") == by_k
    # What comes from elsewhere tells no rows of the table apart: then the limit is one of all rows.
    assert needs("SELECT label, COUNT(*) FROM t JOIN codes USING (k) GROUP BY label") == [(N, [])]
    assert needs("SELECT COUNT(*) FROM t") == [(N, [])]
    assert needs("SELECT k, COUNT(*) FROM t GROUP BY k", max_rows_per_group=50) == [(50, [])]
    found = needs(
        "SELECT n, COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY v) < 3 AS n FROM t) GROUP BY n"
    )
    assert found == [(N, [])]


def test_a_list_by_other_groups_serves_nothing(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    (use,) = uses_of(planned(pair[0], "SELECT k, COUNT(*) FROM t GROUP BY k", **PEAK))
    (other,) = uses_of(planned(pair[0], "SELECT v > 0 AS p, COUNT(*) FROM t GROUP BY p", **PEAK))
    cursor = cursor_of(pair[0])
    rows, peaks = (heavy_units(need.of, need.limit, cursor, need.by) for need in use.needs)
    assert rows is not None and peaks is not None
    assert listed_for(use, [rows, peaks]) is not None
    assert listed_for(other, [rows, peaks]) is None and listed_for(use, [peaks]) is None
    assert not rows.serves(use.needs[1]) and not peaks.serves(use.needs[0])
    larger = replace(use, needs=(use.needs[0], replace(use.needs[1], limit=N - 1)))
    assert listed_for(larger, [rows, peaks]) is None


def test_an_index_of_a_larger_threshold_serves_no_smaller_limit(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    (use,) = uses_of(planned(pair[0], FIRST))
    (need,) = use.needs
    cursor = cursor_of(pair[0])
    at, above = heavy_units(need.of, N, cursor), heavy_units(need.of, N + 1, cursor)
    assert at is not None and above is not None
    assert at.serves(need) and not above.serves(need)
    assert listed_for(use, [above, at]) is not None and listed_for(use, [above]) is None


FANNED_OUT = {
    "SELECT COUNT(*) FROM t AS a JOIN t AS b USING (id)": [N, 1],  # whoever has two rows here has to be listed, too
    "SELECT COUNT(*) FROM t JOIN twice USING (k)": [],
    "SELECT COUNT(*) FROM (SELECT id, v FROM t UNION ALL SELECT id, v FROM t) AS u": [],
}


@pytest.mark.parametrize("sql", FANNED_OUT)
def test_rows_that_stand_there_more_often_than_in_the_table_have_no_index(
    pair: tuple[dpsql.Session, dpsql.Session], sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [need.limit for use in uses_of(planned(pair[0], sql)) for need in use.needs] == FANNED_OUT[sql]
    # And were it otherwise: a unit with no more rows than the limit, and with more after the join, would keep them.
    crowd = [r for r in CROWD if r[0] is not None]
    rows: list[Row] = [("heavy", "a", i) for i in range(N)]
    part_of, over = vars(indexed)["_part_of"], vars(refined)["_over"]

    def careless(relation: Any, unit: Any) -> Any:
        return part_of(relation.inputs[0] if isinstance(relation, Union) else relation, unit)

    def careless_over(gridded: Any, change: Any) -> Any:
        union = gridded.input.input
        if not isinstance(union, Union):
            return over(gridded, change)
        inputs = tuple(over(replace(gridded, input=one), change).input for one in union.inputs)
        return replace(gridded, input=replace(gridded.input, input=replace(union, inputs=inputs)))

    monkeypatch.setattr(indexed, "_part_of", careless)
    monkeypatch.setattr(indexed, "_matches", lambda _: ())
    monkeypatch.setattr(refined, "_over", careless_over)
    with opened(crowd + rows, "Arrow", tmp_path / "a") as one, opened(crowd, "Arrow", tmp_path / "b") as other:
        assert moved((one, other), sql, lambda heavy: replace(heavy, complete=False)) > 1


def test_a_need_that_no_list_serves_leaves_the_plain_way(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    (use,) = uses_of(planned(pair[0], next(iter(FANNED_OUT))))
    cursor = cursor_of(pair[0])
    first, second = (heavy_units(need.of, need.limit, cursor) for need in use.needs)
    assert first is not None and second is not None
    assert listed_for(use, [first]) is None
    both = listed_for(use, [first, second])
    assert both is not None and set(both.units["unit"].to_pylist()) == set(second.units["unit"].to_pylist())
    # Another table's units may have another type: they are listed in the first one's, or the plain way is taken.
    other = replace(use.needs[1].of, table="other")
    theirs = pa.table({"unit": pa.array([7, 2**40]), "rows": pa.array([2, 2])})
    small = pa.table({"unit": pa.array([5, 7], pa.int32()), "rows": pa.array([9, 4])})
    two = replace(use, needs=(use.needs[0], replace(use.needs[1], of=other)))
    lists = [replace(first, units=small), replace(second, of=other, units=theirs.slice(0, 1))]
    together = listed_for(two, lists)
    assert together is not None and sorted(together.units["unit"].to_pylist()) == [5, 7]
    assert listed_for(two, [lists[0], replace(lists[1], units=theirs)]) is None


def test_other_bounds_than_those_of_rows_have_no_index(pair: tuple[dpsql.Session, dpsql.Session]) -> None:
    for sql in (
        "SELECT COUNT(DISTINCT id) FROM t",
        "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k",
        "SELECT k, COUNT(DISTINCT v) FROM t GROUP BY k HAVING COUNT(DISTINCT id) > 2",
        "SELECT SUM(v, contribution_bounds_per_group => (0, 5)) FROM t",
        "SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id) AS g",
        "SELECT k, MEDIAN(v) FROM t GROUP BY k HAVING COUNT(DISTINCT id) > 2",
    ):
        assert uses_of(planned(pair[0], sql, max_groups=1)) == (), sql


# ---------------------------------------------------------------- the file, and what is kept in memory


POLICY = """
[budget]
epsilon = 1000
[privacy]
max_rows = 3
limits_share = 0
[tables.t]
source = "t.parquet"
unit = "id"
[tables.t.columns]
k = { values = ["a", "b"] }
v = { min = -5, max = 9 }
[tables.lines]
source = "lines.parquet"
unit = { through = "orders", on = { o = "o" } }
[tables.orders]
source = "orders.parquet"
unit = "id"
key = "o"
"""


def write(folder: Path, rows: Sequence[Row], *, orphans: bool = False) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(table(rows), folder / "t.parquet")
    owners = [row[0] for row in rows]
    pq.write_table(pa.table({"o": list(range(len(rows))), "id": owners}), folder / "orders.parquet")
    pointing = [i for i in range(len(rows)) for _ in range(2)] + ([10**6] if orphans else [])
    pq.write_table(pa.table({"o": pointing}), folder / "lines.parquet")
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


def steward(command: str, policy: Path, *more: str) -> str:
    done = CliRunner().invoke(cli, [command, "--steward", "--policy", str(policy), *more])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    made = write(tmp_path, OWNED)
    steward("check", made)
    steward("index", made)
    return made


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[HeavyUnits | None]:
    """By which index each statement was measured; tables may be small, and units heavy."""
    seen: list[HeavyUnits | None] = []

    def watched(step: Any, cursor: Any, given: Any, heavy: Sequence[HeavyUnits], again: Any) -> Any:
        seen.extend(heavy or (None,))
        return execute(step, cursor, given, heavy, again)

    monkeypatch.setattr(duckdb_backend, "execute", watched)
    monkeypatch.setattr(Listed, "helps", True)
    return seen


FILTERED = "SELECT COUNT(*) FROM t WHERE v < 9"


def asked(policy: Path, sql: str = FILTERED, **options: Any) -> None:
    with dpsql.connect(policy) as session:
        session.query(sql, epsilon=1, fresh=True, **options)


def test_the_file_is_used_by_limits_that_it_serves_and_its_owner_alone_reads_it(
    policy: Path, used: list[HeavyUnits | None]
) -> None:
    file = policy.with_name("policy.ledger.sqlite.index")
    assert file.stat().st_mode & 0o777 == 0o600
    asked(policy)
    asked(policy, max_rows=50)
    asked(policy, max_rows=2)
    first, second, third = used
    assert first is not None and second is not None and third is None
    assert first.above == N and first.units["rows"][0].as_py() == len(HEAVY)


def test_along_links_the_owner_is_asked_for_only_where_rows_may_have_none(
    policy: Path, used: list[HeavyUnits | None], tmp_path: Path
) -> None:
    sql = "SELECT COUNT(*) FROM lines"
    asked(policy, sql)
    (tmp_path / "orphans").mkdir()
    other = write(tmp_path / "orphans", OWNED, orphans=True)
    steward("check", other)
    steward("index", other)
    asked(other, sql)
    complete = [heavy.complete for heavy in used if heavy is not None]
    assert complete == [True, False]
    for one in (policy, other):
        with dpsql.connect(one) as session:
            assert measured(session, planned(session, sql))  # the same integers as in the plain way


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)


SPOILED: dict[str, Callable[[Path], object]] = {
    "forged": _flip,
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-8]),
    "cut after the tag": lambda file: file.write_bytes(file.read_bytes()[:46]),
    "empty": lambda file: file.write_bytes(b""),
    "of another format": lambda file: file.write_bytes(b"dpsql index 9\n" + file.read_bytes()[14:]),
    "read by others": lambda file: file.chmod(0o640),
    "gone": lambda file: file.unlink(),
    "under another key": lambda file: Ledger.rotate_key(file.with_suffix("")),
    "of another version": lambda file: (
        write(file.parent, CROWD + HEAVY),
        steward("refresh", file.parent / "policy.toml"),
    ),
    "of the same rows, written anew": lambda file: steward("refresh", write(file.parent, OWNED)),
    "of another unit": lambda file: _other_unit(file.parent / "policy.toml"),
}


def _other_unit(policy: Path) -> None:
    """The account begins anew with its key, for the same data by another unit: the index stays where it was."""
    file = policy.with_name("policy.ledger.sqlite.index")
    content = file.read_bytes()
    key = policy.with_name("policy.ledger.sqlite.key").read_bytes()
    for one in policy.parent.glob("policy.ledger*"):
        one.unlink()
    policy.write_text(POLICY.replace('unit = "id"\n[tables.t.columns]', 'unit = "k"\n[tables.t.columns]'))
    for name, data in (("key", key), ("index", content)):
        made = policy.with_name(f"policy.ledger.sqlite.{name}")
        made.write_bytes(data)
        made.chmod(0o600)
    steward("budget", policy, "--create")
    steward("check", policy)


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.sample(3)
def test_a_file_that_is_no_index_of_these_data_is_passed_over(
    how: str, policy: Path, used: list[HeavyUnits | None]
) -> None:
    asked(policy)
    SPOILED[how](policy.with_name("policy.ledger.sqlite.index"))
    asked(policy)
    assert used[0] is not None and used[1:] == [None]
    steward("index", policy)  # and a new one is used again
    asked(policy)
    assert used[2] is not None


def test_only_a_steward_makes_an_index(policy: Path) -> None:
    refused = CliRunner().invoke(cli, ["index", "--policy", str(policy)])
    assert refused.exit_code == 2 and "--steward" in refused.output
    with Engine.open(policy) as engine, pytest.raises(dpsql.PolicyError) as found:
        engine.index()
    assert found.value.code == "steward" and "engine.index(steward=True)" in str(found.value)


def test_an_engine_keeps_what_a_query_over_all_rows_found_and_only_what_was_paid_for(
    tmp_path: Path, used: list[HeavyUnits | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[object] = []
    policy = write(tmp_path, CROWD + HEAVY)
    monkeypatch.setattr(unit_index, "LARGE", 0)
    with Engine.open(policy) as engine, engine.session() as session:
        real = heavy_units

        def watched(*given: Any) -> Any:
            spent.append(session.budget.spent.epsilon)
            return real(*given)

        monkeypatch.setattr(duckdb_backend, "heavy_units", watched)
        session.query(FILTERED, epsilon=1)  # doesn't look at all rows, and looks for nothing
        session.query("SELECT COUNT(*) FROM t", epsilon=1)
        session.query("SELECT SUM(v) FROM t WHERE v < 8", epsilon=1)
        assert spent == [2]  # its price was on the disk
        assert used[0] is None and used[1] is not None and used[2] is used[1]
        assert used[1].above == max(1, N // 2)
        for _ in range(2):
            session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1, fresh=True, **PEAK)
        by_groups = used[4]
        assert len(spent) == 2 and by_groups is used[6] and by_groups is not None and by_groups.by
        engine.index(steward=True)
        assert {by for _, by in engine._indexes._kept} == {(), by_groups.by}
        engine._indexes._look()
        assert {by for _, by in engine._indexes._read} == {()}  # the file has none by groups


def test_an_engine_looks_for_heavy_units_when_they_were_missing_twice_and_never_again_in_vain(
    tmp_path: Path, used: list[HeavyUnits | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = write(tmp_path, CROWD + HEAVY)
    monkeypatch.setattr(unit_index, "LARGE", 0)
    looks: list[object] = []

    def watched(*given: Any) -> Any:
        looks.append(given[0])
        return None if len(looks) == 1 else heavy_units(*given)

    monkeypatch.setattr(duckdb_backend, "heavy_units", watched)
    for found in (False, True):  # units of a kind that no index lists, and others
        with Engine.open(policy) as engine, engine.session() as session:
            for _ in range(4):
                session.query(FILTERED, epsilon=1, fresh=True)
        assert len(looks) == 1 + found
        assert [one is not None for one in used[-4:]] == [False, found, found, found]


def test_nothing_is_kept_of_data_that_changed_while_they_were_read(
    tmp_path: Path, used: list[HeavyUnits | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = write(tmp_path, CROWD + HEAVY)
    monkeypatch.setattr(unit_index, "LARGE", 0)
    with Engine.open(policy) as engine, engine.session() as session:
        real = heavy_units

        def and_then_written(*given: Any) -> Any:
            found = real(*given)
            os.utime(tmp_path / "t.parquet", ns=(1, 1))
            return found

        monkeypatch.setattr(duckdb_backend, "heavy_units", and_then_written)
        with pytest.raises(dpsql.DataError):
            session.query("SELECT COUNT(*) FROM t", epsilon=1)
        assert len(used) == 1 and not engine._indexes._kept
