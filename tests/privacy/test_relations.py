"""Neighbours over joins, unions, subqueries and windows: one person moves the integers by no more than is claimed.

All rows of one person are taken out of every table at once, those that lead to it through a link, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from support import cursor_of

import dpsql
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.ownership import key_promise, rows_promise
from dpsql.answer.finish import publish
from dpsql.backends.duckdb.run import execute
from dpsql.release import release

USERS = pa.schema([("uid", pa.int64()), ("city", pa.string()), ("age", pa.int32())])
ORDERS = pa.schema(
    [("oid", pa.int64()), ("uid", pa.int64()), ("day", pa.int32()), ("amount", pa.float64()), ("kind", pa.string())]
)
ITEMS = pa.schema([("oid", pa.int64()), ("sku", pa.int64()), ("qty", pa.int32())])
ROWS = pa.schema([("x", pa.int64()), ("s", pa.int32())])
TAGS = pa.table({"sku": [i % 10 for i in range(30)], "tag": [f"t{i % 3}" for i in range(30)]})
SKUS = pa.table({"sku": list(range(10)), "name": [f"s{i % 4}" for i in range(10)]})
Row = tuple[Any, ...]
Data = Mapping[str, Sequence[Row]]

POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1e9, "delta": 1e-5},
    "tables": {
        "users": {
            "unit": "uid",
            "rows_per_unit": 1,
            "columns": {"city": {"values": ["a", "b"]}, "age": {"min": 0, "max": 120}},
        },
        "orders": {
            "unit": "uid",
            "key": "oid",
            "columns": {
                "day": {"min": 0, "max": 30},
                "amount": {"min": 0, "max": 100},
                "kind": {"values": ["x", "y"]},
                "oid": {"min": 0, "max": 10**6},
            },
        },
        "items": {
            "unit": {"through": "orders", "on": {"oid": "oid"}},
            "columns": {"sku": {"references": "skus.sku"}, "qty": {"min": 0, "max": 10}},
        },
        "rows": {"unit": "row", "columns": {"x": {"min": 0, "max": 9}, "s": {"min": 0, "max": 9}}},
        "tags": {"public": True},
        "skus": {"public": True},
    },
}


def tables(data: Data) -> dict[str, pa.Table]:
    made = {"tags": TAGS, "skus": SKUS}
    for name, schema in {"users": USERS, "orders": ORDERS, "items": ITEMS, "rows": ROWS}.items():
        rows = data.get(name, ())
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        made[name] = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    return made


def opened(data: Data, verified: bool, **privacy: Any) -> dpsql.Session:
    policy = dpsql.Policy.from_dict({**POLICY, "privacy": privacy})
    session = dpsql.connect(policy, sources=tables(data), ledger=":memory:")
    engine = session._engine
    if verified:
        versions, known = engine.versions(), engine.policy.tables
        engine.ledger.record_promise("users", str(rows_promise(known["users"])), versions["users"], True)
        engine.ledger.record_promise("orders", key_promise(known["orders"]), versions["orders"], True)
    return session


Cells = dict[tuple[Any, ...], list[int]]


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours are compared under the same secret: it is drawn for each query, and not by the data."""
    monkeypatch.setattr("dpsql.run.secrets.randbits", lambda bits: 0x9E3779B97F4A7C15)


SHARED: list[dpsql.Session] = []  # all that are to be closed


@cache
def shared(verified: bool, privacy: tuple[tuple[str, Any], ...]) -> dpsql.Session:
    """A session over empty tables: nothing in a quote may depend on rows."""
    SHARED.append(opened({}, verified, **dict(privacy)))
    return SHARED[-1]


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    shared.cache_clear()
    while SHARED:
        SHARED.pop().close()


