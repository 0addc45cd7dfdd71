"""Keys computed from one column: their public values are what plain DuckDB gives over all values of its range."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from source_kinds import KINDS
from sqlglot import exp, parse_one

import dpsql
from dpsql.analyze.moments import at_beginnings, beginning, looks
from dpsql.analyze.ownership import nullable_promise
from dpsql.core.types import Type

FIRST, LAST = datetime(2019, 12, 20, 7, 30), datetime(2021, 1, 10, 18, 45)
DAYS = {"min": FIRST.date(), "max": LAST.date()}
MOMENTS = {"min": FIRST, "max": LAST}
COLUMNS: dict[str, dict[str, Any]] = {
    "day": DAYS,
    "seen": MOMENTS,
    "zoned": MOMENTS,
    "coarse": MOMENTS,
    "fine": MOMENTS,
    "short": {"min": datetime(2020, 2, 28, 22, 59, 30), "max": datetime(2020, 2, 29, 1, 0, 15)},
    "ages": {"min": date(1700, 1, 1), "max": date(2100, 12, 31)},
    "long": {"min": datetime(1700, 1, 1), "max": datetime(2100, 12, 31, 23, 59, 59)},
    "wide": {"min": -50_000, "max": 200_000},
    "price": {"min": -1, "max": 400},
    "age": {"min": 0, "max": 120},
    "kind": {"values": ["a", "b"]},
}
TYPES = {
    "day": pa.date32(),
    "seen": pa.timestamp("us"),
    "zoned": pa.timestamp("us", tz="UTC"),
    "coarse": pa.timestamp("s"),
    "fine": pa.timestamp("ns"),
    "short": pa.timestamp("us"),
    "ages": pa.date32(),
    "long": pa.timestamp("us"),
    "wide": pa.int32(),
    "price": pa.decimal128(8, 2),
    "age": pa.int32(),
    "kind": pa.string(),
}
SCHEMA = pa.schema(
    [("uid", pa.int64()), *TYPES.items(), ("free", pa.timestamp("us")), ("name", pa.string()), ("since", pa.date32())]
)
NUMBERED = "CAST(range AS INTEGER)"
DOMAINS = {  # every value of a range, or a moment in each of its smallest parts that the keys below tell apart
    "day": "SELECT DATE '2019-12-20' + CAST(range AS INTEGER) AS day FROM range(388)",
    "seen": "SELECT unnest(generate_series(TIMESTAMP '2019-12-20 07:30', TIMESTAMP '2021-01-10 18:45', "
    "INTERVAL '5 minutes')) AS seen",
    "zoned": "SELECT CAST(unnest(generate_series(TIMESTAMP '2019-12-20 07:30', TIMESTAMP '2021-01-10 18:45', "
    "INTERVAL '5 minutes')) AS TIMESTAMPTZ) AS zoned",
    "coarse": "SELECT CAST(unnest(generate_series(TIMESTAMP '2019-12-20 07:30', TIMESTAMP '2021-01-10 18:45', "
    "INTERVAL '5 minutes')) AS TIMESTAMP_S) AS coarse",
    "fine": "SELECT CAST(unnest(generate_series(TIMESTAMP '2019-12-20 07:30', TIMESTAMP '2021-01-10 18:45', "
    "INTERVAL '5 minutes')) AS TIMESTAMP_NS) AS fine",
    "short": "SELECT unnest(generate_series(TIMESTAMP '2020-02-28 22:59:30', TIMESTAMP '2020-02-29 01:00:15', "
    "INTERVAL '250 milliseconds')) AS short",
    "ages": "SELECT DATE '1700-01-01' + CAST(range AS INTEGER) AS ages FROM range(146462)",
    "long": "SELECT unnest(generate_series(TIMESTAMP '1700-01-01', TIMESTAMP '2100-12-31 23:59:59', "
    "INTERVAL '7 hours')) AS long",
    "wide": "SELECT CAST(range AS INTEGER) AS wide FROM range(-50000, 200001)",
    "price": "SELECT CAST(range / 100.0 AS DECIMAL(8, 2)) AS price FROM range(-100, 40001)",
}
OF_MOMENTS = [
    *(f"strftime({{}}, '{layout}')" for layout in (
        "%Y-%m", "%Y", "%y", "%b %Y", "%B", "%h", "%Y-%m-%d", "%x", "%j", "%a", "%A", "%w", "%u", "%Y-%U", "%Y-%W",
        "%G-W%V",
        "%Y %V", "%d.%-m.%y", "%Y-%m-%d %H", "%I %p", "%H", "%-H Uhr", "100%% %Z %z", "no part",
    )),
    "dayname({})", "monthname({})", "'Q' || quarter({})", "concat(year({0}), '-Q', quarter({0}))",
    "year({0}) || '-' || lpad(CAST(month({0}) AS VARCHAR), 2, '0')", "dayname({0}) || ' ' || hour({0})",
    "left(CAST({} AS VARCHAR), 4)", "left(CAST({} AS VARCHAR), 7)", "substr(CAST({} AS VARCHAR), 1, 10)",
    "substr(CAST({} AS VARCHAR), 6, 2)", "substring(CAST({} AS VARCHAR), 9, 2)", "left(strftime({}, '%Y-%m-%d'), 7)",
    "CAST({} AS DATE)", "last_day({})", "week({})", "yearweek({})", "isoyear({})", "decade({})", "century({})",
    "era({})",
    "isodow({})", "dayofyear({})", "hour({})", "extract(doy FROM {})", "date_part('quarter', {})",
    "date_trunc('quarter', {})", "date_trunc('decade', {})", "strftime(date_trunc('week', {}), '%Y-%m-%d')",
    "upper(strftime({}, '%b'))", "coalesce(dayname({}), 'none')", "date_diff('month', {}, TIMESTAMP '2020-06-15')",
    "CASE WHEN year({0}) < 2020 THEN 'before' ELSE strftime({0}, '%m') END",
]  # fmt: skip
KEYS: list[tuple[str, str]] = [
    *((column, key) for key in OF_MOMENTS for column in ("day", "seen")),
    *((c, key) for i, key in enumerate(OF_MOMENTS) for c in (("zoned", "coarse", "fine", "zoned")[i % 4],)),
    *(("short", f"strftime({{}}, '{layout}')") for layout in ("%H:%M", "%X", "%c", "%T", "%S", "%-M", "%d %H:%M")),
    *(("short", key) for key in (
        "minute({})", "second({})", "left(CAST({} AS VARCHAR), 16)", "hour({0}) || ':' || minute({0})",
        "substr(CAST({} AS VARCHAR), 12, 8)", "minute({}) // 15", "day({0}) * 100 + hour({0})",
    )),
    *((c, key) for c in ("ages", "long") for key in (
        "strftime({}, '%Y-%m')", "strftime({}, '%Y')", "dayname({})", "monthname({})", "strftime({}, '%m-%d')",
        "decade({})",
        "left(CAST({} AS VARCHAR), 7)", "concat(year({0}), '-Q', quarter({0}))", "week({})", "isoyear({})",
        "dayofyear({})",
        "hour({})", "month({}) % 3", "dayname({0}) || month({0})",
    )),
    *(("wide", key) for key in (
        "{0} - {0} % 1000", "{} // 100 * 100", "round({}, -2)", "floor({} / 100) * 100", "abs({}) // 50",
        "left(CAST({} AS VARCHAR), 3)",
        "{} / 1000 - {} % 1000 / 1000".replace("{}", "{0}"), "greatest({}, 199000)", "{} % 7",
        "width_bucket({}, 0, 100000, 20)",
        "CASE WHEN {0} < 0 THEN 'low' ELSE CAST({0} // 10000 AS VARCHAR) END", "{} > 5",
    )),
    *(("price", key) for key in (
        "floor({})", "CAST({} AS INTEGER) // 10 * 10", "{0} - {0} % 10", "round({}, 1)",
        "CAST(floor({} / 5) * 5 AS VARCHAR)",
        "left(CAST({} AS VARCHAR), 1)", "width_bucket({}, 0, 400, 8)", "{} // 10 > 3",
    )),
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    """Over no row at all: which columns can't be NULL was verified."""
    columns = {name: {**said, "nullable": False} for name, said in COLUMNS.items()}
    columns["free"] = {"nullable": False}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e12, "delta": 1e-4},
            "privacy": {"max_rows": 100, "max_groups": 3},
            "tables": {"t": {"unit": "uid", "columns": columns}},
        }
    )
    with dpsql.connect(policy, sources={"t": SCHEMA.empty_table()}, ledger=":memory:") as opened:
        engine = opened._engine
        for name in columns:
            promise = str(nullable_promise(policy.tables["t"], name))
            engine.ledger.record_promise("t", promise, engine.versions()["t"], True)
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, sql in DOMAINS.items():
            connection.execute(f"CREATE TABLE of_{name} AS {sql}")
        connection.execute(
            "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 ELSE "
            "CAST(floor((CAST(x AS DOUBLE) - low) * n / (high - low)) AS INTEGER) + 1 END"
        )
        yield connection


