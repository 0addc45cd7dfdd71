"""Attacks 37, 44, 45, 46, 49: what a scan yields is a function of the source's records alone (Theorem SCAN-1)."""

from __future__ import annotations

import csv
import gzip
import math
import os
import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_footer import BINARY, I64, LIST, MAX, MIN, NULLS, Struct, load, save, statistics
from source_kinds import GROUP, KINDS, csv_type
from support import WHOLE, examples

import dpsql
from dpsql.analyze.ownership import scan_facts
from dpsql.backends.duckdb import backend as backend_module
from dpsql.sql.functions import FUNCTIONS

EXACT = 10**9  # an ε at which noise is far below one
NAN = math.nan

Open = Callable[..., dpsql.Session]


@pytest.fixture
def open_kind(tmp_path: Path) -> Iterator[Open]:
    """open_kind(kind, table): a session over the table as that kind of source; every row is a unit."""
    opened: list[dpsql.Session] = []

    def make(kind: str, table: pa.Table) -> dpsql.Session:
        folder = tmp_path / f"{len(opened)}"
        folder.mkdir()
        placed = KINDS[kind](table, folder)
        columns = {c: {"type": csv_type(table[c].type)} for c in table.column_names} if "CSV" in kind else {}
        opened.append(_session({**placed.entry, "unit": "row", "columns": columns}, placed.object))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


def _session(entry: dict[str, Any], given: Any = None) -> dpsql.Session:
    """A session over one source. The policy lists its columns, if it is of parquet files, so that all are read."""
    if (source := entry.get("source", "")).endswith(".parquet") and not entry.get("columns"):
        file = next(iter(sorted(Path(source).parent.glob(Path(source).name))))
        entry = {**entry, "columns": {name: {} for name in pq.read_schema(file).names}}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 10**12, "delta": 0}, "tables": {"t": entry}})
    return dpsql.connect(policy, sources=None if given is None else {"t": given}, ledger=":memory:")


def facts(session: dpsql.Session) -> dict[str, tuple[str, ...]]:
    """What full readings have shown of each column."""
    return scan_facts(session._engine.promises()["t"])


def count(session: dpsql.Session, condition: str) -> int:
    return int(session.query(f"SELECT COUNT(*) FROM t WHERE {condition}", epsilon=EXACT).rows[0][0])


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]


def some(conditions: list[str], seed: str) -> list[str]:
    """A sample; all of them with --whole."""
    return Random(seed).sample(conditions, min(len(conditions), examples(7)))


# ---------------------------------------------------------------- statistics

NOT_A_NUMBER = listed("""
    x > 5; x >= 5; x <> 1; NOT x <= 5; x IS DISTINCT FROM 1; x > 5 OR id < 0; isnan(x); x + 0 > 5; abs(x) > 5;
    CAST(x AS FLOAT) > 5; coalesce(x, 0) > 5; round(x) > 5; (x > 5) IS TRUE; NOT isfinite(x); x NOT IN (1, 2);
    x > 5 AND x IS NOT NULL; greatest(x, 0) > 5
""")


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("kind", "type_"), [*((kind, pa.float64()) for kind in KINDS), *((kind, pa.float32()) for kind in list(KINDS)[:5])]
)
def test_one_value_does_not_decide_whether_other_peoples_nan_is_read(
    open_kind: Open, kind: str, type_: pa.DataType
) -> None:
    values = [1.0] * 19 + [NAN] * 21
    without = open_kind(kind, pa.table({"id": range(40), "x": pa.array(values, type_)}))
    added = open_kind(kind, pa.table({"id": range(41), "x": pa.array([*values, 6.0], type_)}))
    for condition in some(NOT_A_NUMBER, f"{kind} {type_}"):
        here, there = count(without, condition), count(added, condition)
        assert 0 <= there - here <= 1, (condition, here, there)


