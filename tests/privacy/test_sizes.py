"""Rows and sums within one unit's size: nobody moves them by more than is claimed, and some do by as much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from source_kinds import KINDS
from sqlglot import exp
from support import cursor_of, examples

import dpsql
from dpsql.analyze.bounding import Limits, SizeLimit, SumScale
from dpsql.analyze.checked import analyze, may_have_size
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.run import execute
from dpsql.backends.statements.bounding import Form
from dpsql.backends.statements.render import render
from dpsql.backends.statements.rows import CELLS
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.quote.calibrate import calibrate
from dpsql.quote.model import Ask, Stage, Step
from dpsql.sql.parse import parse
from dpsql.statistics.counts import Units
from dpsql.statistics.sized import Sized

Row = tuple[int | None, str | None, int | None, float | None, Decimal | None, bool | None]
Numbers = list[list[list[int]]]  # of each measurement of each step: its columns
HUGE = 2**63 - 1
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(9, 2)),
        ("b", pa.bool_()),
    ]
)
COLUMNS: dict[str, dict[str, Any]] = {
    "k": {"values": list("abcdefgh"), "nullable": False},
    "i": {"min": -3, "max": 10},
    "x": {"min": 0, "max": 4.25},
    "d": {"min": 0, "max": 99},
}
MOST, UNIT = Fraction(8), Fraction(3)  # in rows; and so much of each sum counts as one
QUERIES = [
    "SELECT COUNT(*) FROM t",
    "SELECT SUM(i) FROM t",
    "SELECT k, SUM(x) FROM t GROUP BY k",
    "SELECT k, COUNT(*), SUM(d), AVG(d) FROM t GROUP BY k",
    "SELECT k, SUM(i) FILTER (WHERE x > 1), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT SUM(CASE WHEN b THEN x END), COUNT(i) FROM t",
    "SELECT k, SUM(i), SUM(i) FILTER (WHERE b), AVG(x), COUNT(i) FROM t GROUP BY k",
    "SELECT k, COUNT(*) FILTER (WHERE b), COUNT(*) FROM t GROUP BY k",
    "SELECT k, b, AVG(x) FROM t GROUP BY ROLLUP (k, b)",
    "SELECT u.k, COUNT(*), SUM(v.i) FROM t AS u JOIN t AS v ON u.id = v.id GROUP BY u.k",
    "SELECT k, AVG(i) FROM (SELECT id, k, i FROM t UNION ALL SELECT id, k, i FROM t) GROUP BY k",
]


def row(id: int | None, k: str | None = "a", i: Any = 0, x: Any = 0.0, d: Any = 0, b: Any = True) -> Row:
    return (id, k, i, x, None if d is None else Decimal(d), b)


CROWD = [row(n, "abcd"[n % 4], n % 7 - 2, n % 5 + 0.25, n, n % 3 == 0) for n in range(12) for _ in range(1 + n % 4)]


def most(id: int, k: str = "a", rows: int = 16) -> list[Row]:
    """Somebody far above every bound, at the upper end of every range."""
    return [row(id, k, HUGE, 1e308, "9999999.99") for _ in range(rows)]


def least(id: int, k: str = "a", rows: int = 16) -> list[Row]:
    """Somebody at the lower end of the only range that goes below 0."""
    return [row(id, k, -HUGE - 1, 1e308, "-9999999.99") for _ in range(rows)]


def spread(end: Callable[..., list[Row]], groups: str) -> Callable[[int], list[Row]]:
    """As much as is allowed in each of several groups."""
    return lambda id: [one for k in groups for one in end(id, k)]


PEOPLE: dict[str, Callable[[int], list[Row]]] = {
    "nobody": lambda id: [],
    "most": most,
    "least": least,
    "elsewhere": lambda id: most(id, "b"),
    "spread": spread(most, "abcd"),
    "spread elsewhere": spread(most, "efgh"),
    "spread below": spread(least, "abcd"),
    "both signs": lambda id: most(id, "a", 16) + least(id, "b", 16),
    "both signs in one group": lambda id: most(id, "a", 16) + least(id, "a", 16),
    "zeros": lambda id: [row(id, "abcd"[n % 4]) for n in range(100)] + most(id, "a", 1),
    "nothing": lambda id: [row(id, None, None, None, None, None) for _ in range(50)] + most(id, "c", 3),
    "nan and infinite": lambda id: [row(id, "a", 3, x) for x in (float("nan"), float("inf"), float("-inf")) * 9],
    "other keys": lambda id: most(id, "zzz", 99) + most(id, "d", 1),
    "filtered out": lambda id: [row(id, "a", 10, 0.5, 99, False) for _ in range(99)] + [row(id, "b", 7, 3.0)],
    "just enough": lambda id: [row(id, "a", 8, 4.0, 8)],
    "barely more": lambda id: [row(id, "a", 8, 4.0, 8), row(id, "b", 1, 4.25, "0.01")],
    "only counted": lambda id: [row(id, "a", 5, 0.0, 0, False)] * 40,
    "only counted elsewhere": lambda id: [row(id, "b", 0, b=False)] * 40,
    "only summed": lambda id: [row(id, "a", None, 4.25, 99)] * 40,
    "ten thousand rows": lambda id: [row(id, "abcd"[n % 4], 1, 0.25, "0.5", n % 2 == 0) for n in range(10_000)],
    "negative": lambda id: [row(id, k, -3, 0.001, "0.01") for k in "abcd" * 5],
}


ENDS = ["most", "least", "elsewhere", "both signs", "spread", "only counted", "only counted elsewhere", "only summed"]


def anybody(random: Random, id: int) -> list[Row]:
    values = [None, 0, 1, -1, -3, 3, 10, HUGE, -HUGE - 1]
    floats = [None, 0.0, -0.0, 5e-324, 0.1, 1.0, 2.5, 4.25, 4.3, 1e308, -1e308, float("nan"), float("inf")]
    cents = [None, 0, "0.01", "0.99", 1, 99, "-5", "9999999.99"]
    return [
        row(
            id,
            random.choice([*"abcd", "zzz", None]),
            random.choice(values),
            random.choice(floats),
            random.choice(cents),
            random.choice([True, False, None]),
        )
        for _ in range(random.choice([1, 2, 5, 40]))
    ]


def table(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, t.type) for c, t in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def policy(adjacency: str, entry: dict[str, Any] | None = None) -> dpsql.Policy:
    whole: dict[str, Any] = {
        "budget": {"epsilon": 100, "delta": 1e-5},
        "privacy": {"adjacency": adjacency, "max_groups": 4},
        "tables": {"t": {**(entry or {}), "unit": "id", "columns": COLUMNS}},
    }
    return dpsql.Policy.from_dict(whole)


@cache
def opened(adjacency: str) -> dpsql.Session:
    return dpsql.connect(policy(adjacency), sources={"t": table(CROWD)}, ledger=":memory:")


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    for adjacency in ("add_remove", "replace_one"):
        opened(adjacency).close()
    opened.cache_clear()


def stage_of(
    session: dpsql.Session, sql: str, mechanism: str = "laplace", most: Fraction = MOST, unit: Fraction = UNIT
) -> Stage:
    """The release with one unit's size bounded in the place of its rows."""
    catalog = session._engine.catalog()
    statement = session._quoting._statement(parse(sql), Limits(), catalog)
    summed = [a.call for one in statement.checked.releases for a in one.arguments if a.recipe.summed]
    scales = [SumScale(c.argument, c.where, c.bounds, unit) for c in summed if c.argument is not None]
    assert all(may_have_size(one) for one in statement.checked.releases)
    limits = replace(statement.limits, size=SizeLimit(most, tuple(dict.fromkeys(scales))))
    stage = calibrate(
        analyze(statement.plan, limits, catalog), Ask(Fraction(1), Fraction(1, 10**6), mechanism, conversion=None)
    )
    for step in stage.releases:
        assert step.checked.bounding.mass is None and step.checked.bounding.size == limits.size
        assert sum(isinstance(m.statistic, Sized) for m in step.measurements) == 1
        assert all(isinstance(m.statistic, Sized | Units) for m in step.measurements)
    return stage


