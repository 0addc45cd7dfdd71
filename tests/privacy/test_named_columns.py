"""Columns that nobody has named are read when a query names them first (Theorem SCAN-1, Parts of a source).

What an analyst learns of them is what was public anyway when all of them were read at the opening: whether a column can
be read. It comes before anything is charged, once for each version, and is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_kinds import KINDS
from support import duckdb_of

import dpsql
from dpsql.analyze.ownership import scan_facts
from dpsql.backends import failed_readings, in_groups
from dpsql.backends.base import engine_failed, unread
from dpsql.backends.duckdb import backend as backend_module
from dpsql.backends.duckdb import scan
from dpsql.backends.duckdb.backend import Steps
from dpsql.backends.duckdb.cursor import Cursor, NoRoom, one_message
from dpsql.core.doing import done_now
from dpsql.core.types import Type
from dpsql.refresh.promises import AT_ONCE
from dpsql.server.replies import for_the_log, outward
from dpsql.steward.data_profile import nulls_and_values

EXACT = 10**9
NAMED = "SELECT COUNT(*) FROM t WHERE other > 5"


def policy(folder: Path, **columns: dict[str, Any]) -> dpsql.Policy:
    tables = {"t": {"source": "t.parquet", "unit": "id", "columns": columns or {"listed": {"min": 0, "max": 9}}}}
    whole = {"budget": {"epsilon": 10**12, "delta": 0}, "privacy": {"max_rows": 1}, "tables": tables}
    return dpsql.Policy.from_dict(whole, folder=folder)


def write(folder: Path, **columns: Any) -> None:
    data = {"id": range(100), "listed": [i % 10 for i in range(100)], "other": [i % 10 for i in range(100)], **columns}
    pq.write_table(pa.table(data), folder / "t.parquet", row_group_size=25)


def known(session: dpsql.Session) -> set[str]:
    """The columns of which it is on record what a full reading showed."""
    return set(scan_facts(session._engine.promises()["t"]))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The columns that are read in full, reading by reading."""
    real, seen = vars(backend_module)["prove"], list[list[str]]()

    def spied(cursor: Any, one: Any, columns: Any) -> Any:
        seen.append([column.name for column in columns])
        return real(cursor, one, columns)

    monkeypatch.setattr(backend_module, "prove", spied)
    yield seen


def not_utf8(rows: int) -> pa.Array:
    buffer = pa.py_buffer(b"\xff" * rows)
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(np.arange(rows + 1, dtype="i4").tobytes()), buffer]
    )


def test_a_column_is_read_when_it_is_named_first_and_by_nobody_again(tmp_path: Path, read: list[list[str]]) -> None:
    write(tmp_path, third=[1] * 100)
    ledger = tmp_path / "l.sqlite"
    with dpsql.connect(policy(tmp_path), ledger=ledger) as session:
        assert read == [["id", "listed"]] and known(session) == {"id", "listed"}
        session.query("SELECT AVG(listed) FROM t", epsilon=1)
        session.explain(NAMED, epsilon=1)
        session.prices(NAMED)
        assert len(read) == 1
        for _ in range(2):
            assert session.query(NAMED, epsilon=EXACT, fresh=True).rows == [(40,)]
        assert read[1:] == [["other"]] and known(session) == {"id", "listed", "other"}
    with dpsql.connect(policy(tmp_path), ledger=ledger) as session:
        assert session.query(NAMED, epsilon=EXACT, fresh=True).rows == [(40,)]
        assert session.query("SELECT COUNT(third) FROM t WHERE other = 1", epsilon=EXACT).rows == [(10,)]
    assert read[2:] == [["third"]]
    write(tmp_path, other=[7] * 100)  # another version
    with dpsql.Engine.open(policy(tmp_path), ledger=ledger) as engine:
        engine.refresh(steward=True)
        assert engine.session().query(NAMED, epsilon=EXACT).rows == [(100,)]
    assert read[3:] == [["id", "listed"], ["other"]]


