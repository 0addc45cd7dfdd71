"""Parameters are bound as the literals that they stand for: the same tree, the same price, the same stored releases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from support import Connect, examples

import dpsql
from dpsql.cli.main import cli
from dpsql.cli.options import read_params
from dpsql.core.errors import SQLError
from dpsql.core.parameters import Parameters
from dpsql.sql.parameters import bound, spots, written
from dpsql.sql.parse import MAX_LENGTH, parse

TABLE = pa.table(
    {
        "id": list(range(60)),
        "k": ["a", "b", "c"] * 20,
        "w": [i % 7 for i in range(60)],
        "v": [float(i % 50) for i in range(60)],
        "d": [date(2024, 1, 1 + i % 28) for i in range(60)],
        "t": [datetime(2024, 1, 1 + i % 28, 12) for i in range(60)],
    }
)
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "k": {"values": ["a", "b", "c"]},
                "w": {"min": 0, "max": 7},
                "v": {"min": 0, "max": 50},
                "d": {"min": date(2024, 1, 1), "max": date(2024, 1, 31)},
            },
        }
    }
}


class Colour(str, Enum):  # noqa: UP042  # str() of it is its name, not its text
    RED = "red's"


def tree(sql: str, params: Any = None) -> exp.Query:
    return parse(sql, spots(sql, None if params is None else Parameters.of(params))).root


PAIRS: list[tuple[str, Any, str]] = [
    ("SELECT ?", [5], "SELECT 5"),
    ("SELECT ?", [-5], "SELECT -5"),
    ("SELECT ? ** 2", [-5], "SELECT (-5) ** 2"),
    ("SELECT ?::VARCHAR", [-5], "SELECT (-5)::VARCHAR"),
    ("SELECT 3 - ?", [-5], "SELECT 3 - -5"),
    ("SELECT 3-?, k FROM t", [-5], "SELECT 3 - -5, k FROM t"),  # no comment
    ("SELECT 'a'?'c'", ["b"], "SELECT 'a' 'b' 'c'"),  # no text with quotes in it
    ("SELECT CASE WHEN?THEN?END", [True, 5], "SELECT CASE WHEN TRUE THEN 5 END"),
    ("SELECT ?e3", [5], "SELECT 5 AS e3"),  # not 5000
    ("SELECT ?", [True], "SELECT TRUE"),
    ("SELECT ?", [None], "SELECT NULL"),
    ("SELECT ?", [1.5], "SELECT 1.5"),
    ("SELECT ?", [1e-7], "SELECT 1e-07"),
    ("SELECT ?", [0.1 + 0.2], "SELECT 0.30000000000000004e0"),
    ("SELECT ?", [Decimal("1.50")], "SELECT 1.50"),
    ("SELECT ?", [Decimal("-1E+3")], "SELECT -1000"),
    ("SELECT ?", ["it's; -- \" \\' $$"], "SELECT 'it''s; -- \" \\'' $$'"),
    ("SELECT ?", [Colour.RED], "SELECT 'red''s'"),
    ("SELECT ?", [date(2024, 1, 31)], "SELECT DATE '2024-01-31'"),
    ("SELECT ?", [date(2024, 1, 31)], "SELECT CAST('2024-01-31' AS DATE)"),
    ("SELECT ?", [datetime(2024, 1, 31, 5)], "SELECT TIMESTAMP '2024-01-31 05:00:00'"),
    (
        "SELECT ?",
        [datetime(2024, 1, 31, 5, 0, 0, 1, timezone(timedelta(hours=2)))],
        "SELECT TIMESTAMPTZ '2024-01-31 03:00:00.000001+00:00'",
    ),
    ("SELECT ?", [time(5, 30)], "SELECT TIME '05:30:00'"),
    ("SELECT ? + INTERVAL ? DAY", [date(2024, 1, 31), 3], "SELECT DATE '2024-01-31' + INTERVAL 3 DAY"),
    ("SELECT DATE_TRUNC(?, d) FROM t", ["month"], "SELECT DATE_TRUNC('month', d) FROM t"),
    ("SELECT STRPTIME(k, ?) FROM t", ["%d %Y"], "SELECT STRPTIME(k, '%d %Y') FROM t"),
    ("SELECT x[?] FROM t", [2], "SELECT x[2] FROM t"),
    ("SELECT QUANTILE_CONT(v, ?) FROM t", [0.5], "SELECT QUANTILE_CONT(v, 0.5) FROM t"),
    ('SELECT COUNT(*) AS "my n" FROM t WHERE k = ?', ["my n"], """SELECT COUNT(*) AS "my n" FROM t WHERE k = 'my n'"""),
    ("SELECT LIST_SUM(x) FROM t WHERE k = ?", ["LIST_SUM"], "SELECT LIST_SUM(x) FROM t WHERE k = 'LIST_SUM'"),
    ("SELECT k FROM t WHERE k = ? AND w = 1", ["1"], "SELECT k FROM t WHERE k = '1' AND w = 1"),
    ("SELECT k FROM t LIMIT ? OFFSET ?", [3, 2], "SELECT k FROM t LIMIT 3 OFFSET 2"),
    ("SELECT k IN (?) FROM t", [["a", "b"]], "SELECT k IN ('a', 'b') FROM t"),
    ("SELECT k NOT IN ? FROM t", [("a", "b")], "SELECT k NOT IN ('a', 'b') FROM t"),
    ("SELECT w IN (?, ?) FROM t", [1, -2], "SELECT w IN (1, -2) FROM t"),
    ("SELECT $2, $1, $2", [1, 2], "SELECT 2, 1, 2"),
    ("SELECT $b, $a, $b", {"a": 1, "b": 2}, "SELECT 2, 1, 2"),
    ("SELECT '?', \"$1\", ? -- ?", [1], "SELECT '?', \"$1\", 1"),
    ("SELECT ?", [np.int64(5)], "SELECT 5"),
    ("SELECT ?", [np.float64(1.5)], "SELECT 1.5"),
    ("SELECT ?", [np.bool_(True)], "SELECT TRUE"),
    ("SELECT ?", [np.datetime64("2024-01-31")], "SELECT DATE '2024-01-31'"),
    ("SELECT w IN ? FROM t", [np.array([1, 2])], "SELECT w IN (1, 2) FROM t"),
    ("SELECT ?", [pd.Timestamp(2024, 1, 31)], "SELECT TIMESTAMP '2024-01-31 00:00:00'"),
]


@pytest.mark.parametrize(("sql", "params", "literal"), PAIRS, ids=[f"{p[0]} {p[1]}" for p in PAIRS])
def test_a_bound_query_is_the_query_that_is_written_with_literals(sql: str, params: Any, literal: str) -> None:
    assert tree(sql, params) == tree(literal)


@pytest.mark.parametrize(("sql", "params", "literal"), PAIRS, ids=[f"{p[0]} {p[1]}" for p in PAIRS])
def test_what_the_ledger_notes_is_the_query_with_its_values(sql: str, params: Any, literal: str) -> None:
    values = spots(sql, Parameters.of(params))
    assert tree(written(sql, values)) == tree(literal)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_text_is_anything_but_one_literal(value: str) -> None:
    root = tree("SELECT COUNT(*) FROM t WHERE k = ? AND w > 1", [value])
    plain = tree("SELECT COUNT(*) FROM t WHERE k = 'x' AND w > 1")
    (found,) = [node for node in root.find_all(exp.Literal) if node.is_string]
    assert found.this == value
    found.replace(exp.Literal.string("x"))
    assert root == plain


@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_keeps_its_value(value: float) -> None:
    root = tree("SELECT ?", [value])
    number = root.find(exp.Literal)
    assert number is not None
    read = int(number.this) if isinstance(value, int) else float(number.this)
    assert (-read if root.find(exp.Neg) else read) == value


@pytest.mark.parametrize(
    "place", ["FROM ?", "FROM t AS ?", "FROM t JOIN u USING (?)", "FROM t WINDOW ? AS (ORDER BY w)"]
)
def test_a_parameter_is_never_a_name(place: str) -> None:
    with pytest.raises(SQLError):
        tree(f"SELECT 1 {place}", ["t"])


@pytest.mark.parametrize("value", ["day) FROM secret --", "mo nth", 'x"y', "a.b"])
@pytest.mark.parametrize(
    "sql", ["SELECT DATE_TRUNC(?, d) FROM t", "SELECT INTERVAL 5 ?", "SELECT EXTRACT(? FROM d) FROM t"]
)
def test_what_is_written_without_quotes_is_a_word(sql: str, value: str) -> None:
    """Units are written as they are: nothing but letters gets there from a value."""
    try:
        root = tree(sql, [value])
    except SQLError:
        return
    assert all(node.name.isalpha() for node in root.find_all(exp.Var))
    assert not any(value.lower() in node.name.lower() for node in root.find_all(exp.Identifier))


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), Decimal("nan"), Decimal("1E+999999"), 10**400, b"x", object(), Fraction(1, 3),
     "\ud800", np.datetime64("2024-01-31T00:00", "ns"), np.datetime64("NaT"), np.timedelta64(1, "D"),
     pd.NaT, pd.Timestamp("2024-01-01 00:00:00.000000001"), {"a": 1}, time(5, tzinfo=UTC), timedelta(1)],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)  # fmt: skip
def test_values_without_a_literal_are_refused(value: object) -> None:
    with pytest.raises(SQLError) as refused:
        Parameters.of([value])
    assert refused.value.code == "parameter" and refused.value.hint


def test_values_count_for_the_length_of_a_query() -> None:
    with pytest.raises(SQLError) as refused:
        tree("SELECT $1, $1", ["x" * (MAX_LENGTH // 2)])
    assert refused.value.code == "too-long"


def test_tokens_of_a_value_stand_where_its_parameter_stands() -> None:
    from sqlglot.dialects.dialect import Dialect

    sql = "SELECT ABS(?) FROM t"
    tokens = bound(sql, Dialect.get_or_raise("duckdb").tokenize(sql), spots(sql, Parameters.of([-12345])))
    assert {(t.start, t.end) for t in tokens if t.text in ("-", "12345")} == {(11, 11)}


# ---------------------------------------------------------------- sessions


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100)


def test_a_bound_query_is_stored_and_free_as_the_query_with_literals(session: dpsql.Session) -> None:
    literal = session.query("SELECT k, COUNT(*) AS n FROM t WHERE w > 3 AND k IN ('a', 'b') GROUP BY k", epsilon=1)
    sql = "SELECT k, COUNT(*) AS n FROM t WHERE w > $low AND k IN $keys GROUP BY k"
    again = session.query(sql, epsilon=1, params={"low": 3, "keys": ["a", "b"]})
    assert again.receipt.reused and again.rows == literal.rows
    assert session.budget.spent.epsilon == 1
    other = session.query(sql, epsilon=1, params={"low": 4, "keys": ["a", "b"]})
    assert not other.receipt.reused and session.budget.spent.epsilon == 2
    free = session.query("SELECT k, COUNT(*) AS n FROM t WHERE w > 4 AND k IN ('a', 'b') GROUP BY k", epsilon=1)
    assert free.receipt.reused and free.rows == other.rows


def test_the_ledger_and_explain_name_the_values(session: dpsql.Session) -> None:
    session.query("SELECT COUNT(*) FROM t WHERE k = ?", epsilon=1, params=["it's"])
    (entry,) = session._engine.ledger.history()
    assert entry.note["sql"] == "SELECT COUNT(*) FROM t WHERE k = 'it''s'"


def test_explain_takes_parameters_and_spends_nothing(session: dpsql.Session) -> None:
    bound_ = session.explain("SELECT COUNT(*) FROM t WHERE d < $day", epsilon=1, params={"day": date(2024, 1, 5)})
    plain = session.explain("SELECT COUNT(*) FROM t WHERE d < DATE '2024-01-05'", epsilon=1)
    assert str(bound_) == str(plain) and session.budget.spent.epsilon == 0
    assert len(session.prices("SELECT COUNT(*) FROM t WHERE w > ?", params=[3])) > 1


def test_a_batch_numbers_its_parameters_through(session: dpsql.Session) -> None:
    text = "SELECT COUNT(*) FROM t WHERE w > ?;\nSELECT COUNT(*) FROM t WHERE w < ?"
    session.batch(text, epsilon=1, params=[3, 5])
    (entry,) = session._engine.ledger.history()
    assert entry.note["sql"] == "SELECT COUNT(*) FROM t WHERE w > 3;\nSELECT COUNT(*) FROM t WHERE w < 5"
    assert session.query("SELECT COUNT(*) FROM t WHERE w < 5", epsilon="0.1").receipt.reused
    with pytest.raises(SQLError) as refused:
        session.batch(text, epsilon=1, params=[3])
    assert refused.value.span is not None and refused.value.span.line == 2
    assert session.budget.spent.epsilon == 1


def test_the_plans_of_other_values_are_others(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE w > ?"
    values: list[Any] = [3, 4, 3.0, "3", True]
    quotes = [session.explain(sql, epsilon=1, params=[v]).plan.text for v in values[:4]]
    assert len(set(quotes)) == 4
    given = [3]
    session.explain(sql, epsilon=1, params=given)
    given[0] = 5
    assert session.explain(sql, epsilon=1, params=given).plan.text.endswith("5")


def test_an_error_points_at_the_parameter(session: dpsql.Session) -> None:
    with pytest.raises(SQLError) as refused:
        session.query("SELECT COUNT(*)\nFROM t WHERE w > $limit", epsilon=1, params={"limit": "many"})
    assert refused.value.span == dpsql.Span(2, 18, 6)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(
        "[budget]\nepsilon = 10\nquery_epsilon = 1\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "row"\n'
        '[tables.t.columns]\nk = { values = ["a", "b", "c"] }\nw = { min = 0, max = 7 }\n'
    )
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli, arguments)


def test_param_gives_values_by_name_and_by_place(run: Callable[..., Any]) -> None:
    literal = run("query", "SELECT COUNT(*) AS n FROM t WHERE w > 3 AND k IN ('a', 'b')")
    named = run(
        "query", "SELECT COUNT(*) AS n FROM t WHERE w > $w AND k IN $k", "--param", "w=3", "--param", "k=[a, b]"
    )
    placed = run(
        "query", "SELECT COUNT(*) AS n FROM t WHERE w > ? AND k IN ?", "--param", "2=[a,'b']", "--param", "1=3"
    )
    assert literal.exit_code == named.exit_code == placed.exit_code == 0
    assert literal.stdout == named.stdout == placed.stdout and "cost nothing" in named.stderr
    shown = run("explain", "SELECT COUNT(*) FROM t WHERE w > $w", "--param", "w=3", "--json")
    assert json.loads(shown.stdout)["sql"] == "SELECT COUNT(*) FROM t WHERE w > 3"
    missing = run("query", "SELECT COUNT(*) FROM t WHERE w > $w")
    assert missing.exit_code == 3 and "--param w=" in missing.stderr
    assert run("query", "SELECT COUNT(*) FROM t WHERE w > $w", "--param", "w").exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("-5", -5), ("007", "007"), ("1.50", Decimal("1.50")), ("1e3", 1000.0), ("true", True),
        ("NULL", None),
        ("2024-01-31", date(2024, 1, 31)), ("2024-01-31 05:00", datetime(2024, 1, 31, 5)), ("2024-13-31", "2024-13-31"),
        ("Bern", "Bern"), ("'5'", "5"), ("it's", "it's"), ("'it''s'", "it's"), ("", ""), ("a=b", "a=b"),
        ("[1, 2]", [1, 2]), ("['a, b', c]", ["a, b", "c"]), ("[]", []),
    ],
)  # fmt: skip
def test_a_value_on_the_command_line_is_what_it_looks_like(text: str, value: object) -> None:
    assert read_params([f"x={text}"]) == {"x": value} and type(read_params([f"x={text}"])["x"]) is type(value)
