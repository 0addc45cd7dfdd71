"""Randomized response against its probabilities: by enumeration of bits, by frequency, and by what it costs."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from frequencies import ALPHA_SIGMAS, chi_squared_limit

from dpsql.core.cost import Conversion, pure_rho
from dpsql.mechanisms import response, sampler
from dpsql.mechanisms.budget import BasicBudget, Split, ZcdpBudget
from dpsql.mechanisms.response import ONE_ROW, RandomizedResponse, shuffled, threshold, uniform

EPSILONS = [Fraction(1, 10**7), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(20), Fraction(700)]
SIZES = [2, 3, 5]


def chi_squared(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(np.sum((counts - expected) ** 2 / expected))


def exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds on e^x for x ≥ 0 by its series, in fractions: nothing that the sampler uses."""
    halvings = max(0, math.ceil(x).bit_length() + 3)
    y = x / 2**halvings
    total = term = Fraction(1)
    for i in range(1, 60):
        term = term * y / i
        total += term
    low, high = total, total + 2 * term  # y < 1/4: the rest is below the last term

    def short(value: Fraction, up: bool) -> Fraction:
        shift = 900 - (value.numerator.bit_length() - value.denominator.bit_length())
        whole = value.numerator * 2**shift if shift >= 0 else value.numerator
        below = value.denominator if shift >= 0 else value.denominator * 2**-shift
        return Fraction(-(-whole // below) if up else whole // below) / Fraction(2) ** shift

    for _ in range(halvings):
        low, high = short(low * low, False), short(high * high, True)
    return low, high


def keep(epsilon: Fraction, size: int) -> tuple[Fraction, Fraction]:
    """Bounds on e^ε/(e^ε + size − 1)."""
    low, high = exponential(epsilon)
    return low / (low + size - 1), high / (high + size - 1)


# ---------------------------------------------------------------- the probabilities, exactly


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [*SIZES, 1000])
def test_a_value_is_kept_below_a_threshold_that_is_the_formula_to_the_last_bit(epsilon: Fraction, size: int) -> None:
    low, high = keep(epsilon, size)
    for bits in (8, 32, 96, 160):
        found = threshold(epsilon, size, bits)
        assert Fraction(found, 2**bits) <= low
        assert high < Fraction(found + 1, 2**bits)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", SIZES)
def test_no_output_is_more_than_e_to_the_epsilon_likelier_for_one_value_than_for_another_and_that_is_attained(
    epsilon: Fraction, size: int
) -> None:
    # The law of the sampler's own thresholds at 2^-512: shift 0 below it, every other shift an equal part of the rest.
    bits = 512
    kept = Fraction(threshold(epsilon, size, bits), 2**bits)
    shifts = [kept, *[(1 - kept) / (size - 1)] * (size - 1)]
    matrix = [[shifts[(y - x) % size] for y in range(size)] for x in range(size)]
    assert all(sum(row) == 1 for row in matrix)
    ratios = [a[y] / b[y] for a, b in itertools.permutations(matrix, 2) for y in range(size)]
    low, high = exponential(epsilon)
    near = 1 + Fraction(1, 2**200) * math.ceil(high)
    assert max(ratios) <= high  # the threshold is rounded down, so the truth lies above by less than 2^-512
    assert max(ratios) * near >= low
    # Theorem RR-1: the ratio of the exact probabilities, not of rounded ones, is e^ε itself.
    exact = keep(epsilon, size)
    other = [(1 - p) / (size - 1) for p in exact]
    assert exact[0] / other[0] <= high and low <= exact[1] / other[1]


def test_the_words_of_eight_bits_give_just_the_outcomes_of_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "_BITS", 8)
    monkeypatch.setattr(sampler, "_words", lambda n, bits: np.arange(256, dtype=np.uint32)[:n])
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: b"\x00" * n)  # more bits: the lowest part of the interval
    for epsilon, size in itertools.product(EPSILONS, SIZES):
        kept = response._below(epsilon, size, 256)
        assert kept.sum() == threshold(epsilon, size, 8) + 1