PREDICATES = [
    *NOT_A_NUMBER,
    *listed("""
    x = 0; x IN (0, 4.5); x < 0; x <= 0; x BETWEEN -1 AND 4; x IS NULL; isinf(x); -x < -2; i > 3; i = 9; i IS NULL;
    i IN (1, 2, 9); i <> 0; i % 3 = 1; i BETWEEN 2 AND 6; NOT i > 3; id < 10; n >= 2; n = 4 OR n IS NULL; d > 10;
    d = 0.5; d IS NULL; d <> 0.5; s = 'a'; s > 'b'; s LIKE 'b%'; s IS NULL; s IN ('a', 'zz'); s <> 'a';
    upper(s) = 'A'; starts_with(s, 'z'); b; NOT b; b IS NULL; b IS NOT TRUE; day > DATE '2024-01-10';
    day = DATE '2024-01-05'; day IS NULL; year(day) = 2024; ts >= TIMESTAMP '2024-01-05 12:00:00';
    ts < TIMESTAMP '2024-01-02'; ts IS NULL; hour(ts) = 12; x > 1 AND i > 1 AND s > 'a'; x > i;
    CASE WHEN x > 1 THEN i > 1 ELSE b END
"""),
]


def varied(rows: int, dice: Random) -> pa.Table:
    """Rows in which runs of alike values fill whole row groups."""
    columns: dict[str, list[Any]] = {name: [] for name in ("i", "n", "x", "d", "s", "b", "day", "ts")}
    choices: dict[str, list[Any]] = {
        "i": [None, 0, 1, 2, 3, 9, 2**62, -(2**63)],
        "n": [None, 0, 2, 4, -(2**31)],
        "x": [None, NAN, NAN, 0.0, -0.0, 1.0, 4.5, math.inf, -math.inf, 1e308, 5e-324],
        "d": [None, Decimal("0.50"), Decimal("99.99"), Decimal("-9999999.99")],
        "s": [None, "a", "b", "ba", "zz", "é", "𝄞", "A"],
        "b": [None, True, False],
        "day": [None, *(date(2024, 1, n) for n in (1, 5, 11))],
        "ts": [None, *(datetime(2024, 1, n, 12, 30) for n in (1, 5, 11))],
    }
    for name, values in columns.items():
        while len(values) < rows:
            values += [dice.choice(choices[name])] * dice.choice([1, 1, 2, GROUP, 2 * GROUP])
        del values[rows:]
    types = {"i": pa.int64(), "n": pa.int32(), "x": pa.float64(), "d": pa.decimal128(9, 2), "s": pa.string(),
             "b": pa.bool_(), "day": pa.date32(), "ts": pa.timestamp("us")}  # fmt: skip
    return pa.table({"id": range(rows), **{n: pa.array(v, types[n]) for n, v in columns.items()}})


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_keeps_the_rows_of_which_its_condition_is_true(open_kind: Open, kind: str) -> None:
    session = open_kind(kind, varied(6 * GROUP, Random(kind)))
    for condition in some(PREDICATES, kind):
        kept = count(session, condition)
        marked = session.query(f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM t", epsilon=EXACT).rows[0][0]
        assert kept == marked, condition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(6)
def test_one_row_moves_no_filtered_count_by_more_than_one(open_kind: Open, kind: str) -> None:
    dice = Random(f"{kind} again")
    whole = varied(6 * GROUP, dice)
    gone = dice.randrange(whole.num_rows)
    one = open_kind(kind, whole)
    other = open_kind(kind, pa.concat_tables([whole.slice(0, gone), whole.slice(gone + 1)]))
    for condition in some(PREDICATES, f"{kind} again"):
        assert 0 <= count(one, condition) - count(other, condition) <= 1, condition


def lying(path: Path, values: pa.Array, change: Callable[[Struct], None]) -> dpsql.Session:
    """A session over a file of these values, whose footer says something else of them."""
    pq.write_table(pa.table({"id": range(len(values)), "x": values}), path, use_dictionary=False)
    body, footer = load(path)
    change(statistics(footer, column=1))
    save(path, body, footer)
    return _session({"source": str(path), "unit": "row"})


def signed(said: Struct) -> None:
    """As writers did who compared bytes as signed numbers: é (C3 A9) comes before z (7A)."""
    said.clear()
    said |= {MAX: (BINARY, b"z"), MIN: (BINARY, "é".encode()), NULLS: (I64, 0)}


def never_null(said: Struct) -> None:
    said.clear()
    said[NULLS] = (I64, 0)


def all_small(said: Struct) -> None:
    for field, (kind, value) in list(said.items()):
        if kind == BINARY:
            said[field] = (BINARY, struct.pack("<d", 3.0) if value.endswith(b"@") else (3).to_bytes(8, "little"))


LIES = {
    "text": (pa.array(["z"] * 50 + ["é"]), signed, ["x = 'z'", "x LIKE 'z%'", "x = 'é'", "x IN ('z', 'y')", "x > 'y'"]),
    "integers": (pa.array([1] * 50 + [7] * 50), all_small, ["x > 5", "x = 7", "x BETWEEN 6 AND 8", "x + 0 > 5"]),
    "floats": (pa.array([2.5] * 50 + [7.5] * 50), all_small, ["x > 5", "x = 7.5", "abs(x) > 5", "coalesce(x, 0) > 5"]),
    "no NULL": (pa.array([1.0] * 9 + [None] * 39 + [NAN]), never_null, ["x IS NULL", "x IS NOT NULL"]),
    "no NULL text": (pa.array(["a"] * 9 + [None] * 40), never_null, ["x IS NULL", "x IS NOT DISTINCT FROM NULL"]),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_statistics_that_are_not_true_are_found_and_not_used(tmp_path: Path, lie: str) -> None:
    """Writers whose statistics leave somebody out: the rows are there all the same."""
    values, change, conditions = LIES[lie]
    with lying(tmp_path / "t.parquet", values, change) as session:
        assert "statistics" not in facts(session)["x"]
        for condition in conditions:
            marked = session.query(f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM t", epsilon=EXACT).rows[0][0]
            assert count(session, condition) == marked > 0, condition


def test_statistics_that_are_true_are_used(tmp_path: Path) -> None:
    for name, values in (("i", pa.array([1, 2, None])), ("x", pa.array([1.0, NAN, None])), ("s", pa.array(["a", "é"]))):
        with lying(tmp_path / f"{name}.parquet", values, lambda said: None) as session:
            assert facts(session)["x"][:2] == ("fits", "statistics")


@pytest.mark.parametrize("bloom", [False, True])
def test_bloom_filters_are_believed_of_no_writer(tmp_path: Path, bloom: bool) -> None:
    """What they say can't be compared with the values, and whoever writes a file may call itself DuckDB."""
    path = tmp_path / "t.parquet"
    data = "SELECT 'a' || i % 5 AS s, i AS id FROM range(100) AS t(i)"
    with duckdb.connect() as plain:
        plain.execute(f"COPY ({data}) TO '{path}' (FORMAT parquet, write_bloom_filter {bloom})")
        filters = plain.execute(f"SELECT COUNT(bloom_filter_offset) FROM parquet_metadata('{path}')").fetchall()
    assert (filters != [(0,)]) == bloom
    with _session({"source": str(path), "unit": "row"}) as session:
        assert ("statistics" in facts(session)["s"]) != bloom
        assert count(session, "s = 'a1'") == 20


@pytest.mark.parametrize(("column", "row"), [(None, 0), ("x", 0), ("x", 3), ("y", 2)])
def test_only_where_no_float_is_nan_nothing_is_done_for_it(tmp_path: Path, column: str | None, row: int) -> None:
    """In whichever column, file or row group it is; NULL and infinity are none."""
    columns = {"x": [1.0, None, math.inf, 4.0], "y": [None, 7.0, -math.inf, 2.0]}
    if column is not None:
        columns[column][row] = NAN
    data = pa.table({"x": columns["x"], "y": pa.array(columns["y"], pa.float32())})
    for i in range(2):
        pq.write_table(data.slice(2 * i, 2), tmp_path / f"{i}.parquet", row_group_size=1)
    with _session({"source": f"{tmp_path}/*.parquet", "unit": "row"}) as session:
        for name in columns:
            assert facts(session)[name] == ("fits", "statistics", *(["numbers"] if name != column else []))
        for name, values in columns.items():
            assert count(session, f"{name} > 5") == sum(v is not None and not v <= 5 for v in values)


def test_a_column_called_like_ours_does_not_keep_statistics_from_being_compared(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"dpsql_group": [5] * 100, "x": [1] * 50 + [7] * 50}), path, use_dictionary=False)
    body, footer = load(path)
    all_small(statistics(footer, column=1))
    save(path, body, footer)
    with _session({"source": str(path), "unit": "row"}) as session:
        assert count(session, "x > 5") == 50


def test_statistics_of_columns_that_the_footer_names_otherwise_are_not_relied_upon(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1] * 50 + [7] * 50}), path, use_dictionary=False)
    body, footer = load(path)
    all_small(statistics(footer))
    footer[4][1][1][0][1][1][1][0][3][1][3] = (LIST, (BINARY, [b"y"]))  # path_in_schema
    save(path, body, footer)
    with _session({"source": str(path), "unit": "row"}) as session:
        assert count(session, "x > 5") == 50


