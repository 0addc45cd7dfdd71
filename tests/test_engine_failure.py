"""An engine that has failed for good: later queries are refused before they are charged, in words of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import cursor_of, duckdb_of

import dpsql
from dpsql.backends.base import unread
from dpsql.backends.duckdb import backend as backend_module
from dpsql.backends.duckdb import scan
from dpsql.backends.duckdb.cursor import Cursor, EngineEnded, Health

ROWS = pa.table({"who": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
POLICY = {
    "budget": {"epsilon": 100, "delta": 0, "query_epsilon": 1},
    "tables": {"t": {"unit": "row", "columns": {"x": {"min": 0, "max": 10}}}},
}
Open = Callable[[], dpsql.Session]


@pytest.fixture(params=["arrow", "parquet"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A session over Arrow rows or a file."""
    policy: dict[str, Any] = POLICY
    sources = {"t": ROWS}
    if request.param == "parquet":
        pq.write_table(ROWS, tmp_path / "t.parquet")
        policy = {**POLICY, "tables": {"t": {**POLICY["tables"]["t"], "source": "t.parquet"}}}  # type: ignore[index]
        sources = {}
    loaded = dpsql.Policy.from_dict(policy, folder=tmp_path)
    with dpsql.connect(loaded, sources=sources, ledger=":memory:") as opened:
        yield opened


def end(session: dpsql.Session) -> None:
    """End the private engine, as a time that DuckDB can't hold does."""
    cursor = cursor_of(session)
    cursor.register("bad", pa.table({"x": pa.array([2**62], pa.timestamp("s"))}))
    with pytest.raises(duckdb.InternalException):
        cursor.arrow("SELECT CAST(x AS VARCHAR) FROM bad")
    with pytest.raises(duckdb.FatalException):
        duckdb_of(session)._private.cursor().execute("SELECT 1")
    cursor.close()


def test_after_an_internal_error_queries_are_refused_before_they_are_charged(session: dpsql.Session) -> None:
    stored = session.query("SELECT COUNT(*) FROM t").rows
    end(session)
    for ask in (
        lambda: session.query("SELECT SUM(x) FROM t"),
        lambda: session.query("SELECT COUNT(*) FROM t", fresh=True),
        lambda: session.batch("SELECT AVG(x) FROM t; SELECT COUNT(x) FROM t"),
    ):
        with pytest.raises(dpsql.DataError) as refused:
            ask()
        error = refused.value
        assert error.code == "engine-failed" and "nothing was charged" in error.message
        assert error.hint is not None and "open a new session" in error.hint
        assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    assert session.budget.spent.epsilon == 1
    assert session.query("SELECT COUNT(*) FROM t").rows == stored  # what left already needs no engine
    assert "COUNT" in str(session.explain("SELECT COUNT(*) FROM t"))


