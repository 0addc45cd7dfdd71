"""Every mechanism with either accountant: what is bought costs what it may, no more; it is stored and read again."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.cost import Conversion
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.base import Mechanism, Noise, Pure
from dpsql.mechanisms.budget import BasicBudget, Shared, Split, ZcdpBudget, together
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian, DiscreteNormal
from dpsql.mechanisms.gaussian_noise import Gaussian, Normal
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.registry import ASKED_FOR, AUTOMATIC, noise_of, read, written
from dpsql.mechanisms.response import RandomizedResponse

MICRO = Fraction(1, 10**6)
KINDS = [kind for kind in ASKED_FOR if kind != "auto"]

amounts = st.fractions(Fraction(1, 50), 1000, max_denominator=50)
sizes = st.lists(
    st.builds(lambda l1, share, choice: Sensitivity(l1, l1 * l1 * share, choice), amounts, st.just(1), st.booleans()),
    min_size=1,
    max_size=5,
)


def budgets(epsilon: Fraction) -> list[Shared]:
    return [BasicBudget(epsilon, MICRO), ZcdpBudget(epsilon, Conversion(MICRO))]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(epsilon=st.fractions(Fraction(1, 100), 10, max_denominator=100), sensitivities=sizes)
def test_what_is_bought_costs_the_whole_budget_and_no_more(
    kind: str, epsilon: Fraction, sensitivities: list[Sensitivity]
) -> None:
    for budget in budgets(epsilon):
        split = Split(budget, noise_of(kind))
        noises = split.noises(sensitivities)
        cost = split.cost(sensitivities, noises)
        assert [isinstance(n, NoisyMax) for n in noises] == [s.choice for s in sensitivities]
        assert cost.epsilon <= epsilon and cost.delta <= MICRO
        if isinstance(budget, ZcdpBudget):
            assert cost.rho is not None and float(budget.whole) * (1 - 1e-6) <= float(cost.rho) <= float(budget.whole)
        else:
            assert cost.epsilon == epsilon
            needs_delta = not noise_of(kind).pure and not all(s.choice for s in sensitivities)
            assert float(cost.delta) == pytest.approx(float(MICRO) if needs_delta else 0, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_less_noise_than_was_bought_costs_more_than_there_is(kind: str) -> None:
    sensitivities = [Sensitivity(Fraction(3), Fraction(5)), Sensitivity(Fraction(2), Fraction(4))]
    for budget in budgets(Fraction(1)):
        split = Split(budget, noise_of(kind))
        less = [read([n.kind, str(Fraction(n.written) * Fraction(9, 10))]) for n in split.noises(sensitivities)]
        if isinstance(budget, ZcdpBudget):
            with pytest.raises(AssertionError, match="more than it was calibrated to"):
                split.cost(sensitivities, less)
        else:
            cost = split.cost(sensitivities, less)
            assert cost.epsilon > 1 or cost.delta > MICRO * Fraction(11, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_that_are_compared_are_about_those_that_are_drawn(kind: str) -> None:
    sensitivities = [Sensitivity(Fraction(300), Fraction(50_000)), Sensitivity(Fraction(40), Fraction(1600))]
    for budget in budgets(Fraction(1)):
        split = Split(budget, noise_of(kind))
        for noise, variance in zip(split.noises(sensitivities), split.variances(sensitivities), strict=True):
            assert noise.variance == pytest.approx(float(variance), rel=1e-3)


def test_a_single_number_has_less_discrete_noise_than_a_vector_and_the_same_price() -> None:
    one, several = (Sensitivity(Fraction(3), Fraction(9), single=single) for single in (True, False))
    split = Split(BasicBudget(Fraction(1), MICRO), DiscreteGaussian)
    (exact,), (bound,) = split.noises([one]), split.noises([several])
    assert exact.variance < 0.9 * bound.variance
    for size, noise in ((one, exact), (several, bound)):
        cost = split.cost([size], [noise])
        assert cost.epsilon == 1 and MICRO * Fraction(99, 100) < cost.delta <= MICRO
    # What is bought for one number doesn't do for several that move as far together.
    assert split.cost([several], [exact]).delta > MICRO
    # Nor for two such numbers: then they are a vector, whatever each is by itself.
    assert split.cost([one, one], [exact, exact]).delta > 2 * MICRO


def test_events_of_one_kind_make_one_vector_and_pure_ones_none() -> None:
    assert together([Pure(Fraction(1))]) is None
    assert together([Normal(Fraction(1)), Pure(Fraction(1)), Normal(Fraction(2))]) == Normal(Fraction(3))
    size = Sensitivity(Fraction(1), Fraction(1), single=True)
    alone = DiscreteGaussian(Fraction(4)).event(size)
    assert alone.alone is not None
    assert alone.beside(DiscreteNormal(Fraction(0))) == DiscreteNormal(Fraction(0)).beside(alone) == alone
    assert alone.beside(alone) == DiscreteNormal(Fraction(1, 4))


def test_what_randomises_rows_adds_no_noise_to_statistics() -> None:
    with pytest.raises(AssertionError, match="adds no noise"):
        Split(BasicBudget(Fraction(1)), RandomizedResponse).noises([Sensitivity(Fraction(1), Fraction(1))])


# ---------------------------------------------------------------- by name


@pytest.mark.parametrize(
    ("noise", "stored"),
    [
        (DiscreteLaplace(Fraction(7, 3)), ["laplace", "7/3"]),
        (Gaussian(Fraction(5)), ["gaussian", "5"]),
        (DiscreteGaussian(Fraction(9, 4)), ["discrete_gaussian", "9/4"]),
        (NoisyMax(Fraction(1, 8)), ["choice", "1/8"]),
    ],
)
def test_a_noise_is_stored_by_its_name_and_parameter_and_read_again(
    noise: DiscreteLaplace | Gaussian | DiscreteGaussian | NoisyMax, stored: list[str]
) -> None:
    assert written(noise) == stored
    assert read(stored) == noise


def test_an_unknown_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown noise magic"):
        read(["magic", "1"])


def test_every_noise_keeps_the_protocol() -> None:
    noises: list[type[Noise]] = [DiscreteLaplace, Gaussian, DiscreteGaussian]  # which type checkers look at, too
    assert {noise_of(kind) for kind in KINDS} == {*noises}
    names = {n for part in (Mechanism, Noise) for n in {*part.__annotations__, *vars(part)} if not n.startswith("_")}
    assert len(names) > 12
    for noise in noises:
        assert not {name for name in names if not hasattr(noise, name)}


def test_every_noise_is_found_under_its_own_name_and_auto_tries_what_it_always_did() -> None:
    assert [noise_of(kind).kind for kind in KINDS] == KINDS
    assert AUTOMATIC == ("laplace", "gaussian")


def test_names_can_be_asked_for_without_importing_any_noise() -> None:
    code = "import sys, dpsql.mechanisms.registry; assert 'dpsql.mechanisms.laplace_noise' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
