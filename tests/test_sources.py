"""Where rows come from: parquet, CSV, DuckDB files and Python objects, with every kind of name."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.refresh.refresh import refresh
from dpsql.steward.check import check

EXACT = 10**6  # so much ε that the noise is 0
BAD = 'x"; DROP TABLE t; --'
NAMES = ["plain", "with space", 'with "quotes"', "it's", "größe·日本", BAD, "semi;colon", "100%", "[a]"]

Open = Callable[..., dpsql.Session]

PEOPLE = pa.table({"id": [1, 2, 3, 4], "age": [10, 20, 30, None], "k": ["a", "b", "a", None]})
COLUMNS = {"age": {"min": 0, "max": 100}, "k": {"values": ["a", "b"]}}
CSV_COLUMNS = {"age": {"type": "INTEGER", "min": 0, "max": 100}, "k": {"type": "VARCHAR", "values": ["a", "b"]}}


@pytest.fixture
def open_policy(tmp_path: Path) -> Iterator[Open]:
    """open_policy(tables): a session over files in tmp_path, with an account in a file there."""
    opened: list[dpsql.Session] = []

    def make(tables: dict[str, Any], *, ledger: str | Path = ":memory:") -> dpsql.Session:
        policy = dpsql.Policy.from_dict({"budget": {"epsilon": 10**9, "delta": 0}, "tables": tables}, folder=tmp_path)
        opened.append(dpsql.connect(policy, ledger=ledger))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


def one(session: dpsql.Session, sql: str) -> tuple[Any, ...]:
    rows = session.query(sql, epsilon=EXACT).rows
    assert len(rows) == 1
    return rows[0]


def private(source: str, columns: dict[str, Any] = COLUMNS, **more: Any) -> dict[str, Any]:
    return {"source": source, "unit": "row", "columns": columns, **more}


# ---------------------------------------------------------------- parquet


def test_a_parquet_file_is_read(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    session = open_policy({"t": private("t.parquet")})
    assert one(session, "SELECT COUNT(*), COUNT(age), SUM(age), AVG(age) FROM t") == (4, 3, 60, 20.0)
    assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=EXACT).rows == [("a", 2), ("b", 1), (None, 1)]


def test_a_glob_of_parquet_files_is_one_table(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    for n in range(5):
        pq.write_table(PEOPLE, tmp_path / "part" / f"{n}.parquet")
    pq.write_table(PEOPLE, tmp_path / "part" / "not.this")
    session = open_policy({"t": private("part/*.parquet")})
    assert one(session, "SELECT COUNT(*), SUM(age) FROM t") == (20, 300)


def test_folders_of_a_glob_add_no_column(open_policy: Open, tmp_path: Path) -> None:
    for k in ("a", "b"):
        (tmp_path / f"year=202{len(k)}-{k}").mkdir()
        pq.write_table(PEOPLE, tmp_path / f"year=202{len(k)}-{k}" / "x.parquet")
    session = open_policy({"t": private("*/x.parquet")})
    assert one(session, "SELECT COUNT(*) FROM t") == (8,)
    with pytest.raises(dpsql.SQLError) as error:
        session.query("SELECT COUNT(year) FROM t", epsilon=1)
    assert error.value.code == "unknown-column"


def test_all_types_of_parquet_are_understood(open_policy: Open, tmp_path: Path) -> None:
    data = pa.table(
        {
            "d": pa.array([Decimal("1.25"), Decimal("2.50")], pa.decimal128(9, 2)),
            "f": pa.array([0.5, 1.5], pa.float32()),
            "u": pa.array([1, 255], pa.uint8()),
            "day": pa.array([date(2024, 1, 1), date(2024, 1, 2)]),
            "ts": pa.array([datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 7)], pa.timestamp("ns")),
            "e": pa.array(["x", "y"]).dictionary_encode(),
            "b": pa.array([True, False]),
            "list": pa.array([[1], [2, 3]]),
        }
    )
    pq.write_table(data, tmp_path / "t.parquet")
    bounds: dict[str, Any] = {
        "d": {"min": 0, "max": 5},
        "f": {"min": 0, "max": 2},
        "u": {"min": 0, "max": 255},
        "day": {"min": date(2024, 1, 1), "max": date(2024, 1, 2)},
        "ts": {"min": datetime(2024, 1, 1), "max": datetime(2024, 1, 2)},
        "e": {"values": ["x", "y"]},
    }
    session = open_policy({"t": private("t.parquet", bounds)})
    total, f, u = one(session, "SELECT SUM(d), SUM(f), SUM(u) FROM t")
    assert (total, u) == (Decimal("3.75"), 256) and f == pytest.approx(2, abs=1e-3)
    assert session.query("SELECT day, COUNT(*) FROM t WHERE day IS NOT NULL GROUP BY day", epsilon=EXACT).rows == [
        (date(2024, 1, 1), 1),
        (date(2024, 1, 2), 1),
    ]
    rows = session.query("SELECT e, b, COUNT(*) AS n FROM t GROUP BY e, b HAVING COUNT(*) > 0", epsilon=EXACT).rows
    assert rows == [("x", True, 1), ("y", False, 1)]
    assert one(session, "SELECT COUNT(*) FROM t WHERE HOUR(ts) = 5") == (1,)


@pytest.mark.parametrize(
    "folders", [("year=2023", "year=2024"), ("year=old", "year=2024"), ("year=2024", "YEAR=%32023")]
)
def test_folders_make_columns_of_the_types_that_the_policy_gives_them(
    tmp_path: Path, open_policy: Any, folders: tuple[str, str]
) -> None:
    """One folder's name changes no type (attack 37); what isn't of the type is NULL."""
    for i, folder in enumerate(folders):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": [i, i], "x": [1.0, 2.0]}), tmp_path / folder / "part.parquet")
    session = open_policy({"t": private("*/part.parquet", {"year": {"type": "INTEGER", "min": 2020, "max": 2030}})})
    counted = "SELECT COUNT(*) FROM t WHERE year"
    assert session.query(f"{counted} = 2024", epsilon=10**6).rows == [(2,)]
    assert session.query(f"{counted} IS NULL", epsilon=10**6).rows == [(2 if "year=old" in folders else 0,)]
    assert dict(session._engine.schema["t"])["year"] == "INTEGER"


def test_a_column_of_the_file_itself_is_not_replaced_by_its_folder(tmp_path: Path, open_policy: Any) -> None:
    (tmp_path / "year=1999").mkdir()
    pq.write_table(pa.table({"year": [2024, 2024]}), tmp_path / "year=1999" / "part.parquet")
    session = open_policy({"t": private("*/part.parquet", {"year": {"type": "BIGINT", "min": 2020, "max": 2030}})})
    assert session.query("SELECT COUNT(*) FROM t WHERE year = 2024", epsilon=10**6).rows == [(2,)]


@pytest.mark.parametrize("folder", ["s=%FF", "s=M%FCnchen", "s=%ED%A0%80"])
def test_a_folder_whose_name_is_not_utf8_is_refused_when_it_is_opened(
    tmp_path: Path, open_policy: Open, folder: str
) -> None:
    for name in ("s=a", folder):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": [1]}), tmp_path / name / "part.parquet")
    with pytest.raises(dpsql.DataError) as error:
        open_policy({"t": private("*/part.parquet", {"s": {"type": "VARCHAR"}})})
    assert error.value.code == "unreadable"


# ---------------------------------------------------------------- CSV


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "id,age,k\n1,10,a\n2,20,b\n3,30,a\n4,,\n"),
        ("t.csv", '"id","age","k"\n"1","10","a"\n"2","20","b"\n3,30,a\n4,,\n'),
        ("t.csv", "id,age,k\r\n1,10,a\r\n2,20,b\r\n3,30,a\r\n4,,\r\n"),
        ("t.csv", "\ufeffid,age,k\n1,10,a\n2,20,b\n3,30,a\n4,,\n"),
        ("t.csv", "id,age,k\n1,10,a\n2,20,b\n3,30,a\n4,,"),
        ("t.tsv", "id\tage\tk\n1\t10\ta\n2\t20\tb\n3\t30\ta\n4\t\t\n"),
        ("t.csv.gz", "id,age,k\n1,10,a\n2,20,b\n3,30,a\n4,,\n"),
        ("t.tsv.gz", "id\tage\tk\n1\t10\ta\n2\t20\tb\n3\t30\ta\n4\t\t\n"),
    ],
    ids=["plain", "quoted", "crlf", "bom", "no last newline", "tsv", "gz", "tsv.gz"],
)
@pytest.mark.sample(3)
def test_a_csv_file_is_read(name: str, text: str, open_policy: Open, tmp_path: Path) -> None:
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    session = open_policy({"t": private(name, CSV_COLUMNS)})
    assert one(session, "SELECT COUNT(*), COUNT(age), SUM(age) FROM t") == (4, 3, 60)
    assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=EXACT).rows == [("a", 2), ("b", 1), (None, 1)]


def test_quoted_fields_keep_commas_quotes_and_newlines(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('k,n\n"a,b",1\n"say ""x""",2\n"two\nlines",4\n')
    values = ["a,b", 'say "x"', "two\nlines"]
    columns = {"k": {"type": "VARCHAR", "values": values}, "n": {"type": "INTEGER", "min": 0, "max": 9}}
    session = open_policy({"t": private("t.csv", columns)})
    rows = session.query("SELECT k, SUM(n) FROM t WHERE k IS NOT NULL GROUP BY k", epsilon=EXACT).rows
    assert rows == [("a,b", 1), ('say "x"', 2), ("two\nlines", 4)]


