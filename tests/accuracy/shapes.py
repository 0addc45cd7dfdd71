"""Data on which answers are judged: rows per unit x how units lie in groups x how values go with both.

Each shape is made by numpy from a fixed seed. Those of the set `judge` are kept apart: whoever changes how limits are
chosen looks at `build` alone, and runs `judge` once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Random = np.random.Generator
Set = Literal["build", "judge"]

GROUPS = ("a", "b", "c", "d", "e")
"""The declared values of the column g."""

RowCounts = Callable[[Random], Integers]
"""Draws how many rows each unit has."""
Grouping = Callable[[Random, Integers], Integers]
"""Draws the index of each row's group from the rows per unit."""
Values = Callable[[Random, Integers, Integers], Floats]
"""Draws each row's value from the rows per unit and the rows' groups."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One table t(id, g, v): what its units, groups and values look like, and the declared range of v."""

    name: str
    set: Set
    rows: RowCounts
    groups: Grouping
    values: Values
    least: float = 0
    most: float = 100
    nulls: float = 0
    """The share of values that are NULL."""
    apart: int | None = None
    """How many units have far more rows than all others, where there are such units."""

    def table(self) -> pa.Table:
        """The table, with its rows in random order; equal each time it is made."""
        random = np.random.default_rng(crc32(self.name.encode()))
        counts = self.rows(random)
        groups = self.groups(random, counts)
        values = self.values(random, counts, groups)
        order = random.permutation(len(groups))
        missing = random.random(len(groups)) < self.nulls
        return pa.table(
            {
                "id": np.repeat(np.arange(len(counts)), counts)[order],
                "g": np.array(GROUPS)[groups][order],
                "v": pa.array(values[order], mask=missing),
            }
        )


# ---------------------------------------------------------------- rows per unit


def geometric(units: int, p: float, most: int = 10**6) -> RowCounts:
    return lambda random: np.minimum(random.geometric(p, units), most)


def lognormal(units: int, mean: float, deviation: float, most: int = 10**6) -> RowCounts:
    return lambda random: np.clip(random.lognormal(mean, deviation, units).astype(int), 1, most)


def zipf(units: int, exponent: float, most: int) -> RowCounts:
    return lambda random: np.minimum(random.zipf(exponent, units), most)


def pareto(units: int, slope: float, most: int = 10**5) -> RowCounts:
    """Units above n rows: a share of n^-slope."""
    return lambda random: np.minimum(random.random(units) ** (-1 / slope), most).astype(int)


def poisson(units: int, mean: float) -> RowCounts:
    return lambda random: 1 + random.poisson(mean, units)


def negative_binomial(units: int, size: float, p: float) -> RowCounts:
    return lambda random: 1 + random.negative_binomial(size, p, units)


def weibull(units: int, scale: float, bend: float) -> RowCounts:
    """A stretched exponential."""
    return lambda random: 1 + (scale * random.weibull(bend, units)).astype(int)


def constant(units: int, rows: int) -> RowCounts:
    return lambda random: np.full(units, rows)


def between(units: int, least: int, most: int) -> RowCounts:
    return lambda random: random.integers(least, most + 1, units)


def together(*parts: RowCounts) -> RowCounts:
    """Several kinds of units in one table, one kind after the other."""
    return lambda random: np.concatenate([part(random) for part in parts])


# ---------------------------------------------------------------- groups


def shares(*parts: float) -> Grouping:
    """Each row by itself: parts are the groups' shares of all rows."""
    return lambda random, counts: random.choice(len(parts), counts.sum(), p=parts)


def by_unit(*parts: float) -> Grouping:
    """All rows of a unit in one group: parts are the groups' shares of all units."""
    return lambda random, counts: np.repeat(random.choice(len(parts), len(counts), p=parts), counts)


def heavy_apart(above: int) -> Grouping:
    """Rows of units with more rows than this lie in group d, all others in a, b and c."""
    return lambda random, counts: np.where(np.repeat(counts > above, counts), 3, random.choice(3, counts.sum()))


def after(units: int) -> Grouping:
    """Rows of all units but the first so many lie in group b, the others in group a."""
    return lambda random, counts: np.repeat((np.arange(len(counts)) >= units).astype(int), counts)


def mostly_home(share: float) -> Grouping:
    """Each unit has a group of its own, where this share of its rows lies; the others lie anywhere."""

    def draw(random: Random, counts: Integers) -> Integers:
        home = np.repeat(random.choice(5, len(counts)), counts)
        return np.where(random.random(len(home)) < share, home, random.choice(5, len(home)))

    return draw


