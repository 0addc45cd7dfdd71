"""The largest assignment of values to units: exactly as large as brute force and simple augmentation find it."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.statistics import distinct
from dpsql.statistics.distinct import assigned

Edges = list[tuple[int, int]]


def size(edges: Edges, capacities: list[int], count: int) -> int:
    units, values = (np.array([e[i] for e in edges], dtype=np.int64) for i in (0, 1))
    return int(assigned(units, values, np.array(capacities, dtype=np.int64), count).sum())


def every_way(edges: Edges, capacities: list[int]) -> int:
    """The most values over every choice of who takes what."""
    options = [
        [c for n in range(min(capacity, sum(e[0] == u for e in edges)) + 1) for c in combinations(own(edges, u), n)]
        for u, capacity in enumerate(capacities)
    ]
    return max(len({v for taken in way for v in taken}) for way in product(*options))


def own(edges: Edges, unit: int) -> list[int]:
    return [v for u, v in edges if u == unit]


def one_by_one(edges: Edges, capacities: list[int], count: int) -> int:
    """Kuhn's algorithm, by the book."""
    taken: list[list[int]] = [[] for _ in capacities]

    def take(value: int, seen: set[int]) -> bool:
        for unit, other in edges:
            if other != value or unit in seen:
                continue
            seen.add(unit)
            if len(taken[unit]) < capacities[unit]:
                taken[unit].append(value)
                return True
            for place, held in enumerate(taken[unit]):
                if take(held, seen):
                    taken[unit][place] = value
                    return True
        return False

    return sum(take(v, set()) for v in range(count))


def graphs(units: int, values: int, most: int) -> st.SearchStrategy[tuple[Edges, list[int]]]:
    pairs = [(u, v) for u in range(units) for v in range(values)]
    edges = st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs))
    return st.tuples(edges, st.lists(st.integers(0, most), min_size=units, max_size=units))


@settings(max_examples=150, deadline=None)
@given(graphs(3, 4, 3))
def test_no_choice_covers_more_values(graph: tuple[Edges, list[int]]) -> None:
    edges, capacities = graph
    assert size(edges, capacities, 4) == every_way(edges, capacities)


@settings(max_examples=150, deadline=None)
@given(graphs(8, 12, 3))
def test_it_is_as_large_as_by_augmenting_one_by_one(graph: tuple[Edges, list[int]]) -> None:
    edges, capacities = graph
    assert size(edges, capacities, 12) == one_by_one(edges, capacities, 12)


def test_it_is_the_same_without_any_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    for units, values, density in ((30, 40, 0.05), (40, 40, 0.1), (25, 80, 0.1), (60, 30, 0.3)):
        edges = [(u, v) for u in range(units) for v in range(values) if random.random() < density]
        capacities = random.integers(0, 3, units).tolist()
        guessed = size(edges, capacities, values)
        with monkeypatch.context() as patch:
            patch.setattr(distinct, "ROUNDS", 0)
            assert size(edges, capacities, values) == guessed == one_by_one(edges, capacities, values)


def test_a_long_chain_is_handed_on_to_its_end() -> None:
    # Unit i has the values i and i + 1, and the last one only its own: the one value more goes all the way.
    length = 2_000
    edges = [(u, v) for u in range(length) for v in (u, u + 1) if v < length]
    assert size(edges, [1] * length, length) == length
    assert size(edges, [1] * (length - 1) + [0], length) == length - 1


@settings(max_examples=100, deadline=None)
@given(graphs(5, 8, 3), st.lists(st.integers(0, 7), unique=True), st.integers(0, 4))
def test_one_more_unit_adds_at_most_its_capacity_and_takes_nothing_away(
    graph: tuple[Edges, list[int]], theirs: list[int], capacity: int
) -> None:
    edges, capacities = graph
    before = size(edges, capacities, 8)
    after = size([*edges, *((5, v) for v in theirs)], [*capacities, capacity], 8)
    assert before <= after <= before + capacity


def test_far_fewer_values_are_lost_than_by_random_choice() -> None:
    # 2,000 units with 5 to 400 of 4,000 skewed values; each may bring in 2. What is lost: values that nobody takes.
    random = np.random.default_rng(0)
    popularity = 1 / np.arange(1, 4_001) ** 0.8
    popularity /= popularity.sum()
    sizes = np.minimum(random.zipf(1.5, 2_000) * 5, 400)
    theirs = [np.unique(random.choice(4_000, size=n, p=popularity)) for n in sizes]
    edges = [(u, int(v)) for u, values in enumerate(theirs) for v in values]
    true = len({v for _, v in edges})
    chosen = {int(v) for values in theirs for v in random.permutation(values)[:2]}
    lost, lost_at_random = true - size(edges, [2] * 2_000, 4_000), true - len(chosen)
    assert lost_at_random > 2_000
    assert lost <= lost_at_random / 20