def measured(data: Data, sql: str, verified: bool, constants: list[Noisy], **options: Any) -> list[tuple[Any, Cells]]:
    """Each measurement with its exact integers by key; later steps take the same noisy constants on both sides."""
    privacy = tuple((k, options.pop(k)) for k in ("min_units", "adjacency") if k in options)
    session = shared(verified, privacy)
    engine = session._engine
    cursor = cursor_of(session)
    for name, table in tables(data).items():
        cursor.register(name, table)
    found = []
    quote = session.explain(sql, **{"epsilon": 1, "delta": 1e-6, **options})
    for i, step in enumerate(quote.steps):
        exact = execute(step, cursor, publish(step, constants[:i], engine.public))
        if len(constants) == i:
            constants.append(release(step, exact))
        cells = step.cells if exact.cells is None else exact.cells
        keys = list(zip(*(c.to_pylist() for c in cells.columns), strict=True)) if cells is not None else [()]
        for m in step.measurements:
            columns = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
            found.append((m, {k: [int(c[n]) for c in columns] for n, k in enumerate(keys)}))
    cursor.close()
    return found


def shares(with_: Data, without: Data, sql: str, *, verified: bool = True, **options: Any) -> list[Fraction]:
    """How far the person moves each measurement, as shares of the claimed ℓ1 and ℓ2²; the larger of the two."""
    constants: list[Noisy] = []
    a = measured(with_, sql, verified, constants, **dict(options))
    b = measured(without, sql, verified, constants, **dict(options))
    found = []
    for (m, left), (_, right) in zip(a, b, strict=True):
        width = len(next(iter([*left.values(), *right.values()]), []))
        zero = [0] * width
        moved = [
            x - y
            for key in left.keys() | right.keys()
            for x, y in zip(left.get(key, zero), right.get(key, zero), strict=True)
        ]
        l1, l2 = sum(map(abs, moved)), sum(v * v for v in moved)
        found.append(max(Fraction(l1) / m.sensitivity.l1, Fraction(l2) / m.sensitivity.l2_squared))
    return found


def without(data: Data, uid: int) -> Data:
    gone = {row[0] for row in data.get("orders", ()) if row[1] == uid}
    return {
        "users": [r for r in data.get("users", ()) if r[0] != uid],
        "orders": [r for r in data.get("orders", ()) if r[1] != uid],
        "items": [r for r in data.get("items", ()) if r[0] not in gone],
        "rows": data.get("rows", ()),
    }


def crowd() -> Data:
    """Thirty people; number 77 has many rows everywhere, and is the first and the last in every order."""
    users = [(u, "ab"[u % 2], 20 + u) for u in range(30)] + [(77, "a", 0)]
    orders = [(100 * u + i, u, (u + i) % 30, float(i), "xy"[i % 2]) for u in range(30) for i in range(u % 4)]
    orders += [(10_000 + i, 77, i % 31, 100.0, "xy"[i % 2]) for i in range(40)]
    items = [(o[0], (o[0] + j) % 10, 1 + j) for o in orders for j in range(3)]
    return {"users": users, "orders": orders, "items": items, "rows": [(i % 10, 9 * (i % 2)) for i in range(40)]}


