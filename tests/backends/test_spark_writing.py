"""What is written for Spark, and what isn't: no server is asked here."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import duckdb
import pyarrow as pa
import pytest
from spark_cluster import policy
from sqlglot import exp, parse_one
from support import Connect

import dpsql
from dpsql.backends.spark.backend import Spark
from dpsql.backends.spark.conform import probes, written
from dpsql.backends.spark.first import first_or_last
from dpsql.backends.spark.forms import FEW
from dpsql.backends.spark.letters import LOWER, UPPER
from dpsql.backends.spark.patterns import java
from dpsql.backends.spark.queries import Table, write
from dpsql.backends.spark.reference import reference
from dpsql.backends.spark.run import written as written_step
from dpsql.backends.spark.sources import columns_of
from dpsql.backends.spark.values import Value, lacks
from dpsql.core.grid import Grid
from dpsql.core.types import DOUBLE, FLOAT
from dpsql.sql.gridded import gridded

ROOT = Path(__file__).parents[2]


def test_limits_over_all_groups_of_a_unit_need_one_look_at_the_rows(connect: Connect) -> None:
    """What is named twice is computed twice by Spark."""
    schema = {"uid": pa.int64(), "k": pa.string(), "x": pa.int64()}
    table = pa.table({name: pa.array([], kind) for name, kind in schema.items()})
    columns = {"x": {"min": 0, "max": 9}}
    limits = {"max_rows": 20, "max_rows_per_group": 4, "max_groups": 3}
    policy = {"privacy": limits, "tables": {"t": {"unit": "uid", "columns": columns}}}
    session = connect({"t": table}, policy, delta=1e-6)
    quote = session.explain(
        "SELECT k, COUNT(*), SUM(x), COUNT(DISTINCT uid) FROM t GROUP BY k", epsilon=1, delta="1e-7"
    )
    source = Table("files of t", columns_of(session._engine.schema["t"]))
    (step,) = quote.steps
    (text,) = written_step(step, {"t": source})
    assert text.sql.count("`files of t`") == 1 and "OVER" in text.sql
    assert text.sql.count("DISTRIBUTE BY") == 1
    (dealt,) = written_step(step, {"t": replace(source, bucketed=True)})
    assert "DISTRIBUTE BY" not in dealt.sql and "OVER" in dealt.sql


def test_what_is_shown_and_refused_does_not_tell_how_many_rows_there_are(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of 1 asks whether there are more than 2^21 rows: a statement's form would say so, for nothing."""
    table = pa.table({"uid": pa.array([], pa.int64()), "k": pa.array([], pa.string())})
    session = connect({"t": table}, {"tables": {"t": {"unit": "uid", "columns": {"k": {"values": ["a"]}}}}})
    (step,) = session.explain("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1, max_rows=1).steps
    source = Table("files of t", columns_of(session._engine.schema["t"]))
    sizes = [2 * FEW + 1, 2 * FEW + 2]

    def shown(rows: int) -> tuple[str, ...]:
        return Spark.written(cast(Spark, SimpleNamespace(_tables={"t": replace(source, rows=rows)})), step)

    run = [written_step(step, {"t": replace(source, rows=rows)}) for rows in sizes]
    assert run[0] != run[1] and shown(sizes[0]) == shown(sizes[1])
    monkeypatch.setattr("dpsql.backends.statements.render.weight", lambda *_: (_ for _ in ()).throw(lacks("that")))
    for rows in sizes:  # one of the two forms can't be written
        with pytest.raises(dpsql.SQLError):
            shown(rows)


def test_letters_are_those_of_duckdb() -> None:
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    every = pa.table({"s": [chr(code) for code in codes]})
    with duckdb.connect() as connection:
        connection.register("every", every)
        for name, table in (("lower", LOWER), ("upper", UPPER)):
            found = connection.execute(f"SELECT s, {name}(s) FROM every WHERE {name}(s) <> s").fetchall()
            assert dict(found) == dict(zip(*table, strict=True))


@pytest.mark.parametrize(
    "pattern", ["(a|b)*", "a*b", r"(a+)+", r"\bx", "a{500}b{500}c{500}", "^a*b*c", "[[:alpha:]]", "(?i)a", r"\pL"]
)
def test_what_java_would_read_otherwise_or_slowly_is_refused(pattern: str) -> None:
    with pytest.raises(dpsql.SQLError) as refused:
        java(pattern)
    assert refused.value.code == "not-on-backend"


@pytest.mark.parametrize(
    "text",
    [
        "REGEXP_EXTRACT(s, 'n(7)7', 2)",
        "DATE_DIFF('quarter', at - INTERVAL 20000 YEAR, at)",
        "s ILIKE 'a' ESCAPE 'b'",
        "SUBSTRING(s, i)",
        "CAST(s AS DATE)",
        "CAST(CAST(m AS DECIMAL(3,3)) AS VARCHAR)",
        "DAYNAME(day + 1)",
        "ROUND(ROUND(ROUND(ROUND(ROUND(ROUND(d))))))",
        "ISINF(day + n)",
    ],
)
def test_what_spark_would_fail_on_or_mean_otherwise_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that a pattern doesn't have fails the statement on the first row that matches: on that row alone."""
    monkeypatch.setattr("dpsql.backends.spark.conform.PROBES", {"x": (text,)})
    (probe,) = probes()
    with pytest.raises(dpsql.SQLError) as refused:
        written([probe])
    assert refused.value.code == "not-on-backend"


def test_the_first_of_floats_is_refused_whose_zeros_duckdb_makes_positive() -> None:
    call = parse_one("FIRST(f ORDER BY d)", dialect="duckdb")
    assert isinstance(call, exp.First)

    def known(node: exp.Expr) -> Value:
        return Value(node.name, FLOAT if node.name == "f" else DOUBLE)

    with pytest.raises(dpsql.SQLError) as refused:
        first_or_last(call, None, known, str)
    assert refused.value.code == "not-on-backend" and "DOUBLE" in str(refused.value)


def test_a_text_that_is_cut_twice_is_written_so_that_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark can't parse would fail when it was paid for."""
    monkeypatch.setattr("dpsql.backends.spark.conform.PROBES", {"x": ["LEFT(LEFT(s, -1), -1)"]})
    assert isinstance(parse_one(written(list(probes())).sql, dialect="spark"), exp.Select)


def test_no_value_is_narrowed_by_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CAST to a type that is too small raises: where it depends on bounds, it has to be one that doesn't."""
    texts = (
        "CAST(CAST(n AS FLOAT) AS BIGINT) * 1",
        "-(CAST(k AS BIGINT))",
        "CAST(CAST(CAST(n AS BIGINT) AS INT) AS BIGINT) + k",
    )
    monkeypatch.setattr("dpsql.backends.spark.conform.PROBES", {"x": texts})
    sql = written(list(probes())).sql
    assert not [
        cast for cast in re.findall(r"(?<!TRY_)CAST\([^()]*(?:\([^()]*\))* AS INT\)", sql) if "BIGINT" in cast
    ], sql


def test_a_value_on_its_grid_is_known_to_lie_there() -> None:
    """So that sums of it are in 64 bits. What only looks like a grid is bounded by its type alone."""
    kinds = {"x": "DOUBLE", "y": "DOUBLE", "d": "DECIMAL(9,2)"}

    def bounds(node: exp.Expr) -> tuple[int | None, int | None]:
        table = Table("t", columns_of(list(kinds.items())))
        found = write(exp.select(exp.alias_(node, "v")).from_("t"), {"t": table}).columns["v"]
        return found.low, found.high

    x, d = exp.column("x"), exp.column("d")
    assert bounds(gridded(x, Grid(Fraction(1, 32), -64, 16000, "float"))) == (-64, 16000)
    assert bounds(gridded(d, Grid(Fraction(1, 100), 5, 9900, "decimal"))) == (5, 9900)
    whole = (-(2**31), 2**31 - 1)
    near = "CASE WHEN ABS({} - '0.0'::DOUBLE) <= '{}'::DOUBLE THEN CAST(x * '{}'::DOUBLE AS INT) END"
    for text in (
        near.format("x", 9.0, 2.0),
        near.format("y * '2.0'::DOUBLE", 9.0, 2.0),
        near.format("x * '4.0'::DOUBLE", 9.0, 2.0),
        near.format("x * '2.0'::DOUBLE", 0.25, 2.0),
        "CASE WHEN d BETWEEN '0.25'::DECIMAL(3,2) AND '9'::DECIMAL(1,0) THEN CAST(d::DECIMAL(9,0) * 4 AS INT) END",
    ):
        assert bounds(exp.maybe_parse(text, dialect="duckdb")) == whole, text


def test_the_page_of_functions_is_made_of_the_probes() -> None:
    assert (ROOT / "docs" / "spark-functions.md").read_text(encoding="utf-8") == reference()


def test_private_tables_that_no_cluster_reads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dpsql.PolicyError) as refused:
        here = policy(tmp_path, {"kind": "spark", "url": "local[2]"})
        dpsql.connect(here, sources={"t": pa.table({"person": [1]})}, ledger=":memory:")
    assert refused.value.code == "not-on-backend"
    with pytest.raises(dpsql.PolicyError) as elsewhere:
        tables = {"t": {"source": "shop.visits", "unit": "u"}}
        dpsql.Policy.from_dict({"budget": {"epsilon": 1}, "tables": tables})
    assert "needs [backend]" in (elsewhere.value.hint or "")
    for backend in ({"kind": "spark"}, {"kind": "spark", "url": "host:15002"}, {"url": "local[2]"}):
        with pytest.raises(dpsql.PolicyError):
            dpsql.Policy.from_dict(
                {"budget": {"epsilon": 1}, "backend": backend, "tables": {"t": {"source": "t.parquet", "unit": "u"}}}
            )
    (tmp_path / "t.csv").write_text("u\n1\n", encoding="utf-8")
    table = {"source": "t.csv", "unit": "u", "columns": {"u": {"type": "INTEGER"}}}
    described = {"budget": {"epsilon": 1}, "backend": {"kind": "spark", "url": "local[2]"}, "tables": {"t": table}}
    with pytest.raises(dpsql.PolicyError) as csv:
        dpsql.connect(dpsql.Policy.from_dict(described, folder=tmp_path), ledger=":memory:")
    assert csv.value.code == "not-on-backend" and "tables.t.source" in str(csv.value)


