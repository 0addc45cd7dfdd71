"""Ranges: interval arithmetic is sound, and conditions narrow it."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from dpsql.core.ranges import Range
from dpsql.core.types import Type, integer_for
from dpsql.sql.scalar import Scalar, scalar, tighten

numbers = st.fractions(-1000, 1000, max_denominator=50)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, high = sorted((draw(numbers), draw(numbers)))
    return Range(
        None if draw(st.integers(0, 4)) == 0 else low,
        None if draw(st.integers(0, 4)) == 0 else high,
        draw(st.booleans()),
    )


@st.composite
def inhabited(draw: st.DrawFn) -> tuple[Range, Fraction]:
    """A range and one of its values."""
    known = draw(ranges())
    low = known.low if isinstance(known.low, Fraction) else Fraction(-2000)
    high = known.high if isinstance(known.high, Fraction) else Fraction(2000)
    return known, draw(st.fractions(low, high, max_denominator=50))


@given(inhabited(), inhabited())
def test_arithmetic_keeps_every_value_inside(one: tuple[Range, Fraction], two: tuple[Range, Fraction]) -> None:
    (a, x), (b, y) = one, two
    assert a.add(b).contains(x + y)
    assert a.sub(b).contains(x - y)
    assert a.mul(b).contains(x * y)
    if y:
        assert a.div(b).contains(x / y)
        remainder = x - y * int(x / y)
        assert a.mod(b).contains(remainder)
    assert a.neg().contains(-x) and a.abs().contains(abs(x)) and a.rounded(1).contains(Fraction(round(x, 1)))
    assert a.hull(b).contains(x) and a.hull(b).contains(y)
    assert a.clip(Fraction(-5), Fraction(5)).contains(min(max(x, Fraction(-5)), Fraction(5)))


@given(st.lists(st.tuples(inhabited(), st.booleans()), min_size=1, max_size=4))
def test_least_and_greatest_skip_nulls(parts: list[tuple[tuple[Range, Fraction], bool]]) -> None:
    given_ = [r for (r, _), _ in parts]
    present = [x for (r, x), null in parts if not (null and r.nullable)]
    for found, choose in ((Range.least(given_), min), (Range.greatest(given_), max)):
        if present:
            assert found.contains(choose(present))
        else:
            assert found.nullable


@given(inhabited(), ranges())
def test_an_intersection_loses_no_value_that_both_allow(one: tuple[Range, Fraction], other: Range) -> None:
    known, x = one
    if other.contains(x):
        assert known.intersect(other).contains(x)


def test_an_empty_range_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="empty range"):
        Range.of(1, 0)


def test_magnitude_and_span_need_both_ends() -> None:
    assert Range.of(-3, 2).magnitude == 3 and Range.of(-3, 2).span == 5
    assert Range.of(date(2020, 1, 1), date(2020, 1, 31)).span == 30
    assert Range.of(datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 1)).span == 1_000_000
    for open_ in (Range.of(0, None), Range.of(None, 0)):
        with pytest.raises(ValueError, match="open range"):
            _ = open_.magnitude


def test_reasons_are_kept_once() -> None:
    a, b = Range.of(0, 1, why=("a: policy [0, 1]",)), Range.of(0, 2, why=("b: policy [0, 2]",))
    assert a.add(b).mul(a).why == ("a: policy [0, 1]", "b: policy [0, 2]")


# Expressions


def _columns() -> dict[str, Scalar]:
    made: dict[str, tuple[str, Any, Any]] = {
        "age": ("INTEGER", 0, 120),
        "price": ("DECIMAL(15,2)", 0, 1000),
        "discount": ("DECIMAL(15,2)", 0, Fraction(1, 10)),
        "x": ("DOUBLE", None, None),
        "seen": ("DATE", date(2020, 1, 1), date(2022, 12, 31)),
        "at": ("TIMESTAMP", None, None),
        "ok": ("BOOLEAN", 0, 1),
        "name": ("VARCHAR", None, None),
    }
    return {n: Scalar(exp.column(n), Type.parse(t), Range.of(low, high)) for n, (t, low, high) in made.items()}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("price * (1 - discount)", 0, 1000),
        ("LEAST(GREATEST(x, 0), 500)", 0, 500),
        ("GREATEST(LEAST(x, 500), 0)", 0, 500),
        ("CLIP(x, -1, 1)", -1, 1),
        ("CLIP(at, '2024-01-31', '2024-02-29')", datetime(2024, 1, 31), datetime(2024, 2, 29)),
        ("CLIP(seen, DATE '2021-01-31', DATE '2029-02-28')", date(2021, 1, 31), date(2022, 12, 31)),
        ("CLIP(seen, DATE '2024-01-31', DATE '2029-02-28')", date(2024, 1, 31), date(2024, 1, 31)),
        ("CASE WHEN age > 17 THEN price ELSE 0 END", 0, 1000),
        ("CASE WHEN age BETWEEN 18 AND 65 THEN age ELSE 30 END", 18, 65),
        ("COALESCE(age, -1)", -1, 120),
        ("ABS(age - 60)", 0, 60),
        ("ROUND(price / 7, 1)", 0, Fraction(1429, 10)),
        ("FLOOR(age / 7)", 0, 17),
        ("age // 7", 0, 17),
        ("age % 7", 0, 6),
        ("CAST(ok AS INTEGER)", 0, 1),
        ("CAST(x > 5 AS INTEGER)", 0, 1),
        ("ok", 0, 1),
        ("YEAR(seen)", 2020, 2022),
        ("MONTH(at)", 1, 12),
        ("DATE_DIFF('day', DATE '2020-01-01', seen)", 0, 1095),
        ("seen - DATE '2020-01-01'", 0, 1095),
        ("CAST(seen AS TIMESTAMP)", datetime(2020, 1, 1), datetime(2022, 12, 31)),
        ("DATE_TRUNC('year', seen)", datetime(2020, 1, 1), datetime(2022, 1, 1)),
        ("seen + INTERVAL 1 MONTH", datetime(2020, 2, 1), datetime(2023, 1, 31)),
        ("POWER(age - 60, 2)", 0, 3600),
        ("LENGTH(name)", 0, None),
        ("x", None, None),
        ("CAST(x AS TINYINT)", None, None),
        ("1 / (age - 5)", None, None),
        ("120 / (age + 1)", Fraction(120, 121), 120),
    ],
)
def test_a_range_follows_from_those_of_its_columns(text: str, low: Any, high: Any) -> None:
    known = scalar(parse_one(text, dialect="duckdb"), _columns()).range
    assert (known.low, known.high) == (low, high)


def test_a_type_alone_gives_a_range_only_to_booleans() -> None:
    bare = {n: Scalar(exp.column(n), Type.parse(t), Range()) for n, t in (("i", "TINYINT"), ("d", "DECIMAL(3,1)"))}
    for text in ("i", "d", "i + 1", "-d", "ABS(i) * -1", "CAST(d AS TINYINT)"):
        known = scalar(parse_one(text, dialect="duckdb"), bare).range
        assert not known.is_finite
    assert scalar(parse_one("i > 3", dialect="duckdb"), bare).range.is_finite


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("age", True), ("COALESCE(age, 0)", False), ("GREATEST(age, 0)", False), ("age IS NULL", False),
        ("NULLIF(1, 2)", True),
        ("1 / 2", False), ("1 // 0", True), ("CAST('5' AS INTEGER)", False), ("CAST(COALESCE(x, 0) AS INTEGER)", True),
        ("CAST(COALESCE(age, 0) AS BIGINT)", False), ("CASE WHEN ok THEN 1 END", True),
        ("CASE WHEN ok THEN 1 ELSE 2 END", False),
        ("CONCAT(name, 'a')", False), ("name || 'a'", True), ("LN(COALESCE(x, 1))", True),
        ("CLIP(COALESCE(x, 1), 0, 1)", True),
        ("CLIP(COALESCE(age, 1), 0, 1)", False), ("name IS NOT DISTINCT FROM 'a'", False),
        ("CASE WHEN age > 3 THEN age ELSE 0 END", False),
    ],
)  # fmt: skip
def test_only_what_is_proved_is_never_null(text: str, nullable: bool) -> None:
    assert scalar(parse_one(text, dialect="duckdb"), _columns()).range.nullable is nullable


# Conditions


@pytest.mark.parametrize(
    ("condition", "column", "low", "high"),
    [
        ("age >= 18", "age", 18, 120),
        ("18 <= age AND age < 65", "age", 18, 65),
        ("age BETWEEN 18 AND 65 AND name LIKE 'a%'", "age", 18, 65),
        ("(age = 30)", "age", 30, 30),
        ("age IN (20, 40, 30)", "age", 20, 40),
        ("age > 17.5", "age", Fraction(35, 2), 120),
        ("x > -1 AND x < 1e3", "x", -1, 1000),
        ("seen >= '2021-01-01'", "seen", date(2021, 1, 1), date(2022, 12, 31)),
        ("seen < TIMESTAMP '2021-06-01 12:00:00'", "seen", date(2020, 1, 1), date(2021, 6, 1)),
        ("at >= DATE '2021-01-01'", "at", datetime(2021, 1, 1), None),
        ("ok", "ok", 1, 1),
        ("NOT ok", "ok", 0, 0),
        ("ok IS TRUE", "ok", 1, 1),
        ("age > 500", "age", 0, 120),
        ("age > 18 OR ok", "age", 0, 120),
        ("NOT age > 18", "age", 0, 120),
        ("age + 1 > 18", "age", 0, 120),
        ("age > x", "age", 0, 120),
        ("age IN (20, x)", "age", 0, 120),
    ],
)
def test_a_condition_narrows_a_column(condition: str, column: str, low: Any, high: Any) -> None:
    known = tighten(parse_one(condition, dialect="duckdb"), _columns())[column].range
    assert (known.low, known.high) == (low, high)


@pytest.mark.parametrize(
    ("condition", "nullable"),
    [("age > 3", False), ("age IS NOT NULL", False), ("age <> 3", False), ("age IN (1, 2)", False),
    ("age > 3 OR ok", True),
     ("age IS NULL", True), ("x > 3", True), ("age IS NOT DISTINCT FROM 3", True)],
)  # fmt: skip
def test_a_condition_that_holds_rules_out_null(condition: str, nullable: bool) -> None:
    assert tighten(parse_one(condition, dialect="duckdb"), _columns())["age"].range.nullable is nullable


def test_a_narrowed_column_says_why() -> None:
    known = tighten(parse_one("age >= 18", dialect="duckdb"), _columns())["age"].range
    assert known.why == ("WHERE age >= 18",)


def test_a_filter_never_decides_what_can_overflow() -> None:
    narrow = tighten(parse_one("age BETWEEN 0 AND 10", dialect="duckdb"), _columns())
    assert scalar(parse_one("age * age", dialect="duckdb"), narrow).type == Type.parse("BIGINT")


# Types


@pytest.mark.parametrize(
    ("text", "sql"),
    [("int", "INTEGER"), ("decimal(15, 2)", "DECIMAL(15,2)"), ("NUMERIC", "DECIMAL(18,3)"), ("varchar(10)", "VARCHAR"),
     ("timestamptz", "TIMESTAMP WITH TIME ZONE"), ("ENUM('a', 'it''s')", "ENUM('a', 'it''s')"),
     ("INTEGER[]", "INTEGER[]"),
     ("STRUCT(a INTEGER)", "STRUCT(a INTEGER)"), ("int128", "HUGEINT"), ('"NULL"', '"NULL"')],
)  # fmt: skip
def test_types_are_read_as_duckdb_writes_them(text: str, sql: str) -> None:
    assert Type.parse(text).sql == sql
    assert Type.parse(sql) == Type.parse(text)


def test_nested_types_answer_no_to_every_question() -> None:
    for text in ("INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "INTEGER[3]"):
        kind = Type.parse(text)
        assert not (kind.is_numeric or kind.is_text or kind.is_date or kind.is_timestamp or kind.is_boolean)


def test_the_smallest_integer_that_holds_a_range() -> None:
    assert integer_for(Fraction(0), Fraction(2**31)) == Type.parse("BIGINT")
    assert integer_for(Fraction(0), Fraction(2**127)) is None
