"""Covariances, regressions, shapes, conditions: like DuckDB where there is next to no noise, with the error that the
formulas say where there is, refused or stored like every other aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import isclose, sqrt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from support import Connect, cursor_of, examples, sampled

import dpsql
from dpsql.aggregates import RECIPES
from dpsql.analyze.ownership import nullable_promise
from dpsql.answer.intervals import intervals
from dpsql.answer.tables import noisy_table
from dpsql.answer.text_table import plain_table
from dpsql.backends.duckdb.run import execute
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.quote.model import Step
from dpsql.release import release
from dpsql.statistics.base import Quantity
from dpsql.statistics.moments import Moments
from dpsql.statistics.strategy import Linear

ROWS = 4000
_dice = np.random.default_rng(7)
_U, _V = _dice.beta(2, 2, ROWS), _dice.beta(2, 2, ROWS)
TABLE = pa.table(
    {
        "x": [None if i % 19 == 0 else float(2 + 6 * u) for i, u in enumerate(_U)],
        "y": [None if i % 23 == 0 else float(-1 + 3 * u + 2 * v) for i, (u, v) in enumerate(zip(_U, _V, strict=True))],
        "a": [int(u * 40) for u in _U],
        "b": [int(v * 9) - 4 for v in _V],
        "yes": [None if i % 7 == 0 else i % 3 > 0 for i in range(ROWS)],
        "k": ["n" if i % 2 else "s" for i in range(ROWS)],
    }
)
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "x": {"min": 0, "max": 10},
                "y": {"min": -2, "max": 5},
                "a": {"min": 0, "max": 40},
                "b": {"min": -5, "max": 5},
                "k": {"values": ["n", "s"], "nullable": False},
            },
        }
    }
}


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=10**12)


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.register("t", TABLE)
        return db.execute(sql).fetchall()


AGGREGATES = [
    "COVAR_POP(x, y)", "COVAR_SAMP(y, x)", "CORR(x, y)", "CORR(a, b)", "CORR(a, a)", "REGR_SLOPE(y, x)",
    "REGR_INTERCEPT(y, x)", "REGR_COUNT(y, x)", "REGR_R2(y, a)", "REGR_AVGX(y, x)", "REGR_AVGY(y, x)",
    "REGR_AVGX(x, x)", "REGR_AVGX(COALESCE(a, 1), b)", "REGR_AVGY(b, COALESCE(a, 1)) FILTER (WHERE yes)",
    "REGR_SXX(y, x)", "REGR_SYY(y, x)", "REGR_SXY(y, x)", "SKEWNESS(x)", "KURTOSIS(a)", "KURTOSIS_POP(y)", "SEM(x)",
    "GEOMEAN(x + 1)", "GEOMETRIC_MEAN(a + 1)", "EXP(AVG(LN(x + 1)))", "BOOL_AND(yes)", "BOOL_OR(yes)",
    "BOOL_AND(a >= 0)", "BOOL_OR(a > 99)", "COUNT_IF(a > 20)", "COUNT_IF(yes)", "CORR(x, y) FILTER (WHERE yes)",
    "COUNT_IF(a > 20) FILTER (WHERE yes)", "SKEWNESS(y) FILTER (WHERE a > 5)", "REGR_SLOPE(y, x * 2 + 1)",
    "VAR_POP(x)", "STDDEV(b)",
]  # fmt: skip


@pytest.mark.sample(9)
@pytest.mark.parametrize("call", AGGREGATES)
def test_with_next_to_no_noise_it_is_what_duckdb_says(session: dpsql.Session, call: str) -> None:
    for sql in (f"SELECT {call} FROM t", f"SELECT k, {call} FROM t WHERE k IN ('n', 's') GROUP BY k ORDER BY k"):
        for ours, theirs in zip(session.query(sql, epsilon=10**6).rows, plain(sql), strict=True):
            assert ours[:-1] == theirs[:-1]
            assert ours[-1] == theirs[-1] or isclose(ours[-1], theirs[-1], rel_tol=1e-5, abs_tol=1e-5), (ours, theirs)


def test_all_at_once_they_share_what_is_measured(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*), AVG(a), VAR_POP(a), COVAR_POP(a, b), CORR(a, b), REGR_SLOPE(b, a), SUM(b), STDDEV(b) FROM t"
    quote = session.explain(sql, epsilon=1)
    assert [len(step.measurements) for step in quote.steps] == [1]
    assert "count, sum, squares and products (and rows) of a and b jointly" in str(quote)
    answer, exact = session.query(sql, epsilon=1000), plain(sql)
    assert answer.rows[0] == pytest.approx(exact[0], rel=1e-2, abs=1e-2)


def test_any_value_of_the_keys_is_the_key(session: dpsql.Session) -> None:
    calls = "ANY_VALUE(UPPER(k)) AS u, ANY_VALUE(k || '!') AS v, COUNT(*) AS n"
    sql = f"SELECT {calls} FROM t WHERE k > '' GROUP BY k ORDER BY k"
    assert session.query(sql, epsilon=10**6).rows == plain(sql)
    for call in ("ANY_VALUE(x)", "ANY_VALUE(1)", "ANY_VALUE(k) FILTER (WHERE yes)", "ARBITRARY(a)"):
        with pytest.raises(dpsql.PrivacyError, match="ANY_VALUE shows single rows"):
            session.query(f"SELECT k, {call} FROM t GROUP BY k", epsilon=1)


def test_too_few_rows_are_null_and_never_an_error(connect: Connect) -> None:
    empty = connect({"t": TABLE.slice(0, 0)}, POLICY, epsilon=10**12)
    calls = [c for c in AGGREGATES if not c.startswith(("COUNT", "REGR_COUNT"))]
    assert empty.query(f"SELECT {', '.join(calls)} FROM t", epsilon=10**6).rows == [(None,) * len(calls)]
    some = [*sampled(AGGREGATES, 4), "REGR_COUNT(y, x)"]
    for _ in range(3):  # noise alone
        row = empty.query(f"SELECT {', '.join(some)} FROM t", epsilon=1, fresh=True).rows[0]
        assert all(v is None or not isinstance(v, float) or np.isfinite(v) for v in row)
        assert row[-1] >= 0


@pytest.mark.parametrize("call", ["COVAR_POP(x, x + x)", "REGR_SLOPE(y, x)", "CORR(x, y)", "REGR_INTERCEPT(y, x)"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.sample(3)
def test_ranges_whose_products_no_double_holds_are_no_crash(connect: Connect, call: str, mechanism: str) -> None:
    columns = {"x": {"min": 0, "max": 1e-300}, "y": {"min": 1e30, "max": 2e30}}
    session = connect({"t": TABLE}, {"tables": {"t": {"unit": "row", "columns": columns}}}, delta=1e-6)
    sql = f"SELECT {call} FROM t"
    assert str(session.explain(sql, epsilon=1, delta="1e-6", mechanism=mechanism))
    assert len(session.query(sql, epsilon=1, delta="1e-6", mechanism=mechanism).rows) == 1


def test_a_constant_has_no_correlation(connect: Connect) -> None:
    table = pa.table({"x": [3.0] * 500, "y": [float(i % 5) for i in range(500)]})
    policy = {"tables": {"t": {"unit": "row", "columns": {"x": {"min": 0, "max": 5}, "y": {"min": 0, "max": 5}}}}}
    session = connect({"t": table}, policy, epsilon=10**12)
    for _ in range(10):
        (found,) = session.query("SELECT CORR(x, y) FROM t", epsilon=10**6, fresh=True).rows[0]
        assert found is None or abs(found) <= 1


@pytest.mark.parametrize("most", [1e-300, 5e-324, 1e60])
def test_no_range_is_too_small_or_too_large_for_an_answer_that_was_paid_for(connect: Connect, most: float) -> None:
    columns = {name: {"min": 0, "max": most} for name in "xyz"}
    session = connect(
        {"t": pa.table({name: [0.0, most, None] for name in columns})},
        {"tables": {"t": {"unit": "row", "columns": columns}}},
    )
    for select in ("AVG(x), AVG(y), COUNT(*)", "CORR(x, y), AVG(x), SUM(y)", "VAR_POP(x), AVG(y), SUM(z), COUNT(*)"):
        for epsilon in (1, 1000):
            (row,) = session.query(f"SELECT {select} FROM t", epsilon=epsilon, fresh=True).rows
            assert all(v is None or np.isfinite(v) for v in row)


# ---------------------------------------------------------------- errors


def drawn(session: dpsql.Session, sql: str, runs: int, epsilon: int = 1) -> Iterator[tuple[float, Any]]:
    """The first aggregate of a query, and what was released, again and again: measured once, with other noise each."""
    (step,) = session.explain(sql, epsilon=epsilon).steps
    cursor = cursor_of(session)
    exact = execute(step, cursor)
    cursor.close()
    for _ in range(runs):
        noisy = release(step, exact)
        table = noisy_table(noisy, exp.select("*"))
        yield table.column("a0").to_pylist()[0], noisy


def never_null(session: dpsql.Session, names: Iterable[str]) -> None:
    engine = session._engine
    for name in names:
        promise = nullable_promise(engine.policy.tables["t"], name)
        engine.ledger.record_promise("t", promise, engine.versions()["t"], True)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("sql", "spans", "cells"),
    [
        ("SELECT COVAR_POP(u, v) FROM t", 4.0 * 2.0, 1 / 4),  # four cells of ±1/4
        ("SELECT AVG(u), AVG(v) FROM t", 4.0, 1.0),  # four cells of ±1/2
        ("SELECT AVG(u), AVG(v), AVG(w) FROM t", 4.0, 2.0),  # eight cells of ±1/2
        # Σu² − Σu + (1/4 − 1/8)·n, with the variance of u: cells of 1/8, −3/8, 1/8
        ("SELECT VAR_POP(u) FROM t", 16.0, 11 / 64),
    ],
)
def test_errors_are_those_of_the_formulas(connect: Connect, sql: str, spans: float, cells: float) -> None:
    # Values lie evenly at the ends and in the middle: means of 1/2, independent of each other; never NULL.
    points = [(i % 5 - 2, (i // 5) % 3 - 1, (i // 15) % 2) for i in range(1500)]
    names = ("u", "v", "w")
    table = pa.table({n: pa.array([p[i] for p in points], pa.int32()) for i, n in enumerate(names)})
    ranges = {"u": (-2, 2), "v": (-1, 1), "w": (0, 1)}
    columns = {n: {"min": low, "max": high, "nullable": False} for n, (low, high) in ranges.items()}
    session = connect({"t": table}, {"tables": {"t": {"unit": "row", "columns": columns}}}, epsilon=10**9)
    never_null(session, names)
    runs = 800
    found = np.array([answer for answer, _ in drawn(session, sql, runs)])
    expected = spans * sqrt(2 * cells) / 1500
    assert abs(found.std() / expected - 1) < 0.17  # about five standard errors
    assert abs(found.mean() - plain_of(table, sql)) < 6 * expected / sqrt(runs)


FILTERS = [f"COUNT(*) FILTER (WHERE {n} > 0)" for n in ("u", "v", "w", "x", "u + v", "w + x")]


@pytest.mark.parametrize(
    ("selected", "together"),
    [
        (["AVG(u)", "AVG(v)", "AVG(w)", "COUNT(*)"], 3),
        (["CORR(u, v)", "COUNT(*)"], 2),  # nine cells leave the count 9, two halves of ε 4: it is measured apart
        (["CORR(u, v)", "AVG(w)", "COUNT(*)"], 2),
        (["CORR(u, v)", "VAR_POP(w)", "COUNT(*) FILTER (WHERE x > 0)"], 2),
        (["SUM(u)", "SUM(v)", "SUM(w)", "SUM(x)", "COUNT(*)"], 2),
        ([*FILTERS, "COUNT(*)"], 2),
    ],
)
def test_measuring_together_leaves_no_aggregate_worse_than_alone(
    connect: Connect, selected: list[str], together: int
) -> None:
    # Theorem MOMENTS-2: no aggregate has a larger variance than by itself with an equal share of ε.
    columns = {name: {"min": -4, "max": 4, "nullable": False} for name in "uvwx"}
    table = pa.table({name: pa.array([1, 2, 3], pa.int32()) for name in columns})
    session = connect({"t": table}, {"tables": {"t": {"unit": "row", "columns": columns}}}, epsilon=10**9)
    never_null(session, columns)

    def measured(select: str, epsilon: Fraction) -> tuple[Step, list[Fraction]]:
        (step,) = session.explain(f"SELECT {select} FROM t", epsilon=epsilon, mechanism="laplace").steps
        noises = [m.noise.scale**2 for m in step.measurements if isinstance(m.noise, DiscreteLaplace)]

        def variance(contrast: Mapping[Quantity, Fraction]) -> Fraction:
            return Linear.combine((step.estimates[q], w) for q, w in contrast.items()).variance(noises)

        return step, [sum(map(variance, RECIPES[call.function].contrasts(call)), Fraction(0)) for call in step.calls]

    step, chosen = measured(", ".join(selected), Fraction(1))
    alone = [v for one in selected for v in measured(one, Fraction(1, len(selected)))[1]]
    assert all(mine <= other for mine, other in zip(chosen, alone, strict=True)), (chosen, alone)
    blocks = [m.statistic for m in step.measurements if isinstance(m.statistic, Moments)]
    assert max(len(block.axes) for block in blocks) == together


def plain_of(table: pa.Table, sql: str) -> float:
    with duckdb.connect() as db:
        db.register("t", table)
        (row,) = db.execute(sql).fetchall()
        return float(row[0])


COVERED = ["CORR(x, y)", "REGR_SLOPE(y, x)", "REGR_INTERCEPT(y, x)", "REGR_R2(y, x)", "SKEWNESS(x)", "KURTOSIS(x)",
           "COVAR_SAMP(x, y)", "SEM(x)", "GEOMEAN(x + 1)", "REGR_AVGX(y, x)", "REGR_SXY(y, x)"]  # fmt: skip


def test_intervals_hold_what_they_say(session: dpsql.Session) -> None:
    calls = sampled(COVERED, 3)
    exact = plain(f"SELECT {', '.join(calls)} FROM t")[0]
    runs, hits = 150, np.zeros(len(calls))
    for i, call in enumerate(calls):
        for _, noisy in drawn(session, f"SELECT {call} FROM t", runs, epsilon=10):
            interval = intervals(noisy, 0, 0.9)[0]
            assert interval is not None
            hits[i] += interval[0] <= exact[i] <= interval[1]
    assert (hits >= 0.8 * runs).all() and (hits <= 0.99 * runs).all(), dict(zip(calls, hits / runs, strict=True))


def test_bool_or_is_right_where_many_rows_decide_and_says_nothing_of_one(connect: Connect) -> None:
    runs = examples(500)

    def share(true: int, false: int) -> float:
        table = pa.table({"b": [True] * true + [False] * false})
        session = connect({"t": table}, {"tables": {"t": {"unit": "row"}}}, epsilon=10**6)
        return sum(found is True for found, _ in drawn(session, "SELECT BOOL_OR(b) FROM t", runs)) / runs

    assert share(30, 30) == 1.0
    wrong = 1 / (1 + 2.71828)  # a/(1 + a) for a count without a row: the noise is 1 or more
    assert abs(share(0, 100) - wrong) < 0.07 and abs(share(1, 100) - (1 - wrong)) < 0.07


# ---------------------------------------------------------------- stored and explained


def test_stored_moments_answer_what_they_hold(session: dpsql.Session) -> None:
    first = session.query("SELECT CORR(x, y) AS c FROM t", epsilon=2)
    again = session.query("SELECT CORR(y, x) FROM t", epsilon=2)
    assert again.receipt.reused and again.rows[0][0] == pytest.approx(first.rows[0][0], rel=1e-12)
    assert session.query("SELECT REGR_SLOPE(y, x), COVAR_POP(x, y) FROM t", epsilon="0.1").receipt.reused
    assert not session.query("SELECT CORR(x, y) FROM t", epsilon=4).receipt.reused
    assert not session.query("SELECT AVG(x) FROM t", epsilon="0.01").receipt.reused  # of pairs alone it tells nothing
    assert not session.query("SELECT KURTOSIS(x) FROM t", epsilon="0.01").receipt.reused
    assert session.replay(first.receipt.id).rows == first.rows
    assert session.replay(first.receipt.id).intervals() == first.intervals()


def test_sums_that_were_measured_together_are_found_by_each_of_them(session: dpsql.Session) -> None:
    first = session.query("SELECT SUM(a) AS s, SUM(b) FROM t", epsilon=1)
    again = session.query("SELECT SUM(a) AS s FROM t", epsilon="0.5")
    assert again.receipt.reused and again.rows[0][0] == first.rows[0][0]


def test_a_batch_measures_its_pairs_once(session: dpsql.Session) -> None:
    sql = "SELECT CORR(x, y) FROM t; SELECT COVAR_POP(y, x) FROM t; SELECT REGR_COUNT(y, x) FROM t"
    quote = session.explain_batch(sql, epsilon=1)
    assert [len(step.measurements) for step in quote.steps] == [1]


def test_every_new_aggregate_is_explained_and_listed(session: dpsql.Session) -> None:
    from click.testing import CliRunner

    from dpsql.aggregates import RECIPES
    from dpsql.cli.explain import functions

    shown = CliRunner().invoke(functions).output
    for call in (call for call in AGGREGATES if call != "CORR(a, a)"):  # which is 1, whatever the noise
        assert "no noise" not in str(session.explain(f"SELECT {call} FROM t", epsilon=1)), call
    for name, recipe in RECIPES.items():
        assert name in shown or recipe.tells_presence  # which nobody can call
    assert "COUNT_IF" in shown and "ANY_VALUE" in shown


# ---------------------------------------------------------------- why there is none


def test_many_rows_whose_variance_noise_hides_are_too_noisy_and_not_too_few() -> None:
    generator = np.random.default_rng(8)
    count = 20_000
    x = generator.normal(50, 1, count)
    data = pa.table({"id": np.arange(count) % 500, "x": x, "y": x + generator.normal(0, 1, count)})
    columns = {"x": {"min": 0, "max": 100_000}, "y": {"min": 0, "max": 100_000}}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 100, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 40},
            "tables": {"t": {"unit": "id", "columns": columns}},
        }
    )
    hidden = "NULL where noise hides how values vary; narrower ranges or a larger ε help"
    with dpsql.connect(policy, sources={"t": data}, ledger=":memory:") as session:
        sql = "SELECT x > 1000 AS far, CORR(y, x) AS c, AVG(x) AS m, COUNT(x) AS n FROM t GROUP BY x > 1000"
        answers = [session.query(sql, epsilon=1, fresh=True) for _ in range(20)]
        found = next(one for one in answers if None in [row[1] for row in one.rows if row[0] is False])
        again = session.replay(found.receipt.id)
    near = next(line for line in plain_table(found).splitlines() if line.startswith("false"))
    assert "too noisy" in near and "too few" not in near
    assert f"c: {hidden}" in found.notes and found.notes == again.notes
    assert any("too few" in plain_table(one) for one in answers)  # of the group that nobody is in
    without = [one for one in answers if all("too noisy" not in line for line in plain_table(one).splitlines())]
    assert all(hidden not in " ".join(one.notes) for one in without)


def test_a_geometric_mean_shows_the_range_of_its_column_and_not_that_of_logarithms() -> None:
    data = pa.table({"id": np.arange(20_000), "x": np.arange(20_000) % 2000 + 1.0})
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 100},
            "privacy": {"max_rows": 1},
            "tables": {"t": {"unit": "id", "columns": {"x": {"min": 1, "max": 1000}}}},
        }
    )
    with dpsql.connect(policy, sources={"t": data}, ledger=":memory:") as session:
        quote = str(session.explain("SELECT GEOMEAN(x) FROM t", epsilon=10))
        answer = session.query("SELECT GEOMEAN(x) FROM t", epsilon=10)
    assert "range [1, 1,000] (t.x: policy [1, 1000])" in quote
    assert any("outside of the range of GEOMEAN(t.x) [1, 1000]" in note for note in answer.notes)
