"""Data versions: recognised without reading twice, refused when changed, shown to nobody."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting import fingerprint
from dpsql.accounting.fingerprint import Source, stamp_of
from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.errors import DataError, LedgerError

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "l.sqlite", ACCOUNT) as ledger:
        yield ledger


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose contents were read; stamps count as settled at once."""
    seen: list[str] = []
    original = fingerprint._read

    def spy(table: str, file: Path, secret: bytes) -> fingerprint.FileMark:
        seen.append(file.name)
        return original(table, file, secret)

    monkeypatch.setattr(fingerprint, "_read", spy)
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**12))
    return seen


def file(path: Path, text: str = "a,b\n1,2\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def accept(ledger: Ledger, *sources: Source, keep: tuple[str, ...] = ()) -> list[str]:
    """What the steward does: accept what is there; the tables that have another version then."""
    before = {name: sight.version for name, sight in ledger.sights(sources).items()}
    after = ledger.accept(ledger.sights(sources), keep)
    return [name for name in after if after[name] != before[name]]


def changed(ledger: Ledger, *sources: Source) -> LedgerError:
    with pytest.raises(LedgerError) as refused:
        ledger.recognise(sources)
    assert refused.value.code == "data-changed"
    ways = {"dpsql refresh --steward": True, ".refresh(steward=True)": False}  # objects are out of a command's reach
    assert [way in (refused.value.hint or "") for way in ways] == [
        all(source.files is not None for source in sources) is files for files in ways.values()
    ]
    return refused.value


def test_the_second_look_reads_nothing(ledger: Ledger, tmp_path: Path, reads: list[str]) -> None:
    source = Source("t", (file(tmp_path / "t.csv"),))
    first = ledger.recognise([source])
    assert ledger.recognise([source]) == first
    assert reads == ["t.csv"]
    with Ledger(tmp_path / "l.sqlite", ACCOUNT) as again:
        assert again.recognise([source]) == first
    assert reads == ["t.csv"]


def test_a_stamp_younger_than_two_seconds_is_not_relied_on(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "1")
    source = Source("t", (path,))
    version = ledger.recognise([source])
    with ledger._store.snapshot() as db:
        assert db.execute("SELECT COUNT(*) FROM file").fetchone() == (0,)
    assert ledger.recognise([source]) == version


def test_a_file_that_was_written_is_a_change_whatever_it_holds(
    ledger: Ledger, tmp_path: Path, reads: list[str]
) -> None:
    """Else the refusal of a query would be an exact test of equality (Theorem VERSION-1)."""
    path = file(tmp_path / "t.csv")
    source = Source("t", (path,))
    version = ledger.recognise([source])
    said = set()
    for text in ("a,b\n1,2\n", "a,b\n1,3\n"):  # the same rows; others
        later(path, text)
        said.add(str(changed(ledger, source)))
    assert len(said) == 1
    later(path, "a,b\n1,2\n")
    assert accept(ledger, source, keep=("t",)) == []  # by the steward's word alone
    assert ledger.recognise([source]) == version


def later(path: Path, text: str) -> None:
    """Write a file at a time that no earlier writing had, by the file system's clock."""
    before = path.stat().st_ctime_ns
    path.write_text(text)
    while path.stat().st_ctime_ns == before:
        path.write_text(text)


def test_what_was_verified_is_forgotten_where_other_files_keep_the_version(ledger: Ledger, tmp_path: Path) -> None:
    """A full reading was one of other files, whose statistics, quotes and values no longer count."""
    path = file(tmp_path / "t.csv")
    source = Source("t", (path,))
    version = ledger.recognise([source])["t"]
    ledger.record_promise("t", "scan 3 fits", version, True)
    later(path, "a,b\n1,2\n")
    accept(ledger, source, keep=("t",))
    assert ledger.recognise([source])["t"] == version and ledger.findings("t", version) == {}
    with Ledger(tmp_path / "l.sqlite", ACCOUNT) as again:
        assert again.findings("t", version) == {}


def test_a_version_is_kept_only_for_whom_it_was_compared_with(ledger: Ledger, tmp_path: Path) -> None:
    """Another process has accepted a newer one meanwhile: then the steward's word is about no present version."""
    path = file(tmp_path / "t.csv")
    source = Source("t", (path,))
    first = ledger.recognise([source])["t"]
    later(path, "a,b\n1,2\n")
    found = ledger.sights([source])
    later(path, "a,b\n5,6\n")
    accept(ledger, source)
    assert ledger.accept(found, ["t"])["t"] != first


def test_times_alone_are_no_contents_and_contents_alone_no_event(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a clock is so coarse that two writings have the same times, other contents are still refused."""
    path = file(tmp_path / "t.csv", "1111")
    source = Source("t", (path,))
    stamp = stamp_of("t", path)
    monkeypatch.setattr(fingerprint, "stamp_of", lambda *_: stamp)
    version = ledger.recognise([source])
    path.write_text("2222")
    changed(ledger, source)
    path.write_text("1111")
    assert ledger.recognise([source]) == version


def test_changed_contents_are_refused_until_the_steward_accepts_them(
    ledger: Ledger, tmp_path: Path, reads: list[str]
) -> None:
    path = file(tmp_path / "t.csv", "secret")
    other = Source("other", (file(tmp_path / "o.csv"),))
    source = Source("t", (path,))
    old = ledger.recognise([source, other])
    path.write_text("altered contents")
    error = changed(ledger, source, other)
    assert "table t " in error.message and "other" not in error.message
    changed(ledger, source)
    assert reads == ["t.csv", "o.csv", "t.csv"]  # a refused version isn't read again and again
    assert accept(ledger, source, other) == ["t"]
    assert accept(ledger, source, other) == []
    new = ledger.recognise([source, other])
    assert new["t"] != old["t"] and new["other"] == old["other"]


def test_contents_changed_at_the_same_size_with_the_mtime_set_back_are_noticed_by_the_change_time(
    ledger: Ledger, tmp_path: Path, reads: list[str]
) -> None:
    """Where a file system keeps no change time (Windows), the stamp can't see this; the module says so."""
    path = file(tmp_path / "t.csv", "1111")
    before = path.stat()
    source = Source("t", (path,))
    ledger.recognise([source])
    while True:  # until the clock of the file system has moved on
        path.write_text("2222")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if path.stat().st_ctime_ns != before.st_ctime_ns:
            break
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    if os.name == "posix":
        changed(ledger, source)


def test_data_that_comes_back_is_a_new_version(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "one")
    source = Source("t", (path,))
    one = ledger.recognise([source])["t"]
    ledger.record_promise("t", "rows_per_unit=1", one, True)
    path.write_text("two")
    accept(ledger, source)
    path.write_text("one")
    changed(ledger, source)
    accept(ledger, source)
    back = ledger.recognise([source])["t"]
    assert back != one
    assert ledger.promises("t", back) == frozenset()


def test_a_file_added_to_removed_from_or_renamed_in_a_glob_is_a_change(ledger: Ledger, tmp_path: Path) -> None:
    files = [file(tmp_path / "g" / f"{n}.csv", f"{n}") for n in range(3)]
    version = ledger.recognise([Source("t", tuple(files))])
    assert ledger.recognise([Source("t", tuple(reversed(files)))]) == version
    changed(ledger, Source("t", tuple(files[:2])))
    changed(ledger, Source("t", (*files, file(tmp_path / "g" / "3.csv", "3"))))
    changed(ledger, Source("t", (*files, file(tmp_path / "g" / "empty.csv", ""))))
    renamed = files[2].rename(tmp_path / "g" / "z.csv")
    changed(ledger, Source("t", (*files[:2], renamed)))


def test_bytes_moved_from_one_file_to_the_next_are_a_change(ledger: Ledger, tmp_path: Path) -> None:
    files = (file(tmp_path / "a.csv", "12"), file(tmp_path / "b.csv", "3"))
    ledger.recognise([Source("t", files)])
    file(files[0], "1")
    file(files[1], "23")
    changed(ledger, Source("t", files))


def test_a_moved_folder_keeps_its_version(ledger: Ledger, tmp_path: Path) -> None:
    files = [file(tmp_path / "g" / name, name) for name in ("a/1.csv", "b/2.csv")]
    version = ledger.recognise([Source("t", tuple(files)), Source("one", (files[0],))])
    (tmp_path / "g").rename(tmp_path / "h")
    moved = [tmp_path / "h" / name for name in ("a/1.csv", "b/2.csv")]
    assert ledger.recognise([Source("t", tuple(moved)), Source("one", (moved[0],))]) == version


def test_a_partition_folder_is_part_of_the_data(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "year=2024" / "x.parquet")
    ledger.recognise([Source("t", (path,))])
    changed(ledger, Source("t", (file(tmp_path / "year=2025" / "x.parquet"),)))


def test_another_table_inside_the_same_file_is_a_change(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "shop.duckdb")
    ledger.recognise([Source("t", (path,), part="main.orders")])
    changed(ledger, Source("t", (path,), part="main.customers"))


def test_a_file_behind_several_tables_is_read_once(ledger: Ledger, tmp_path: Path, reads: list[str]) -> None:
    path = file(tmp_path / "shop.duckdb")
    ledger.recognise([Source(name, (path,), part=name) for name in "abc"])
    assert reads == ["shop.duckdb"]


def test_objects_in_memory_are_recognised_by_their_contents(ledger: Ledger) -> None:
    def memory(*chunks: bytes) -> Source:
        return Source("t", chunks=lambda: iter(chunks))

    version = ledger.recognise([memory(b"ab", b"c")])
    assert ledger.recognise([memory(b"a", b"bc")]) == version
    changed(ledger, memory(b"abd"))
    accept(ledger, memory(b"abd"))
    assert ledger.recognise([memory(b"abd")]) != version


def test_a_new_table_in_an_old_ledger_is_recorded(ledger: Ledger, tmp_path: Path) -> None:
    one = Source("one", (file(tmp_path / "1.csv"),))
    two = Source("two", (file(tmp_path / "2.csv"),))
    first = ledger.recognise([one])["one"]
    both = ledger.recognise([one, two])
    assert both["one"] == first and both["two"] != first
    assert accept(ledger, Source("three", (tmp_path / "1.csv",))) == ["three"]


def test_a_version_tells_nothing_about_the_data(tmp_path: Path) -> None:
    """Equal data under two names or in two ledgers has unrelated versions and fingerprints."""
    path = file(tmp_path / "t.csv")
    sources = [Source("a", (path,)), Source("b", (path,))]
    seen = set()
    digests = set()
    for name in ("one.sqlite", "two.sqlite"):
        with Ledger(tmp_path / name, ACCOUNT) as ledger:
            seen |= set(ledger.recognise(sources).values())
            with ledger._store.snapshot() as db:
                bodies = [json.loads(body) for (body,) in db.execute("SELECT body FROM event WHERE kind = 'source'")]
                digests |= {body["digest"] for body in bodies if body["table"] == "a"}
    assert len(seen) == 4
    assert len(digests) == 2


def test_a_refusal_shows_no_fingerprint(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "one")
    source = Source("t", (path,))
    ledger.recognise([source])
    path.write_text("two")
    first = str(changed(ledger, source))
    path.write_text("three, and something else")
    assert str(changed(ledger, source)) == first


def test_a_file_that_changes_while_it_is_read_is_refused(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path / "t.csv")
    stamps = iter(["1:1:1:1", "1:1:1:1", "2:2:2:2"])
    monkeypatch.setattr(fingerprint, "stamp_of", lambda *_: next(stamps))
    with pytest.raises(DataError) as refused:
        ledger.recognise([Source("t", (path,))])
    assert refused.value.code == "source-busy"


def test_sources_that_cannot_be_read_are_data_errors(ledger: Ledger, tmp_path: Path) -> None:
    for files, code in [
        ((), "source-missing"),
        ((tmp_path / "none.csv",), "source-missing"),
        ((tmp_path,), "source-unreadable"),
    ]:
        with pytest.raises(DataError) as refused:
            ledger.recognise([Source("t", files)])
        assert refused.value.code == code
    with pytest.raises(ValueError):
        Source("t")
    with pytest.raises(ValueError):
        ledger.recognise([Source("t", (file(tmp_path / "t.csv"),))] * 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_instead_of_waited_for(ledger: Ledger, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError):
        ledger.recognise([Source("t", (tmp_path / "pipe",))])


# --- promises -------------------------------------------------------------------------------------------------------


def test_a_promise_counts_only_for_the_version_it_was_verified_on(ledger: Ledger, tmp_path: Path) -> None:
    path = file(tmp_path / "t.csv", "one")
    source = Source("t", (path,))
    one = ledger.recognise([source])["t"]
    assert ledger.promises("t", one) == frozenset()
    ledger.record_promise("t", "rows_per_unit=1", one, True)
    ledger.record_promise("t", "key=o_orderkey", one, False)
    assert ledger.promises("t", one) == {"rows_per_unit=1"}
    assert ledger.promises("u", one) == frozenset()
    path.write_text("two")
    accept(ledger, source)
    two = ledger.recognise([source])["t"]
    assert ledger.promises("t", two) == frozenset()


def test_the_latest_finding_about_a_promise_counts(ledger: Ledger, tmp_path: Path) -> None:
    version = ledger.recognise([Source("t", (file(tmp_path / "t.csv"),))])["t"]
    for holds, expected in [(True, {"p"}), (False, set()), (True, {"p"})]:
        ledger.record_promise("t", "p", version, holds)
        assert ledger.promises("t", version) == expected


def test_a_promise_about_an_unknown_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    version = ledger.recognise([Source("t", (file(tmp_path / "t.csv"),))])["t"]
    for table, wrong in [("t", "0" * 32), ("u", version)]:
        with pytest.raises(LedgerError) as refused:
            ledger.record_promise(table, "p", wrong, True)
        assert refused.value.code == "version-unknown"


def test_promises_verified_for_other_units_are_forgotten_with_the_relation(tmp_path: Path) -> None:
    from dataclasses import replace

    path = tmp_path / "l.sqlite"
    source = Source("t", (file(tmp_path / "t.csv"),))
    with Ledger(path, ACCOUNT) as ledger:
        version = ledger.recognise([source])["t"]
        ledger.record_promise("t", "rows_per_unit=1", version, True)
    other = replace(ACCOUNT, relation='{"adjacency":"replace_one"}')
    Ledger.accept_policy_change(path, other)
    with Ledger(path, other) as ledger:
        assert ledger.recognise([source])["t"] == version
        assert ledger.promises("t", version) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_a_file_whose_name_is_no_text_is_recognised_all_the_same(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv"))
    file.write_text("x")
    os.utime(file, (1, 1))
    account = Account(Fraction(1), Fraction(0), "basic", "{}")
    with Ledger(tmp_path / "l.sqlite", account) as ledger:
        first = ledger.recognise([Source("t", files=(file,))])
        assert ledger.recognise([Source("t", files=(file,))]) == first
