"""Ledgers of formats 1 and 2, as earlier versions made them, brought to the present format."""

from __future__ import annotations

import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from old_ledgers import ACCOUNT, KEPT, ROW, SECRET, SPENDS, TIME, old_ledger
from support import charge

from dpsql.accounting import upgrade as upgrades
from dpsql.accounting.anchor import FileAnchor, Note
from dpsql.accounting.fingerprint import FileMark, Source
from dpsql.accounting.ledger import Account, Ledger
from dpsql.accounting.upgrade import upgrade
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError


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
        ledger.record(charge(ledger, Cost(Fraction(1)), {}), [])
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


@pytest.mark.parametrize("change", ["CREATE TABLE notes (x)", "CREATE VIEW v AS SELECT 1", "CREATE TABLE old_x (y)"])
@pytest.mark.parametrize("format", [1, 2])
def test_a_ledger_that_could_not_be_opened_afterwards_is_left_as_it_is(
    format: int, change: str, tmp_path: Path
) -> None:
    path = old_ledger(format, tmp_path)
    database = sqlite3.connect(path)
    database.execute(change)
    database.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refused:
        upgrade(path)
    assert refused.value.code == "ledger-damaged"
    assert path.read_bytes() == before and not Path(f"{path}.key").exists()


def test_of_two_upgrades_at_once_the_second_finds_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_ledger(2, tmp_path)
    rewrite = upgrades._rewrite

    def overtaken(*given: Any) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(upgrades, "_rewrite", rewrite)
            assert upgrade(path) == 2
        return rewrite(*given)

    monkeypatch.setattr(upgrades, "_rewrite", overtaken)
    assert upgrade(path) is None
    Ledger(path, ACCOUNT).close()


@pytest.mark.parametrize("outside", [False, True])
def test_a_planted_older_ledger_is_not_signed_with_the_key_that_is_there(
    outside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outside:
        monkeypatch.setenv("DPSQL_LEDGER_KEY", "11" * 32)
    path = tmp_path / "l.sqlite"
    Ledger(path, ACCOUNT).close()
    key = Path(f"{path}.key")
    kept = None if outside else key.read_bytes()
    path.unlink()
    before = old_ledger(2, tmp_path).read_bytes()
    with pytest.raises(LedgerError) as opened:
        Ledger(path, ACCOUNT)
    with pytest.raises(LedgerError) as refused:
        upgrade(path)
    assert (opened.value.code, refused.value.code) == ("ledger-version", "key-unexpected")
    for error in (opened.value, refused.value):
        assert "forged" in (error.hint or "") and "--replace-key" in (error.hint or "")
    assert path.read_bytes() == before and (outside or key.read_bytes() == kept)
    assert upgrade(path, replace_key=True) == 2
    Ledger(path, ACCOUNT).close()
    assert outside or (key.read_bytes() != kept and Path(f"{key}.old").read_bytes() == kept)
    assert not Path(f"{key}.new").exists()


def test_an_upgrade_that_is_interrupted_after_its_commit_leaves_a_ledger_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_ledger(2, tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(upgrades, "_settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            upgrade(path)
    assert not Path(f"{path}.key").exists()
    Ledger(path, ACCOUNT).close()
    Ledger.rotate_key(path)
    assert Path(f"{path}.key").exists() and not Path(f"{path}.key.new").exists()
    Ledger(path, ACCOUNT).close()


def test_an_old_copy_is_not_upgraded_past_its_anchor(tmp_path: Path) -> None:
    path, anchor = old_ledger(2, tmp_path), FileAnchor(tmp_path / "anchor")
    shutil.copy(path, tmp_path / "old")
    upgrade(path, anchor=anchor)
    noted = anchor.read()
    assert isinstance(noted, Note)
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(LedgerError) as refused:
        upgrade(path, anchor=anchor)
    assert refused.value.code == "ledger-rolled-back"
