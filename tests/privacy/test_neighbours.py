"""Neighbours, exactly: the exact stage on D and on D without one unit (or with a hostile one more) differs by no more
than the claimed mass, peak, l1 and l2, and everything that an analyst can see beforehand is identical."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from source_kinds import GROUP, KINDS, csv_type
from support import cursor_of, examples, sampled

import dpsql
from dpsql.analyze.ownership import rows_promise
from dpsql.backends.base import Exact
from dpsql.backends.duckdb.run import execute
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.quote.model import Quote, Step

HUGE = 2**63 - 1
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(9, 2)),
        ("b", pa.bool_()),
        ("k", pa.string()),
        ("n", pa.int32()),
    ]
)
COLUMNS: dict[str, dict[str, Any]] = {
    "i": {"min": -3, "max": 10},
    "x": {"min": -1.5, "max": 4.25},
    "d": {"min": 0, "max": 99},
    "k": {"values": ["a", "b", "c"]},
    "n": {"min": 0, "max": 4},
}
ROWS_PER_UNIT = 3

ints = st.one_of(st.none(), st.integers(-20, 20), st.sampled_from([HUGE, -HUGE - 1, HUGE - 1]))
floats = st.one_of(
    st.none(),
    st.floats(-10, 10),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 4.3, 4.5, -1.6, -1.75]),
)
cents = st.one_of(st.none(), st.decimals(-9999999, 9999999, places=2))
keys = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "zzz", "", "n77"]))
small = st.one_of(st.none(), st.integers(-3, 8), st.sampled_from([2**31 - 1, -(2**31)]))


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(unit, ints, floats, cents, st.one_of(st.none(), st.booleans()), keys, small)


def extreme(unit: int, k: str) -> tuple[Any, ...]:
    """A row that attains every bound from above."""
    return (unit, HUGE, 1e308, Decimal("9999999.99"), True, k, 4)


def lowest(unit: int, k: str) -> tuple[Any, ...]:
    """A row that attains every bound from below."""
    return (unit, -HUGE - 1, -1e308, Decimal("-9999999.99"), True, k, 0)


def table(data: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*data, strict=True)) if data else [()] * len(SCHEMA)
    return pa.table([pa.array(c, t.type) for c, t in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@dataclass(frozen=True)
class Seen:
    """What an analyst can know without an answer, and what only the exact stage knows."""

    quote: Quote
    columns: list[list[list[int]]]  # of each measurement of each step


def open_session(data: Sequence[tuple[Any, ...]], *, by_unit: bool) -> dpsql.Session:
    unit: dict[str, Any] = {"unit": "id", "rows_per_unit": ROWS_PER_UNIT} if by_unit else {"unit": "row"}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 100, "delta": 0},
            "privacy": {"limits_share": 0},
            "tables": {"t": {**unit, "columns": COLUMNS}},
        }
    )
    session = dpsql.connect(policy, sources={"t": table(data)}, ledger=":memory:")
    if by_unit:  # the data keep it by construction
        version = session._engine.versions()["t"]
        session._engine.ledger.record_promise("t", str(rows_promise(policy.tables["t"])), version, True)
    return session


@cache
def shared(by_unit: bool) -> dpsql.Session:
    return open_session([], by_unit=by_unit)


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    for by_unit in (False, True):
        shared(by_unit).close()
    shared.cache_clear()


@cache
def quoted(sql: str, by_unit: bool) -> Quote:
    return shared(by_unit).explain(sql, epsilon=1)


def run(data: Sequence[tuple[Any, ...]], sql: str, *, by_unit: bool) -> Seen:
    """The exact stage on these rows. The quote can't depend on them: it is made before they are there."""
    cursor = cursor_of(shared(by_unit))
    cursor.register("t", table(data))
    return measure(quoted(sql, by_unit), cursor)


def measured(session: dpsql.Session, sql: str) -> Seen:
    """The exact stage on a session's own data."""
    return measure(session.explain(sql, epsilon=1), cursor_of(session))


def measure(quote: Quote, cursor: Any) -> Seen:
    seen = seen_of(quote, lambda step: execute(step, cursor))
    cursor.close()
    return seen


def seen_of(quote: Quote, executed: Callable[[Step], Exact]) -> Seen:
    """What an engine finds for each measurement."""
    columns = []
    for step in quote.steps:
        exact = executed(step)
        for m in step.measurements:
            made = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
            columns.append([[int(v) for v in column] for column in made])
    return Seen(quote, columns)


