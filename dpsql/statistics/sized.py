"""Numbers of rows and sums that are measured together, each unit's rows weighed by what all of them add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from math import floor

from dpsql.core.arrays import minus, times
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity, bounded_size
from dpsql.statistics.base import Integers, Quantity, Size, SizePart, Tally, Value

LEAST_FACTOR = 16  # of a sum: rounding it to a whole number changes how much of the sum is a row by at most 1/32
MOST_FACTOR = 2**46  # of a row
LARGEST_ROW = 2**68  # the size of one row, which leaves room for 2^40 rows and a weight of 2^16 in 128 bits (SIZE-1)
MOST = 2**94  # of a unit's size
ABSENT = "absent"  # the kind of a column that counts rows without a value


@dataclass(frozen=True, slots=True)
class Sizing:
    """The limit on one unit's size in rows, and how much of each sum (a value and its FILTER) counts as one row."""

    most: Fraction
    units: tuple[tuple[tuple[Value, str | None], Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class Sized:
    """Columns of which each is a number of rows, with or without a value, or a sum on its grid, times a public factor.

    A unit's size is the ℓ₁ norm of what its rows add to all of them, before weights; its weighted rows add `most` times
    the weight at most. The noise is one for all columns: ε isn't split.
    """

    terms: tuple[tuple[Quantity, int], ...]
    most: int
    weight: int  # the integer that stands for a row that is not scaled down
    texts: tuple[str, ...] = field(default=(), compare=False)  # of the FILTERs, for explain

    @property
    def width(self) -> int:
        return len(self.terms)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return tuple(dict.fromkeys(tally for quantity, _ in self.terms for tally, _ in _parts(quantity)))

    @property
    def size(self) -> Size:
        """What the statement weighs each unit's rows by: the sum of all columns, in absolute values."""
        factors: dict[Tally, int] = {}
        signed = {tally for quantity, _ in self.terms if _signed(quantity) for tally, _ in _parts(quantity)}
        for quantity, factor in self.terms:
            for tally, times_ in _parts(quantity):
                factors[tally] = factors.get(tally, 0) + times_ * factor
        return Size(self.most, tuple(SizePart(tally, n, tally in signed) for tally, n in factors.items()))

    @property
    def title(self) -> str:
        texts = self.texts or ("",) * self.width
        named = [_named(quantity) + text for (quantity, _), text in zip(self.terms, texts, strict=True)]
        return f"{', '.join(named)}, bounded by one unit's size"

    @property
    def step(self) -> Fraction:
        """What one integer of the first column stands for."""
        quantity, factor = self.terms[0]
        return _step(quantity) / (factor * self.weight)

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem SIZE-1. Weighted, a unit adds at most `most` · weight to all columns of all groups together.
        one_sign = not any(_signed(quantity) for quantity, _ in self.terms)
        return bounded_size(Fraction(self.most * self.weight), unit, columns=self.width, one_sign=one_sign)

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        found = dict(zip(self.tallies, tallies, strict=True))
        made = []
        for quantity, factor in self.terms:
            first, *others = (found[tally] for tally, _ in _parts(quantity))
            made.append(times(minus(first, others[0]) if others else first, factor))
        return made

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        places = {quantity: i for i, (quantity, _) in enumerate(self.terms)}
        found: dict[Quantity, tuple[Fraction, ...]] = {}
        for quantity, factor in self.terms:
            weights = [Fraction(0)] * self.width
            rows, present = Quantity("rows", None, quantity.where), replace(quantity, kind="present")
            if quantity.kind == ABSENT and rows in places:  # rows with a value are all rows but those without
                all_rows = places[rows]
                weights[all_rows] = Fraction(1, self.terms[all_rows][1])
                weights[places[quantity]] = -Fraction(1, factor)
                found[present] = tuple(weights)
            elif quantity.kind == ABSENT:  # all rows are those with a value and those without
                weights[places[present]] = Fraction(1, self.terms[places[present]][1])
                weights[places[quantity]] = Fraction(1, factor)
                found[rows] = tuple(weights)
            else:
                weights[places[quantity]] = _step(quantity) / factor
                found[quantity] = tuple(weights)
        return found


def sized(needs: Sequence[Quantity], sizing: Sizing, where_text: Mapping[str | None, str], weight: int) -> Sized:
    """The columns for these numbers of rows, of values and sums, within the limit on one unit's size."""
    wanted = list(_columns(needs))
    units = dict(sizing.units)
    texts = tuple(where_text[q.where] for q in wanted)
    scales = {q: units[q.value, q.where] / _step(q) for q in wanted if q.kind == "total" and q.value is not None}
    if len(wanted) == 1:
        (alone,) = wanted
        most = floor(sizing.most * scales.get(alone, Fraction(1)))
        assert most < MOST, "more than the engine's integers hold"
        return Sized(((alone, 1),), max(1, most), weight, texts)
    rows = 1
    while rows < MOST_FACTOR and any(LEAST_FACTOR * scale > rows for scale in scales.values()):
        rows *= 2
    terms = tuple((q, _factor(q, rows / scales[q], len(wanted)) if q in scales else rows) for q in wanted)
    assert sizing.most * rows < MOST, "more than the engine's integers hold"
    return Sized(terms, max(1, floor(sizing.most * rows)), weight, texts)


def _columns(needs: Sequence[Quantity]) -> Iterator[Quantity]:
    """What is counted and added up. Where several numbers of the same rows are asked for, each row is counted once.

    Beside one number of values these are the rows with a value and those without, so that an average has less noise.
    Beside several all rows are counted, and those without a value again: of these there are mostly few.
    """
    wanted = list(dict.fromkeys(needs))
    for where in dict.fromkeys(q.where for q in wanted):
        counts = [q for q in wanted if q.kind != "total" and q.where == where]
        if len(counts) < 2:
            yield from counts
            continue
        present = [q for q in counts if q.kind == "present"]
        yield present[0] if len(present) == 1 else Quantity("rows", None, where)
        yield from (replace(q, kind=ABSENT) for q in counts if q.kind == "present")
    yield from (q for q in wanted if q.kind == "total")


def _factor(quantity: Quantity, wanted: Fraction, columns: int) -> int:
    """The factor of a sum, so small that no row's size reaches LARGEST_ROW."""
    assert quantity.value is not None
    return max(1, min(round(wanted), LARGEST_ROW // (columns * max(1, quantity.value.grid.magnitude))))


def _parts(quantity: Quantity) -> tuple[tuple[Tally, int], ...]:
    """The tallies that a column is made of, each added or taken away."""
    column = None if quantity.value is None else quantity.value.column
    rows = Tally("rows", None, quantity.where)
    match quantity.kind:
        case "rows":
            return ((rows, 1),)
        case "present" | "total" as kind:
            return ((Tally(kind, column, quantity.where), 1),)
        case "absent":
            return ((rows, 1), (Tally("present", column, quantity.where), -1))
        case _:
            raise AssertionError("only numbers of rows and sums have a size")


def _signed(quantity: Quantity) -> bool:
    """Can values of both signs meet?"""
    value = quantity.value
    return quantity.kind == "total" and value is not None and value.grid.low < 0 < value.grid.high


def _step(quantity: Quantity) -> Fraction:
    """What one integer of a tally stands for."""
    return quantity.value.grid.step if quantity.kind == "total" and quantity.value is not None else Fraction(1)


def _named(quantity: Quantity) -> str:
    if quantity.value is None:
        return "count of rows"
    of = {"total": "sum of {}", ABSENT: "count of rows without {}"}.get(quantity.kind, "count of {}")
    return of.format(quantity.value.text)
