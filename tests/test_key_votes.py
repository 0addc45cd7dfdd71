"""Keys that aren't public: found by a count of units or by votes, for a share of ε, with limits that fit."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect, cursor_of

import dpsql
from dpsql.backends.duckdb.run import execute
from dpsql.quote.key_votes import worth
from dpsql.quote.model import Selection

UNITS = 6_000
RANDOM = np.random.default_rng(5)
EACH = RANDOM.geometric(1 / 8, UNITS)
IDS = np.repeat(np.arange(UNITS), EACH)
KEYS = RANDOM.zipf(1.3, len(IDS)) % 2_000
TABLE = pa.table({"id": IDS, "k": KEYS, "x": RANDOM.uniform(0, 10, len(IDS)), "v": RANDOM.integers(0, 5, len(IDS))})
TRUE = Counter(KEYS.tolist())
BY_KEY = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
NAMED: dict[str, Any] = {"max_rows": 16, "max_groups": 8}


def opened(connect: Connect, **privacy: Any) -> dpsql.Session:
    policy = {"privacy": privacy, "tables": {"t": {"unit": "id", "columns": {"x": {"min": 0, "max": 10}}}}}
    return connect({"t": TABLE}, policy, epsilon=1000, delta=9e-4)


def selection(session: dpsql.Session, sql: str = BY_KEY, epsilon: Any = 1) -> Selection:
    (step,) = session.explain(sql, epsilon=epsilon, delta="1e-6").steps
    assert step.selection is not None
    return step.selection


def test_votes_find_keys_of_fewer_units_than_a_count_and_explain_says_so(connect: Connect) -> None:
    session = opened(connect, **NAMED)
    found = selection(session)
    assert found.votes and found.other is not None and found.units < found.other
    text = str(session.explain(BY_KEY, epsilon=1, delta="1e-6"))
    assert f"a key needs about {found.units:,} units; were units counted, about {found.other:,}" in text
    assert "votes of units, 1/√t for each of t groups" in text


def test_where_noise_is_small_units_are_counted_and_explain_says_what_votes_would_need(connect: Connect) -> None:
    session = opened(connect, **NAMED)
    found = selection(session, epsilon=100)
    assert not found.votes and found.other is not None
    text = str(session.explain(BY_KEY, epsilon=100, delta="1e-6"))
    assert f"votes, 1/√t for each of a unit's t groups, would need about {found.other:,} units" in text


@pytest.mark.parametrize(
    ("sql", "privacy"),
    [
        ("SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k", {}),  # the count is asked for, and tells both
        (BY_KEY, {"min_units": 5}),  # units must be counted
        (BY_KEY, {"mechanism": "laplace"}),
        (BY_KEY, {"max_groups": 1}),
    ],
)
def test_units_are_counted_where_their_number_is_needed_or_votes_are_no_better(
    connect: Connect, sql: str, privacy: dict[str, Any]
) -> None:
    assert not selection(opened(connect, **{**NAMED, **privacy}), sql).votes


def test_the_policy_may_say_the_share_and_a_larger_one_finds_smaller_keys(connect: Connect) -> None:
    needed = {}
    for share in (0.1, 0.5, 0.9):
        session = opened(connect, **NAMED, keys_share=share, mechanism="gaussian")
        quote = session.explain(BY_KEY, epsilon=1, delta="1e-6")
        (step,) = quote.steps
        assert step.selection is not None and quote.main.split.parts is not None
        assert quote.main.split.parts[step.selection.measurement] == Fraction(str(share))
        assert f"{share:.0%}" in str(quote)
        needed[share] = step.selection.units
    assert needed[0.9] < needed[0.5] < needed[0.1]
    free = selection(opened(connect, **NAMED, mechanism="gaussian")).units
    assert needed[0.9] <= free <= needed[0.1]


def test_limits_that_nobody_named_find_many_keys_whose_numbers_are_right(connect: Connect) -> None:
    session = opened(connect)
    before = str(session.explain(BY_KEY, epsilon=2, delta="1e-6"))
    assert "by a noisy number of their units, or of votes: chosen with the limits" in before
    answer = session.query(BY_KEY, epsilon=2, delta="1e-6")
    errors = [row[1] / TRUE[row[0]] - 1 for row in answer.rows]
    large = sum(n > 400 for n in TRUE.values())
    assert len(errors) > large > 10
    assert np.median(np.abs(errors)) < 0.5
    assert session.query(BY_KEY, epsilon=2, delta="1e-6").rows == answer.rows
    assert session.budget.spent.epsilon == 2  # the same again is free


def test_what_a_query_asks_for_decides_its_limits(connect: Connect) -> None:
    session = opened(connect)
    limits = {}
    for sql in ("SELECT k FROM t GROUP BY k", BY_KEY):
        session.query(sql, epsilon=2, delta="1e-6")
        (step,) = session.explain(sql, epsilon=2, delta="1e-6").steps
        limits[sql] = step.checked.bounding.cap or 0
    keys, counts = limits.values()
    assert keys >= counts  # more groups cost votes hardly anything, and counts their noise


def test_distinct_values_are_all_counted_where_votes_are_spread_over_proved_rows(connect: Connect) -> None:
    session = opened(connect, mechanism="gaussian")
    sql = (
        "SELECT k, COUNT(DISTINCT v) FROM (SELECT id, k, v, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v, k) AS r "
        "FROM t) AS s WHERE r <= 4 GROUP BY k"
    )
    (step,) = session.explain(sql, epsilon=1, delta="1e-6").steps
    assert step.selection is not None and step.selection.votes and step.checked.bounding.cap is None
    cursor = cursor_of(session)
    cursor.register("t", TABLE)
    exact = execute(step, cursor)
    expected = dict(cursor.execute(sql).fetchall())
    cursor.close()
    statistic = next(m.statistic for m in step.measurements if m.statistic.tallies[0].kind == "distinct")
    (counted,) = statistic.columns([exact.tallies[t] for t in statistic.tallies])
    assert dict(zip(exact.cells.column("k0").to_pylist(), map(int, counted), strict=True)) == expected


def test_what_keys_are_worth_grows_with_their_number_and_falls_with_each_error() -> None:
    assert worth(10, []) > worth(20, []) > 0
    assert worth(10, [(1.0, 0.0)]) > worth(10, [(9.0, 0.0)]) > worth(10, [(1e6, 0.0)]) > 0
    assert worth(10, [(1.0, 0.0)]) > worth(10, [(1.0, 0.3)]) > worth(10, [(1.0, 0.3), (1.0, 0.9)])
    assert worth(10, [(100.0, 0.0)]) == pytest.approx(worth(10, [(100.0001, 0.0)]), rel=1e-4)  # no step where it is 1