def check(
    data: Sequence[tuple[Any, ...]], neighbour: Sequence[tuple[Any, ...]], sql: str, *, by_unit: bool
) -> list[Fraction]:
    """Compares two neighbours; gives the l1 that was seen for each measurement, as a share of the claim."""
    return within_claims(run(data, sql, by_unit=by_unit), run(neighbour, sql, by_unit=by_unit))


def within_claims(one: Seen, other: Seen) -> list[Fraction]:
    measurements = [m for s in one.quote.steps for m in s.measurements]
    assert len(measurements) == len(one.columns) == len(other.columns)
    shares = []
    for m, a, b in zip(measurements, one.columns, other.columns, strict=True):
        difference = [x - y for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
        l1, l2_squared = sum(map(abs, difference)), sum(d * d for d in difference)
        assert l1 <= m.sensitivity.l1, (m.statistic.title, l1, m.sensitivity.l1)
        assert l2_squared <= m.sensitivity.l2_squared, (m.statistic.title, l2_squared, m.sensitivity.l2_squared)
        assert len(difference) == 1 or not m.sensitivity.single, m.statistic.title
        shares.append(Fraction(l1) / m.sensitivity.l1)
    return shares


# Each statistic with each kind of value: counts, sums apart, sums and counts jointly, filters, computed keys.
ROW_LEVEL = {
    "count": "SELECT COUNT(*) FROM t",
    "count by key": "SELECT k, COUNT(*) FROM t GROUP BY k",
    "entropy by key": "SELECT k, ENTROPY(b), COUNT(*) FROM t GROUP BY k",
    "count of floats": "SELECT COUNT(x) FROM t",
    "count of text": "SELECT k, COUNT(k) FROM t GROUP BY k",
    "filtered count": "SELECT COUNT(*) FILTER (WHERE b) FROM t WHERE i > -5 OR i IS NULL",
    "sum of integers": "SELECT SUM(i) FROM t",
    "sum of floats by key": "SELECT k, SUM(x) FROM t GROUP BY k",
    "sum of decimals": "SELECT n, SUM(d) FROM t GROUP BY n",
    "sum of booleans": "SELECT SUM(b) FROM t",
    "sum of an expression": "SELECT k, SUM(i * 2 - x) FROM t GROUP BY k",
    "product that overflows": "SELECT SUM(i * i * i) FROM t",
    "average of integers": "SELECT k, AVG(i) FROM t GROUP BY k",
    "average with rows": "SELECT k, AVG(x), COUNT(*), COUNT(x), SUM(x) FROM t GROUP BY k",
    "average of decimals": "SELECT AVG(d), COUNT(*) FROM t",
    "many averages": "SELECT AVG(i), AVG(x), AVG(d), AVG(n), AVG(b::INT) FROM t",
    "filtered sum": "SELECT SUM(x) FILTER (WHERE x > 1 AND b), AVG(i) FILTER (WHERE i < 5) FROM t",
    "computed key": "SELECT CASE WHEN i > 3 THEN 'high' ELSE 'low' END AS g, n // 2 AS h, SUM(x) FROM t GROUP BY g, h",
    "key that is a format of a day": "SELECT strftime(DATE '2020-01-01' + CAST(i AS INTEGER) * 20, '%Y-%m') AS m, "
    "dayname(DATE '2020-01-01' + n) AS w, COUNT(*), SUM(x) FROM t GROUP BY m, w",
    "key that is a step": "SELECT i - i % 4 AS s, CASE WHEN n < 2 THEN 'few' ELSE 'more' END || k AS f, AVG(x) "
    "FROM t GROUP BY s, f",
    "having keys": "SELECT k, i // 3 AS h, COUNT(*), SUM(d) FROM t GROUP BY k, h HAVING k <> 'b' AND h > 0",
    "keys that are not null": "SELECT k, n % 3 AS r, COUNT(*), AVG(i) FROM t WHERE upper(k) > 'A' AND NOT (n IS NULL) "
    "GROUP BY k, r",
    "grouping sets": "SELECT k, n, COUNT(*), AVG(x), SUM(i) FROM t GROUP BY CUBE (k, n)",
    "clipped": "SELECT k, SUM(i, contribution_bounds_per_group => (-2, 7)), "
    "COUNT(*, contribution_bounds_per_group => (0, 2)), SUM(d, contribution_bounds_per_group => (0.5, 12.25)), "
    "COUNT(x, contribution_bounds_per_group => (2, 4)), "
    "SUM(x * 1e300, contribution_bounds_per_group => (-1, 3)) FILTER (WHERE b) FROM t GROUP BY k",
    "clipped by row": "SELECT SUM(b, contribution_bounds_per_row => (0, 1)), AVG(i * i, contribution_bounds_per_row => "
    "(-9, 9)), SUM(d, contribution_bounds_per_row => (-0.5, 0.125)) FROM t",
    "pairs": "SELECT CORR(i, x), COVAR_SAMP(x, d), COUNT(*) FROM t",
    "pairs by key": "SELECT k, REGR_SLOPE(x, i), REGR_COUNT(x, i), AVG(x), AVG(i), COUNT(i) FROM t GROUP BY k",
    "filtered pairs": "SELECT REGR_R2(x, i) FILTER (WHERE b), REGR_AVGX(d, n) FILTER (WHERE n > 1), COUNT_IF(b) FROM t",
    "shapes": "SELECT k, SKEWNESS(x), KURTOSIS(i), SEM(d), VAR_POP(x) FROM t GROUP BY k",
    "logarithms": "SELECT GEOMEAN(CLIP(x, 0.5, 4)), EXP(AVG(LN(CLIP(i, 1, 9)))) FROM t",
    "conditions": "SELECT k, BOOL_AND(b), BOOL_OR(i > 3), COUNT_IF(x > 1), COUNT(*) FROM t GROUP BY k",
    "sums at once": "SELECT k, SUM(i), SUM(x), SUM(n) FROM t GROUP BY k",
    "counts at once": "SELECT COUNT(*), COUNT(i), COUNT(x), COUNT_IF(b), COUNT(d) FILTER (WHERE b) FROM t",
    "filters at once": "SELECT AVG(i) FILTER (WHERE i > 2), AVG(i), COUNT(*), COUNT(*) FILTER (WHERE i > 2) FROM t",
    "tightened": "SELECT SUM(i), SUM(x) FROM t WHERE i BETWEEN 2 AND 5 AND x < 3",
}
BY_UNIT = {
    **ROW_LEVEL,
    "units": "SELECT COUNT(DISTINCT id) FROM t",
    "units by key": "SELECT k, COUNT(DISTINCT id), COUNT(*) FROM t GROUP BY k",
}
SOME = settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))

