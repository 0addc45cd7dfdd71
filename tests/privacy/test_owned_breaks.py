"""Attacks on joins, subqueries and values within a unit that once worked, and must not work again.

Neighbours: all rows of person 77, who has as many rows and as large values as can be, are there or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support import cursor_of

import dpsql
from dpsql.analyze.ownership import key_promise, rows_promise
from dpsql.answer.finish import publish
from dpsql.backends.duckdb.run import execute

POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1e12, "delta": 1e-5},
    "tables": {
        "users": {
            "unit": "uid",
            "rows_per_unit": 1,
            "columns": {"age": {"min": 0, "max": 120}, "f": {"min": 0, "max": 100}},
        },
        "orders": {
            "unit": "uid",
            "key": "oid",
            "columns": {
                "day": {"min": 0, "max": 30},
                "amount": {"min": 0, "max": 100},
                "kind": {"values": ["s0", "s1"]},
            },
        },
        "items": {"unit": {"through": "orders", "on": {"oid": "oid"}}, "columns": {"qty": {"min": 0, "max": 10}}},
        "rows": {"unit": "row", "columns": {"x": {"min": 0, "max": 99}}},
        "skus": {"public": True},
        "firsts": {"public": True},
        "seconds": {"public": True},
    },
}


def tables(extra: bool) -> dict[str, pa.Table]:
    people = [*range(20), *([77] if extra else [])]
    users = [(u, 20 + u if u < 77 else 0, float(u) if u < 77 else 1.5e38) for u in people]
    orders = [(100 * u + i, u, (u + i) % 30, float(i), f"s{i % 2}") for u in range(20) for i in range(u % 4)]
    orders += [(10_000 + i, 77, i % 31, 100.0, f"s{i % 2}") for i in range(40 if extra else 0)]
    items = [(o[0], 1 + j) for o in orders for j in range(3)]
    # The rows that a LIMIT takes depend on which side of their join the engine reads first.
    j = np.arange(10_000)
    first = np.concatenate([j[j % 100 == 0], j[j % 100 != 0]])
    return {
        "users": table(users, uid=pa.int64(), age=pa.int32(), f=pa.float64()),
        "orders": table(orders, oid=pa.int64(), uid=pa.int64(), day=pa.int32(), amount=pa.float64(), kind=pa.string()),
        "items": table(items, oid=pa.int64(), qty=pa.int32()),
        "rows": pa.table({"x": pa.array([5] * 20 + [0] * extra, pa.int64())}),
        "skus": pa.table({"sku": list(range(10)), "name": [f"s{i % 4}" for i in range(10)]}),
        "firsts": pa.table({"j": j, "k": j % 100}),
        "seconds": pa.table({"j": first, "w": [f"{'w' * 29}{i}" for i in j], "v": [f"z{i}" for i in j]}),
    }


def table(rows: list[tuple[Any, ...]], **types: pa.DataType) -> pa.Table:
    return pa.table({n: pa.array(c, t) for (n, t), c in zip(types.items(), zip(*rows, strict=True), strict=True)})


def opened(extra: bool) -> dpsql.Session:
    session = dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=tables(extra), ledger=":memory:")
    engine = session._engine
    known, versions = engine.policy.tables, engine.versions()
    engine.ledger.record_promise("users", str(rows_promise(known["users"])), versions["users"], True)
    engine.ledger.record_promise("orders", key_promise(known["orders"]), versions["orders"], True)
    return session


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[dpsql.Session, dpsql.Session]]:
    """Sessions with and without person 77."""
    both = opened(True), opened(False)
    yield both
    for session in both:
        session.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB itself over the data without person 77."""
    with duckdb.connect() as connection:
        for name, rows in tables(False).items():
            connection.register(name, rows)
        yield connection


Pair = tuple[dpsql.Session, dpsql.Session]
Plain = duckdb.DuckDBPyConnection