def measured(session: dpsql.Session, stage: Stage, rows: Sequence[Row] | None) -> Numbers:
    """The integers that get noise. rows: in the place of those that the session was opened with."""
    found = []
    cursor = cursor_of(session)
    if rows is not None:
        cursor.register("t", table(rows))
    for step in stage.releases:
        exact = execute(step, cursor)
        for m in step.measurements:
            columns = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
            found.append([[int(n) for n in column] for column in columns])
    cursor.close()
    return found


def moved(one: Numbers, other: Numbers) -> list[tuple[int, int]]:
    """ℓ₁ and ℓ₂² of what moved in each measurement."""
    pairs = [[abs(x - y) for a, b in zip(p, q, strict=True) for x, y in zip(a, b, strict=True)]
             for p, q in zip(one, other, strict=True)]  # fmt: skip
    return [(sum(p), sum(n * n for n in p)) for p in pairs]


@pytest.mark.sample(12)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("sql", QUERIES)
def test_nobody_moves_what_is_measured_by_more_than_is_claimed_and_somebody_does_by_as_much(
    sql: str, adjacency: str
) -> None:
    session = opened(adjacency)
    stage = stage_of(session, sql)
    placed = [(i, m) for i, step in enumerate(stage.releases) for m in step.measurements]
    claims = [m for _, m in placed]
    random = Random(f"{sql}{adjacency}")
    people = {name: make(77) for name, make in PEOPLE.items()}
    people |= {f"anybody {i}": anybody(random, 77) for i in range(examples(2))}
    seen = {name: measured(session, stage, [*CROWD, *rows]) for name, rows in people.items()}
    others = ["nobody"] if adjacency == "add_remove" else ["nobody", *ENDS]
    far = [(0, 0)] * len(claims)
    for name, mine in seen.items():
        for other in others:
            change = moved(mine, seen[other])
            for m, (l1, l2_squared) in zip(claims, change, strict=True):
                assert l1 <= m.sensitivity.l1 and l2_squared <= m.sensitivity.l2_squared, (name, other)
            far = [(max(a, c), max(b, d)) for (a, b), (c, d) in zip(far, change, strict=True)]
    for (i, m), (l1, l2_squared) in zip(placed, far, strict=True):
        if isinstance(m.statistic, Sized):  # attained but for rounded weights: a claim a tenth smaller would be false
            # In one cell a row that is summed is counted, too: whatever replaces a unit has that in common with it.
            alone = adjacency == "replace_one" and not stage.releases[i].checked.keys and m.statistic.width > 1
            assert l1 > (Fraction(1, 2) if alone else Fraction(99, 100)) * m.sensitivity.l1
            # Where values of both signs stand beside counts, no two units have opposite vectors.
            signed = any(part.signed for part in m.statistic.size.parts)
            if m.statistic.width == 1 or adjacency == "add_remove" or not (signed or alone):
                assert l2_squared > Fraction(98, 100) * m.sensitivity.l2_squared


