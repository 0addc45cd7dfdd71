"""ENTROPY of a key: from noisy counts of its public values, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql.statistics.counts import Count

N = 4_000
RNG = np.random.default_rng(8)
TABLE = pa.table(
    {
        "id": np.repeat(np.arange(N // 4), 4),
        "k": pa.array([None if n == 7 else "abcdefgh"[n] for n in RNG.geometric(0.4, N).clip(1, 8) - 1]),
        "g": pa.array(RNG.choice(["x", "y"], N, p=[0.7, 0.3])),
        "n": RNG.integers(0, 20, N),
        "b": RNG.random(N) < 0.2,
        "free": pa.array([f"name {n % 50}" for n in range(N)]),
    }
)
COLUMNS = {"k": {"values": list("abcdefg")}, "g": {"values": ["x", "y"]}, "n": {"min": 0, "max": 19}}


def opened(**privacy: Any) -> dpsql.Session:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**9, "delta": 1e-6},
            "privacy": {"limits_share": 0, "max_rows": 4, **privacy},
            "tables": {"t": {"unit": "id", "columns": COLUMNS}},
        }
    )
    return dpsql.connect(policy, sources={"t": TABLE}, ledger=":memory:")


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with opened() as one:
        yield one


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return rows


EXACT = [
    "SELECT ENTROPY(k) AS e FROM t",
    "SELECT ENTROPY(k) AS e, COUNT(*) AS c, ENTROPY(n) AS f FROM t WHERE n > 3",
    "SELECT ENTROPY(k) FILTER (WHERE b) AS e FROM t",
    "SELECT ENTROPY(n // 5) AS e, ENTROPY(CASE WHEN n > 3 THEN 'many' ELSE k END) AS f FROM t",
    "SELECT ENTROPY(k) AS e FROM t WHERE n > 100",
    "SELECT g, ENTROPY(k) AS e FROM t WHERE g IS NOT NULL GROUP BY g ORDER BY g",
    "SELECT g, b, COUNT(*) AS c, ENTROPY(n) AS e FROM t WHERE g > '' AND b IS NOT NULL GROUP BY g, b ORDER BY g, b",
    "SELECT g FROM t WHERE g IS NOT NULL GROUP BY g HAVING ENTROPY(g) < 0.1 AND ENTROPY(k) > 1 ORDER BY g",
    "SELECT b, ROUND(ENTROPY(k) / LOG2(7), 3) AS share FROM t WHERE b IS NOT NULL GROUP BY b ORDER BY ENTROPY(k)",
]


@pytest.mark.parametrize("sql", EXACT)
@pytest.mark.sample(2)
def test_without_noise_it_is_what_duckdb_says(session: dpsql.Session, sql: str) -> None:
    found, expected = session.query(sql, epsilon=10**6).rows, plain(sql)
    assert len(found) == len(expected)
    for row, exact in zip(found, expected, strict=True):
        assert [v if isinstance(v, str) else pytest.approx(v, abs=1e-9) for v in exact] == list(row)


def test_it_costs_what_one_histogram_costs(session: dpsql.Session) -> None:
    quote = session.explain("SELECT g, ENTROPY(k) FROM t GROUP BY g", epsilon=1)
    measured = [m for step in quote.steps for m in step.measurements]
    assert [type(m.statistic) for m in measured] == [Count]
    histogram = session.explain("SELECT g, k, COUNT(*) FROM t WHERE k IS NOT NULL GROUP BY g, k", epsilon=1)
    assert [(m.sensitivity, m.noise) for m in measured] == [
        (m.sensitivity, m.noise) for step in histogram.steps for m in step.measurements
    ]
    assert quote.price.epsilon == 1


def test_noisy_counts_keep_it_within_the_bound_of_entropy_1(session: dpsql.Session) -> None:
    ((exact,),) = plain("SELECT ENTROPY(k) FROM t")
    ((rows,),) = plain("SELECT COUNT(k) FROM t")
    values, epsilon, off = 7, 0.5, []
    for _ in range(20):
        answer = session.query("SELECT ENTROPY(k) AS e FROM t", epsilon=epsilon, fresh=True)
        off.append(abs(answer.rows[0][0] - exact))
    # Σ|z| of seven draws of scale 4/ε is above 25 scales with a probability below 10⁻⁷.
    t = 25 * 4 / epsilon / rows
    assert 0 < max(off) <= -t * log2(t) - (1 - t) * log2(1 - t) + t * log2(values - 1)


def test_where_counts_are_small_it_is_too_large_and_says_so(session: dpsql.Session) -> None:
    sql = "SELECT ENTROPY(k) AS e FROM t WHERE id < 10 AND CASE WHEN id < 10 THEN k = 'a' END"
    assert plain(sql) == [(0.0,)]
    found = [session.query(sql, epsilon=0.1, fresh=True) for _ in range(20)]
    assert 0.5 < np.mean([answer.rows[0][0] for answer in found]) <= log2(7)
    assert all(any("too large" in note for note in answer.notes) for answer in found)
    assert found[0].intervals() == {"e": None}


def test_the_same_once_more_is_free(session: dpsql.Session) -> None:
    sql = "SELECT b, ENTROPY(k) AS e FROM t GROUP BY b"
    one = session.query(sql, epsilon=2)
    again = session.query(sql + " ORDER BY e", epsilon=1)
    assert one.cost.epsilon == 2 and again.cost.epsilon == 0
    assert sorted(map(str, one.rows)) == sorted(map(str, again.rows))


def test_values_that_are_not_public_are_not_selected_for_it(session: dpsql.Session) -> None:
    for sql in ("SELECT ENTROPY(free) FROM t", "SELECT free, ENTROPY(k) FROM t GROUP BY free"):
        with pytest.raises(dpsql.PrivacyError) as refused:
            session.query(sql, epsilon=1, max_groups=3)
        assert refused.value.code == "private-keys" and "ENTROPY" in refused.value.message
        assert refused.value.hint is not None and "list them in the policy" in refused.value.hint


def test_it_is_the_entropy_of_what_min_units_lets_through() -> None:
    with opened(min_units=100) as session:
        ((found,),) = session.query("SELECT ENTROPY(k) AS e FROM t", epsilon=10**5, max_groups=7).rows
    units = "SELECT k FROM t WHERE k IS NOT NULL GROUP BY k HAVING COUNT(DISTINCT id) >= 100"
    assert found == pytest.approx(plain(f"SELECT ENTROPY(k) FROM t WHERE k IN ({units})")[0][0], abs=0.01)


def test_contribution_bounds_have_nothing_to_clip_in_it(session: dpsql.Session) -> None:
    for call in ("ENTROPY", "MODE"):
        with pytest.raises(dpsql.SQLError, match="don't say what they clip"):
            session.query(f"SELECT {call}(k, contribution_bounds_per_row => (0, 5)) FROM t", epsilon=1)
