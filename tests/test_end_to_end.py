"""At ε = 10⁶ an answer is plain DuckDB's: integers exactly, floats as close as the noise and the grid allow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support import Connect, scale_of

import dpsql
from dpsql.analyze.ownership import nullable_promise, rows_promise
from dpsql.quote.model import Quote

ROWS = 3000
EPSILON = 10**6
ROWS_PER_UNIT = 3

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("age", pa.int32()),
        ("big", pa.int64()),
        ("u1", pa.uint8()),
        ("u2", pa.uint16()),
        ("u4", pa.uint32()),
        ("u8", pa.uint64()),
        ("price", pa.decimal128(9, 2)),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("k", pa.string()),
        ("code", pa.string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("ok", pa.bool_()),
        ("note", pa.string()),
    ]
)
COLUMNS: dict[str, Any] = {
    "tiny": {"min": -3, "max": 3},
    "small": {"min": -50, "max": 50},
    "age": {"min": 0, "max": 99},
    "big": {"min": 0, "max": 500},
    "u1": {"min": 0, "max": 5},
    "u2": {"min": 0, "max": 300},
    "u4": {"min": 0, "max": 20},
    "u8": {"min": 0, "max": 9},
    "price": {"min": 0, "max": Decimal("49.99")},
    "x": {"min": -2, "max": 2},
    "f": {"min": 0, "max": 10},
    "k": {"values": ["a", "b", "c"]},
    "code": {"references": "codes.code"},
    "kind": {"values": ["blue", "green", "red"]},
    "day": {"min": date(2024, 1, 1), "max": date(2024, 2, 9)},
    "ts": {"min": datetime(2024, 1, 1, 0, 30), "max": datetime(2024, 1, 3, 12, 15)},
}
CODES = pa.table(
    {"code": ["x1", "x2", "x3", "x4"], "label": ["one", "two", "three", "four"], "weight": [1, 2, 3, 4]},
)


def mixed() -> pa.Table:
    """Mixed types, NULLs in every column but the id, and nothing outside of the policy's bounds."""
    r = random.Random(20240229)

    def some(value: Any) -> Any:
        return None if r.random() < 0.06 else value

    rows = []
    for i in range(ROWS):
        rows.append(
            (
                i // 2,
                some(r.randint(-3, 3)),
                some(r.randint(-50, 50)),
                some(r.randint(0, 99)),
                some(r.randint(0, 500)),
                some(r.randint(0, 5)),
                some(r.randint(0, 300)),
                some(r.randint(0, 20)),
                some(r.randint(0, 9)),
                some(Decimal(r.randint(0, 4999)).scaleb(-2)),
                some(r.uniform(-2, 2)),
                some(r.uniform(0, 10)),
                some(r.choice("abc")),
                some(r.choice(["x1", "x2", "x3", "x4"])),
                some(r.choice(["blue", "green", "red"])),
                some(date(2024, 1, 1) + timedelta(days=r.randint(0, 39))),
                some(datetime(2024, 1, 1, 0, 30) + timedelta(minutes=r.randint(0, 3585))),
                some(r.random() < 0.3),
                some(r.choice(["Ann Lee", "bob", "Zoë", "", "a%b", "it's"])),
            )
        )
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], schema=SCHEMA)


TABLES = {"t": mixed(), "codes": CODES}


@contextmanager
def opened(unit: dict[str, Any]) -> Iterator[dpsql.Session]:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**12, "delta": 0},
            "tables": {"t": {**unit, "columns": COLUMNS}, "codes": {"public": True}},
        }
    )
    with dpsql.connect(policy, sources=TABLES, ledger=":memory:") as session:
        if unit["unit"] != "row":
            engine = session._engine
            promise = str(rows_promise(policy.tables["t"]))
            engine.ledger.record_promise("t", promise, engine.versions()["t"], True)
        yield session


@pytest.fixture(scope="module")
def by_row() -> Iterator[dpsql.Session]:
    with opened({"unit": "row"}) as session:
        yield session


@pytest.fixture(
    scope="module", params=[{"unit": "row"}, {"unit": "id", "rows_per_unit": ROWS_PER_UNIT}], ids=["row", "unit"]
)
def session(request: pytest.FixtureRequest) -> Iterator[dpsql.Session]:
    """Each construct is tried with rows as units, and with a unit column whose promise is verified."""
    with opened(request.param) as session:
        yield session


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in TABLES.items():
            connection.register(name, table)
        yield connection


# ---------------------------------------------------------------- how answers are compared


def tolerance(quote: Quote) -> float:
    """60 noise scales (missed once in e⁶⁰ draws) and half a grid step for each row, of the widest measurement."""
    widest = 1e-9  # the float sums of DuckDB itself
    for step in quote.steps:
        for m in step.measurements:
            value = getattr(m.statistic, "value", None)
            grid = float(value.grid.step) if value is not None else 1.0
            exact = value is None or value.grid.source != "float"
            noise = 60 * float(scale_of(m)) * grid if float(scale_of(m)) > 0.02 else 0.0
            widest = max(widest, noise + (0 if exact else ROWS * grid))
    return widest


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Dictionaries are decoded, HUGEINT is BIGINT where it fits."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if kind == pa.decimal128(38, 0):
        return pa.int64()
    return kind


def close(mine: Any, theirs: Any, allowed: float) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(theirs, float):
        return bool(abs(mine - theirs) <= allowed * max(1.0, abs(theirs)))
    return bool(mine == theirs) and type(mine) is type(theirs)


