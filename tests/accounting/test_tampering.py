"""A ledger says what it said, or it is refused: every bit of a small one flipped, and the attacks that have a name."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from support import charge

from dpsql.accounting import checkpoint, fingerprint, store, stored
from dpsql.accounting.backup import backup
from dpsql.accounting.events import COLUMNS, Event
from dpsql.accounting.fingerprint import Source, stamp_of
from dpsql.accounting.journal import Journal
from dpsql.accounting.keys import Field
from dpsql.accounting.ledger import Account, Kept, Ledger
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
ACCOUNT = Account(Fraction(20), Fraction(0), "basic", ROW)
SPENDS = 12
SHARES = 8


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory where there is one, as thousands of ledgers are opened; file marks count at once."""
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**18))
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as made:
        yield Path(made)


def source(folder: Path) -> Source:
    return Source("t", (folder / "t.csv",))


def make(folder: Path, spends: int = SPENDS) -> Path:
    """Spends, two versions, a promise that holds, one that is broken, a mark of a file and stored answers."""
    path = folder / "l.sqlite"
    with Ledger(path, ACCOUNT) as ledger:
        (folder / "t.csv").write_text("a\n1\n")
        ledger.recognise([source(folder)])
        (folder / "t.csv").write_text("a\n1\n2\n")
        ledger.accept(ledger.sights([source(folder)]))
        version = ledger.recognise([source(folder)])["t"]
        ledger.record_promise("t", "key=id", version, True)
        ledger.record_promise("t", "rows=1", version, False)
        for number in range(spends):
            receipt = charge(ledger, Cost(Fraction(1)), {"sql": f"SELECT {number}"}, analyst="ada")
        ledger.record(receipt, [Kept("release", b"k", '{"x":1}', b"noisy")])
        ledger.answered(receipt, [Kept("answer", b"", "{}", b"answer")])
    return path


def said(path: Path) -> object:
    """Everything that privacy rests on."""
    with Ledger(path, ACCOUNT) as ledger:
        history, balance = ledger.history(), ledger.balance
        present = ledger.recognise([source(path.parent)])
        promises = [ledger.promises("t", version) for version in (present["t"], "none")]
        kept = [ledger.kept(entry.id) for entry in history[-2:]]
        entries = [(e.id, e.time, e.cost, e.state, e.note, e.analyst, e.period) for e in history]
        return balance, balance.analysts, entries, present, promises, ledger.stored(b"k"), kept, ledger.has_stored()


def same_or_refused(path: Path, expected: object) -> bool:
    """Does it say the same? Otherwise it is refused, by an error of ours that says what to do."""
    try:
        found = said(path)
    except LedgerError as error:
        assert error.code and error.hint
        return False
    assert found == expected
    return True