def test_an_undecided_word_is_settled_by_bits_that_are_appended_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every lane's first word is the one interval that holds p. What follows decides, with the probability that is left.
    epsilon, size = Fraction(1), 3
    first = threshold(epsilon, size, 32)
    monkeypatch.setattr(sampler, "_words", lambda n, bits: np.full(n, first, dtype=np.uint32))
    n = 20_000
    kept = response._below(epsilon, size, n)
    low, _ = keep(epsilon, size)
    inside = float(low * 2**32 - first)
    assert 0.01 < inside < 0.99
    assert abs(kept.sum() - n * inside) < ALPHA_SIGMAS * math.sqrt(n * inside * (1 - inside))


def test_refinement_goes_on_as_long_as_the_interval_holds_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    epsilon, size = Fraction(1), 2
    deep = threshold(epsilon, size, 32 + 128)
    pieces = [(deep >> 64) & (2**64 - 1), deep & (2**64 - 1)]  # follows p's own bits for two more words
    for last, expected in ((0, True), (2**64 - 1, False)):
        given = iter([*pieces, last])
        monkeypatch.setattr(sampler, "_random_bytes", lambda n, given=given: next(given).to_bytes(n, "big"))
        assert response._settled(epsilon, size, deep >> 128, 32) is expected
        assert next(given, None) is None


def test_enormous_epsilon_keeps_every_value() -> None:
    assert not RandomizedResponse(Fraction(10**6), 5).draw(100_000).any()
    assert threshold(Fraction(10**12), 2, 96) == 2**96 - 1


# ---------------------------------------------------------------- by frequency


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("size", [2, 3, 5, 17])
def test_draws_have_the_probabilities_of_the_formula(epsilon: Fraction, size: int) -> None:
    counts = np.bincount(RandomizedResponse(epsilon, size).draw(200_000), minlength=size)
    kept = float(keep(epsilon, size)[0])
    probabilities = np.array([kept, *[(1 - kept) / (size - 1)] * (size - 1)])
    assert len(counts) == size
    assert chi_squared(counts, probabilities) < chi_squared_limit(size - 1)


def test_uniform_integers_are_uniform_and_no_remainder_is_favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (2, 3, 7, 100):
        counts = np.bincount(uniform(size, 100_000), minlength=size)
        assert chi_squared(counts, np.full(size, 1 / size)) < chi_squared_limit(size - 1)
    # 2^32 = 4 mod 6: the last four words would make 0 to 3 likelier, and are drawn again.
    words = iter([np.array([2**32 - 1, 2**32 - 4, 2**32 - 5], np.uint32), np.array([8, 9], np.uint32)])
    monkeypatch.setattr(sampler, "_words", lambda n, bits: next(words))
    assert uniform(6, 3).tolist() == [2, 3, (2**32 - 5) % 6]


def test_every_order_of_four_rows_is_equally_likely() -> None:
    n = 60_000
    orders = Counter(tuple(shuffled(4).tolist()) for _ in range(n))
    assert len(orders) == 24
    counts = np.array(list(orders.values()))
    assert chi_squared(counts, np.full(24, 1 / 24)) < chi_squared_limit(23)


def test_equal_words_never_leave_rows_in_the_order_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    # Words of one random bit: nearly all orders are decided among equal words, some of them many times over.
    def words(n: int, bits: int) -> np.ndarray:
        return np.frombuffer(os.urandom(8 * n), np.uint64) & np.uint64(2**63)

    monkeypatch.setattr(sampler, "_words", words)
    n = 12_000
    orders = Counter(tuple(shuffled(4).tolist()) for _ in range(n))
    assert len(orders) == 24
    assert chi_squared(np.array(list(orders.values())), np.full(24, 1 / 24)) < chi_squared_limit(23)


def test_all_words_of_two_bits_give_every_order_of_three_rows_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    # Exactly: where words are equal, further ones are asked for; all of those, too, weighted by how many there are.
    def law(prefix: list[np.ndarray], weight: Fraction) -> Counter[tuple[int, ...]]:
        given, asked = iter(prefix), []

        def words(n: int, bits: int) -> np.ndarray:
            found = next(given, None)
            if found is None:
                asked.append(n)
                raise StopIteration
            return found

        monkeypatch.setattr(sampler, "_words", words)
        found: Counter[tuple[int, ...]] = Counter()
        try:
            found[tuple(shuffled(3).tolist())] += weight  # type: ignore[assignment]
        except StopIteration:
            if len(prefix) < 3:  # then what is left is small, and symmetric like the rest
                options = [
                    np.array(w, np.uint64) << np.uint64(62) for w in itertools.product(range(4), repeat=asked[0])
                ]
                for option in options:
                    found.update(law([*prefix, option], weight / len(options)))
        return found

    orders = law([], Fraction(1))
    assert len(orders) == 6 and len(set(orders.values())) == 1
    assert Fraction(9, 10) < sum(orders.values()) < 1