def by_keys(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Floats last: they differ a little."""
    solid = [(v is None, str(type(v)), v if v is not None else 0) for v in row if not isinstance(v, float)]
    return (*solid, *[(False, "", round(v, 3)) for v in row if isinstance(v, float)])


def check(
    session: dpsql.Session,
    plain: duckdb.DuckDBPyConnection,
    sql: str,
    *,
    ordered: bool,
    epsilon: int = EPSILON,
    expected: str | None = None,
) -> None:
    theirs = plain.sql(expected or sql).to_arrow_table()
    quote = session.explain(sql, epsilon=epsilon)
    answer = session.query(sql, epsilon=epsilon)
    mine = answer.to_arrow()
    assert mine.column_names == theirs.column_names
    assert mine.schema.types == [plain_type(t) for t in theirs.schema.types]
    wanted = list(
        zip(
            *(
                [int(v) if v is not None and f.type == pa.decimal128(38, 0) else v for v in c.to_pylist()]
                for c, f in zip(theirs.columns, theirs.schema, strict=True)
            ),
            strict=True,
        )
    )
    found = answer.rows
    if not ordered:
        wanted, found = sorted(wanted, key=by_keys), sorted(found, key=by_keys)
    assert len(found) == len(wanted)
    allowed = tolerance(quote)
    assert allowed < 0.1  # or the comparison would have no power
    for row, other in zip(found, wanted, strict=True):
        assert all(close(a, b, allowed) for a, b in zip(row, other, strict=True)), (row, other, allowed)


# ---------------------------------------------------------------- constructs

WHERE = {
    "comparison": "age > 30",
    "between": "age BETWEEN 20 AND 40",
    "not between": "age NOT BETWEEN 20 AND 40",
    "symmetric words": "30 < age AND 60 >= age",
    "list": "k IN ('a', 'c')",
    "no list": "k NOT IN ('a', 'c')",
    "list of numbers": "tiny IN (1, 2, 3)",
    "null": "age IS NULL",
    "not null": "age IS NOT NULL",
    "boolean": "ok",
    "not boolean": "NOT ok",
    "is true": "ok IS TRUE",
    "is not true": "ok IS NOT TRUE",
    "is distinct": "k IS DISTINCT FROM 'a'",
    "is not distinct": "k IS NOT DISTINCT FROM code",
    "like": "note LIKE 'A%'",
    "ilike": "note ILIKE 'a%'",
    "not like": "note NOT LIKE '%b%'",
    "quote in text": "note = 'it''s'",
    "or": "age < 10 OR small > 40 OR k = 'b'",
    "precedence": "age < 10 OR small > 40 AND k = 'b'",
    "parentheses": "(age < 10 OR small > 40) AND k = 'b'",
    "not": "NOT (age < 10 OR k = 'b')",
    "dates": "day >= DATE '2024-01-15' AND day < '2024-02-01'",
    "timestamps": "ts BETWEEN '2024-01-02' AND TIMESTAMP '2024-01-02 12:00:00'",
    "decimals": "price > 10.5 AND price <= 40",
    "floats": "x > 0.25 AND f < 7.5",
    "arithmetic": "age + small * 2 > 50 - tiny",
    "functions": "LENGTH(note) > 3 AND UPPER(k) = 'A'",
    "case": "CASE WHEN age > 50 THEN ok ELSE small > 0 END",
    "coalesce": "COALESCE(age, 0) = 0",
    "cast": "age::VARCHAR = '42'",
    "enum": "kind = 'red'",
    "enum list": "kind IN ('red', 'blue')",
    "modulo": "u2 % 7 = 3",
    "true": "TRUE",
    "false": "FALSE",
    "null condition": "NULL::BOOLEAN",
}

UNORDERED = {
    "count": "SELECT COUNT(*) FROM t",
    "count of no rows": "SELECT COUNT(*), COUNT(age) FROM t WHERE age > 1000",
    "counts": "SELECT COUNT(*), COUNT(age), COUNT(k), COUNT(x), COUNT(day), COUNT(ok), COUNT(1) FROM t",
    "count without a star": "SELECT COUNT() FROM t",
    "sums of integers": "SELECT SUM(tiny), SUM(small), SUM(age), SUM(big) FROM t",
    "sums of unsigned integers": "SELECT SUM(u1), SUM(u2), SUM(u4), SUM(u8) FROM t",
    "products of unsigned integers": "SELECT SUM(u8 * u8), SUM(u1 * u2), SUM(u1 * u4 * u8) FROM t",
    "sum of decimals": "SELECT SUM(price) FROM t",
    "sums of floats": "SELECT SUM(x), SUM(f) FROM t",
    "sum of booleans": "SELECT SUM(ok::INT) FROM t",
    "averages": "SELECT AVG(tiny), AVG(small), AVG(age), AVG(price), AVG(x), AVG(f) FROM t",
    "count, sum and average of one column": "SELECT COUNT(*), COUNT(age), SUM(age), AVG(age) FROM t",
    "names as given": 'SELECT COUNT(*) AS "How Many", AVG(age) AS MeanAge, COUNT(*) n FROM t',
    "names as DuckDB gives them": "SELECT k, count(*), Sum(age), avg(age + 1), COUNT(*) + 1 FROM t GROUP BY k",
    "case of a column's name": "SELECT K, COUNT(*) FROM t GROUP BY k",
    "twice the same name": "SELECT COUNT(*), COUNT(*), COUNT(*) AS a, SUM(age) AS a FROM t",
    "case of names": "SELECT K, count(AGE) FROM T P GROUP BY p.k",
    "quoted names": 'SELECT "K", COUNT("age") FROM "t" GROUP BY "k"',
    "qualified names": "SELECT t.k, COUNT(t.age) FROM t GROUP BY t.k",
    "filter": "SELECT COUNT(*) FILTER (WHERE ok), SUM(age) FILTER (WHERE k = 'a'), AVG(x) FILTER (age > 20) FROM t",
    "filter by key": "SELECT k, COUNT(*) FILTER (WHERE ok), COUNT(*) FROM t GROUP BY k",
    "expression in sum": "SELECT SUM(age * 2 - small), SUM(price * (1 - x)), AVG(ABS(small)) FROM t",
    "case in sum": "SELECT SUM(CASE WHEN ok THEN age ELSE 0 END), AVG(CASE WHEN k = 'a' THEN 1 ELSE 0 END) FROM t",
    "clipped in the query": "SELECT SUM(LEAST(GREATEST(age, 10), 20)) FROM t WHERE age IS NOT NULL",
    "group by text": "SELECT k, COUNT(*), SUM(age), AVG(x) FROM t GROUP BY k",
    "group by reference": "SELECT code, COUNT(*) FROM t GROUP BY code",
    "group by enum": "SELECT kind, COUNT(*), SUM(age) FROM t GROUP BY kind",
    "group by boolean": "SELECT ok, COUNT(*) FROM t GROUP BY ok",
    "group by integers": "SELECT tiny, COUNT(*) FROM t GROUP BY tiny",
    "group by unsigned integers": "SELECT u1, u8, COUNT(*) FROM t GROUP BY u1, u8",
    "group by dates": "SELECT day, COUNT(*), AVG(age) FROM t GROUP BY day",
    "group by several": "SELECT k, ok, kind, COUNT(*), COUNT(small) FROM t GROUP BY k, ok, kind",
    "group by all": "SELECT k, ok, COUNT(*) FROM t GROUP BY ALL",
    "group by ordinals": "SELECT k, ok, COUNT(*) FROM t GROUP BY 1, 2",
    "group by alias": "SELECT UPPER(k) AS letter, COUNT(*) FROM t GROUP BY letter",
    "group by twice the same": "SELECT k, COUNT(*) FROM t GROUP BY k, K, 1",
    "key that is not selected": "SELECT COUNT(*) FROM t GROUP BY k",
    "key inside an expression": "SELECT UPPER(k) || '!', COUNT(*) FROM t GROUP BY k",
    "key selected twice": "SELECT k, k AS again, COUNT(*) FROM t GROUP BY k",
    "keys alone": "SELECT k, ok FROM t GROUP BY k, ok",
    "distinct rows are keys": "SELECT DISTINCT k, ok FROM t",
    "computed key": "SELECT age // 10 AS decade, COUNT(*) FROM t GROUP BY decade",
    "computed key from two columns": "SELECT tiny + u1 AS s, COUNT(*) FROM t GROUP BY s",
    "comparison as a key": "SELECT age > 50 AS old, COUNT(*) FROM t GROUP BY old",
    "case as a key": "SELECT CASE WHEN age > 50 THEN 'old' WHEN age > 20 THEN 'mid' ELSE 'low' END AS c, COUNT(*) "
    "FROM t GROUP BY c",
    "case without else as a key": "SELECT CASE WHEN small > 0 THEN 1 WHEN small < 0 THEN -1 END AS c, COUNT(*) "
    "FROM t GROUP BY c",
    "coalesced key": "SELECT COALESCE(k, 'none') AS c, COUNT(*) FROM t GROUP BY c",
    "key under where": "SELECT k, COUNT(*) FROM t WHERE k <> 'b' GROUP BY k",
    "integer key under where": "SELECT age, COUNT(*) FROM t WHERE age BETWEEN 30 AND 35 GROUP BY age",
    "date key under where": "SELECT day, COUNT(*) FROM t WHERE day < '2024-01-11' GROUP BY day",
    "month": "SELECT MONTH(day) AS m, COUNT(*) FROM t GROUP BY m",
    "extract": "SELECT EXTRACT(dow FROM day) AS d, COUNT(*) FROM t GROUP BY d",
    "date part": "SELECT DATE_PART('day', day) AS d, COUNT(*) FROM t GROUP BY d",
    "hour": "SELECT HOUR(ts) AS h, COUNT(*) FROM t GROUP BY h",
    "year": "SELECT YEAR(ts) AS y, COUNT(*) FROM t GROUP BY y",
    "truncated to months": "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM t GROUP BY m",
    "truncated to days": "SELECT DATE_TRUNC('day', ts) AS d, COUNT(*) FROM t GROUP BY d",
    "truncated to hours": "SELECT DATE_TRUNC('hour', ts) AS h, COUNT(*) FROM t GROUP BY h",
    "timestamp to date": "SELECT ts::DATE AS d, COUNT(*) FROM t GROUP BY d",
    "rollup": "SELECT k, ok, COUNT(*), SUM(age), AVG(x) FROM t GROUP BY ROLLUP (k, ok)",
    "cube": "SELECT k, ok, kind, COUNT(*) FROM t GROUP BY CUBE (k, ok, kind)",
    "grouping sets": "SELECT k, ok, SUM(age) FROM t GROUP BY GROUPING SETS ((k, ok), k, (ok), ())",
    "a null key and a total are two rows": "SELECT k, GROUPING(k) AS g, COUNT(*) FROM t GROUP BY ROLLUP (k)",
    "grouping of several keys": "SELECT k, ok, GROUPING(k, ok) AS a, GROUPING(ok, k) AS b, GROUPING_ID(ok) AS c, "
    "COUNT(*) FROM t GROUP BY CUBE (k, ok)",
    "grouping names": "SELECT GROUPING(k, ok), COUNT(*) FROM t GROUP BY ROLLUP (k, ok)",
    "grouping without sets": "SELECT k, GROUPING(k), COUNT(*) FROM t GROUP BY k",
    "composite elements": "SELECT k, ok, kind, COUNT(*) FROM t GROUP BY ROLLUP (k, (ok, kind))",
    "composite elements of a cube": "SELECT k, ok, kind, COUNT(*) FROM t GROUP BY CUBE ((k, ok), kind)",
    "keys beside a rollup": "SELECT k, ok, kind, COUNT(*) FROM t GROUP BY k, ROLLUP (ok, kind)",
    "two rollups": "SELECT k, ok, COUNT(*) FROM t GROUP BY ROLLUP (k), CUBE (ok)",
    "sets in sets": "SELECT k, ok, COUNT(*) FROM t GROUP BY GROUPING SETS (ROLLUP (k, ok), GROUPING SETS (ok, ()))",
    "sets of ordinals and aliases": "SELECT UPPER(k) AS u, ok, COUNT(*) FROM t GROUP BY ROLLUP (u, 2)",
    "a set given twice": "SELECT k, COUNT(*) FROM t GROUP BY GROUPING SETS ((k), (k), ())",
    "a key in two places": "SELECT k, ok, COUNT(*) FROM t GROUP BY k, GROUPING SETS (k, ok)",
    "the empty set": "SELECT COUNT(*), SUM(age) FROM t GROUP BY ()",
    "the empty set without rows": "SELECT COUNT(*) FROM t WHERE age > 1000 GROUP BY GROUPING SETS ((), ())",
    "keys in parentheses": "SELECT k, ok, COUNT(*) FROM t GROUP BY (k, ok)",
    "rolled-up expressions": "SELECT age // 10 AS d, age // 10 + 1, COALESCE(k, '-') AS c, COUNT(*) FROM t "
    "GROUP BY ROLLUP (age // 10, k)",
    "having over sets": "SELECT k, ok, COUNT(*) AS n FROM t GROUP BY CUBE (k, ok) HAVING GROUPING(k) = 1 AND n > 10",
    "having of rolled-up nulls": "SELECT k, COUNT(*) FROM t GROUP BY ROLLUP (k) HAVING k IS NULL",
    "windows over sets": "SELECT k, ok, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY GROUPING(k, ok)) AS s FROM t "
    "GROUP BY CUBE (k, ok)",
    "qualify over sets": "SELECT k, ok, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, ok) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY GROUPING(k, ok) ORDER BY k, ok) = 1",
    "distinct over sets": "SELECT DISTINCT GROUPING(k) AS g FROM t GROUP BY ROLLUP (k)",
    "keys alone in sets": "SELECT k, ok FROM t GROUP BY ROLLUP (k, ok)",
    "a sum of its own key": "SELECT tiny, SUM(tiny), COUNT(tiny) FROM t WHERE tiny >= 0 GROUP BY ROLLUP (tiny)",
    "sets inside a query": "SELECT label, n FROM (SELECT code, COUNT(*) AS n FROM t GROUP BY ROLLUP (code)) AS q "
    "LEFT JOIN codes ON q.code = codes.code",
    "sets over results": "WITH q AS (SELECT k, ok, COUNT(*) AS n FROM t GROUP BY k, ok) "
    "SELECT k, ok, GROUPING(k) AS g, SUM(n) AS s FROM q GROUP BY CUBE (k, ok)",
    "sets over a public table": "SELECT code, SUM(weight) FROM codes GROUP BY ROLLUP (code)",
    "sets of sets": "WITH q AS (SELECT k, ok, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, ok)) "
    "SELECT k, SUM(n) FROM q GROUP BY ROLLUP (k)",
    "two queries share a set": "SELECT 'all' AS w, COUNT(*) FROM t UNION ALL "
    "SELECT k, COUNT(*) FROM t GROUP BY ROLLUP (k)",
    "pivot": "PIVOT t ON k IN ('a', 'b') USING COUNT(*) GROUP BY ok",
    "pivot in from": "FROM t PIVOT (SUM(age) FOR k IN ('a', 'c') GROUP BY kind)",
    "pivot with several aggregates": "PIVOT t ON k IN ('a', 'b') USING COUNT(*), SUM(age), AVG(age) AS m GROUP BY ok",
    "pivot on several columns": "PIVOT t ON k IN ('a', 'b'), ok IN (true, false) USING COUNT(*) AS n, SUM(u1) "
    "GROUP BY kind",
    "pivot on pairs": "FROM t PIVOT (COUNT(*) FOR (k, ok) IN (('a', true), ('b', false)) GROUP BY kind)",
    "pivot of null": "PIVOT t ON k IN ('a', NULL) USING COUNT(*) GROUP BY ok",
    "pivot of numbers": "PIVOT t ON tiny IN (1, -2, '3') USING COUNT(*) GROUP BY ok",
    "pivot of numbers that are text": "PIVOT t ON tiny IN (1.0, 2) USING COUNT(*) GROUP BY ok",
    "pivot of dates": "PIVOT t ON day IN (DATE '2024-01-02', '2024-01-03') USING COUNT(*) GROUP BY ok",
    "pivot with names for values": "FROM t PIVOT (COUNT(*) AS n FOR k IN ('a' AS first, 'b') GROUP BY ok) AS p",
    "pivot without using": "PIVOT (SELECT k, ok FROM t) ON k IN ('a', 'b')",
    "pivot by all other columns": "PIVOT (SELECT k, ok, kind, age FROM t) ON k IN ('a', 'b') USING SUM(age)",
    "pivot without other columns": "PIVOT (SELECT k, age FROM t) ON k IN ('a', 'b') USING SUM(age), COUNT(*)",
    "pivot whose column is a key's name": "PIVOT (SELECT k, k AS a FROM t) ON k IN ('a') USING COUNT(*)",
    "pivot of an expression": "PIVOT t ON k IN ('a', 'b') USING COALESCE(SUM(age), 0) AS x GROUP BY ok",
    "pivot in a cte": "WITH p AS (PIVOT t ON k IN ('a', 'b') USING COUNT(*) GROUP BY ok) SELECT ok, a + b AS c FROM p",
    "pivot of a cte": "WITH q AS (SELECT k, ok FROM t WHERE age > 30) PIVOT q ON k IN ('a', 'b') USING COUNT(*)",
    "pivot of results": "PIVOT (SELECT k, ok, COUNT(*) AS n FROM t GROUP BY ALL) ON k IN ('a', 'b') USING "
    "SUM(n), MAX(n)",
    "pivot of a public table": "PIVOT codes ON label IN ('one', 'two') USING SUM(weight) GROUP BY code",
    "names after a pivot": "SELECT p.ok, p.a, \"b\" FROM t PIVOT (COUNT(*) FOR k IN ('a', 'b') GROUP BY ok) AS p",
    "column aliases of a pivot": "SELECT * FROM t PIVOT (COUNT(*) FOR k IN ('a', 'b') GROUP BY ok) AS p(x, y)",
    "unpivot of results": "UNPIVOT (SELECT k, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY k) ON n, s INTO NAME "
    "w VALUE v",
    "unpivot of results in from": "SELECT w, v FROM (SELECT COUNT(*) AS n, SUM(age) AS s FROM t) UNPIVOT (v FOR "
    "w IN (n, s))",
    "unpivot with its own names": "UNPIVOT (SELECT k, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY k) ON n, s",
    "unpivot with nulls": "SELECT * FROM (SELECT k, COUNT(*) AS n, NULL::BIGINT AS s FROM t GROUP BY k) "
    "UNPIVOT INCLUDE NULLS (v FOR w IN (n, s)) AS u",
    "unpivot without nulls": "SELECT * FROM (SELECT k, COUNT(*) AS n, NULL::BIGINT AS s FROM t GROUP BY k) "
    "UNPIVOT (v FOR w IN (n, s)) AS u",
    "a subquery that looks at a key": "SELECT code, (SELECT label FROM codes WHERE codes.code = t.code) AS l, COUNT(*) "
    "FROM t GROUP BY code",
    "buckets of days": "SELECT TIME_BUCKET(INTERVAL '7 days', day) AS w, COUNT(*) FROM t GROUP BY w",
    "buckets of hours": "SELECT HOUR(TIME_BUCKET(INTERVAL '6 hours', ts)) AS w, COUNT(*) AS n "
    "FROM t GROUP BY w HAVING n > 5",
    "date from its parts": "SELECT MAKE_DATE(YEAR(day), MONTH(day), 1) AS m, COUNT(*) FROM t GROUP BY m",
    "local time": "SELECT HOUR(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Kolkata') AS h, COUNT(*) FROM t GROUP BY h",
    "local days": "SELECT COUNT(*) FROM t WHERE CAST(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo' AS DATE) = "
    "'2024-01-02'",
    "angles": "SELECT SUM(SIN(x)), SUM(ATAN2(x, f)), AVG(TANH(x)), SUM(ACOS(x / 2)), SUM(COSH(x)) FROM t",
    "divisors and bits": "SELECT SUM(GCD(u2, u4)), SUM(BIT_COUNT(age)), SUM(EVEN(small)), COUNT(*) FILTER "
    "(SIGNBIT(x)) FROM t",
    "replaced by a pattern": "SELECT REGEXP_REPLACE(code, '[0-9]', '#') AS c, COUNT(*) FROM t GROUP BY c",
    "padded and translated": "SELECT LPAD(TRANSLATE(k, 'ab', 'xy'), 3, '0') AS c, COUNT(*) FROM t GROUP BY c",
    "graphemes and codes": "SELECT LEFT_GRAPHEME(note, 1) = 'Z' AS z, COUNT(*) FILTER (ASCII(k) = 98), "
    "COUNT(STRIP_ACCENTS(note)) FROM t GROUP BY z",
    "seconds and days since": "SELECT SUM((EPOCH_MS(ts) - 1704067200000) // 3600000), "
    "SUM(JULIAN(day) - 2460310) FROM t",
    "union by name": "SELECT COUNT(*) AS a, 1 AS b FROM t UNION ALL BY NAME SELECT 2 AS b, 5 AS c",
    "union by name in a cte": "WITH u AS (SELECT k AS a, COUNT(*) AS n FROM t GROUP BY k UNION BY NAME SELECT 5 AS n) "
    "SELECT a, n FROM u WHERE n > 5",
    "intersect all and except all": "(SELECT 1 AS x FROM codes INTERSECT ALL SELECT 1 FROM codes WHERE weight > 2) "
    "EXCEPT ALL SELECT 1 FROM codes WHERE weight > 3",
    "distinct on": "SELECT DISTINCT ON (ok) ok, k, COUNT(*) AS n FROM t GROUP BY k, ok ORDER BY ok, k",
    "distinct on a number": "SELECT DISTINCT ON (1) label, weight FROM codes ORDER BY label, weight",
    "names of a union in a cte": "WITH a(p) AS (SELECT COUNT(*) FROM t UNION ALL SELECT 1) SELECT p FROM a",
    "cte in a cte": "WITH a AS (WITH b AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT * FROM b) SELECT n FROM a",
    "cte that hides a table": "WITH t AS (SELECT k, age FROM t WHERE age > 10) SELECT k, COUNT(*) FROM t GROUP BY k",
    "cte that hides a cte": "WITH a AS (SELECT 1 AS x) SELECT * FROM (WITH a AS (SELECT 2 AS x) SELECT * FROM a) q, a",
    "star with other names": "SELECT * EXCLUDE (weight) RENAME (label AS l) FROM codes",
    "columns by pattern": "SELECT SUM(COLUMNS('^u[12]$')) FROM t",
    "columns by name": "SELECT k, SUM(COLUMNS(['u2', 'u1'])) AS s FROM t GROUP BY k",
    "all columns but some": "SELECT COUNT(COLUMNS(* EXCLUDE (id))) FROM t",
    "columns twice": "SELECT MIN(COLUMNS('w')) + MAX(COLUMNS('w')) FROM codes",
    "columns of one table": "SELECT COLUMNS(c.*) FROM codes c, (SELECT COUNT(*) AS n FROM t) r",
    "positional join": "SELECT a.code, b.n FROM codes a POSITIONAL JOIN (SELECT COUNT(*) AS n FROM t) b",
    "as-of join": "SELECT r.k, c.code FROM (SELECT k, COUNT(*) // 300 AS n FROM t GROUP BY k) r "
    "ASOF JOIN codes c ON r.n >= c.weight",
    "semi join": "SELECT * FROM codes SEMI JOIN (SELECT code FROM t WHERE ok GROUP BY code) r USING (code)",
    "anti join": "SELECT code FROM codes ANTI JOIN (SELECT 'x1' AS code) r USING (code)",
    "lateral": "SELECT c.code, l.n FROM codes c, "
    "LATERAL (SELECT MAX(weight) AS n FROM codes d WHERE d.weight < c.weight) l",
    "lateral over results": "SELECT r.k, l.x FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) r "
    "LEFT JOIN LATERAL (SELECT r.n * 2 AS x) l ON true",
    "sources called like noisy tables": "SELECT code, (SELECT label FROM codes r0 WHERE r0.code = t.code) AS l, "
    "COUNT(*) FROM t GROUP BY code",
    "columns of a join": "SELECT COLUMNS('code|n') FROM codes JOIN (SELECT code, COUNT(*) AS n FROM t GROUP BY code) r "
    "USING (code)",
    "alias of an alias": "SELECT COUNT(*) AS n, n * 2 AS m, m + 1 AS o FROM t",
    "alias in where": "SELECT age * 2 AS d, COUNT(*) FROM t WHERE d > 20 AND d < 60 GROUP BY d",
    "from first": "FROM t SELECT k, COUNT(*) GROUP BY k",
    "arithmetic over aggregates": "SELECT k, SUM(age) / COUNT(*) AS r, SUM(age) * 2 + COUNT(*) AS s, -COUNT(*) AS n "
    "FROM t GROUP BY k",
    "integer division of aggregates": "SELECT SUM(age) // COUNT(*), COUNT(*) % 7 FROM t",
    "case over aggregates": "SELECT k, CASE WHEN COUNT(*) > 950 THEN 'many' ELSE 'few' END AS size FROM t GROUP BY k",
    "functions over aggregates": "SELECT ROUND(AVG(age), 0) AS r, GREATEST(COUNT(*), 10) AS g, ABS(SUM(small)) AS a "
    "FROM t",
    "cast of an aggregate": "SELECT COUNT(*)::VARCHAR AS c, SUM(age)::DOUBLE AS s, COUNT(*)::SMALLINT AS t FROM t",
    "text with an aggregate": "SELECT k || ': ' || COUNT(*) AS t FROM t WHERE k IS NOT NULL GROUP BY k",
    "constants beside aggregates": "SELECT 1 AS one, 'x' AS text, NULL AS n, COUNT(*) FROM t",
    "having": "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 500",
    "having on an alias": "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING n > 500",
    "having on what is not selected": "SELECT k FROM t GROUP BY k HAVING SUM(age) > 10000 AND AVG(small) < 1000",
    "having on a key": "SELECT k, COUNT(*) FROM t GROUP BY k HAVING k IN ('a', 'b')",
    "having without group by": "SELECT COUNT(*) FROM t HAVING COUNT(*) > 10",
    "having that drops the only row": "SELECT COUNT(*) FROM t HAVING COUNT(*) < 10",
    "share of the whole": "SELECT k, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY k",
    "rank": "SELECT day, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY day",
    "running sum": "SELECT day, SUM(COUNT(*)) OVER (ORDER BY day NULLS LAST) AS total FROM t GROUP BY day",
    "lag": "SELECT day, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY day) AS change FROM t GROUP BY day",
    "lag with a default": "SELECT day, LAG(COUNT(*), 2, 0) OVER (ORDER BY day) AS c FROM t GROUP BY day",
    "partitioned window": "SELECT k, ok, SUM(COUNT(*)) OVER (PARTITION BY k) AS n FROM t GROUP BY k, ok",
    "named window": "SELECT day, SUM(COUNT(*)) OVER w AS s, AVG(COUNT(*)) OVER w AS a FROM t GROUP BY day "
    "WINDOW w AS (ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "window frame": "SELECT day, SUM(COUNT(*)) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) s "
    "FROM t GROUP BY day",
    "row number": "SELECT k, ROW_NUMBER() OVER (ORDER BY k NULLS LAST) AS i, COUNT(*) FROM t GROUP BY k",
    "first value": "SELECT k, FIRST_VALUE(COUNT(*)) OVER (ORDER BY k) AS v FROM t GROUP BY k",
    "qualify": "SELECT k, COUNT(*) AS n FROM t GROUP BY k QUALIFY ROW_NUMBER() OVER (ORDER BY k) <= 2",
    "qualify on an alias": "SELECT k, RANK() OVER (ORDER BY k) AS r FROM t GROUP BY k QUALIFY r = 1",
    "outer select": "SELECT SUM(n) AS total, MAX(n), MIN(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)",
    "outer select with group by": "SELECT n > 900 AS big, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
    "GROUP BY big",
    "cte": "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT * FROM c WHERE n > 100",
    "nested ctes": "WITH a AS (SELECT k, ok, COUNT(*) AS n FROM t GROUP BY k, ok), "
    "b AS (SELECT k, SUM(n) AS n FROM a GROUP BY k) SELECT SUM(n) AS s, COUNT(*) AS c FROM b",
    "cte used twice": "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
    "SELECT x.k, x.n, y.n AS m FROM c x JOIN c y ON x.k = y.k",
    "cte with column names": "WITH c(key, n) AS (SELECT k, COUNT(*) FROM t GROUP BY k) SELECT key, n FROM c",
    "cte of rows": "WITH c AS (SELECT age, k FROM t WHERE ok) SELECT k, SUM(age) FROM c GROUP BY k",
    "cte of rows used twice": "WITH c AS (SELECT age FROM t WHERE ok) "
    "SELECT (SELECT COUNT(*) FROM c) AS n, (SELECT SUM(age) FROM c WHERE age > 10) AS s",
    "cte named like a table": "WITH t AS (SELECT * FROM t WHERE age < 50) SELECT COUNT(*) FROM t",
    "cte named like a public table": "WITH codes AS (SELECT k AS code, COUNT(*) AS n FROM t GROUP BY k) "
    "SELECT * FROM codes",
    "cte in a subquery": "SELECT * FROM (WITH c AS (SELECT COUNT(*) AS n FROM t) SELECT n + 1 AS m FROM c)",
    "derived rows": "SELECT SUM(double) FROM (SELECT age * 2 AS double FROM t WHERE k = 'a') AS d",
    "derived rows with star": "SELECT k, COUNT(*) FROM (SELECT * FROM t) GROUP BY k",
    "derived rows with renamed columns": "SELECT SUM(v), COUNT(*) FROM (SELECT age, k FROM t) AS d(v, g) WHERE g = 'a'",
    "derived rows in layers": "SELECT AVG(c) FROM (SELECT b + 1 AS c FROM (SELECT age AS b, ok FROM t) WHERE ok)",
    "star except": "SELECT COUNT(age) FROM (SELECT * EXCLUDE (k) FROM t)",
    "star replace": "SELECT SUM(age) FROM (SELECT * REPLACE (age + 1 AS age) FROM t)",
    "scalar subqueries": "SELECT (SELECT COUNT(*) FROM t) AS n, (SELECT SUM(age) FROM t WHERE ok) AS s",
    "scalar subquery beside aggregates": "SELECT k, COUNT(*) / (SELECT COUNT(*) FROM t) AS share FROM t GROUP BY k",
    "scalar subquery in having": "SELECT k FROM t GROUP BY k "
    "HAVING COUNT(*) > (SELECT COUNT(*) FROM t) / 4",
    "exists over a release": "SELECT label FROM codes WHERE EXISTS (SELECT 1 FROM "
    "(SELECT COUNT(*) AS n FROM t) WHERE n > 10)",
    "in over a release": "SELECT label FROM codes WHERE code IN (SELECT code FROM t GROUP BY code HAVING COUNT(*) > 1)",
    "correlated over a release": "SELECT label, (SELECT n FROM (SELECT code, COUNT(*) AS n FROM t GROUP BY code) r "
    "WHERE r.code = codes.code) AS n FROM codes",
    "union all": "SELECT 'rows' AS what, COUNT(*) AS n FROM t UNION ALL SELECT 'ok', COUNT(*) FROM t WHERE ok",
    "union": "SELECT k FROM t GROUP BY k UNION SELECT k FROM t GROUP BY k",
    "except": "SELECT code FROM codes EXCEPT SELECT code FROM t WHERE code = 'x1' GROUP BY code",
    "union in a subquery": "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM t UNION ALL SELECT COUNT(*) FROM t)",
    "join with a public table": "SELECT label, n FROM (SELECT code, COUNT(*) AS n FROM t GROUP BY code) r "
    "JOIN codes ON codes.code = r.code",
    "left join with a public table": "WITH r AS (SELECT code, COUNT(*) AS n FROM t GROUP BY code) "
    "SELECT r.code, label, n * weight AS w FROM r LEFT JOIN codes USING (code)",
    "join using": "WITH r AS (SELECT code, COUNT(*) AS n FROM t GROUP BY code) SELECT * FROM codes JOIN r USING (code)",
    "cross join of results": "SELECT a.n / b.n AS q FROM (SELECT COUNT(*) AS n FROM t WHERE ok) a, "
    "(SELECT COUNT(*) AS n FROM t) b",
    "public table alone": "SELECT label, weight FROM codes WHERE weight > 1",
    "values alone": "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(n, t)",
    "no table": "SELECT 1 + 1 AS two",
    "join with values": "SELECT v.t, r.n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) r "
    "JOIN (VALUES ('a', 'A'), ('b', 'B')) v(k, t) ON v.k = r.k",
    "distinct over results": "SELECT DISTINCT COUNT(*) > 10 AS many FROM t GROUP BY k",
    "comments": "SELECT /* all */ COUNT(*) -- of them\nFROM t; -- done",
    "alias reused": "SELECT COUNT(*) AS n, n + 1 AS m FROM t",
    "trailing comma": "SELECT k, COUNT(*), FROM t GROUP BY k",
}  # fmt: skip

ORDERED = {
    "fetch": "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k FETCH FIRST 2 ROWS ONLY",
    "fetch one": "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k FETCH FIRST ROW ONLY",
    "order by all of a union": "SELECT 2 AS x, COUNT(*) FROM t UNION ALL SELECT 1, COUNT(*) FROM t ORDER BY ALL",
    "order over sets": "SELECT k, ok, COUNT(*) FROM t GROUP BY CUBE (k, ok) ORDER BY GROUPING(k, ok), k, ok LIMIT 7",
    "offset over sets": "SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k) ORDER BY n DESC LIMIT 2 OFFSET 1",
    "unordered answers come by key, NULLs last": (
        "SELECT k, ok, COUNT(*) FROM t GROUP BY k, ok",
        "SELECT k, ok, COUNT(*) FROM t GROUP BY k, ok ORDER BY k NULLS LAST, ok NULLS LAST",
    ),
    "unordered dates come by key": (
        "SELECT COUNT(*), day FROM t GROUP BY day",
        "SELECT COUNT(*), day FROM t GROUP BY day ORDER BY day NULLS LAST",
    ),
    "unordered enums come by key": (
        "SELECT kind, COUNT(*) FROM t GROUP BY kind",
        "SELECT kind, COUNT(*) FROM t GROUP BY kind ORDER BY kind::VARCHAR NULLS LAST",
    ),
    "unordered with having": (
        "SELECT age, COUNT(*) FROM t GROUP BY age HAVING COUNT(*) > 25",
        "SELECT age, COUNT(*) FROM t GROUP BY age HAVING COUNT(*) > 25 ORDER BY age NULLS LAST",
    ),
    "by alias": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC, day",
    "by ordinal": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY 2, 1 DESC",
    "by all": "SELECT k, ok, COUNT(*) FROM t GROUP BY ALL ORDER BY ALL",
    "by all descending": "SELECT k, ok, COUNT(*) FROM t GROUP BY ALL ORDER BY ALL DESC",
    "nulls first": "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k NULLS FIRST",
    "nulls last descending": "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k DESC NULLS LAST",
    "default nulls descending": "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k DESC",
    "default nulls": "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k",
    "by what is not selected": "SELECT k FROM t GROUP BY k ORDER BY SUM(age) DESC, k",
    "by an expression": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY COUNT(*) % 10, day",
    "by an expression of an alias": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY -n, day",
    "by a case": "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY CASE WHEN k = 'b' THEN 0 ELSE 1 END, k",
    "limit": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC, day LIMIT 5",
    "limit and offset": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day LIMIT 5 OFFSET 3",
    "limit zero": "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day LIMIT 0",
    "limit in a subquery": "SELECT SUM(n) FROM (SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC LIMIT 5)",
    "order of a union": "SELECT 'b' AS w, COUNT(*) AS n FROM t UNION ALL SELECT 'a', COUNT(*) FROM t ORDER BY w",
    "order of a cte": "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT * FROM c ORDER BY k DESC LIMIT 2",
    "order inside parentheses": "(SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k LIMIT 2) ORDER BY k DESC",
    "order by a window": "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY RANK() OVER (ORDER BY k DESC NULLS LAST)",
    "order of outer select": "SELECT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) ORDER BY n DESC",
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WHERE)
def test_a_condition_keeps_the_same_rows(name: str, by_row: dpsql.Session, plain: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT COUNT(*) AS n, SUM(u8) AS s FROM t WHERE {WHERE[name]}"
    # SUM of no rows is a noisy 0 here, not NULL.
    expected = f"SELECT COUNT(*) AS n, COALESCE(SUM(u8), 0) AS s FROM t WHERE {WHERE[name]}"
    check(by_row, plain, sql, ordered=True, expected=expected)


def test_a_filter_keeps_the_same_rows(session: dpsql.Session, plain: duckdb.DuckDBPyConnection) -> None:
    counts = [f'COUNT(*) FILTER (WHERE {condition}) AS "{name}"' for name, condition in WHERE.items()]
    check(session, plain, f"SELECT {', '.join(counts)} FROM t", ordered=True)


@pytest.mark.sample(48)
@pytest.mark.parametrize("name", UNORDERED)
def test_an_answer_is_what_duckdb_says(name: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection) -> None:
    check(session, plain, UNORDERED[name], ordered=False)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ORDERED)
def test_the_order_is_what_duckdb_says(name: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection) -> None:
    case = ORDERED[name]
    sql, expected = (case, case) if isinstance(case, str) else case
    check(session, plain, sql, ordered=True, expected=expected)


def test_units_are_counted_once_each(session: dpsql.Session, plain: duckdb.DuckDBPyConnection) -> None:
    # Where each row is a unit, id is a value like any other.
    for sql in (
        "SELECT COUNT(DISTINCT id) FROM t",
        "SELECT COUNT(DISTINCT ID) AS n, COUNT(*) FROM t WHERE age > 50",
        "SELECT k, COUNT(DISTINCT p.id) FILTER (WHERE ok) AS n, COUNT(*), AVG(age) FROM t p GROUP BY k",
        "SELECT k, COUNT(DISTINCT who) FROM (SELECT id AS who, k FROM t) GROUP BY k",
    ):
        check(session, plain, sql, ordered=False)


# ---------------------------------------------------------------- combinations

KEYS = [
    "k", "kind", "code", "ok", "tiny", "u1", "day", "age // 25", "MONTH(day)", "QUARTER(day)", "WEEK(day)", "ts::DATE",
    "DATE_TRUNC('week', day)", "DATE_TRUNC('hour', ts)", "EXTRACT(isodow FROM day)", "HOUR(ts)", "MINUTE(ts) // 10",
    "age > 50", "CASE WHEN age > 30 THEN 'x' WHEN ok THEN 'y' END", "CASE k WHEN 'a' THEN 1 ELSE 3 END",
    "COALESCE(k, 'z')", "UPPER(k) || kind", "tiny + u1", "tiny * u1", "ABS(tiny)", "-tiny", "u1 % 3", "tiny % 2",
    "age IS NULL", "k IN ('a', 'b')", "LEAST(tiny, 1)", "GREATEST(u1, 3)", "NULLIF(k, 'a')", "IF(ok, 1, 2)", "k = code",
    "u8::VARCHAR", "LEFT(kind, 1)", "REPLACE(k, 'a', 'q')", "day + 1", "day - DATE '2024-01-01'", "NOT ok",
    "ok AND age > 5", "k LIKE 'a%'", "LAST_DAY(day)", "age BETWEEN 10 AND 20", "TRY_CAST(k AS INTEGER)",
    "CONCAT(k, kind)", "DATE_DIFF('day', DATE '2024-01-01', day)", "tiny & 1", "ROUND(age, -1)", "u1::BOOLEAN",
]  # fmt: skip
ARGUMENTS = [
    "age", "tiny", "small", "big", "u1", "u2", "u4", "u8", "price", "x", "f", "ok::INT", "age * 2", "age + small",
    "price * 2", "price * x", "ABS(small)", "x * f", "age / 7", "age // 7", "age % 7", "ROUND(price, 1)", "FLOOR(x)",
    "CEIL(f)", "SQRT(age)", "LN(age + 1)", "EXP(x)", "CASE WHEN ok THEN age ELSE small END", "COALESCE(age, 5)",
    "LEAST(age, 50)", "GREATEST(small, 0)", "MONTH(day)", "age - price", "price / 3", "-price", "x::FLOAT",
    "price::INTEGER", "x::INTEGER", "age::DOUBLE", "age::DECIMAL(9,3)", "NULLIF(age, 5)", "POWER(tiny, 2)",
    "tiny * small * u1", "(age > 3)::INT", "IF(age > 50, 1, 0)", "price % 7", "TRUNC(x)", "u8 * u8", "SIGN(small)",
    "age ^ 2", "LOG10(age + 1)", "u2 & 7",
]  # fmt: skip
CONDITIONS = [
    *WHERE.values(), "age > small", "x * 2 > f - 5", "day > ts", "day + INTERVAL 3 DAY > DATE '2024-01-20'", "k > 'a'",
    "ts - INTERVAL 1 HOUR > TIMESTAMP '2024-01-02'", "kind > 'blue'", "kind = k", "price = 10", "price > x", "f > 5",
    "u1 IN (1, NULL)", "age NOT IN (1, 2)", "LOWER(note) LIKE '%a%'", "note = ''", "REGEXP_MATCHES(note, '^[A-Z]')",
    "age BETWEEN tiny AND small", "x IS NULL OR x < 0", "EXTRACT(dow FROM day) = 3", "strftime(day, '%d') = '05'",
    "DATE_TRUNC('month', day) = DATE '2024-01-01'", "CONTAINS(note, 'b')", "age = 5.0", "age = '5'", "tiny <> -1",
]  # fmt: skip


def combination(r: random.Random) -> tuple[list[str], list[str], str]:
    calls = []
    for _ in range(r.randint(1, 3)):
        call = r.choice(["COUNT(*)", "COUNT({})", "SUM({})", "AVG({})"]).format(r.choice(ARGUMENTS))
        calls.append(call + (f" FILTER (WHERE {r.choice(CONDITIONS)})" if r.random() < 0.2 else ""))
    keys = list(dict.fromkeys(r.choice(KEYS) for _ in range(r.choice([0, 1, 1, 1, 2]))))
    where = f" WHERE {r.choice(CONDITIONS)}" if r.random() < 0.5 else ""
    listed = [*(f"{k} AS k{i}" for i, k in enumerate(keys)), *(f"{c} AS a{i}" for i, c in enumerate(calls))]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return keys, calls, f"SELECT {', '.join(listed)} FROM t{where}{group}"


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(7))
def test_combinations_of_keys_aggregates_and_conditions_are_what_duckdb_says(
    seed: int, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    r = random.Random(seed)
    for _ in range(10):
        keys, calls, sql = combination(r)
        theirs = plain.sql(sql).to_arrow_table()
        quote, answer = session.explain(sql, epsilon=10**8), session.query(sql, epsilon=10**8)
        assert answer.to_arrow().schema.types == [plain_type(t) for t in theirs.schema.types], sql
        wanted = {row[: len(keys)]: row[len(keys) :] for row in zip(*theirs.to_pydict().values(), strict=True)}
        found = {row[: len(keys)]: row[len(keys) :] for row in answer.rows}
        assert len(found) == len(answer.rows)
        assert set(wanted) <= set(found), sql  # each key is public; the others are empty
        allowed = tolerance(quote)
        for key, values in found.items():
            for call, mine, true in zip(calls, values, wanted.get(key, (None,) * len(calls)), strict=True):
                if true is None:  # no rows: a noisy 0, or NULL
                    assert mine is None if call.startswith("AVG") else abs(mine) <= allowed, (sql, key, call, mine)
                else:
                    assert mine is not None, (sql, key, call)
                    difference = abs(float(mine) - float(true))
                    assert difference <= allowed * max(1.0, abs(float(true))), (sql, key, call, mine, true)


# ---------------------------------------------------------------- where private answers differ on purpose


def small(connect: Connect, columns: dict[str, Any], data: pa.Table) -> dpsql.Session:
    return connect({"t": data}, {"tables": {"t": {"unit": "row", "columns": columns}}}, epsilon=10**12)


def test_every_public_key_is_answered_empty_ones_too(connect: Connect) -> None:
    data = pa.table({"k": ["a", "a", "z"], "v": [1, 2, 3]})
    session = small(connect, {"k": {"values": ["c", "a", "b"]}, "v": {"min": 1, "max": 9}}, data)
    answer = session.query("SELECT k, COUNT(*), SUM(v), AVG(v) FROM t GROUP BY k", epsilon=EPSILON)
    assert answer.rows == [("a", 2, 3, 1.5), ("b", 0, 0, None), ("c", 0, 0, None), (None, 0, 0, None)]


def test_a_key_that_is_never_null_has_no_null_cell_once_that_is_verified(connect: Connect) -> None:
    data = pa.table({"k": ["a", "b"]})
    session = small(connect, {"k": {"values": ["a", "b"], "nullable": False}}, data)
    sql = "SELECT k, COUNT(*) FROM t GROUP BY k"
    assert [k for k, _ in session.query(sql, epsilon=EPSILON).rows] == ["a", "b", None]
    engine = session._engine
    engine.ledger.record_promise("t", nullable_promise(engine.policy.tables["t"], "k"), engine.versions()["t"], True)
    assert [k for k, _ in session.query(sql, epsilon=EPSILON, fresh=True).rows] == ["a", "b"]


def test_sum_of_an_empty_group_is_a_noisy_zero_and_avg_is_null_where_the_count_is_not_positive(
    connect: Connect,
) -> None:
    data = pa.table({"v": pa.array([], pa.int32())})
    session = small(connect, {"v": {"min": 2, "max": 9}}, data)
    seen: list[tuple[Any, ...]] = []
    while len(seen) < 60 or (all(a is None for _, a, _ in seen) and len(seen) < 1000):  # one in 35 is known
        seen.append(
            session.query("SELECT SUM(v) AS s, AVG(v) AS a, COUNT(v) AS n FROM t", epsilon=1, fresh=True).rows[0]
        )
    assert all(isinstance(s, int) for s, _, _ in seen)
    assert len({s for s, _, _ in seen}) > 5
    assert any(a is None for _, a, _ in seen) and any(a is not None for _, a, _ in seen)
    assert all(a is None for _, a, n in seen if n < 0)
    assert all(2 <= a <= 9 for _, a, _ in seen if a is not None)
    assert min(n for _, _, n in seen) < 0  # a COUNT may be negative


def test_an_average_is_null_wherever_its_own_count_may_be_noise_alone(connect: Connect) -> None:
    columns = {"x": {"min": -2, "max": 2}, "n": {"min": 1, "max": 300}}
    data = pa.table({"x": pa.array([], pa.float64()), "n": pa.array([], pa.int32())})
    session = small(connect, columns, data)
    for epsilon in (1, 10**9):
        answer = session.query("SELECT n, AVG(x) AS a, COUNT(x) AS c FROM t GROUP BY n", epsilon=epsilon)
        low = [ends[0] for ends in answer.intervals()["c"] or () if ends is not None]
        assert all((a is None) == (c <= 0 or least <= 0) for (_, a, c), least in zip(answer.rows, low, strict=True))


def test_values_outside_their_range_are_clipped_to_it(connect: Connect) -> None:
    data = pa.table({"v": [-100, 5, 1000], "x": [float("nan"), float("inf"), 3.5]})
    session = small(connect, {"v": {"min": 0, "max": 10}, "x": {"min": 0, "max": 10}}, data)
    answer = session.query("SELECT SUM(v), COUNT(v), COUNT(x), SUM(x) FROM t", epsilon=EPSILON)
    total, values, finite, x = answer.rows[0]
    assert (total, values, finite) == (15, 3, 1)
    assert x == pytest.approx(3.5, abs=1e-3)


def test_a_wide_sum_is_a_decimal_and_a_narrow_one_a_bigint(connect: Connect) -> None:
    top = 2**62
    data = pa.table({"v": [top] * 8, "w": [1] * 8})
    session = small(connect, {"v": {"min": 0, "max": top}, "w": {"min": 0, "max": 1}}, data)
    answer = session.query("SELECT SUM(v) AS v, SUM(w) AS w FROM t", epsilon=10**11)
    assert answer.to_arrow().schema.field("w").type == pa.int64()
    assert answer.to_arrow().schema.field("v").type == pa.decimal128(38, 0)
    assert abs(int(answer.rows[0][0]) - 8 * top) < 2**62 // 10**9


def test_the_type_of_a_sum_does_not_depend_on_its_value(connect: Connect) -> None:
    columns = {"v": {"min": 0, "max": 2**62}}
    kinds = set()
    for rows in ([], [2**62] * 8):
        session = small(connect, columns, pa.table({"v": pa.array(rows, pa.int64())}))
        kinds.add(session.query("SELECT SUM(v) AS v FROM t", epsilon=10**9).to_arrow().schema.field("v").type)
    assert len(kinds) == 1


def test_a_division_by_a_noisy_zero_is_null_and_not_an_error_after_payment(connect: Connect) -> None:
    session = small(connect, {}, pa.table({"v": pa.array([], pa.int32())}))
    sql = "SELECT COUNT(*) / COUNT(*), COUNT(*) // COUNT(*), COUNT(*) % COUNT(*), 1 // (COUNT(*) - COUNT(*)) FROM t"
    assert session.query(sql, epsilon=EPSILON).rows == [(None, None, None, None)]


def test_a_failing_cast_over_results_is_null(connect: Connect) -> None:
    session = small(connect, {"k": {"values": ["a", "1"]}}, pa.table({"k": ["a", "1"]}))
    answer = session.query("SELECT k::INT AS i, COUNT(*)::TINYINT AS n FROM t GROUP BY k", epsilon=EPSILON)
    assert answer.rows == [(1, 1), (None, 1), (None, 0)]