EVEN = shares(0.2, 0.2, 0.2, 0.2, 0.2)
UNEVEN = shares(0.4, 0.25, 0.2, 0.1, 0.05)
RARE = shares(0.6, 0.3, 0.09, 0.01)
OWN = by_unit(0.4, 0.25, 0.2, 0.1, 0.05)
PLANS = by_unit(0.9, 0.09, 0.01)


# ---------------------------------------------------------------- values, where nothing else is said in 0 to 100


def near_top(random: Random, counts: Integers, groups: Integers) -> Floats:
    return random.uniform(80, 100, len(groups))


def uniform(random: Random, counts: Integers, groups: Integers) -> Floats:
    return random.uniform(0, 100, len(groups))


def far_below(random: Random, counts: Integers, groups: Integers) -> Floats:
    """A mean of a fifteenth of the range, as the benchmark's amounts have."""
    return np.minimum(random.lognormal(1.4, 1, len(groups)), 100)


def growing(random: Random, counts: Integers, groups: Integers) -> Floats:
    """Units with many rows have large values."""
    each = np.repeat(counts, counts)
    return np.clip(100 * each / (each + 20) * random.uniform(0.7, 1, len(groups)), 0, 100)


def falling(random: Random, counts: Integers, groups: Integers) -> Floats:
    """Units with many rows have small values."""
    each = np.repeat(counts, counts)
    return np.clip(100 * 5 / (each + 5) * random.uniform(0.7, 1, len(groups)), 0, 100)


def high_in_d(random: Random, counts: Integers, groups: Integers) -> Floats:
    """80 to 100 in group d, 0 to 20 in all others."""
    return random.uniform(0, 20, len(groups)) + np.where(groups == 3, 80.0, 0.0)


def two_humps(random: Random, counts: Integers, groups: Integers) -> Floats:
    return np.clip(np.where(random.random(len(groups)) < 0.5, 10, 85) + random.normal(0, 5, len(groups)), 0, 100)


def both_signs(random: Random, counts: Integers, groups: Integers) -> Floats:
    return np.clip(random.normal(5, 40, len(groups)), -100, 100)


def sign_by_group(random: Random, counts: Integers, groups: Integers) -> Floats:
    """Below 0 in group d, above 0 in all others."""
    return random.uniform(20, 100, len(groups)) * np.where(groups == 3, -1.0, 1.0)


def typos(share: float) -> Values:
    """Values around 16, and a share of 9,999."""
    return lambda random, counts, groups: np.where(
        random.random(len(groups)) < share, 9999.0, np.minimum(random.lognormal(2.6, 0.6, len(groups)), 99)
    )


def by_plan(random: Random, counts: Integers, groups: Integers) -> Floats:
    """Lognormal around 8, 30 and 400 in the groups a, b and c."""
    return np.minimum(random.lognormal(np.log(np.array([8, 30, 400]))[groups], 0.5, len(groups)), 2000)


def whale_at_zero(random: Random, counts: Integers, groups: Integers) -> Floats:
    """The unit with most rows has values of 0, all others have 20 to 60."""
    return np.where(np.repeat(counts == counts.max(), counts), 0, random.uniform(20, 60, len(groups)))


