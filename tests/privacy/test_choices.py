"""Choices by rank and by count: what one unit can move the scores by, as CHOOSE-1 prices it, computed exactly.

With scores s on D and s' on D', the winner's noise must grow by at most max(s' − s) − (s' − s)_i to win again, so the
loss of a choice is the spread of s' − s over the candidates, divided by the scale of its noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import cursor_of, examples

import dpsql
from dpsql.backends.duckdb.run import execute
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote import candidates
from dpsql.quote.model import Measurement, Quote, Step
from dpsql.quote.spare import _with_spare
from dpsql.statistics.base import Choice
from dpsql.statistics.ranks import Quantiles
from dpsql.statistics.top import Top

NAN, INF, HUGE = float("nan"), float("inf"), 2**63 - 1
SCHEMA = pa.schema([("id", pa.int64()), ("i", pa.int64()), ("x", pa.float64()), ("k", pa.string()), ("b", pa.bool_())])
COLUMNS = {"i": {"min": 0, "max": 12}, "x": {"min": -2, "max": 2}, "k": {"values": ["a", "b", "c"]}}
LIMITS = {"max_rows": 3}
PEAK = {"max_rows": 3, "max_rows_per_group": 1}  # here a choice of sums of both signs takes less than all sums


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@cache
def session(kind: str, adjacency: str) -> dpsql.Session:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e6, "delta": 0},
            "privacy": {"limits_share": 0, "adjacency": adjacency, **({"id": LIMITS, "peak": PEAK}.get(kind, {}))},
            "tables": {"t": {"unit": "row" if kind == "row" else "id", "columns": COLUMNS}},
        }
    )
    return dpsql.connect(policy, sources={"t": table([])}, ledger=":memory:")


@cache
def quoted(kind: str, adjacency: str, sql: str) -> Quote:
    return session(kind, adjacency).explain(sql, epsilon=1)


@pytest.fixture(autouse=True, scope="module")
def few_candidates_and_closed_at_the_end() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "MAX_CANDIDATES", 64)
        patch.setattr(candidates, "FEWEST_CANDIDATES", 16)
        yield
    quoted.cache_clear()
    for kind in ("row", "id", "peak"):
        for adjacency in ("add_remove", "replace_one"):
            session(kind, adjacency).close()
    session.cache_clear()


@dataclass
class Listener:
    """In place of the noise: notes the scores of each choice and picks as it was told, or the best."""

    told: list[int] = field(default_factory=list)
    heard: list[tuple[np.ndarray, Fraction]] = field(default_factory=list)
    picked: list[int] = field(default_factory=list)
    scale: Fraction = Fraction(1)

    def lead(self, candidates: float, miss: float, factor: Fraction = Fraction(1)) -> int:
        return NoisyMax(self.scale).lead(candidates, miss, factor)

    def picks(self, scores: np.ndarray, lengths: np.ndarray, factor: Fraction = Fraction(1)) -> np.ndarray:
        assert list(lengths) == [len(scores)]  # it listens to one cell
        self.heard.append((scores, factor))
        picked = self.told[len(self.picked)] if self.told else int(np.argmax(scores))
        self.picked.append(picked)
        return np.array([picked])


def measured(kind: str, adjacency: str, rows: Sequence[tuple[Any, ...]], step: Step) -> Any:
    cursor = cursor_of(session(kind, adjacency))
    cursor.register("t", table(rows))
    try:
        return execute(step, cursor)
    finally:
        cursor.close()


def losses(
    kind: str, adjacency: str, sql: str, one: Sequence[Any], other: Sequence[Any], spare: int = 0
) -> list[tuple[Any, Any]]:
    """For each choice of the query: what it loses between two data sets, and what is claimed; times the scale.

    spare: rows that released counts say may be cut, which intervals are to hold.
    """
    found = []
    for step in quoted(kind, adjacency, sql).steps:
        a, b = (measured(kind, adjacency, rows, step) for rows in (one, other))
        cells = 1 if step.cells is None else step.cells.num_rows
        for m in step.measurements:
            if isinstance(m.statistic, Top):
                found.append((_top_loss(m, a, b), m.sensitivity.l1))
            elif isinstance(m.statistic, Choice):
                found.append((_rank_loss(_with_spare(m, spare), a, b, cells), m.sensitivity.l1))
    assert found
    return found


def _spread(one: np.ndarray, other: np.ndarray) -> int:
    moved = other - one
    return int(max(moved) - min(moved))


def _rank_loss(m: Measurement, a: Any, b: Any, cells: int) -> Fraction:
    choice, total = m.statistic, Fraction(0)
    assert isinstance(choice, Choice)
    for cell in range(cells):
        first = Listener(scale=m.noise.scale if isinstance(m.noise, NoisyMax) else Fraction(1))
        choice.choose(first, *a.spectra[choice.spectrum].of(np.array([cell])))  # type: ignore[arg-type]  # only picks is used
        second = Listener(told=first.picked, scale=first.scale)
        choice.choose(second, *b.spectra[choice.spectrum].of(np.array([cell])))  # type: ignore[arg-type]
        for (s, factor), (t, _) in zip(first.heard, second.heard, strict=True):
            total += Fraction(_spread(s, t)) / factor
    return total


def _top_loss(m: Measurement, a: Any, b: Any) -> Fraction:
    top = m.statistic
    assert isinstance(top, Top)
    scores = [top.columns([e.tallies[t] for t in top.tallies])[0].astype(object) for e in (a, b)]
    return Fraction(top.count * _spread(*scores))


THREE = "SELECT QUANTILE_DISC(i, 0.4), MEDIAN(i), QUANTILE_DISC(i, 0.9) FROM t"
BY_RANK = {
    "median": "SELECT MEDIAN(i) FROM t",
    "ninth decile of floats": "SELECT QUANTILE_CONT(x, 0.9) FROM t",
    "first decile by key": "SELECT k, QUANTILE_DISC(i, 0.1) FROM t GROUP BY k",
    "three of them": "SELECT QUANTILE_CONT(i, [0.2, 0.5, 0.95]) FROM t",
    "five by key": "SELECT k, QUANTILE_DISC(x, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM t GROUP BY k",
    "least": "SELECT MIN(i) FROM t",
    "greatest by key": "SELECT k, MAX(x) FROM t GROUP BY k",
    "deviation": "SELECT MAD(i) FROM t",
    "deviation of floats by key": "SELECT k, MAD(x) FROM t GROUP BY k",
    "three of them, each with an interval": THREE,
    "filtered": "SELECT MEDIAN(i) FILTER (WHERE b), MAX(i) FROM t WHERE x > -1",
}
WINNERS = {
    "most frequent": "SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1",
    "largest sum": "SELECT k FROM t GROUP BY k ORDER BY SUM(i) DESC LIMIT 1",
    "most units": "SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT id) DESC LIMIT 2",
}
BOTH_SIGNS = "SELECT k FROM t GROUP BY k ORDER BY SUM(x) DESC LIMIT 1"
ROW = {name: sql for name, sql in {**BY_RANK, **WINNERS}.items() if "DISTINCT id" not in sql}
UNIT = {**BY_RANK, **WINNERS}

ints = st.one_of(st.none(), st.integers(-2, 15), st.sampled_from([HUGE, -HUGE - 1]))
floats = st.one_of(st.none(), st.floats(-3, 3), st.sampled_from([NAN, INF, -INF, 1e308, -1e308, -0.0]))
keys = st.sampled_from(["a", "a", "b", "c", "zzz", None])


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(unit, ints, floats, keys, st.booleans())


SOME = settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
others = st.lists(rows(st.integers(0, 3)), max_size=8)
hostile = st.lists(rows(st.just(77)), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ROW)
@SOME
@given(data=others, added=rows(st.just(77)))
@pytest.mark.sample(3)
def test_one_row_loses_no_more_than_is_claimed(name: str, data: list[Any], added: tuple[Any, ...]) -> None:
    for seen, claimed in losses("row", "add_remove", ROW[name], data, [*data, added]):
        assert seen <= claimed


@pytest.mark.parametrize("name", UNIT)
@SOME
@given(data=others, added=hostile)
@example(data=[], added=[(77, HUGE, 1e308, "a", True)] * 6)
@pytest.mark.sample(3)
def test_one_unit_loses_no_more_than_is_claimed(name: str, data: list[Any], added: list[Any]) -> None:
    for seen, claimed in losses("id", "add_remove", UNIT[name], data, [*data, *added]):
        assert seen <= claimed


@pytest.mark.parametrize("name", UNIT)
@SOME
@given(data=others, before=hostile, after=hostile)
@pytest.mark.sample(3)
def test_a_replaced_unit_loses_no_more_than_is_claimed(
    name: str, data: list[Any], before: list[Any], after: list[Any]
) -> None:
    for seen, claimed in losses("id", "replace_one", UNIT[name], [*data, *before], [*data, *after]):
        assert seen <= claimed


@SOME
@given(data=others, added=hostile, spare=st.integers(1, 4))
def test_one_unit_loses_no_more_where_intervals_hold_cut_rows(data: list[Any], added: list[Any], spare: int) -> None:
    for seen, claimed in losses("id", "add_remove", THREE, data, [*data, *added], spare):
        assert seen <= claimed


def full(unit: int, i: int, k: str, count: int = 3) -> list[tuple[Any, ...]]:
    return [(unit, i, i / 6 - 1, k, True)] * count


SPREAD = [r for u in range(60) for r in full(u, 1 + u % 8, "a", 1)]
ATTAINED = {
    # (query, unit's rows before, after): a claim that were 10% smaller would be broken by each of these
    "median": ("add_remove", "SELECT MEDIAN(i) FROM t", [], full(77, 8, "a")),
    "ninth decile": ("add_remove", "SELECT QUANTILE_CONT(i, 0.9) FROM t", [], full(77, 12, "a")),
    "by key": ("add_remove", "SELECT k, MEDIAN(i) FROM t GROUP BY k", [], full(77, 8, "a")),
    "three of them": ("add_remove", THREE, [], full(77, 11, "a")),
    "least": ("add_remove", "SELECT MIN(i) FROM t", [], full(77, 0, "a")),
    "replaced": ("replace_one", "SELECT MEDIAN(i) FROM t WHERE i < 7 OR i > 8", full(77, 12, "a"), full(77, 2, "a")),
    "replaced decile": ("replace_one", "SELECT QUANTILE_CONT(i, 0.9) FROM t", full(77, 1, "a"), full(77, 12, "a")),
    "deviation": ("add_remove", "SELECT MAD(i) FROM t", [], full(77, 7, "a")),
    "deviation by key": ("add_remove", "SELECT k, MAD(i) FROM t GROUP BY k", [], full(77, 7, "a")),
    "replaced deviation": ("replace_one", "SELECT MAD(i) FROM t", full(77, 3, "a"), full(77, 11, "a")),
    "most frequent": ("add_remove", WINNERS["most frequent"], [], full(77, 1, "b")),
    "replaced winner": ("replace_one", WINNERS["most frequent"], full(77, 1, "a"), full(77, 1, "b")),
    "largest sum": ("add_remove", WINNERS["largest sum"], [], full(77, 12, "b")),
    "most units": ("add_remove", WINNERS["most units"], [], full(77, 1, "b")),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTAINED)
def test_claims_are_attained(name: str) -> None:
    adjacency, sql, before, after = ATTAINED[name]
    ((seen, claimed),) = losses("id", adjacency, sql, [*SPREAD, *before], [*SPREAD, *after])
    assert Fraction(9, 10) * claimed < seen <= claimed


def test_sums_of_both_signs_lose_twice() -> None:
    added = [(77, 1, 2.0, "a", True), (77, 1, -2.0, "b", True)]
    ((seen, claimed),) = losses("peak", "add_remove", BOTH_SIGNS, SPREAD, [*SPREAD, *added])
    assert seen == claimed


@SOME
@given(data=others, added=hostile)
def test_one_unit_loses_no_more_where_its_rows_have_both_signs(data: list[Any], added: list[Any]) -> None:
    for seen, claimed in losses("peak", "add_remove", BOTH_SIGNS, data, [*data, *added]):
        assert seen <= claimed


def test_a_unit_in_many_cells_moves_each_winner_by_its_peak_alone() -> None:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 50, "max_rows_per_group": 2},
            "tables": {"t": {"unit": "id", "columns": {"i": {"min": 0, "max": 99}}}},
        }
    )
    with dpsql.connect(policy, sources={"t": table([])}, ledger=":memory:") as one:
        quote = one.explain("SELECT i FROM t GROUP BY i ORDER BY COUNT(*) DESC LIMIT 3", epsilon=1)
        (m,) = quote.steps[0].measurements
        assert isinstance(m.statistic, Top)
        assert m.sensitivity.l1 == 3 * 2 * 2 ** quote.steps[0].bits


@pytest.mark.parametrize(
    "sql", [*UNIT.values(), "SELECT ARG_MIN(k, n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)"]
)
@pytest.mark.sample(6)
def test_neighbours_see_the_same_price_schema_and_plan(sql: str) -> None:
    texts = []
    for rows in (SPREAD, [*SPREAD, *full(77, HUGE, "n77")]):
        policy = dpsql.Policy.from_dict(
            {
                "budget": {"epsilon": 10, "delta": 0},
                "privacy": {"limits_share": 0, **LIMITS},
                "tables": {"t": {"unit": "id", "columns": COLUMNS}},
            }
        )
        with dpsql.connect(policy, sources={"t": table(rows)}, ledger=":memory:") as one:
            answer = one.query(sql, epsilon=1)
            texts.append((str(one.explain(sql, epsilon=1)), answer.columns, str(answer.table.schema)))
            assert answer.cost.epsilon == 1
    assert texts[0] == texts[1]


def test_several_quantiles_cost_levels_not_their_number() -> None:
    quote = session("id", "add_remove").explain(
        "SELECT QUANTILE_CONT(i, [0.1,0.2,0.3,0.4,0.5,0.6,0.7]) FROM t", epsilon=1
    )
    (m,) = quote.steps[0].measurements
    assert isinstance(m.statistic, Quantiles) and m.statistic.levels == 3
    assert m.sensitivity.l1 == 3 * 2 * 3 * 2 ** quote.steps[0].bits
    assert quote.price.epsilon == 1