def test_a_malformed_value_is_null_and_its_row_still_counts(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,k\n10,a\nten,a\n1e1,b\n99999999999,b\n 20 ,a\n,a\n")
    session = open_policy({"t": private("t.csv", CSV_COLUMNS)})
    rows, ages, total = one(session, "SELECT COUNT(*), COUNT(age), SUM(age) FROM t")
    assert rows == 6
    values = "unnest(['10', 'ten', '1e1', '99999999999', ' 20 ', NULL])"
    with duckdb.connect(":memory:") as plain:
        cast = f"SELECT TRY_CAST({values} AS INTEGER) AS x"
        expected = plain.execute(f"SELECT COUNT(x), SUM(x) FROM ({cast})").fetchall()
    assert [(ages, total)] == expected


@pytest.mark.parametrize(
    ("kind", "cells", "expected"),
    [
        ("BIGINT", ["9007199254740993", "x"], 9007199254740993),
        ("DECIMAL(9,2)", ["1.25", "2.50"], Decimal("3.75")),
        ("DOUBLE", ["0.5", "nan", "inf", "1e999", "1.5"], 2.0),
        ("BOOLEAN", ["true", "false", "t", "maybe"], 2),
        ("UTINYINT", ["255", "256", "-1"], 255),
    ],
)
def test_types_of_csv_columns_are_those_of_the_policy(
    kind: str, cells: list[str], expected: Any, open_policy: Open, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["c", *cells]) + "\n")
    bounds = {} if kind == "BOOLEAN" else {"min": 0, "max": 2**54 if kind == "BIGINT" else 1000}
    session = open_policy({"t": private("t.csv", {"c": {"type": kind, **bounds}})})
    call = "SUM(c::INTEGER)" if kind == "BOOLEAN" else "SUM(c)"
    epsilon = 10**9 if kind == "BIGINT" else EXACT
    rows, total = session.query(f"SELECT COUNT(*), {call} FROM t", epsilon=epsilon / 2).rows[0]
    assert rows == len(cells)
    noise = {"BIGINT": 2**30, "DECIMAL(9,2)": Decimal("0.4"), "DOUBLE": 0.4}.get(kind, 0)  # 100 noise scales
    assert abs(total - expected) <= noise