base = st.lists(rows(st.integers(0, 10**6)), max_size=8)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ROW_LEVEL)
@SOME
@given(data=base, added=rows(st.integers(0, 10**6)))
@example(data=[], added=extreme(1, "a"))
@example(data=[extreme(1, "b"), lowest(2, "c")], added=lowest(3, "zzz"))
def test_one_row_moves_no_statistic_by_more_than_is_claimed(name: str, data: list[Any], added: tuple[Any, ...]) -> None:
    check(data, [*data, added], ROW_LEVEL[name], by_unit=False)


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", BY_UNIT)
@SOME
@given(
    data=st.lists(rows(st.integers(0, 2)), max_size=9),
    added=st.lists(rows(st.just(77)), min_size=1, max_size=ROWS_PER_UNIT),
)
@example(data=[], added=[extreme(77, "a")] * ROWS_PER_UNIT)
@example(data=[extreme(1, "b")], added=[extreme(77, "a"), lowest(77, "b"), lowest(77, "c")])
def test_one_unit_moves_no_statistic_by_more_than_is_claimed(name: str, data: list[Any], added: list[Any]) -> None:
    kept: list[Any] = []
    for row in data:  # the base must keep the promise, too
        if sum(r[0] == row[0] for r in kept) < ROWS_PER_UNIT:
            kept.append(row)
    check(kept, [*kept, *added], BY_UNIT[name], by_unit=True)


# ---------------------------------------------------------------- every kind of source

FILTERED = {
    f"count where {condition}": f"SELECT COUNT(*), SUM(i) FROM t WHERE {condition}"
    for condition in (
        "x > 1", "NOT x <= 1", "x <> 0", "isnan(x)", "x = 0", "coalesce(x, 0) > 2", "x > 1 OR i > 3", "NOT isfinite(x)",
        "i > 3", "i <> 5", "d > 10", "d IS NOT NULL", "k = 'a'", "k > 'a' AND n > 1", "n IN (1, 4)", "b",
        "b IS NOT TRUE",
    )
}  # fmt: skip


