"""Where an error points, and how it writes what it points at."""

from __future__ import annotations

import logging

import pytest
from sqlglot import parse_one

from dpsql.core.errors import Span, SQLError
from dpsql.plan.nodes import Scan
from dpsql.sql.parse import parse
from dpsql.sql.refuse import offsets, refuse, shown


@pytest.mark.parametrize(
    ("text", "piece", "marked"),
    [
        ("SELECT SUM(a FROM t", "SUM(a", "SUM(a"),  # never closed
        ("SELECT SUM(a) FROM t", "SUM(a", "SUM(a)"),
        ("SELECT f(g(a)) + 1", "f(g(a", "f(g(a))"),
        ("SELECT f(')', a) + 1", "f(')', a", "f(')', a)"),
        ("SELECT f() + 1", "f", "f()"),
        ("SELECT COUNT(f()) + 1", "COUNT(f", "COUNT(f())"),
        ("SELECT a FROM t", "a", "a"),
        ("SELECT f(a,\n b)", "f(a", "f(a,"),  # one line
    ],
)
def test_a_span_ends_where_its_brackets_do(text: str, piece: str, marked: str) -> None:
    start = text.index(piece)
    span = Span.of(text, start, start + len(piece))
    assert text[start : start + span.length] == marked


def test_a_caret_stands_under_its_word_behind_tabs_and_other_alphabets() -> None:
    for text in ("SELECT\n\t\ta, bad", "SELECT\n'ü€', bad"):
        error = SQLError("no", code="x", hint="h")
        error.offsets = (text.index("bad"), text.index("bad") + 3)
        line, caret = str(error.locate(text)).splitlines()[1:3]
        assert caret.index("^") == line.index("bad") and caret.count("^") == 3
        assert caret.count("\t") == line.count("\t")


@pytest.mark.parametrize(
    "sql",
    [
        "MIN(a)",
        "ANY_VALUE(a)",
        "CAST(a AS INT)",
        "TRY_CAST(a AS INT)",
        "CASE WHEN a > 1 THEN 2 END",
        "CASE a WHEN 1 THEN 2 ELSE 3 END",
        "EXTRACT(year FROM a)",
        "STRING_AGG(a, ',')",
        "MAX(CASE WHEN a > 1 THEN MIN(b) END)",
        "COALESCE(a, MIN(b + 1))",
    ],
)
def test_a_call_knows_where_it_stands(sql: str) -> None:
    text = f"SELECT 1 + {sql} AS x FROM t"
    call = parse(text).root.selects[0].find(type(parse_one(sql, dialect="duckdb")))
    assert call is not None
    place = offsets(call)
    assert place is not None
    span = Span.of(text, *place)
    assert text[span.column - 1 : span.column - 1 + span.length] == sql


def test_an_operator_does_not_take_the_call_around_it_for_its_own() -> None:
    text = "SELECT MIN(a ~ 'x') FROM t"
    operand = parse(text).root.selects[0].this
    assert offsets(operand) == (text.index("a ~"), text.index(")"))


def test_names_are_quoted_only_where_sql_needs_it() -> None:
    tree = parse_one('"a" + "t"."B c" * "order" - "Mixed"', dialect="duckdb")
    assert shown(tree) == 'a + "B c" * "order" - Mixed'
    assert shown(tree, 9) == 'a + "B c…'


def test_a_refusal_without_a_place_has_no_offsets() -> None:
    assert refuse(SQLError, "no", None, code="x", hint="h").offsets is None
    assert refuse(SQLError, "no", [], code="x", hint="h").offsets is None


def test_equal_scans_are_equal_wherever_they_are_written() -> None:
    first, second = (parse_one(f"SELECT {' ' * n}a", dialect="duckdb").expressions[0] for n in (1, 9))
    assert Scan("t", (), None, node=first) == Scan("t", (), None, node=second)


@pytest.mark.parametrize("text", ["EXPLAIN SELECT 1", "SELECT 1; CALL f()", "RESET x", "ALTER TABLE t FROB", "LOAD x"])
def test_a_refused_statement_is_not_logged_elsewhere(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(SQLError):
        parse(text)
    assert not caplog.records
