"""Spark: what DuckDB measures is measured to the same integers; what can't be is refused; nothing of a row gets out.

All of it is asked of a cluster with two workers (spark_cluster.py), which is started once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from privacy import test_unit_index as indexes
from privacy.test_neighbours import seen_of, within_claims
from spark_cluster import example, mortal, policy, spark
from spark_suites import EVERYTHING, RELATIONS, SUITES
from sqlglot import exp
from support import cursor_of
from two_engines import Engines, engines

import dpsql
from benchmarks.spark import Shape, shape
from dpsql.analyze.ownership import scan_facts
from dpsql.backends.base import SECRET, Deadline, engine_failed, timed_out, unread
from dpsql.backends.duckdb.public import PublicDatabase
from dpsql.backends.duckdb.run import execute as duckdb_execute
from dpsql.backends.in_groups import AT_ONCE
from dpsql.backends.listed import HeavyUnits, Listed
from dpsql.backends.spark import backend
from dpsql.backends.spark.conform import conform, differences, differing_orders, probes
from dpsql.backends.spark.queries import ROW, SPELLINGS, Table, write
from dpsql.backends.spark.reading import Reading
from dpsql.backends.spark.run import written as written_step
from dpsql.backends.spark.server import BUILDS, Connection
from dpsql.backends.spark.sources import FITS, Files, uploaded
from dpsql.backends.spark.sources import test_of as condition_of
from dpsql.backends.spark.values import Value
from dpsql.core.types import BIGINT, decimal
from dpsql.explain.text import show
from dpsql.plan.nodes import Statement
from dpsql.quote.candidates import UNIT
from dpsql.quote.model import Step
from dpsql.quote.refined import told_apart
from dpsql.session import Engine

KINDS = {
    "Scan", "Link", "Filter", "Project", "Join", "Mark", "Union", "GroupUnits", "Windows", "PublicTable", "Given",
    "ToGrid", "OnDomain", "Weight", "PerUnit", "CapGroups", "WeightUnits", "Group", "OnCells", "WeightRows",
    "Histogram", "Matching",
}  # fmt: skip


@pytest.fixture(scope="session")
def reached() -> Iterator[tuple[str, Any]]:
    """A cluster of its own, or the Spark that the environment names."""
    with spark() as found:
        yield found


@pytest.fixture
def cluster(reached: tuple[str, Any]) -> Any:
    if reached[1] is None:
        pytest.skip("the Spark that the environment names isn't ours to harm")
    return reached[1]


@pytest.fixture(scope="session")
def connection(reached: tuple[str, Any]) -> Iterator[Connection]:
    with closing(Connection(reached[0])) as opened:
        yield opened


@pytest.fixture(scope="session")
def different(reached: tuple[str, Any], connection: Connection) -> list[tuple[str, str]]:
    """What this Spark computes otherwise than DuckDB: asked once, here, so that no session asks it again."""
    found = [(probe.text, example) for probe, example in differences(connection, PublicDatabase(()).apart)]
    backend._CONFORMED.add((reached[0], connection.version, connection.life))
    return found


@pytest.fixture(scope="session")
def url(reached: tuple[str, Any], different: list[tuple[str, str]]) -> str:
    return reached[0]


@pytest.fixture(scope="module")
def both(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Engines]]:
    """Both engines over the tables of a suite, opened when they are first asked for."""
    opened: dict[str, Engines] = {}
    with ExitStack() as stack:

        def open_suite(name: str) -> Engines:
            if name not in opened:
                opened[name] = stack.enter_context(SUITES[name].open(tmp_path_factory.mktemp("suite"), url))
            return opened[name]

        yield open_suite


CHOSEN = [
    pytest.param(suite, title, plans == "changing", id=f"{suite}: {title}, plans {plans}")
    for plans in ("changing", "staying")
    for suite in SUITES
    for title in SUITES[suite].chosen()
    if plans == "changing" or EVERYTHING
]


@pytest.mark.parametrize(("suite", "title", "adaptive"), CHOSEN)
def test_both_engines_find_the_same_integers(
    suite: str, title: str, adaptive: bool, both: Callable[[str], Engines]
) -> None:
    """With -s it says of each query what came of it; docs/scale.md counts that."""
    sql, asked = SUITES[suite].queries[title]
    try:
        found = both(suite).query(sql, adaptive=adaptive, **asked)
    except (dpsql.SQLError, dpsql.PrivacyError) as refused:  # by either engine, before anything is compared
        assert EVERYTHING, refused
        print(f"\n{suite}: {title}: {refused.code}, {refused}")
    else:
        assert found or EVERYTHING
        print(f"\n{suite}: {title}: {'same' if found else 'no private rows'}, {found} statements")


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
    for title in ("19", "private keys"):
        sql, asked = RELATIONS.queries[title]
        assert relations.query(sql, adaptive=False, **asked) > 0


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


def test_ranks_are_multiplied_in_64_bits(connection: Connection) -> None:
    """Spark's own are INT: one person with 46,341 rows would fail a statement by the square of a rank."""
    rows = 46_341
    view = connection.view(pa.table({"v": pa.array(range(rows), pa.int64())}), {"v": "`v`"})
    ranks = ", ".join(f"{name}() OVER (ORDER BY v) AS {name}" for name in ("row_number", "rank", "dense_rank"))
    squares = ", ".join(
        f"MAX(CASE WHEN {name} BETWEEN 1 AND 100000 THEN {name} * {name} END) AS {name}"
        for name in ("row_number", "rank", "dense_rank")
    )
    asked: Any = exp.maybe_parse(f"SELECT {squares} FROM (SELECT {ranks} FROM t) AS s", dialect="duckdb")
    text = write(asked, {"t": Table(view, {"v": Value("", BIGINT)})})
    assert set(connection.arrow(text.sql, text.parameters).to_pylist()[0].values()) == {rows**2}
    connection.drop(view)


@pytest.mark.parametrize(("width", "scale"), [(38, 2), (38, 0), (38, 37), (35, 35), (34, 1)])
def test_a_decimal_of_any_width_is_one_that_its_type_holds(connection: Connection, width: int, scale: int) -> None:
    """Spark's minus rounds to 34 digits, and fails where that is one more than there are."""
    most = Decimal("9" * width).scaleb(-scale, Context(prec=99))
    view = connection.view(
        pa.table({"d": pa.array([most, most.copy_negate(), None], pa.decimal128(width, scale))}), {"d": "`d`"}
    )
    found = connection.arrow(f"SELECT {condition_of('d', decimal(width, scale))} AS x FROM {view}", {})
    assert found.column("x").to_pylist() == [True, True, None]
    connection.drop(view)