def test_what_was_found_is_recorded_for_the_data_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is another one while it is read, and then the first again: nothing is recorded for either."""
    path, ledger = tmp_path / "t.parquet", tmp_path / "ledger.sqlite"
    lying(tmp_path / "t.parquet", pa.array([1] * 50 + [7] * 50), all_small).close()
    first = path.read_bytes()
    entry = {"source": str(path), "unit": "row", "columns": {"x": {}}}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 10**12, "delta": 0}, "tables": {"t": entry}})
    reading = vars(backend_module)["prove"]

    def replaced(*given: Any) -> Any:
        pq.write_table(pa.table({"id": range(100), "x": [1] * 50 + [7] * 50}), path)
        return reading(*given)

    with monkeypatch.context() as patched:
        patched.setattr(backend_module, "prove", replaced)
        with pytest.raises(dpsql.Error) as error:
            dpsql.connect(policy, ledger=ledger)
        assert error.value.code == "data-changed"
    path.write_bytes(first)
    with dpsql.Engine.open(policy, ledger=ledger) as engine:
        engine.refresh(steward=True)  # it was written anew
        assert count(engine.session(), "x > 5") == 50


@pytest.mark.parametrize("size", [[3, 5, 2], [4, 4, 1], [0, 3], [3, 0, 3]])
def test_row_groups_of_any_size_are_compared_with_their_statistics(tmp_path: Path, size: list[int]) -> None:
    path = tmp_path / "t.parquet"
    rows = [pa.table({"i": pa.array(range(n), pa.int64())}) for n in size]
    with pq.ParquetWriter(path, rows[0].schema) as writer:
        for one in rows:
            writer.write_table(one)
    with _session({"source": str(path), "unit": "row"}) as session:
        assert facts(session) == {"i": ("fits", "statistics", "numbers")}
    body, footer = load(path)
    said = statistics(footer, row_group=pq.ParquetFile(path).metadata.num_row_groups - 1)
    said |= {
        field: (kind, (-9).to_bytes(8, "little", signed=True)) for field, (kind, _) in said.items() if kind == BINARY
    }
    save(path, body, footer)
    with _session({"source": str(path), "unit": "row"}) as session:
        assert facts(session) == {"i": ("fits", "numbers")}
        assert count(session, "i >= 0") == sum(size)


def test_values_of_every_column_are_read_when_a_source_is_opened(tmp_path: Path) -> None:
    """Also of those that have no statistics to compare: what can't be read is refused before anything is paid."""
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], "i4").tobytes()), pa.py_buffer(b"a\xff\xfe")]
    )
    for column in (
        pa.StructArray.from_arrays([bad], ["a"]),
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "{"])),
    ):
        pq.write_table(pa.table({"x": column}), tmp_path / "t.parquet")
        with pytest.raises(dpsql.DataError) as error:
            _session({"source": str(tmp_path / "t.parquet"), "unit": "row"})
        assert error.value.code == "unreadable"


