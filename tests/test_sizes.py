"""Queries in which one unit's size is bounded: rows, values and sums all rest on one weight of each unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect, cursor_of, examples

import dpsql
from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits, SizeLimit, SumScale
from dpsql.analyze.checked import CheckedRelease, analyze, may_have_size
from dpsql.backends.duckdb.run import execute
from dpsql.quote.calibrate import calibrate
from dpsql.quote.model import Ask, Step
from dpsql.quote.stages import Statement
from dpsql.quoting import Quoting
from dpsql.sql.parse import parse
from dpsql.statistics.sized import Sized
from dpsql.store.reuse import release_key

UNITS = 6_000
RANDOM = np.random.default_rng(5)
EACH = np.minimum(RANDOM.zipf(1.8, UNITS), 100)
IDS = np.repeat(np.arange(UNITS), EACH)
TABLE = pa.table(
    {
        "id": IDS,
        "k": RANDOM.choice(["a", "b"], len(IDS)),
        "x": np.minimum(RANDOM.lognormal(1, 1, len(IDS)), 500),
        "v": RANDOM.integers(0, 10, len(IDS)),
    }
)
COLUMNS: dict[str, Any] = {
    "k": {"values": ["a", "b"], "nullable": False},
    "x": {"min": 0, "max": 500},
    "v": {"min": 0, "max": 10},
}
POLICY: dict[str, Any] = {"tables": {"t": {"unit": "id", "columns": COLUMNS}}}
NAMED = {"privacy": {"max_rows": 3}, **POLICY}  # what a size takes the place of
SUM = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
ALL = "SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY k"

Columns = list[list[Any]]
SizeOf = Callable[[CheckedRelease], SizeLimit | None]


def sizes(most: float, unit: float) -> SizeOf:
    """So many rows, and so much of each sum as one of them."""

    def size(one: CheckedRelease) -> SizeLimit | None:
        summed = [a.call for a in one.arguments if a.recipe.summed]
        found = [SumScale(c.argument, c.where, c.bounds, Fraction(unit)) for c in summed if c.argument is not None]
        return SizeLimit(Fraction(most), tuple(dict.fromkeys(found))) if may_have_size(one) else None

    return size


def sized(statement: Statement, size: SizeOf) -> tuple[Limits, ...]:
    """The limits of each release, with the sizes that these may have."""
    return tuple(replace(statement.limits, size=size(one)) for one in statement.checked.releases)


@pytest.fixture
def by_size(monkeypatch: pytest.MonkeyPatch) -> Callable[[SizeOf], None]:
    """From now on every query bounds sizes, as if that had been chosen for it."""
    plain = Quoting._statement

    def bound(size: SizeOf) -> None:
        def statement(self: Quoting, *given: Any) -> Statement:
            found = plain(self, *given)
            limits = sized(found, size)
            catalog: Any = given[2]
            return replace(found, checked=analyze(found.plan, limits, catalog), limits=limits[0])

        monkeypatch.setattr(Quoting, "_statement", statement)

    return bound


@pytest.fixture
def session(connect: Connect, by_size: Callable[[SizeOf], None]) -> dpsql.Session:
    by_size(sizes(200, 5))
    return connect({"t": TABLE}, NAMED, epsilon=1000, delta=1e-4)


def of_size(session: dpsql.Session, sql: str, size: SizeOf) -> Step:
    """The one step of a query whose size is bounded."""
    catalog = session._engine.catalog()
    statement = session._quoting._statement(parse(sql), Limits(), catalog)
    checked = analyze(statement.plan, sized(statement, size), catalog)
    (step,) = calibrate(checked, Ask(Fraction(1), Fraction(1, 10**6), "laplace", conversion=None)).releases
    return step


# ---------------------------------------------------------------- one weight a unit


def hostile(dice: Random) -> pa.Table:
    """Groups whose values lie in a range of their own, and units with hundreds of rows of the largest or of none."""
    rows: list[tuple[int, str, float | None, bool | None]] = []
    for unit in range(dice.choice([3, 30])):
        many = dice.choice([1, 2, 5, 400])
        k = dice.choice("abc")
        for _ in range(many):
            k = dice.choice(["a", "b", "c", k, k, k])
            low, high = {"a": (0, 1), "b": (80, 100), "c": (-50, -49)}[k]
            x = dice.choice([None, dice.uniform(low, high), low, high])
            rows.append((unit, k, x, dice.choice([True, False, None])))
    columns = zip(*rows, strict=True)
    types = (pa.int64(), pa.string(), pa.float64(), pa.bool_())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["id", "k", "x", "b"])


@pytest.mark.parametrize("seed", range(examples(8)))
def test_without_noise_an_average_is_a_mean_of_rows_and_a_rate_a_share_of_them(seed: int, connect: Connect) -> None:
    dice = Random(seed)
    table = hostile(dice)
    columns = {"k": {"values": ["a", "b", "c"], "nullable": False}, "x": {"min": -60, "max": 120}}
    session = connect({"t": table}, {"tables": {"t": {"unit": "id", "columns": columns}}}, epsilon=10)
    size = sizes(dice.choice([0.5, 1, 3, 20, 10_000]), dice.choice([0.01, 1, 40, 1000]))
    step = of_size(
        session,
        "SELECT k, AVG(x), COUNT(*), COUNT(x), COUNT(*) FILTER (WHERE b), AVG(x) FILTER (WHERE b) FROM t GROUP BY k",
        size,
    )
    mean, rows, values, some, mean_of_some = exact(session, step)
    grid = float(next(iter(step.calls)).values[0].grid.step)
    found = {k: [r for r in table.to_pylist() if r["k"] == k] for k in "abc"}
    for place, k in enumerate("abc"):
        assert 0 <= some[place] <= rows[place] and 0 <= values[place] <= rows[place]
        for average, those in ((mean, found[k]), (mean_of_some, [r for r in found[k] if r["b"]])):
            real = [r["x"] for r in those if r["x"] is not None]
            if average[place] is not None:
                assert min(real) - grid <= average[place] <= max(real) + grid


def exact(session: dpsql.Session, step: Step) -> Columns:
    """The answers of a step's aggregates if no noise were added."""
    tallies = execute(step, cursor_of(session)).tallies
    columns = tuple(tuple(m.statistic.columns([tallies[t] for t in m.statistic.tallies])) for m in step.measurements)
    noiseless = Noisy(step, step.cells, columns)
    return [
        RECIPES[call.function]
        .answer(call, {q: noiseless.estimate(step.estimates[q]) for q in RECIPES[call.function].needs(call)})
        .to_pylist()
        for call in step.calls
    ]