JOINED = {
    "unit join": "SELECT city, COUNT(*), SUM(amount) FROM users JOIN orders USING (uid) GROUP BY city",
    "left join": "SELECT kind, COUNT(*) FROM users u LEFT JOIN orders o ON u.uid = o.uid AND day > 3 GROUP BY kind",
    "along links": "SELECT city, SUM(qty) FROM items JOIN orders USING (oid) JOIN users USING (uid) GROUP BY city",
    "self join": "SELECT COUNT(*) FROM orders a JOIN orders b ON a.uid = b.uid AND a.day < b.day",
    "fan-out": "SELECT tag, COUNT(*), SUM(qty) FROM items JOIN tags USING (sku) GROUP BY tag",
    "public key": "SELECT name, COUNT(*) FROM items JOIN skus USING (sku) GROUP BY name",
    "public filter": "SELECT name, COUNT(*) FROM items JOIN skus USING (sku) JOIN tags USING (sku) WHERE tag = 't1' "
    "GROUP BY name",
    "public combinations": "SELECT sku, name, COUNT(*), SUM(qty) FROM items JOIN skus USING (sku) WHERE sku > 2 GROUP "
    "BY sku, name",
    "public rows or none": "SELECT name, tag, COUNT(DISTINCT PRIVACY_UNIT()) FROM items i LEFT JOIN skus s ON i.sku = "
    "s.sku AND name = 's1' LEFT JOIN (SELECT DISTINCT sku, tag FROM tags) t ON s.sku = t.sku GROUP BY name, tag",
    "steps": "SELECT floor(amount / 30) * 30, COUNT(*), SUM(amount) FROM orders GROUP BY 1",
    "steps of two": "SELECT width_bucket(amount, 0, 100, 4), day // 7, COUNT(*) FROM orders WHERE day < 20 GROUP BY 1,"
    " 2",
    "offsets": "SELECT f // 7, (day - f) // 7, COUNT(*) FROM orders JOIN (SELECT uid, MIN(day) AS f FROM orders GROUP "
    "BY uid) USING (uid) WHERE day >= f GROUP BY 1, 2",
    "semi-join": "SELECT city, COUNT(*) FROM users WHERE uid IN (SELECT uid FROM orders WHERE day < 3) GROUP BY city",
    "anti-join": "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.uid = o.uid AND "
    "p.day < o.day)",
    "own keys behind a condition": "SELECT city, COUNT(DISTINCT o.uid) FROM orders o LEFT JOIN users u ON o.uid = "
    "u.uid AND o.day > 3 GROUP BY city",
    "union of single rows": "SELECT COUNT(*), SUM(a) FROM (SELECT age AS a FROM users UNION ALL SELECT age FROM users)",
    "a link by its unit": "SELECT city, SUM(qty) FROM users JOIN (SELECT PRIVACY_UNIT() AS u, qty FROM items) i ON "
    "users.uid = i.u GROUP BY city",
    "semi-join along a link": "SELECT kind, COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.oid = "
    "o.oid AND qty > 2) GROUP BY kind",
    "union": "SELECT COUNT(*) FROM (SELECT uid, day FROM orders UNION ALL SELECT uid, age FROM users)",
    "set union": "SELECT COUNT(*) FROM (SELECT uid, day FROM orders UNION SELECT uid, age FROM users)",
    "union of values": "SELECT COUNT(*) FROM (SELECT day FROM orders UNION SELECT age FROM users)",
    "list of values": "SELECT AVG(day) FROM (SELECT DISTINCT day FROM orders EXCEPT SELECT age FROM users)",
    "except": "SELECT COUNT(*) FROM (SELECT uid, day FROM orders EXCEPT SELECT uid, age FROM users)",
    "per unit": "SELECT SUM(n), COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM orders GROUP BY uid)",
    "per unit and key": "SELECT kind, SUM(m) FROM (SELECT uid, kind, MAX(amount) AS m FROM orders GROUP BY uid, kind) "
    "GROUP BY kind",
    "per key": "SELECT COUNT(*) FROM orders WHERE oid IN (SELECT oid FROM items GROUP BY oid HAVING SUM(qty) > 4)",
    "window": "SELECT SUM(r) FROM (SELECT RANK() OVER (PARTITION BY uid ORDER BY day) AS r FROM orders)",
    "first rows": "SELECT SUM(amount) FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY "
    "day) <= 2)",
    "own value": "SELECT SUM((SELECT COUNT(*) FROM orders o WHERE o.uid = u.uid)) FROM users u",
    "noisy constant": "SELECT COUNT(*) FROM orders WHERE amount >= (SELECT AVG(amount) FROM orders)",
    "private key": "SELECT oid // 10, COUNT(*) FROM orders JOIN users USING (uid) GROUP BY 1",
    "units": "SELECT city, kind, COUNT(DISTINCT orders.uid) FROM users JOIN orders USING (uid) GROUP BY city, kind",
}


