"""Randomised rows and neighbours: one row is replaced by any other, and nothing else changes (Theorem RR-1)."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect, cursor_of

import dpsql
from dpsql.backends.base import Codes
from dpsql.backends.duckdb.codes import encode
from dpsql.quote.model import Quote
from dpsql.release import respond

ALPHA_SIGMAS = 4.7534  # the normal quantile of 1 − 1e-6
SQL = "SELECT RANDOMIZED_RESPONSE(b) AS b, RANDOMIZED_RESPONSE(s) AS s, RANDOMIZED_RESPONSE(i) AS i FROM t"
COLUMNS: dict[str, dict[str, Any]] = {"s": {"values": ["z", "x", "y"]}, "i": {"values": [5, -1, 0, 2]}}
POLICY: dict[str, Any] = {"privacy": {"adjacency": "replace_one"}, "tables": {"t": {"unit": "row", "columns": COLUMNS}}}
TYPES = {"b": pa.bool_(), "s": pa.string(), "i": pa.int64()}
Row = tuple[Any, Any, Any]
DATA: list[Row] = [(bool(k % 2), "xyz"[k % 3], (5, -1, 0, 2)[k % 4]) for k in range(50)]
HOSTILE: list[Row] = [
    (None, None, None),
    (True, "unlisted", 77),
    (False, "", -(2**63)),
    (True, "x" * 100_000, 2**63 - 1),
    (None, "n77", 5),
    (True, "X", -1),
    (False, "x ", 2),
    (True, "x\x00", 0),
    (False, "'); DROP TABLE t; --", None),
]


def table(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([r[j] for r in rows], kind) for j, (name, kind) in enumerate(TYPES.items())})


def codes(session: dpsql.Session, sql: str = SQL) -> tuple[Quote, list[tuple[int, ...]]]:
    quote = session.explain(sql, epsilon=1)
    (step,) = quote.responses
    exact = encode(step, cursor_of(session))
    return quote, list(zip(*(c.tolist() for c in exact.columns), strict=True))


def chi_squared_limit(df: int) -> float:
    """The 1 − 1e-6 quantile (Wilson & Hilferty)."""
    return df * (1 - 2 / (9 * df) + ALPHA_SIGMAS * math.sqrt(2 / (9 * df))) ** 3


@pytest.mark.sample(9)
@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("place", [0, 17, 49])
def test_replacing_one_row_changes_the_codes_of_that_row_and_nothing_else(
    connect: Connect, hostile: Row, place: int
) -> None:
    here, before = codes(connect({"t": table(DATA)}, POLICY))
    other = connect({"t": table([*DATA[:place], hostile, *DATA[place + 1 :]])}, POLICY)
    there, after = codes(other)
    assert len(before) == len(after) == len(DATA)
    assert sum((Counter(before) - Counter(after)).values()) <= 1
    assert sum((Counter(after) - Counter(before)).values()) <= 1
    assert all(0 <= c < size for row in after for c, size in zip(row, (2, 3, 4), strict=True))
    assert str(here) == str(there)
    assert here.price == there.price
    answer = other.query(SQL, epsilon=1)
    assert answer.to_arrow().schema == pa.schema(list(TYPES.items()))
    assert len(answer.rows) == len(DATA)
    assert all(b in (True, False) and s in ("x", "y", "z") and i in (5, -1, 0, 2) for b, s, i in answer.rows)


def test_null_and_unlisted_values_are_the_first_of_the_list_and_false(connect: Connect) -> None:
    _, found = codes(connect({"t": table(HOSTILE[:3])}, POLICY))
    assert sorted(found) == [(0, 0, 0), (0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.string()), pa.large_string()])
def test_texts_of_every_encoding_are_texts(connect: Connect, kind: pa.DataType) -> None:
    rows = pa.table({"s": pa.array(["x", "y", "z", "unlisted", None]).cast(kind)})
    session = connect({"t": rows}, {**POLICY, "tables": {"t": {"unit": "row", "columns": {"s": COLUMNS["s"]}}}})
    answer = session.query("SELECT RANDOMIZED_RESPONSE(s) AS s FROM t", epsilon=10**6)
    assert sorted(s for (s,) in answer.rows) == ["x", "y", "z", "z", "z"]
    # A dictionary would carry the unlisted value out.
    assert not pa.types.is_dictionary(answer.to_arrow().schema.field("s").type)


def test_values_that_are_the_same_once_they_are_typed_never_repeat_a_row(connect: Connect) -> None:
    rows = pa.table({"d": pa.array([Decimal(1), Decimal(2), None, Decimal(3)], pa.decimal128(5, 1))})
    columns = {"d": {"values": [1.01, 0.99, 2]}}
    session = connect({"t": rows}, {**POLICY, "tables": {"t": {"unit": "row", "columns": columns}}})
    answer = session.query("SELECT RANDOMIZED_RESPONSE(d) AS d FROM t", epsilon=10**6)
    assert sorted(float(d) for (d,) in answer.rows) == [1, 1, 1, 2]


def test_one_row_leaves_with_the_probabilities_of_the_formula_whatever_it_holds(connect: Connect) -> None:
    (step,) = connect({"t": table(DATA)}, POLICY).explain("SELECT RANDOMIZED_RESPONSE(s) FROM t", epsilon=1).responses
    n, kept = 120_000, math.e / (math.e + 2)
    laws = []
    for value in range(3):
        (column,) = respond(step, Codes((np.full(n, value, dtype=np.uint32),))).columns
        counts = np.bincount(column.codes, minlength=3)
        expected = n * np.array([kept if y == value else (1 - kept) / 2 for y in range(3)])
        assert float(np.sum((counts - expected) ** 2 / expected)) < chi_squared_limit(2)
        laws.append(counts / n)
    # What an attacker sees of two neighbours: the largest ratio is e, and no more than chance away from it.
    ratio = max(a[y] / b[y] for a in laws for b in laws for y in range(3))
    assert 0.95 * math.e < ratio < 1.05 * math.e


def test_columns_of_a_row_are_randomised_independently(connect: Connect) -> None:
    sql = "SELECT RANDOMIZED_RESPONSE(b) AS b, RANDOMIZED_RESPONSE(i) AS i FROM t"
    (step,) = connect({"t": table(DATA)}, POLICY).explain(sql, epsilon=1).responses
    n = 200_000
    zeros = np.zeros(n, dtype=np.uint32)
    b, i = (c.codes for c in respond(step, Codes((zeros, zeros))).columns)
    odds = math.exp(-0.5)
    expected = n * np.outer([1, odds], [1, odds, odds, odds]) / ((1 + odds) * (1 + 3 * odds))
    counts = np.bincount(4 * b + i, minlength=8).reshape(2, 4)
    assert float(np.sum((counts - expected) ** 2 / expected)) < chi_squared_limit(7)


def test_rows_stay_whole_and_leave_in_every_order_equally_often(connect: Connect) -> None:
    sql = "SELECT RANDOMIZED_RESPONSE(s) AS s, RANDOMIZED_RESPONSE(i) AS i FROM t"
    (step,) = connect({"t": table(DATA)}, POLICY).explain(sql, epsilon=10**7).responses
    exact = Codes((np.array([0, 1, 2], np.uint32), np.array([3, 1, 2], np.uint32)))
    n = 12_000
    orders: Counter[tuple[int, ...]] = Counter()
    for _ in range(n):
        first, second = (c.codes.tolist() for c in respond(step, exact).columns)
        assert sorted(zip(first, second, strict=True)) == [(0, 3), (1, 1), (2, 2)]
        orders[tuple(first)] += 1
    assert len(orders) == 6
    assert sum((c - n / 6) ** 2 / (n / 6) for c in orders.values()) < chi_squared_limit(5)


def test_the_order_of_the_data_leaves_no_trace_in_an_answer(connect: Connect) -> None:
    # All TRUE first: without a shuffle the first half of the answer would be TRUE.
    n = 2000
    rows = pa.table({"b": pa.array([k < n // 2 for k in range(n)])})
    session = connect({"t": rows}, {**POLICY, "tables": {"t": {"unit": "row"}}})
    answer = session.query("SELECT RANDOMIZED_RESPONSE(b) AS b FROM t", epsilon=10**6)
    first = sum(b for (b,) in answer.rows[: n // 2])
    assert abs(first - n / 4) < ALPHA_SIGMAS * math.sqrt(n / 16)


def test_files_are_read_like_tables_and_only_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    pq.write_table(table(DATA), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("b,s,i\ntrue,x,5\nnonsense,y,-1\n,unlisted,zzz\n")
    typed: dict[str, dict[str, Any]] = {
        "b": {"type": "BOOLEAN"},
        "s": {"type": "VARCHAR", **COLUMNS["s"]},
        "i": {"type": "BIGINT", **COLUMNS["i"]},
    }
    for source, columns, count in (("t.parquet", COLUMNS, len(DATA)), ("t.csv", typed, 3)):
        tables = {"t": {"source": source, "unit": "row", "columns": columns}}
        whole = {"budget": {"epsilon": 100, "delta": 0}, "privacy": {"adjacency": "replace_one"}, "tables": tables}
        policy = dpsql.Policy.from_dict(whole, folder=tmp_path)
        with dpsql.connect(policy, ledger=":memory:") as session:
            assert len(session.query(SQL, epsilon=1).rows) == count
            quote, found = codes(session, "SELECT RANDOMIZED_RESPONSE(s) FROM t")
            assert len(found) == count
            assert [name for name, _ in quote.responses[0].statement.input.columns] == ["s"]


def test_a_failure_is_one_constant_message_and_stays_charged(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect({"t": table(DATA)}, POLICY, epsilon=2)

    def broken(statement: object) -> Any:
        from sqlglot import parse_one

        return parse_one("SELECT CAST(s AS INTEGER) FROM t", dialect="duckdb")

    monkeypatch.setattr("dpsql.backends.duckdb.codes.render_codes", broken)
    with pytest.raises(dpsql.DataError) as failed:
        session.query(SQL, epsilon=1)
    assert failed.value.code == "engine" and "x" not in failed.value.message.split()
    assert failed.value.__cause__ is None
    assert session.budget.spent.epsilon == 1


def test_nothing_is_read_before_it_is_paid_for(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = connect({"t": table(DATA)}, POLICY, epsilon=1)
    read = []

    def encoded(*given: Any) -> Any:
        read.append(session.budget.spent.epsilon)
        return encode(*given)

    monkeypatch.setattr("dpsql.backends.duckdb.backend.encode", encoded)
    session.query(SQL, epsilon=1)
    assert read == [1]
    with pytest.raises(dpsql.BudgetError):
        session.query(SQL, epsilon=1, fresh=True)
    assert read == [1]