SHAPES = (
    # The shapes of whoever chooses limits.
    Shape("orders", "build", geometric(6_000, 0.2, 60), EVEN, far_below),
    Shape("logins", "build", lognormal(40_000, 1.2, 0.9, 250), OWN, near_top),
    Shape("survey", "build", constant(900, 1), UNEVEN, uniform),
    Shape("clicks", "build", zipf(30_000, 2.1, 2000), UNEVEN, near_top),
    Shape("pareto 1.5", "build", pareto(20_000, 1.5, 20_000), OWN, far_below),
    Shape("pareto 2.0", "build", pareto(100_000, 2.0), EVEN, uniform),
    Shape("pareto 1.3", "build", pareto(5_000, 1.3, 20_000), UNEVEN, growing),
    Shape("one whale", "build", together(geometric(5_000, 0.4), constant(1, 20_000)), OWN, uniform, apart=1),
    Shape("dirty", "build", poisson(8_000, 4), UNEVEN, typos(0.003)),
    Shape("two kinds", "build", together(poisson(20_000, 2), poisson(400, 200)), heavy_apart(60), growing, apart=400),
    Shape("capped", "build", lognormal(10_000, 2, 1, 24), EVEN, near_top),
    Shape("meters", "build", constant(2_000, 24), EVEN, two_humps),
    Shape("tiny", "build", geometric(350, 0.5, 9), UNEVEN, uniform),
    Shape("signs", "build", poisson(2_500, 9), EVEN, both_signs, least=-100),
    Shape("nulls", "build", lognormal(12_000, 1, 1, 400), mostly_home(0.8), uniform, nulls=0.3),
    Shape("small", "build", lognormal(400, 1, 1), UNEVEN, far_below),
    Shape("large", "build", lognormal(200_000, 0.7, 0.9, 2000), RARE, far_below),
    Shape("heavy in d", "build", lognormal(30_000, 1, 0.9, 500), heavy_apart(30), high_in_d),
    Shape("rare group", "build", geometric(15_000, 0.15), RARE, high_in_d),
    # Kept apart.
    Shape("equal sensors", "judge", constant(5_000, 31), OWN, far_below),
    Shape("payments", "judge", lognormal(100_000, 0.5, 1.1, 5_000), UNEVEN, far_below),
    Shape("posts", "judge", zipf(15_000, 1.5, 500), EVEN, near_top),
    Shape("flat", "judge", between(5_000, 1, 50), UNEVEN, uniform),
    Shape("mixture", "judge", together(geometric(10_800, 0.6), lognormal(1_200, 3, 0.6)), mostly_home(0.7), uniform),
    Shape("pareto 1.7", "judge", pareto(8_000, 1.7, 30_000), EVEN, growing),
    Shape("pareto 2.5", "judge", pareto(60_000, 2.5), OWN, near_top),
    Shape("pareto 1.4", "judge", pareto(50_000, 1.4, 10_000), mostly_home(0.9), falling),
    Shape(
        "twelve whales", "judge", together(geometric(20_000, 0.3), between(12, 3_000, 9_000)), OWN, uniform, apart=12
    ),
    Shape("few typos", "judge", geometric(9_000, 0.3), EVEN, typos(0.0003)),
    Shape("two classes", "judge", together(between(3_000, 2, 4), between(3_000, 60, 90)), heavy_apart(30), falling),
    Shape("quota", "judge", pareto(15_000, 1.2, 100), UNEVEN, two_humps),
    Shape("three hundred", "judge", lognormal(300, 1.5, 0.8, 80), OWN, near_top),
    Shape("tickets", "judge", geometric(800, 0.08), UNEVEN, near_top),
    Shape("stretched", "judge", weibull(25_000, 3, 0.5), mostly_home(0.6), far_below),
    Shape("contacts", "judge", negative_binomial(12_000, 0.6, 0.1), OWN, both_signs, least=-100),
    Shape("shifts", "judge", poisson(4_000, 40), EVEN, uniform),
    Shape("forty", "judge", together(poisson(50_000, 1), constant(40, 1_000)), EVEN, near_top, apart=40),
    Shape("debts", "judge", lognormal(20_000, 1.3, 1, 600), heavy_apart(25), sign_by_group, least=-100),
    Shape("gaps", "judge", geometric(7_000, 0.1, 90), RARE, far_below, nulls=0.6),
    Shape("sessions", "judge", geometric(1_500, 0.02), OWN, growing),
    Shape("idle whale", "judge", together(poisson(10_000, 3), constant(1, 50_000)), UNEVEN, whale_at_zero, apart=1),
    Shape("million", "judge", geometric(100_000, 0.1), RARE, near_top),
    Shape("loyal", "judge", lognormal(15_000, 0.8, 1.2, 3_000), heavy_apart(40), near_top),
)

NAMED = (
    # The first table of ACCURACY: what was wrong.
    Shape("twelve at most", "build", geometric(1_403, 0.352, 12), EVEN, uniform),
    Shape("values of d", "build", between(4_000, 1, 5), by_unit(0.3, 0.3, 0.3, 0.1), high_in_d),
    Shape("plans", "build", between(100_000, 1, 8), PLANS, by_plan, most=2000),
    Shape(
        "thirty heavy",
        "build",
        together(between(4_000, 1, 5), between(30, 100, 600)),
        heavy_apart(60),
        uniform,
        apart=30,
    ),
    Shape("visits", "build", poisson(20_000, 11), shares(0.25, 0.25, 0.25, 0.25), two_humps, most=120),
)