def share(pair: Pair, sql: str, **options: Any) -> float:
    """How much of what is claimed the person moves, at most, in the first step; the cells must be public."""
    found = []
    for session in pair:
        step = session.explain(sql, epsilon=1, **options).steps[0]
        cursor = cursor_of(session)
        exact = execute(step, cursor, publish(step, [], session._engine.public))
        cursor.close()
        measured = [(m, [exact.tallies[t] for t in m.statistic.tallies]) for m in step.measurements]
        found.append([(m, m.statistic.columns(tallies)) for m, tallies in measured])
    shares = []
    for (claim, one), (_, other) in zip(*found, strict=True):
        moved = [int(a) - int(b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
        shares.append(Fraction(sum(map(abs, moved))) / claim.sensitivity.l1)
        shares.append(Fraction(sum(m * m for m in moved)) / claim.sensitivity.l2_squared)
    return float(max(shares))


def outcome(session: dpsql.Session, sql: str, **options: Any) -> str:
    """Answered, or the text of the error: what must not depend on a person."""
    try:
        return f"answered {session.query(sql, **{'epsilon': 1, 'max_rows': 2, **options}).table.schema}"
    except dpsql.Error as error:
        return f"{type(error).__name__} {error}"


def answered(session: dpsql.Session, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    """Almost without noise."""
    given = {"epsilon": 10**10, "delta": 1e-6, "max_rows": 20, "max_groups": 100, **options}
    return session.query(sql, **given).rows


def check(session: dpsql.Session, plain: Plain, sql: str, **options: Any) -> None:
    """Almost without noise, the answer is DuckDB's."""
    ours = [row for row in answered(session, sql, **options) if row[-1]]
    theirs = [row for row in plain.execute(sql).fetchall() if row[-1]]
    assert len(ours) == len(theirs), (ours, theirs)
    for mine, other in zip(sorted(ours, key=str), sorted(theirs, key=str), strict=True):
        assert mine == pytest.approx(tuple(map(_plain, other)), abs=0.01)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


# ---------------------------------------------------------------- public rows

CHOSEN = "(SELECT a.k AS k, b.w AS w, b.v AS v FROM firsts a JOIN seconds b ON a.j = b.j LIMIT 100) q"


@pytest.mark.parametrize("sql", [f"SELECT COUNT(*) FROM rows JOIN {CHOSEN} ON x = q.k"])
def test_a_join_is_unique_on_the_rows_that_are_joined(pair: Pair, sql: str) -> None:
    """With a query around it, DuckDB took other rows under the LIMIT: there, each value was found once."""
    assert share(pair, sql, max_rows=3) <= 1


def test_rows_that_are_no_longer_unique_when_they_are_joined_are_refused(pair: Pair) -> None:
    public = pair[0]._engine.public

    class Doubled:
        """Public data in which each row stands twice by now."""

        memo = public.memo
        run = public.run
        apart = public.apart

        def table(self, query: Any, given: Any) -> Any:
            rows = public.table(query, given)
            return rows if given else pa.concat_tables([rows, rows])

    sql = "SELECT COUNT(*) FROM rows JOIN (SELECT sku, name FROM skus LIMIT 5) q ON x = q.sku"
    step = pair[0].explain(sql, epsilon=1).steps[0]
    assert publish(step, [], public)
    with pytest.raises(dpsql.DataError, match="other rows than when the query was priced"):
        publish(step, [], Doubled())


# ---------------------------------------------------------------- subqueries and links


TWO_LEVELS = [
    "EXISTS (SELECT 1 FROM orders p WHERE p.uid = o.uid AND p.kind = skus.name)",
    "NOT EXISTS (SELECT 1 FROM orders p WHERE p.uid = o.uid AND p.kind = skus.name)",
    "EXISTS (SELECT 1 FROM orders p JOIN users u ON u.uid = p.uid AND p.kind = skus.name WHERE p.uid = o.uid)",
    "EXISTS (SELECT 1 FROM skus k WHERE k.sku = o.day AND k.name = skus.name)",
    "o.uid IN (SELECT p.uid FROM orders p WHERE p.kind = skus.name)",
    "o.day IN (SELECT k.sku FROM skus k WHERE k.name = skus.name)",
    "o.day > (SELECT MAX(p.day) FROM orders p WHERE p.uid = o.uid AND p.kind = skus.name)",
    "o.day > (SELECT AVG(p.day) FROM orders p WHERE p.kind = skus.name)",
]


@pytest.mark.parametrize("condition", TWO_LEVELS)
def test_a_condition_on_a_row_two_levels_out_is_never_left_out(pair: Pair, condition: str) -> None:
    before = pair[1].budget.spent
    for sql in (
        f"SELECT sku, (SELECT COUNT(*) FROM orders o WHERE {condition}) AS n FROM skus",
        f"SELECT sku, (SELECT SUM(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM orders o) AS n FROM skus",
    ):
        with pytest.raises(dpsql.PrivacyError, match="belongs to an outer query"):
            pair[1].query(sql, epsilon=1, max_rows=2)
    assert pair[1].budget.spent == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM orders o JOIN (SELECT * FROM items WHERE {unit} > 5) i ON i.oid = o.oid",
        "SELECT COUNT(i.qty) FROM orders o LEFT JOIN (SELECT * FROM items WHERE {unit} > 5) i ON i.oid = o.oid",
        "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND {unit} > 5)",
        "SELECT COUNT(*) FROM orders o WHERE o.oid IN (SELECT i.oid FROM items i WHERE {unit} > 5)",
        "SELECT COUNT(*) FROM orders o WHERE o.oid NOT IN (SELECT i.oid FROM items i WHERE {unit} > 5)",
    ],
)
def test_a_filter_may_look_at_the_owner_that_a_link_tells(pair: Pair, plain: Plain, sql: str) -> None:
    ours = answered(pair[1], sql.format(unit="PRIVACY_UNIT()"))
    owner = "(SELECT w.uid FROM orders w WHERE w.oid = {}.oid)"
    theirs = sql.format(unit=owner.format("i" if " items i" in sql else "items"))
    assert ours == plain.execute(theirs).fetchall()


@pytest.mark.parametrize("key", ["", "x, "])
@pytest.mark.parametrize("limits", [{}, {"max_rows": 3, "max_rows_per_group": 1}, {"max_rows": 1}])
def test_rows_without_a_name_count_as_often_as_they_stand_there(pair: Pair, key: str, limits: dict[str, int]) -> None:
    """No limit can be enforced on rows that stand there twice: two is what is proved, and what is claimed."""
    group = " GROUP BY x" if key else ""
    sql = f"SELECT {key}COUNT(*) FROM (SELECT x FROM rows UNION ALL SELECT x FROM rows){group}"
    assert share(pair, sql, **limits) == 1


# ---------------------------------------------------------------- values within a unit


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x) FROM (SELECT uid, SUM(amount + 1) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, SUM(amount - day) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, AVG(amount + 1) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT SUM(amount + 1) OVER (PARTITION BY uid) AS x FROM orders)",
        "SELECT COUNT_IF(x) FROM (SELECT uid, ARG_MAX(NOT day > 12, oid) AS x FROM orders GROUP BY uid)",
        "SELECT COUNT(x) FROM (SELECT uid, ARG_MAX(day > 3 OR amount > 1, oid) AS x FROM orders GROUP BY uid)",
        "SELECT COUNT_IF(x) FROM (SELECT uid, ARG_MIN(day IN (1, 2, 3), oid) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, FIRST(0.5 ORDER BY oid) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, LAST(1e0 ORDER BY oid) AS x FROM orders GROUP BY uid)",
        "SELECT COUNT(x) FROM (SELECT uid, FIRST('a' ORDER BY oid) AS x FROM orders GROUP BY uid)",
        "SELECT COUNT(x) FROM (SELECT uid, FIRST(DATE '2024-01-31' ORDER BY oid) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, ARG_MAX(0.5, oid) AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT uid, ARG_MIN(age, 0.5) AS x FROM users GROUP BY uid)",
        "SELECT COUNT(x) FROM (SELECT uid, ARG_MIN('a', 'b') AS x FROM orders GROUP BY uid)",
        "SELECT SUM(x) FROM (SELECT LAG(day, 1, 1.5) OVER (PARTITION BY uid ORDER BY oid) AS x FROM orders)",
        "SELECT SUM(x) FROM (SELECT LEAD(amount, 1, 7) OVER (PARTITION BY uid ORDER BY oid) AS x FROM orders)",
        "SELECT COUNT(x) FROM (SELECT DISTINCT uid, kind AS x, NULL AS z FROM orders)",
        "SELECT COUNT(*) FROM (SELECT uid, kind AS x, NULL FROM orders INTERSECT SELECT uid, 's1', NULL FROM users)",
        "SELECT COUNT(*) FROM (SELECT uid, kind AS x, NULL AS z FROM orders EXCEPT SELECT uid, 's1', NULL FROM users)",
        "SELECT COUNT(*) FROM (SELECT uid, NULL AS z FROM orders UNION SELECT uid, NULL FROM users)",
    ],
)
@pytest.mark.sample(3)
def test_a_value_within_a_unit_is_what_duckdb_makes_of_it(pair: Pair, plain: Plain, sql: str) -> None:
    """Without parentheses the grid's scale would multiply the last term alone, and NOT NOT b IS NULL mean another."""
    check(pair[1], plain, sql)