def runs(dice: Random, unit: int, count: int) -> list[tuple[Any, ...]]:
    """Rows in which runs of alike values fill row groups: NaN, both zeros, NULL, what lies beyond every range."""
    made: list[list[Any]] = []
    strange = [None, float("nan"), float("nan"), 0.0, -0.0, 1.0, 4.25, 5.5, float("inf"), -1e308]
    choices: list[list[Any]] = [
        [None, 0, 4, 10, 11, HUGE, -HUGE - 1], strange,
        [None, Decimal("0.00"), Decimal("98.99"), Decimal("9999999.99")],
        [None, True, False], [None, "a", "b", "c", "zzz"], [None, 0, 1, 4, -(2**31)],
    ]  # fmt: skip
    for values in choices:
        column: list[Any] = []
        while len(column) < count:
            column += [dice.choice(values)] * dice.choice([1, 2, GROUP, GROUP])
        made.append(column[:count])
    return [(unit, *row) for row in zip(*made, strict=True)]


def stored_session(data: Sequence[tuple[Any, ...]], kind: str, folder: Path, *, by_unit: bool) -> dpsql.Session:
    folder.mkdir()
    placed = KINDS[kind](table(data), folder)
    typed: dict[str, Any] = {f.name: {"type": csv_type(f.type)} for f in SCHEMA} if "CSV" in kind else {}
    columns: dict[str, Any] = {name: {**typed.get(name, {}), **COLUMNS.get(name, {})} for name in {**typed, **COLUMNS}}
    unit: dict[str, Any] = {"unit": "id", "rows_per_unit": ROWS_PER_UNIT} if by_unit else {"unit": "row"}
    entry = {**placed.entry, **unit, "columns": columns}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 100, "delta": 0}, "tables": {"t": entry}})
    given = {} if placed.object is None else {"t": placed.object}
    session = dpsql.connect(policy, sources=given, ledger=":memory:")
    if by_unit:
        version = session._engine.versions()["t"]
        session._engine.ledger.record_promise("t", str(rows_promise(policy.tables["t"])), version, True)
    return session


EVERY_KIND = [(kind, by_unit) for i, kind in enumerate(KINDS) for by_unit in sampled((i % 2 == 0, i % 2 == 1), 2)]


@pytest.mark.parametrize(("kind", "by_unit"), EVERY_KIND)
def test_over_every_kind_of_source_one_unit_moves_no_statistic_by_more_than_is_claimed(
    kind: str, by_unit: bool, tmp_path: Path
) -> None:
    dice = Random(f"{kind} {by_unit}")
    queries = {**(BY_UNIT if by_unit else ROW_LEVEL), **FILTERED}
    for pair in range(examples(1)):
        others = [row for unit in range(14) for row in runs(dice, unit, dice.randrange(1, ROWS_PER_UNIT + 1))]
        others += runs(dice, 14, ROWS_PER_UNIT) if by_unit else runs(dice, 14, 3 * GROUP)
        place = dice.randrange(len(others))
        mine = runs(dice, 77, ROWS_PER_UNIT if by_unit else 1)
        if pair == 0:
            mine[0] = extreme(77, "a")
        sets = (others, [*others[:place], *mine, *others[place:]])
        sessions = [
            stored_session(data, kind, tmp_path / f"{pair}-{i}", by_unit=by_unit) for i, data in enumerate(sets)
        ]
        try:
            for sql in dice.sample(list(queries.values()), min(len(queries), examples(6))):
                one, other = (measured(session, sql) for session in sessions)
                within_claims(one, other)
        finally:
            for session in sessions:
                session.close()