def values_of(session: dpsql.Session, sql: str) -> list[Any] | None:
    """The public values of the only key; None where it is selected privately."""
    *_, step = session.explain(sql, epsilon=1).steps
    return None if step.cells is None else step.cells.column(0).to_pylist()


@pytest.mark.sample(40)
@pytest.mark.parametrize(("column", "key"), KEYS)
def test_the_values_of_a_key_are_those_of_all_values_of_its_column(
    column: str, key: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    written = key.format(column)
    listed = values_of(session, f"SELECT {written} AS k, COUNT(*) FROM t GROUP BY k")
    expected = plain.execute(f"SELECT DISTINCT {written} AS k FROM of_{column} ORDER BY k").fetchall()
    assert listed is not None, "the key is selected privately"
    assert [_plain(v) for v in listed] == [_plain(v) for (v,) in expected]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int) or hasattr(value, "as_tuple") else value


LETTERS = [f"strftime(t, '%{letter}')" for letter in "aAbBcdGhHIjmMpSTuUVwWxXyYzZ"]
CALLS = [key.format("t") for key in (*OF_MOMENTS, *(f"left(CAST({{}} AS VARCHAR), {n})" for n in range(1, 20)))]
CALLS += ["minute(t)", "second(t)", "millennium(t)", "date_diff('quarter', t, TIMESTAMP '2020-02-02')"]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
def test_a_call_gives_the_same_for_the_beginning_of_its_unit(kind: str, plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute(
        f"CREATE OR REPLACE TABLE moments AS SELECT CAST(t AS {kind}) AS t FROM (SELECT unnest(generate_series("
        "TIMESTAMP '2016-12-20', TIMESTAMP '2028-01-10', INTERVAL '4517 seconds')) AS t UNION ALL SELECT unnest("
        "generate_series(TIMESTAMP '0300-01-01 (BC)', TIMESTAMP '12000-01-01', INTERVAL '777 hours 777 seconds')))"
    )
    found = 0
    for call in dict.fromkeys([*LETTERS, *CALLS]):
        for node in parse_one(call, dialect="duckdb").walk():
            for moment, unit in looks(node):
                if isinstance(moment, exp.Column):
                    changed = at_beginnings(node, {id(moment): beginning(unit, moment, Type.parse(kind))})
                    pair = [one.sql(dialect="duckdb") for one in (node, changed)]
                    # A range begins in the year 1; before that DuckDB counts quarters otherwise.
                    there = "t > TIMESTAMP '0001-02-01'" if isinstance(node, exp.DateDiff) else "TRUE"
                    differ = f"SELECT COUNT(*) FROM moments WHERE {pair[0]} IS DISTINCT FROM {pair[1]} AND {there}"
                    assert plain.execute(differ).fetchall() == [(0,)], pair
                    found += 1
    assert found > len(LETTERS) + len(CALLS) - 10


COMBINED = {
    "a format within a year": ("strftime(seen, '%Y-%m')", "strftime(seen, '%Y') = '2020'", 12),
    "a format by a part": ("strftime(long, '%Y-%m')", "year(long) >= 2020", 81 * 12),
    "a format by a day in it": ("strftime(seen, '%Y-%m')", "CAST(seen AS DATE) > DATE '2020-10-31'", 3),
    "months by quarters": ("monthname(seen)", "quarter(seen) = 2", 3),
    "weekdays of many years": ("dayname(long)", "isodow(long) < 6", 5),
    "one of two": ("strftime(long, '%Y')", "strftime(long, '%Y') = '1999' OR strftime(long, '%Y-%m') = '2001-05'", 2),
    "hours by a format": ("hour(seen)", "strftime(seen, '%H') < '08'", 8),
    "a step by itself": ("wide - wide % 1000", "wide - wide % 1000 >= 190000", 11),
    "a step by its column": ("wide - wide % 1000", "wide >= 190000", 11),
    "a date by its column": ("strftime(day, '%Y-%m')", "day >= DATE '2020-06-01'", 8),
    "parts of one moment": ("concat(year(seen), '-', month(seen))", "seen < '2020-03-01'", 3),
    "parts and a list": ("CASE WHEN age < 18 THEN 'y' ELSE 'o' END || dayname(ages) || kind", "kind = 'a'", 14),
    "a noisy value": ("age", "age < (SELECT COUNT(*) FROM t)", 121),
}


@pytest.mark.parametrize("name", COMBINED)
def test_conditions_narrow_the_values_of_a_key(name: str, session: dpsql.Session) -> None:
    key, condition, count = COMBINED[name]
    listed = values_of(session, f"SELECT {key} AS k, COUNT(*) FROM t WHERE {condition} GROUP BY k")
    assert listed is not None and len(listed) == count and None not in listed


HAVING = {
    "k >= '2020-06'": 8,
    "k >= '2020-06' AND COUNT(*) > 5": 8,
    "k >= '2020-06' AND k < '2020-08'": 2,
    "k >= '2020-06' OR COUNT(*) > 5": 14,
    "COUNT(*) > 5": 14,
    "k < CAST(COUNT(*) AS VARCHAR)": 14,
    "k >= (SELECT CAST(COUNT(*) AS VARCHAR) FROM t)": 14,
    "LAG(k) OVER (ORDER BY k) IS NULL": 14,
}


@pytest.mark.parametrize("condition", HAVING)
def test_having_narrows_by_keys_and_by_nothing_noisy(condition: str, session: dpsql.Session) -> None:
    word = "QUALIFY" if "OVER" in condition else "HAVING"
    sql = f"SELECT strftime(seen, '%Y-%m') AS k, COUNT(*) FROM t GROUP BY k {word} {condition}"
    listed = values_of(session, sql)
    assert listed is not None and len(listed) == HAVING[condition]


def test_having_narrows_no_set_of_several(session: dpsql.Session) -> None:
    sql = "SELECT age, kind, COUNT(*) FROM t GROUP BY ROLLUP (age, kind) HAVING age < 5 OR age IS NULL"
    found = [None if s.cells is None else s.cells.num_rows for s in session.explain(sql, epsilon=1).steps]
    assert found == [121 * 2, 121, None]


def test_two_lists_of_groups_that_differ_by_having_are_one_release(session: dpsql.Session) -> None:
    one, other = (f"SELECT kind, COUNT(*) AS n FROM t GROUP BY kind HAVING kind {c} 'a'" for c in ("=", "<>"))
    (step,) = session.explain(f"SELECT * FROM ({one}) UNION ALL SELECT * FROM ({other})", epsilon=1).steps
    assert step.cells.num_rows == 2
    quote = session.explain_batch(f"{one}; {other}", epsilon=1)
    assert [step.cells.column(0).to_pylist() for step in quote.steps] == [["a", "b"]]
    wide = [f"SELECT wide, COUNT(*) FROM t GROUP BY wide HAVING wide {c}" for c in ("< -49990", ">= 199991")]
    many = session.explain_batch("; ".join(wide), epsilon=1)  # all of them would be too many to list
    assert [step.cells.num_rows for step in many.steps] == [10, 10]
    apart = session.explain_batch(f"{one}; {one.replace('COUNT(*)', 'SUM(age)')}", epsilon=1)
    assert [step.cells.column(0).to_pylist() for step in apart.steps] == [["a"]]


NEVER_NULL = [
    "hour(seen)", "hour(free)", "dayname(free)", "CAST(zoned AS DATE)", "strftime(fine, '%H')", "last_day(coarse)",
    "make_date(year(seen), month(seen), 1)", "date_trunc('day', seen + INTERVAL 1 HOUR)", "coalesce(hour(free), 0)",
    "CASE WHEN name = 'a' THEN dayname(day) ELSE 'none' END", "CAST(price AS INTEGER) // 10", "age % 10",
    "age // 10 || kind",
    "extract(dow FROM long)", "date_diff('month', day, seen)", "minute(short) // 15",
]  # fmt: skip
CONDITIONS = [
    ("name", "name IN ('a')"), ("hour(free)", "free IS NOT NULL"), ("hour(free)", "free > '2020-01-01'"),
    ("dayname(free)", "strftime(free, '%H') > '05'"), ("hour(free)", "free < '2020-01-01' OR hour(free) = 5"),
    ("hour(free)", "NOT (free IS NULL OR name = 'x')"), ("hour(free)", "free BETWEEN '2020-01-01' AND '2020-02-01'"),
    ("hour(free)", "hour(free) IN (1, 2, NULL)"), ("length(name) > 2", "upper(name) LIKE 'A%'"),
    ("name = 'a'", "name || 'x' <> 'bx'"), ("name = 'a'", "NOT (name BETWEEN 'b' AND 'c')"),
]  # fmt: skip
OPEN = [
    ("hour(free)", "TRUE"), ("hour(free)", "free IS NULL OR hour(free) = 3"), ("name = 'a'",
    "coalesce(name, 'a') = 'a'"),
    ("hour(free)", "NOT (name BETWEEN 'a' AND strftime(free, '%H'))"), ("hour(free)", "free IS NOT NULL OR name = 'a'"),
    ("CASE WHEN hour(free) > 5 THEN 1 END", "free IS NOT NULL"), ("nullif(hour(free), 3)", "free IS NOT NULL"),
    ("TRY_CAST(name AS BOOLEAN)", "name IS NOT NULL"),
]  # fmt: skip


@pytest.mark.parametrize("key", NEVER_NULL)
def test_a_key_of_columns_that_are_never_null_has_no_null(key: str, session: dpsql.Session) -> None:
    listed = values_of(session, f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k")
    assert listed is not None and None not in listed


@pytest.fixture(scope="module")
def unverified() -> Iterator[dpsql.Session]:
    """A promise that nobody checked, and columns of which nothing is said."""
    columns: dict[str, Any] = {**COLUMNS, "seen": {**MOMENTS, "nullable": False}, "name": {"values": ["a", "b"]}}
    columns["since"] = {"min": date(2020, 3, 1)}
    policy = dpsql.Policy.from_dict(
        {"budget": {"epsilon": 1e12}, "privacy": {"max_rows": 9}, "tables": {"t": {"unit": "uid", "columns": columns}}}
    )
    with dpsql.connect(policy, sources={"t": SCHEMA.empty_table()}, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize(("key", "condition"), CONDITIONS)
def test_a_condition_that_null_cannot_meet_leaves_no_null(key: str, condition: str, unverified: dpsql.Session) -> None:
    listed = values_of(unverified, f"SELECT {key} AS k, COUNT(*) FROM t WHERE {condition} GROUP BY k")
    assert listed and None not in listed


@pytest.mark.parametrize(("key", "condition"), [*OPEN, ("hour(seen)", "TRUE")])
def test_what_may_be_null_has_a_null(key: str, condition: str, unverified: dpsql.Session) -> None:
    """Unverified promises prove nothing, nor do conditions that NULL can meet."""
    listed = values_of(unverified, f"SELECT {key} AS k, COUNT(*) FROM t WHERE {condition} GROUP BY k")
    assert listed and listed[-1] is None


HINTS = {
    "strftime(free, '%Y-%m')": "give free a min and a max in the policy: [tables.t.columns] free = { min = …, max = … "
    "}; then the values of STRFTIME(free, '%Y-%m') are public",
    "strftime(since, '%Y-%m')": "give since a max in the policy: [tables.t.columns] since = { min = 2020-03-01, max "
    "= … }; then the values of STRFTIME(since, '%Y-%m') are public",
    "since": "give since a max in the policy: [tables.t.columns] since = { min = 2020-03-01, max = … }",
    "free": "give free a min and a max in the policy: [tables.t.columns] free = { min = …, max = … }, and group by "
    "DATE_TRUNC('month', free)",
    "left(CAST(long AS VARCHAR), 19)": "group by something coarser: DATE_TRUNC('month', long)",
}


@pytest.mark.parametrize("key", HINTS)
def test_a_hint_names_the_column_and_the_end_that_it_lacks(key: str, unverified: dpsql.Session) -> None:
    with pytest.raises(dpsql.PrivacyError) as refused:
        unverified.explain(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k", epsilon=1)
    assert refused.value.hint is not None and refused.value.hint.splitlines()[0] == HINTS[key]


# ---------------------------------------------------------------- rows that break the policy's word


def broken() -> pa.Table:
    """One person each: within the range, at its ends, outside of it, before Christ, infinite, NULL."""
    moments = [
        "2020-02-29 10:00:00", "2019-12-20 07:30:00", "2021-01-10 18:45:00", "2021-02-01 10:00:00",
        "1999-05-05 05:00:00",
        "0044-03-15 (BC) 12:00:00", "99999-01-01 00:00:00", "infinity", "-infinity", None,
    ]  # fmt: skip
    days = [None if m is None else m[:10] + (" (BC)" if "BC" in m else "") for m in moments]
    days[6:9] = ["99999-01-01", "infinity", "-infinity"]
    with duckdb.connect() as connection:
        rows = ", ".join(
            f"({i}, {_quoted(m)}::TIMESTAMP, {_quoted(d)}::DATE)"
            for i, (m, d) in enumerate(zip(moments, days, strict=True))
        )
        connection.execute("SET TimeZone = 'UTC'")
        columns = "CAST(i AS BIGINT) AS uid, m AS seen, CAST(m AS TIMESTAMPTZ) AS zoned, d AS day"
        found: pa.Table = connection.sql(f"SELECT {columns} FROM (VALUES {rows}) AS v(i, m, d)").to_arrow_table()
        return found


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'"


BROKEN = [
    "strftime({}, '%Y-%m')", "dayname({})", "left(CAST({} AS VARCHAR), 7)", "'Q' || quarter({})", "CAST({} AS DATE)",
    "concat(year({0}), '-', month({0}))", "hour({})", "coalesce(monthname({}), 'none')", "yearweek({})",
]  # fmt: skip


@pytest.mark.parametrize("key", BROKEN)
@pytest.mark.parametrize("column", ["seen", "zoned", "day"])
@pytest.mark.parametrize("kind", ["parquet by pyarrow", "DuckDB file"])
def test_rows_keep_their_keys_and_those_of_no_public_value_are_dropped(
    kind: str, column: str, key: str, tmp_path: Path
) -> None:
    placed = KINDS[kind](broken(), tmp_path)
    columns = {name: COLUMNS[name] for name in ("seen", "zoned", "day")}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e12},
            "privacy": {"max_rows": 2, "max_rows_per_group": 1},
            "tables": {"t": {"unit": "uid", "columns": columns, **placed.entry}},
        }
    )
    written = key.format(column)
    with dpsql.connect(
        policy, sources={} if placed.object is None else {"t": placed.object}, ledger=":memory:"
    ) as session:
        answer = session.query(f"SELECT {written} AS k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1e9)
        listed = values_of(session, f"SELECT {written} AS k, COUNT(*) FROM t GROUP BY k")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", broken())
        # An infinite moment has no parts here, and none in DuckDB but in STRFTIME; a cast keeps it.
        there = column if "CAST" in key else f"CASE WHEN isfinite({column}) THEN {column} END"
        sql = f"SELECT {key.format(there)} AS k, COUNT(*) AS n FROM t GROUP BY k"
        exact = dict(connection.execute(sql).fetchall())
    assert listed is not None
    assert {k: n for k, n in answer.rows if n} == {k: n for k, n in exact.items() if k in listed}
