"""A checkpoint says what the events before it come to, to the letter, and is passed over where it can't be believed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from support import charge

from dpsql.accounting import checkpoint
from dpsql.accounting.fingerprint import Source
from dpsql.accounting.journal import Journal
from dpsql.accounting.ledger import Account, Kept, Ledger, Spend
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
ACCOUNT = Account(Fraction(100), Fraction(1, 10**6), "zcdp", ROW, "monthly")
PRICE = Cost(Fraction(1, 3), Fraction(1, 10**9), Fraction(1, 700), Fraction(1, 10**9))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every opening makes a checkpoint of what it found."""
    monkeypatch.setattr(checkpoint, "EVERY", 1)
    monkeypatch.setattr(checkpoint, "SHARE", 10**9)
    yield


def use(path: Path, number: int) -> None:
    """Everything that is ever recorded, in an order that differs from time to time."""
    draw = random.Random(number)
    with Ledger(path, ACCOUNT) as ledger:
        for _ in range(draw.randint(1, 4)):
            source = Source(f"t{draw.randint(0, 2)}", chunks=partial(iter, [draw.randbytes(8)]))
            ledger.accept(ledger.sights([source]))
            version = ledger.recognise([source])[source.table]
            ledger.record_promise(source.table, f"key={draw.choice('ab')}", version, draw.random() < 0.5)
            spends = [Spend(PRICE, {"sql": "SELECT 1"}, draw.choice([b"", draw.randbytes(32)]))]
            look: Callable[[], list[Spend]] = partial(list, spends)
            _, (receipt,) = ledger.reserve(look, lambda found: found, analyst=draw.choice(["", "ü", "b"]))
            if draw.random() < 0.7:
                ledger.record(receipt, [Kept("release", draw.randbytes(5), "{}", b"noisy")] * draw.randint(0, 2))
                if draw.random() < 0.7:
                    ledger.answered(receipt, [Kept("answer", b"", "{}", b"answer")])
    if number == 3:
        Ledger.rotate_key(path)


def state(path: Path, *, whole: bool) -> tuple[dict[str, object], int]:
    """All that a ledger says, and how many events the checkpoint covered that it was read with."""
    journal = Journal(path, None, whole=whole, only_read=True)
    try:
        with journal.reading():
            found = {name: value for name, value in vars(journal.state).items() if name != "_rules"}
            ordered = {name: list(value) for name, value in found.items() if isinstance(value, dict)}
            return {**found, "order": ordered}, journal._resumed
    finally:
        journal.store.close()


@pytest.mark.usefixtures("often")
def test_what_is_read_with_a_checkpoint_is_what_the_events_say(path: Path) -> None:
    """Each attribute of the state, and the order of each, after every use; with events after the checkpoint, too."""
    for number in range(12):
        use(path, number)
        whole, none = state(path, whole=True)
        assert none == 0
        covered, before = state(path, whole=False)
        assert covered == whole and before < len(covered["links"]) // 32  # type: ignore[arg-type]
        Ledger(path, ACCOUNT).close()
        covered, all_of_them = state(path, whole=False)
        assert covered == whole and all_of_them == len(covered["links"]) // 32  # type: ignore[arg-type]


def test_a_checkpoint_is_made_now_and_then(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 20)
    covered = []
    for _ in range(60):
        with Ledger(path, ACCOUNT) as ledger:
            charge(ledger, PRICE, {})
        covered.append(state(path, whole=False)[1])
    assert covered == sorted(covered) and len(set(covered)) == 4  # none, and three
    assert all(number - before <= 23 for number, before in enumerate(covered, 3))


def mark(path: Path) -> tuple[str, str, bytes, bytes]:
    with closing(sqlite3.connect(path)) as database:
        (row,) = database.execute("SELECT * FROM file WHERE path = ?", (checkpoint.PATH,)).fetchall()
    found: tuple[str, str, bytes, bytes] = row
    return found


def put(path: Path, row: tuple[str, str, bytes, bytes]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)", row)