@pytest.mark.parametrize("person", [3, 1234])
def test_a_difference_of_large_floats_does_not_fail_where_a_person_is(pair: Pair, person: int) -> None:
    large = f"(CASE WHEN uid = {person} THEN 1e30 ELSE 0 END)"
    sql = f"SELECT SUM(x) FROM (SELECT uid, SUM({large} - {large}) AS x FROM users GROUP BY uid)"
    assert outcome(pair[1], sql).startswith("answered")


LARGE = "CASE WHEN uid = {person} THEN 1000000000000 ELSE 0 END"
NULLED = f"(SELECT uid, 5 AS x, {LARGE} AS b FROM users UNION ALL SELECT uid, NULL, {LARGE} FROM users)"
LEAST = "SELECT SUM(LEAST(x, b) * 1000) FILTER (WHERE x IS NOT NULL) FROM"
NULLABLE = {
    "a union with NULL": f"{LEAST} {NULLED}",
    "within a unit": f"SELECT SUM(v) FROM (SELECT uid, SUM(LEAST(x, b) * 1000) FILTER (WHERE x IS NOT NULL) AS v "
    f"FROM {NULLED} GROUP BY uid)",
    "a condition": f"SELECT SUM(LEAST(x, b) * 1000) FROM {NULLED} WHERE x IS NOT NULL",
    "a CASE": f"SELECT SUM(CASE WHEN x IS NOT NULL THEN LEAST(x, b) * 1000 END) FROM {NULLED}",
    "a comparison": f"SELECT COUNT(*) FROM (SELECT * FROM {NULLED} WHERE x IS NOT NULL) WHERE LEAST(x, b) * 1000 > 3",
    "a join": f"SELECT COUNT(*) FROM {NULLED} q JOIN skus s ON s.sku = q.x WHERE LEAST(q.x, q.b) * 1000 > 3",
    "a CASE without ELSE": f"{LEAST} (SELECT DISTINCT uid, CASE WHEN age > 9999 THEN 5 END AS x, {LARGE} AS b FROM "
    "users)",
    "an aggregate with a FILTER": f"{LEAST} (SELECT uid, MAX(5) FILTER (WHERE age > 9999) AS x, MAX({LARGE}) AS b "
    "FROM users GROUP BY uid)",
    "NULLIF": f"{LEAST} (SELECT uid, NULLIF(5, CASE WHEN age >= 0 THEN 5 ELSE 4 END) AS x, {LARGE} AS b FROM users)",
    "a cast": "SELECT COUNT(*) FROM (SELECT uid, TRY_CAST(CASE WHEN age >= 0 THEN 'x' ELSE '1' END AS TINYINT) AS x, "
    f"{LARGE} AS b FROM users) WHERE x IS NOT NULL AND LEAST(x, b) * 1000 > 3",
    "a LEFT JOIN": f"{LEAST} (SELECT u.uid, u.b, o.x FROM (SELECT uid, {LARGE} AS b FROM users UNION ALL SELECT uid, 0 "
    "FROM users) u LEFT JOIN (SELECT uid, 5 AS x FROM users WHERE uid < 0 UNION ALL SELECT uid, 5 FROM users "
    "WHERE uid < 0) o ON o.uid = u.uid)",
}