def test_another_process_that_has_named_it_is_enough(tmp_path: Path, read: list[list[str]]) -> None:
    """A session that is open meanwhile finds the fact in the ledger."""
    write(tmp_path)
    ledger = tmp_path / "l.sqlite"
    with dpsql.connect(policy(tmp_path), ledger=ledger) as one, dpsql.connect(policy(tmp_path), ledger=ledger) as other:
        assert one.query(NAMED, epsilon=EXACT).rows == other.query(NAMED, epsilon=EXACT, fresh=True).rows == [(40,)]
    assert read.count(["other"]) == 1


@pytest.mark.parametrize(
    "sql",
    [
        NAMED,
        "SELECT COUNT(other) FROM t",
        "SELECT COUNT(*) FROM (SELECT * FROM t) AS q WHERE OTHER > 5",
        "WITH q AS (SELECT id, MAX(other) AS top FROM t GROUP BY id) SELECT COUNT(*) FROM q WHERE top > 5",
        "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE b.other > 5",
        "SELECT COUNT(*) FROM t WHERE listed > (SELECT AVG(CLIP(other, 0, 9)) FROM t)",
        "SELECT QUANTILE(CLIP(other, 0, 9), 0.5) FROM t",
        "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY other) AS n FROM t) AS q WHERE n = 1",
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.id = t.id AND u.other > 5)",
        "SELECT listed, COUNT(DISTINCT other) FROM t GROUP BY listed",
    ],
)
def test_wherever_a_query_names_it_it_is_read_before_anything_is_charged(
    tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none else is: the third column can't be read, and nobody asks for it."""
    write(tmp_path, third=not_utf8(100))
    with dpsql.connect(policy(tmp_path, listed={"values": list(range(10))}), ledger=":memory:") as session:
        spent: list[Any] = []
        real = type(session._engine.backend).examine

        def spied(self: Any, one: Any, columns: Any, until: Any = None) -> Any:
            spent.append(session.budget.spent.epsilon)
            return real(self, one, columns, until)

        monkeypatch.setattr(type(session._engine.backend), "examine", spied)
        assert session.query(sql, epsilon=100).rows
        assert spent == [0] and known(session) == {"id", "listed", "other"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t JOIN u ON t.id = u.id WHERE u.other > 5",
        "SELECT COUNT(*) FROM t LEFT JOIN u ON t.id = u.id AND u.other > 5 WHERE listed > 2",
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND other >= t.listed)",
        "SELECT COUNT(*) FROM t WHERE id IN (SELECT id FROM u WHERE other > 5)",
        "SELECT COUNT(*) FROM (SELECT id, listed FROM t UNION ALL SELECT id, other FROM u)",
        "SELECT COUNT(*) FROM t JOIN (SELECT id, MAX(other) AS top FROM u GROUP BY id) AS q ON t.id = q.id AND top > 3",
        "WITH t0 AS (SELECT id, other FROM u) SELECT COUNT(*) FROM t JOIN t0 ON t.id = t0.id WHERE t0.other > 5",
    ],
)
def test_a_column_of_the_same_name_of_another_table_is_not_read(tmp_path: Path, sql: str) -> None:
    """It can't be read, and would be told to be unreadable by a query that doesn't name it."""
    write(tmp_path, other=not_utf8(100))
    pq.write_table(pa.table({"id": range(100), "other": [i % 10 for i in range(100)]}), tmp_path / "u.parquet")
    tables = {
        "t": {"source": "t.parquet", "unit": "id", "columns": {"listed": {"min": 0, "max": 9}}},
        "u": {"source": "u.parquet", "unit": "id"},
    }
    whole = {"budget": {"epsilon": 10**12}, "privacy": {"max_rows": 2}, "tables": tables}
    with dpsql.connect(dpsql.Policy.from_dict(whole, folder=tmp_path), ledger=":memory:") as session:
        assert session.query(sql, epsilon=EXACT).rows[0][0] > 0
        assert known(session) == {"id", "listed"} and set(scan_facts(session._engine.promises()["u"])) == {
            "id",
            "other",
        }