@pytest.mark.parametrize("by_unit", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(x) FROM t",
        "SELECT SUM(i) FROM t",
        "SELECT SUM(x) FROM t",
        "SELECT SUM(d) FROM t",
        "SELECT AVG(x) FROM t",
        "SELECT AVG(i), COUNT(*) FROM t",
        "SELECT AVG(d) FROM t",
        "SELECT SUM(i, contribution_bounds_per_group => (-2, 7)) FROM t",
        "SELECT SUM(x, contribution_bounds_per_group => (-1.5, 1)) FROM t",
        "SELECT SUM(x, contribution_bounds_per_row => (0, 1)) FROM t",
        "SELECT SUM(d, contribution_bounds_per_group => (0, 12.25)) FROM t",
        "SELECT COUNT(*, contribution_bounds_per_group => (2, 2)) FROM t",
        "SELECT AVG(i), AVG(n), AVG(d), AVG(LEAST(GREATEST(x, -1), 3)), COUNT(*) FROM t",
        "SELECT VAR_POP(x) FROM t",
        "SELECT COVAR_POP(i, x) FROM t",
        "SELECT CORR(i, x), COUNT(*) FROM t",
        "SELECT REGR_SLOPE(x, d) FROM t",
        "SELECT REGR_INTERCEPT(x, d), REGR_AVGY(x, d) FROM t",
        "SELECT REGR_COUNT(x, d) FROM t",
        "SELECT REGR_R2(x, d), REGR_SXX(x, d), REGR_SYY(x, d), REGR_SXY(x, d) FROM t",
        "SELECT SKEWNESS(i) FROM t",
        "SELECT KURTOSIS(d), KURTOSIS_POP(d) FROM t",
        "SELECT SEM(x) FROM t",
        "SELECT GEOMEAN(CLIP(x, 0.5, 4)) FROM t",
        "SELECT BOOL_OR(b) FROM t",
        "SELECT COUNT_IF(b), COUNT(*) FROM t",
        "SELECT SUM(i), SUM(n) FROM t",
        "SELECT AVG(i), AVG(n), COUNT(x) FROM t",
    ],
)
@pytest.mark.sample(3)
def test_every_claim_is_attained_by_some_unit_so_a_smaller_one_would_be_caught(sql: str, by_unit: bool) -> None:
    count = ROWS_PER_UNIT if by_unit else 1
    highest = check([], [extreme(7, "a")] * count, sql, by_unit=by_unit)
    least = check([], [lowest(7, "a")] * count, sql, by_unit=by_unit)
    for up, down in zip(highest, least, strict=True):
        assert max(up, down) > Fraction(99, 100)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", BY_UNIT)
def test_schema_plan_scales_price_and_text_are_the_same_with_and_without_a_hostile_unit(name: str) -> None:
    seen = []
    for data in ([extreme(1, "b")], [extreme(1, "b"), extreme(77, "n77"), lowest(77, "zzz")]):
        with open_session(data, by_unit=True) as session:
            quote = session.explain(BY_UNIT[name], epsilon=1)
            answer = session.query(BY_UNIT[name], epsilon=1)
            seen.append(
                (str(quote), quote.price, answer.columns, answer.table.schema, len(answer.rows), session.budget)
            )
    assert seen[0] == seen[1]


def test_a_unit_in_every_group_attains_the_claim_for_units() -> None:
    rows_of_one = [extreme(7, "a"), extreme(7, "b"), extreme(7, "c")]
    assert check([], rows_of_one, "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k", by_unit=True) == [1]


@pytest.mark.parametrize("by_unit", [False, True])
def test_a_unit_in_every_grouping_set_costs_the_whole_price_and_no_more(by_unit: bool) -> None:
    sql = "SELECT k, n, COUNT(*) FROM t GROUP BY GROUPING SETS ((k, n), (k), (n), (n), ())"
    one = [extreme(7, "a")] * (ROWS_PER_UNIT if by_unit else 1)
    quote = quoted(sql, by_unit)
    measurements = [m for step in quote.steps for m in step.measurements]
    assert len(measurements) == 4  # (n) is measured once
    shares = check([], one, sql, by_unit=by_unit)
    noises = [m.noise for m in measurements if isinstance(m.noise, DiscreteLaplace)]
    parts = zip(shares, noises, measurements, strict=True)
    lost = sum((share * noise.cost(m.sensitivity).epsilon for share, noise, m in parts), Fraction(0))
    assert lost == quote.price.epsilon


def test_removing_one_of_many_equal_floats_moves_their_sum_by_exactly_that_one() -> None:
    # A float SUM of these depends on the order of rows; integers on a grid don't.
    data = [(i, 0, 0.1 if i % 3 else 1e-9, None, True, "a", 0) for i in range(4096)]
    one = run(data, "SELECT SUM(x) FROM t", by_unit=False)
    other = run(data[:-1], "SELECT SUM(x) FROM t", by_unit=False)
    grid = one.quote.steps[0].calls[0].value
    assert grid is not None
    step = grid.grid.step
    assert one.columns[0][0][0] - other.columns[0][0][0] == round(Fraction(data[-1][2]) / step)


