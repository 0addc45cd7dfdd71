"""The public functions: what they take, what they return, that errors hold, and that nothing else is public."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.mechanisms import (
    binomial,
    choose,
    classic_sigma,
    discrete_gaussian,
    gaussian,
    geometric,
    laplace,
    randomized_response,
    toolbox,
    truncated_geometric,
)
from dpsql.mechanisms.gaussian_noise import Gaussian

HUGE = 10**15  # an ε with which nothing is ever moved


def test_all_public_names_are_there_and_say_their_theorem_and_that_no_ledger_is_charged() -> None:
    assert mechanisms.__all__ == sorted(mechanisms.__all__)
    assert set(mechanisms.__all__) == {
        *("laplace", "geometric", "truncated_geometric", "gaussian", "classic_sigma"),
        *("discrete_gaussian", "binomial", "randomized_response", "choose"),
    }
    for name in set(mechanisms.__all__) - {"classic_sigma"}:
        function = getattr(mechanisms, name)
        assert callable(function), name  # and no module of this name hides it
        assert "Theorem" in function.__doc__ and "Charges no" in function.__doc__, name
        assert "confidence" in function.error.__doc__, name
    with pytest.raises(AttributeError, match="nothing"):
        mechanisms.nothing  # noqa: B018


def test_functions_are_not_hidden_by_modules_however_they_are_imported() -> None:
    code = (
        "import dpsql.mechanisms.toolbox, dpsql.mechanisms.sampler, dpsql.mechanisms as m\n"
        "assert all(callable(getattr(m, n)) for n in m.__all__)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_dpsql_imports_none_of_them() -> None:
    code = "import dpsql, sys; assert 'dpsql.mechanisms.toolbox' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("value", [0, -17, 10**30, np.int32(5), True])
def test_an_integer_returns_as_an_integer(value: int) -> None:
    for noisy in (
        geometric(value, 1, HUGE),
        laplace(value, 1, HUGE),
        gaussian(value, 1, HUGE, "1e-9"),
        discrete_gaussian(value, 1, HUGE, "1e-9"),
    ):
        assert type(noisy) is int and noisy == value
    assert abs(binomial(value, 1, 30, "1e-9") - value) <= binomial.error(1, 30, "1e-9", confidence=1 - 1e-12)


def test_a_list_of_integers_gets_a_draw_for_each_and_none_wraps_around() -> None:
    wide = [2**63 - 1, 0, -(2**63)]
    for noisy in (geometric(wide, 1, 1), laplace(wide, 1, 1), gaussian(wide, 1, 1, "1e-6")):
        assert np.abs(np.asarray(noisy, dtype=object) - np.array(wide, dtype=object)).max() < 10**3
    many = discrete_gaussian(np.zeros(1000, dtype=np.int32), 1, "0.1", "1e-6")
    assert isinstance(many, np.ndarray) and len(np.unique(many)) > 50


@pytest.mark.parametrize("tool", [laplace, gaussian])
def test_a_number_on_a_grid_is_a_multiple_of_its_step(tool: Any) -> None:
    rest = ("1e-6",) if tool is gaussian else ()
    noisy = tool(12.345, 1, 1, *rest, grid="0.01")
    assert isinstance(noisy, Fraction) and (noisy * 100).denominator == 1
    assert tool(Fraction(1, 3), 1, HUGE, *rest, grid=Fraction(1, 7)) == Fraction(2, 7)
    assert tool(2.5, 1, HUGE, *rest, grid=1) == 3  # half up, whatever is even
    assert tool(1.5, 1, HUGE, *rest, grid=1) == 2


def test_sensitivity_on_a_grid_is_rounded_up_to_whole_steps() -> None:
    # Two numbers that are 0.25 apart may be one whole step apart once they are rounded: noise for one, not a quarter.
    assert toolbox._steps("0.25", 1) == 1
    assert toolbox._steps(Fraction(5, 2), 1) == 3
    assert toolbox._steps(1, "0.1") == 10
    assert toolbox._steps("0.25", None) == Fraction(1, 4)
    for x in range(-40, 41):
        for gap in range(30):
            a, b = (math.floor(Fraction(n, 10) + Fraction(1, 2)) for n in (x, x + gap))
            assert abs(a - b) <= toolbox._steps(Fraction(gap, 10), 1)


def test_numbers_that_are_no_integers_need_a_grid() -> None:
    for tool, rest in ((laplace, ()), (geometric, ()), (gaussian, ("1e-6",)), (discrete_gaussian, ("1e-6",))):
        for value in (0.5, Fraction(1, 2), [0.5, 1.0]):
            with pytest.raises(TypeError, match="integers"):
                tool(value, 1, 1, *rest)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="single number"):
        laplace([1, 2], 1, 1, grid="0.1")
    with pytest.raises(ValueError, match="step"):
        laplace(1.5, 1, 1, grid=0)


def calls(n: int) -> list[tuple[str, list[float], float]]:
    """For each mechanism: how far n results are off, and what it promises at 90%."""
    zeros, confidence = [0] * n, 0.9
    return [
        ("geometric", np.abs(geometric(zeros, 2, 1)).tolist(), geometric.error(2, 1, confidence=confidence)),
        (
            "laplace",
            np.abs(np.asarray(laplace(zeros, 2, 1))).tolist(),
            float(laplace.error(2, 1, confidence=confidence)),
        ),
        (
            "on a grid",
            [abs(float(cast(Fraction, laplace(0.4, 2, 1, grid="0.5"))) - 0.4) for _ in range(n)],
            float(laplace.error(2, 1, grid="0.5", confidence=confidence)),
        ),
        (
            "gaussian",
            np.abs(np.asarray(gaussian(zeros, 2, 1, "1e-6"))).tolist(),
            float(gaussian.error(2, 1, "1e-6", confidence=confidence)),
        ),
        (
            "discrete_gaussian",
            [abs(cast(int, discrete_gaussian(0, 2, 1, "1e-6"))) for _ in range(n)],
            discrete_gaussian.error(2, 1, "1e-6", confidence=confidence),
        ),
        (
            "binomial",
            [abs(binomial(0, 2, 1, "1e-6")) for _ in range(n)],
            binomial.error(2, 1, "1e-6", confidence=confidence),
        ),
        (
            "truncated_geometric",
            [abs(truncated_geometric(50, 2, 1, maximum=100) - 50) for _ in range(n)],
            truncated_geometric.error(2, 1, maximum=100, confidence=confidence),
        ),
        (
            "choose",
            [abs([0, 3, 6][choose([0, 3, 6], 1, 1)] - 6) for _ in range(n)],
            choose.error(3, 1, 1, confidence=confidence),
        ),
    ]


def test_errors_hold_as_often_as_they_promise() -> None:
    for name, off, error in calls(2000):
        share = np.mean(np.array(off) <= error)
        assert share > 0.9 - 5 * math.sqrt(0.09 / len(off)), name
        assert error > 0, name


def test_the_error_of_many_cells_is_that_of_all_of_them_at_once() -> None:
    assert geometric.error(1, 1, cells=10_000) == 12
    assert geometric.error(1, 1) == 3
    assert discrete_gaussian.error(1, 1, "1e-6", cells=100) > discrete_gaussian.error(1, 1, "1e-6")


def test_a_truncated_count_stays_between_its_bounds() -> None:
    found = {truncated_geometric(3, 1, "0.1", maximum=4) for _ in range(500)}
    assert found == {0, 1, 2, 3, 4}
    assert truncated_geometric(10**30, 1, HUGE, maximum=4) == 4
    assert truncated_geometric(-5, 1, HUGE, maximum=4) == 0


def test_randomized_response_keeps_or_moves_and_its_error_covers_estimates() -> None:
    assert randomized_response(2, 3, HUGE) == 2
    error = randomized_response.error(2, 1, rows=2000, confidence=0.95)
    slope, offset = (1 + math.exp(-1)) / (1 - math.exp(-1)), math.exp(-1) / (1 - math.exp(-1))
    true = np.array([1] * 600 + [0] * 1400)
    misses = 0
    for _ in range(200):
        share = float(np.mean(np.asarray(randomized_response(true, 2, 1)) == 1))
        misses += abs(share * slope - offset - 0.3) > error
    assert misses <= 20
    for value in (-1, 2, [0, 5]):
        with pytest.raises(ValueError, match="size"):
            randomized_response(value, 2, 1)


def test_the_classic_sigma_is_the_formula_rounded_up_and_more_than_the_analytic_one() -> None:
    for epsilon in ("0.1", "0.5", "0.99"):
        classic = classic_sigma(3, epsilon, "1e-6")
        assert float(classic) == pytest.approx(math.sqrt(2 * math.log(1.25e6)) * 3 / float(epsilon), rel=1e-12)
        analytic = Gaussian.calibrate(toolbox._l2(3), Fraction(epsilon), Fraction(1, 10**6))
        assert classic > analytic.sigma
    for bad in ((1, 1, "1e-6"), (1, 0, "1e-6"), (1, "0.5", "0"), (-1, "0.5", "1e-6")):
        with pytest.raises(ValueError, match="classic"):
            classic_sigma(*bad)


@pytest.mark.parametrize("tool", [geometric, laplace, gaussian, discrete_gaussian, binomial, choose])
def test_negative_sensitivities_and_no_epsilon_are_refused(tool: Any) -> None:
    value = [1, 2] if tool is choose else 1
    rest = () if tool in (geometric, laplace, choose) else ("1e-6",)
    with pytest.raises(ValueError, match="negative"):
        tool(value, -1, 1, *rest)
    for epsilon in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            tool(value, 1, epsilon, *rest)