@pytest.mark.parametrize("name", NULLABLE)
@pytest.mark.sample(3)
def test_what_may_be_null_bounds_nothing_even_where_a_condition_says_otherwise(pair: Pair, name: str) -> None:
    """LEAST skips NULLs, so 5 bounds it only where it is never NULL: on every row that the engine may look at."""
    for person in (3, 1234):
        assert outcome(pair[1], NULLABLE[name].format(person=person)).startswith("answered")


# ---------------------------------------------------------------- numbers of 128 bits


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "value",
    [
        "SUM(h)", "AVG(h)", "SUM(DISTINCT h)", "AVG(DISTINCT h)", "SUM(h) FILTER (WHERE h <= 100)", "SUM(-h)",
        "SUM(h - 5)", "SUM(h * 1.5)", "MAX(h)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("over", ["", " OVER (PARTITION BY uid)"])
def test_a_number_beyond_all_decimals_does_not_fail_within_a_unit(pair: Pair, value: str, over: str) -> None:
    """A HUGEINT beside a decimal becomes one, and 1.5e38 has no place there: person 77 has it."""
    if over and "DISTINCT" in value:
        pytest.skip("no window of DISTINCT")
    group = "" if over else " GROUP BY uid"
    for rows in ("users", "users WHERE f <= 100", "(SELECT uid, MAX(f) AS f FROM users GROUP BY uid)"):
        sql = f"SELECT SUM(CLIP(x, 0, 9)) FROM (SELECT uid, {value.replace('h', H)}{over} AS x FROM {rows}{group})"
        assert outcome(pair[0], sql) == outcome(pair[1], sql)
        assert outcome(pair[0], sql).startswith("answered")


H = "CAST(f AS HUGEINT)"
WIDE = 2**60  # beyond it, doubles are 256 apart
ONE_OF_MANY = f"(SELECT uid, MAX(CASE WHEN age >= 0 THEN {WIDE} ELSE -1 END) AS x FROM users GROUP BY uid) u"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM {ONE_OF_MANY} JOIN (SELECT CAST({WIDE} + sku AS UHUGEINT) AS k FROM skus) g ON x = k",
        f"SELECT COUNT(*) FROM {ONE_OF_MANY} WHERE x IN (SELECT CAST({WIDE} + sku AS UHUGEINT) FROM skus)",
        f"SELECT COUNT(*) FROM users u JOIN (SELECT uid, CAST(CAST({WIDE} AS VARCHAR) AS UHUGEINT) AS x FROM users) v "
        "ON u.uid = v.uid AND v.x = u.age",
        "SELECT COUNT(*) FROM users WHERE CAST(f AS UHUGEINT) = 1",
        "SELECT CAST(f AS UHUGEINT) AS k, COUNT(*) FROM users GROUP BY k",
        "SELECT SUM(x) FROM (SELECT CAST(uid AS UHUGEINT) AS x FROM users)",
    ],
)
def test_a_type_that_is_compared_as_doubles_is_refused(pair: Pair, sql: str) -> None:
    """UHUGEINT against a signed integer: 40 keys were equal to one, and each counted as unique."""
    for session in pair:
        with pytest.raises(dpsql.SQLError):
            session.query(sql, epsilon=1, delta=1e-6, max_rows=1, max_groups=1)


def test_public_values_of_that_type_can_still_be_shown(pair: Pair, plain: Plain) -> None:
    check(
        pair[1], plain, "SELECT CAST(sku AS UHUGEINT) AS k, (SELECT COUNT(*) FROM users) AS n FROM skus WHERE sku < 1"
    )


def test_what_public_rows_make_of_that_type_is_unique_in_its_own(pair: Pair) -> None:
    keys = f"(SELECT CAST({WIDE} AS UHUGEINT) + sku AS k FROM skus)"
    assert share(pair, f"SELECT COUNT(*) FROM {ONE_OF_MANY} JOIN {keys} g ON x = k", max_rows=1) <= 1
