"""Files that are only listed: told apart by names, sizes and times, and by no byte of theirs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.accounting import fingerprint
from dpsql.accounting.fingerprint import Entry, Listed, Source, list_files
from dpsql.accounting.ledger import Account, Ledger
from dpsql.backends.duckdb import backend
from dpsql.backends.located import list_again, locate
from dpsql.core.errors import DataError, LedgerError
from dpsql.refresh.refresh import check_promises, refresh

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')
OLD = Listed((Entry("a", 10, 1_000, "x"), Entry("b", 20, 2_000, "y")), "3")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(":memory:", ACCOUNT) as ledger:
        yield ledger


def test_the_same_listing_is_the_same_version_and_is_never_read(ledger: Ledger) -> None:
    first = ledger.recognise([Source("t", listing=lambda: OLD)])
    assert ledger.recognise([Source("t", listing=lambda: OLD)]) == first


@pytest.mark.parametrize(
    "now",
    [
        replace(OLD, state="4"),
        replace(OLD, files=OLD.files[:1]),
        replace(OLD, files=(*OLD.files, Entry("c", 1, 1))),
        replace(OLD, files=(Entry("a", 10, 1_000, "x"), Entry("c", 20, 2_000, "y"))),
        replace(OLD, files=(Entry("a", 11, 1_000, "x"), OLD.files[1])),
        replace(OLD, files=(Entry("a", 10, 1_001, "x"), OLD.files[1])),
        replace(OLD, files=(Entry("a", 10, 1_000, "z"), OLD.files[1])),
    ],
)
def test_any_difference_is_another_version(ledger: Ledger, now: Listed) -> None:
    ledger.recognise([Source("t", listing=lambda: OLD)])
    with pytest.raises(LedgerError) as refused:
        ledger.recognise([Source("t", listing=lambda: now)])
    assert refused.value.code == "data-changed"


def test_an_event_is_told_by_no_size(ledger: Ledger) -> None:
    """Neighbours agree on events, and a size depends on rows; that it is another one only refuses."""
    secret = b"k" * 32
    larger = replace(OLD, files=(replace(OLD.files[0], size=99), OLD.files[1]))
    one, _ = fingerprint.fingerprint(Source("t", listing=lambda: OLD), secret, {})
    two, _ = fingerprint.fingerprint(Source("t", listing=lambda: larger), secret, {})
    assert one.stamp == two.stamp and one.digest != two.digest


def test_a_listing_of_a_young_file_is_taken_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes within one tick of a clock look alike."""
    path = tmp_path / "t.parquet"
    path.write_bytes(b"1")
    waits: list[float] = []
    monkeypatch.setattr("dpsql.accounting.fingerprint.time.sleep", waits.append)
    look = partial(list_files, "t", [path])
    assert fingerprint.settled("t", look) == fingerprint.settled("t", look) and waits == [
        2.0
    ]  # of this one it is known now

    def written(seconds: float) -> None:
        path.write_bytes(b"22")

    path.write_bytes(b"333")
    monkeypatch.setattr("dpsql.accounting.fingerprint.time.sleep", written)
    with pytest.raises(DataError) as busy:
        fingerprint.settled("t", look)
    assert busy.value.code == "source-busy"


def test_a_copy_that_keeps_an_old_mtime_is_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `cp -p` and `rsync -a` make them: the second one within a tick of the clock has all times of the first."""
    path = tmp_path / "t.parquet"
    path.write_bytes(b"1")
    os.utime(path, ns=(10**18, 10**18))
    waits: list[float] = []
    monkeypatch.setattr("dpsql.accounting.fingerprint.time.sleep", waits.append)
    fingerprint.settled("t", partial(list_files, "t", [path]))
    assert waits == [2.0]


@pytest.mark.parametrize(("seconds", "waited"), [(10, [2.0]), (3600, [])])
def test_a_file_is_young_by_a_clock_that_may_be_behind(
    seconds: int, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's clock says when its files were written: ten seconds ago may be now, and the next write within it."""
    found = Listed((Entry("a", 1, time.time_ns() - seconds * 10**9),))
    waits: list[float] = []
    monkeypatch.setattr("dpsql.accounting.fingerprint.time.sleep", waits.append)
    assert fingerprint.settled("t", lambda: found) == found and waits == waited


# ---------------------------------------------------------------- whole queries


