"""Which groups are there, and how many: the same question has the same answer however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support import cursor_of

import dpsql
from dpsql.aggregates import present
from dpsql.aggregates.present import COLUMN, STRAY, large_enough
from dpsql.answer.tables import noisy_table
from dpsql.backends.duckdb.run import execute
from dpsql.plan.build import Builder
from dpsql.release import release

PEOPLE, CITIES = 6_000, [f"c{i:02d}" for i in range(60)]
RNG = np.random.default_rng(7)
HOME = RNG.integers(0, 20, PEOPLE)
TABLES = {
    "people": pa.table(
        {
            "person": np.arange(PEOPLE),
            "city": pa.array([CITIES[c] for c in HOME]),
            "age": pa.array(RNG.integers(30, 60, PEOPLE), pa.int32()),
            "name": pa.array([f"n{i}" for i in RNG.integers(0, 300, PEOPLE)]),
        }
    ),
    "visits": pa.table(
        {
            "person": np.repeat(np.arange(PEOPLE), 3),
            "city": pa.array([CITIES[c] for c in RNG.integers(5, 25, 3 * PEOPLE)]),
            "minutes": pa.array(RNG.integers(0, 61, 3 * PEOPLE), pa.int32()),
        }
    ),
    "places": pa.table({"city": CITIES, "region": [f"r{i // 6}" for i in range(60)]}),
}
POLICY: dict[str, Any] = {
    "budget": {"epsilon": 10**9, "delta": 1e-4},
    "privacy": {"max_rows": 4, "max_groups": 3},
    "tables": {
        "people": {"unit": "person", "columns": {"city": {"values": CITIES}, "age": {"min": 0, "max": 101}}},
        "visits": {"unit": "person", "columns": {"city": {"values": CITIES}, "minutes": {"min": 0, "max": 60}}},
        "places": {"public": True},
    },
}


@pytest.fixture(autouse=True)
def hardly_any_stray_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """That noise makes up a group in one list of twenty is meant to be, and tested by itself."""
    monkeypatch.setattr(present, "STRAY", Fraction(1, 10**7))


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=TABLES, ledger=":memory:") as one:
        yield one


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as one:
        for name, table in TABLES.items():
            one.register(name, table)
        yield one


LISTS = {
    "distinct": "SELECT DISTINCT city FROM people WHERE age > 40",
    "group by": "SELECT city FROM people WHERE age > 40 GROUP BY city",
    "having": "SELECT city FROM people GROUP BY city HAVING city > 'c03'",
    "having a row": "SELECT city FROM people GROUP BY city HAVING COUNT(*) > 0",
    "two keys": "SELECT DISTINCT city, age // 10 AS decade FROM people",
    "union": "SELECT city FROM people UNION SELECT city FROM visits",
    "except": "SELECT city FROM visits EXCEPT SELECT city FROM people",
    "intersect": "SELECT DISTINCT city FROM visits INTERSECT SELECT city FROM people GROUP BY city",
    "semi-join": "SELECT city FROM places WHERE city IN (SELECT city FROM people)",
    "anti-join": "SELECT city FROM places WHERE city NOT IN (SELECT DISTINCT city FROM people)",
    "join of lists": "SELECT a.city FROM (SELECT DISTINCT city FROM people) AS a "
    "JOIN (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) AS b ON a.city = b.city",
    "join to a public table": "SELECT DISTINCT region FROM places JOIN people USING (city)",
    "limit over keys": "SELECT city FROM people GROUP BY city ORDER BY city DESC LIMIT 3",
    "limit over keys of a result": "SELECT city FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) "
    "ORDER BY city LIMIT 4 OFFSET 2",
    "qualify": "SELECT city FROM visits GROUP BY city QUALIFY ROW_NUMBER() OVER (ORDER BY city DESC) <= 3",
    "filtered by a noisy list": "SELECT DISTINCT city FROM visits WHERE city IN (SELECT DISTINCT city FROM people)",
    "grouping sets": "SELECT city, age // 20 AS a FROM people GROUP BY GROUPING SETS ((city), (a))",
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_the_groups_that_are_there(
    session: dpsql.Session, plain: duckdb.DuckDBPyConnection, name: str
) -> None:
    answer = session.query(LISTS[name], epsilon=5)
    assert sorted(answer.rows, key=repr) == sorted(plain.execute(LISTS[name]).fetchall(), key=repr)
    assert answer.cost.epsilon > 0 or answer.receipt.reused
    assert any("smaller ones may be missing" in note for note in answer.notes)
    assert "which groups are there" in str(session.explain(LISTS[name], epsilon=5))


COUNTS = {
    "one key": ("SELECT DISTINCT age FROM people", "age", 30),
    "two keys": ("SELECT DISTINCT name, age FROM people", "(name, age)", None),
    "group by": ("SELECT name, age FROM people GROUP BY ALL", "name, age", None),
    "counts that nobody looks at": ("SELECT city, COUNT(*) AS n FROM people GROUP BY 1", "city", 20),
    "groups with a row": ("SELECT city FROM people GROUP BY city HAVING COUNT(*) >= 1", "city", 20),
    "union": ("SELECT city FROM people UNION SELECT DISTINCT city FROM visits", None, 25),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.sample(2)
def test_how_many_groups_there_are_is_a_count_of_distinct_values(
    session: dpsql.Session, plain: duckdb.DuckDBPyConnection, name: str
) -> None:
    listed, value, right = COUNTS[name]
    sql = f"SELECT COUNT(*) FROM ({listed})"
    answer = session.query(sql, epsilon=10**6)
    assert answer.rows == plain.execute(sql).fetchall()
    assert right is None or answer.rows == [(right,)]
    assert answer.lists == ()
    if value is not None:
        counted = session.explain(f"SELECT COUNT(DISTINCT {value}) FROM people", epsilon=1)
        ours, theirs = (q.steps[0].measurements for q in (session.explain(sql, epsilon=1), counted))
        assert [m.sensitivity for m in ours] == [m.sensitivity for m in theirs]


def test_groups_of_a_list_are_counted_by_another_key(session: dpsql.Session, plain: Any) -> None:
    for sql in (
        "SELECT city, COUNT(*) FROM (SELECT DISTINCT city, age FROM people) GROUP BY city",
        "SELECT city, COUNT(age) FILTER (WHERE age > 50) FROM (SELECT city, age FROM people GROUP BY ALL) AS q "
        "WHERE city < 'c10' GROUP BY city",
    ):
        answer = session.query(sql, epsilon=10**6)
        assert {city: n for city, n in answer.rows if n} == dict(plain.execute(sql).fetchall())


def test_aggregates_over_a_list_count_no_empty_groups(session: dpsql.Session, plain: Any) -> None:
    inner = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    for sql in (
        f"SELECT MIN(n), AVG(n), COUNT(*), MEDIAN(n) FROM ({inner})",
        f"SELECT n FROM ({inner}) ORDER BY n LIMIT 1",
        f"SELECT COUNT(*) OVER () AS c FROM ({inner}) LIMIT 1",
        "SELECT COUNT(*) AS c FROM (SELECT region, city FROM visits JOIN places USING (city) GROUP BY ALL) "
        "GROUP BY region ORDER BY region LIMIT 1",
        "SELECT MIN(age), MAX(age), AVG(age) FROM (SELECT DISTINCT age FROM people)",
    ):
        (ours,), (truth,) = session.query(sql, epsilon=20).rows, plain.execute(sql).fetchall()
        assert ours == pytest.approx(truth, rel=0.02, abs=1), sql


def test_what_counts_of_empty_groups_dont_change_costs_nothing_more(session: dpsql.Session) -> None:
    inner = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    for sql in (f"SELECT SUM(n), MAX(n) FROM ({inner})", f"{inner} ORDER BY n DESC LIMIT 3", inner):
        assert "which groups are there" not in str(session.explain(sql, epsilon=1))
    assert len(session.query(inner, epsilon=1).rows) == len(CITIES) + 1  # all cells, and NULL


def test_presence_is_told_by_a_count_that_is_there_anyway(session: dpsql.Session) -> None:
    for sql, measured in (
        ("SELECT AVG(n) FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city)", 1),
        ("SELECT AVG(n) FROM (SELECT city, COUNT(DISTINCT person) AS n FROM visits GROUP BY city)", 1),
        ("SELECT AVG(s) FROM (SELECT city, SUM(minutes) AS s FROM visits GROUP BY city)", 2),
    ):
        (step,) = session.explain(sql, epsilon=1).steps
        assert len(step.measurements) == measured


def test_a_list_beside_counts_of_the_same_groups_is_part_of_them(session: dpsql.Session) -> None:
    sql = (
        "WITH g AS (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) "
        "SELECT city FROM g WHERE city IN (SELECT DISTINCT city FROM visits) AND n > (SELECT AVG(n) FROM g)"
    )
    (step,) = session.explain(sql, epsilon=1).steps
    assert len(step.measurements) == 1
    sql = "SELECT city, SUM(minutes) FROM visits WHERE minutes > 9 GROUP BY city"
    both = f"SELECT * FROM ({sql}) AS q WHERE city IN (SELECT DISTINCT city FROM visits WHERE minutes > 9)"
    (step,) = session.explain(both, epsilon=20).steps
    assert len(step.measurements) == 2
    assert [row[0] for row in session.query(both, epsilon=20).rows] == CITIES[5:25]


def test_a_batch_has_lists_and_counts_from_one_release(session: dpsql.Session) -> None:
    batch = "SELECT city, COUNT(DISTINCT person) AS n FROM visits GROUP BY city; SELECT DISTINCT city FROM visits"
    quote = session.explain_batch(batch, epsilon=5)
    assert len(quote.steps) == 1 and len(quote.steps[0].measurements) == 1
    counts, listed = session.batch(batch, epsilon=5)
    assert len(counts.rows) == len(CITIES) + 1 and counts.lists == ()
    assert [city for (city,) in listed.rows] == CITIES[5:25] and len(listed.lists) == 1


def test_the_next_list_of_the_same_groups_is_free_and_the_same(session: dpsql.Session) -> None:
    first = session.query("SELECT DISTINCT city FROM visits WHERE minutes > 55", epsilon=5)
    again = session.query("SELECT city FROM visits WHERE minutes > 55 GROUP BY city HAVING city > 'c07'", epsilon=5)
    assert first.cost.epsilon == 5 and again.cost.epsilon == 0
    assert again.rows == [row for row in first.rows if row[0] > "c07"]
    assert session.replay(first.receipt.id).notes == first.notes


def test_public_rows_that_a_left_join_keeps_are_groups_in_any_case(session: dpsql.Session) -> None:
    joined = "FROM places AS p LEFT JOIN people AS q ON p.city = q.city"
    every = session.query(f"SELECT p.city {joined} GROUP BY p.city", epsilon=1)
    assert [city for (city,) in every.rows] == CITIES and every.cost.epsilon == 0
    matched = session.query(f"SELECT p.city {joined} WHERE q.age > 0 GROUP BY p.city", epsilon=5)
    assert [city for (city,) in matched.rows] == CITIES[:20]


def test_no_accuracy_is_promised_of_a_list(session: dpsql.Session) -> None:
    with pytest.raises(dpsql.PrivacyError, match="the list of groups"):
        session.query("SELECT DISTINCT city FROM people", accuracy=10)


def test_lists_within_lists_are_built_a_reasonable_number_of_times(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a query is a count of distinct values is found out by building it: within others, not again and again."""
    built, rows_of = [], Builder.rows_of

    def counted(*arguments: Any, **options: Any) -> Any:
        built.append(arguments)
        return rows_of(*arguments, **options)

    monkeypatch.setattr(Builder, "rows_of", counted)
    sql = "SELECT city FROM people"
    for i in range(5):
        sql = f"(SELECT city FROM visits UNION {sql}) EXCEPT SELECT city FROM people WHERE age = {i}"
    for i in range(5):
        sql = f"SELECT COUNT(*) AS city FROM (SELECT city, COUNT(*) AS n FROM ({sql}) AS q{i} GROUP BY city) AS p{i}"
    session.explain(sql, epsilon=1)
    assert len(built) < 1_500  # without a limit, 4,300


