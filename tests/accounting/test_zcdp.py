"""Zero-concentrated accounting: the conversion, what noise costs in ρ, the filter, and whole queries under it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Connect, charge

import dpsql
from dpsql.accounting.filters import Zcdp
from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.cost import Conversion, Cost, pure_epsilon, pure_rho, rounded
from dpsql.core.errors import BudgetError, LedgerError, PolicyError
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.budget import Split, ZcdpBudget
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax

MILLIONTH = Fraction(1, 10**6)
ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
ACCOUNT = Account(Fraction(1), MILLIONTH, "zcdp", ROW)

epsilons = st.fractions(Fraction(1, 10**6), 100) | st.sampled_from([Fraction(1), Fraction(10**12)])
deltas = st.sampled_from([Fraction(1, 10**300), Fraction(1, 10**12), MILLIONTH, Fraction(1, 2000)])


def test_the_rho_that_fits_in_one_and_a_millionth() -> None:
    assert float(Conversion(MILLIONTH).rho(Fraction(1))) == pytest.approx(0.024356, abs=5e-7)
    naive = (math.sqrt(1 + math.log(1e6)) - math.sqrt(math.log(1e6))) ** 2
    assert naive == pytest.approx(0.017469, abs=5e-7)


@settings(max_examples=60, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_no_order_gives_a_smaller_delta_than_the_conversion_certifies(epsilon: Fraction, delta: Fraction) -> None:
    """Tight and valid: at the ρ that was found some order reaches δ, and 0.01% more would leave it behind."""

    def log_delta(rho: float) -> float:
        e = float(epsilon)
        best = math.inf
        for i in range(-1400, 1401):
            b = 10 ** (i / 100)
            best = min(best, b * ((1 + b) * rho - e) - b * math.log1p(1 / b) - math.log1p(b))
        return best

    rho = float(Conversion(delta).rho(epsilon))
    wanted = math.log(delta.numerator) - math.log(delta.denominator)
    coarse = abs(wanted) * 1e-3 + float(epsilon) * 1e-6 + 1e-2  # the grid of orders above is coarse
    assert log_delta(rho) <= wanted + coarse
    assert log_delta(rho * 1.02) > wanted - coarse


@settings(max_examples=80, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_there_and_back_is_never_cheaper(epsilon: Fraction, delta: Fraction) -> None:
    conversion = Conversion(delta)
    rho = conversion.rho(epsilon)
    assert float(conversion.epsilon(rho)) == pytest.approx(float(epsilon), rel=1e-9)
    afforded = conversion.affords(rho)
    assert conversion.rho(afforded) <= rho
    assert float(afforded) == pytest.approx(float(epsilon), rel=1e-6)


@settings(max_examples=80, deadline=None)
@given(epsilon=epsilons)
def test_pure_epsilon_costs_epsilon_times_tanh(epsilon: Fraction) -> None:
    cost = pure_rho(epsilon)
    assert float(cost) == pytest.approx(float(epsilon) * math.tanh(float(epsilon) / 2), rel=1e-12)
    assert cost <= min(epsilon, epsilon**2 / 2) * (1 + Fraction(1, 10**15))
    assert pure_rho(pure_epsilon(cost)) <= cost
    assert float(pure_epsilon(cost)) == pytest.approx(float(epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 8.0])
def test_no_order_of_discrete_laplace_noise_costs_more_than_its_rho(epsilon: float) -> None:
    """Rényi divergence by enumeration, for two counts that differ by 1; randomized response reaches the bound."""
    rho = float(pure_rho(Fraction(epsilon)))
    noise = DiscreteLaplace(1 / Fraction(epsilon))
    reach = int(60 / epsilon) + 5
    p = [noise.pmf(z) for z in range(-reach, reach)]
    q = [noise.pmf(z - 1) for z in range(-reach, reach)]
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    for alpha in (1.0001, 1.5, 2.0, 5.0, 20.0):
        for a, b in ((p, q), (q, p), ([keep, 1 - keep], [1 - keep, keep])):
            logs = [alpha * math.log(x) + (1 - alpha) * math.log(y) for x, y in zip(a, b, strict=True)]
            total = math.fsum(map(math.exp, logs))
            assert math.log(total) / (alpha - 1) <= alpha * rho * (1 + 1e-6)
    divergence = math.log(keep**1.0001 * (1 - keep) ** -0.0001 + (1 - keep) ** 1.0001 * keep**-0.0001) / 0.0001
    assert divergence == pytest.approx(rho, rel=1e-3)  # no smaller ρ would do


sizes = st.lists(
    st.builds(Sensitivity, st.fractions(Fraction(1, 1000), 10**6), st.fractions(Fraction(1, 1000), 10**6)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(epsilon=st.fractions(Fraction(1, 10**6), 50), sensitivities=sizes)
def test_noise_is_calibrated_to_the_whole_rho_and_never_beyond(
    epsilon: Fraction, sensitivities: list[Sensitivity]
) -> None:
    conversion = Conversion(MILLIONTH / 2)
    for split in (Split(ZcdpBudget(epsilon, conversion), noise) for noise in (DiscreteLaplace, Gaussian)):
        noises = split.noises(sensitivities)
        cost = split.cost(sensitivities, noises)
        assert cost.rho is not None and cost.rho <= conversion.rho(epsilon)
        assert float(cost.rho) == pytest.approx(float(conversion.rho(epsilon)), rel=1e-6)
        assert (cost.epsilon, cost.delta) == (epsilon, MILLIONTH / 2)
        exact = Fraction(0)
        for s, noise in zip(sensitivities, noises, strict=True):
            if isinstance(noise, Gaussian):
                exact += s.l2_squared / (2 * noise.sigma**2)
            else:
                assert isinstance(noise, DiscreteLaplace | NoisyMax)
                exact += pure_rho(s.l1 / noise.scale)
        assert exact <= cost.rho


def test_gaussian_noise_is_delta_over_the_root_of_two_rho() -> None:
    split = Split(ZcdpBudget(Fraction(1), Conversion(MILLIONTH)), Gaussian)
    (noise,) = split.noises([Sensitivity(Fraction(1), Fraction(1))])
    assert isinstance(noise, Gaussian)
    assert float(noise.sigma) == pytest.approx(1 / math.sqrt(2 * 0.02435597), rel=1e-6)


# ---------------------------------------------------------------- the account


def spend(rho: Fraction, parts: Fraction = Fraction(0)) -> Cost:
    return Cost(Fraction(1, 10), MILLIONTH / 2 + parts, rho, parts)


amounts = st.fractions(0, Fraction(3, 100), max_denominator=10**6)


@settings(max_examples=60, deadline=None)
@given(spends=st.lists(st.tuples(amounts, st.fractions(0, 1, max_denominator=50)), max_size=20))
def test_any_sequence_of_spends_agrees_with_exact_sums_of_rho_and_of_thresholds(
    spends: list[tuple[Fraction, Fraction]],
) -> None:
    total = ACCOUNT.total
    assert total.rho is not None
    rho = parts = Fraction(0)
    with Ledger(":memory:", ACCOUNT) as ledger:
        for r, share in spends:
            p = share * total.parts
            if rho + r <= total.rho and parts + p <= total.parts:
                charge(ledger, spend(r, p), {})
                rho, parts = rho + r, parts + p
            else:
                with pytest.raises(BudgetError):
                    charge(ledger, spend(r, p), {})
            spent = ledger.balance.spent
            assert (spent.rho, spent.parts) == (rho, parts)
            assert spent.epsilon <= 1 and spent.delta <= MILLIONTH


def test_an_account_always_admits_one_query_of_its_whole_epsilon() -> None:
    for text in ("0.001", "0.1", "1", "3", "17.3"):
        total = Zcdp(Fraction(text), MILLIONTH)
        for kind in (DiscreteLaplace, Gaussian):
            split = Split(ZcdpBudget(Fraction(text), total.conversion), kind)
            sensitivities = [Sensitivity(Fraction(7), Fraction(5))] * 3
            price = split.cost(sensitivities, split.noises(sensitivities))
            assert total.admits(total.nothing, price)
            assert total.times(total.total, price) == 1


def test_a_refusal_offers_an_epsilon_that_can_be_paid(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY | {"budget": BUDGET})
    session.query(COUNT, epsilon="0.8")
    with pytest.raises(BudgetError) as refused:
        session.query(COUNT, epsilon="0.9")
    assert "rho = " in refused.value.message and "is left" in refused.value.message
    offered = (refused.value.hint or "").split("fits is ")[1]
    with pytest.raises(BudgetError):
        session.query("SELECT COUNT(*) FROM t WHERE v > 1", epsilon=float(offered) * 1.001)
    session.query("SELECT COUNT(*) FROM t WHERE v > 1", epsilon=offered)


def test_an_account_without_delta_cannot_be_zcdp(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as refused:
        Ledger(tmp_path / "l.sqlite", Account(Fraction(1), Fraction(0), "zcdp", ROW))
    assert refused.value.code == "needs-delta"
    with pytest.raises(PolicyError, match="zcdp needs delta > 0"):
        dpsql.Policy.from_dict(POLICY | {"budget": BUDGET | {"delta": 0}})


def test_prices_of_two_accountants_are_not_mixed() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger, pytest.raises(ValueError):
        charge(ledger, Cost(Fraction(1, 10)), {})


def test_rounding_keeps_twenty_digits_and_the_side() -> None:
    third = Fraction(1, 3)
    assert rounded(third, up=False) < third < rounded(third, up=True)
    assert rounded(third, up=True) - rounded(third, up=False) == Fraction(1, 10**20)


# ---------------------------------------------------------------- whole queries

TABLE = pa.table({"k": ["a", "b", "c"] * 40, "v": list(range(120))})
BUDGET = {"epsilon": 1, "delta": 1e-6, "accountant": "zcdp"}
POLICY = {
    "privacy": {"limits_share": 0, "max_groups": 1},
    "tables": {"t": {"unit": "row", "columns": {"v": {"min": 0, "max": 200}}}},
}
COUNT = "SELECT COUNT(*) FROM t"


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_query_costs_its_rho_and_says_its_guarantee(connect: Connect, mechanism: str) -> None:
    session = connect({"t": TABLE}, POLICY | {"budget": BUDGET})
    total = session.budget.total.rho
    answer = session.query("SELECT COUNT(*), SUM(v) FROM t", epsilon=0.5, mechanism=mechanism)
    wanted = Conversion(MILLIONTH / 2).rho(Fraction(1, 2))
    assert answer.cost.rho is not None and total is not None
    assert answer.cost.rho <= wanted and float(answer.cost.rho) == pytest.approx(float(wanted))
    assert (answer.cost.epsilon, answer.cost.delta) == (Fraction(1, 2), MILLIONTH / 2)
    assert session.budget.spent.rho == answer.cost.rho
    assert session.budget.remaining.rho == total - answer.cost.rho


def test_thresholds_take_their_own_delta(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY | {"budget": BUDGET})
    answer = session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1)
    assert answer.cost.delta == MILLIONTH and answer.cost.parts == MILLIONTH / 2
    assert session.budget.remaining.rho is not None and session.budget.remaining.rho < Fraction(1, 10**6)
    assert session.budget.remaining.delta == 0


def test_more_small_queries_fit_under_zcdp_than_under_basic(connect: Connect) -> None:
    """The figure of THEORY: with Gaussian noise zcdp wins from about a dozen equal queries on."""
    session = connect({"t": TABLE}, POLICY | {"budget": BUDGET})
    quote = session.explain(COUNT, epsilon="0.2", mechanism="gaussian")
    assert quote.fits is not None
    small = session.explain(COUNT, epsilon="0.05", mechanism="gaussian").fits
    assert small is not None and small.whole["zcdp"] is not None and small.whole["basic"] is not None
    assert small.whole["zcdp"] > 2 * small.whole["basic"]
    paid = 0
    while True:
        try:
            session.query(f"SELECT COUNT(*) FROM t WHERE v > {paid}", epsilon="0.2", mechanism="gaussian")
            paid += 1
        except BudgetError:
            break
    assert paid == quote.fits.more == quote.fits.whole["zcdp"]


def test_what_explain_says_fits_is_what_fits_under_basic(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1, delta=1e-6)
    fits = session.explain(COUNT, epsilon="0.3").fits
    assert fits is not None and fits.more == 3 and fits.whole["basic"] == 3
    session.query(COUNT, epsilon="0.3")
    fits = session.explain(COUNT, epsilon="0.3").fits
    assert fits is not None and fits.more == 2 and fits.whole["basic"] == 3
    assert "2 more" in str(session.explain(COUNT, epsilon="0.3"))