Open = Callable[[], dpsql.Session]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Sessions whose files are listed, whatever engine reads them; nothing may be hashed."""

    def listed(policy: Any, objects: Any) -> Any:
        found = locate(policy, objects)
        return tuple(replace(one, listing=partial(list_again, policy, one.table, one.files)) for one in found)

    monkeypatch.setattr(backend, "locate", listed)
    monkeypatch.setattr(fingerprint, "_read", lambda *_: pytest.fail("a file was read to tell versions apart"))
    monkeypatch.setattr("dpsql.accounting.fingerprint.time.sleep", lambda seconds: None)
    table = {"source": "*.parquet", "unit": "person", "rows_per_unit": 1}
    described = {"budget": {"epsilon": 10**6, "delta": 1e-6}, "tables": {"t": table}}
    policy = dpsql.Policy.from_dict(described, folder=tmp_path)
    write(tmp_path / "a.parquet", range(10))
    sessions: list[dpsql.Session] = []

    def open_one() -> dpsql.Session:
        sessions.append(dpsql.connect(policy, ledger=tmp_path / "ledger.sqlite"))
        return sessions[-1]

    yield open_one
    for session in sessions:
        session.close()


def write(path: Path, people: Any) -> None:
    pq.write_table(pa.table({"person": pa.array(people, pa.int64())}), path)


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(dpsql.Error) as error:
        ask()
    return error.value.code


COUNT = "SELECT COUNT(*) AS n FROM t"


@pytest.mark.parametrize("how", ["added", "replaced", "removed", "same bytes"])
def test_a_version_that_changed_is_not_asked(opened: Open, tmp_path: Path, how: str) -> None:
    session = opened()
    assert session.query(COUNT, epsilon=1000).rows == [(10,)]
    if how == "added":
        write(tmp_path / "b.parquet", range(10, 20))
    elif how == "removed":
        write(tmp_path / "b.parquet", [])
        (tmp_path / "a.parquet").unlink()
    else:
        write(tmp_path / "a.parquet", range(10) if how == "same bytes" else range(11))
    assert refused(lambda: session.query(COUNT, epsilon=1)) == "data-changed"
    assert refused(lambda: opened().query(COUNT, epsilon=1)) == "data-changed"
    assert session.budget.spent.epsilon == 1000


def test_a_file_that_appears_while_sources_are_opened_is_in_no_version(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was told the files before; a version of all of them would be one that nobody reads."""
    whole = backend.open_backend

    def slow(*given: Any) -> Any:
        made = whole(*given)
        write(tmp_path / "b.parquet", [21, 22, 23])
        return made

    monkeypatch.setattr(backend, "open_backend", slow)
    assert refused(opened) == "data-changed"
    monkeypatch.setattr(backend, "open_backend", whole)
    assert opened().query(COUNT, epsilon=1000).rows == [(13,)]  # the first version: no other was recorded


@pytest.mark.parametrize("how", ["added", "replaced"])
def test_nothing_is_recorded_of_files_that_changed_while_they_were_checked(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    opened().query(COUNT, epsilon=1000)
    look, looked = backend.DuckDB.look, list[int]()

    def slow(self: Any, query: Any) -> Any:
        found = look(self, query)
        looked.append(1)
        write(tmp_path / ("b.parquet" if how == "added" else "a.parquet"), [1, 1, 1])
        return found

    monkeypatch.setattr(backend.DuckDB, "look", slow)
    engine = opened()._engine
    version = engine.versions()["t"]
    assert refused(lambda: check_promises(engine, by="steward")) in ("data-changed", "source-busy") and looked
    assert not [p for p in engine.ledger.findings("t", version) if not p.startswith("scan ")]


def test_a_refresh_says_what_was_written_and_compares_no_rows(opened: Open, tmp_path: Path) -> None:
    session = opened()
    engine = session._engine
    assert refresh(engine, by="steward").tables[0].version == "unchanged"
    os.utime(tmp_path / "a.parquet", ns=(1, 1))
    write(tmp_path / "b.parquet", [77])
    (change,) = refresh(engine, by="steward").tables
    assert change.version == "new" and change.lines == (
        "file added: b.parquet",
        "a.parquet was written anew; whether it holds other rows wasn't looked at",
    )
    assert opened().query(COUNT, epsilon=1000).rows == [(11,)]