def test_a_limit_that_nobody_reaches_changes_nothing(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10)
    step = of_size(session, "SELECT k, COUNT(*), SUM(v), AVG(v), COUNT(x) FROM t GROUP BY k", sizes(10**4, 3))
    keys, v = np.array(TABLE["k"].to_pylist()), TABLE["v"].to_numpy()
    rows, total, mean, values = exact(session, step)
    for place, k in enumerate("ab"):
        mine = v[keys == k]
        assert rows[place] == values[place] == len(mine)
        assert total[place] == mine.sum() and mean[place] == pytest.approx(mine.mean())


def test_all_that_weighs_rows_is_one_statistic_and_shares_no_budget(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10)
    for sql, width in (
        ("SELECT COUNT(*) FROM t", 1),
        ("SELECT COUNT(*), SUM(x) FROM t", 3),
        ("SELECT COUNT(*), SUM(x), AVG(v), COUNT(v) FILTER (WHERE x > 1) FROM t", 5),
    ):
        (m,) = of_size(session, sql, sizes(20, 5)).measurements
        assert isinstance(m.statistic, Sized) and m.statistic.width <= width
        assert m.sensitivity.l1 * m.statistic.step == 20  # in rows


@pytest.mark.parametrize(
    ("sql", "may"),
    [
        ("SELECT COUNT(*), COUNT(x), SUM(v), AVG(x) FILTER (WHERE v > 2) FROM t", True),
        ("SELECT k, COUNT(*), COUNT(DISTINCT id) FROM t GROUP BY k", True),
        ("SELECT COUNT(DISTINCT id) FROM t", False),  # nothing weighs rows
        ("SELECT COUNT(*), COUNT(DISTINCT v) FROM t", False),
        ("SELECT SUM(x), STDDEV(x) FROM t", False),
        ("SELECT x, COUNT(*) FROM t GROUP BY x", False),  # private keys
        ("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", False),  # winners
        ("SELECT MEDIAN(x), COUNT(*) FROM t", False),
        ("SELECT COVAR_POP(x, v) FROM t", False),
        ("SELECT BOOL_OR(x > 3) FROM t", False),
    ],
)
def test_sizes_are_for_counts_sums_and_averages_by_public_keys(sql: str, may: bool, connect: Connect) -> None:
    session = connect({"t": TABLE}, {"privacy": {"max_rows": 3, "max_groups": 2}, **POLICY}, epsilon=10, delta=1e-4)
    catalog = session._engine.catalog()
    (one,) = session._quoting._statement(parse(sql), Limits(), catalog).checked.releases
    assert may_have_size(one) == may


