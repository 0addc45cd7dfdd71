"""The histograms that choose limits: one vote a unit in each, whatever it has, over both neighbour relations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from source_kinds import KINDS, csv_type
from support import cursor_of

import dpsql
from dpsql.analyze.bounding import SumScale
from dpsql.analyze.checked import CheckedRelease, may_have_size
from dpsql.backends.duckdb.run import execute
from dpsql.bounds.histograms import UnitCount, size_histogram
from dpsql.plan.unconditional import is_noisy
from dpsql.quote.limits import Counting, limits_stage
from dpsql.quote.model import Ask, Step

Row = tuple[int | None, str | None, float]
SCHEMA = ["id", "k", "x"]
COLUMNS: dict[str, dict[str, Any]] = {"k": {"values": ["a", "b", "c"]}, "x": {"min": 0, "max": 10}}
QUERIES = [
    "SELECT COUNT(*) FROM t",
    "SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT x, COUNT(*) FROM t GROUP BY x",  # private keys: groups, and the rows of the largest
    "SELECT COUNT(*) FROM t WHERE x > 2",
    "SELECT COUNT(*), COUNT(DISTINCT x) FROM t",  # rows, and different values
    "SELECT k, COUNT(DISTINCT x) FILTER (WHERE x < 9) FROM t GROUP BY k",
    "SELECT COUNT(DISTINCT (k, x)) FROM t",
    "SELECT k, SUM(x) FILTER (WHERE x < 9), SUM(CASE WHEN k = 'a' THEN -x END) FROM t GROUP BY k",  # totals alone
    "SELECT k, x, COUNT(*) FROM t GROUP BY GROUPING SETS ((k), (x))",
    "SELECT COUNT(*) FROM (SELECT id, k, x FROM t UNION ALL SELECT id, k, x FROM t)",
    "SELECT k, COUNT(*) FROM t WHERE x > (SELECT AVG(x) FROM t WHERE x > 2) GROUP BY k",  # a noisy constant
]
CROWD: list[Row] = [(i, "abc"[i % 3], float(i % 7)) for i in range(40) for _ in range(1 + i % 5)]


def table(rows: Sequence[Row]) -> pa.Table:
    ids, keys, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.string()), "x": pa.array(values, pa.float64())}
    )


def person(rows: int, keys: str = "abc", id: int = 77) -> list[Row]:
    """Somebody with so many rows, over several keys and values, NaN and infinity among them."""
    odd = [float("nan"), float("inf"), -1e300, 3.0]
    return [(id, keys[i % len(keys)] if i % 5 else None, odd[i % 4] if i % 3 else float(i)) for i in range(rows)]


def opened(adjacency: str, rows: Sequence[Row]) -> dpsql.Session:
    whole: dict[str, Any] = {
        "budget": {"epsilon": 100, "delta": 1e-4},
        "privacy": {"adjacency": adjacency},
        "tables": {"t": {"unit": "id", "columns": COLUMNS}},
    }
    return dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": table(rows)}, ledger=":memory:")


def histograms(session: dpsql.Session, sql: str) -> list[Step]:
    """All counts of units that a query may buy: of rows and groups, of usual values, and of sizes."""
    quote = session.explain(sql, epsilon=1, delta="1e-6")
    found = [step for stage in quote.stages if stage.kind == "limits" for step in stage.releases]
    return [*found, *(step for release in quote.main.releases for step in sizes(session, release.checked))]


def sizes(session: dpsql.Session, checked: CheckedRelease) -> list[Step]:
    """The histogram of sizes in which a tenth of the largest value counts as one row, where there may be one."""
    if not may_have_size(checked) or is_noisy(checked.release.input):
        return []
    sums = [a for a in checked.arguments if a.recipe.summed and not a.units and a.value is not None]
    scales = [
        SumScale(a.call.argument, a.call.where, a.call.bounds, a.value.range.magnitude / 10)
        for a in sums
        if a.call.argument is not None and a.value is not None
    ]
    histogram = size_histogram(checked, scales, Fraction(1, 4)) if scales else None
    if histogram is None:
        return []
    catalog, ask = session._engine.catalog(), Ask(Fraction(1), Fraction(0), "laplace")
    return list(limits_stage(Counting("", frozenset(), ()), [UnitCount("size", 0, histogram)], ask, catalog).releases)


def measured(session: dpsql.Session, steps: Sequence[Step], rows: Sequence[Row]) -> list[list[list[int]]]:
    """The integers of each histogram that get noise."""
    found = []
    for step in steps:
        cursor = cursor_of(session)
        cursor.register("t", table(rows))
        exact = execute(step, cursor)
        cursor.close()
        (m,) = step.measurements
        found.append(
            [[int(n) for n in c] for c in m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])]
        )
    return found


def moved(one: list[list[list[int]]], other: list[list[list[int]]]) -> list[int]:
    return [
        sum(abs(x - y) for a, b in zip(p, q, strict=True) for x, y in zip(a, b, strict=True))
        for p, q in zip(one, other, strict=True)
    ]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.sample(6)
def test_a_unit_has_one_vote_in_each_histogram_whatever_it_has(adjacency: str, sql: str) -> None:
    votes = 1 if adjacency == "add_remove" else 2
    with opened(adjacency, CROWD) as session:
        stage = histograms(session, sql)
        claims = [m.sensitivity.l1 for step in stage for m in step.measurements]
        assert claims == [Fraction(1 if step.cells is None else votes) for step in stage]  # a count: Theorem CUT-1
        assert [m.sensitivity.l2_squared for s in stage for m in s.measurements] == claims
        base = measured(session, stage, CROWD)
        most = [0] * len(claims)
        for rows in (1, 2, 3, 1000, 5_000):
            mine = [*CROWD, *person(rows)]
            before = base if adjacency == "add_remove" else measured(session, stage, [*CROWD, *person(7, "ab")])
            change = moved(measured(session, stage, mine), before)
            assert all(distance <= claim for distance, claim in zip(change, claims, strict=True)), (sql, rows)
            assert sum(change) <= sum(claims)  # jointly
            most = [max(a, b) for a, b in zip(most, change, strict=True)]
        assert most == claims  # attained: a claim a tenth smaller would be false


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_rows_of_nobody_have_no_vote(adjacency: str) -> None:
    with opened(adjacency, CROWD) as session:
        stage = histograms(session, QUERIES[1])
        nobody: list[Row] = [(None, "a", 1.0)] * 1000
        assert measured(session, stage, CROWD) == measured(session, stage, [*CROWD, *nobody])


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_charged_and_said_is_the_same_on_neighbours(kind: str, tmp_path: Path) -> None:
    seen = []
    for name, rows in (("with", [*CROWD, *person(500)]), ("without", CROWD)):
        folder = tmp_path / name
        folder.mkdir()
        clean = table([(i, k, x if abs(x) < 1e9 else 3.0) for i, k, x in rows])
        placed = KINDS[kind](clean, folder)
        typed = {f.name: {"type": csv_type(f.type)} for f in clean.schema} if "CSV" in kind else {}
        columns = {name: {**typed.get(name, {}), **COLUMNS.get(name, {})} for name in {**typed, **COLUMNS}}
        policy = {
            "budget": {"epsilon": 100, "delta": 0},
            "tables": {"t": {**placed.entry, "unit": "id", "columns": columns}},
        }
        given = {} if placed.object is None else {"t": placed.object}
        with dpsql.connect(dpsql.Policy.from_dict(policy), sources=given, ledger=":memory:") as session:
            quote = session.explain(QUERIES[1], epsilon=1)
            answer = session.query(QUERIES[1], epsilon=1)
            seen.append((str(quote), answer.columns, [r[0] for r in answer.rows], answer.cost, session.budget.spent))
    assert seen[0] == seen[1]


def test_the_noise_that_is_drawn_never_costs_more_than_was_reserved() -> None:
    with opened("add_remove", [*CROWD, *person(3000)]) as session:
        for sql in QUERIES:
            session.query(sql, epsilon=1, delta="1e-6")
        for entry in session._engine.ledger.history():
            assert entry.cost.epsilon <= 1 and entry.cost.delta <= Fraction(1, 10**6)
        assert session.budget.spent.epsilon <= len(QUERIES)