def test_what_is_inside_of_a_nested_value_is_never_written_out() -> None:
    """It isn't made to fit: a time that no TIMESTAMP holds would end the engine."""
    times = raw(pa.timestamp("s"), [0, 2**62], "i8")
    with _session(
        {"unit": "row"}, pa.table({"id": [0, 1], "x": pa.StructArray.from_arrays([times], ["a"])})
    ) as session:
        with pytest.raises(dpsql.SQLError) as error:
            count(session, "CAST(x AS VARCHAR) LIKE '2%'")
        assert "only IS NULL and COUNT work" in str(error.value)
        assert count(session, "x IS NOT NULL") == 2


# ---------------------------------------------------------------- CSV

SPLIT = 8_000_000  # where DuckDB divides files among threads


def records_of(path: Path) -> list[list[str]]:
    """An independent reader, from the first byte to the last."""
    csv.field_size_limit(2**31)
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as text:
        return list(csv.reader(text))[1:]


CSV_COLUMNS = {"uid": {"type": "BIGINT"}, "age": {"type": "INTEGER"}, "note": {"type": "VARCHAR"}}


def csv_session(path: Path) -> dpsql.Session:
    return _session({"source": str(path), "unit": "row", "columns": CSV_COLUMNS})


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_quoted_field_across_a_split_is_no_row_of_somebody_else(tmp_path: Path, suffix: str) -> None:
    lines = [f"{i},{i % 70},{'a' * 20}" for i in range(260_000)]
    size = sum(len(line) + 1 for line in lines)
    assert size < SPLIT
    while size < SPLIT - 400_000:
        lines.append(f"{len(lines)},30,{'a' * 20}")
        size += len(lines[-1]) + 1
    hostile = "\n".join(f"123,77,{'b' * 20}" for _ in range(40_000))
    text = "uid,age,note\n" + "\n".join(lines) + f'\n999,50,"{hostile}"\n' + "5,30,end\n" * 1000
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(text.encode(), 1) if suffix == ".csv.gz" else text.encode())
    expected = records_of(path)
    with csv_session(path) as session:
        assert count(session, "age = 77") == sum(age == "77" for _, age, _ in expected) == 0
        assert count(session, "TRUE") == len(expected)
        assert count(session, "length(note) > 100000") == 1


