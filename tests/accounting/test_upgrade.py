"""Ledgers of formats 1 and 2, as earlier versions made them, brought to the present format."""

from __future__ import annotations

import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from old_ledgers import ACCOUNT, KEPT, ROW, SECRET, SPENDS, TIME, old_ledger

from dpsql.accounting.anchor import FileAnchor, Note
from dpsql.accounting.cost import Cost
from dpsql.accounting.fingerprint import FileMark, Source
from dpsql.accounting.ledger import Account, Ledger
from dpsql.accounting.upgrade import upgrade
from dpsql.errors import LedgerError


@pytest.mark.parametrize("format", [1, 2])
def test_an_older_ledger_is_refused_with_the_command_that_upgrades_it(format: int, tmp_path: Path) -> None:
    path = old_ledger(format, tmp_path)
    before = path.read_bytes()
    for use in (lambda: Ledger(path, ACCOUNT), lambda: Ledger.accept_policy_change(path, ACCOUNT)):
        with pytest.raises(LedgerError) as refused:
            use()
        assert refused.value.code == "ledger-version"
        assert "`dpsql budget --upgrade --steward`" in (refused.value.hint or "")
    assert path.read_bytes() == before and not Path(f"{path}.key").exists()


@pytest.mark.parametrize("format", [1, 2])
def test_an_upgrade_keeps_every_spend_version_promise_answer_and_total(
    format: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_ledger(format, tmp_path)
    assert upgrade(path) == format
    assert upgrade(path) is None

    def unread(*_: object) -> FileMark:
        raise AssertionError("the file's mark is known")

    monkeypatch.setattr("dpsql.accounting.fingerprint._read", unread)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == Cost(Fraction(1, 3) + Fraction(1, 7) + Fraction(1, 2), Fraction(1, 10**7))
        history = ledger.history()
        assert [(e.id, str(e.cost.epsilon), str(e.cost.delta), e.state) for e in history] == SPENDS
        assert [e.note for e in history] == [{"sql": f"SELECT {n}"} for n in range(3)]
        assert {e.time for e in history} == {TIME}
        assert [e.analyst for e in history] == (["", "ada", "ada"] if format == 2 else [""] * 3)
        assert ledger.recognise([Source("t", (tmp_path / "t.csv",))]) == {"t": "v2"}
        assert ledger.promises("t", "v2") == {"rows=1"}
        assert ledger.promises("t", "v1") == frozenset()
        if format == 2:
            assert ledger.stored(b"key") == [("a" * 32, KEPT["a" * 32][0]), ("c" * 32, KEPT["c" * 32][0])]
            assert ledger.kept("cccc")[1] == KEPT["c" * 32]
        ledger.released(ledger.reserve(Cost(Fraction(1)), {}))
        with pytest.raises(LedgerError):
            Ledger(path, Account(Fraction(1), Fraction(1, 10**6), "basic", ROW))  # the first account is history


@pytest.mark.parametrize("format", [1, 2])
def test_an_upgrade_leaves_the_old_secret_nowhere_in_the_file(format: int, tmp_path: Path) -> None:
    path = old_ledger(format, tmp_path)
    assert SECRET in path.read_bytes()
    upgrade(path)
    for file in tmp_path.iterdir():
        assert SECRET not in file.read_bytes(), file


CHANGES = [
    "DROP TRIGGER release_is_never_changed; UPDATE release SET epsilon = '1/9' WHERE seq = 2",
    "DROP TRIGGER release_is_never_deleted; DELETE FROM release WHERE seq = 2",
    "DROP TRIGGER release_is_never_deleted; DELETE FROM release WHERE seq = 3",
    "DROP TRIGGER release_is_never_changed; UPDATE release SET note = 'x' WHERE seq = 2",
    "DELETE FROM secret",
    "DROP TABLE promise",
    "UPDATE promise SET version = 'v9'",
    "PRAGMA user_version = {other}",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("format", [1, 2])
def test_an_older_ledger_that_was_edited_is_not_upgraded_and_left_as_it_is(
    format: int, change: str, tmp_path: Path
) -> None:
    path = old_ledger(format, tmp_path)
    database = sqlite3.connect(path)
    database.executescript(change.format(other=3 - format))
    database.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refused:
        upgrade(path)
    assert refused.value.code == "ledger-damaged"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE stored SET data = x'00' WHERE seq = 1",
        "UPDATE stored SET receipt = (SELECT id FROM release WHERE state = 'reserved') WHERE seq = 1",
        "DROP TRIGGER account_is_never_changed; UPDATE account SET epsilon = '9' WHERE seq = 2",
    ],
)
def test_what_format_2_vouches_for_is_verified_before_it_is_upgraded(change: str, tmp_path: Path) -> None:
    path = old_ledger(2, tmp_path)
    database = sqlite3.connect(path)
    database.executescript(change)
    database.close()
    with pytest.raises(LedgerError) as refused:
        upgrade(path)
    assert refused.value.code == "ledger-damaged"


def test_an_upgrade_that_is_interrupted_leaves_the_old_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_ledger(2, tmp_path)
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.accounting.upgrade._check", interrupted)
        with pytest.raises(KeyboardInterrupt):
            upgrade(path)
    assert path.read_bytes() == before
    assert upgrade(path) == 2
    Ledger(path, ACCOUNT).close()


def test_an_old_copy_is_not_upgraded_past_its_anchor(tmp_path: Path) -> None:
    path, anchor = old_ledger(2, tmp_path), FileAnchor(tmp_path / "anchor")
    shutil.copy(path, tmp_path / "old")
    upgrade(path, anchor=anchor)
    noted = anchor.read()
    assert isinstance(noted, Note)
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        ledger.reserve(Cost(Fraction(1)), {})
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(LedgerError) as refused:
        upgrade(path, anchor=anchor)
    assert refused.value.code == "ledger-rolled-back"