def test_a_column_that_cannot_be_read_is_refused_for_nothing_and_the_others_are_answered(tmp_path: Path) -> None:
    write(tmp_path, third=not_utf8(100))
    ledger = tmp_path / "l.sqlite"
    said = set()
    for _ in range(2):
        with dpsql.connect(policy(tmp_path), ledger=ledger) as session:
            before = session.budget.spent
            for sql in ("SELECT COUNT(third) FROM t", "SELECT COUNT(*) FROM t WHERE third = 'a' AND listed > 3"):
                with pytest.raises(dpsql.DataError) as refused:
                    session.query(sql, epsilon=1)
                said.add(refused.value.message)
                assert refused.value.code == "unreadable" and "third" in refused.value.message
            assert session.budget.spent == before and session.budget.remaining.epsilon == 10**12 - before.epsilon
            assert session.query(NAMED, epsilon=EXACT, fresh=True).rows == [(40,)]
    assert len(said) == 1
    with pytest.raises(dpsql.DataError) as refused:  # the steward names it, and so it is looked at when it is opened
        dpsql.connect(policy(tmp_path, third={}), ledger=ledger)
    assert refused.value.code == "unreadable" and "third" in refused.value.message


def test_a_column_that_cannot_be_read_is_read_once_by_a_session(tmp_path: Path, read: list[list[str]]) -> None:
    """It costs nothing to name it, and takes a reading of the whole column. Another session looks at it anew."""
    write(tmp_path, third=not_utf8(100))
    ledger, said = tmp_path / "l.sqlite", set()
    for _ in range(2):
        with dpsql.connect(policy(tmp_path), ledger=ledger) as session:
            for _ in range(3):
                with pytest.raises(dpsql.DataError) as refused:
                    session.query("SELECT COUNT(third) FROM t", epsilon=1)
                said.add(str(refused.value))
    assert read.count(["third"]) == 2 and len(said) == 1