@pytest.mark.sample(6)
@pytest.mark.parametrize("sql", QUERIES)
def test_every_form_of_the_statement_finds_the_same_integers_of_hostile_units(sql: str) -> None:
    session = opened("add_remove")
    random = Random(sql)
    people = [one for n, make in enumerate(PEOPLE.values()) for one in make(100 + n)]
    people += [one for n in range(examples(4)) for one in anybody(random, 200 + n)]
    for step in stage_of(session, sql).releases:
        cursor = cursor_of(session)
        cursor.register("t", table([*CROWD, *people]))
        if step.cells is not None:
            numbers = pa.array(range(step.cells.num_rows), pa.int64())
            cursor.register(CELLS, step.cells.append_column("cell", numbers))
        plain, *others = (sorted(cursor.rows(written(step, form))[1], key=repr) for form in Form)
        assert any(any(one) for one in plain) and all(other == plain for other in others)
        cursor.close()


def written(step: Step, form: Form) -> str:
    """The statement in a form, without where rows are to be, of which DuckDB knows nothing."""
    query = render(step.statement, form)
    for one in query.find_all(exp.Select):
        one.set("distribute", None)
    return text_of(query)


def test_what_a_unit_has_beside_a_sum_does_not_use_up_its_size() -> None:
    """Zeros, NULLs, other keys and rows that a FILTER leaves out: Σ|x| is of what this very aggregate adds up."""
    session = opened("add_remove")
    stage = stage_of(session, "SELECT k, SUM(i) FILTER (WHERE b) FROM t GROUP BY k")
    plain = [row(77, "a", 9), row(77, "b", 3)]
    beside = [row(77, "a", 0)] * 50 + [row(77, "a", None)] * 50 + [row(77, "zzz", 9)] * 9 + [row(77, "a", 9, b=False)]
    assert measured(session, stage, [*CROWD, *plain]) == measured(session, stage, [*CROWD, *plain, *beside])


def test_a_release_has_one_weight_of_each_unit() -> None:
    """A million rows of 0 weigh down the unit's one row with a value: an average stays a mean of rows."""
    session = opened("add_remove")
    stage = stage_of(session, "SELECT COUNT(*), SUM(i), AVG(i), COUNT(i) FILTER (WHERE b) FROM t")
    (step,) = stage.releases
    (m,) = step.measurements
    assert isinstance(m.statistic, Sized)
    factors = [factor for _, factor in m.statistic.terms]
    assert [q.kind for q, _ in m.statistic.terms] == ["present", "absent", "present", "total"]
    for tens, zeros, nulls in ((500, 0, 0), (1, 5000, 0), (30, 70, 900)):
        rows = [row(77, "a", 10)] * tens + [row(77)] * zeros + [row(77, "a", None)] * nulls
        (before,), (after,) = measured(session, stage, CROWD), measured(session, stage, [*CROWD, *rows])
        change = [Fraction(b[0] - a[0], f) for a, b, f in zip(before, after, factors, strict=True)]
        weight = change[0] / (tens + zeros)
        assert change == [weight * n for n in (tens + zeros, nulls, tens + zeros, 10 * tens)] and weight > 0