def test_a_size_that_a_release_cannot_have_leaves_the_limit_on_rows(connect: Connect) -> None:
    session = connect({"t": TABLE}, NAMED, epsilon=10)
    catalog = session._engine.catalog()
    sql = "SELECT STDDEV(x) FROM t"
    statement = session._quoting._statement(parse(sql), Limits(), catalog)
    limits = replace(statement.limits, size=SizeLimit(Fraction(20), ()))
    (one,) = analyze(statement.plan, limits, catalog).releases
    assert one.bounding.size is None and one.bounding.mass == 3


def test_a_sum_without_a_scale_is_an_error_and_not_a_sum_without_a_bound(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10)
    with pytest.raises(AssertionError, match="without a scale"):
        of_size(session, "SELECT COUNT(*), SUM(x) FROM t", lambda _: SizeLimit(Fraction(20), ()))


def test_releases_under_other_sizes_are_others(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10)

    def key(sql: str, size: SizeOf) -> bytes:
        return release_key(of_size(session, sql, size), {"t": "1"}, {})

    assert key(ALL, sizes(20, 5)) == key(ALL, sizes(20, 5))
    others = [key(ALL, sizes(20, 5)), key(ALL, sizes(21, 5)), key(ALL, sizes(20, 6)), key(SUM, sizes(20, 5))]
    assert all(others) and len(set(others)) == len(others)


# ---------------------------------------------------------------- end to end


def test_a_query_by_size_is_answered_within_its_interval(session: dpsql.Session) -> None:
    answer = session.query(ALL, epsilon=4)
    keys, x = np.array(TABLE["k"].to_pylist()), TABLE["x"].to_numpy()
    shown = {row[0]: row[1:] for row in answer.rows}
    for k in "ab":
        n, s, a = shown[k]
        assert 0.5 * (keys == k).sum() < n < 1.1 * (keys == k).sum()
        assert a == pytest.approx(s / n, rel=0.01) and a == pytest.approx(x[keys == k].mean(), rel=0.2)
    assert answer.cost.epsilon == 4 and session.query(ALL, epsilon=4).cost.epsilon == 0
    assert answer.limits == (
        "one unit's rows + |x| / 5 = 200",
        "the range of SUM(t.x) [0, 500]",
        "the range of AVG(t.x) [0, 500]",
    )


def test_a_lone_sum_goes_by_its_total_and_counts_no_rows(session: dpsql.Session) -> None:
    answer = session.query(SUM, epsilon=4)
    assert answer.limits == ("one unit's sum of |x| = 1,000", "the range of SUM(t.x) [0, 500]")
    (step,) = session.explain(SUM, epsilon=4).steps
    (m,) = step.measurements
    assert isinstance(m.statistic, Sized) and m.statistic.terms[0][1] == 1
    assert float(m.sensitivity.l1 * m.statistic.step) == pytest.approx(1000, rel=1e-5)


def test_explain_says_what_is_bounded_and_what_noise_it_has(session: dpsql.Session) -> None:
    shown = str(session.explain(ALL, epsilon=4))
    assert "one unit's rows + |x| / 5 = 200" in shown and "max_rows" not in shown
    assert "count of x, count of rows without x, sum of x, bounded by one unit's size" in shown
