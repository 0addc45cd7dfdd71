"""mechanism = "discrete_gaussian": asked for by policy, call or SQL; priced, explained, stored and found again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.core.errors import PrivacyError
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote.model import Quote

MICRO = Fraction(1, 10**6)
TABLE = pa.table({"id": list(range(600)), "k": ["a", "b", "c"] * 200, "v": [i % 50 for i in range(600)]})
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 1, "max_groups": 1},
    "tables": {"t": {"unit": "id", "columns": {"k": {"values": ["a", "b", "c"]}, "v": {"min": 0, "max": 50}}}},
}
BY_ROW: dict[str, Any] = {"tables": {"t": {**POLICY["tables"]["t"], "unit": "row"}}}  # then the grid is of ones
ACCOUNTANTS = ["basic", "zcdp"]
QUERIES = {
    "one count": "SELECT COUNT(*) FROM t",
    "one sum": "SELECT SUM(v) FROM t",
    "by key": "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k",
    "average": "SELECT AVG(v), COUNT(*) FROM t",
    "a choice beside it": "SELECT MEDIAN(v), COUNT(*) FROM t",
    "units": "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k",
}


def opened(connect: Connect, accountant: str = "basic", **privacy: Any) -> dpsql.Session:
    policy = {**POLICY, "privacy": {**POLICY["privacy"], **privacy}}
    budget = {"epsilon": 10, "delta": 1e-5, "accountant": accountant}
    return connect({"t": TABLE}, policy | {"budget": budget})


def noises(quote: Quote) -> list[Any]:
    return [m.noise for step in quote.steps for m in step.measurements]


@pytest.mark.sample(6)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("name", QUERIES)
def test_all_noise_that_is_added_is_discrete_and_its_price_is_what_was_asked_for(
    connect: Connect, accountant: str, name: str
) -> None:
    session = opened(connect, accountant)
    quote = session.explain(QUERIES[name], epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    assert all(isinstance(n, DiscreteGaussian | NoisyMax) for n in noises(quote))
    assert any(isinstance(n, DiscreteGaussian) for n in noises(quote))
    price = quote.price
    assert price.epsilon == 1
    if accountant == "basic":
        assert MICRO * Fraction(999, 1000) < price.delta <= MICRO
    else:
        same = session.explain(QUERIES[name], epsilon=1, delta="1e-6", mechanism="gaussian").price
        assert price.rho is not None and same.rho is not None
        assert float(price.rho) == pytest.approx(float(same.rho), rel=1e-9)
    answer = session.query(QUERIES[name], epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    assert len(answer.rows) in (1, 4)
    assert float(session.budget.spent.epsilon) == pytest.approx(1)


def test_one_number_has_the_noise_of_its_exact_delta_and_several_a_little_more(connect: Connect) -> None:
    session = connect({"t": TABLE}, BY_ROW, epsilon=10, delta=1e-5)
    (one,) = noises(session.explain(QUERIES["one count"], epsilon=1, delta="1e-6", mechanism="discrete_gaussian"))
    (several,) = noises(
        session.explain("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    )
    assert one.std == pytest.approx(4.231, abs=1e-3)
    assert several.std == pytest.approx(4.531, abs=1e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_the_policy_and_the_sql_can_ask_for_it(connect: Connect, accountant: str) -> None:
    session = opened(connect, accountant, mechanism="discrete_gaussian")
    (noise,) = noises(session.explain(QUERIES["one count"], epsilon=1))
    assert isinstance(noise, DiscreteGaussian)
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, mechanism = {}) COUNT(*) FROM t"
    session = opened(connect, accountant)
    (noise,) = noises(session.explain(sql.format("'discrete_gaussian'")))
    assert isinstance(noise, DiscreteGaussian)


def test_auto_never_picks_it(connect: Connect) -> None:
    for accountant in ACCOUNTANTS:
        for sql in QUERIES.values():
            quote = opened(connect, accountant).explain(sql, epsilon=1, delta="1e-6")
            assert not any(isinstance(n, DiscreteGaussian) for n in noises(quote))


def test_explain_names_it_with_its_scale(connect: Connect) -> None:
    session = connect({"t": TABLE}, BY_ROW, epsilon=10, delta=1e-5)
    quote = session.explain(QUERIES["one count"], epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    assert "[1]  count of rows      100%   1   1  discrete Gaussian   4.23     1\n" in str(quote)
    assert "within 8 for one cell with 95%" in str(quote)


def test_without_delta_it_is_refused_with_a_way_out(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10, delta=0)
    with pytest.raises(PrivacyError, match="Discrete Gaussian noise needs δ > 0") as refused:
        session.explain(QUERIES["one count"], epsilon=1, mechanism="discrete_gaussian")
    assert refused.value.code == "needs-delta"


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_what_left_once_is_found_again_with_its_noise(connect: Connect, accountant: str) -> None:
    session = opened(connect, accountant)
    sql = QUERIES["by key"]
    first = session.query(sql, epsilon=1, mechanism="discrete_gaussian")
    spent = session.budget.spent
    again = session.query("SELECT k, SUM(v), COUNT(*) FROM t GROUP BY k", epsilon=1, mechanism="discrete_gaussian")
    assert session.budget.spent == spent and again.receipt.reused
    assert {row[0]: row[1:] for row in again.rows} == {row[0]: row[:0:-1] for row in first.rows}
    (stored,) = again.noisy
    assert all(isinstance(m.noise, DiscreteGaussian) for m in stored.step.measurements)
    assert session.query(sql, epsilon="0.1", mechanism="laplace").receipt.reused  # it has less noise than that


def test_answers_are_as_far_off_as_their_intervals_say(connect: Connect) -> None:
    session = connect({"t": TABLE}, BY_ROW, epsilon=1000, delta=1e-4)
    quote = session.explain(QUERIES["one count"], epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    (noise,) = noises(quote)
    off = [
        session.query(QUERIES["one count"], epsilon=1, delta="1e-6", mechanism="discrete_gaussian", fresh=True).rows[0][
            0
        ]
        - 600
        for _ in range(60)
    ]
    assert sum(abs(o) <= noise.within(0.95) for o in off) >= 46  # 57 are expected
    assert len({*off}) > 5
    assert abs(float(np.mean(off))) < 5 * noise.std / 60**0.5


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_private_keys_have_a_threshold_of_its_own_tail(connect: Connect, accountant: str) -> None:
    policy = {"privacy": {"max_rows": 1, "max_groups": 1}, "tables": {"t": {"unit": "id"}}}
    budget = {"epsilon": 10, "delta": 1e-5, "accountant": accountant}
    session = connect({"t": TABLE}, policy | {"budget": budget})
    sql = "SELECT k, COUNT(*) FROM t GROUP BY k"
    quote = session.explain(sql, epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    (step,) = quote.steps
    assert step.selection is not None
    noise = step.measurements[step.selection.measurement].noise
    assert isinstance(noise, DiscreteGaussian)
    assert noise.tail(step.selection.threshold - 1) <= step.selection.delta < noise.tail(step.selection.threshold - 2)
    answer = session.query(sql, epsilon=1, delta="1e-6", mechanism="discrete_gaussian")
    assert {row[0] for row in answer.rows} == {"a", "b", "c"}


def test_automatic_bounds_come_first_and_the_rest_is_discrete(connect: Connect) -> None:
    columns = {"v": {"bounds": "auto"}}
    policy = {"privacy": {"max_rows": 1}, "tables": {"t": {"unit": "id", "columns": columns}}}
    session = connect({"t": TABLE}, policy, epsilon=10, delta=1e-5)
    answer = session.query("SELECT SUM(v) FROM t", epsilon=4, delta="1e-6", mechanism="discrete_gaussian")
    (noisy,) = answer.noisy
    assert [type(m.noise) for m in noisy.step.measurements] == [DiscreteGaussian]
    assert session.budget.spent.epsilon <= 4 and session.budget.spent.delta <= MICRO


def test_there_is_no_pld_figure_rather_than_one_that_leaves_it_out(connect: Connect) -> None:
    from dpsql.accounting.filters import composed, recorded

    session = connect({"t": TABLE}, BY_ROW, epsilon=10, delta=1e-5)
    size = session.explain(QUERIES["one count"], epsilon=1, mechanism="discrete_gaussian").measured
    note = recorded(size)
    assert [kind for kind, _ in note] == ["discrete_gaussian"]
    laplace = recorded([(s, DiscreteLaplace(Fraction(1))) for s, _ in size])
    assert composed([{"noises": laplace}], MICRO) is not None
    assert composed([{"noises": laplace}, {"noises": note}], MICRO) is None
