"""The contract of backends: a double of a few lines answers a whole query, and DuckDB passes the same checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

import dpsql
from dpsql.analyze.ownership import SCAN
from dpsql.backends import base
from dpsql.backends.base import WHOLE_SOURCE, Backend, Contents, Deadline, Exact, Kind, Misread, Versions
from dpsql.backends.choose import kind_of
from dpsql.backends.dialect import AS_IS, Dialect
from dpsql.backends.duckdb.dialect import DUCKDB
from dpsql.backends.located import Located, locate
from dpsql.core.errors import DataError, EngineError, SQLError
from dpsql.core.types import Type
from dpsql.explain.text import show
from dpsql.policy.settings import EngineSettings
from dpsql.sql.functions.primitives import PRIMITIVES
from dpsql.sql.parse import Tree, parse

CITIES = {"bern": 3, "lima": 5, "oslo": 0, None: 1}
ROWS = pa.table({"city": [city for city, count in CITIES.items() for _ in range(count)]})
POLICY = dpsql.Policy.from_dict(
    {
        "budget": {"epsilon": 10**6, "delta": 0},
        "tables": {"t": {"unit": "row", "columns": {"city": {"values": [city for city in CITIES if city]}}}},
    }
)
SQL = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"
RESULT = (("city", "VARCHAR"), ("n", "BIGINT"))


# ---------------------------------------------------------------- the double


class PublicDouble:
    """Knows the values that the policy lists, and nothing else."""

    def __init__(self) -> None:
        self.memo: dict[object, Any] = {}

    def table(self, query: exp.Query, tables: Mapping[str, Any]) -> Any:
        if "listed" not in tables:
            raise EngineError("a double computes nothing")
        return tables["listed"]

    def run(self, query: exp.Query, tables: Mapping[str, Any]) -> tuple[Any, list[str]]:
        return self.table(query, tables), []

    def apart(self, query: exp.Query, tables: Mapping[str, Any], seconds: float) -> Any:
        return self.table(query, tables)


class TwinDouble:
    def describe(self, tree: Tree) -> tuple[tuple[str, str], ...]:
        return self.types(tree.root)

    def types(self, query: exp.Query) -> tuple[tuple[str, str], ...]:
        if query.named_selects != ["city", "n"]:
            raise SQLError("a double knows one query", code="double", hint=SQL)
        return RESULT


class Double:
    """A backend whose exact statistics are written down."""

    versions = Versions("a double", "1", ("1",), "double")
    refuses_statements = False

    def __init__(self) -> None:
        self.schema = {"t": (("city", "VARCHAR"),)}
        self.public, self.twin = PublicDouble(), TwinDouble()
        self.trusted: list[str] = []

    def apart(self, one: Located) -> None:
        return None

    def examine(
        self, one: Located, columns: Sequence[str], until: Deadline | None = None
    ) -> dict[str, tuple[str, ...] | None]:
        return {WHOLE_SOURCE: ("fits",)}

    def unreadable(self, one: Located, columns: Sequence[str]) -> DataError:
        raise AssertionError("each source is one of records")

    def trust(self, one: Located, shown: Mapping[str, Sequence[str]]) -> None:
        self.trusted = list(shown[WHOLE_SOURCE])

    def named(self, steps: Any) -> dict[str, frozenset[str]]:
        return {}

    @contextmanager
    def measuring(self, until: Deadline | None) -> Iterator[Double]:
        yield self

    def execute(self, step: Any, given: Mapping[str, Any], secret: int, heavy: Any = ()) -> Exact:
        (tally,) = step.tallies
        return Exact({tally: np.array([CITIES[city] for city in step.cells.column("k0").to_pylist()])})

    def uses(self, step: Any) -> tuple[()]:
        return ()

    def heavy_units(self, of: Any, above: int, by: Any = ()) -> None:
        return None

    def all_units(self, of: Any, columns: Any) -> None:
        return None

    def encode(self, step: Any) -> base.Codes:
        raise base.engine_failed()

    def written(self, step: Any, *, pretty: bool = False) -> tuple[str, ...]:
        return ("what is written down",)

    def check_running(self) -> None: ...

    def close(self) -> None: ...

    def rows(self, scan: Any) -> exp.Select:
        return exp.select("*").from_(scan.table)

    def look(self, query: exp.Select) -> tuple[Any, ...]:
        raise EngineError("a double has no rows")

    def misread(self, one: Located) -> Misread:
        return Misread(0)

    def columns(self, one: Located) -> tuple[tuple[str, str], ...]:
        return self.schema[one.name]

    def digests(self, one: Located, file: Path | None, key: bytes) -> dict[str, str]:
        return {"": key.hex()}


class Doubles:
    """The kind of the double."""

    def versions(self) -> Versions:
        return Double.versions

    def contents(self, source: str, files: tuple[Path, ...]) -> tuple[Contents, ...]:
        raise AssertionError("a policy is there already")

    def locate(self, policy: dpsql.Policy, objects: Mapping[str, Any]) -> tuple[Located, ...]:
        return locate(policy, objects)

    def open_backend(self, located: tuple[Located, ...], settings: EngineSettings, folder: Path) -> Backend:
        return Double()


@pytest.fixture(params=["double", "duckdb"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dpsql.Session]:
    """A session over each backend; both hold the same rows."""
    kind: Kind = Doubles() if request.param == "double" else kind_of(POLICY)
    monkeypatch.setattr("dpsql.engine.kind_of", lambda _: kind)
    with dpsql.connect(POLICY, sources={"t": ROWS}, ledger=":memory:") as opened:
        yield opened


# ---------------------------------------------------------------- what holds of both


def test_a_whole_query_is_answered_and_charged(session: dpsql.Session) -> None:
    answer = session.query(SQL, epsilon=1000)
    assert answer.columns == ["city", "n"]
    assert {city: round(n) for city, n in answer.rows} == CITIES
    assert session.budget.spent.epsilon == 1000
    assert session.query(SQL, epsilon=1000).rows == answer.rows and session.budget.spent.epsilon == 1000


def test_a_step_has_exact_integers_in_the_order_of_its_cells(session: dpsql.Session) -> None:
    (step,) = session.explain(SQL, epsilon=1).steps
    with session.backend.measuring(None) as rows:
        exact = rows.execute(step, {}, 7)
    assert exact.cells is None and set(exact.tallies) == set(step.tallies)
    assert [int(n) for n in exact.tallies[step.tallies[0]]] == list(CITIES.values())


def test_statements_are_written_for_people_and_spend_nothing(session: dpsql.Session) -> None:
    quote = session.explain(SQL, epsilon=1)
    for step in quote.steps:
        assert all(session.backend.written(step)) and all(session.backend.written(step, pretty=True))
    assert "on the data (r0)" in show(quote, backend=session.backend)
    assert session.budget.spent.epsilon == 0


def test_types_are_ours(session: dpsql.Session) -> None:
    for columns in session.backend.schema.values():
        assert all(Type.parse(text).sql == text for _, text in columns)


def test_what_a_reading_shows_is_recorded_and_understood_again(session: dpsql.Session) -> None:
    engine = session._engine
    (one,) = engine.located
    shown = engine.backend.examine(one, [WHOLE_SOURCE])
    assert shown == {WHOLE_SOURCE: ("fits",)} and engine.backend.apart(one) is None
    assert engine.promises()["t"] == {f"{SCAN} fits"}
    engine.backend.trust(one, {WHOLE_SOURCE: ["fits", "a word of tomorrow"]})
    assert session.query(SQL, epsilon=1).rows


def test_the_public_engine_refuses_in_an_error_of_ours(session: dpsql.Session) -> None:
    with pytest.raises(EngineError) as refused:
        session.backend.public.table(exp.select("nobody"), {})
    assert "\n" not in str(refused.value) and refused.value.__cause__ is None


def test_the_twin_refuses_in_an_error_of_ours(session: dpsql.Session) -> None:
    assert session.backend.twin.describe(parse(SQL)) == RESULT
    with pytest.raises(SQLError):
        session.backend.twin.describe(parse("SELECT nobody FROM t"))


def test_an_engine_that_ended_is_refused_before_anything_is_charged(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended() -> None:
        raise base.engine_ended()

    monkeypatch.setattr(session.backend, "check_running", ended)
    with pytest.raises(dpsql.DataError) as refused:
        session.query(SQL, epsilon=1)
    assert refused.value.code == "engine-failed" and session.budget.spent.epsilon == 0


def test_a_statement_that_fails_stays_charged(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def failing(until: Deadline | None) -> Iterator[Any]:
        raise base.engine_failed()
        yield

    monkeypatch.setattr(session.backend, "measuring", failing)
    with pytest.raises(dpsql.DataError) as failed:
        session.query(SQL, epsilon=1)
    assert failed.value.code == "engine" and session.budget.spent.epsilon == 1


def test_an_untested_version_is_refused_where_that_is_asked_for() -> None:
    Double.versions.require()
    with pytest.raises(dpsql.PolicyError) as refused:
        replace(Double.versions, installed="2").require()
    assert refused.value.code == "untested-engine" and 'pip install "double==1"' in str(refused.value)


# ---------------------------------------------------------------- how an engine writes what forms are made of


def write_with(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    """Let DuckDB's table say something else of these primitives; None: nothing."""
    left = {**DUCKDB.spellings, **changed}
    changed_dialect = replace(DUCKDB, spellings={name: how for name, how in left.items() if how is not None})
    monkeypatch.setattr("dpsql.backends.duckdb.dialect.DUCKDB", changed_dialect)


