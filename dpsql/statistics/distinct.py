"""Counts of distinct values: of values that can be assigned to units that have them, each unit within its capacity.

Which values are assigned depends on the order of the search; how many of them does not (Theorem DISTINCT-1 needs just
that number). So neither the numbering of units and values nor the guesses of the first rounds matter to the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Tally, Value


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many different values the rows of a cell have; each unit brings in so many at most, over all cells."""

    value: Value
    where: str | None
    most: int  # values of one unit
    weight: int  # the integer that stands for one whole row: values have no weights
    where_text: str = ""
    limited: bool = False  # is `most` a limit of its own, and not that on rows?

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally("distinct", self.value.column, self.where),)

    @property
    def title(self) -> str:
        return f"count of distinct values of {self.value.text}, at most {self.most:,} per unit{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem DISTINCT-1. Adding a unit raises each cell's number by at most its capacity there and lowers none;
        # capacities have the mass and peak of the unit's rows, or a limit of their own for both.
        return self._capacity(unit).bounded(Fraction(0), Fraction(1))

    def single_cell(self, unit: Contribution) -> tuple[Fraction, bool]:
        """How far any one cell moves; do all move in the same direction?"""
        # Theorem DISTINCT-1: by at most the capacity in that cell, which is at most the peak.
        return self._capacity(unit).single_cell(Fraction(0), Fraction(1))

    def _capacity(self, unit: Contribution) -> Contribution:
        """The bounds on one unit's capacities in all cells, in values."""
        whole = unit.whole(self.weight)
        return replace(whole, mass=Fraction(self.most), peak=Fraction(self.most)) if self.limited else whole

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("distinct", self.value, self.where): (Fraction(1),)}


Numbers = NDArray[np.int64]
ROUNDS = 24  # of guessing; what they leave over is searched for


def assigned(units: Numbers, values: Numbers, capacities: Numbers, count: int) -> NDArray[np.bool_]:
    """Which of the values 0 … count − 1 are assigned in a largest assignment.

    Edge i says that unit units[i] has the value values[i]; no edge is there twice. A unit takes at most as many values
    as its capacity, a value goes to one unit.
    """
    kept = capacities[units] > 0
    graph = _Graph.of(units[kept], values[kept], capacities.copy(), count)
    graph.guess()
    while graph.improve():
        pass
    return np.asarray(graph.owner >= 0)


@dataclasses.dataclass(slots=True)
class _Graph:
    """Edges in the order of values and in that of units; who owns each value (−1: nobody), and what units can take."""

    units: Numbers  # of the edges, by value
    values: Numbers
    by_value: Numbers  # where the edges of each value start
    theirs: Numbers  # the values of the edges, by unit
    by_unit: Numbers
    spare: Numbers
    owner: Numbers
    listed: list[int] | None = None  # units as a list: single steps are faster there

    @classmethod
    def of(cls, units: Numbers, values: Numbers, capacities: Numbers, count: int) -> _Graph:
        order = np.argsort(values, kind="stable")
        units, values = units[order], values[order]
        theirs = values[np.argsort(units, kind="stable")]
        owner = np.full(count, -1, dtype=np.int64)
        by_value, by_unit = _starts(values, count), _starts(units, len(capacities))
        return cls(units, values, by_value, theirs, by_unit, capacities, owner)

    def guess(self) -> None:
        """Each value asks the unit with the least demand, and units take those first that have few others to ask."""
        units, values = self.units, self.values
        random = np.random.default_rng(1)  # breaks ties; it decides nothing but how long the search takes
        for _ in range(ROUNDS):
            if not len(units):
                return
            choices = np.bincount(values, minlength=len(self.owner))
            demand = np.bincount(units, 1 / choices[values], len(self.spare)) / np.maximum(self.spare, 1)
            costs = demand[units] * (1 + random.random(len(units)))
            starts = np.flatnonzero(np.diff(values, prepend=-1))
            least = np.minimum.reduceat(costs, starts)
            asked = np.flatnonzero(costs == np.repeat(least, np.diff(starts, append=len(values))))
            asked = asked[np.diff(values[asked], prepend=-1) != 0]
            asked = asked[np.lexsort((choices[values[asked]], units[asked]))]
            first = np.flatnonzero(np.diff(units[asked], prepend=-1))
            place = np.arange(len(asked)) - np.repeat(first, np.diff(first, append=len(asked)))
            taken = asked[place < self.spare[units[asked]]]
            self.owner[values[taken]] = units[taken]
            self.spare -= np.bincount(units[taken], minlength=len(self.spare))
            left = (self.owner[values] < 0) & (self.spare[units] > 0)
            units, values = units[left], values[left]

    def improve(self) -> bool:
        """Assign more values along disjoint paths to units that can take one more (Hopcroft and Karp); False: none.

        A path hands values on: an unassigned value takes the place of another one, which takes the place of a third,
        and so on, and the last one goes to a unit with a place to spare. Distances are counted from such units, and
        each step of a path goes one nearer, so that the distance of the nearest unassigned value grows with each call.
        """
        near, distance = self._distances()
        waiting = np.flatnonzero((self.owner < 0) & (distance >= 0))
        if not len(waiting):
            return False
        waiting = waiting[np.argsort(distance[waiting], kind="stable")]
        return _Search(self, near, distance).run(waiting.tolist())

    def _distances(self) -> tuple[Numbers, Numbers]:
        """Of each unit and each value, from the units that have a place to spare; −1 where no path leads to one."""
        near = np.full(len(self.spare), -1, dtype=np.int64)
        distance = np.full(len(self.owner), -1, dtype=np.int64)
        here, step = np.flatnonzero(self.spare > 0), 0
        while len(here):
            near[here] = step
            reached = self.theirs[_ranges(self.by_unit[here], self.by_unit[here + 1])]
            reached = reached[distance[reached] < 0]
            distance[reached] = step
            owners = self.owner[reached]
            owners = owners[owners >= 0]
            here, step = np.unique(owners[near[owners] < 0]), step + 1
        return near, distance


