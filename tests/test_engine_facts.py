"""What docs/engine-facts.md says of DuckDB and sqlglot, and privacy rests on, tried on the installed versions.

A test that fails here after an upgrade means that a fact has changed: read its entry, then what rests on it, before
anything else. Facts that larger tests keep true aren't repeated; their entries name those tests.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

LARGEST = 2**127 - 1
KEYS = (0x9E3779B97F4A7C15, 0x0123456789ABCDEF)


@pytest.fixture
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


def one(engine: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    """The only row of a query."""
    (row,) = engine.execute(sql).fetchall()
    return tuple(row)


def fact(name: str) -> str:
    """What a failed assertion says."""
    return f"{name} is no longer true of DuckDB {duckdb.__version__}: see docs/engine-facts.md"


# ---------------------------------------------------------------- numbers


def test_nan_is_equal_to_itself_and_greater_than_infinity(engine: duckdb.DuckDBPyConnection) -> None:
    found = one(engine, "SELECT x = x, x > 'inf'::DOUBLE, least(greatest(x, 0), 500) FROM (SELECT 'nan'::DOUBLE AS x)")
    assert found == (True, True, 500), fact("FACT-NAN-1")


def test_no_comparison_that_a_clip_makes_holds_of_nan_and_null(engine: duckdb.DuckDBPyConnection) -> None:
    tests = "x BETWEEN 0 AND 5, abs(x - 2.5) <= 2.5, x > 5 AND x < 'inf'::DOUBLE, x < 0 AND x > '-inf'::DOUBLE"
    assert one(engine, f"SELECT {tests} FROM (SELECT 'nan'::DOUBLE AS x)") == (False,) * 4, fact("FACT-NAN-1")
    assert one(engine, f"SELECT {tests} FROM (SELECT NULL::DOUBLE AS x)") == (None,) * 4, fact("FACT-NULL-1")


def test_least_and_greatest_skip_null(engine: duckdb.DuckDBPyConnection) -> None:
    assert one(engine, "SELECT greatest(0, least(10, NULL))") == (10,), fact("FACT-NULL-1")


def test_doubles_out_of_their_domain_are_infinite_or_nan_and_raise_nothing(engine: duckdb.DuckDBPyConnection) -> None:
    infinite = one(engine, "SELECT isinf(1e308::DOUBLE * 10), isinf(ln(0)), isinf(1 / 0), isinf(TRY(ln(0)))")
    undefined = one(engine, "SELECT isnan(sqrt(-1)), isnan(ln(-1)), isnan(0::DOUBLE / 0)")
    assert infinite == (True,) * 4 and undefined == (True,) * 3, fact("FACT-SILENT-1")


@pytest.mark.parametrize("operator", ["//", "%"])
def test_integer_division_by_zero_raises_unless_it_is_set_to_null(
    engine: duckdb.DuckDBPyConnection, operator: str
) -> None:
    with pytest.raises(duckdb.Error):
        engine.execute(f"SELECT 1 {operator} x FROM (SELECT 0 AS x)").fetchall()
        pytest.fail(fact("FACT-ZERO-1"))
    engine.execute("SET error_on_division_by_zero = false")
    assert one(engine, f"SELECT 1 {operator} x FROM (SELECT 0 AS x)") == (None,), fact("FACT-ZERO-1")


@pytest.mark.parametrize(
    "overflow",
    [
        "x + 1 FROM (SELECT 9223372036854775807::BIGINT AS x)",
        "x * 2 FROM (SELECT 9223372036854775807::BIGINT AS x)",
        "abs(x) FROM (SELECT (-9223372036854775808)::BIGINT AS x)",
        f"x + 1 FROM (SELECT {LARGEST}::HUGEINT AS x)",
        f"SUM(x) FROM (VALUES ({LARGEST}::HUGEINT), (1::HUGEINT)) AS t(x)",
        f"SUM(x) FROM (VALUES ({'9' * 38}::DECIMAL(38, 0)), (1::DECIMAL(38, 0))) AS t(x)",
        "CAST(x AS BIGINT) FROM (SELECT 1e19::DOUBLE AS x)",
        "CAST(x AS BIGINT) FROM (SELECT 'nan'::DOUBLE AS x)",
    ],
)
def test_an_integer_that_overflows_raises_and_never_wraps_around(
    engine: duckdb.DuckDBPyConnection, overflow: str
) -> None:
    with pytest.raises(duckdb.Error):
        engine.execute(f"SELECT {overflow}").fetchall()
        pytest.fail(fact("FACT-OVERFLOW-1"))


@pytest.mark.parametrize("type_", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"])
def test_sums_of_integers_are_exact_to_the_last_of_128_bits(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    assert one(engine, f"SELECT typeof(SUM(x::{type_})) FROM (SELECT 1 AS x)") == ("HUGEINT",), fact("FACT-SUM-1")
    total = one(engine, f"SELECT SUM(x) FROM (VALUES ({LARGEST - 1}::HUGEINT), (1::HUGEINT)) AS t(x)")
    assert total == (LARGEST,), fact("FACT-SUM-1")
    many = one(engine, "SELECT SUM(32767::SMALLINT) FROM range(200000)")
    assert many == (32767 * 200000,), fact("FACT-SUM-1")


def test_a_hugeint_leaves_as_a_decimal_of_38_digits(engine: duckdb.DuckDBPyConnection) -> None:
    found = engine.sql("SELECT SUM(1::HUGEINT) AS s").to_arrow_table()
    assert found.schema.field("s").type == pa.decimal128(38, 0), fact("FACT-ARROW-1")


def test_a_cast_to_an_integer_is_monotone_and_leaves_integers_alone(engine: duckdb.DuckDBPyConnection) -> None:
    values = [n / 8 for n in range(-80, 81)] + [2.0**50 + n / 4 for n in range(9)]
    found = [one(engine, f"SELECT CAST({value!r}::DOUBLE AS BIGINT)")[0] for value in values]
    assert found == sorted(found), fact("FACT-ROUND-1")
    assert all(abs(a - b) <= 0.5 for a, b in zip(found, values, strict=True)), fact("FACT-ROUND-1")


# ---------------------------------------------------------------- what is computed for which row


def test_a_branch_of_a_case_is_computed_on_the_rows_that_it_is_chosen_for_alone(
    engine: duckdb.DuckDBPyConnection,
) -> None:
    engine.execute("CREATE TABLE t AS SELECT i % 3 AS x FROM range(10_000) AS r(i)")
    guarded = "SUM(CASE WHEN x <> 0 THEN 10 // x END), SUM(CASE WHEN x = 0 THEN 0 ELSE 10 // x END)"
    expected = sum(10 // (i % 3) for i in range(10_000) if i % 3)
    assert one(engine, f"SELECT {guarded} FROM t") == (expected, expected), fact("FACT-CASE-1")


def test_the_argument_of_an_aggregate_is_computed_before_its_filter(engine: duckdb.DuckDBPyConnection) -> None:
    """Why a FILTER never counts as a guard."""
    with pytest.raises(duckdb.Error):
        engine.execute("SELECT SUM(10 // x) FILTER (WHERE x <> 0) FROM (VALUES (0), (1)) AS t(x)").fetchall()
        pytest.fail(fact("FACT-FILTER-1"))


def test_a_message_of_the_engine_quotes_the_value(engine: duckdb.DuckDBPyConnection) -> None:
    """FACT-MESSAGE-1: why no message of the engine's is ever shown."""
    with pytest.raises(duckdb.Error, match="n77"):
        engine.execute("SELECT CAST(x AS INTEGER) FROM (SELECT 'n' || (70 + 7) AS x)").fetchall()