def failing(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error()

    return fail


REASONS: dict[str, Callable[[], BaseException]] = {
    "memory": lambda: NoRoom("n77"),
    "memory, while its view is made": lambda: duckdb.OutOfMemoryException("Out of Memory Error: n77"),
    "spill": lambda: duckdb.OutOfMemoryException("max_temp_directory_size n77"),
    "disk": lambda: duckdb.IOException("No space left on device n77"),
    "time": lambda: engine_failed("time: longer than 1s"),
    "an end of the engine": lambda: duckdb.FatalException("n77"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_why_a_column_could_not_be_read_is_told_to_nobody_who_asks(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst chooses what is read here, and one person's value may be what takes the memory."""
    write(tmp_path)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        with monkeypatch.context() as patched:
            patched.setattr(failed_readings, "REST", 0.0)
            patched.setattr(backend_module, "create_view" if "view" in reason else "prove", failing(REASONS[reason]))
            with pytest.raises(dpsql.DataError) as failed:
                session.query(NAMED, epsilon=1)
        assert failed.value.message == unread().message and failed.value.hint == unread().hint
        assert failed.value.code == "engine" and failed.value.__cause__ is None and "n77" not in str(failed.value)
        assert session.budget.spent.epsilon == 0 and known(session) - {"other"} == {"id", "listed"}
        assert ("other" in known(session)) == ("view" in reason)
        assert session.query(NAMED, epsilon=EXACT).rows == [(40,)]


SPENT = "SELECT AVG(listed) FROM t"


def limited(folder: Path, **budget: Any) -> dpsql.Policy:
    tables = {"t": {"source": "t.parquet", "unit": "id", "columns": {"listed": {"min": 0, "max": 9}}}}
    whole = {"budget": {"epsilon": 10, **budget}, "privacy": {"max_rows": 1}, "tables": tables}
    return dpsql.Policy.from_dict(whole, folder=folder)


@pytest.mark.parametrize("budget", [{"epsilon": 2}, {"analysts": {"ada": 2, "bob": 5}}], ids=["account", "quota"])
def test_nothing_is_read_for_a_query_that_cannot_be_paid(
    tmp_path: Path, budget: dict[str, Any], read: list[list[str]]
) -> None:
    """Else whoever has nothing left could have columns read for ever, and what is paid for would wait (attack 65)."""
    write(tmp_path, third=not_utf8(100))
    with dpsql.Engine.open(limited(tmp_path, **budget), ledger=":memory:") as engine:
        session = engine.session("ada")
        stored = session.query(SPENT, epsilon=1).rows
        said = set()
        for sql in (NAMED, "SELECT COUNT(third) FROM t"):
            with pytest.raises(dpsql.BudgetError) as refused:
                session.query(sql, epsilon=1.5)
            said.add(str(refused.value))
        assert len(said) == 1 and len(read) == 1 and session.budget.spent.epsilon == 1
        assert session.query(SPENT, epsilon=1).rows == stored
        session.query(NAMED, epsilon=1)  # what fits is read
        assert read[1:] == [["other"]]


@pytest.fixture
def never_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """No late reading comes to its end, but for those of the third column; which were tried."""
    real, tried = vars(backend_module)["prove"], list[list[str]]()

    def prove(cursor: Any, one: Any, columns: Any) -> Any:
        names = [column.name for column in columns]
        if "id" in names or names == ["third"]:
            return real(cursor, one, columns)
        tried.append(names)
        raise NoRoom("n77")

    monkeypatch.setattr(backend_module, "prove", prove)
    yield tried


class Time:
    """A clock that is put forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(failed_readings, "monotonic", made)
    return made


def test_a_reading_that_failed_is_not_tried_again_by_anybody_for_some_minutes(
    tmp_path: Path, never_read: list[list[str]], time: Time
) -> None:
    """The same words, at once; columns that didn't fail by themselves are read all the same."""
    write(tmp_path, third=[1] * 100)
    both = "SELECT COUNT(*) FROM t WHERE other > 5 AND third = 1"
    with dpsql.Engine.open(limited(tmp_path), ledger=":memory:") as engine:
        said = set()
        for name, sql in (("ada", NAMED), ("ada", NAMED), ("bob", NAMED), ("bob", both)):
            with pytest.raises(dpsql.DataError) as failed:
                engine.session(name).query(sql, epsilon=1)
            said.add(str(failed.value))
        assert said == {str(unread())} and never_read == [["other"]]
        assert engine.ledger.balance.spent.epsilon == 0
        engine.session("ada").query("SELECT COUNT(third) FROM t", epsilon=1)
        time.now = failed_readings.REST + 1
        with pytest.raises(dpsql.DataError):
            engine.session("bob").query(NAMED, epsilon=1)
        assert never_read == [["other"], ["other"]]


def test_columns_that_failed_together_are_not_refused_by_themselves(
    tmp_path: Path, never_read: list[list[str]], time: Time
) -> None:
    """Else whoever names a good column beside a bad one could keep the good one from everybody."""
    write(tmp_path, third=[1] * 100)
    with dpsql.Engine.open(limited(tmp_path), ledger=":memory:") as engine:
        with pytest.raises(dpsql.DataError):
            engine.session("ada").query("SELECT COUNT(*) FROM t WHERE other > 5 AND third = 1", epsilon=1)
        engine.session("bob").query("SELECT COUNT(third) FROM t", epsilon=1)
        assert never_read == [["other", "third"]]


def test_who_has_had_some_readings_fail_has_nothing_more_read_for_a_while(
    tmp_path: Path, never_read: list[list[str]], time: Time
) -> None:
    """Other columns each time are no way around it. Nobody else is refused, and what was read is answered."""
    many = {f"c{i}": [i] * 100 for i in range(failed_readings.MOST + 1)}
    write(tmp_path, third=[1] * 100, **many)
    with dpsql.Engine.open(limited(tmp_path), ledger=":memory:") as engine:
        for name in [*many, "third"]:
            with pytest.raises(dpsql.DataError) as failed:
                engine.session("ada").query(f"SELECT COUNT({name}) FROM t", epsilon=1)
            assert str(failed.value) == str(unread())
        assert never_read == [[name] for name in many][: failed_readings.MOST]
        engine.session("bob").query("SELECT COUNT(third) FROM t", epsilon=1)
        engine.session("ada").query("SELECT COUNT(third) FROM t", epsilon=1)
        time.now = failed_readings.SHARE * float(engine.settings.timeout.seconds) + failed_readings.REST
        with pytest.raises(dpsql.DataError):
            engine.session("ada").query("SELECT COUNT(other) FROM t", epsilon=1)
        assert never_read[failed_readings.MOST :] == [["other"]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, lambda: dpsql.DataError("it changed", code="data-changed")])
def test_a_reading_that_was_stopped_or_is_of_other_data_has_not_failed(
    tmp_path: Path, error: Callable[[], BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    with dpsql.connect(limited(tmp_path), ledger=":memory:") as session:
        with monkeypatch.context() as patched:
            patched.setattr(backend_module, "prove", failing(error))
            with pytest.raises((KeyboardInterrupt, dpsql.DataError)):
                session.query(NAMED, epsilon=1)
        session.query(NAMED, epsilon=1)


def test_neighbours_agree_on_whether_a_reading_is_tried_again(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it failed is all that counts: not how long it took, nor how much of it was read."""
    tried = set()
    for rows, seconds in ((100, 1.0), (99, 1000.0)):
        folder, readings, asked = tmp_path / str(rows), list[float](), list[str]()
        folder.mkdir()
        pq.write_table(pa.table({name: range(rows) for name in ("id", "listed", "other")}), folder / "t.parquet")

        def prove(cursor: Any, one: Any, columns: Any, took: float = seconds, ended: list[float] = readings) -> Any:
            time.now += took
            ended.append(time.now)
            raise NoRoom("n77")

        with dpsql.Engine.open(limited(folder), ledger=":memory:") as engine, monkeypatch.context() as patched:
            patched.setattr(backend_module, "prove", prove)
            for _ in range(2 * failed_readings.MOST):
                with pytest.raises(dpsql.DataError) as failed:
                    engine.session("ada").query(NAMED, epsilon=1)
                asked.append(f"{len(readings)} {failed.value}")
                time.now += failed_readings.REST + 1
        tried.add(tuple(asked))
    assert len(tried) == 1


def test_whoever_waits_for_a_reading_of_others_waits_no_longer_than_a_query_may(tmp_path: Path) -> None:
    """Each reading may last as long as a query; many of them, one after the other, would keep everybody waiting."""
    write(tmp_path)
    tables = {"t": {"source": "t.parquet", "unit": "id"}}
    whole = {"budget": {"epsilon": 10**12}, "engine": {"timeout": "1s"}, "tables": tables}
    with dpsql.connect(dpsql.Policy.from_dict(whole, folder=tmp_path), ledger=":memory:") as session:
        with session._engine._reading, pytest.raises(dpsql.DataError) as failed:
            session.query("SELECT COUNT(*) FROM t WHERE other > 5", epsilon=1, max_rows=1)
        assert str(failed.value) == str(unread()) and session.budget.spent.epsilon == 0
        assert session.query("SELECT COUNT(*) FROM t WHERE other > 5", epsilon=EXACT, max_rows=1).rows == [(40,)]


@pytest.mark.parametrize("reason", [name for name in REASONS if name != "memory"])
def test_whatever_fails_over_private_rows_says_the_same(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price stays charged, and why it failed is for the steward's log alone."""
    write(tmp_path)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        error = REASONS[reason]()

        def failing_rows(*_: object) -> Any:
            if isinstance(error, duckdb.Error):
                with one_message():
                    raise error
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(Steps, "execute", failing_rows)
            with pytest.raises(dpsql.DataError) as failed:
                session.query("SELECT AVG(listed) FROM t", epsilon=1)
        told = failed.value
        assert (told.message, told.hint, told.code) == (engine_failed().message, engine_failed().hint, "engine")
        assert told.__cause__ is None and "n77" not in f"{told}{told.args}{told.aside}" and told.aside not in str(told)
        assert all(word in str(told) for word in ("memory", "spill", "timeout", "reply_after"))
        assert session.budget.spent.epsilon == 1
        reason_logged = {"reason": told.aside}
        assert reason_logged.items() <= for_the_log(told).items() and told.aside
        assert str(outward(told, "id")) == str(engine_failed())


@pytest.mark.parametrize("reason", ["memory", "spill", "disk"])
def test_while_a_source_is_opened_the_true_cause_is_named_and_nothing_is_recorded(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    ledger = tmp_path / "l.sqlite"
    real = Cursor.execute

    def crowded(self: Cursor, text: str) -> Cursor:
        if '"listed"' in text and "MIN(" in text:
            raise REASONS[reason]() if reason != "memory" else duckdb.OutOfMemoryException("n77")
        return real(self, text)

    with monkeypatch.context() as patched:
        patched.setattr(Cursor, "execute", crowded)
        with pytest.raises(dpsql.DataError) as failed:
            dpsql.connect(policy(tmp_path), ledger=ledger)
    assert failed.value.code == "no-room" and "listed" in str(failed.value) and "n77" not in str(failed.value)
    assert "[engine] memory" in str(failed.value) and "spill" in str(failed.value)
    with dpsql.connect(policy(tmp_path), ledger=ledger) as session:
        assert session.query(NAMED, epsilon=EXACT).rows == [(40,)]


def test_queries_have_no_column_that_nobody_has_read(tmp_path: Path) -> None:
    """Else a filter on it could reach the reader by statistics that nobody has compared."""
    write(tmp_path)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        backend: Any = session._engine.backend

        def shown() -> list[str]:
            cursor = backend.cursor()
            return [name for name, *_ in cursor.execute("DESCRIBE SELECT * FROM t").fetchall()]

        assert shown() == ["id", "listed"]
        session.query(NAMED, epsilon=1)
        assert shown() == ["id", "listed", "other"]


def test_what_was_read_changes_no_plan_no_price_and_no_answer(tmp_path: Path) -> None:
    """It is no promise: what was released before it is found by the same query after it, for nothing."""
    write(tmp_path)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        engine = session._engine
        before, answer = engine.known(engine.versions()), session.query("SELECT AVG(listed) FROM t", epsilon=1)
        session.query(NAMED, epsilon=1)
        assert engine.known(engine.versions()) == before and session.unverified == ()
        assert not engine.ledger.is_late("t", engine.versions()["t"])
        assert session.query("SELECT AVG(listed) FROM t", epsilon=1).rows == answer.rows
        assert session.budget.spent.epsilon == 2


def test_rows_are_counted_where_no_column_is_named(tmp_path: Path) -> None:
    write(tmp_path, id=not_utf8(100))
    whole = {"budget": {"epsilon": 10**12}, "tables": {"t": {"source": "t.parquet", "unit": "row"}}}
    with dpsql.connect(dpsql.Policy.from_dict(whole, folder=tmp_path), ledger=":memory:") as session:
        assert session.query("SELECT COUNT(*) FROM t", epsilon=EXACT).rows == [(100,)] and known(session) == set()
        # Nobody has compared a footer with the rows, so that not even their number is taken from one.
        views = duckdb_of(session)._private.execute("SELECT sql FROM duckdb_views() WHERE view_name = 't'").fetchall()
        assert len(views) == 1 and scan.WHOLE.strip() in views[0][0]
        assert session.query("SELECT COUNT(*) FROM t WHERE other = 2", epsilon=EXACT).rows == [(10,)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "CSV" not in kind])
def test_every_kind_of_source_answers_of_columns_that_are_named_late(kind: str, tmp_path: Path) -> None:
    table = pa.table({"id": range(60), "x": [1.5, None, float("nan")] * 20, "s": ["a", "b", None] * 20})
    placed = KINDS[kind](table, tmp_path)
    whole = {"budget": {"epsilon": 10**12, "delta": 0}, "tables": {"t": {**placed.entry, "unit": "row"}}}
    given = None if placed.object is None else {"t": placed.object}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources=given, ledger=":memory:") as session:
        for condition, expected in (("x > 1", 20), ("s = 'a'", 20), ("s IS NULL AND id > 30", 10), ("x IS NULL", 40)):
            found = session.query(f"SELECT COUNT(*) FROM t WHERE {condition}", epsilon=EXACT).rows[0][0]
            if condition == "x IS NULL" or condition == "x > 1":
                assert found in (20, 40)  # NaN is greater than numbers, and some writers know none
            else:
                assert found == expected, condition


def test_columns_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement names a bounded number of them, so that their number makes more statements and no longer ones."""
    columns = {f"c{i}": [float(i)] if i % 2 else [str(i)] for i in range(5 * in_groups.AT_ONCE)}
    pq.write_table(pa.table({"id": [1], **columns}), tmp_path / "t.parquet")
    texts: list[str] = []
    real = Cursor.execute

    def spied(self: Cursor, text: str) -> Cursor:
        texts.append(text)
        return real(self, text)

    monkeypatch.setattr(Cursor, "execute", spied)
    with dpsql.connect(policy(tmp_path, **{name: {} for name in columns}), ledger=":memory:") as session:
        assert known(session) == {"id", *columns}
        read = [text for text in texts if "MIN(" in text]
        assert len(read) == 1 + 2 * 3 and max(text.count("MIN(") for text in read) == in_groups.AT_ONCE
        assert len(session._engine.promises()["t"]) == 1  # one record


def test_whoever_waits_can_see_which_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tables and numbers of columns, and nothing of the rows."""
    write(tmp_path)
    seen: list[str] = []
    real = Cursor.execute

    def spied(self: Cursor, text: str) -> Cursor:
        if "MIN(" in text:
            seen.append(done_now())
        return real(self, text)

    monkeypatch.setattr(Cursor, "execute", spied)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        session.query(NAMED, epsilon=1)
    assert seen == ["reading t, columns 1 to 2 of 2", "reading t, columns 1 to 1 of 1"] and done_now() == ""


def test_a_steward_s_look_at_all_columns_is_a_few_at_a_time_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{f"c{i}": [i] * 99 + [None] for i in range(3 * AT_ONCE)})
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        engine, asked = session._engine, list[int]()
        real = type(engine.backend).look

        def spied(self: Any, query: Any) -> Any:
            asked.append(len(query.expressions))
            return real(self, query)

        monkeypatch.setattr(type(engine.backend), "look", spied)
        types = [(name, Type.parse(kind)) for name, kind in engine.schema["t"]]
        _, nulls, distinct = nulls_and_values(engine.backend, engine.policy.tables["t"], types)
        assert (
            nulls.pop("c7") == 1 == distinct.pop("c7") and set(nulls) == set(distinct) and len(nulls) == len(types) - 1
        )
        assert max(asked) == 2 * AT_ONCE


def test_a_group_of_columns_of_which_one_cannot_be_read_is_halved(tmp_path: Path) -> None:
    columns: dict[str, Any] = {f"c{i}": [str(i)] * 5 for i in range(20)}
    columns["c7"] = columns["c12"] = not_utf8(5)
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    cursor = Cursor(duckdb.connect())
    found = scan.examine_parquet(cursor, [tmp_path / "t.parquet"], [scan.Column(name, "VARCHAR") for name in columns])
    assert {name for name, shown in found.items() if shown is None} == {"c7", "c12"}
    assert {shown for shown in found.values() if shown is not None} == {scan.Proven(True, True, True)}


def test_the_steward_looks_at_columns_that_nobody_has_named(tmp_path: Path) -> None:
    """What he is told is of all columns; queries have no more of them than before."""
    write(tmp_path, third=[None] * 50 + [3] * 50)
    with dpsql.connect(policy(tmp_path), ledger=":memory:") as session:
        engine = session._engine
        types = [(name, Type.parse(kind)) for name, kind in engine.schema["t"]]
        rows, nulls, _ = nulls_and_values(engine.backend, engine.policy.tables["t"], types)
        assert rows == 100 and nulls == {"id": 0, "listed": 0, "other": 0, "third": 50}
        assert known(session) == {"id", "listed"}


def neighbours(values: Sequence[Any]) -> Iterator[list[Any]]:
    """The values, and those without one person's."""
    yield list(values)
    for gone in range(len(values)):
        yield [*values[:gone], *values[gone + 1 :]]


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3, None, 2**62, -7], [1.5, None, -2.0, 8.0], ["a", "", "é", None], [True, None, False]],
    ids=["integers", "floats", "text", "booleans"],
)
def test_neighbours_agree_on_what_a_late_reading_shows(tmp_path: Path, values: list[Any]) -> None:
    shown = set()
    for i, some in enumerate(neighbours(values)):
        folder = tmp_path / str(i)
        folder.mkdir()
        pq.write_table(pa.table({"id": range(len(some)), "listed": some, "other": some}), folder / "t.parquet")
        with dpsql.connect(policy(folder, listed={}), ledger=":memory:") as session:
            session.query("SELECT COUNT(other) FROM t", epsilon=1)
            shown.add(tuple(sorted(session._engine.promises()["t"])))
    assert len(shown) == 1