class _Search:
    """One round of paths. Single steps run over plain lists."""

    def __init__(self, graph: _Graph, near: Numbers, distance: Numbers) -> None:
        if graph.listed is None:
            graph.listed = graph.units.tolist()
        self.graph, self.units = graph, graph.listed
        self.near, self.distance = near.tolist(), distance.tolist()
        self.next_edge, self.last_edge = graph.by_value[:-1].tolist(), graph.by_value[1:].tolist()
        order = np.argsort(graph.owner, kind="stable")
        self.owned = order.tolist()
        starts = np.searchsorted(graph.owner[order], np.arange(len(graph.spare) + 1))
        self.next_owned, self.last_owned = starts[:-1].tolist(), starts[1:].tolist()
        self.owner, self.spare = graph.owner.tolist(), graph.spare.tolist()

    def run(self, waiting: list[int]) -> bool:
        found = sum(self._path(value) for value in waiting)
        self.graph.owner = np.array(self.owner, dtype=np.int64)
        self.graph.spare = np.array(self.spare, dtype=np.int64)
        return found > 0

    def _path(self, value: int) -> bool:
        """Assign one more value. Each edge is tried once in a round, and so is each value that could be handed on."""
        path = [value]
        while path:
            last = path[-1]
            step = self.distance[last]
            while self.next_edge[last] < self.last_edge[last]:
                unit = self.units[self.next_edge[last]]
                if self.near[unit] == step:
                    if step == 0 and self.spare[unit] > 0:
                        self._assign(path, unit)
                        return True
                    if step and (handed := self._handed(unit, step - 1)) >= 0:
                        path.append(handed)
                        break
                self.next_edge[last] += 1
            else:
                path.pop()
        return False

    def _handed(self, unit: int, step: int) -> int:
        """The next value of a unit that is this near; −1: none is left."""
        while self.next_owned[unit] < self.last_owned[unit]:
            value: int = self.owned[self.next_owned[unit]]
            self.next_owned[unit] += 1
            if self.distance[value] == step:
                return value
        return -1

    def _assign(self, path: list[int], unit: int) -> None:
        self.spare[unit] -= 1
        for value in reversed(path):
            self.owner[value], unit = unit, self.owner[value]


def _starts(numbers: Numbers, count: int) -> Numbers:
    """Where 0 … count − 1 start, and the last one ends, once numbers are in order."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(numbers, minlength=count))])


def _ranges(starts: Numbers, ends: Numbers) -> Numbers:
    """All the numbers from each start up to its end, without it."""
    sizes = ends - starts
    offsets: Numbers = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return offsets + np.arange(len(offsets))