def test_a_filtered_enum_leaves_with_every_value_of_its_type(engine: duckdb.DuckDBPyConnection) -> None:
    """Why dictionaries are decoded before anything leaves."""
    engine.execute("CREATE TYPE e AS ENUM ('a', 'rare')")
    column = engine.sql("SELECT k FROM (VALUES ('a'::e), ('rare'::e)) AS t(k) WHERE k = 'a'").to_arrow_table()["k"]
    assert column.combine_chunks().dictionary.to_pylist() == ["a", "rare"], fact("FACT-ENUM-1")


# ---------------------------------------------------------------- hashing


def test_a_secret_that_is_hashed_as_a_last_column_is_only_xored_in(engine: duckdb.DuckDBPyConnection) -> None:
    """Why the secret is mixed in before the last round."""
    pairs = "range(20) AS a(u), range(20) AS b(g)"
    found = engine.execute(
        f"SELECT DISTINCT xor(hash(u, g, {KEYS[0]}::UBIGINT), hash(u, g, {KEYS[1]}::UBIGINT)) FROM {pairs}"
    )
    assert len(found.fetchall()) == 1, fact("FACT-HASH-1")


def keyed(secret: int) -> str:
    return f"hash(xor(hash(u, g), {secret}::UBIGINT))"


def test_a_secret_that_is_mixed_in_before_the_last_round_orders_keys_anew(engine: duckdb.DuckDBPyConnection) -> None:
    """Of ten keys a unit's first one: each of them equally often, and under another secret another one."""
    units = 20_000
    firsts = [f"arg_min(g, {keyed(secret)})" for secret in KEYS]
    chosen = engine.execute(
        f"SELECT {', '.join(firsts)} FROM range({units}) AS a(u), range(10) AS b(g) GROUP BY u"
    ).fetchall()
    expected = units / 100  # of each pair; its standard deviation is the root of that, nearly
    counts = Counter(chosen)
    assert len(counts) == 100, fact("FACT-HASH-2")
    assert all(abs(n - expected) < 6 * math.sqrt(expected) for n in counts.values()), fact("FACT-HASH-2")