def test_the_query_that_ends_the_engine_stays_charged_and_shows_nothing_of_the_engines_words(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = duckdb_of(session).cursor

    def ending() -> Cursor:
        cursor = real()
        cursor.register("bad", pa.table({"x": pa.array([2**62], pa.timestamp("s"))}))
        bad = "SELECT CAST(x AS VARCHAR) FROM bad"
        monkeypatch.setattr(cursor, "rows", lambda _: Cursor.rows(cursor, bad))
        monkeypatch.setattr(cursor, "arrow", lambda _: Cursor.arrow(cursor, bad))
        return cursor

    monkeypatch.setattr(session._engine.backend, "cursor", ending)
    with pytest.raises(dpsql.DataError) as failed:
        session.query("SELECT SUM(x) FROM t")
    assert failed.value.code == "engine" and "stays charged" in failed.value.message
    with pytest.raises(dpsql.DataError) as refused:
        session.query("SELECT SUM(x) FROM t")
    assert refused.value.code == "engine-failed"
    for error in (failed.value, refused.value):
        assert not {"invalidated", "INTERNAL", "FATAL", "4611686018427387904"} & set(f"{error} {error.args}".split())
    assert session.budget.spent.epsilon == 1


@pytest.mark.parametrize("kind", ["InternalException", "FatalException"])
def test_an_error_that_says_so_ends_the_engine_even_if_it_still_answers(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    cursor = cursor_of(session)

    def fail(*_: object) -> None:
        raise getattr(duckdb, kind)("INTERNAL Error: value n77")

    class Failing:
        execute = fetchall = sql = fail

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    real, cursor._connection = cursor._connection, Failing()  # type: ignore[assignment]
    monkeypatch.setattr(session._engine.backend, "cursor", lambda: cursor)
    for code in ("engine", "engine-failed"):
        with pytest.raises(dpsql.DataError) as failed:
            session.query("SELECT SUM(x) FROM t")
        assert failed.value.code == code and "n77" not in str(failed.value)
    assert session.budget.spent.epsilon == 1


def test_registering_rows_in_an_engine_that_has_ended_says_nothing_of_the_engines_words(
    session: dpsql.Session,
) -> None:
    end(session)
    duckdb_of(session)._health.failed = False  # as if it had ended while this query was being paid for
    with pytest.raises(dpsql.DataError) as failed:
        session.query("SELECT SUM(x) FROM t")
    assert failed.value.code == "engine" and "invalidated" not in str(failed.value)
    with pytest.raises(dpsql.DataError) as refused:
        session.query("SELECT SUM(x) FROM t")
    assert refused.value.code == "engine-failed"
    assert session.budget.spent.epsilon == 1


def test_an_ordinary_error_leaves_the_engine_usable(session: dpsql.Session) -> None:
    cursor = cursor_of(session)
    with pytest.raises(duckdb.ConversionException):
        cursor.arrow("SELECT CAST('n77' AS INTEGER)")
    cursor.close()
    assert session.query("SELECT COUNT(*) FROM t").rows


def test_a_foreign_error_of_the_result_is_one_of_the_engines_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class Relation:
        def to_arrow_table(self) -> None:
            raise pa.ArrowInvalid("value n77")

    class Connection:
        def sql(self, _: str) -> Relation:
            return Relation()

        def interrupt(self) -> None: ...

    with pytest.raises(duckdb.Error) as failed:
        Cursor(Connection()).arrow("SELECT 1")  # type: ignore[arg-type]
    assert "n77" not in str(failed.value) and failed.value.__cause__ is None
    assert failed.value.__suppress_context__


def test_the_engine_of_post_processing_that_has_ended_refuses_before_payment_as_well(session: dpsql.Session) -> None:
    raw = duckdb_of(session).public._connection.cursor()
    raw.register("bad", pa.table({"x": pa.array([2**62], pa.timestamp("s"))}))
    with pytest.raises(duckdb.InternalException) as ended:
        raw.execute("SELECT CAST(x AS VARCHAR) FROM bad").fetchall()
    duckdb_of(session).public.health.look(ended.value, raw)
    with pytest.raises(dpsql.Error):
        session.query("SELECT SUM(x) FROM t")
    assert session.budget.spent.epsilon == 0


def test_health_notices_an_engine_that_does_nothing_any_more_whatever_the_error_was() -> None:
    connection = duckdb.connect(":memory:")
    health = Health()
    health.look(duckdb.IOException("disk"), connection)
    assert not health.failed
    connection.close()
    health.look(duckdb.IOException("disk"), connection)
    assert health.failed


# ---------------------------------------------------------------- while a source is read in full


def ending(cursor: Cursor) -> None:
    """End the engine of a cursor, as a time that DuckDB can't hold does."""
    cursor.register("bad", pa.table({"x": pa.array([2**62], pa.timestamp("s"))}))
    with pytest.raises(duckdb.InternalException):
        cursor.arrow("SELECT CAST(x AS VARCHAR) FROM bad")


def findings(session: dpsql.Session) -> dict[str, bool]:
    engine = session._engine
    return engine.ledger.findings("t", engine.versions()["t"])


@pytest.fixture
def on_file(tmp_path: Path) -> dpsql.Policy:
    """A file with a column that the policy doesn't list."""
    pq.write_table(ROWS.append_column("y", pa.array([1, 2, 3])), tmp_path / "t.parquet")
    whole = {**POLICY, "tables": {"t": {**POLICY["tables"]["t"], "source": "t.parquet"}}}  # type: ignore[index]
    return dpsql.Policy.from_dict(whole, folder=tmp_path)


def ended_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read in full is read by an engine that has just ended."""
    real = vars(backend_module)["prove"]

    def prove(cursor: Cursor, *given: Any) -> Any:
        ending(cursor)
        return real(cursor, *given)

    monkeypatch.setattr(backend_module, "prove", prove)


def test_a_column_is_not_called_unreadable_because_the_engine_ended(
    on_file: dpsql.Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each statement fails in an engine that has ended; that is found of no value, and recorded of none."""
    ledger = tmp_path / "l.sqlite"
    with dpsql.connect(on_file, ledger=ledger) as session:
        before = findings(session)
        with monkeypatch.context() as patched:
            ended_before(patched)
            with pytest.raises(dpsql.DataError) as failed:
                session.query("SELECT COUNT(y) FROM t")
        assert str(failed.value) == str(unread()) and failed.value.__cause__ is None
        assert findings(session) == before and all(before.values()) and session.budget.spent.epsilon == 0
        with pytest.raises(dpsql.DataError) as refused:
            session.query("SELECT COUNT(y) FROM t")
        assert refused.value.code == "engine-failed"
    with dpsql.connect(on_file, ledger=ledger) as session:
        assert session.query("SELECT COUNT(y) FROM t", epsilon=90).rows == [(3,)]


def test_an_engine_that_ends_while_a_source_is_opened_is_told_from_unreadable_values(
    on_file: dpsql.Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger = tmp_path / "l.sqlite"
    with monkeypatch.context() as patched:
        ended_before(patched)
        with pytest.raises(dpsql.DataError) as failed:
            dpsql.connect(on_file, ledger=ledger)
    assert failed.value.code == "engine-failed" and "nothing of its values" in failed.value.message
    assert "charged" not in str(failed.value) and failed.value.hint is not None
    with dpsql.connect(on_file, ledger=ledger) as session:
        assert all(findings(session).values()) and session.query("SELECT COUNT(*) FROM t", epsilon=90).rows == [(3,)]


def test_what_was_read_before_the_engine_ended_is_not_recorded_either(
    on_file: dpsql.Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody else's statement ended it meanwhile: an engine that has failed is believed nothing."""
    real = vars(backend_module)["prove"]

    def prove(cursor: Cursor, *given: Any) -> Any:
        found = real(cursor, *given)
        ending(cursor)
        return found

    with dpsql.connect(on_file, ledger=tmp_path / "l.sqlite") as session:
        before = findings(session)
        monkeypatch.setattr(backend_module, "prove", prove)
        with pytest.raises(dpsql.DataError) as failed:
            session.query("SELECT COUNT(y) FROM t")
        assert str(failed.value) == str(unread()) and findings(session) == before


def test_a_reading_that_ends_the_engine_shows_nothing_of_the_other_columns() -> None:
    """A value that kills DuckDB 2.0 when it is cast, beside a column without any such value."""
    cursor = Cursor(duckdb.connect())
    cursor.register("bad", pa.table({"n": [1], "x": pa.array([2**62], pa.timestamp("s"))}))
    columns = [scan.Column("n", "BIGINT"), scan.Column("s", "VARCHAR")]
    with pytest.raises(EngineEnded):
        scan.examine(cursor, "(SELECT n, CAST(x AS VARCHAR) AS s FROM bad)", columns, validated=True)
    cursor.close()


def test_an_engine_that_ends_over_a_csv_file_has_not_found_it_malformed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("who,x\n1,2\n")
    columns = {"who": {"type": "BIGINT"}, "x": {"type": "DOUBLE", "min": 0, "max": 9}}
    whole = {**POLICY, "tables": {"t": {"source": "t.csv", "unit": "row", "columns": columns}}}
    loaded, ledger = dpsql.Policy.from_dict(whole, folder=tmp_path), tmp_path / "l.sqlite"
    real = Cursor.execute

    def execute(self: Cursor, text: str) -> Cursor:
        if "store_rejects" in text:
            ending(self)
        return real(self, text)

    with monkeypatch.context() as patched:
        patched.setattr(Cursor, "execute", execute)
        with pytest.raises(dpsql.DataError) as failed:
            dpsql.connect(loaded, ledger=ledger)
    assert failed.value.code == "engine-failed"
    with dpsql.connect(loaded, ledger=ledger) as session:
        assert all(findings(session).values())