@pytest.mark.sample(18)
@pytest.mark.parametrize("replace", [False, True], ids=["add_remove", "replace_one"])
@pytest.mark.parametrize("limits", [{"max_rows": 1, "max_groups": 1}, {"max_rows": 7, "max_groups": 2}], ids=str)
@pytest.mark.parametrize("name", JOINED)
def test_one_person_moves_nothing_by_more_than_is_claimed(name: str, limits: dict[str, int], replace: bool) -> None:
    data = crowd()
    adjacency = "replace_one" if replace else "add_remove"
    options: dict[str, Any] = {"adjacency": adjacency, **limits}
    found = shares(data, without(data, 77), JOINED[name], **options)
    assert 0 < max(found) <= 1


# ---------------------------------------------------------------- what a review broke, and must not break again


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("oid", [7, None])
def test_a_window_by_a_key_that_many_share_mixes_nobody(verified: bool, oid: int | None) -> None:
    others = [(oid, u, 3, 1.0, "x") for u in range(40)]
    sql = "SELECT COUNT(*) FROM (SELECT MIN(day) OVER (PARTITION BY oid) AS n FROM orders) WHERE n = 0"
    data = {"orders": [*others, (oid, 77, 0, 1.0, "x")]}
    assert max(shares(data, {"orders": others}, sql, verified=verified, max_rows=1)) == 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (
            "SELECT SUM(y) FROM (SELECT RANK(ORDER BY CAST(kind AS INTEGER)) OVER (PARTITION BY uid) AS y FROM orders)",
            "arity",
        ),
        ("SELECT SUM(y) FROM (SELECT ROW_NUMBER(kind) OVER (PARTITION BY uid) AS y FROM orders)", "arity"),
        (
            "SELECT SUM(y) FROM (SELECT SUM(day) OVER (PARTITION BY uid ORDER BY day ROWS BETWEEN 99999999999999999999 "
            "PRECEDING AND CURRENT ROW) AS y FROM orders)",
            "window-frame",
        ),
        ("SELECT SUM(y) FROM (SELECT LAG(day, 99999999999) OVER (PARTITION BY uid) AS y FROM orders)", "window-offset"),
        ("SELECT COUNT(*) FROM rows GROUP BY PRIVACY_UNIT()", "privacy-unit"),
        ("SELECT DISTINCT PRIVACY_UNIT() FROM rows", "privacy-unit"),
    ],
)
def test_what_could_fail_on_a_row_is_refused(sql: str, code: str) -> None:
    with opened({}, True) as session, pytest.raises(dpsql.Error) as refused:
        session.query(sql, epsilon=1, max_rows=5)
    assert refused.value.code in (code, "syntax")


def test_constant_keys_of_a_unit_are_no_positions() -> None:
    data = crowd()
    for sql in (
        "SELECT COUNT(*) FROM (SELECT DISTINCT uid, 7 AS c FROM orders)",
        "SELECT COUNT(*) FROM (SELECT uid, 7 AS c FROM orders INTERSECT SELECT uid, 7 FROM users)",
    ):
        assert max(shares(data, without(data, 77), sql, max_rows=3)) <= 1


def test_rows_that_are_only_numbered_keep_their_choices_when_another_row_goes() -> None:
    """Their number changes with every row before them, so the cap may not depend on it."""
    rows = [(i % 10, 9 * (i % 2)) for i in range(40)]
    sql = "SELECT tag, SUM(s) FROM rows JOIN tags ON rows.x = tags.sku GROUP BY tag"
    for gone in (0, 1, 20):
        fewer = {"rows": rows[:gone] + rows[gone + 1 :]}
        found = shares({"rows": rows}, fewer, sql, min_units=2, max_rows=1, max_groups=1)
        assert max(found) <= 1


