"""Spark: what DuckDB measures is measured to the same integers; what can't be is refused; nothing of a row gets out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from time import monotonic
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services import WANTING, needs
from spark_suites import EVERYTHING, RELATIONS, SUITES
from sqlglot import exp
from support import Connect
from two_engines import Engines, engines

import dpsql
from dpsql.backends.base import Deadline
from dpsql.backends.duckdb.public import PublicDatabase
from dpsql.backends.spark.conform import conform, differences, probes, written
from dpsql.backends.spark.letters import LOWER, UPPER
from dpsql.backends.spark.patterns import java
from dpsql.backends.spark.queries import SPELLINGS, Table
from dpsql.backends.spark.reference import reference
from dpsql.backends.spark.run import written as written_step
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.sources import columns_of
from dpsql.explain.show import show

ROOT = Path(__file__).parents[2]
KINDS = {
    "Scan", "Link", "Filter", "Project", "Join", "Mark", "Union", "GroupUnits", "Windows", "PublicTable", "Given",
    "ToGrid", "OnDomain", "Weight", "PerUnit", "CapGroups", "WeightUnits", "Group", "OnCells", "WeightRows",
    "Histogram", "Matching",
}  # fmt: skip


@pytest.fixture(scope="session")
def url() -> str:
    """A Spark of this process, with few threads and little compiling: statements are small."""
    needs("java")
    if find_spec("pyspark") is None:
        wanted = "pyspark (pip install 'dpsql[spark]')"
        if os.environ.get("CI") == "true":
            pytest.fail(f"not to be left out under CI=true: {wanted}", pytrace=False)
        pytest.skip(WANTING + wanted)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    return os.environ.get("DPSQL_TEST_SPARK", "local[2]")


@pytest.fixture(scope="module")
def both(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Engines]]:
    """Both engines over the tables of a suite, opened when they are first asked for."""
    opened: dict[str, Engines] = {}
    with ExitStack() as stack:

        def open_suite(name: str) -> Engines:
            if name not in opened:
                opened[name] = stack.enter_context(SUITES[name].open(tmp_path_factory.mktemp("suite"), url))
                opened[name].adaptive = (True, False) if EVERYTHING else (True,)
            return opened[name]

        yield open_suite


@pytest.fixture(scope="module")
def connection(url: str) -> Iterator[Connection]:
    with closing(Connection(url)) as opened:
        yield opened


CHOSEN = [(suite, title) for suite in SUITES for title in SUITES[suite].chosen()]


@pytest.mark.parametrize(("suite", "title"), CHOSEN, ids=[f"{suite}: {title}" for suite, title in CHOSEN])
def test_both_engines_find_the_same_integers(suite: str, title: str, both: Callable[[str], Engines]) -> None:
    sql, asked = SUITES[suite].queries[title]
    try:
        both(suite).query(sql, **asked)
    except (dpsql.SQLError, dpsql.PrivacyError) as refused:  # by either engine, before anything is compared
        assert EVERYTHING, refused


def test_statements_of_every_kind_were_compared(both: Callable[[str], Engines]) -> None:
    """The queries above hold every node that a statement is made of; they are asked where nobody has."""
    relations = both("relations")
    for title in () if relations.statements else RELATIONS.few:
        sql, asked = RELATIONS.queries[title]
        relations.query(sql, **asked)
    assert relations.kinds >= KINDS, KINDS - relations.kinds


def test_a_plan_that_stays_as_it_was_made_finds_the_same(both: Callable[[str], Engines]) -> None:
    """Spark changes plans while they run, by how many rows there are, unless it is told not to."""
    relations = both("relations")
    before, relations.adaptive = relations.adaptive, (False,)
    try:
        for title in ("19", "private keys"):
            sql, asked = RELATIONS.queries[title]
            assert relations.query(sql, fresh=True, **asked) > 0
    finally:
        relations.adaptive = before


def test_rows_that_leave_one_by_one_have_the_same_codes(url: str, tmp_path: Path) -> None:
    poll = pa.table({"yes": [True, False, None] * 10, "choice": ["red", "blue", None, "other"] * 7 + ["red"] * 2})
    policy = {
        "budget": {"epsilon": 10**6, "delta": 0},
        "privacy": {"adjacency": "replace_one"},
        "tables": {"poll": {"unit": "row", "columns": {"choice": {"values": ["red", "blue", "green"]}}}},
    }
    with engines(policy, {"poll": poll}, tmp_path, url) as opened:
        sql = "SELECT RANDOMIZED_RESPONSE(yes) AS yes, RANDOMIZED_RESPONSE(choice) AS choice FROM poll"
        assert opened.query(sql, epsilon=1) == 1 and "Encode" in opened.kinds


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


# ---------------------------------------------------------------- conformance


def test_every_probe_of_every_function_is_the_same_on_both(connection: Connection) -> None:
    assert [(p.text, example) for p, example in differences(connection, PublicDatabase(()).apart)] == []
    called = {str(call.this) for p in probes() for call in p.form.find_all(exp.Anonymous)}
    assert set(SPELLINGS) <= called


def test_an_engine_that_answers_otherwise_is_refused(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.backends.spark.conform.PROBES", {"FLOOR": ("FLOOR(d)",)})

    def other(query: Any, tables: Any, seconds: float) -> Any:
        found = PublicDatabase(()).apart(query, tables, seconds)
        return found.set_column(1, "x0", pa.nulls(found.num_rows, pa.float64()))

    with pytest.raises(dpsql.DataError) as refused:
        conform(connection, other)
    assert refused.value.code == "spark-differs" and "FLOOR" in str(refused.value)


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
        "s ILIKE 'a'",
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


def test_the_page_of_functions_is_made_of_the_probes() -> None:
    assert (ROOT / "docs" / "spark-functions.md").read_text(encoding="utf-8") == reference()


# ---------------------------------------------------------------- what is said


def test_a_failure_says_nothing_of_a_row(connection: Connection, capfd: pytest.CaptureFixture[str]) -> None:
    view = connection.view(pa.table({"v": ["a secret"]}), {"v": "`v`"})
    with pytest.raises(dpsql.DataError) as failed:
        connection.arrow(f"SELECT CAST(v AS INT) AS x FROM {view}", {})
    assert failed.value.code == "engine" and failed.value.__cause__ is None and not connection.failed
    said = capfd.readouterr()
    assert "secret" not in str(failed.value) + said.out + said.err


def test_a_statement_is_not_run_under_other_settings(url: str) -> None:
    with closing(Connection(url)) as own:
        assert own.arrow("SELECT :a AS x", {"a": "${env:HOME}"}).to_pylist() == [{"x": "${env:HOME}"}]
        own._session.conf.set("spark.sql.ansi.enabled", "false")
        with pytest.raises(dpsql.DataError) as failed:
            own.arrow("SELECT 1 AS x", {})
        assert failed.value.code == "engine"


def test_a_statement_is_stopped_when_its_time_is_up(url: str) -> None:
    """Without adaptive plans: they submit work beside, which Spark may begin after the statement was stopped."""
    with closing(Connection(url)) as own:
        own._session.conf.set("spark.sql.adaptive.enabled", "false")
        with pytest.raises(dpsql.DataError) as stopped:
            text = "SELECT SUM(id % 7) AS x FROM range(1000000000000)"
            own.arrow(text, {}, Deadline(monotonic() + 1, "1s"))
        assert stopped.value.code == "timeout" and not own.failed
        assert own.arrow("SELECT 1 AS x", {}, Deadline(monotonic() + 120, "2m")).num_rows == 1


def test_a_statement_that_does_not_stop_is_left_to_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr("dpsql.backends.spark.server.GRACE", 0.5)
    with closing(Connection(url)) as own:
        own._session.conf.set("spark.sql.adaptive.enabled", "false")
        monkeypatch.setattr(own, "_interrupt", lambda tag: None)  # a server may pass over it
        with pytest.raises(dpsql.DataError) as stopped:
            own.arrow("SELECT SUM(id % 7) AS x FROM range(20000000000)", {}, Deadline(monotonic() + 0.5, "500ms"))
        assert stopped.value.code == "timeout" and own.failed
    if url.startswith("local"):  # nobody else is to wait for it
        SparkContext.getOrCreate().cancelAllJobs()


# ---------------------------------------------------------------- whole queries


def policy(folder: Path, backend: dict[str, str], **columns: Any) -> dpsql.Policy:
    table = {"source": "t.parquet", "unit": "person", "columns": columns}
    described = {"budget": {"epsilon": 10**6, "delta": 1e-6}, "backend": backend, "tables": {"t": table}}
    return dpsql.Policy.from_dict(described, folder=folder)


def test_a_query_is_priced_answered_and_charged_as_on_duckdb(url: str, tmp_path: Path) -> None:
    cities = {"bern": 30, "lima": 50, None: 20}
    listed = [city for city, count in cities.items() for _ in range(count)]
    pq.write_table(pa.table({"person": range(100), "City": listed}), tmp_path / "t.parquet")
    public = {"City": {"values": ["bern", "lima"]}}
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
    with dpsql.connect(policy(tmp_path, {}, **public), ledger=":memory:") as plain:
        price = show(plain.explain(sql, epsilon=1))
    with dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}, **public), ledger=":memory:") as spark:
        assert show(spark.explain(sql, epsilon=1)) == price
        answer = spark.query(sql, epsilon=1000)
        assert {city: round(n) for city, n in answer.rows} == cities
        assert spark.budget.spent.epsilon == 1000
        with pytest.raises(dpsql.SQLError) as refused:
            spark.query("SELECT COUNT(*) FROM t WHERE REVERSE(city) = 'x'", epsilon=1)
        assert refused.value.code == "not-on-backend" and "REVERSE" in str(refused.value)
        assert spark.budget.spent.epsilon == 1000


def test_the_example_answers(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_path(str(ROOT / "examples" / "scale" / "query.py"))["main"](url, str(tmp_path))
    assert [shop for shop, *_ in answer.rows] == ["a", "b", "c", None]
    assert "GROUP BY" in capsys.readouterr().out


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 300_000_000_000_000_000], pa.timestamp("us")),
        pa.array([0, 5_000_000], pa.date32()),
        pa.array([b"a", b"\xff"]).view(pa.string()),
    ],
    ids=["timestamp", "date", "text"],
)
def test_a_value_that_spark_reads_otherwise_makes_a_source_unreadable(url: str, tmp_path: Path, column: Any) -> None:
    pq.write_table(pa.table({"person": [1, 2], "x": column}), tmp_path / "t.parquet")
    with pytest.raises(dpsql.DataError) as refused:
        dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}), ledger=":memory:")
    assert refused.value.code == "unreadable"


def test_a_public_table_that_was_replaced_is_not_asked_any_more(url: str, tmp_path: Path) -> None:
    """Spark has a copy, and matches are counted in the file: one of each would prove a bound that the other breaks."""
    pq.write_table(pa.table({"k": [r % 5 for r in range(100)]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"k": [r % 5 for r in range(500)]}), tmp_path / "p.parquet")
    described = {
        "budget": {"epsilon": 10**6},
        "backend": {"kind": "spark", "url": url},
        "tables": {"t": {"source": "t.parquet", "unit": "row"}, "p": {"source": "p.parquet", "public": True}},
    }
    with dpsql.connect(dpsql.Policy.from_dict(described, folder=tmp_path), ledger=":memory:") as session:
        sql = "SELECT COUNT(*) FROM t JOIN p ON t.k = p.k"
        assert session.query(sql, epsilon=10**5, max_rows=100).rows == [(10_000,)]
        pq.write_table(pa.table({"k": range(5)}), tmp_path / "p.parquet")
        with pytest.raises(dpsql.DataError) as refused:
            session.query(sql, epsilon=10)
        assert refused.value.code == "data-changed" and session.budget.spent.epsilon == 10**5


def test_a_public_column_of_other_calendars_is_refused(url: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "t.parquet")
    days = pa.array([0, 2**31 - 1], pa.date32())  # DuckDB's infinity
    pq.write_table(pa.table({"k": [1, 2], "far": days, "near": days[:1].take([0, 0])}), tmp_path / "p.parquet")
    described = {
        "budget": {"epsilon": 10**6},
        "backend": {"kind": "spark", "url": url},
        "tables": {"t": {"source": "t.parquet", "unit": "row"}, "p": {"source": "p.parquet", "public": True}},
    }
    with dpsql.connect(dpsql.Policy.from_dict(described, folder=tmp_path), ledger=":memory:") as session:
        sql = "SELECT COUNT(*) FROM t JOIN p ON t.k = p.k WHERE HOUR(p.{}) = 0"
        assert session.query(sql.format("near"), epsilon=1000).rows == [(1,)]
        with pytest.raises(dpsql.SQLError) as refused:
            session.query(sql.format("far"), epsilon=1000)
    assert refused.value.code == "not-on-backend" and "far" in str(refused.value)


def test_exactly_the_files_that_a_source_names_are_read(url: str, tmp_path: Path) -> None:
    """Names are no addresses: "a%20b" is not "a b"."""
    for name, rows in {"a b": 10, "a%20b": 500, "year=2024 é": 20}.items():
        pq.write_table(pa.table({"person": range(rows)}), tmp_path / f"{name}.parquet")
    described = policy(tmp_path, {"kind": "spark", "url": url})
    for source, rows in {"a b.parquet": 10, "*é.parquet": 20}.items():
        one = replace(described.tables["t"], source=source)
        with dpsql.connect(replace(described, tables={"t": one}), ledger=":memory:") as session:
            assert session.query("SELECT COUNT(*) FROM t", epsilon=1000).rows == [(rows,)]


@pytest.mark.parametrize("name", ["_t.parquet", ".t.parquet", "{t}.parquet", "old.parquet", "hidden.parquet"])
def test_files_that_spark_would_pass_over_or_read_otherwise_are_refused(name: str, url: str, tmp_path: Path) -> None:
    table = pa.table({"person": [1], "day": pa.array([-171_000], pa.date32())})
    if name == "hidden.parquet":  # where Spark itself says which row is which
        table = table.append_column("_Metadata", pa.array([{"file_path": "x", "row_index": 1}]))
    said = {"org.apache.spark.version": "2.4.0"} if name == "old.parquet" else None
    pq.write_table(table.replace_schema_metadata(said), tmp_path / name)
    described = policy(tmp_path, {"kind": "spark", "url": url})
    one = replace(described.tables["t"], source=name)
    with pytest.raises(dpsql.Error) as refused:
        dpsql.connect(replace(described, tables={"t": one}), ledger=":memory:")
    assert refused.value.code in ("unreadable", "not-on-backend") and "tables.t" in str(refused.value)


def test_private_tables_that_no_cluster_reads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dpsql.PolicyError) as refused:
        here = policy(tmp_path, {"kind": "spark", "url": "local[2]"})
        dpsql.connect(here, sources={"t": pa.table({"person": [1]})}, ledger=":memory:")
    assert refused.value.code == "not-on-backend"
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
