"""Whatever explain accepts, query answers, and every format renders: on tables with nobody, or a few people, in them.

All aggregates in pairs, with and without GROUP BY of public and of private keys; and random queries. A sample runs by
default, all of them with --whole.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import date, datetime
from itertools import combinations_with_replacement

import pyarrow as pa
import pytest
from random_sql.grammar import Grammar
from random_sql.world import World, open_session
from support import WHOLE

import dpsql
from dpsql.aggregates import FORMS, form_of
from dpsql.aggregates.present import PRESENT
from dpsql.answer.render import encode
from dpsql.sql.parse import parse

AGGREGATES = (
    "COUNT(*)", "COUNT(x)", "COUNT(DISTINCT y)", "COUNT(DISTINCT person)", "COUNT_IF(x > 2)", "REGR_COUNT(x, y)",
    "APPROX_COUNT_DISTINCT(y)", "SUM(x)", "SUM(y) FILTER (WHERE x > 2)", "AVG(x)", "VAR_POP(x)", "VAR_SAMP(y)",
    "STDDEV(x)", "STDDEV_POP(y)", "SEM(x)", "SKEWNESS(x)", "KURTOSIS(x)", "GEOMEAN(z)", "COVAR_POP(x, y)",
    "COVAR_SAMP(x, y)", "CORR(x, y)", "REGR_SLOPE(x, y)", "REGR_INTERCEPT(x, y)", "REGR_R2(x, y)", "REGR_AVGX(x, y)",
    "REGR_AVGY(x, y)", "REGR_SXX(x, y)", "REGR_SXY(x, y)", "REGR_SYY(x, y)", "BOOL_AND(b)", "BOOL_OR(b)", "MIN(x)",
    "MAX(y)", "MIN(ts)", "MAX(day)", "MIN(b)", "MEDIAN(x)", "MEDIAN(ts)", "QUANTILE_CONT(x, 0.9)",
    "QUANTILE_DISC(y, [0.1, 0.5])", "APPROX_QUANTILE(x, 0.2)", "QUANTILE_CONT(day, 0.5)", "MAD(x)", "MODE(y)",
    "MODE(g)", "KURTOSIS_POP(x)", "ENTROPY(g)", "ANY_VALUE(y)", "SUM(x, contribution_bounds_per_group => (0, 5))",
    "COUNT(*, contribution_bounds_per_group => (0, 5))",
)  # fmt: skip
SHAPES = (
    "SELECT {0}, {1} FROM t",
    "SELECT g AS k, {0} AS u, {1} AS v FROM t GROUP BY k",
    "SELECT s AS k, {0} AS u, {1} AS v FROM t GROUP BY k",
)
PAIRS = [shape.format(*pair) for pair in combinations_with_replacement(AGGREGATES, 2) for shape in SHAPES]
QUERIES = 400
PARTS = 40
FORMATS = ("csv", "json", "table", "parquet", "arrow")


def rows(people: int) -> pa.Table:
    found = [(p, i) for p in range(people) for i in range(1 + p % 3)]
    return pa.table(
        {
            "person": pa.array([p for p, _ in found], pa.int64()),
            "x": pa.array([float(p * i % 11) if p % 4 else None for p, i in found], pa.float64()),
            "y": pa.array([(p + i) % 7 for p, i in found], pa.int32()),
            "z": pa.array([1.0 + (p + i) % 7 for p, i in found], pa.float64()),
            "g": pa.array([("a", "b", None)[i] for _, i in found], pa.string()),
            "s": pa.array([f"s{p % 5}" for p, _ in found], pa.string()),
            "b": pa.array([p % 2 == 0 for p, _ in found], pa.bool_()),
            "ts": pa.array([datetime(2024, 1, 1 + i, p % 24) for p, i in found], pa.timestamp("us")),
            "day": pa.array([date(2024, 1, 1 + i) for _, i in found], pa.date32()),
        }
    )


@pytest.fixture(scope="module", params=[0, 6])
def session(request: pytest.FixtureRequest) -> Iterator[dpsql.Session]:
    ranges = {"x": (0, 10), "y": (0, 10), "z": (1, 10), "ts": (datetime(2024, 1, 1), datetime(2024, 2, 1))}
    ranges |= {"day": (date(2024, 1, 1), date(2024, 2, 1))}
    columns = {name: {"min": low, "max": high} for name, (low, high) in ranges.items()}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**9, "delta": 1e-4},
            "privacy": {"limits_share": 0, "max_rows": 3, "max_groups": 2},
            "tables": {"t": {"unit": "person", "columns": {**columns, "g": {"values": ["a", "b"]}}}},
        }
    )
    with dpsql.connect(policy, sources={"t": rows(request.param)}, ledger=":memory:") as opened:
        yield opened


def is_answered(session: dpsql.Session, sql: str, epsilon: float) -> bool:
    """Is it accepted? Then it is answered, rendered, and shown again; whatever else happens is raised."""
    try:
        str(session.explain(sql, epsilon=epsilon))
    except dpsql.Error:
        return False
    answer = session.query(sql, epsilon=epsilon)
    for shown in (answer, session.replay(answer.receipt.id) if answer.receipt.id else answer):
        for format_ in FORMATS:
            encode(shown, format_, 0.95)
        assert shown._repr_html_() and str(shown) and repr(shown)
    return True


def test_every_aggregate_of_private_rows_is_among_the_pairs() -> None:
    calls = [form_of(parse(f"SELECT {call} FROM t").root.selects[0].unalias()) for call in AGGREGATES]
    named = {form.name for form in calls if form is not None}
    assert {name for name, form in FORMS.items() if form.answered} - named == {PRESENT.name}


@pytest.mark.sample(16)
@pytest.mark.parametrize("part", range(PARTS))
def test_two_aggregates_that_explain_accepts_are_answered_in_every_format(session: dpsql.Session, part: int) -> None:
    some = PAIRS[part::PARTS]
    dice = random.Random(part)
    chosen = some if os.environ.get(WHOLE) else dice.sample(some, 8)
    found = [is_answered(session, sql, dice.choice([0.01, 1, 50])) for sql in chosen]
    assert any(found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MAD(x), AVG(x) FROM t",
        "SELECT g, MAD(x), MEDIAN(x), COUNT(x) FROM t GROUP BY g",
        "SELECT AVG(m) FROM (SELECT s, date_diff('minute', MIN(ts), MAX(ts)) AS m FROM t GROUP BY s) AS q",
        "SELECT g, MAX(day) - MIN(day) AS days, INTERVAL 1 DAY AS d FROM t GROUP BY g",
    ],
)
def test_what_was_charged_and_then_failed_is_answered(session: dpsql.Session, sql: str) -> None:
    assert is_answered(session, sql, 1)


@pytest.mark.sample(20)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_queries_that_explain_accepts_are_answered_in_every_format(part: int) -> None:
    users = [(1, "bern", 3, 1.5, True, "Ann", None), (None, None, None, None, None, None, None)]
    world = World({"users": users[: part % 3], "orders": [], "items": [], "survey": []})
    with open_session(world) as session:
        found = [
            is_answered(session, Grammar(f"answered:{number}").query().sql, 10)
            for number in range(part, QUERIES if os.environ.get(WHOLE) else QUERIES // 4, PARTS)
        ]
    assert found
