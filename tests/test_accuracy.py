"""Accuracy first: the least ε that reaches an error, from the noise alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from support import Connect, added_to, sampled

import dpsql
from dpsql.core.errors import BudgetError, PrivacyError
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.quote.goal import Goal

TABLE = pa.table({"k": ["a", "b", "c", "d"] * 50, "v": [float(i % 10) for i in range(200)], "w": list(range(200))})
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "k": {"values": ["a", "b", "c", "d"], "nullable": False},
                "v": {"min": 0, "max": 10},
                "w": {"min": -50, "max": 150},
            },
        }
    },
}
COUNT = "SELECT COUNT(*) AS n FROM t"
BY_KEY = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100)


@pytest.mark.parametrize("accuracy", [3, 10, "100", 12345.5])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.sample(2)
def test_the_epsilon_is_the_least_of_four_digits_that_reaches_it(
    session: dpsql.Session, accuracy: Any, confidence: float
) -> None:
    quote = session.explain(COUNT, accuracy=accuracy, confidence=confidence)
    epsilon = quote.price.epsilon
    assert DiscreteLaplace(1 / epsilon).within(confidence) <= float(accuracy)
    digit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 3)
    assert DiscreteLaplace(1 / (epsilon - digit)).within(confidence) > float(accuracy)


def test_all_cells_count_not_just_one(session: dpsql.Session) -> None:
    quote = session.explain(BY_KEY, accuracy=10)
    cells = quote.steps[0].count
    assert cells is not None and cells >= 4
    (measurement,) = quote.steps[0].measurements
    assert added_to(measurement).within(0.95, cells) <= 10 < added_to(measurement).within(0.95, 10 * cells)
    assert quote.price.epsilon > session.explain(COUNT, accuracy=10).price.epsilon


def test_what_is_promised_is_kept(session: dpsql.Session) -> None:
    """With 90% for all cells at once: of 200 answers, at most 42 may miss (the probability of more is below 1e-6)."""
    quote = session.explain(BY_KEY, accuracy=20, confidence=0.9)
    missed = 0
    for _ in range(200):
        rows = session.query(BY_KEY, epsilon=quote.price.epsilon, fresh=True).rows
        missed += any(abs(n - 50) > 20 for k, n in rows if k is not None)
    assert missed <= 42


def test_the_answer_costs_what_the_quote_says_and_its_intervals_are_as_narrow(session: dpsql.Session) -> None:
    answer = session.query(COUNT, accuracy=25)
    assert answer.cost.epsilon == session.explain(COUNT, accuracy=25).price.epsilon
    ((low, high),) = answer.intervals()["n"] or []  # type: ignore[misc]
    assert high - low <= 50
    assert session.budget.spent.epsilon == answer.cost.epsilon


@pytest.mark.parametrize(("accuracy", "absolute"), [("10% of range", 20), ("50 % OF RANGE", 100), ("2.5% of range", 5)])
def test_a_share_of_the_range_is_that_of_the_value(session: dpsql.Session, accuracy: str, absolute: int) -> None:
    sql = "SELECT SUM(w) AS s FROM t"
    assert session.explain(sql, accuracy=accuracy).price == session.explain(sql, accuracy=absolute).price


def test_every_output_must_reach_it(session: dpsql.Session) -> None:
    both = session.explain("SELECT COUNT(*) AS n, SUM(w) AS s FROM t", accuracy=500)
    assert both.price.epsilon > session.explain(COUNT, accuracy=500).price.epsilon


@pytest.mark.parametrize(
    ("sql", "accuracy", "says"),
    [
        ("SELECT AVG(v) AS mean FROM t", 1, "depends on how many rows"),
        ("SELECT VAR_POP(v) AS spread FROM t", 1, "depends on how many rows"),
        ("SELECT SUM(v) / COUNT(*) AS mean FROM t", 1, "it is computed from"),
        (COUNT, "1% of range", "no declared range"),
        (COUNT, "5%", "a positive number or a share of a range"),
        (COUNT, 0, "a positive number"),
        (COUNT, -3, "a positive number"),
        (COUNT, "nan", "a positive number"),
        (COUNT, "0% of range", "a positive number"),
        (COUNT, True, "a positive number"),
    ],
)
def test_what_cannot_be_promised_is_refused_and_costs_nothing(
    session: dpsql.Session, sql: str, accuracy: Any, says: str
) -> None:
    with pytest.raises(PrivacyError) as refused:
        session.query(sql, accuracy=accuracy)
    assert refused.value.code == "accuracy" and says in refused.value.message and refused.value.hint
    assert session.budget.spent.epsilon == 0


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, float("nan"), True])
def test_a_confidence_lies_between_0_and_1(session: dpsql.Session, confidence: Any) -> None:
    with pytest.raises(PrivacyError):
        session.query(COUNT, accuracy=5, confidence=confidence)


def test_confidence_alone_and_epsilon_beside_accuracy_are_refused(session: dpsql.Session) -> None:
    for options in ({"confidence": 0.9}, {"accuracy": 5, "epsilon": 1}):
        with pytest.raises(PrivacyError) as refused:
            session.query(COUNT, **options)
        assert refused.value.code == "accuracy"


def test_an_accuracy_beyond_the_largest_query_says_what_can_be_had(connect: Connect) -> None:
    budget = {"epsilon": 10, "delta": 0, "max_query_epsilon": 1}
    session = connect({"t": TABLE}, POLICY | {"budget": budget})
    with pytest.raises(PrivacyError) as refused:
        session.query("SELECT SUM(w) AS s FROM t", accuracy=1)
    assert "no ε that one query may spend" in refused.value.message
    offered = (refused.value.hint or "").split("accurate to ")[1].split(";")[0]
    assert session.explain("SELECT SUM(w) AS s FROM t", accuracy=float(offered) * 1.001).price.epsilon <= 1


def test_an_accuracy_that_is_too_dear_says_which_one_fits(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1)
    session.query(BY_KEY, epsilon="0.9")
    with pytest.raises(BudgetError) as refused:
        session.query(COUNT, accuracy=5)
    hint = refused.value.hint or ""
    assert "the accuracy that fits is" in hint and "largest epsilon that fits is 0.1" in hint
    offered = hint.split("accuracy that fits is ")[1].splitlines()[0]
    assert session.query(COUNT, accuracy=offered).cost.epsilon <= Fraction(1, 10)


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_the_accuracy_that_fits_does_fit(connect: Connect, accountant: str) -> None:
    """What is left has more digits than the ε that an accuracy costs; what is offered must not round up past it."""
    for i, sql in enumerate(sampled([COUNT, BY_KEY, "SELECT SUM(w) AS s FROM t"] * 3, 2)):
        budget = {"epsilon": 1, "delta": 1e-6, "accountant": accountant}
        session = connect({"t": TABLE}, POLICY | {"budget": budget})
        session.query("SELECT COUNT(*) FROM t WHERE w > 1", epsilon=f"0.{8116424 - 5551 * i}")
        goal = Goal.parse(1, None)
        assert goal is not None
        accuracy = goal.loosest(session.explain(sql, epsilon=1)) * 11 / 10
        with pytest.raises(BudgetError) as refused:
            session.query(sql, accuracy=accuracy)
        offered = (refused.value.hint or "").split("accuracy that fits is ")[1].splitlines()[0]
        assert session.query(sql, accuracy=offered).rows


def test_accuracy_works_under_zcdp_and_with_gaussian_noise(connect: Connect) -> None:
    budget = {"epsilon": 10, "delta": 1e-6, "accountant": "zcdp"}
    session = connect({"t": TABLE}, POLICY | {"budget": budget})
    for mechanism in ("laplace", "gaussian", "discrete_gaussian"):
        quote = session.explain(COUNT, accuracy=30, mechanism=mechanism)
        ((measurement,),) = [s.measurements for s in quote.steps]
        assert 27 <= added_to(measurement).within(0.95) <= 30


def test_private_keys_are_accurate_each_by_itself(connect: Connect) -> None:
    policy = {"privacy": {"max_groups": 1}, "tables": {"t": {"unit": "row"}}}
    session = connect({"t": TABLE}, policy, epsilon=10, delta=1e-6)
    quote = session.explain(BY_KEY, accuracy=15)
    assert added_to(quote.steps[0].measurements[0]).within(0.95) <= 15


def test_prices_fall_with_the_error_that_is_accepted(session: dpsql.Session) -> None:
    quotes = session.prices(BY_KEY)
    assert [float(q.epsilon) for q in quotes] == [0.01, 0.03, 0.1, 0.3, 1, 3, 10]
    widths = [added_to(q.steps[0].measurements[0]).within(0.95) for q in quotes]
    assert widths == sorted(widths, reverse=True)
    assert [q.price.epsilon for q in quotes] == [q.epsilon for q in quotes]
    assert float(session.prices(BY_KEY, epsilon="0.7")[4].epsilon) == 0.7
    assert session.budget.spent.epsilon == 0