@pytest.mark.parametrize("quotes", [False, True])
def test_records_are_those_of_an_independent_reader_around_every_split(tmp_path: Path, quotes: bool) -> None:
    """Several chunks of notes; with quotes, some of them of several lines, at and around each split."""
    dice, written, parts, number = Random(7), 0, [], 0
    while written < 4.2 * SPLIT:
        near = min(written % SPLIT, SPLIT - written % SPLIT) < 3_000
        many = quotes and (near or dice.random() < 0.01)
        note = "\n".join("1,77,x" for _ in range(dice.randrange(2, 300))) if many else "n" * dice.randrange(400, 900)
        line = f'{number},{number % 70},"{note}"\n' if many else f"{number},{number % 70},{note}\n"
        parts.append(line)
        written += len(line)
        number += 1
    path = tmp_path / "t.csv"
    path.write_text("uid,age,note\n" + "".join(parts))
    expected = records_of(path)
    assert len(expected) == number
    with csv_session(path) as session:
        recorded = session._engine.promises()["t"]
        assert any("unquoted" in fact for fact in recorded) == (not quotes)
        assert count(session, "TRUE") == number
        assert count(session, "age = 77") == 0
        assert count(session, "age < 35") == sum(int(age) < 35 for _, age, _ in expected)


@pytest.mark.parametrize(
    "text",
    [
        'uid,age,note\n1,2,a\n3,4,"b\n5,6,c\n',  # never closed
        'uid,age,note\n1,2,a\n3,4,"b"x\n5,6,c\n',  # text after a quoted field
        "uid,age,note\n1,2,a\r\n3,4,b\n5,6,c\r\n",  # two kinds of line ends
        'uid,age,note\n1, "2\n3",a\n5,6,c\n',  # readers disagree whether this is quoted
        "uid,age,note\n1,2," + "a" * 2_100_000 + "\n5,6,c\n",  # too long for DuckDB
        'uid,age,note\n1,2,"' + "a\n" * 1_100_000 + '"\n5,6,c\n',
        "uid,age,note\n1,2,a\n3,4,\xe9\n",  # not UTF-8: a row only for queries that don't read it
    ],
    ids=["open", "after", "ends", "space", "long", "long and quoted", "encoding"],
)
def test_a_file_in_which_readers_see_different_records_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(dpsql.DataError) as error:
        csv_session(tmp_path / "t.csv")
    assert error.value.code == "malformed-csv"


def test_a_record_with_other_fields_is_left_out_by_itself_whatever_it_quotes(tmp_path: Path) -> None:
    text = 'uid,age,note\n1,2,a\n3,4,b,"x\n5,77,y\n"\n"6\n7,77,z"\n8,9,c\n10,11\n'
    (tmp_path / "t.csv").write_text(text)
    with csv_session(tmp_path / "t.csv") as session:
        assert count(session, "age = 77") == 0
        for condition in ("TRUE", "uid > 0", "age > 0", "note > ''", "uid + age > 0 AND note <> ''"):
            assert count(session, condition) == 2  # whatever is read of it