def test_a_column_with_the_name_of_a_window_is_not_taken_for_it() -> None:
    table = pa.table({"uid": [1, 1, 2, 3], "window0": [0, 1, 0, 5], "window": [0, 1, 0, 5]})
    policy = {
        "budget": {"epsilon": 10, "delta": 0},
        "tables": {"t": {"unit": "uid", "columns": {"window": {"min": 0, "max": 9}}}},
    }
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:") as session:
        for column in ("window0", '"window"'):
            quote = session.explain(
                f"SELECT COUNT(*) FROM (SELECT uid, {column}, COUNT(*) AS n FROM t GROUP BY uid, {column} "
                "QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY COUNT(*)) <= 1)",
                epsilon=1,
            )
            exact = execute(quote.steps[0], cursor_of(session))
            assert [int(v) for v in next(iter(exact.tallies.values()))] == [3]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM users u JOIN skus s ON s.sku = s.sku",
        "SELECT COUNT(*) FROM users u JOIN (SELECT uid, day FROM orders GROUP BY uid, day) o ON u.uid = o.uid AND "
        "o.day = o.day",
        "SELECT COUNT(*) FROM users, (SELECT SUM(x) IGNORE NULLS OVER () AS m FROM (SELECT 1 AS x FROM skus))",
        "SELECT COUNT(*) FROM users, (SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY sku) OVER () AS m FROM skus)",
    ],
)
def test_a_join_that_repeats_rows_is_never_taken_for_one_that_does_not(sql: str) -> None:
    data = crowd()
    with opened(data, True) as session:
        assert session.explain(sql, epsilon=1).steps[0].checked.bounding.chosen == {"max_rows"}
    assert max(shares(data, without(data, 77), sql, max_rows=2)) <= 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM orders WHERE day > (SELECT sku FROM skus)", "public-data"),
        ("SELECT COUNT(*) FROM orders JOIN (SELECT CAST(name AS INTEGER) AS c FROM skus) q ON day = c", "public-data"),
        ("SELECT COUNT(*) FROM orders WHERE day IN (SELECT CAST(name AS INTEGER) FROM skus)", "public-data"),
        ("SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT MAX(day) FROM orders o WHERE o.uid = u.uid)", "correlated"),
        (
            "SELECT COUNT(*) FROM (SELECT uid, day FROM orders INTERSECT ALL SELECT day, uid FROM orders)",
            "set-operation-private",
        ),
        ("SELECT COUNT(*) FROM (SELECT oid FROM orders EXCEPT ALL SELECT uid FROM users)", "set-operation-private"),
    ],
)
def test_what_means_something_else_or_fails_on_public_data_is_refused(sql: str, code: str) -> None:
    with opened({}, True) as session, pytest.raises(dpsql.Error) as refused:
        session.query(sql, epsilon=1, max_rows=5)
    assert refused.value.code == code
    assert refused.value.span is not None


def test_a_noisy_hugeint_is_one_in_later_steps_too() -> None:
    """As a DECIMAL it would fail on a row whose value is a HUGEINT, or not at all without that row."""
    data = crowd()
    for sql in (
        "SELECT COUNT(*) FROM orders WHERE (SELECT SUM(day) FROM orders) % oid = 0",
        "SELECT COUNT(*) FROM orders WHERE ABS((SELECT SUM(day) FROM orders)) > oid",
    ):
        assert max(shares(data, without(data, 77), sql, max_rows=3)) <= 1


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("rn <= 3", 3),
        ("rn < 3", 2),
        ("3 >= rn", 3),
        ("rn = 2", 2),
        ("rn BETWEEN 1 AND 2", 2),
        ("rn <= CAST('nan' AS DOUBLE) % 3", None),
        ("rn <= 0 * (1e308 * 10)", None),
        ("rn <= 1.99999999999999999999", None),
        ("rn <= CAST(1.999999999999 AS FLOAT)", None),
        ("rn <= 20.0 / 1.0000000000000000001", None),
        ("rn <= 3 OR day = 1", None),
        ("rn <= day", None),
    ],
)
@pytest.mark.sample(3)
def test_only_a_number_as_it_stands_bounds_the_rows_that_are_kept(condition: str, rows: int | None) -> None:
    sql = (
        "SELECT COUNT(*) FROM (SELECT day, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day) AS rn FROM orders) "
        f"WHERE {condition}"
    )
    with opened({}, True) as session:
        quote = session.explain(sql, epsilon=1, max_rows=50)
        assert quote.steps[0].checked.owner.rows == rows
        assert quote.steps[0].checked.bounding.mass == (None if rows else 50)