def test_private_keys_are_listed_by_their_threshold(session: dpsql.Session) -> None:
    answer = session.query("SELECT DISTINCT name FROM people", epsilon=10, delta="1e-6")
    (step,) = session.explain("SELECT DISTINCT name FROM people", epsilon=10, delta="1e-6").steps
    assert step.selection is not None
    assert len(step.measurements) == 1
    assert f"is above {step.selection.threshold - 1}:" in answer.lists[0] and answer.lists[0] in answer.notes


def test_groups_are_missed_and_empty_ones_listed_no_more_often_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """One group of exactly the size from which on the chance of a miss is at most 5%, and 60 empty ones."""
    monkeypatch.setattr(present, "STRAY", STRAY)
    policy = dpsql.Policy.from_dict({**POLICY, "tables": {"t": POLICY["tables"]["people"]}})
    draws = 1_000
    with dpsql.connect(policy, sources={"t": TABLES["people"]}, ledger=":memory:") as session:
        quote = session.explain("SELECT DISTINCT city FROM t", epsilon=1)
        (step,) = quote.steps
        size = large_enough(step, step.calls[0])
        cursor = cursor_of(session)
        ids, cities = np.arange(size), ["c00"] * size
        cursor.register("t", pa.table({"person": ids, "city": cities, "age": ids, "name": cities}))
        exact = execute(step, cursor)
        cursor.close()
    tables = [noisy_table(release(step, exact), quote.plan.post).column(COLUMN).to_pylist() for _ in range(draws)]
    assert step.count == 61 and size < 40
    # 5% of 1,000 are 50; more than 80 have a chance of less than one in ten thousand.
    assert 0 < sum(not there for there, *_ in tables) <= 80
    assert 0 < sum(any(empty) for _, *empty in tables) <= 80


def test_of_a_computed_key_no_policy_is_asked_to_list_the_values() -> None:
    policy = {
        "budget": {"epsilon": 10, "delta": 1e-4},
        "privacy": {"limits_share": 0, "max_rows": 5},
        "tables": {"t": {"unit": "u", "columns": {"k": {"values": ["a", "b"]}}}},
    }
    rows = pa.table({"u": [1, 2], "k": ["a", "b"], "n": ["x", "y"]})
    computed = "SELECT n, COUNT(*) FROM (SELECT u, MAX(n) OVER (PARTITION BY u) AS n FROM t) GROUP BY n"
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": rows}, ledger=":memory:") as session:
        with pytest.raises(dpsql.Error) as refused:
            session.query(computed, epsilon=1, delta=1e-7)
        hint = refused.value.hint or ""
        assert "columns]" not in hint and "max_groups=4" in hint and "group by a column of a table" in hint
        assert session.query(computed, epsilon=1, delta=1e-7, max_groups=4)
        assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1, delta=1e-7)