@pytest.mark.parametrize("kind", ["parquet by pyarrow", "DuckDB file", "Arrow"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.sample(2)
def test_over_any_kind_of_source_nobody_moves_a_size_by_more_than_is_claimed(
    kind: str, adjacency: str, tmp_path: Path
) -> None:
    people = [[], most(77)] if adjacency == "add_remove" else [least(77), most(77), most(77, "b")]
    seen: list[list[Numbers]] = []
    stages: list[Stage] = []
    for number, person in enumerate(people):
        folder = tmp_path / str(number)
        folder.mkdir()
        placed = KINDS[kind](table([*CROWD, *person]), folder)
        given = {} if placed.object is None else {"t": placed.object}
        with dpsql.connect(policy(adjacency, placed.entry), sources=given, ledger=":memory:") as session:
            stages = [stage_of(session, sql) for sql in QUERIES[1:4]]
            seen.append([measured(session, stage, None) for stage in stages])
    for place, stage in enumerate(stages):
        claims = [m for step in stage.releases for m in step.measurements]
        for one in seen:
            for other in seen:
                for m, (l1, l2_squared) in zip(claims, moved(one[place], other[place]), strict=True):
                    assert l1 <= m.sensitivity.l1 and l2_squared <= m.sensitivity.l2_squared
        changes = moved(seen[0][place], seen[-1][place])
        assert all(l1 for l1, _ in changes)


@pytest.mark.parametrize(
    ("sql", "l1", "l2_squared"),
    [
        ("SELECT SUM(x) FROM t", 1, 1),  # one number of one sign moves from one end to the other
        ("SELECT SUM(i) FROM t", 2, 4),
        ("SELECT k, SUM(x) FROM t GROUP BY k", 2, 2),
        ("SELECT k, SUM(i) FROM t GROUP BY k", 2, 4),
        ("SELECT COUNT(*), SUM(x) FROM t", 2, 2),  # two columns of one cell are a vector
        ("SELECT COUNT(*), SUM(i) FROM t", 2, 4),
    ],
)
def test_where_a_unit_is_replaced_signs_and_columns_decide(sql: str, l1: int, l2_squared: int) -> None:
    (step,) = stage_of(opened("replace_one"), sql).releases
    (m,) = step.measurements
    assert isinstance(m.statistic, Sized)
    whole = m.statistic.most * 2**step.bits
    assert m.sensitivity.l1 == l1 * whole and m.sensitivity.l2_squared == l2_squared * whole**2


@pytest.mark.parametrize("sql", ["SELECT COUNT(*), COUNT(DISTINCT id), SUM(i) FROM t", "SELECT SUM(i), AVG(i) FROM t"])
def test_where_each_unit_has_one_row_its_size_is_none_of_the_count_of_units(sql: str) -> None:
    """Units may be counted as rows there, but not as rows that weigh 2^16 each."""
    session = opened("add_remove")
    stage = stage_of(session, sql.replace("FROM t", "FROM (SELECT id, MAX(i) AS i FROM t GROUP BY id)"))
    assert stage.releases[0].checked.owner.rows == 1
    changes = moved(measured(session, stage, [*CROWD, *most(77)]), measured(session, stage, CROWD))
    claims = [m.sensitivity for m in stage.releases[0].measurements]
    assert all(0 < l1 <= claim.l1 for claim, (l1, _) in zip(claims, changes, strict=True))


@pytest.mark.parametrize("unit", [Fraction(1, 10**30), Fraction(1, 1000), Fraction(7), Fraction(10**30)])
@pytest.mark.parametrize("most", [Fraction(1, 10**9), Fraction(1), Fraction(2**31)])
@pytest.mark.sample(3)
def test_however_large_a_limit_or_a_scale_is_integers_fit_and_the_claim_holds(most: Fraction, unit: Fraction) -> None:
    """Factors, sizes and noise stay within the engine's integers: nothing fails once a query is paid for."""
    session = opened("add_remove")
    for sql in QUERIES[1:7]:
        stage = stage_of(session, sql, most=most, unit=unit)
        without = measured(session, stage, CROWD)
        for name in ("most", "both signs in one group", "ten thousand rows"):
            changes = moved(measured(session, stage, [*CROWD, *PEOPLE[name](77)]), without)
            for m, (l1, l2_squared) in zip(stage.releases[0].measurements, changes, strict=True):
                assert l1 <= m.sensitivity.l1 and l2_squared <= m.sensitivity.l2_squared
                assert isinstance(m.noise, DiscreteLaplace) and m.noise.scale < 2**42