def test_values_that_are_equal_have_one_hash(engine: duckdb.DuckDBPyConnection) -> None:
    """Floats have several bit patterns for 0 and for NaN; a unit and another key come before and after them."""
    bits = {"DOUBLE": ("d", "Q", [0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1]),
            "FLOAT": ("f", "I", [0, 1 << 31, 0x7FC0 << 16, 0xFFC0 << 16, (0x7FC0 << 16) + 1])}  # fmt: skip
    for kind, (number, whole, patterns) in bits.items():
        raw = b"".join(struct.pack(whole, p) for p in patterns)
        values = np.frombuffer(raw, dtype=np.dtype(number))
        engine.register("patterns", pa.table({"x": values}))
        found = (
            f"SELECT COUNT(DISTINCT x), COUNT(DISTINCT hash(7, x, 'k')) FROM patterns HAVING typeof(MIN(x)) = '{kind}'"
        )
        assert engine.execute(found).fetchall() == [(2, 2)], fact("FACT-HASH-3")
    same = ["1.50::DECIMAL(9,2), 1.5::DECIMAL(9,2)", "'a' || 'b', 'ab'", "'2024-01-01'::DATE, '2024-1-1'::DATE",
            "'2024-01-01 00:00:00+00'::TIMESTAMPTZ, '2024-01-01 01:00:00+01'::TIMESTAMPTZ"]  # fmt: skip
    for pair in same:
        found = f"SELECT a = b AND hash(7, a) = hash(7, b) FROM (SELECT {pair}) AS t(a, b)"
        assert engine.execute(found).fetchone() == (True,), fact("FACT-HASH-3")


# ---------------------------------------------------------------- files and settings


@pytest.fixture
def with_nan(tmp_path: Path) -> Path:
    """Two row groups, each with two NaN; only the second has a number above 5."""
    file = tmp_path / "nan.parquet"
    values = [1.0, 2.0, math.nan, math.nan, 1.0, 6.0, math.nan, math.nan]
    pq.write_table(pa.table({"x": values}), file, row_group_size=4)
    return file