def test_a_column_of_a_csv_that_the_policy_does_not_list_is_refused_with_the_way_out(
    open_policy: Open, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("id,age,k,extra\n1,10,a,5\n")
    session = open_policy({"t": private("t.csv", CSV_COLUMNS)})
    with pytest.raises(dpsql.SQLError) as error:
        session.query("SELECT COUNT(extra) FROM t", epsilon=1)
    assert error.value.code == "unknown-column" and "has to be listed" in str(error.value.hint)
    assert error.value.span == dpsql.Span(1, 14, 5)
    assert "extra" in str(error.value.hint) and "type" in str(error.value.hint)  # list it in the policy with its type


def test_a_listed_column_that_the_csv_lacks_is_a_policy_error(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,agee,k\n1,10,a\n")
    with pytest.raises(dpsql.PolicyError) as error:
        open_policy({"t": private("t.csv", CSV_COLUMNS)})
    assert "tables.t.columns.age" in error.value.message
    assert error.value.hint


def test_a_glob_of_csv_files_is_one_table(open_policy: Open, tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.csv").write_text(f"id,age,k\n{n},{n * 10},a\n")
    session = open_policy({"t": private("*.csv", CSV_COLUMNS)})
    assert one(session, "SELECT COUNT(*), SUM(age) FROM t") == (3, 30)


def test_csv_files_with_different_headers_are_refused(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,age,k\n1,10,a\n")
    (tmp_path / "2.csv").write_text("id,k,age\n1,a,10\n")
    with pytest.raises(dpsql.DataError) as error:
        open_policy({"t": private("*.csv", CSV_COLUMNS)})
    assert error.value.code == "headers" and error.value.hint


def test_a_public_csv_needs_no_types(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,label\na,Alpha\nb,Beta\n")
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    tables = {
        "t": private("t.parquet", {"k": {"references": "codes.code"}}),
        "codes": {"source": "codes.csv", "public": True},
    }
    session = open_policy(tables)
    sql = "SELECT label, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) r JOIN codes ON code = k ORDER BY label"
    assert session.query(sql, epsilon=EXACT).rows == [("Alpha", 2), ("Beta", 1)]


# ---------------------------------------------------------------- DuckDB files


def test_tables_of_a_duckdb_file_are_read(open_policy: Open, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.execute("CREATE SCHEMA s")
        db.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        db.execute("CREATE TABLE main.a AS SELECT range AS n, 'ok'::mood AS m, range::HUGEINT AS h FROM range(10)")
        db.execute('CREATE TABLE s."my table" AS SELECT 7 AS n FROM range(3)')
    bounds = {"n": {"min": 0, "max": 9}}
    tables = {
        "a": private(
            "shop.duckdb", {**bounds, "m": {"values": ["ok", "sad"]}, "h": {"min": 0, "max": 9}}, table="main.a"
        ),
        "b": private("shop.duckdb", bounds, table="s.my table"),
    }
    session = open_policy(tables)
    assert one(session, "SELECT COUNT(*), SUM(n), SUM(h) FROM a") == (10, 45, 45)
    assert one(session, "SELECT COUNT(*), SUM(n) FROM b") == (3, 21)
    rows = session.query("SELECT m, COUNT(*) FROM a WHERE m IS NOT NULL GROUP BY m", epsilon=EXACT).rows
    assert rows == [("ok", 10), ("sad", 0)]


@pytest.mark.parametrize("named", ["v", "V", "main.v", "s.w", "g"])
def test_rows_that_a_duckdb_file_computes_when_they_are_read_are_refused(
    open_policy: Open, tmp_path: Path, named: str
) -> None:
    """Its rows may be others each time (random(), DISTINCT ON, ties), and statements may read them more than once."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.execute("CREATE SCHEMA s")
        db.execute("CREATE TABLE a AS SELECT range AS n FROM range(10)")
        db.execute("CREATE VIEW v AS SELECT * FROM a WHERE random() < 0.5")
        db.execute("CREATE TABLE g (n INTEGER, m AS (random()))")
        db.execute("CREATE VIEW s.w AS SELECT DISTINCT ON (n % 2) * FROM main.a")
    for table in (private("shop.duckdb", {}, table=named), {"source": "shop.duckdb", "table": named, "public": True}):
        with pytest.raises(dpsql.DataError) as error:
            open_policy({"t": table})
        assert error.value.code == "unreadable" and "computed anew" in error.value.message
        assert error.value.hint is not None and f"SELECT * FROM {named}" in error.value.hint


def test_a_missing_table_of_a_duckdb_file_is_refused_when_it_is_opened(open_policy: Open, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.execute("CREATE TABLE a AS SELECT 1 AS n")
    with pytest.raises(dpsql.DataError) as error:
        open_policy({"t": private("shop.duckdb", {}, table="main.b")})
    assert error.value.code == "unreadable" and "tables.t" in error.value.message


# ---------------------------------------------------------------- objects of Python


def as_pandas() -> Any:
    return PEOPLE.to_pandas()


def as_polars() -> Any:
    import polars

    return polars.from_arrow(PEOPLE)


def as_lazy_polars() -> Any:
    return as_polars().lazy()


def as_batch() -> Any:
    return PEOPLE.combine_chunks().to_batches()[0]


def as_chunks() -> Any:
    return pa.concat_tables([PEOPLE.slice(0, 2), PEOPLE.slice(2)])


@pytest.mark.parametrize("make", [lambda: PEOPLE, as_pandas, as_polars, as_lazy_polars, as_batch, as_chunks])
@pytest.mark.sample(2)
def test_arrow_pandas_and_polars_objects_are_tables(make: Callable[[], Any], connect: Connect) -> None:
    columns = {"age": {"min": 0, "max": 100}, "k": {"values": ["a", "b"]}}
    session = connect({"t": make()}, {"tables": {"t": {"unit": "row", "columns": columns}}})
    rows, total = one(session, "SELECT COUNT(*), SUM(age) FROM t")
    assert rows == 4 and total == pytest.approx(60, abs=0.01)
    assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=EXACT).rows == [("a", 2), ("b", 1), (None, 1)]


def test_the_index_of_a_pandas_frame_is_no_column(connect: Connect) -> None:
    frame = as_pandas().set_index("id")
    session = connect({"t": frame}, {"tables": {"t": {"unit": "row"}}})
    assert one(session, "SELECT COUNT(*) FROM t") == (4,)
    with pytest.raises(dpsql.SQLError):
        session.query("SELECT COUNT(id) FROM t", epsilon=1)


def test_an_object_that_is_no_table_is_refused(connect: Connect) -> None:
    import pandas

    for wrong in ([1, 2], {"a": [1]}, "t.parquet", 5, pandas.Series([1])):
        with pytest.raises(dpsql.PolicyError) as error:
            connect({"t": wrong}, {"tables": {"t": {"unit": "row"}}})
        assert error.value.code == "bad-source" and error.value.hint


def test_an_object_that_the_policy_does_not_name_is_refused(connect: Connect) -> None:
    with pytest.raises(dpsql.PolicyError) as error:
        connect({"t": PEOPLE, "tt": PEOPLE}, {"tables": {"t": {"unit": "row"}}})
    assert error.value.code == "unknown-source" and error.value.hint == "did you mean t?"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sample(3)
def test_any_name_of_a_file_a_table_and_a_column_works(name: str, open_policy: Open, tmp_path: Path) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    file = name.replace("/", "_")
    escaped = "".join(f"[{c}]" if c in "[]*?" else c for c in file)  # a source is a glob
    pq.write_table(pa.table({name: ["a", "b", "a"]}), tmp_path / f"{file}.parquet")
    (tmp_path / f"{file}.csv").write_text(quoted(name) + "\na\nb\na\n")
    with duckdb.connect(str(tmp_path / f"{file}.duckdb")) as db:
        db.execute(f"CREATE TABLE d AS SELECT unnest(['a', 'b', 'a']) AS {quoted(name)}")
    columns = {name: {"type": "VARCHAR", "values": ["a", "b"]}}
    session = open_policy(
        {
            f"{name} p": private(f"{escaped}.parquet", columns),
            f"{name} c": private(f"{escaped}.csv", columns),
            f"{name} d": private(f"{escaped}.duckdb", columns, table="d"),
        }
    )
    for suffix in "pcd":
        sql = f"SELECT {quoted(name)}, COUNT(*) AS {quoted(name + '!')} FROM {quoted(f'{name} {suffix}')} GROUP BY ALL"
        answer = session.query(sql, epsilon=EXACT)
        assert answer.columns == [name, f"{name}!"]
        assert answer.rows == [("a", 2), ("b", 1), (None, 0)]


def test_names_are_case_insensitive_and_the_datas_own_case_is_kept(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(pa.table({"Age": [5], "K": ["a"]}), tmp_path / "t.parquet")
    session = open_policy({"People": private("t.parquet", {"AGE": {"min": 0, "max": 9}, "k": {"values": ["a"]}})})
    answer = session.query('SELECT k, sum(aGe) FROM PEOPLE GROUP BY "K"', epsilon=EXACT)
    assert answer.rows == [("a", 5), (None, 0)]
    assert answer.columns[0] == "K"


def test_two_columns_that_differ_only_in_case_are_refused(connect: Connect) -> None:
    data = pa.table([pa.array([1]), pa.array([2])], names=["a", "A"])
    with pytest.raises(dpsql.DataError) as error:
        connect({"t": data}, {"tables": {"t": {"unit": "row"}}})
    assert error.value.code == "duplicate-column"


# ---------------------------------------------------------------- files that are missing or changed


@pytest.mark.parametrize("source", ["no.parquet", "no.csv", "no*.parquet", "no.duckdb"])
def test_a_missing_file_is_refused(source: str, open_policy: Open) -> None:
    more = {"table": "t"} if source.endswith("duckdb") else {}
    with pytest.raises((dpsql.DataError, dpsql.PolicyError)) as error:
        open_policy({"t": private(source, {}, **more)})
    assert source in error.value.message and error.value.hint


def test_a_file_that_is_no_parquet_is_refused_without_quoting_it(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("the secret of n77")
    with pytest.raises(dpsql.DataError) as error:
        open_policy({"t": private("t.parquet", {})})
    assert error.value.code == "unreadable" and "secret" not in str(error.value)
    assert error.value.__cause__ is None and error.value.__suppress_context__


def test_a_csv_that_is_no_text_is_refused_without_quoting_it(open_policy: Open, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00secret")
    with pytest.raises(dpsql.Error) as error:
        open_policy({"t": private("t.csv", CSV_COLUMNS)})
    assert isinstance(error.value, dpsql.DataError | dpsql.PolicyError)


def rewrite(path: Path, data: pa.Table) -> None:
    pq.write_table(data, path)
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))  # as if it were later


def test_a_session_that_is_refused_while_it_is_opened_leaves_no_ledger_open(
    open_policy: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    ledger, tables = tmp_path / "ledger.sqlite", {"t": private("t.parquet")}
    open_policy(tables, ledger=ledger)
    rewrite(tmp_path / "t.parquet", PEOPLE.slice(0, 3))
    closed: list[Ledger] = []
    monkeypatch.setattr(Ledger, "close", lambda self: closed.append(self))
    with pytest.raises(dpsql.LedgerError) as error:
        open_policy(tables, ledger=ledger)
    monkeypatch.undo()
    assert error.value.code == "data-changed" and len(closed) == 1
    closed[0].close()


def test_changed_data_is_refused_until_the_steward_accepts_it(open_policy: Open, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(PEOPLE, path)
    ledger = tmp_path / "ledger.sqlite"
    tables = {"t": private("t.parquet")}
    session = open_policy(tables, ledger=ledger)
    sql = "SELECT COUNT(*) FROM t"
    assert one(session, sql) == (4,)
    spent = session.budget.spent

    rewrite(path, PEOPLE.slice(0, 3))
    for ask in (session.query, session.explain):
        with pytest.raises(dpsql.LedgerError) as error:
            ask(sql, epsilon=1)
        assert error.value.code == "data-changed"
        assert "dpsql refresh --steward" in (error.value.hint or "")
    with pytest.raises(dpsql.LedgerError) as error:
        open_policy(tables, ledger=ledger).query(sql, epsilon=1)
    assert error.value.code == "data-changed"
    assert session.budget.spent == spent  # a refusal costs nothing

    refresh(session._engine, by="steward")
    session.close()
    again = open_policy(tables, ledger=ledger)
    assert one(again, sql) == (3,)
    assert again.budget.spent.epsilon == spent.epsilon + EXACT  # the account isn't refreshed


def test_the_same_data_written_again_is_a_change_until_the_steward_says_that_it_is_the_same(
    open_policy: Open, tmp_path: Path
) -> None:
    path, sql = tmp_path / "t.parquet", "SELECT COUNT(*) FROM t"
    pq.write_table(PEOPLE, path)
    session = open_policy({"t": private("t.parquet")}, ledger=tmp_path / "ledger.sqlite")
    refresh(session._engine, by="steward")  # notes the rows, to compare them with the next ones
    one(session, sql)
    spent = session.budget.spent
    rewrite(path, PEOPLE)
    with pytest.raises(dpsql.LedgerError):
        one(session, sql)
    (change,) = refresh(session._engine, by="steward").tables
    assert change.version == "kept"
    assert one(session, sql) == (4,) and session.budget.spent == spent


def test_changed_objects_are_refused_too(connect: Connect, tmp_path: Path) -> None:
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 9, "delta": 0}, "tables": {"t": {"unit": "row"}}})
    ledger = tmp_path / "ledger.sqlite"
    with dpsql.connect(policy, sources={"t": PEOPLE}, ledger=ledger) as session:
        session.query("SELECT COUNT(*) FROM t", epsilon=1)
    with dpsql.connect(policy, sources={"t": PEOPLE}, ledger=ledger) as session:
        session.query("SELECT COUNT(*) FROM t", epsilon=1, fresh=True)
        assert session.budget.spent.epsilon == 2
    with pytest.raises(dpsql.LedgerError) as error:
        dpsql.connect(policy, sources={"t": PEOPLE.slice(1)}, ledger=ledger)
    assert error.value.code == "data-changed"


def test_a_public_table_may_change(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    (tmp_path / "codes.csv").write_text("code\na\n")
    tables = {"t": private("t.parquet"), "codes": {"source": "codes.csv", "public": True}}
    session = open_policy(tables, ledger=tmp_path / "l.sqlite")
    one(session, "SELECT COUNT(*) FROM t")
    session.close()
    (tmp_path / "codes.csv").write_text("code\na\nb\n")
    session = open_policy(tables, ledger=tmp_path / "l.sqlite")
    assert one(session, "SELECT COUNT(*) FROM codes") == (2,)


# ---------------------------------------------------------------- several tables, promises


def test_two_private_tables_share_one_account(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    (tmp_path / "u.csv").write_text("age\n1\n2\n")
    tables = {
        "t": private("t.parquet"),
        "u": private("u.csv", {"age": {"type": "INTEGER", "min": 0, "max": 9}}),
    }
    session = open_policy(tables)
    sql = "SELECT (SELECT SUM(age) FROM t) AS t, (SELECT SUM(age) FROM u) AS u"
    assert one(session, sql) == (60, 3)
    assert session.budget.spent.epsilon == EXACT
    assert one(session, "SELECT COUNT(*) FROM u") == (2,)
    assert session.budget.spent.epsilon == 2 * EXACT


def verify(folder: Path) -> None:
    """What the steward does: `dpsql check --steward` on a policy file that says the same."""
    (folder / "policy.toml").write_text(
        '[budget]\nepsilon = 1000000000\ndelta = 0\nledger = "l.sqlite"\n[tables.t]\nsource = "t.parquet"\n'
        'unit = "id"\nrows_per_unit = 1\n[tables.t.columns]\nage = { min = 0, max = 100 }\n'
        'k = { values = ["a", "b"] }\n'
    )
    check(folder / "policy.toml", steward=True)


def by_unit(source: str, rows_per_unit: int | None) -> dict[str, Any]:
    promise = {} if rows_per_unit is None else {"rows_per_unit": rows_per_unit}
    return {"source": source, "unit": "id", "columns": COLUMNS, **promise}


TWICE = pa.concat_tables([PEOPLE, PEOPLE.slice(0, 1)])  # unit 1 has two rows


def enforced(session: dpsql.Session) -> bool:
    """Are rows weighted at run time, or is the limit proved?"""
    (step,) = session.explain("SELECT COUNT(*) FROM t", epsilon=1).steps
    assert step.measurements[0].sensitivity.l1 > 0
    return step.checked.bounding.weighted


def test_a_promise_is_enforced_until_the_check_has_verified_it(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    session = open_policy({"t": by_unit("t.parquet", 1)}, ledger=tmp_path / "l.sqlite")
    assert enforced(session)
    assert one(session, "SELECT COUNT(*) FROM t") == (4,)
    verify(tmp_path)
    assert not enforced(session)
    assert one(session, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t") == (4, 4)


def test_a_promise_that_is_broken_is_enforced_for_ever(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(TWICE, tmp_path / "t.parquet")
    session = open_policy({"t": by_unit("t.parquet", 1)}, ledger=tmp_path / "l.sqlite")
    verify(tmp_path)
    assert enforced(session)
    assert one(session, "SELECT COUNT(*) FROM t") == (4,)  # five rows of four units


def test_a_verified_promise_does_not_outlive_its_data(open_policy: Open, tmp_path: Path) -> None:
    path, ledger = tmp_path / "t.parquet", tmp_path / "l.sqlite"
    pq.write_table(PEOPLE, path)
    session = open_policy({"t": by_unit("t.parquet", 1)}, ledger=ledger)
    verify(tmp_path)
    assert not enforced(session)
    rewrite(path, TWICE)
    engine = session._engine
    engine.ledger.accept(engine.ledger.sights([one.source for one in engine.located]))
    session.close()
    again = open_policy({"t": by_unit("t.parquet", 1)}, ledger=ledger)
    assert enforced(again)
    with pytest.raises(dpsql.DataError) as error:
        one(again, "SELECT COUNT(*) FROM t")
    assert error.value.code == "unverified-promise"
    verify(tmp_path)
    assert one(again, "SELECT COUNT(*) FROM t") == (4,)


def test_a_unit_without_any_bound_has_one_chosen(open_policy: Open, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "t.parquet")
    session = open_policy({"t": by_unit("t.parquet", None)})
    quote = session.explain("SELECT COUNT(*) FROM t", epsilon=1)
    assert [stage.kind for stage in quote.stages] == ["limits", "main"] and quote.price.epsilon == 1
    assert session.query("SELECT COUNT(*) FROM t", epsilon=EXACT, max_rows=2).rows == [(4,)]


def test_a_public_parquet_file_that_was_rewritten_is_read_anew(connect: Connect, tmp_path: Path) -> None:
    """Same size, same times: what is joined must be what was counted when the query was priced."""
    file = tmp_path / "p.parquet"

    def write(columns: dict[str, list[int]]) -> None:
        plain: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}
        pq.write_table(pa.table(columns), file, **plain)
        os.utime(file, ns=(10**18, 10**18))

    write({"v": list(range(10)), "z": list(range(10))})
    policy = {
        "tables": {
            "t": {"unit": "row", "columns": {"v": {"min": 0, "max": 10}}},
            "p": {"public": True, "source": str(file)},
        }
    }
    session = connect({"t": pa.table({"v": [7] * 100})}, policy)
    sql = "SELECT COUNT(*) FROM t JOIN p ON p.v = t.v"
    size = file.stat().st_size
    assert session.query(sql, epsilon=10**5).rows == [(100,)]
    write({"z": [7] * 10, "v": list(range(10))})
    assert file.stat().st_size == size
    assert session.query(sql, epsilon=10**5, fresh=True).rows == [(100,)]