def test_sums_past_64_bits_are_exact_in_parts(connection: Connection) -> None:
    """Of either sign, of few and of many bits; over a window, too."""
    small, large = [2**42 - 1, -(2**42), 7, -1, None], [2**63 - 1, 2**63 - 1, -(2**63), 2**62, None]
    table = pa.table({"s": pa.array(small, pa.int64()), "l": pa.array(large, pa.int64())})
    view = connection.view(table, {"s": "`s`", "l": "`l`"})
    columns = {"s": Value("", BIGINT, -(2**42), 2**42), "l": Value("", BIGINT, -(2**63), 2**63 - 1)}
    query = exp.select("SUM(s) AS s", "SUM(l) AS l").from_("t")
    over = exp.select("SUM(l) OVER (PARTITION BY 1) AS l").from_("t")
    texts = [write(one, {"t": Table(view, columns)}) for one in (query, over)]
    assert all("SHIFTRIGHT" in text.sql for text in texts)
    found, beside = (connection.arrow(text.sql, {}) for text in texts)
    sums = {"s": sum(filter(None, small)), "l": sum(filter(None, large))}
    assert {name: int(values[0]) for name, values in found.to_pydict().items()} == sums
    assert {int(n) for n in beside.column("l").to_pylist()} == {sums["l"]}


# ---------------------------------------------------------------- plans

SHAPES: dict[str, tuple[str, dict[str, Any], tuple[int, int, int]]] = {
    "rows": ("SELECT COUNT(*) FROM events", {"max_rows": 5}, (1, 2, 0)),
    "units": ("SELECT COUNT(DISTINCT uid) FROM events", {}, (1, 2, 0)),
    "public keys": ("SELECT k, COUNT(*), SUM(x), AVG(x) FROM events GROUP BY k", {"max_rows": 5}, (2, 2, 3)),
    "private keys": (
        "SELECT p, day, COUNT(*), SUM(x) FROM events GROUP BY p, day",
        {"max_rows": 5, "max_groups": 3},
        (1, 2, 0),
    ),
    "values by key": ("SELECT k, COUNT(DISTINCT day) FROM events GROUP BY k", {"max_rows": 5}, (1, 4, 2)),
    "join": ("SELECT s, SUM(x) FROM events JOIN users USING (uid) GROUP BY s", {"max_rows": 5}, (2, 3, 3)),
}


