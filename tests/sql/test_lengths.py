"""Text functions: what a query makes is no longer than a public bound, and no listed function is slow on long texts."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pytest
from sql.test_functions import EXPRESSIONS, columns
from sqlglot import exp, parse_one

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.functions import FUNCTIONS, lookup
from dpsql.sql.functions.lengths import LONGEST, PIECES
from dpsql.sql.scalar import Scalar, scalar

TABLE = Path(__file__).parents[2] / "benchmarks" / "text_functions.csv"
TEXT = {"x": Scalar(exp.column("x"), Type("VARCHAR"), Range())}
BETWEEN = 4 * LONGEST  # characters of what is computed on the way to a text


def measured() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def text_functions() -> set[str]:
    """Every entry that is tried with a text of a row, or that makes a text of one."""
    known = columns(promised=False)

    def is_text(node: exp.Expr) -> bool:
        if node.find(exp.Column) is None or isinstance(node, exp.DataType):
            return False
        try:
            return scalar(node, known).type.is_text
        except SQLError:  # a part of a form, not a value
            return False

    found = set()
    for expression in EXPRESSIONS:
        for node in parse_one(expression, dialect="duckdb").walk():
            entry = lookup(node)
            if entry is not None and entry.name not in found and any(map(is_text, (node, *node.iter_expressions()))):
                found.add(entry.name)
    return found


def test_every_listed_text_function_has_been_measured() -> None:
    listed = text_functions()
    assert {"LOWER", "||", "LIKE", "CAST", "STRFTIME", "COALESCE", "="} <= listed  # the search finds them
    assert listed - {line["function"] for line in measured()} == set()
    text = {name for f in FUNCTIONS if f.kind == "text" for name in f.names}
    aliases = {
        "LCASE", "UCASE", "LEN", "CHAR_LENGTH", "SUBSTR", "PREFIX", "^@", "SUFFIX", "STRPOS", "INSTR", "ORD",
    }  # fmt: skip
    assert text - aliases - {line["function"] for line in measured()} == set()


def test_no_measured_function_takes_more_than_six_times_as_long_for_four_times_the_text() -> None:
    lines = measured()
    assert len({line["duckdb"] for line in lines}) == 1
    assert [line for line in lines if max(float(line["step_1"]), float(line["step_2"])) > 6] == []
    assert [line for line in lines if float(line["ms_n"]) < 1 and "ts" not in line["form"]] == []


def test_nfc_normalize_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(SQLError) as refused:
        scalar(parse_one("nfc_normalize(x)", dialect="duckdb"), TEXT)
    assert refused.value.code == "unsafe-function"
    assert "STRIP_ACCENTS" in (refused.value.hint or "")


# ---------------------------------------------------------------- lengths

LONG_LITERAL = "b" * 900
GROWING = (
    "x || x",
    "(x || x) || (x || (x || x))",
    "x || 'b'",
    "concat(x, x)",
    f"concat({', '.join(['x'] * 100)})",
    f"concat_ws('-', {', '.join(['x'] * 100)})",
    f"concat_ws('{LONG_LITERAL}', x, x, x)",
    f"replace(x, 'a', '{LONG_LITERAL}')",
    "replace(x, 'a', 'aa')",
    "replace(x, '', 'aa')",
    f"regexp_replace(x, 'a', '{LONG_LITERAL}', 'g')",
    "regexp_replace(x, '', 'aa', 'g')",
    "regexp_replace(x, '(.*)', '\\1\\1')",
    "regexp_replace(x, '(.*)', '" + "\\1" * 100 + "')",
    "upper(x) || lower(x)",
    "lpad(x, 1000, 'a') || x",
    "coalesce(x, 'a') || coalesce(x, 'b') || translate(x, 'a', 'b')",
)


def sizes(step: str, start: str, levels: int) -> tuple[list[int], int]:
    """How long a text gets by a step, level after level, and the longest that is computed on the way."""
    sql = scalar(parse_one(step, dialect="duckdb"), TEXT).sql
    inner = [n.sql(dialect="duckdb") for n in sql.walk() if isinstance(n, exp.Anonymous | exp.DPipe)]
    longest, way = [], 0
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT ?::VARCHAR AS x", [start])
        for _ in range(levels):
            for part in inner:
                ((found,),) = connection.execute(f"SELECT max(strlen(CAST({part} AS VARCHAR))) FROM t").fetchall()
                way = max(way, found)
            connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT {sql.sql(dialect='duckdb')} AS x FROM t")
            ((found,),) = connection.execute("SELECT max(length(x)) FROM t").fetchall()
            longest.append(found)
    return longest, way


@pytest.mark.sample(7)
@pytest.mark.parametrize("step", GROWING)
def test_a_text_never_grows_past_the_bound_however_often_it_is_grown(step: str) -> None:
    longest, way = sizes(step, "aaaa", 25)
    assert max(longest) <= LONGEST
    assert way <= max(BETWEEN, PIECES * LONGEST) + 1_000_000  # separators of CONCAT_WS


@pytest.mark.sample(6)
@pytest.mark.parametrize("step", GROWING)
def test_twice_the_text_is_no_more_than_twice_the_work_and_past_the_bound_no_more_work(step: str) -> None:
    """Attack 47: the analyst's own text, for one person only."""
    ways = [sizes(step, "a" * n, 3)[1] for n in (2 * LONGEST, 4 * LONGEST)]
    assert ways[1] <= 2 * ways[0] + 1_000_000