def test_row_groups_are_skipped_by_statistics_that_leave_nan_out(
    engine: duckdb.DuckDBPyConnection, with_nan: Path
) -> None:
    """Why nothing is skipped unless its statistics were compared with its values."""
    assert one(engine, f"SELECT COUNT(*) FROM '{with_nan}' WHERE x > 5") == (3,), fact("FACT-PARQUET-1")


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT * FROM read_parquet('{}') LIMIT 9223372036854775807",
        "SELECT CASE WHEN isnan(x) THEN 'nan'::DOUBLE ELSE x END AS x FROM read_parquet('{}', can_have_nan = true)",
    ],
    ids=["behind a limit", "told of nan"],
)
def test_no_row_group_is_skipped(engine: duckdb.DuckDBPyConnection, with_nan: Path, rows: str) -> None:
    found = one(engine, f"SELECT COUNT(*) FROM ({rows.format(with_nan)}) WHERE x > 5")
    assert found == (5,), fact("FACT-PARQUET-2")


def test_access_to_files_is_closed_for_good_once_its_list_is_made(
    engine: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    allowed, other = tmp_path / "allowed.csv", tmp_path / "other.csv"
    for file in (allowed, other):
        file.write_text("x\n1\n")
    engine.execute(f"SET allowed_paths = ['{allowed}']")
    engine.execute("SET enable_external_access = false")
    engine.execute("SET lock_configuration = true")
    assert one(engine, f"SELECT x FROM read_csv('{allowed}')") == (1,)
    for statement in (
        f"SELECT * FROM read_csv('{other}')",
        f"SET allowed_paths = ['{other}']",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET threads = 1",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'new.duckdb'}'",
    ):
        with pytest.raises(duckdb.Error):
            engine.execute(statement).fetchall()
            pytest.fail(f"{statement}: {fact('FACT-LOCK-1')}")


def test_a_locked_engine_still_runs_several_statements_and_tells_of_itself(engine: duckdb.DuckDBPyConnection) -> None:
    """Why an allow-list of statements and functions stands before the engine."""
    engine.execute("SET enable_external_access = false")
    engine.execute("SET lock_configuration = true")
    assert engine.execute("SELECT 1; SELECT 2").fetchall() == [(2,)], fact("FACT-LOCK-2")
    assert one(engine, "SELECT * FROM query('SELECT 3')") == (3,), fact("FACT-LOCK-2")
    assert engine.execute("SELECT COUNT(*) FROM duckdb_settings()").fetchall() != [(0,)], fact("FACT-LOCK-2")


# ---------------------------------------------------------------- sqlglot


def test_two_statements_are_counted_by_parse_and_not_by_parse_one() -> None:
    text = "SELECT 1; SELECT 2"
    assert len(sqlglot.parse(text, dialect="duckdb")) == 2, "FACT-PARSE-1: see docs/engine-facts.md"
    assert sqlglot.parse_one(text, dialect="duckdb") is not None, "FACT-PARSE-1: see docs/engine-facts.md"


def test_months_and_days_are_told_apart_by_the_form_of_a_sum_alone(engine: duckdb.DuckDBPyConnection) -> None:
    engine.execute("CREATE TABLE t AS SELECT DATE '2024-01-31' AS d")
    once = one(engine, "SELECT d + INTERVAL 1 MONTH, d + INTERVAL 30 DAY FROM t")
    assert once[0] == once[1], fact("FACT-INTERVAL-1")
    month, days = one(engine, "SELECT INTERVAL 1 MONTH + d, d + INTERVAL 30 DAY FROM t")
    assert (month.day, days.day) == (29, 1), fact("FACT-INTERVAL-1")
    month, days = one(
        engine, "SELECT time_bucket(INTERVAL 1 MONTH, d, DATE '2000-01-01'), time_bucket(INTERVAL 30 DAY, d) FROM t"
    )
    assert (month.day, days.day) == (1, 27), fact("FACT-INTERVAL-1")
    together, apart = one(
        engine, "SELECT d - INTERVAL '1 month 3 days', INTERVAL '-1 month' + d - INTERVAL 3 DAY FROM t"
    )
    assert together == apart, fact("FACT-INTERVAL-1")