def test_the_bucket_of_a_units_rows_is_written_in_a_line(connect: Connect) -> None:
    """CEIL and LOG2 each repeat what they are of: their statement took seconds to be read."""
    table = pa.table({"uid": pa.array([], pa.int64())})
    session = connect({"t": table}, {"tables": {"t": {"unit": "uid"}}}, delta=1e-6)
    limits, _ = session.explain("SELECT COUNT(*) FROM t", epsilon=1, delta="1e-7").stages
    source = Table("files of t", columns_of(session._engine.schema["t"]))
    (text,) = written_step(limits.steps[0], {"t": source})
    assert "LENGTH(BIN(" in text.sql and "LN(" not in text.sql and len(text.sql) < 4_000


def test_the_bits_of_a_number_are_the_ceiling_of_its_logarithm() -> None:
    """As DuckDB has it, for all counts of rows that there may be, where the two could differ."""
    numbers = [n for k in range(41) for n in (2**k - 1, 2**k, 2**k + 1) if 0 < n <= 2**40]
    found = duckdb.execute("SELECT CEIL(LOG2(CAST(UNNEST(?::BIGINT[]) AS DOUBLE)))", [numbers]).fetchall()
    assert [bits for (bits,) in found] == [(n - 1).bit_length() for n in numbers]