def cover(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a checkpoint behind all events."""
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "EVERY", 1)
        Ledger(path, ACCOUNT).close()
    with closing(sqlite3.connect(path)) as database:
        ask = "SELECT CAST(stamp AS INTEGER) = (SELECT count FROM head) FROM file WHERE path = ?"
        covers = database.execute(ask, (checkpoint.PATH,))
        assert covers.fetchall() == [(1,)]


def small_pages(connect: object) -> object:
    """Ledgers with the smallest pages that SQLite has: few bytes that mean nothing."""

    def connected(where: str) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(where)  # type: ignore[operator]  # store._connect
        if where == store.MEMORY:
            connection.execute("PRAGMA page_size = 512")
        return connection

    return connected


@pytest.mark.sample(8)
@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("share", range(SHARES))
def test_a_flipped_bit_changes_nothing_that_a_ledger_says_or_is_refused(
    share: int, covered: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """Every byte of the file: its lowest bit (a stored 0 or 1) or another one, in turns; all eight with --whole.

    covered: all events lie before a checkpoint.
    """
    monkeypatch.setattr(store, "_connect", small_pages(store._connect))
    path = make(folder, spends=3)
    if covered:
        cover(path, monkeypatch)
    whole = path.read_bytes()
    assert len(whole) < 30_000 and list(folder.glob("*-wal")) == []
    expected = said(path)
    assert path.read_bytes() == whole
    refused = 0
    for place in range(share, len(whole), SHARES):
        one = 0 if place // SHARES % 2 else 1 + place // SHARES % 7
        bits = range(8) if pytestconfig.getoption("--whole") else (one,)
        for bit in bits:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            refused += not same_or_refused(path, expected)
            for beside in ("-wal", "-shm", "-journal"):
                Path(f"{path}{beside}").unlink(missing_ok=True)
    assert refused > len(whole) // SHARES // (8 if covered else 3)
    path.write_bytes(whole)
    assert said(path) == expected


def test_a_flipped_bit_of_the_key_opens_nothing(folder: Path) -> None:
    path = make(folder, spends=2)
    key = Path(f"{path}.key")
    whole, expected = key.read_bytes(), said(path)
    opened = 0
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            key.write_bytes(flipped)
            opened += same_or_refused(path, expected)
    digits = sum(chr(c).isalpha() for c in whole)
    assert opened <= digits + 8  # another case of a letter is the same digit, and what follows the digits is blank


# ---------------------------------------------------------------- attacks that have a name


def edit(path: Path, *statements: str) -> None:
    """As somebody would who knows SQLite, and not the key: the file's own triggers are taken out and put back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for name in ("changed", "deleted"):
            database.execute(f"DROP TRIGGER event_is_never_{name}")
        for statement in statements:
            assert database.execute(statement).rowcount != 0
        database.executescript(store.SCHEMA[store.SCHEMA.index("CREATE TRIGGER") :])


def refused(path: Path) -> LedgerError:
    with pytest.raises(LedgerError) as error:
        said(path)
    return error.value


CUT = "DELETE FROM event WHERE seq = (SELECT MAX(seq) FROM event WHERE kind = 'spend')"


EDITS = [
    ["""UPDATE event SET body = replace(body, '"holds":false', '"holds":true') WHERE kind = 'promise'"""],
    ["""DELETE FROM event WHERE kind = 'promise' AND body LIKE '%"holds":false%'"""],
    ["DELETE FROM event WHERE kind = 'source'"],
    ["UPDATE event SET body = (SELECT body FROM event WHERE kind = 'source') WHERE kind = 'source'"],
    ["DELETE FROM event WHERE seq > (SELECT MAX(seq) - 2 FROM event)"],
    [
        "DELETE FROM stored",
        "DELETE FROM event WHERE seq > (SELECT MAX(seq) - 2 FROM event)",
        "UPDATE head SET count = (SELECT MAX(seq) FROM event), "
        "link = (SELECT link FROM event ORDER BY seq DESC LIMIT 1)",
    ],
    ["""UPDATE event SET body = replace(body, '"epsilon":"1"', '"epsilon":"0"') WHERE kind = 'spend'"""],
    ["DELETE FROM event WHERE kind = 'released'"],
    ["DELETE FROM event WHERE kind = 'answered'"],
    ["DELETE FROM stored WHERE kind = 'answer'", "DELETE FROM event WHERE kind = 'answered'"],
    ["UPDATE event SET kind = 'released' WHERE kind = 'answered'"],
    ["UPDATE stored SET data = x'00' WHERE kind = 'answer'"],
    ["""UPDATE event SET body = replace(body, '"claimed":false', '"claimed":true') WHERE kind = 'spend'"""],
    ["DELETE FROM stored WHERE kind = 'release'"],
    ["UPDATE stored SET data = x'00' WHERE kind = 'release'"],
    ["UPDATE stored SET key = x'00' WHERE kind = 'release'"],
    ["UPDATE stored SET receipt = 'x'"],
    ["UPDATE stored SET kind = 'release', key = x'6b' WHERE kind = 'answer'"],
    ["INSERT INTO stored SELECT seq + 2, receipt, kind, key, digest, facts, data FROM stored"],
]


@pytest.mark.parametrize("statements", EDITS, ids=lambda statements: statements[0][:60])
def test_an_edit_without_the_key_is_refused(folder: Path, statements: list[str]) -> None:
    path = make(folder)
    edit(path, *statements)
    assert refused(path).code == "ledger-damaged"


@pytest.mark.parametrize("statements", EDITS, ids=lambda statements: statements[0][:60])
def test_an_edit_before_the_checkpoint_changes_nothing_that_is_said_or_is_refused(
    folder: Path, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What isn't read again at an opening is what the checkpoint says; a whole look finds it."""
    path = make(folder)
    cover(path, monkeypatch)
    expected = said(path)
    edit(path, *statements)
    same = same_or_refused(path, expected)
    if "UPDATE stored SET data" in statements[0]:  # contents are verified when they are read, in every case
        assert not same
        return
    with pytest.raises(LedgerError) as error:
        backup(path, folder / "copy")
    assert error.value.code == "ledger-damaged" and not (folder / "copy").exists()


def test_the_end_of_the_chain_cannot_be_cut_off(folder: Path) -> None:
    """Spent 12 → 11: with the counters of SQLite, and with the head as it was before the last spend."""
    path = make(folder, spends=11)
    with closing(sqlite3.connect(path)) as database:
        head = database.execute("SELECT count, link, tag FROM head").fetchone()
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
        assert ledger.balance.spent.epsilon == 12
    whole = path.read_bytes()
    edit(path, CUT)
    assert refused(path).code == "ledger-damaged"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE head SET count = ?, link = ?, tag = ?", head)
    assert refused(path).code == "ledger-damaged"  # an older head alone


def test_a_mark_that_was_altered_is_not_believed(folder: Path) -> None:
    """Whoever changes the data and then the mark, so that it names the new contents' stamp with the old digest."""
    path = make(folder)
    (folder / "t.csv").write_text("a\n1\n3\n")
    found = stamp_of("t", folder / "t.csv")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE file SET stamp = ?", (found,))
    assert refused(path).code == "data-changed"


def test_marks_of_another_key_are_read_again(folder: Path) -> None:
    path = make(folder)
    expected = said(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE file SET tag = zeroblob(32)")
    assert said(path) == expected


def test_a_stored_answer_is_verified_each_time_that_it_is_read(folder: Path) -> None:
    path = make(folder)
    with Ledger(path, ACCOUNT) as ledger:
        assert len(ledger.stored(b"k")) == 1
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE stored SET data = x'00'")
        with pytest.raises(LedgerError) as error:
            ledger.stored(b"k")
        assert error.value.code == "ledger-damaged"


def test_the_history_is_verified_each_time_that_it_is_read(folder: Path) -> None:
    path = make(folder)
    with Ledger(path, ACCOUNT) as ledger:
        id = ledger.history()[0].id
        edit(path, "UPDATE event SET note = '{}' WHERE kind = 'spend'")
        for use in (ledger.history, lambda: ledger.entry(id)):
            with pytest.raises(LedgerError) as error:
                use()
            assert error.value.code == "ledger-damaged"


def test_a_session_forgets_nothing_that_it_has_seen_when_an_older_copy_is_written_into_the_file(folder: Path) -> None:
    """Once nobody has it open, the copy passes for the ledger: only an anchor tells (Theorem LEDGER-2)."""
    path = make(folder)
    old = path.read_bytes()
    with Ledger(path, ACCOUNT) as ledger:
        for paid in range(SPENDS + 1, SPENDS + 4):
            try:
                charge(ledger, Cost(Fraction(1)), {})
                path.write_bytes(old)
                assert ledger.balance.spent.epsilon == paid
            except LedgerError as error:
                assert error.code == "ledger-damaged"
                break


def test_a_copy_of_both_files_is_a_ledger_and_theory_says_so(folder: Path) -> None:
    path = make(folder)
    expected = said(path)
    (folder / "copy").mkdir()
    for name in ("l.sqlite", "l.sqlite.key"):
        shutil.copy(folder / name, folder / "copy" / name)
    (folder / "copy" / "t.csv").symlink_to(folder / "t.csv")  # a copy would be a file that was written
    assert said(folder / "copy" / "l.sqlite") == expected


@pytest.mark.parametrize("kind", ["spend", "later"])
def test_what_a_newer_version_recorded_is_refused(folder: Path, kind: str) -> None:
    path = make(folder)
    with Ledger(path, ACCOUNT) as ledger, Ledger(path, ACCOUNT) as newer:
        body = dict.fromkeys(("epsilon", "delta", "parts"), "0") | {"rho": None, "period": "", "analyst": ""}
        with pytest.raises(LedgerError, match="newer"), newer._journal.writing() as writer:
            writer.add(Event(kind, "t", {**body, "covers": ["2026-01", "2026-03"]}, "x", "{}"))  # type: ignore[arg-type]
        with pytest.raises(LedgerError) as error:
            charge(ledger, Cost(Fraction(1)), {})
    assert error.value.code == "ledger-newer" and "upgrade dpsql" in (error.value.hint or "")
    assert refused(path).code == "ledger-newer"


def test_a_closed_account_pays_nothing_more_and_shows_what_it_released(folder: Path) -> None:
    from dpsql.accounting.journal import account_event

    path = make(folder)
    with Ledger(path, ACCOUNT) as ledger, ledger._journal.writing() as writer:
        writer.add(account_event(ACCOUNT, closed="the study is over"))
    more = replace(ACCOUNT, epsilon=Fraction(100))
    Ledger.accept_policy_change(path, more)  # other totals don't open it
    with Ledger(path, more) as ledger:
        with pytest.raises(LedgerError) as error:
            charge(ledger, Cost(Fraction(1)), {})
        assert ledger.balance.spent.epsilon == SPENDS and len(ledger.stored(b"k")) == 1
    assert error.value.code == "account-closed" and "the study is over" in error.value.message


# ---------------------------------------------------------------- a large one

MANY = 10_000


LARGE = replace(ACCOUNT, epsilon=Fraction(MANY))


@pytest.fixture
def large(folder: Path) -> Path:
    """A ledger of 10,000 spends, nine tenths of them before a checkpoint; every tenth has a noisy table."""
    path, place = folder / "l.sqlite", 1
    for begin, end in ((0, MANY * 9 // 10), (MANY * 9 // 10, MANY)):
        with Ledger(path, LARGE) as ledger, ledger._journal.writing() as writer:
            for number in range(begin, end):
                body: dict[str, object] = {
                    "epsilon": f"{number % 9}/10",
                    "delta": "0",
                    "rho": None,
                    "parts": "0",
                    "period": "",
                }
                body |= {"analyst": f"a{number % 3}", "covers": None, "claimed": False}
                id = f"{number:032x}"
                writer.add(Event("spend", "2026-11-19", body, id, f'{{"sql": "SELECT {number}"}}'))
                if number % 10 == 0:
                    kept = Kept("release", b"%d" % (number % 70), "{}", b"noisy" * 20)
                    place += stored.record(writer, place, "released", "2026-11-20", id, [kept])
    with closing(sqlite3.connect(path)) as database:
        ask = "SELECT CAST(stamp AS INTEGER), (SELECT count FROM head) FROM file WHERE path = ?"
        covered, count = database.execute(ask, (checkpoint.PATH,)).fetchone()
    assert MANY * 9 // 10 < covered < count
    return path


def said_by_many(path: Path) -> object:
    """Everything that privacy rests on, of the large one."""
    with Ledger(path, LARGE) as ledger:
        history = [(e.id, e.time, e.cost, e.state, e.note, e.analyst, e.period) for e in ledger.history()]
        tables = [ledger.stored(b"%d" % key) for key in range(0, 70, 10)]
        return ledger.balance, ledger.balance.analysts, history, tables


def test_a_flipped_bit_of_a_record_of_a_large_ledger_is_noticed_where_it_is_read(
    large: Path, pytestconfig: pytest.Config
) -> None:
    """Of each of 12,000 records every bit that its link covers, before the checkpoint and after it; all with --whole.

    Otherwise every 199th bit: 199 is prime, so that all columns, places in a text and bits in a byte have their turn.
    """
    step = 1 if pytestconfig.getoption("--whole") else 199
    journal = Journal(large, None, only_read=True)
    try:
        with journal.reading() as db:
            assert 0 < journal._resumed < journal.state.count
            verifies = journal.state.verifies
            rows = db.execute(f"SELECT {COLUMNS} FROM event ORDER BY seq").fetchall()
            assert len(rows) > MANY and all(verifies(row[0], row) for row in rows)
            turn = 0
            for row in rows:
                for at, field in enumerate(row):
                    if field is None:
                        continue
                    raw = field.to_bytes(8, "big") if isinstance(field, int) else field.encode()
                    for bit in range(-turn % step, 8 * len(raw), step):
                        flipped = bytearray(raw)
                        flipped[bit // 8] ^= 1 << bit % 8
                        other = _as_read(bytes(flipped), field)
                        assert not verifies(row[0], (*row[:at], other, *row[at + 1 :])), (row, at, bit)
                    turn += 8 * len(raw)
    finally:
        journal.store.close()


def _as_read(raw: bytes, field: object) -> Field:
    """What SQLite would make of these bytes in the place of this field."""
    if isinstance(field, int):
        return int.from_bytes(raw, "big")
    return raw.decode(errors="surrogateescape")


def test_a_flipped_bit_of_a_large_ledger_changes_nothing_that_it_says_or_is_refused(
    large: Path, pytestconfig: pytest.Config
) -> None:
    """Bits of the very file: in each table, in the checkpoint, in what binds pages together, and anywhere."""
    expected, whole = said_by_many(large), large.read_bytes()
    draw = random.Random(7)
    turns = 40 if pytestconfig.getoption("--whole") else 1
    refused = 0
    for place in [p for area in _areas(large) for p in draw.sample(area, min(len(area), 4 * turns))]:
        bit = 1 << draw.randrange(8)
        with large.open("r+b") as file:
            for content in (bytes([whole[place] ^ bit]), None):
                file.seek(place)
                file.write(content or whole[place : place + 1])
                file.flush()
                if content:
                    try:
                        assert said_by_many(large) == expected
                    except LedgerError as error:
                        assert error.code and error.hint
                        refused += 1
        for beside in ("-wal", "-shm", "-journal"):
            Path(f"{large}{beside}").unlink(missing_ok=True)
        large.write_bytes(whole)  # a checkpoint may have been made anew
    assert refused
    assert said_by_many(large) == expected


def _areas(path: Path) -> list[range]:
    """Where bytes of each kind lie in the file: the first page, first and last pages of tables, the checkpoint."""
    with closing(sqlite3.connect(path)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        roots = [root for (root,) in database.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]
        packed, head = (
            database.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()[0]
            for column, table in (("digest", "file"), ("tag", "head"))
        )
    whole = path.read_bytes()
    at, tagged = whole.find(packed[20_000:20_032]), whole.find(head)
    assert at >= 0 and tagged >= 0
    return [
        range(100),
        *(range((root - 1) * size, (root - 1) * size + 64) for root in roots),
        range(at, at + 3000),
        range(tagged, tagged + len(head)),
        range(size, pages * size),
    ]