@pytest.mark.usefixtures("often")
def test_an_older_checkpoint_is_as_good_and_another_ledgers_is_none(path: Path, tmp_path: Path) -> None:
    use(path, 0)
    Ledger(path, ACCOUNT).close()
    old, copy = mark(path), tmp_path / "copy.sqlite"
    use(path, 1)
    whole = state(path, whole=True)[0]
    put(path, old)
    assert state(path, whole=False) == (whole, int(old[1]))
    # Another account under the same key, which has more events.
    shutil.copy(f"{path}.key", f"{copy}.key.new")
    for number in range(4, 7):
        use(copy, number)
    Ledger(copy, ACCOUNT).close()
    assert Path(f"{copy}.key").read_bytes() == Path(f"{path}.key").read_bytes()
    put(path, mark(copy))
    assert state(path, whole=False) == (whole, 0)


@pytest.mark.usefixtures("often")
def test_a_checkpoint_of_what_a_copy_has_forgotten_is_passed_over(path: Path) -> None:
    """The copy is a true ledger of its time, as ever; what the checkpoint knows besides isn't the copy's to say."""
    use(path, 0)
    copy, before = path.read_bytes(), state(path, whole=True)[0]
    use(path, 1)
    Ledger(path, ACCOUNT).close()
    later = mark(path)
    path.write_bytes(copy)
    put(path, later)
    assert state(path, whole=False) == (before, 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("column", ["stamp", "digest", "tag"])
def test_a_checkpoint_that_was_altered_is_passed_over(path: Path, column: str) -> None:
    use(path, 0)
    Ledger(path, ACCOUNT).close()
    whole = state(path, whole=True)[0]
    name, stamp, content, its_tag = mark(path)
    altered = {
        "stamp": (name, "1", content, its_tag),
        "digest": (name, stamp, content[:-1] + bytes([content[-1] ^ 1]), its_tag),
        "tag": (name, stamp, content, its_tag[:-1] + bytes([its_tag[-1] ^ 1])),
    }
    put(path, altered[column])
    assert state(path, whole=False) == (whole, 0)
    Ledger(path, ACCOUNT).close()
    assert state(path, whole=False)[1] == len(whole["links"]) // 32  # type: ignore[arg-type]


@pytest.mark.usefixtures("often")
def test_no_event_before_a_checkpoint_is_shown_that_was_altered(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, PRICE, {"sql": "SELECT 1"})
    Ledger(path, ACCOUNT).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (trigger,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'event_is_never_changed'").fetchone()
        database.execute("DROP TRIGGER event_is_never_changed")
        database.execute("UPDATE event SET note = replace(note, '1', '2') WHERE kind = 'spend'")
        database.execute(trigger)
    with Ledger(path, ACCOUNT) as ledger, pytest.raises(LedgerError) as error:
        assert ledger.balance.spent.rho == PRICE.rho
        ledger.history()
    assert error.value.code == "ledger-damaged"


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("change", ["UPDATE event SET note = '{}' WHERE seq = 3", "DELETE FROM event WHERE seq = 3"])
def test_no_event_before_a_checkpoint_is_told_to_a_witness_that_was_altered(path: Path, change: str) -> None:
    """Its log brings an older copy up to date: an event that nobody recorded would be in the way for ever."""
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, PRICE, {"sql": "SELECT 1"})
    Ledger(path, ACCOUNT).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        database.execute(change)
        for _, text in triggers:
            database.execute(text)
    told: list[object] = []
    with Ledger(path, ACCOUNT) as ledger:
        ledger.watch(lambda since: told.extend(since(0)))
        with pytest.raises(LedgerError) as error:
            charge(ledger, PRICE, {"sql": "SELECT 2"})
    assert error.value.code == "ledger-damaged" and not told


@pytest.mark.usefixtures("often")
def test_a_stored_row_that_no_event_names_is_noticed_behind_a_checkpoint_too(path: Path) -> None:
    """The next release would find its place taken, after it was paid for."""
    with Ledger(path, ACCOUNT) as ledger:
        ledger.record(charge(ledger, PRICE, {}), [Kept("release", b"k", "{}", b"noisy")])
    Ledger(path, ACCOUNT).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("INSERT INTO stored SELECT seq + 1, receipt, kind, key, digest, facts, data FROM stored")
    with pytest.raises(LedgerError) as error:
        Ledger(path, ACCOUNT)
    assert error.value.code == "ledger-damaged"


@pytest.mark.usefixtures("often")
def test_whoever_holds_the_file_keeps_nobody_from_opening_it(path: Path) -> None:
    use(path, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        Ledger(path, ACCOUNT).close()
    assert state(path, whole=False)[1] < state(path, whole=True)[0]["links"].__len__() // 32  # type: ignore[attr-defined]
