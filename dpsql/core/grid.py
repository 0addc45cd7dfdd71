"""The public grid on which a value is an integer from the first row on."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Literal

from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type

FINE_BITS = 20  # a float's grid is this much finer than its noise: rounding 10⁷ rows adds 0.1% of the noise
MAX_SCALE = Fraction(2**40)  # noise scale in grid units: the sampler's fast path stays unambiguous
MAX_INTEGER = 2**62  # a gridded value fits BIGINT; 2⁴⁰ rows of them fit HUGEINT below 10³⁸
MAX_FLOAT = 2**50  # a gridded double stays exact
TINY = Fraction(1, 2**1000)


@dataclass(frozen=True, slots=True)
class Grid:
    """value = integer · step with low ≤ integer ≤ high. How the integer is made depends on what the value is."""

    step: Fraction
    low: int
    high: int
    source: Literal["integer", "decimal", "float", "any", "finite"]

    def __hash__(self) -> int:
        return hash((self.low, self.high, self.source))  # a fraction's hash takes long, and these tell grids apart

    @property
    def magnitude(self) -> int:
        """The largest |integer|."""
        return max(abs(self.low), abs(self.high))

    @property
    def span(self) -> int:
        return self.high - self.low


# Values that are only counted: all that matters is whether they are there (and finite, for floats).
PRESENCE = Grid(Fraction(1), 0, 0, "any")
FINITE_PRESENCE = Grid(Fraction(1), 0, 0, "finite")


def choose_grid(type_: Type, range_: Range, noise: Fraction, *, bits: int = 0) -> Grid:
    """The grid of a value with a finite range, given (a lower bound of) the noise scale in the value's own units.

    Integers and decimals keep their own grid, so that their sums are exact; everything else gets a power of two, and
    so do they where rows have weights of this many bits and the grid would be much finer than the noise.
    """
    low, high = range_.low, range_.high
    assert isinstance(low, Fraction) and isinstance(high, Fraction)
    if type_.is_integer or type_.is_boolean:
        grid = Grid(Fraction(1), ceil(low), floor(high), "integer")
    elif type_.is_decimal and (type_.width or 0) + (type_.scale or 0) + 1 <= 38:
        step = Fraction(1, 10 ** (type_.scale or 0))
        grid = Grid(step, ceil(low / step), floor(high / step), "decimal")
    else:
        return _binary(low, high, noise, bits)
    if bits and noise / grid.step > 2**FINE_BITS:
        return _binary(low, high, noise, bits)
    if grid.low > grid.high:  # no value of this type lies inside the range: everything is clipped to one point
        grid = Grid(grid.step, grid.high, grid.high, grid.source)
    if noise / grid.step > MAX_SCALE or grid.magnitude << bits > MAX_INTEGER:
        return _binary(low, high, noise, bits)
    return grid


def ranked_grid(type_: Type, range_: Range, points: int) -> Grid:
    """The grid whose points are the candidates of a choice: at most so many, all of them inside of the range."""
    low, high = range_.low, range_.high
    assert isinstance(low, Fraction) and isinstance(high, Fraction)
    grid = choose_grid(type_, range_, Fraction(1))
    if grid.source in ("integer", "decimal") and grid.span < points:
        return grid
    step = _power_of_two_at_least(max((high - low) / (points - 1), max(abs(low), abs(high)) / MAX_FLOAT, TINY))
    if ceil(low / step) > floor(high / step):  # a range narrower than any step: its middle, on a grid of its own
        step = _power_of_two_at_least(max(max(abs(low), abs(high)) / MAX_FLOAT, TINY))
        middle = floor((low + high) / 2 / step)
        return Grid(step, middle, middle, "float")
    return Grid(step, ceil(low / step), floor(high / step), "float")


def coarsened(grid: Grid, range_: Range, span: int) -> Grid:
    """A grid for values of this range with at most `span` steps: the grid itself, or a coarser one."""
    if grid.span <= span:
        return grid
    low, high = range_.low, range_.high
    assert isinstance(low, Fraction) and isinstance(high, Fraction)
    step = _power_of_two_at_least(max((high - low) / (span - 2), max(abs(low), abs(high)) / MAX_FLOAT))
    return Grid(step, floor(low / step), ceil(high / step), "float")


def _binary(low: Fraction, high: Fraction, noise: Fraction, bits: int) -> Grid:
    """A grid of 2^k, finer than the noise by FINE_BITS, unless doubles could not hold it."""
    magnitude = max(abs(low), abs(high))
    wanted = max(noise / 2**FINE_BITS, magnitude / (MAX_FLOAT >> bits), TINY)
    step = _power_of_two_at_least(wanted)
    # Rounded outwards, so that the clip bounds are grid points and clipping implies low ≤ integer ≤ high (GRID-1).
    return Grid(step, floor(low / step), ceil(high / step), "float")


def _power_of_two_at_least(x: Fraction) -> Fraction:
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    step = Fraction(2) ** exponent
    while step < x:
        step *= 2
    while step / 2 >= x:
        step /= 2
    return step
