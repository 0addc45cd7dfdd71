"""What the ledger says is kept in memory while nobody writes it; whoever does is noticed at the next look."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import charge

from dpsql.accounting.events import Event
from dpsql.accounting.ledger import Account, Ledger, Source
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

ACCOUNT = Account(Fraction(9), Fraction(0), "basic", '{"adjacency":"add_remove"}')
ONE = Cost(Fraction(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path, ACCOUNT) as opened:
        yield opened


@pytest.fixture
def begun(ledger: Ledger) -> list[str]:
    """The transactions of this ledger, from now on."""
    seen: list[str] = []
    ledger._store._connection.set_trace_callback(lambda text: seen.append(text) if text.startswith("BEGIN") else None)
    return seen


def spent(ledger: Ledger) -> Fraction:
    return ledger.balance.spent.epsilon


def test_no_transaction_while_nobody_writes_and_own_spends_are_known(ledger: Ledger, begun: list[str]) -> None:
    assert spent(ledger) == 0 and not ledger.has_stored() and begun == []
    charge(ledger, ONE, {})
    assert spent(ledger) == 1 and begun == ["BEGIN IMMEDIATE"]


def test_what_others_spend_is_seen_at_the_next_look(path: Path, ledger: Ledger, begun: list[str]) -> None:
    with Ledger(path, ACCOUNT) as other:
        for paid in range(1, 4):
            charge(other, ONE, {})
            assert spent(ledger) == paid
            assert spent(ledger) == paid and begun == ["BEGIN"] * paid
        charge(ledger, ONE, {})
        assert spent(other) == spent(ledger) == 4


def test_what_others_spend_while_this_one_writes_is_seen(path: Path, ledger: Ledger) -> None:
    with Ledger(path, ACCOUNT) as other:
        for paid in range(2, 8, 2):
            charge(other, ONE, {})
            charge(ledger, ONE, {})
            assert spent(ledger) == spent(other) == paid


def test_what_was_rolled_back_was_never_spent(path: Path, ledger: Ledger) -> None:
    charge(ledger, ONE, {})
    with pytest.raises(KeyError), ledger._journal.writing() as writer:
        writer.add(Event("key", "t", {}))
        raise KeyError
    with ledger._journal.looking() as state:
        assert state.count == 3
    assert spent(ledger) == 1
    with Ledger(path, ACCOUNT) as fresh:
        assert fresh.balance == ledger.balance


def test_a_commit_whose_end_is_not_known_is_read_from_the_file(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit succeeds, and then the system says otherwise."""
    plain = ledger._store._connection

    class Failing:
        in_transaction = False

        def execute(self, text: str, *given: Any) -> sqlite3.Cursor:
            found = plain.execute(text, *given)
            if text == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return found

    with monkeypatch.context() as patched:
        patched.setattr(ledger._store, "_connection", Failing())
        with pytest.raises(LedgerError):
            charge(ledger, ONE, {})
    assert spent(ledger) == 1
    with Ledger(path, ACCOUNT) as fresh:
        assert spent(fresh) == 1


def test_what_is_altered_by_hand_is_noticed_at_the_next_look(path: Path, ledger: Ledger) -> None:
    charge(ledger, ONE, {})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE head SET count = count - 1")
    with pytest.raises(LedgerError) as refused:
        _ = ledger.balance
    assert refused.value.code == "ledger-damaged"


def test_a_new_key_is_taken_over_at_the_next_look(path: Path, ledger: Ledger) -> None:
    tagged = ledger.seal("test", b"content")
    Ledger.rotate_key(path)
    assert not ledger.is_sealed(tagged, "test", b"content")
    assert ledger.is_sealed(ledger.seal("test", b"content"), "test", b"content")


def test_a_forged_mark_of_a_file_is_not_believed(
    path: Path, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks are kept in memory, too: theirs is another digest once somebody writes one without the key."""
    monkeypatch.setattr("dpsql.accounting.fingerprint.SETTLED_NS", -1)  # so that marks are kept at once
    file = tmp_path / "t.csv"
    file.write_text("a\n1\n")
    source = Source("t", files=(file,))
    digest = ledger.identify([source])
    assert ledger.identify([source]) == digest
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("UPDATE file SET digest = x'00'").rowcount == 1
    assert ledger.identify([source]) == digest
    file.write_text("a\n2\n")
    assert ledger.identify([source]) != digest