def test_ties_are_broken_by_all_that_is_looked_at_whatever_its_type() -> None:
    rows = [(u, i % 2, None if i % 3 else b"x") for u in range(50) for i in range(20)]
    uid, v, b = zip(*rows, strict=True)
    table = pa.table({"uid": pa.array(uid), "v": pa.array([0] * len(v)), "b": pa.array(b, pa.binary())})
    policy = {"budget": {"epsilon": 1e6, "delta": 0}, "tables": {"t": {"unit": "uid"}}}
    sql = (
        "SELECT COUNT(*) FROM (SELECT b IS NULL AS e, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY v) AS rn FROM t) "
        "WHERE rn = 1 AND e"
    )
    found = set()
    for order in (1, -1):
        reversed_rows = table.take(pa.array(list(range(len(rows)))[::order]))
        with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": reversed_rows}, ledger=":memory:") as session:
            found.add(session.query(sql, epsilon=1e5).rows[0][0])
    assert len(found) == 1


@pytest.mark.parametrize("name", ['"privacy unit"', '"privacy unit_2"'])
def test_a_public_column_is_never_taken_for_a_rows_number(name: str) -> None:
    rows = [(i % 10, 9 * (i % 2)) for i in range(40)]
    sql = (
        f"SELECT {name}, COUNT(*) FROM rows JOIN (SELECT sku, sku * 1 AS {name} FROM tags) t ON rows.x = t.sku "
        "WHERE s = 9 GROUP BY 1"
    )
    assert max(shares({"rows": rows}, {"rows": rows[1:]}, sql, max_rows=3, max_groups=3)) <= 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c, COUNT(*) FROM (SELECT uid, MAX(secret) AS c FROM t GROUP BY uid) GROUP BY c",
        "SELECT c, COUNT(*) FROM (SELECT secret AS c FROM t UNION ALL SELECT secret FROM t) GROUP BY c",
        "SELECT c, COUNT(*) FROM (SELECT FIRST_VALUE(secret) OVER (PARTITION BY uid) AS c FROM t) GROUP BY c",
        "SELECT c, COUNT(*) FROM (SELECT uid, secret || '' AS c FROM t GROUP BY uid, secret || '') GROUP BY c",
        "SELECT v, COUNT(*) FROM t JOIN (VALUES ('a'), ('b')) AS q(v) ON t.secret = q.v GROUP BY v",
        "SELECT c, COUNT(*) FROM (SELECT secret IN (SELECT 'a') AS c FROM t) GROUP BY c",
    ],
)
def test_a_column_that_may_not_be_a_key_is_none_under_another_name_either(sql: str) -> None:
    table = pa.table({"uid": [1, 2], "secret": ["a", "b"], "x": [1, 2]})
    columns = {"secret": {"values": ["a", "b"], "private": True}}
    policy = {"budget": {"epsilon": 10, "delta": 1e-6}, "tables": {"t": {"unit": "uid", "columns": columns}}}
    loaded = dpsql.Policy.from_dict(policy)
    with (
        dpsql.connect(loaded, sources={"t": table}, ledger=":memory:") as session,
        pytest.raises(dpsql.PrivacyError) as refused,
    ):
        session.explain(sql, epsilon=1, max_rows=5, max_groups=2)
    assert refused.value.code == "private-column"