def test_rows_without_a_unit_belong_to_nobody() -> None:
    nobody = [(None, 5, 1.0, None, True, "a", 1)] * 1000
    assert (
        run(nobody, "SELECT COUNT(*), SUM(i) FROM t", by_unit=True).columns
        == run([], "SELECT COUNT(*), SUM(i) FROM t", by_unit=True).columns
    )


def test_null_nan_and_infinity_add_nothing_to_sum_and_counts() -> None:
    strange = [
        (i, None, v, None, None, "a", None) for i, v in enumerate([float("nan"), float("inf"), float("-inf"), None])
    ]
    sql = "SELECT SUM(x), COUNT(x), SUM(i), COUNT(i) FROM t"
    assert run(strange, sql, by_unit=False).columns == run([], sql, by_unit=False).columns


def test_noise_is_drawn_for_each_empty_cell_anew(connect: Any) -> None:
    policy = {"tables": {"t": {"unit": "row", "columns": {"n": {"min": 1, "max": 500}}}}}
    session = connect({"t": table([])}, policy)
    counts = [count for _, count in session.query("SELECT n, COUNT(*) FROM t GROUP BY n", epsilon="0.01").rows]
    assert len(counts) == 501  # and NULL
    assert len(set(counts)) > 50


def test_every_released_statistic_is_a_multiple_of_its_grid(connect: Any) -> None:
    policy = {"tables": {"t": {"unit": "row", "columns": COLUMNS}}}
    session = connect({"t": table([extreme(1, "a")] * 5)}, policy)
    answer = session.query("SELECT SUM(x) AS s FROM t", epsilon=1)
    step = answer.noisy[0].step.calls[0].value.grid.step
    assert step.numerator == 1 and np.log2(step.denominator).is_integer()
    assert (Fraction(answer.rows[0][0]) / step).denominator == 1


# ---------------------------------------------------------------- discrete Gaussian noise


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
@pytest.mark.parametrize(
    ("sql", "added"),
    [
        ("SELECT COUNT(*) FROM t", extreme(77, "a")),
        ("SELECT SUM(n) FROM t", extreme(77, "a")),
        ("SELECT SUM(i) FROM t", lowest(77, "b")),
        ("SELECT COUNT_IF(b) FROM t WHERE n >= 0", extreme(77, "c")),
    ],
)
@pytest.mark.sample(2)
def test_discrete_gaussian_noise_hides_what_neighbours_move_at_its_price(
    sql: str, added: tuple[Any, ...], accountant: str
) -> None:
    columns = {"unit": "row", "columns": COLUMNS}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": 1e-5, "accountant": accountant},
            "privacy": {"limits_share": 0},  # all of the price is the noise's
            "tables": {"t": columns},
        }
    )
    data = [extreme(1, "b"), lowest(2, "c")]
    with dpsql.connect(policy, sources={"t": table(data)}, ledger=":memory:") as session:
        quote = session.explain(sql, epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
        seen = []
        for rows_ in (data, [*data, added]):
            cursor = cursor_of(session)
            cursor.register("t", table(rows_))
            seen.append(measure(quote, cursor))
    within_claims(*seen)
    (measurement,) = quote.steps[0].measurements
    ((((before,),),), (((after,),),)) = (one.columns for one in seen)
    shift = abs(after - before)
    assert measurement.sensitivity.single and shift
    assert isinstance(measurement.noise, DiscreteGaussian)
    price = quote.price
    squared = float(measurement.noise.sigma_squared)
    delta = _delta_of(squared, shift, float(price.epsilon))
    assert delta <= float(price.delta) * (1 + 1e-9)
    if shift == measurement.sensitivity.l1 and accountant == "basic":  # then it is attained, and 10% less is too little
        assert delta > float(price.delta) * 0.999
        assert _delta_of(squared * 0.81, shift, float(price.epsilon)) > float(price.delta) * 1.1


def _delta_of(squared: float, shift: int, epsilon: float) -> float:
    """Σ (p − e^ε·q)₊ for the discrete Gaussian's mass function and neighbours so far apart."""
    places = np.arange(-int(30 * squared**0.5) - shift, int(30 * squared**0.5) + shift + 1, dtype=np.float64)
    p, q = (np.exp(-((places + by) ** 2) / (2 * squared)) for by in (0, shift))
    return float(np.maximum(0.0, p - np.exp(epsilon) * q).sum() / p.sum())