@pytest.fixture(scope="module")
def events(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    kinds = {"uid": pa.int64(), "k": pa.string(), "p": pa.string(), "day": pa.date32(), "x": pa.float64()}
    tables = {
        "events": pa.table({name: pa.array([], kind) for name, kind in kinds.items()}),
        "users": pa.table({"uid": pa.array([], pa.int64()), "s": pa.array([], pa.string())}),
    }
    columns = {"k": {"values": ["a", "b"]}, "x": {"min": 0, "max": 500}}
    described = {
        "budget": {"epsilon": 10**6, "delta": 1e-4},
        "tables": {
            "events": {"unit": "uid", "columns": columns},
            "users": {"unit": "uid", "columns": {"s": {"values": ["c", "d"]}}},
        },
    }
    with engines(described, tables, tmp_path_factory.mktemp("events"), url) as opened:
        yield opened


class _Planned(Exception):
    """In the place of a result."""


def planned(opened: Engines, sql: str, limits: dict[str, Any], *, indexed: bool = False) -> list[Shape]:
    """What the plans of a query's statements move; indexed: by way of a list of heavy units. Nothing is run."""
    connection, found = opened.spark._connection, list[Shape]()

    def plan(text: str, parameters: Any, until: Any = None) -> Any:
        found.append(shape(connection._session, text, parameters))
        raise _Planned

    with pytest.MonkeyPatch.context() as patch, opened.spark.measuring(None) as rows:
        patch.setattr(connection, "arrow", plan)
        for step in opened.session.explain(sql, epsilon=1, delta="1e-6", **limits).steps:
            assert isinstance(step, Step)
            one = pa.table({"unit": pa.array([7], pa.int64()), "rows": pa.array([99], pa.int64())})
            needs = [need for use in rows.uses(step) for need in use.needs] if indexed else []
            lists = [HeavyUnits(need.of, need.limit, one, False, 1000) for need in needs]
            with pytest.raises(_Planned):
                rows.execute(step, {}, 7, lists)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_a_plan_reads_files_and_moves_rows_as_often_as_it_must(name: str, events: Engines) -> None:
    """Scans, exchanges, broadcasts: whoever adds one finds it here."""
    sql, limits, expected = SHAPES[name]
    assert planned(events, sql, limits) == [Shape(*expected)]


def test_where_many_units_may_be_heavy_rows_are_read_once(events: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.backends.spark.forms.FEW", -1)
    sql, limits, _ = SHAPES["public keys"]
    assert planned(events, sql, limits) == [Shape(1, 2, 2)]


def test_where_units_have_very_many_groups_tasks_pass_on_no_more_than_may_be_kept(events: Engines) -> None:
    """With [backend] skewed: what a unit has is gathered by group, and cut to max_groups before it is moved again."""
    sql, limits, _ = SHAPES["private keys"]
    known = dict(events.spark._tables)
    events.spark._tables.update({name: replace(table, skewed=True) for name, table in known.items()})
    try:
        assert planned(events, sql, limits) == [Shape(1, 3, 0)]
        (step,) = events.session.explain(sql, epsilon=1, delta="1e-6", **limits).steps
        (text,) = written_step(step, events.spark._tables)
    finally:
        events.spark._tables.update(known)
    asked = events.spark._connection._session.sql(text.sql, args={**text.parameters, SECRET: "7"})
    plan = asked._explain_string(extended=False)
    steps = re.findall(r"Exchange hashpartitioning\(([^)]*), \d+\)|row_number\(\), 3, (Final|Partial)", plan)
    moved = [re.sub(r"#\w+", "", exchange) or limit for exchange, limit in steps]
    assert moved == ["k0, k1", "Final", "unit", "Partial", "unit, k0, k1"]  # the last step is first


# ---------------------------------------------------------------- an index of heavy units

INDEXED: dict[str, tuple[int, int, int]] = {
    "rows": (1, 2, 1),
    "public keys": (2, 2, 4),
    "join": (2, 3, 4),
}


@pytest.mark.parametrize("name", INDEXED)
def test_with_a_list_of_heavy_units_no_rows_of_others_are_moved(name: str, events: Engines) -> None:
    """Files are read once; where there are keys and one table, twice, of which one look is at listed units alone."""
    sql, limits, _ = SHAPES[name]
    assert planned(events, sql, limits, indexed=True) == [Shape(*INDEXED[name])]


def crowd(name: str) -> list[indexes.Row]:
    return indexes.CROWD + (indexes.HEAVY if name == "with" else [])


@pytest.fixture(scope="module")
def crowds(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """A table with a heavy unit, and one without it."""
    described = {
        "budget": {"epsilon": 10**6, "delta": 0},
        "privacy": {"limits_share": 0, "max_rows": indexes.N},
        "tables": {name: {"unit": "id", "columns": indexes.COLUMNS} for name in ("with", "without")},
    }
    tables = {name: indexes.table(crowd(name)) for name in ("with", "without")}
    with engines(described, tables, tmp_path_factory.mktemp("crowds"), url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("sql", "limits"),
    [
        ('SELECT k, COUNT(*), SUM(v) FROM "{}" GROUP BY k', {}),
        (
            'SELECT k, AVG(v), COUNT(*) FROM "{}" WHERE v > -9 GROUP BY k',
            {"max_rows": 5, "max_rows_per_group": indexes.N},
        ),
        ('SELECT COUNT(*), SUM(v) FROM "{}" WHERE v <> 4', {}),
    ],
)
def test_with_an_index_one_unit_moves_integers_by_its_claim_and_no_more(
    sql: str, limits: dict[str, Any], crowds: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are DuckDB's without a list. A list without the heaviest unit would break the claim; a list that is too
    long for Spark is left alone.
    """
    found, short, cursor = [], [], cursor_of(crowds.session)
    with crowds.spark.measuring(None) as way, closing(cursor):
        for name in ("with", "without"):
            (step,) = crowds.session.explain(sql.format(name), epsilon=1, **limits).steps
            assert isinstance(step, Step)
            (use,) = way.uses(step)
            lists = [one for n in use.needs if (one := way.heavy_units(n.of, n.limit, n.by)) is not None]
            assert len(lists) == len(use.needs) and lists[0].total == len([r for r in crowd(name) if r[0] is not None])
            found.append(indexes.columns(step, way.execute(step, {}, 7, lists)))
            assert found[-1] == indexes.columns(step, duckdb_execute(step, cursor))
            if name == "with":
                cut = [replace(one, units=one.units.slice(1)) for one in lists]
                short.append(indexes.columns(step, way.execute(step, {}, 7, cut)))
        with monkeypatch.context() as patch:
            patch.setattr("dpsql.backends.spark.run.uploaded", partial(_uploaded, uploaded))
            assert indexes.columns(step, way.execute(step, {}, 7, lists)) == found[-1]
        monkeypatch.setattr("dpsql.backends.spark.heavy_units.UNITS", -1)
        assert way.heavy_units(use.needs[0].of, use.needs[0].limit) is None
        assert indexes.columns(step, way.execute(step, {}, 7, lists)) == found[-1]
    assert Fraction(9, 10) < indexes.share(step, *found) <= 1 < indexes.share(step, short[0], found[1])


def _uploaded(upload: Any, connection: Connection, table: Any, kinds: Mapping[str, str], **named: Any) -> Table:
    """To a server that takes no lists of units."""
    if list(kinds) == [UNIT]:
        raise engine_failed()
    return upload(connection, table, kinds, **named)  # type: ignore[no-any-return]  # what it was


def test_an_engine_keeps_a_list_and_believes_its_file_for_the_same_data_alone(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of a query is the same with a list and without."""
    told = list[Statement]()

    def watched(statement: Statement) -> Statement:
        told.append(statement)
        return told_apart(statement)

    monkeypatch.setattr("dpsql.store.unit_index.LARGE", 0)
    monkeypatch.setattr(Listed, "helps", True)
    monkeypatch.setattr("dpsql.backends.spark.run.told_apart", watched)
    file = tmp_path / "t.parquet"

    def written_at(second: int, rows: list[indexes.Row]) -> None:
        pq.write_table(indexes.table(rows).rename_columns(["person", "k", "v"]), file)
        os.utime(file, (second, second))

    def asked(sql: str) -> int:
        with Engine.open(described, ledger=tmp_path / "l.sqlite") as engine, engine.session() as session:
            session.query(sql, epsilon=1, max_rows=3, fresh=True)
            used = len(told)
            if sql == every:
                before = show(session.explain(some, epsilon=1, max_rows=3))
                engine.index(steward=True, above=3)
                assert before == show(session.explain(some, epsilon=1, max_rows=3))
            told.clear()
            return used

    every, some = "SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE v < 5"
    described = policy(tmp_path, {"kind": "spark", "url": url}, v={"min": -5, "max": 9})
    written_at(10**9, crowd("with"))
    assert asked(every) == 1  # what it found itself
    assert (tmp_path / "l.sqlite.index").stat().st_mode & 0o777 == 0o600
    assert asked(some) == 1  # by the file
    written_at(10**9 + 9, crowd("without") + indexes.SAME)
    with Engine.open(described, ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
    assert asked(some) == 0  # it speaks of other data


# ---------------------------------------------------------------- conformance


def test_every_probe_of_every_function_is_the_same_on_both(different: list[tuple[str, str]]) -> None:
    assert different == []
    called = {str(call.this) for p in probes() for call in p.form.find_all(exp.Anonymous)}
    assert set(SPELLINGS) <= called


def test_the_first_and_the_last_row_of_every_order_are_the_same_on_both(connection: Connection) -> None:
    assert differing_orders(connection, PublicDatabase(()).apart) == []


def test_an_engine_that_answers_otherwise_is_refused(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.backends.spark.conform.PROBES", {"FLOOR": ("FLOOR(d)",)})

    def other(query: Any, tables: Any, seconds: float) -> Any:
        found = PublicDatabase(()).apart(query, tables, seconds)
        return found.set_column(1, "x0", pa.nulls(found.num_rows, pa.float64()))

    with pytest.raises(dpsql.DataError) as refused:
        conform(connection, other)
    assert refused.value.code == "spark-differs" and "FLOOR" in str(refused.value)


# ---------------------------------------------------------------- what is said


def test_a_failure_says_nothing_of_a_row(connection: Connection, capfd: pytest.CaptureFixture[str]) -> None:
    view = connection.view(pa.table({"v": ["a secret"]}), {"v": "`v`"})
    with pytest.raises(dpsql.DataError) as failed:
        connection.arrow(f"SELECT CAST(v AS INT) AS x FROM {view}", {})
    assert failed.value.code == "engine" and failed.value.__cause__ is None and not connection.failed
    said = capfd.readouterr()
    assert "secret" not in str(failed.value) + said.out + said.err


def test_what_is_asked_of_a_server_itself_fails_with_the_same_message(reached: tuple[str, Any]) -> None:
    """Files that aren't there, and a server that is gone: Spark's own errors are pages of its code."""
    with closing(Connection(reached[0])) as own:
        with pytest.raises(dpsql.DataError) as missing:
            own.read(Reading(("file:/nowhere/secret.parquet",)), ["*"], "v")
        own.close()
        with pytest.raises(dpsql.DataError) as gone:
            assert own.version
        with pytest.raises(dpsql.DataError) as silent:
            assert own.life
    said = {(str(e.value), e.value.code, e.value.__cause__) for e in (missing, gone, silent)}
    assert said == {(str(engine_failed()), "engine", None)}


def test_a_server_is_asked_once_for_each_of_its_lives(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may live for longer than the server that it asked; one that doesn't say is asked each time."""
    assert connection.life.startswith("app-")
    asked, life = list[str](), ""
    monkeypatch.setattr(backend, "short_answers", lambda *_: None)
    monkeypatch.setattr(backend, "conform", lambda *_: asked.append(life))
    monkeypatch.setattr(backend, "_CONFORMED", set())
    for life in ("a", "a", "b", "b", "", ""):
        monkeypatch.setattr(Connection, "life", life)
        backend.Spark("sc://here", connection, (), SimpleNamespace(public=PublicDatabase(())))
    assert asked == ["a", "b", "", ""]


def test_a_server_states_its_build_and_its_java(connection: Connection) -> None:
    assert connection.builds is not None
    spark_build, java, *machine = connection.builds
    assert re.fullmatch(rf"{re.escape(connection.version)} [0-9a-f]{{40}}", spark_build)
    assert re.match(r"\d+\.", java) and len(machine) == 2


def test_a_server_with_another_build_is_asked_every_probe(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack 56, on a real server: all else is as it was when it was remembered."""
    asked, local = list[str](), PublicDatabase(())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(backend, "conform", lambda *_: asked.append("everything"))
    for build in ("", "", "0", "0"):
        if build:
            monkeypatch.setattr("dpsql.backends.spark.server.BUILDS", ("'4.3.0 of others' AS spark", *BUILDS[1:]))
        monkeypatch.setattr(backend, "_CONFORMED", set())
        backend.Spark("sc://here", connection, (), SimpleNamespace(public=local))
        asked.append("opened")
    assert asked == ["everything", "opened", "opened", "everything", "opened", "opened"]


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
        assert stopped.value.code == "engine" and "time" in stopped.value.aside and not own.failed
        assert own.arrow("SELECT 1 AS x", {}, Deadline(monotonic() + 120, "2m")).num_rows == 1


def test_a_statement_that_does_not_stop_is_left_to_the_server(
    reached: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a Spark of this process, which can be told to drop its work: nobody else is to wait for it.

    It is started whatever the environment, or something that ran here before, says of another Spark.
    """
    from pyspark import SparkContext

    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.setenv(name, "another")
    monkeypatch.setattr("dpsql.backends.spark.server.GRACE", 0.5)
    with closing(Connection("local[2]")) as own:
        own._session.conf.set("spark.sql.adaptive.enabled", "false")
        monkeypatch.setattr(own, "_interrupt", lambda tag: None)  # a server may pass over it
        with pytest.raises(dpsql.DataError) as stopped:
            own.arrow("SELECT SUM(id % 7) AS x FROM range(20000000000)", {}, Deadline(monotonic() + 0.5, "500ms"))
        assert stopped.value.code == "engine" and "time" in stopped.value.aside and own.failed
    SparkContext.getOrCreate().cancelAllJobs()


# ---------------------------------------------------------------- whole queries


def test_a_query_is_priced_answered_and_charged_as_on_duckdb(url: str, tmp_path: Path) -> None:
    cities = {"bern": 30, "lima": 50, None: 20}
    listed = [city for city, count in cities.items() for _ in range(count)]
    pq.write_table(pa.table({"person": range(100), "City": listed}), tmp_path / "t.parquet")
    public: Any = {"City": {"values": ["bern", "lima"]}}
    sql = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
    with dpsql.connect(policy(tmp_path, {}, **public), ledger=":memory:") as plain:
        price = show(plain.explain(sql, epsilon=1))
    with dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}, **public), ledger=":memory:") as spark:
        assert show(spark.explain(sql, epsilon=1)) == price
        answer = spark.query(sql, epsilon=1000)
        assert {city: round(n) for city, n in answer.rows} == cities
        assert spark.budget.spent.epsilon == 1000
        windows = "SELECT COUNT(DISTINCT city) OVER (PARTITION BY person) AS x FROM t"
        for lacking, name in {
            "SELECT COUNT(*) FROM t WHERE REVERSE(city) = 'x'": "REVERSE",
            f"SELECT COUNT(*) FROM ({windows}) q WHERE x > 5": "DISTINCT",  # Spark finds out when it runs it
        }.items():
            with pytest.raises(dpsql.SQLError) as refused:
                spark.query(lacking, epsilon=1)
            assert refused.value.code == "not-on-backend" and name in str(refused.value)
        assert spark.budget.spent.epsilon == 1000


def test_the_example_answers(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with example("query") as module:
        answer = module.main(url, str(tmp_path))
    assert [shop for shop, *_ in answer.rows] == ["a", "b", "c", None]
    assert "GROUP BY" in capsys.readouterr().out


@pytest.mark.parametrize("which", ["executor", pytest.param("worker", marks=pytest.mark.long)])
def test_a_worker_that_dies_in_mid_query_changes_nothing(
    which: str, cluster: Any, url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is killed when it holds a part of what the next stage reads: the same integers, paid once, or one message."""
    for number in range(8):
        rows = range(number * 40_000, (number + 1) * 40_000)
        columns = {"person": [r // 3 for r in rows], "city": [("bern", "lima", "secret")[r % 3] for r in rows]}
        pq.write_table(pa.table(columns), tmp_path / f"t{number}.parquet")
    described = policy(tmp_path, {"kind": "spark", "url": url}, "t*.parquet", city={"values": ["bern", "lima"]})
    with dpsql.connect(described, ledger=":memory:") as session, mortal(cluster, which) as killed:
        try:
            answer = session.query("SELECT city, COUNT(*) AS n FROM t GROUP BY city", epsilon=10_000, max_rows=3)
        except dpsql.DataError as failed:
            assert (str(failed), failed.code, failed.__cause__) == (str(engine_failed()), "engine", None)
        else:
            assert {city: round(n) for city, n in answer.rows} == {"bern": 106_667, "lima": 106_667, None: 0}
        assert killed and session.budget.spent.epsilon == 10_000
    said = capfd.readouterr()
    assert "secret" not in said.out + said.err


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
        dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}, x={}), ledger=":memory:")
    assert refused.value.code == "unreadable" and "a value of x" in str(refused.value)


MOMENTS = (-62_135_596_800_000_000, -12_219_292_800_000_001, -1, 0, 1, 1_709_210_096_789_012, 253_402_300_799_999_999)


def test_moments_as_spark_writes_them_are_the_same_on_both_engines(
    connection: Connection, url: str, tmp_path: Path
) -> None:
    """INT96, its default: of a zone to Spark, of none to DuckDB."""
    moments = pa.array([*MOMENTS, None], pa.timestamp("us"))
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"person": range(8), "moment": moments}), file, use_deprecated_int96_timestamps=True)
    with duckdb.connect() as own:
        ours = own.execute(f"SELECT epoch_us(moment) FROM '{file}' ORDER BY person").fetchall()
    assert [value for (value,) in ours] == [*MOMENTS, None]
    with dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}, moment={}), ledger=":memory:") as session:
        engine: Any = session._engine
        view = engine.backend._files["t"].table.view
        text = f"SELECT typeof(moment) AS kind, unix_micros(CAST(moment AS TIMESTAMP)) AS v FROM {view} ORDER BY person"
        theirs = engine.backend._connection.arrow(text, {})
        assert theirs.column("v").to_pylist() == [*MOMENTS, None]
        assert set(theirs.column("kind").to_pylist()) == {"timestamp_ntz"}
        late = session.query("SELECT COUNT(*) FROM t WHERE moment >= TIMESTAMP '1970-01-01'", epsilon=EXACT, max_rows=1)
        assert late.rows == [(4,)]
    pq.write_table(
        pa.table({"person": [1, 2], "moment": pa.array([0, 253_402_300_800_000_000], pa.timestamp("us"))}),
        file,
        use_deprecated_int96_timestamps=True,
    )
    with pytest.raises(dpsql.DataError) as refused:
        dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}, moment={}), ledger=":memory:")
    assert refused.value.code == "unreadable" and "a value of moment" in str(refused.value)


# ---------------------------------------------------------------- columns that are read in groups, and when named

WIDE = 300
ODD = ("a b", "a.b", "a`b", "x, y INT", "ü", "select", "日\n本")
"""Names of columns that a list of names and types must not take apart."""
OVER = "SELECT COUNT(*) FROM t WHERE c{} > 5"
EXACT = 10**4


def wide(folder: Path, url: str, **columns: Any) -> dpsql.Policy:
    """A table of many columns, of which the policy names three."""
    names = [*(f"c{i}" for i in range(WIDE - 1 - len(ODD))), *ODD]
    numbers = {name: [(i + row) % 10 for row in range(20)] for i, name in enumerate(names)}
    pq.write_table(pa.table({"Person": range(20), **numbers, **columns}), folder / "t.parquet")
    listed: Any = {"C1": {"min": 0, "max": 9}, "c2": {"values": list(range(10))}}
    return policy(folder, {"kind": "spark", "url": url}, **listed)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns that each statement of a full reading reads."""
    found, asked = list[list[str]](), Files._asked

    def spied(files: Any, reading: Any, *more: Any) -> Any:
        found.append([name for name, _ in reading.columns])
        return asked(files, reading, *more)

    monkeypatch.setattr(Files, "_asked", spied)
    return found


def view_of(session: dpsql.Session) -> set[str]:
    """The columns that queries have."""
    engine: Any = session._engine
    files = engine.backend._files["t"]
    found = engine.backend._connection.arrow(f"SELECT * FROM {files.table.view} LIMIT 0", {})
    return set(found.column_names) - {ROW}


def test_of_many_columns_those_are_read_that_the_policy_lists_or_a_query_names(
    url: str, tmp_path: Path, readings: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    described, ledger = wide(tmp_path, url), tmp_path / "l.sqlite"
    with dpsql.connect(described, ledger=ledger) as session:
        engine, spent = session._engine, list[Any]()
        assert readings == [["c1", "c2", "Person"]] and view_of(session) == {"person", "c1", "c2"}
        session.explain(OVER.format(7), epsilon=1)
        session.prices(OVER.format(7))
        with pytest.raises(dpsql.DataError) as failed:
            engine.backend._connection.arrow(f"SELECT c7 FROM {engine.backend._files['t'].table.view}", {})  # type: ignore[attr-defined]
        assert len(readings) == 1 and failed.value.code == "engine"
        examine = type(engine.backend).examine

        def spied(*asked: Any) -> Any:
            spent.append(session.budget.spent.epsilon)
            return examine(*asked)

        monkeypatch.setattr(type(engine.backend), "examine", spied)
        for _ in range(2):
            rows = session.query(OVER.format(7), epsilon=EXACT, max_rows=1, fresh=True).rows
            assert rows == [(8,)] and spent == [0]
        assert readings[1:] == [["c7"]] and view_of(session) == {"person", "c1", "c2", "c7"}
        known = scan_facts(engine.ledger.promises("t", engine.versions()["t"]))
        assert known == dict.fromkeys(("person", "c1", "c2", "c7"), (FITS,))
    with dpsql.connect(described, ledger=ledger) as session:  # another process: what is on record is not read again
        assert view_of(session) == {"person", "c1", "c2", "c7"} and len(readings) == 2
        assert session.query(OVER.format(7), epsilon=EXACT, max_rows=1, fresh=True).rows == [(8,)]
        assert session.query("SELECT COUNT(*) FROM t", epsilon=EXACT, max_rows=1).rows == [(20,)]
    assert len(readings) == 2


def test_what_one_session_has_read_another_finds_on_record(url: str, tmp_path: Path, readings: list[list[str]]) -> None:
    described, ledger = wide(tmp_path, url), tmp_path / "l.sqlite"
    with dpsql.connect(described, ledger=ledger) as one, dpsql.connect(described, ledger=ledger) as other:
        for session in (one, other):
            assert session.query(OVER.format(7), epsilon=EXACT, max_rows=1, fresh=True).rows == [(8,)]
        assert readings.count(["c7"]) == 1
        assert view_of(one) == view_of(other) == {"person", "c1", "c2", "c7"}


def test_all_columns_are_read_a_few_in_each_statement(url: str, tmp_path: Path, readings: list[list[str]]) -> None:
    with dpsql.connect(wide(tmp_path, url), ledger=":memory:") as session:
        engine = session._engine
        (one,) = engine.located
        every = sorted(engine.backend.apart(one) or ())
        assert len(every) == WIDE
        found = engine.backend.examine(one, every)
        assert found == dict.fromkeys(every, (FITS,))
        assert [len(columns) for columns in readings[1:]] == [AT_ONCE] * (WIDE // AT_ONCE) + [WIDE % AT_ONCE]
        assert sorted(name.lower() for columns in readings[1:] for name in columns) == every


def test_an_unlisted_column_that_spark_reads_otherwise_is_refused_for_nothing(
    url: str, tmp_path: Path, readings: list[list[str]]
) -> None:
    """And others are answered. What was found is nobody's who asks: it is recorded for the version alone."""
    bad = pa.array([b"a", *[b"\xff"] * 19]).view(pa.string())
    described, said = wide(tmp_path, url, bad=bad), set()
    for _ in range(2):
        with dpsql.connect(described, ledger=tmp_path / "l.sqlite") as session:
            for sql in ("SELECT COUNT(bad) FROM t", "SELECT COUNT(*) FROM t WHERE bad = 'a' AND c7 > 5"):
                with pytest.raises(dpsql.DataError) as refused:
                    session.query(sql, epsilon=1, max_rows=1)
                said.add((refused.value.code, refused.value.message))
            assert session.budget.spent.epsilon == 0 and "bad" not in view_of(session)
    ((code, message),) = said
    assert code == "unreadable" and "a value of bad" in message


def test_why_a_named_column_could_not_be_read_is_told_to_nobody_who_asks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst chooses what is read here, and what fails may be a matter of one person's value."""
    with dpsql.connect(wide(tmp_path, url), ledger=":memory:") as session:
        for column, reason in ((7, engine_failed("n77")), (8, timed_out("7s"))):
            with monkeypatch.context() as patch, pytest.raises(dpsql.DataError) as failed:
                patch.setattr(Connection, "read", lambda *_, reason=reason, **named: (_ for _ in ()).throw(reason))
                session.query(OVER.format(column), epsilon=1, max_rows=1)
            assert (str(failed.value), failed.value.code) == (str(unread()), "engine")
            assert failed.value.__cause__ is None and session.budget.spent.epsilon == 0
        assert session.query(OVER.format(9), epsilon=EXACT, max_rows=1).rows == [(8,)]


def test_what_another_engine_has_read_is_not_there_for_queries(url: str, tmp_path: Path) -> None:
    """DuckDB reads days that Spark doesn't: its word that all values fit is none of Spark's."""
    with dpsql.connect(wide(tmp_path, url), ledger=":memory:") as session:
        engine = session._engine
        (one,) = engine.located
        engine.backend.trust(one, {"person": (FITS,), "c7": ("fits", "statistics"), "": ("fits",), "nobody": (FITS,)})
        assert view_of(session) == {"person"}


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
    one = described.tables["t"]
    both = {"t": replace(one, source="a b.parquet"), "u": replace(one, name="u", source="*é.parquet")}
    with dpsql.connect(replace(described, tables=both), ledger=":memory:") as session:
        for name, rows in {"t": 10, "u": 20}.items():
            assert session.query(f"SELECT COUNT(*) FROM {name}", epsilon=1000, max_rows=1).rows == [(rows,)]


def test_rows_that_another_client_keeps_are_not_taken_for_the_files(
    connection: Connection, url: str, tmp_path: Path
) -> None:
    """Spark gives what one client cached to all that read the same files, also after these were written anew."""
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"person": range(10)}), file)
    kept = connection._session.read.parquet(str(file)).cache()
    assert kept.count() == 10
    pq.write_table(pa.table({"person": range(300)}), file)
    assert connection._session.read.parquet(str(file)).count() == 10
    with dpsql.connect(policy(tmp_path, {"kind": "spark", "url": url}), ledger=":memory:") as session:
        assert session.query("SELECT COUNT(*) FROM t", epsilon=1000, max_rows=1).rows == [(300,)]
    kept.unpersist()


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


# ---------------------------------------------------------------- tables of a catalog


@pytest.fixture(scope="module")
def catalog(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Runs a statement about tables of the database dpsql_shop, which ends with the tests."""

    def run(sql: str) -> Any:
        return connection._session.sql(sql).toArrow()

    run(f"CREATE DATABASE dpsql_shop LOCATION 'file:{tmp_path_factory.mktemp('shop')}'")
    run(
        "CREATE TABLE dpsql_shop.visits USING parquet CLUSTERED BY (User) INTO 3 BUCKETS AS "
        "SELECT id % 40 AS User, CAST(id % 2 AS STRING) AS k, CAST(1 AS CHAR(2)) AS c FROM range(120)"
    )
    yield run
    run("DROP DATABASE dpsql_shop CASCADE")


def shop(url: str, table: str = "visits", **more: Any) -> dpsql.Policy:
    described = {"source": f"dpsql_shop.{table}", "unit": "user", "columns": {"k": {"values": ["0", "1"]}}, **more}
    top = {"budget": {"epsilon": 10**6, "delta": 1e-6}, "backend": {"kind": "spark", "url": url}}
    return dpsql.Policy.from_dict({**top, "tables": {"visits": described}})


BY_USER = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"


BY_UNIT = "SELECT COUNT(*) AS n FROM (SELECT user, COUNT(*) AS c FROM visits GROUP BY user) AS u WHERE c > 2"
SHUFFLED = "hashpartitioning(user"


def folder_of(run: Callable[..., Any], table: str) -> Path:
    said = run(f"DESCRIBE EXTENDED dpsql_shop.{table}").to_pylist()
    return Path(next(row["data_type"] for row in said if row["col_name"] == "Location").removeprefix("file:"))


def plans(session: dpsql.Session, sql: str) -> str:
    """How Spark plans what a query asks."""
    engine = session._engine
    (step,) = session.explain(sql, epsilon=1, max_rows=3).steps
    found = []
    for text in written_step(step, engine.backend._tables):  # type: ignore[attr-defined]
        plan = engine.backend._connection.arrow(f"EXPLAIN {text.sql}", text.parameters)  # type: ignore[attr-defined]
        found += plan.column(0).to_pylist()
    return "\n".join(found)


@pytest.mark.long
def test_a_table_of_a_catalog_is_read_checked_and_told_apart(catalog: Callable[..., Any], url: str) -> None:
    engine = dpsql.Engine.open(shop(url, rows_per_unit=3), ledger=":memory:")
    try:
        refreshed = engine.refresh(steward=True)
        assert not refreshed.broken and "the most rows of one user are 3" in str(refreshed)
        with engine.session() as session:
            assert session.query(BY_USER, epsilon=10**5).rows == [("0", 60), ("1", 60), (None, 0)]
            catalog("INSERT INTO dpsql_shop.visits SELECT 100 + id, '1', '1' FROM range(9)")
            with pytest.raises(dpsql.Error) as changed:
                session.query(BY_USER, epsilon=1)
            assert changed.value.code == "data-changed" and session.budget.spent.epsilon == 10**5
        again = engine.refresh(steward=True)
        assert again.tables[0].version == "new" and "files added" in str(again) and not again.broken
        with engine.session() as session:
            assert session.query("SELECT COUNT(*) FROM visits", epsilon=10**5).rows == [(129,)]
    finally:
        engine.close()


def test_a_table_in_buckets_of_units_is_not_shuffled(catalog: Callable[..., Any], url: str) -> None:
    catalog(
        "CREATE TABLE dpsql_shop.dealt USING parquet CLUSTERED BY (user) INTO 3 BUCKETS AS "
        "SELECT id % 40 AS user, CAST(id % 2 AS STRING) AS k FROM range(120)"
    )
    with dpsql.connect(shop(url, "dealt"), ledger=":memory:") as session:
        planned = plans(session, BY_UNIT)
        assert "Bucketed: true" in planned and SHUFFLED not in planned
        assert session.query(BY_UNIT, epsilon=10**5).rows == [(40,)]
        tables = session._engine.backend._tables  # type: ignore[attr-defined]
        assert tables["visits"].rows is None  # nobody here knows how many, so that nothing is sent everywhere


def test_a_column_that_is_named_late_leaves_buckets_and_is_the_stewards_at_any_time(
    catalog: Callable[..., Any], url: str, readings: list[list[str]]
) -> None:
    catalog(
        "CREATE TABLE dpsql_shop.many USING parquet CLUSTERED BY (user) INTO 3 BUCKETS AS "
        "SELECT id % 40 AS user, CAST(id % 2 AS STRING) AS k, id AS Late, -id AS other FROM range(120)"
    )
    with dpsql.connect(shop(url, "many"), ledger=":memory:") as session:
        engine = session._engine
        assert readings == [["user"], ["k", "user"]]  # buckets, then columns
        steward = exp.select(exp.Max(this=exp.column("other", quoted=True))).from_(exp.to_table("visits"))
        assert engine.backend.look(steward) == (0,)
        late = session.query("SELECT COUNT(*) FROM visits WHERE late < 60", epsilon=10**5, max_rows=3)
        assert late.rows == [(60,)] and readings[2:] == [["Late"]]
        assert session.query(BY_UNIT, epsilon=10**5).rows == [(40,)]
        planned = plans(session, BY_UNIT)
        assert "Bucketed: true" in planned and SHUFFLED not in planned


def test_a_table_with_options_of_its_own_is_read_as_plain_files(catalog: Callable[..., Any], url: str) -> None:
    """What was found of its files was found without them (Theorem BUCKET-1): here, days of another calendar."""
    catalog(
        "CREATE TABLE dpsql_shop.old (user BIGINT, k STRING, d DATE) USING parquet "
        "OPTIONS (datetimeRebaseMode = 'LEGACY') CLUSTERED BY (user) INTO 1 BUCKETS"
    )
    folder = folder_of(catalog, "old")
    folder.mkdir(exist_ok=True)
    rows = {"user": pa.array([1], pa.int64()), "k": ["0"], "d": pa.array([date(1, 1, 1)])}
    pq.write_table(pa.table(rows), folder / "part-9-x_00000.c000.parquet")
    with dpsql.connect(shop(url, "old"), ledger=":memory:") as session:
        assert session.query("SELECT COUNT(*) FROM visits WHERE DAY(d) = 1", epsilon=10**5).rows == [(1,)]
        assert "Bucketed: true" not in plans(session, BY_UNIT)


def test_rows_that_are_in_another_bucket_than_their_file_says_are_shuffled(
    catalog: Callable[..., Any], url: str
) -> None:
    """One unit's rows would be in two groups, and each of them within its limits (Theorem BUCKET-1)."""
    catalog(
        "CREATE TABLE dpsql_shop.lying USING parquet CLUSTERED BY (user) INTO 2 BUCKETS AS "
        "SELECT id % 10 AS user, '0' AS k FROM range(20)"
    )
    folder = folder_of(catalog, "lying")
    for bucket in range(2):  # one user, nine rows in the files of each bucket
        rows = pa.table({"user": pa.array([77] * 9, pa.int64()), "k": ["0"] * 9})
        pq.write_table(rows, folder / f"part-9-x_{bucket:05}.c000.parquet")
    with dpsql.connect(shop(url, "lying"), ledger=":memory:") as session:
        engine: Any = session._engine
        assert scan_facts(engine.ledger.promises("visits", engine.versions()["visits"])) == {
            "": (),
            "k": ("spark-fits",),
            "user": ("spark-fits",),
        }
        assert session.query("SELECT COUNT(*) AS n FROM visits", epsilon=10**5, max_rows=9).rows == [(29,)]
        files = engine.backend._files["visits"]
        units = f"SELECT COUNT(*) AS n FROM (SELECT user FROM {files.table.view} GROUP BY user)"
        assert SHUFFLED in engine.backend._connection.arrow(f"EXPLAIN {units}", {}).column(0)[0].as_py()
        files.show({"user", "k"}, is_dealt_out=True)  # what would be, if the names of files were believed
        assert engine.backend._connection.arrow(units, {}).to_pylist() == [{"n": 12}]  # of 11


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("VIEW dpsql_shop.other AS SELECT * FROM dpsql_shop.visits", "view"),
        ("TABLE dpsql_shop.other USING csv AS SELECT 1 AS user, '0' AS k", "csv"),
        ("TABLE dpsql_shop.other USING parquet PARTITIONED BY (k) AS SELECT 1 AS user, '0' AS k", "partitioned"),
        ("TABLE dpsql_shop.other (user INT, k STRING) USING parquet", "no files"),
        ("DATABASE IF NOT EXISTS dpsql_shop", "no table"),
    ],
)
def test_what_is_no_list_of_parquet_files_is_refused(
    catalog: Callable[..., Any], url: str, made: str, words: str
) -> None:
    catalog(f"CREATE {made}")
    with pytest.raises(dpsql.DataError) as refused:
        dpsql.connect(shop(url, "other"), ledger=":memory:")
    if not made.startswith("DATABASE"):
        catalog(f"DROP {made.partition(' ')[0]} dpsql_shop.other")
    assert words in str(refused.value) and refused.value.hint


def test_a_table_with_folders_that_look_like_partitions_is_refused(catalog: Callable[..., Any], url: str) -> None:
    """Spark would list the files of these folders alone, and read none of the table's own."""
    catalog("CREATE TABLE dpsql_shop.deep USING parquet AS SELECT id AS user, '0' AS k FROM range(9)")
    folder = folder_of(catalog, "deep") / "user=3"
    folder.mkdir()
    pq.write_table(pa.table({"k": ["0"]}), folder / "part-9.parquet")
    with pytest.raises(dpsql.DataError) as refused:
        dpsql.connect(shop(url, "deep"), ledger=":memory:")
    assert refused.value.code == "not-on-backend" and "folders within" in str(refused.value)


def test_columns_that_a_catalog_changes_on_the_way_are_left_out(catalog: Callable[..., Any], url: str) -> None:
    """CHAR is padded, and a default fills files that were written before it, where Spark reads the table itself."""
    catalog("CREATE TABLE dpsql_shop.odd (user INT, k STRING, c CHAR(3), d INT DEFAULT 5, s STRING COLLATE UNICODE_CI) "
            "USING parquet")  # fmt: skip
    catalog("INSERT INTO dpsql_shop.odd VALUES (1, '0', 'a', 1, 'x')")
    with dpsql.connect(shop(url, "odd"), ledger=":memory:") as session:
        assert [name for name, _ in session._engine.schema["visits"]] == ["user", "k"]


def test_the_files_of_a_delta_table_are_handed_to_spark(url: str, tmp_path: Path) -> None:
    table = pa.table({"person": pa.array(range(10), pa.int64())})
    deltalake.write_deltalake(tmp_path / "t", table)
    deltalake.write_deltalake(tmp_path / "t", table, mode="overwrite")  # the old file stays, and is no part of it
    described = policy(tmp_path, {"kind": "spark", "url": url})
    one = replace(described.tables["t"], source="delta:t")
    with dpsql.connect(replace(described, tables={"t": one}), ledger=":memory:") as session:
        assert session.query("SELECT COUNT(*) FROM t", epsilon=1000).rows == [(10,)]
        deltalake.write_deltalake(tmp_path / "t", table, mode="overwrite")
        with pytest.raises(dpsql.Error) as changed:
            session.query("SELECT COUNT(*) FROM t", epsilon=1)
        assert changed.value.code == "data-changed"


# ---------------------------------------------------------------- neighbours, over every kind of table

NEIGHBOURS = 'SELECT k, COUNT(*), SUM(x) FROM "{}" GROUP BY k'


def stored(kind: str, name: str, parts: list[pa.Table], folder: Path, run: Callable[..., Any], iceberg: Any) -> str:
    """A source that was written in several turns."""
    if kind == "delta":
        for part in parts:
            deltalake.write_deltalake(folder / name, part, mode="append")
        return f"delta:{folder / name}"
    if kind == "iceberg":
        table = iceberg.create_table(f"shop.{name}", schema=parts[0].schema)
        for part in parts:
            table.append(part)
        return f"iceberg:here.shop.{name}"
    buckets = "CLUSTERED BY (person) INTO 3 BUCKETS" if kind == "buckets" else ""
    run(f"CREATE TABLE dpsql_shop.{name} (person BIGINT, k STRING, x DOUBLE) USING parquet {buckets}")
    for number, part in enumerate(parts):
        pq.write_table(part, file := folder / f"{name}{number}.parquet")
        run(f"INSERT INTO dpsql_shop.{name} SELECT * FROM parquet.`{file}`")
    return f"dpsql_shop.{name}"


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "kind", ["buckets", pytest.param("catalog", marks=LONG), "delta", pytest.param("iceberg", marks=LONG)]
)
def test_over_every_kind_of_table_one_unit_moves_integers_by_its_claim_and_no_more(
    kind: str, catalog: Callable[..., Any], iceberg: Any, url: str, tmp_path: Path
) -> None:
    """Half of the unit's rows, twice as many as its limit, are in files that were added later."""
    others = [(person, "ab"[person % 2], float(person)) for person in range(9)] * 2
    mine = [(77, "a", 5.0)] * 3  # 5 is the largest that counts
    parts = {"without": [others, others], "with": [[*others, *mine], [*mine, *others]]}
    kinds = pa.schema({"person": pa.int64(), "k": pa.string(), "x": pa.float64()})
    told = policy(tmp_path, {"kind": "spark", "url": url}, k={"values": ["a", "b"]}, x={"min": 0, "max": 5})
    neighbours = {}
    for name, rows in parts.items():
        tables = [pa.table(dict(zip(kinds.names, zip(*part, strict=True), strict=True)), kinds) for part in rows]
        source = stored(kind, f"{kind}_{name}", tables, tmp_path, catalog, iceberg)
        neighbours[name] = replace(told.tables["t"], name=name, source=source)
    with dpsql.connect(replace(told, tables=neighbours), ledger=":memory:") as session:
        spark_backend: Any = session._engine.backend
        assert {table.bucketed for table in spark_backend._tables.values()} == {kind == "buckets"}
        with spark_backend.measuring(None) as way:
            one, other = (
                seen_of(
                    session.explain(NEIGHBOURS.format(name), epsilon=1, max_rows=3),
                    lambda step: way.execute(step, {}, 7),
                )
                for name in neighbours
            )
    assert within_claims(one, other) == [1]