def test_a_unit_column_called_key_is_not_taken_for_an_expression() -> None:
    table = pa.table({"key": [1, 1, 2], "x": [1, 2, 3], "b": [1, 2, 3]})
    policy = {"budget": {"epsilon": 1e9, "delta": 0}, "tables": {"t": {"unit": "key"}}}
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:") as session:
        for sql in (
            "SELECT COUNT(*) FROM (SELECT key, x + 1 AS g, COUNT(*) AS n FROM t GROUP BY key, x + 1)",
            "SELECT COUNT(*) FROM t o WHERE EXISTS (SELECT 1 FROM t z WHERE z.key = o.key AND z.x <= o.b)",
        ):
            assert session.query(sql, epsilon=1e7, max_rows=5).rows == [(3,)]


def test_a_row_that_a_join_repeats_is_one_unit() -> None:
    rows = [(i % 10, 1) for i in range(100)]
    with opened({"rows": rows}, True) as session:
        sql = "SELECT COUNT(DISTINCT PRIVACY_UNIT()) FROM rows JOIN tags ON rows.x = tags.sku"
        assert session.query(sql, epsilon=1e6).rows == [(100,)]


@pytest.mark.parametrize(
    "source", ["(SELECT a.sku FROM tags a, tags b, tags c) q", "tags a, tags b, (SELECT sku FROM tags) c, tags q"]
)
def test_a_join_that_makes_a_million_rows_of_one_is_refused(source: str) -> None:
    sql = f"SELECT COUNT(*) FROM rows, {source} WHERE q.sku > rows.x"
    with opened({"rows": [(1, 1)]}, True) as session, pytest.raises(dpsql.PrivacyError) as refused:
        session.query(sql, epsilon=1, max_rows=5)
    assert refused.value.code == "too-large"


def test_a_value_with_a_row_for_each_group_is_refused() -> None:
    sql = "SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders GROUP BY kind)"
    with opened({}, True) as session, pytest.raises(dpsql.PrivacyError) as refused:
        session.query(sql, epsilon=1, max_rows=5)
    assert refused.value.code == "several-rows"


UNMATCHED = "users u LEFT JOIN orders o ON u.uid = o.uid"


@pytest.mark.parametrize(
    "rows",
    [
        f"SELECT o.uid, COUNT(*) AS n FROM {UNMATCHED} GROUP BY o.uid",
        f"SELECT o.uid, u.city, COUNT(*) AS n FROM {UNMATCHED} GROUP BY o.uid, u.city",
        f"SELECT DISTINCT o.uid, 1 AS n FROM {UNMATCHED}",
        f"SELECT u.uid, o.uid, MIN(u.age) AS n FROM {UNMATCHED} GROUP BY u.uid, o.uid",
    ],
)
def test_a_thousand_people_without_a_match_are_not_one_group(rows: str) -> None:
    """Attack 39: the other side's unit is NULL for all of them, and one person more must not change what each has."""
    others = [(u, "ab"[u % 2], 20) for u in range(1000)]
    found = shares(
        {"users": [*others, (5000, "a", 0)]},
        {"users": others},
        f"SELECT COUNT(*) FROM ({rows}) WHERE n < 2000",
        max_rows=1,
        max_groups=1,
    )
    assert max(found) <= 1  # 0: the match is nobody's, and a list counts nobody twice


def test_a_window_by_the_unit_of_rows_without_a_match_is_refused() -> None:
    """Attack 39: its partition would be everybody without a match."""
    sql = f"SELECT COUNT(*) FROM (SELECT MIN(u.age) OVER (PARTITION BY o.uid) AS n FROM {UNMATCHED}) WHERE n < 20"
    with opened({}, True) as session, pytest.raises(dpsql.PrivacyError) as refused:
        session.query(sql, epsilon=1, max_rows=5)
    assert refused.value.code == "window-private"
