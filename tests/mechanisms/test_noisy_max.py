"""Report noisy max: its law against the formula, its price against neighbouring scores, and its public face."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
import pytest

from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import choose
from dpsql.mechanisms.noisy_max import NoisyMax


def law(scores: list[int], scale: float) -> list[float]:
    """Pr[candidate i wins], ties to the first, by adding up over the winner's noise."""
    a = exp(-1 / scale)

    def below(t: int) -> float:  # Pr[Z ≤ t]
        return 1 - a ** (t + 1) if t >= 0 else 0.0

    found = []
    for i, s in enumerate(scores):
        total = 0.0
        for z in range(int(60 * scale) + 60):
            p = (1 - a) * a**z
            for j, t in enumerate(scores):
                if j != i:
                    p *= below(s + z - t - (1 if j < i else 0))
            total += p
        found.append(total)
    return found


CASES = [[0, 0], [0, 1, 3], [5, 5, 5, 5], [2, 0, 2, 1, -4], [0, 7]]


@pytest.mark.parametrize("scores", CASES)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 2)])
@pytest.mark.sample(3)
def test_winners_have_the_law_of_the_formula(scores: list[int], scale: Fraction) -> None:
    expected = law(scores, float(scale))
    assert sum(expected) == pytest.approx(1, abs=1e-9)
    noise, n = NoisyMax(scale), 4_000
    lists = [scores, [0]] * n  # of two lengths, so that winners are looked for list by list
    picked = noise.picks(np.concatenate(lists), np.array([len(one) for one in lists]))
    assert not picked[1::2].any()
    seen = np.bincount(picked[::2], minlength=len(scores))
    chi = sum((s - n * p) ** 2 / (n * p) for s, p in zip(seen, expected, strict=True) if n * p > 5)
    assert chi < 45  # α = 1e-6 for up to four degrees of freedom is below 34


@pytest.mark.parametrize("monotone", [True, False])
def test_no_winner_is_likelier_than_its_price_allows_and_the_price_is_attained(monotone: bool) -> None:
    worst = 0.0
    moves = [(0, 1)] if monotone else [(-1, 1)]
    for low, high in moves:
        for base in CASES:
            for code in range(2 ** len(base)):
                moved = [s + (high if code >> i & 1 else low) for i, s in enumerate(base)]
                p, q = law(base, 2.0), law(moved, 2.0)
                worst = max(worst, *(abs(log(x / y)) for x, y in zip(p, q, strict=True)))
    loss = Sensitivity(Fraction(1 if monotone else 2), Fraction(0), choice=True)
    epsilon = float(NoisyMax(Fraction(2)).cost(loss).epsilon)
    assert worst <= epsilon + 1e-9
    assert worst >= 0.9 * epsilon


def test_the_winners_of_a_top_three_are_no_likelier_than_three_prices_allow() -> None:
    a = exp(-1 / 2)

    def ordered(scores: list[int]) -> dict[tuple[int, int], float]:
        """Pr of each ordered pair of winners, by enumeration of all noises up to where they hardly occur."""
        top, found = 40, {}
        weights = np.array([(1 - a) * a**z for z in range(top)])
        grids = np.meshgrid(*[np.arange(top)] * 3, indexing="ij")
        mass = weights[grids[0]] * weights[grids[1]] * weights[grids[2]]
        noisy = np.stack([s + g for s, g in zip(scores, grids, strict=True)], axis=-1)
        order = np.argsort(-noisy, axis=-1, kind="stable")
        for first in range(3):
            for second in range(3):
                if first != second:
                    found[first, second] = float(mass[(order[..., 0] == first) & (order[..., 1] == second)].sum())
        return found

    for base, moved in (([0, 0, 0], [1, 0, 1]), ([2, 1, 0], [2, 2, 1]), ([0, 3, 1], [1, 3, 1])):
        p, q = ordered(base), ordered(moved)
        for pair, probability in p.items():
            assert abs(log(probability / q[pair])) <= 2 * 1 / 2 + 1e-6


def test_top_gives_the_largest_in_their_order() -> None:
    assert NoisyMax(Fraction(0)).top(np.array([3, 9, 9, 1]), 3) == [1, 2, 0]
    assert NoisyMax(Fraction(0)).pick(np.array([3, 9, 9, 1])) == 1


def test_huge_scores_do_not_wrap_around() -> None:
    scores = np.array([2**63 - 1, -(2**63), 0])
    assert NoisyMax(Fraction(1)).pick(scores) == 0
    assert choose([10**30, 0, -(10**30)], 1, 1) == 0


def test_choose_takes_integers_and_says_so() -> None:
    assert choose([0, 100], 1, 10) == 1
    assert choose(np.array([100, 0], dtype=np.uint64), 1, "10", monotone=True) == 0
    with pytest.raises(TypeError, match="integers"):
        choose([0.5, 1.0], 1, 1)  # type: ignore[list-item]  # that is what is tried
    with pytest.raises(TypeError):
        # Cut to integers they would move by more.
        choose([Fraction(9, 10), Fraction(11, 10)], Fraction(1, 2), 1)  # type: ignore[list-item]  # so it is tried
    several: list[Any] = [[1, 2]]
    for bad in ([], several):
        with pytest.raises(ValueError, match="at least one"):
            choose(bad, 1, 1)
    with pytest.raises(ValueError, match="positive"):
        choose([1, 2], 1, 0)


def test_a_choice_without_noise_has_no_price() -> None:
    with pytest.raises(ValueError, match="hides nothing"):
        NoisyMax(Fraction(0)).cost(Sensitivity(Fraction(1), Fraction(1), choice=True))
    with pytest.raises(AssertionError):
        NoisyMax(Fraction(1)).cost(Sensitivity(Fraction(1), Fraction(1)))


def test_a_general_metric_is_a_score() -> None:
    """The distance of strings from the data's own: the exponential mechanism's general form."""
    candidates = ["0000", "0011", "1111"]
    scores = [-sum(a != b for a, b in zip(c, "0001", strict=True)) for c in candidates]
    wins = sum(choose(scores, 1, 20) < 2 for _ in range(50))
    assert wins == 50


def test_mutated_prices_would_be_noticed() -> None:
    """A price 10% too small breaks the bound that the law attains."""
    p, q = law([0, 0], 2.0), law([1, 0], 2.0)
    worst = max(abs(log(x / y)) for x, y in zip(p, q, strict=True))
    assert worst <= 0.5 + 1e-9
    many_p, many_q = law([0] * 6, 2.0), law([1] * 5 + [0], 2.0)
    assert max(abs(log(x / y)) for x, y in zip(many_p, many_q, strict=True)) > 0.9 * 0.5
