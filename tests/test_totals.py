"""Sums whose bound nobody named: one unit's total, where that is estimated to be better than rows and ranges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.quote.limits import ROWS
from dpsql.statistics.bounded import BoundedSum

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
        "near": RANDOM.uniform(95, 100, len(IDS)),
    }
)
COLUMNS: dict[str, Any] = {
    "k": {"values": ["a", "b"], "nullable": False},
    "x": {"min": 0, "max": 500},
    "v": {"min": 0, "max": 10},
    "near": {"min": 0, "max": 100},
}
POLICY: dict[str, Any] = {"tables": {"t": {"unit": "id", "columns": COLUMNS}}}
SUM = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
ALL = "SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY k"
TOTAL = "one unit's total of x = "


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=1000, delta=1e-4)


def histograms(session: dpsql.Session, sql: str) -> int:
    """How many histograms would be measured; counts of values outside of a range are none."""
    stages = [s for s in session.explain(sql, epsilon=4).stages if s.kind == "limits"]
    return sum(bool(step.checked.release.keys) for stage in stages for step in stage.releases)


def total(answer: dpsql.Answer) -> float | None:
    return next((float(one[len(TOTAL) :].replace(",", "")) for one in answer.limits if one.startswith(TOTAL)), None)


def test_where_only_sums_are_asked_for_totals_are_counted_instead_of_rows(session: dpsql.Session) -> None:
    assert histograms(session, SUM) == 1 and histograms(session, ALL) == 2
    answer = session.query(SUM, epsilon=4)
    assert total(answer) is not None and not any(one.startswith("max_rows") for one in answer.limits)
    assert answer.cost.epsilon == session.budget.spent.epsilon == 4
    assert session.query(SUM, epsilon=4).cost.epsilon == 0


def test_a_stored_histogram_of_totals_is_free_for_other_sums_of_the_same_rows(session: dpsql.Session) -> None:
    session.query(SUM, epsilon=4)
    assert histograms(session, "SELECT SUM(x) FROM t") == 0
    assert histograms(session, ALL) == 1  # that of the rows
    assert histograms(session, "SELECT SUM(x) FILTER (WHERE v > 3) FROM t") == 1  # another FILTER, another total


def test_the_bound_on_a_total_cuts_little_and_has_a_fraction_of_the_noise(session: dpsql.Session) -> None:
    answer = session.query(ALL, epsilon=4)
    limit = total(answer)
    assert limit is not None
    totals = np.bincount(IDS, TABLE["x"].to_numpy())
    assert np.minimum(totals, limit).sum() > 0.93 * totals.sum()
    rows = int(next(one for one in answer.limits if one.startswith("max_rows")).split(" = ")[1])
    assert limit < rows * 500 / 4
    exact = {k: TABLE["x"].to_numpy()[np.array(TABLE["k"].to_pylist()) == k].sum() for k in "ab"}
    for k, _, s, _ in answer.rows[:2]:  # the last is NULL
        assert abs(s - exact[k]) < 0.08 * exact[k] + 8 * 2 * limit / 3.8


def test_values_near_the_end_of_their_range_are_measured_with_their_count(session: dpsql.Session) -> None:
    """Rows and ranges are always a candidate: there, nothing is gained by a total, and two statistics share ε."""
    answer = session.query("SELECT k, COUNT(*), AVG(near) FROM t GROUP BY k", epsilon=4)
    assert not any("total of near" in one for one in answer.limits)


def test_counts_are_as_they_are_without_the_sum(session: dpsql.Session) -> None:
    answer = session.query(ALL, epsilon=100)
    exact = TABLE.num_rows
    assert abs(sum(row[1] for row in answer.rows) - exact) < 0.08 * exact


def test_a_limit_that_is_named_bounds_sums_by_rows_and_ranges(session: dpsql.Session) -> None:
    answer = session.query(SUM, epsilon=1, max_rows=3)
    assert total(answer) is None and "max_rows = 3" in answer.limits and histograms(session, SUM) == 1


def test_too_few_units_get_the_fixed_limit(connect: Connect) -> None:
    small = TABLE.slice(0, 40)
    session = connect({"t": small}, POLICY, epsilon=10, delta=0)
    assert f"max_rows = {ROWS}" in session.query(SUM, epsilon=1).limits


def test_of_many_sums_no_totals_are_counted(session: dpsql.Session) -> None:
    several = ", ".join(f"SUM(x) FILTER (WHERE v = {i})" for i in range(4))
    assert histograms(session, f"SELECT k, {several} FROM t GROUP BY k") == 1
    assert any(one.startswith("max_rows") for one in session.query(f"SELECT {several} FROM t", epsilon=4).limits)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, STDDEV(x), SUM(x) FROM t GROUP BY k",
        "SELECT x, SUM(v) FROM t GROUP BY x",  # private keys
        "SELECT k FROM t GROUP BY k ORDER BY SUM(x) DESC LIMIT 1",  # winners
    ],
)
def test_what_needs_more_than_sums_and_counts_keeps_rows_and_ranges(session: dpsql.Session, sql: str) -> None:
    answer = session.query(sql, epsilon=4, delta="1e-6")
    assert not any("total of" in one for one in answer.limits)


def test_explain_says_what_is_chosen_and_then_what_is_used(session: dpsql.Session) -> None:
    before = str(session.explain(SUM, epsilon=4))
    assert "one unit's total of x: chosen first, for ε = 0.2 of the price, once" in before
    assert "one unit's total of x = ?" in before and "max_rows" not in before
    answer = session.query(SUM, epsilon=4)
    after = str(session.explain(SUM, epsilon=4))
    assert f"enforced  {TOTAL}{total(answer):,.0f}" in after and "sum of x, bounded by a unit's total" in after


def test_the_price_does_not_depend_on_the_total_that_is_chosen(connect: Connect) -> None:
    prices = set()
    for factor in (0.01, 1, 1000):
        scaled = TABLE.set_column(2, "x", pa.array(np.minimum(TABLE["x"].to_numpy() * factor, 500)))
        session = connect({"t": scaled}, POLICY, epsilon=10, delta=1e-4)
        answer = session.query(ALL, epsilon=1, delta="1e-6")
        prices.add((answer.cost.epsilon, session.budget.spent.epsilon, session.budget.spent.delta))
    ((cost, spent, _),) = prices
    assert cost == spent == 1


def test_under_zcdp_and_replace_one_a_total_is_bounded_as_well(connect: Connect) -> None:
    budget = {"epsilon": 60, "delta": 1e-6, "accountant": "zcdp"}
    session = connect({"t": TABLE}, {"budget": budget, "privacy": {"adjacency": "replace_one"}, **POLICY})
    answer = session.query(SUM, epsilon=20)
    assert total(answer) is not None
    (step,) = session.explain(SUM, epsilon=20).steps
    (m,) = step.measurements
    assert isinstance(m.statistic, BoundedSum)
    assert m.sensitivity.l1 == 2 * Fraction(m.statistic.total) * 2**step.bits
    exact = TABLE["x"].to_numpy().sum()
    assert abs(sum(row[1] for row in answer.rows) - exact) < 0.2 * exact


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("column", [{"min": -1e300, "max": 1e300}, {"min": -1e-300, "max": 1e-300}, {"bounds": "auto"}])
@pytest.mark.sample(2)
def test_what_is_paid_for_is_answered_near_the_ends_of_floats(
    connect: Connect, column: dict[str, Any], mechanism: str
) -> None:
    """Estimates are floats: what overflows there must not stop a query whose histograms have been paid for."""
    ids = np.repeat(np.arange(300), 1 + np.arange(300) % 3)
    table = pa.table({"id": ids, "k": np.array(list("abcd"))[ids % 4], "x": np.full(len(ids), 1e300)})
    columns = {"k": {"values": list("abcd"), "nullable": False}, "x": column}
    policy = {"privacy": {"mechanism": mechanism}, "tables": {"t": {"unit": "id", "columns": columns}}}
    session = connect({"t": table}, policy, epsilon=1000, delta=1e-4)
    answer = session.query("SELECT k, SUM(x), AVG(x), COUNT(*) FROM t GROUP BY k", epsilon=20)
    assert len(answer.rows) == 5 and answer.limits  # the last is NULL