def test_a_shuffle_is_a_permutation_whatever_the_size() -> None:
    for n in (0, 1, 2, 3, 4, 5, 1023, 1024, 1025, 100_000):
        assert np.array_equal(np.sort(shuffled(n)), np.arange(n))


# ---------------------------------------------------------------- estimates and price


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**7), Fraction(1), Fraction(30), Fraction(10**6)])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_estimate_s_two_numbers_are_those_of_the_formula(epsilon: Fraction, size: int) -> None:
    found = RandomizedResponse(epsilon, size)
    with localcontext(prec=60):
        odds = (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
        kept = 1 / (1 + (size - 1) * odds)
        other = (1 - kept) / (size - 1)
        assert found.slope == pytest.approx(float(1 / (kept - other)), rel=1e-12)
        assert found.offset == pytest.approx(float(other / (kept - other)), rel=1e-12, abs=1e-300)
    # An expectation of f·keep + (1 − f)·other becomes f again, for every f.
    for f in (0.0, 0.3, 1.0):
        expected = f * found.keep + (1 - f) * found.other
        slack = 1e-14 / min(1.0, float(epsilon)) + 1e-9
        assert expected * found.slope - found.offset == pytest.approx(f, abs=slack)


def test_estimates_are_unbiased_and_have_the_error_that_is_promised() -> None:
    drawn, rows, f = RandomizedResponse(Fraction(1), 3), 1000, 0.3
    true = np.zeros(rows, dtype=np.uint32)
    true[: int(f * rows)] = 1
    estimates = []
    for _ in range(2000):
        shares = np.mean((true + drawn.draw(rows)) % 3 == 1)
        estimates.append(shares * drawn.slope - drawn.offset)
    deviation = float(np.std(estimates))
    assert deviation <= drawn.standard_error(rows) * 1.06
    assert abs(np.mean(estimates) - f) < ALPHA_SIGMAS * deviation / math.sqrt(2000)


def test_the_price_is_that_of_the_mechanism_that_draws() -> None:
    assert RandomizedResponse(Fraction(2, 7), 3).cost(ONE_ROW).epsilon == Fraction(2, 7)
    split = Split(BasicBudget(Fraction(1)), RandomizedResponse)
    drawn = [RandomizedResponse(split.budget.pure(Fraction(1, 3)), size) for size in (2, 3, 5)]
    assert [d.epsilon for d in drawn] == [Fraction(1, 3)] * 3
    assert split.cost([ONE_ROW] * 3, drawn).epsilon == 1


def test_under_zcdp_each_column_costs_epsilon_times_the_hyperbolic_tangent_of_its_half() -> None:
    budget = ZcdpBudget(Fraction(1), Conversion(Fraction(1, 10**6)))
    split = Split(budget, RandomizedResponse)
    drawn = [RandomizedResponse(budget.pure(Fraction(1, 2)), size) for size in (2, 3)]
    price = split.cost([ONE_ROW] * 2, drawn)
    each = float(drawn[0].epsilon)
    assert price.rho is not None
    assert float(price.rho) == pytest.approx(2 * each * math.tanh(each / 2), rel=1e-12)
    assert price.rho == 2 * pure_rho(drawn[0].epsilon) <= budget.whole


def test_there_is_no_mechanism_for_one_value_or_without_epsilon() -> None:
    for epsilon, size in ((Fraction(1), 1), (Fraction(0), 2), (Fraction(-1), 2)):
        with pytest.raises(ValueError):
            RandomizedResponse(epsilon, size)


@pytest.mark.true_noise
def test_bits_come_from_the_operating_system_and_from_nowhere_else() -> None:
    assert sampler._random_bytes is os.urandom