def test_a_file_with_records_of_other_fields_is_read_by_one_thread(tmp_path: Path) -> None:
    lines = ["1,2,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] * 190_000
    lines[180_000:182_000] = ["x"] * 2_000
    (tmp_path / "t.csv").write_text("uid,age,note\n" + "\n".join(lines) + "\n")
    assert (tmp_path / "t.csv").stat().st_size > SPLIT
    with csv_session(tmp_path / "t.csv") as session:
        assert session._engine.promises()["t"] == {"scan 3 fits"}
        assert count(session, "TRUE") == 188_000


def test_nobody_is_told_what_the_first_line_of_a_file_holds_besides_listed_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("red,alice@example.org\ngreen,bob@example.org\n")
    entry = {"source": str(tmp_path / "t.csv"), "unit": "row", "columns": {"red": {"type": "VARCHAR"}}}
    with _session(entry) as session:
        told = []
        for guess in ("alice@example.org", "carol@example.org"):
            with pytest.raises(dpsql.SQLError) as error:
                session.explain(f'SELECT COUNT(*) FROM t WHERE "{guess}" = 1', epsilon=1)
            told.append(str(error.value).replace(guess, ""))
        assert told[0] == told[1]


def test_lines_that_end_in_a_carriage_return_alone_are_records(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"uid,age,note\r1,2,a\r3,4,b\r")
    with csv_session(tmp_path / "t.csv") as session:
        assert count(session, "age > 0") == 2


@pytest.mark.parametrize("text", ["17,alice@example.org,9\n18,bob,8\n", "17,17,alice@example.org\n", "a\xff,alice@b\n"])
def test_no_message_shows_the_first_row_of_a_file_without_a_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    for columns in (CSV_COLUMNS, {"alice": {"type": "VARCHAR"}}, {"uid": {"type": "BIGINT"}}):
        with pytest.raises(dpsql.Error) as error:
            _session({"source": str(tmp_path / "t.csv"), "unit": "row", "columns": columns})
        shown = str(error.value).replace(str(tmp_path), "")  # its number is of no row
        assert "alice@" not in shown and "17" not in shown and "bob" not in shown


# ---------------------------------------------------------------- values


def raw(type_: pa.DataType, values: list[int], format_: str) -> pa.Array:
    """An array of these bit patterns, whatever they mean in this type."""
    data = np.array(values, format_).tobytes()
    return pa.Array.from_buffers(type_, len(data) * 8 // type_.bit_width, [None, pa.py_buffer(data)])


LONG = [0, -1, 1, 2**62, -(2**62), 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, -(2**63) + 2, 10**15, 86_400_000_000]
SHORT = [0, -1, 1, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, -(2**31) + 2, 86_400, 86_400_000]
PATTERNS: dict[str, pa.Array] = {
    **{f"timestamp[{u}]": raw(pa.timestamp(u), LONG, "i8") for u in ("s", "ms", "us", "ns")},
    **{f"timestamp[{u}, UTC]": raw(pa.timestamp(u, "UTC"), LONG, "i8") for u in ("us", "ns")},
    "time64[us]": raw(pa.time64("us"), LONG, "i8"),
    "time64[ns]": raw(pa.time64("ns"), LONG, "i8"),
    "date32": raw(pa.date32(), SHORT, "i4"),
    "date64": raw(pa.date64(), LONG, "i8"),
    "float64": raw(pa.float64(), [*LONG, 0x7FF0000000000001, 0x7FF8000000000000, -0x8000000000000], "i8"),
    "float32": raw(pa.float32(), [*SHORT, 0x7F800001, 0x7FC00000, -0x400000], "i4"),
    "decimal(9, 2)": raw(pa.decimal128(9, 2), [0, 0, 9_999_999_999, 0, 999_999_999, 0, 2**62, 0, -1, -1], "i8"),
    "decimal(18, 3)": raw(pa.decimal128(18, 3), [0, 0, 2**63 - 1, 0, -(2**63), -1, 10**18, 0], "i8"),
    "decimal(38, 0)": raw(pa.decimal128(38, 0), [0, 0, -1, 2**63 - 1, 0, -(2**63), 10**18, 10**18], "i8"),
}


def unvalidated(kind: str, array: pa.Array, folder: Path) -> dpsql.Session | None:
    """A session over these bit patterns; None where such a source can't be written, or is refused when it is opened."""
    table = pa.table({"id": pa.array(range(len(array))), "x": array})
    try:
        placed = KINDS[kind](table, folder)
    except (pa.ArrowInvalid, duckdb.Error, ValueError, OverflowError):
        return None
    try:
        return _session({**placed.entry, "unit": "row"}, placed.object)
    except dpsql.DataError as error:
        assert error.code == "unreadable"
        return None


RAW_KINDS = ["parquet by pyarrow", "DuckDB file", "Arrow", "polars"]
if os.environ.get(WHOLE):
    RAW_KINDS += ["parquet by DuckDB", "pandas"]


@pytest.mark.sample(21)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", RAW_KINDS)
def test_no_bit_pattern_makes_a_listed_function_fail(tmp_path: Path, kind: str, pattern: str) -> None:
    session = unvalidated(kind, PATTERNS[pattern], tmp_path)
    if session is None:
        return
    with session:
        accepted = expressions(session)
        assert accepted
        for start in range(0, len(accepted), 8):  # several in one query: each is computed on each row
            session.query(f"SELECT {', '.join(accepted[start : start + 8])} FROM t", epsilon=EXACT)


CALLS = listed("""
    {x} IS NULL; CAST({x} AS VARCHAR);
    CAST({x} AS DATE); CAST({x} AS TIMESTAMP); CAST({x} AS TIMESTAMPTZ); CAST({x} AS TIME);
    CAST({x} AS DOUBLE); CAST({x} AS BIGINT); CAST({x} AS INTEGER); CAST({x} AS DECIMAL(18, 3));
    TRY_CAST({x} AS FLOAT); CAST({x} AS VARCHAR) LIKE '2020%'; {x} + INTERVAL 1 DAY; {x} - INTERVAL 1 MONTH;
    {x} - {x}; {x} + 1; {x} * 2; {x} = {x}; {x} > {x}; {x} IN ({x}); COALESCE({x}, 0.001) > 1; COALESCE({x}, {x});
    NULLIF({x}, {x}); -{x}; {x} // 7; strftime({x}, '%Y-%m-%d %H'); date_trunc('month', {x});
    date_trunc('day', {x}); date_diff('day', {x}, DATE '2020-01-01'); date_part('epoch', {x});
    date_part('isoyear', {x}); time_bucket(INTERVAL 1 DAY, {x}); {x} AT TIME ZONE 'UTC'
""")


ACCEPTED: dict[str, list[str]] = {}  # by type: what is accepted depends on nothing else


def expressions(session: dpsql.Session) -> list[str]:
    """Every listed function of one argument, and calls that need more, as far as they are accepted for x."""
    kind = dict(session._engine.schema["t"])["x"]
    if kind not in ACCEPTED:
        ACCEPTED[kind] = list(_accepted(session))
    return ACCEPTED[kind]


def _accepted(session: dpsql.Session) -> Iterator[str]:
    names = sorted({name.lower() for function in FUNCTIONS for name in function.names})
    for text in [*CALLS, *(f"{name}({{x}})" for name in names)]:
        plain = text.format(x="x")
        both = f"COUNT({plain}), COUNT(CASE WHEN id = 1 THEN {plain} END)"
        try:
            session.explain(f"SELECT {both} FROM t", epsilon=1)
        except dpsql.Error:
            continue
        yield both


def test_a_value_that_its_type_cannot_hold_is_null_and_hurts_nobody(tmp_path: Path) -> None:
    for name, good in (("timestamp[us]", 9), ("decimal(9, 2)", 4), ("date32", 7)):
        folder = tmp_path / name[:4]
        folder.mkdir()
        session = unvalidated("parquet by pyarrow", PATTERNS[name], folder)
        assert session is not None
        with session:
            assert count(session, "x IS NOT NULL") == good, name


def test_text_that_is_not_utf8_is_refused_from_every_kind_of_object(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], "i4").tobytes()), pa.py_buffer(b"a\xff\xfe")]
    )
    table = pa.table({"s": bad})
    import pandas as pd

    backed = pd.DataFrame({"s": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([bad])))})
    pq.write_table(table, tmp_path / "t.parquet")
    for entry, given in (({}, table), ({}, backed), ({"source": str(tmp_path / "t.parquet")}, None)):
        with pytest.raises(dpsql.DataError) as error:
            _session({**entry, "unit": "row"}, given)
        assert error.value.code == "unreadable"


def test_a_column_that_the_engine_cannot_read_is_refused_clearly() -> None:
    with pytest.raises(dpsql.DataError) as error:
        _session({"unit": "row"}, pa.table({"x": pa.array(np.array([1], np.float16))}))
    assert error.value.code == "unreadable" and "16-bit" in str(error.value)


def test_objects_that_cannot_be_converted_are_refused_without_their_values() -> None:
    import pandas as pd

    with pytest.raises(dpsql.PolicyError) as error:
        _session({"unit": "row"}, pd.DataFrame({"x": [1, "alice", b"z"]}))
    assert "alice" not in str(error.value)