@pytest.mark.parametrize("step", GROWING)
def test_texts_of_ordinary_length_are_as_duckdb_has_them(step: str) -> None:
    sql = scalar(parse_one(step, dialect="duckdb"), TEXT).sql.sql(dialect="duckdb")
    with duckdb.connect() as connection:
        values = "('a'), (''), (NULL), ('äbc a'), (repeat('a', 200)), (repeat('xyz', 300))"
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) v(x)")
        assert connection.execute(f"SELECT ({sql}) IS NOT DISTINCT FROM ({step}) FROM t").fetchall() == [(True,)] * 6


def test_what_is_cut_is_the_end() -> None:
    sql = scalar(parse_one("x || x || 'z'", dialect="duckdb"), TEXT).sql.sql(dialect="duckdb")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT repeat('abcde', {LONGEST // 8}) AS x")
        (row,) = connection.execute(f"SELECT {sql} = left(x || x || 'z', {LONGEST}) FROM t").fetchall()
        assert row == (True,)


@pytest.mark.sample(3)
@pytest.mark.parametrize("function", ["lower", "upper", "reverse", "strip_accents", "trim"])
def test_functions_that_are_not_cut_make_no_text_longer(function: str) -> None:
    """On every character there is, alone and between others."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT chr(i::INTEGER) AS c FROM range(1, 1114112) r(i) "
            "WHERE i NOT BETWEEN 55296 AND 57343"
        )
        for text in ("c", "'a' || c || 'Σ'", "c || c || chr(769)", "'İ' || c || 'ΑΣ'"):
            grew = connection.execute(f"SELECT count(*) FROM t WHERE length({function}({text})) > length({text})")
            assert grew.fetchall() == [(0,)], text


def test_short_texts_are_not_cut_at_all() -> None:
    known = {"i": Scalar(exp.column("i"), Type("BIGINT"), Range()), **TEXT}
    for expression, cuts in (("i || '-' || i", 0), ("concat('a', i, 1.5)", 0), ("x || '-'", 1), ("x || i || x", 1)):
        sql = scalar(parse_one(expression, dialect="duckdb"), known).sql.sql(dialect="duckdb")
        assert sql.lower().count("left(") == cuts, sql


def test_the_longest_text_of_each_type_is_within_its_claim() -> None:
    values = {
        "HUGEINT": "(-170141183460469231731687303715884105728)::HUGEINT",
        "DECIMAL(38,37)": "(-9.9999999999999999999999999999999999999)::DECIMAL(38,37)",
        "DOUBLE": "(-2.2250738585072014e-308)::DOUBLE",
        "TIMESTAMP": "TIMESTAMP '290309-12-22 (BC) 00:00:00.123456'",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '290309-12-23 (BC) 00:00:00.123456+00'",
        "DATE": "DATE '5877642-06-25 (BC)'",
        "BOOLEAN": "false",
    }
    with duckdb.connect() as connection:
        for kind, value in values.items():
            known = {"v": Scalar(exp.column("v"), Type.parse(kind), Range())}
            made = scalar(parse_one("CAST(v AS VARCHAR)", dialect="duckdb"), known)
            ((found,),) = connection.execute(f"SELECT length(CAST({value} AS VARCHAR))").fetchall()
            assert made.longest is not None and found <= made.longest, kind
