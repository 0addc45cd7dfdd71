"""Attacks that once worked: each has a query and two neighbouring data sets, and must not work again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect, cursor_of

import dpsql
from dpsql.backends.duckdb.run import execute

ROW = {"unit": "row"}


def outcome(session: dpsql.Session, sql: str, **options: Any) -> tuple[str, ...]:
    """What an analyst sees apart from the values: answered with this schema, or refused with this text."""
    try:
        answer = session.query(sql, epsilon=1, **options)
    except dpsql.Error as error:
        return type(error).__name__, str(error)
    return ("answered", str(answer.table.schema))


def same(connect: Connect, sql: str, one: pa.Table, other: pa.Table, table: dict[str, Any], **options: Any) -> None:
    seen = [
        outcome(connect({"t": rows}, {"tables": {"t": table}}, delta=1e-6), sql, **options) for rows in (one, other)
    ]
    assert seen[0] == seen[1]
    assert seen[0][0] == "answered", seen[0]


@pytest.mark.parametrize("sql", ["SELECT VAR_POP(x) FROM t WHERE x = 1", "SELECT STDDEV(5), SUM(x * 0) FROM t WHERE b"])
def test_the_variance_of_a_constant_does_not_fail_where_a_person_is(connect: Connect, sql: str) -> None:
    table = {**ROW, "columns": {"x": {"min": 0, "max": 9}}}
    one = pa.table({"x": [0.0], "b": [False]})
    same(connect, sql, one, pa.table({"x": [0.0, 1.0], "b": [False, True]}), table)


def test_a_decimal_inside_its_range_does_not_overflow(connect: Connect) -> None:
    table = {**ROW, "columns": {"d": {"min": -1000, "max": 1000}}}
    one, other = (
        pa.table({"d": pa.array([Decimal(v) for v in rows], pa.decimal128(18, 8))}) for rows in ((1,), (1, 950))
    )
    same(connect, "SELECT SUM(d), AVG(d) FROM t", one, other, table)


def test_listed_values_that_are_one_value_make_one_cell(connect: Connect) -> None:
    table = {**ROW, "columns": {"f": {"values": [0.1, 0.1000000001]}}}
    session = connect({"t": pa.table({"f": pa.array([0.1], pa.float32())})}, {"tables": {"t": table}})
    assert session.explain("SELECT f, COUNT(*) FROM t GROUP BY f", epsilon=1).steps[0].count == 2  # and NULL


def test_a_private_key_of_rows_is_answered_and_counts_rows(connect: Connect) -> None:
    rows = pa.table({"x": ["a"] * 500 + ["b"]})
    session = connect({"t": rows}, {"tables": {"t": ROW}}, delta=1e-6)
    answer = session.query("SELECT x, COUNT(*) FROM t GROUP BY x", epsilon=1, delta="1e-6")
    assert [row[0] for row in answer.rows] == ["a"]


def test_which_zero_a_group_shows_does_not_depend_on_a_row(connect: Connect) -> None:
    people: dict[str, list[Any]] = {"id": list(range(300)), "x": [1.0] * 300}
    sql = "SELECT x * 0e0 AS k, COUNT(DISTINCT id) FROM t GROUP BY k"
    for extra in (-5.0, float("-inf"), float("nan")):
        rows = pa.table({"id": [*people["id"], 1000], "x": [extra, *people["x"]]})
        session = connect({"t": rows}, {"tables": {"t": {"unit": "id"}}}, delta=1e-6)
        keys = {str(row[0]) for row in session.query(sql, epsilon=5, delta="1e-6", max_groups=1).rows}
        assert keys == {"0.0"}


def test_a_wide_integer_key_is_compared_in_its_own_type(connect: Connect) -> None:
    table = {**ROW, "columns": {"i": {"min": 0, "max": 4}}}
    one, other = (pa.table({"i": pa.array(rows, pa.int64())}) for rows in ([1, 2], [1, 2, 2**63 - 1]))
    same(connect, "SELECT -(i * i) - (i // 2) * i AS g, COUNT(*) FROM t GROUP BY g", one, other, table)


def test_a_range_wider_than_its_type_makes_no_cells_that_cannot_occur(connect: Connect) -> None:
    table = {**ROW, "columns": {"i": {"min": -5, "max": 1000}}}
    session = connect({"t": pa.table({"i": pa.array([1], pa.uint8())})}, {"tables": {"t": table}})
    assert session.explain("SELECT i, COUNT(*) FROM t GROUP BY i", epsilon=1).steps[0].count == 257


@pytest.mark.parametrize("values", [pa.array([0.0, -0.0]), pa.array([[1], [2]])])
def test_a_unit_whose_equal_values_look_different_is_refused(connect: Connect, values: pa.Array) -> None:
    with pytest.raises(dpsql.PolicyError, match="can't tell units apart"):
        connect({"t": pa.table({"u": values})}, {"tables": {"t": {"unit": "u"}}})


def test_a_collation_merges_no_keys(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as db:
        db.execute("CREATE TABLE t (k VARCHAR COLLATE NOCASE)")
        db.execute("INSERT INTO t VALUES ('a')")
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "d.duckdb"\ntable = "main.t"\nunit = "row"\n'
        '[tables.t.columns]\nk = { values = ["a", "A"] }\n'
    )
    with dpsql.connect(tmp_path / "policy.toml", ledger=":memory:") as session:
        step = session.explain("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1).steps[0]
        cursor = cursor_of(session)
        assert sum(next(iter(execute(step, cursor).tallies.values()))) == 1
        cursor.close()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(pa.array(["1", "abc"]), pa.array([1, 2])), (pa.array([2.0**53, 1.0]), pa.array([2**53, 2**53 + 1]))],
)
def test_linked_columns_of_different_types_are_refused(connect: Connect, ours: pa.Array, theirs: pa.Array) -> None:
    policy = {"tables": {"o": {"unit": "c", "key": "k"}, "l": {"unit": {"through": "o", "on": {"k": "k"}}}}}
    tables = {"o": pa.table({"k": theirs, "c": [1, 2]}), "l": pa.table({"k": ours})}
    with pytest.raises(dpsql.PolicyError, match="is"):
        connect(tables, policy)


def test_rows_per_unit_of_a_linked_table_is_always_enforced(connect: Connect) -> None:
    linked = {"unit": {"through": "o", "on": {"k": "k"}}, "rows_per_unit": 1}
    policy = {"tables": {"o": {"unit": "c", "key": "k"}, "l": linked}}
    session = connect({"o": pa.table({"k": [1], "c": [7]}), "l": pa.table({"k": [1] * 100})}, policy)
    from dpsql.refresh.promises import verify

    engine = session._engine
    for name, table in engine.policy.tables.items():
        for finding in verify(engine, table):
            engine.ledger.record_promise(name, finding.promise, engine.versions()[name], finding.holds)
    assert session.explain("SELECT COUNT(*) FROM l", epsilon=1).steps[0].checked.bounding.mass == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 2**62], pa.timestamp("ms", "UTC")),
        pa.array([0, 2**62], pa.time64("ns")),
        pa.array([b"a", b"\xff\xfe"], pa.binary()).cast(pa.string(), safe=False),
    ],
)
def test_a_value_that_cannot_be_read_refuses_the_table_or_its_column(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"v": column}), tmp_path / "t.parquet")
    unlisted = '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "t.parquet"\nunit = "row"\n'
    (tmp_path / "policy.toml").write_text(unlisted + "[tables.t.columns]\nv = {}\n")
    with pytest.raises(dpsql.DataError, match="can't be read"):
        dpsql.connect(tmp_path / "policy.toml", ledger=":memory:")
    (tmp_path / "policy.toml").write_text(unlisted)
    with dpsql.connect(tmp_path / "policy.toml", ledger=":memory:") as session:
        for sql in ("SELECT COUNT(v) FROM t", "SELECT COUNT(v) FROM t WHERE 1 = 0"):
            with pytest.raises(dpsql.DataError, match="can't be read"):
                session.query(sql, epsilon=1)
        assert session.budget.spent.epsilon == 0


def test_files_of_different_types_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array([2**40], pa.int64())}), tmp_path / "b.parquet")
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "*.parquet"\nunit = "row"\n'
    )
    with pytest.raises(dpsql.DataError, match="different columns or types"):
        dpsql.connect(tmp_path / "policy.toml", ledger=":memory:")


def test_times_with_a_zone_are_read(connect: Connect) -> None:
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    rows = pa.table({"v": pa.array([noon], pa.timestamp("us", "UTC"))})
    assert connect({"t": rows}, {"tables": {"t": ROW}}).query("SELECT COUNT(v) FROM t", epsilon=10**6).rows == [(1,)]


DOUBLING = "WITH c0 AS (SELECT x FROM t), " + ", ".join(
    f"c{i} AS (SELECT x + x AS x FROM c{i - 1})" for i in range(1, 30)
)
BOMBS = {
    "columns of columns": f"{DOUBLING} SELECT SUM(x) FROM c29",
    "aliases of aliases": "SELECT x AS a0, "
    + ", ".join(f"a{i - 1} + a{i - 1} AS a{i}" for i in range(1, 40))
    + " FROM t",
    "a long IN list": f"SELECT COUNT(*) FROM t WHERE x IN ({', '.join(map(str, range(15_000)))})",
    "many keys": f"SELECT COUNT(*) FROM t GROUP BY {', '.join(f'x + {i}' for i in range(3_000))}",
    "many aggregates": f"SELECT {', '.join(f'SUM(x + {i})' for i in range(300))} FROM t",
    "numbers that no double holds": "SELECT COUNT(*) FROM t WHERE POWER(x, 64) > 1e400",
    "a range that no double holds": "SELECT SUM(CLIP(x, 0, 1e399)) FROM t",
    "a query in VALUES": "SELECT * FROM (VALUES ((SELECT COUNT(*) FROM t)))",
    "an unread CTE": "WITH z AS (SELECT getenv('HOME')) SELECT COUNT(*) FROM t",
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.sample(3)
def test_a_query_that_would_never_end_or_break_us_is_refused_before_it_is_paid(connect: Connect, name: str) -> None:
    session = connect({"t": pa.table({"x": [1.0]})}, {"tables": {"t": {**ROW, "columns": {"x": {"min": 0, "max": 9}}}}})
    with pytest.raises((dpsql.SQLError, dpsql.PrivacyError)):
        session.query(BOMBS[name], epsilon=1)
    assert session.budget.spent.epsilon == 0


def test_tables_may_be_called_like_our_own_parts(connect: Connect) -> None:
    for name in ("cells", "owned", "heavy", "r0", "g"):
        table = {"unit": "u", "columns": {"i": {"min": 0, "max": 3}}}
        rows = pa.table({"u": [1, 1, 2], "i": [1, 2, 3]})
        session = connect({name: rows}, {"tables": {name: table}})
        sql = f"SELECT i, COUNT(*), COUNT(DISTINCT u) FROM {name} GROUP BY i"
        assert session.query(sql, epsilon=10**6, max_rows=9, max_groups=9).rows[1:4] == [
            (1, 1, 1),
            (2, 1, 1),
            (3, 1, 1),
        ]


def test_integers_never_wrap_around_before_they_get_noise() -> None:
    from dpsql.core.grid import Grid
    from dpsql.statistics.base import Value
    from dpsql.statistics.sums import Joint, Sum

    top = 2**40 - 1
    value = Value("v", Grid(Fraction(1), 0, top, "integer"), True, "x")
    for rows in (2**22, 2**23, 2**24):  # 2^63 is passed on the way
        n = np.array([rows], dtype=np.int64)
        total = np.array([rows * top], dtype=object)
        assert [int(c[0]) for c in Joint(value, None, True).columns([total, n, n + 1])] == [rows * top, 0, top]
        assert int(Sum(value, None, True).columns([total, n])[0][0]) == rows * top - rows * (top // 2)


@pytest.mark.parametrize(
    "key",
    ["CASE WHEN x > 1 THEN 'a' END", "CASE WHEN x > 1 THEN 1 ELSE 2.5 END", "CASE WHEN x > 1 THEN 1 ELSE 2e0 END"],
)
def test_a_case_key_takes_arms_of_several_types(connect: Connect, key: str) -> None:
    session = connect(
        {"t": pa.table({"x": [0.0, 2.0]})}, {"tables": {"t": {**ROW, "columns": {"x": {"min": 0, "max": 9}}}}}
    )
    rows = session.query(f"SELECT {key} AS g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > 0", epsilon=10**6).rows
    assert [count for _, count in rows] == [1, 1]


@pytest.mark.parametrize("key", ["NULL", "CASE WHEN x > 1 THEN NULL END"])
def test_a_key_that_is_always_null_is_refused(connect: Connect, key: str) -> None:
    session = connect({"t": pa.table({"x": [0.0, 2.0]})}, {"tables": {"t": ROW}})
    with pytest.raises(dpsql.SQLError, match="group key"):
        session.query(f"SELECT {key} AS g, COUNT(*) FROM t GROUP BY g", epsilon=1)


def test_a_promise_is_verified_for_the_types_it_was_looked_at_with() -> None:
    from dpsql.analyze.ownership import key_promise, nullable_promise, rows_promise

    names = []
    for kind in ("VARCHAR", "INTEGER"):  # '1' and '01' are two units as text and one as a number
        columns = {"id": {"type": kind, "nullable": False}}
        table = {"unit": "id", "rows_per_unit": 1, "key": "id", "columns": columns}
        policy = dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0}, "tables": {"t": table}})
        found = policy.tables["t"]
        names.append({rows_promise(found), key_promise(found), nullable_promise(found, "id")})
    assert not names[0] & names[1]