def duckdb_session() -> dpsql.Session:
    return dpsql.connect(POLICY, sources={"t": ROWS}, ledger=":memory:")


LOWERED = "SELECT COUNT(*) AS n FROM t WHERE LOWER(city) = 'bern'"


def test_duckdb_says_of_every_primitive_how_it_is_written() -> None:
    assert set(DUCKDB.spellings) == set(PRIMITIVES)
    assert all(how is AS_IS for how in DUCKDB.spellings.values())


def test_a_primitive_that_an_engine_lacks_is_refused_before_payment(monkeypatch: pytest.MonkeyPatch) -> None:
    write_with(monkeypatch, lower=None)
    with duckdb_session() as session:
        with pytest.raises(dpsql.SQLError) as refused:
            session.query(LOWERED, epsilon=1)
        assert refused.value.code == "not-on-backend" and "LOWER can't be computed by DuckDB" in str(refused.value)
        assert session.budget.spent.epsilon == 0
        assert session.query("SELECT COUNT(*) AS n FROM t WHERE UPPER(city) = 'BERN'", epsilon=1).rows


def test_an_engine_writes_a_primitive_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(text: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="lcase", expressions=[text])

    write_with(monkeypatch, lower=other)
    with duckdb_session() as session:
        (step,) = session.explain(LOWERED, epsilon=1).steps
        (text,) = session.backend.written(step)
        assert "LCASE(" in text.upper() and "LOWER(" not in text.upper()
        ((n,),) = session.query(LOWERED, epsilon=1000).rows
        assert round(n) == CITIES["bern"]


def test_functions_of_the_backends_own_statements_are_left_alone() -> None:
    bare = Dialect("a double", "duckdb", {})
    assert bare.text(exp.select(exp.Anonymous(this="HASH", expressions=[exp.column("x")]))) == "SELECT HASH(x)"
