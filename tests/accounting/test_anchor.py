"""An anchor outside of the ledger: older copies and deletion are noticed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from support import charge, own_processes

from dpsql.accounting import anchor as anchors
from dpsql.accounting.anchor import Anchor, CommandAnchor, FileAnchor, Note
from dpsql.accounting.ledger import Account, Ledger, Spend
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, LedgerError

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')
TENTH = Cost(Fraction(1, 10))

PROGRAM = """
import sys, pathlib
note, (what, *given) = pathlib.Path(sys.argv[1]), sys.argv[2:]
if what == "read":
    print(note.read_text() if note.exists() else "", end="")
else:
    had = note.read_text().split() if note.exists() else []
    assert given[2:] == had  # compare and set
    note.write_text(" ".join(given[:2]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


@pytest.fixture(params=["file", "command"])
def anchor(request: pytest.FixtureRequest, path: Path, tmp_path: Path) -> Anchor:
    if request.param == "file":
        return FileAnchor(tmp_path / "note")
    return CommandAnchor([sys.executable, "-c", PROGRAM, str(tmp_path / "note")], path)


def spend(path: Path, anchor: Anchor | None) -> None:
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        ledger.record(charge(ledger, TENTH, {}), [])


def rolled_back(path: Path, anchor: Anchor) -> LedgerError:
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT, anchor=anchor)
    assert refused.value.code == "ledger-rolled-back" and refused.value.hint
    return refused.value


def test_the_head_is_noted_before_a_reservation_returns(path: Path, anchor: Anchor) -> None:
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        with ledger._journal.reading():
            assert anchor.read() == ledger._journal._last
        receipt = charge(ledger, TENTH, {})
        with ledger._journal.reading():
            assert anchor.read() == ledger._journal._last
        ledger.record(receipt, [])
        with ledger._journal.reading():
            assert anchor.read() == ledger._journal._last


def test_an_older_copy_is_refused(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    shutil.copy(path, path.with_name("copy"))
    spend(path, anchor)
    shutil.copy(path.with_name("copy"), path)
    rolled_back(path, anchor)


def test_an_older_copy_that_was_spent_past_the_anchor_is_refused(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    shutil.copy(path, path.with_name("copy"))
    spend(path, anchor)
    shutil.copy(path.with_name("copy"), path)
    for _ in range(3):
        spend(path, None)  # without looking at the anchor
    rolled_back(path, anchor)


def test_an_older_copy_under_an_open_session_is_refused_too(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    old = path.read_bytes()
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        spend(path, anchor)
        path.write_bytes(old)  # into the same file
        with pytest.raises(LedgerError):
            charge(ledger, TENTH, {})


def test_without_an_anchor_an_older_copy_passes_which_is_why_there_is_one(path: Path) -> None:
    """Theorem LEDGER-2 says so: the copy was a true ledger once, and its key is still its key."""
    spend(path, None)
    shutil.copy(path, path.with_name("copy"))
    spend(path, None)
    shutil.copy(path.with_name("copy"), path)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == TENTH


def test_a_ledger_that_is_gone_is_not_made_anew_while_its_anchor_is_there(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    path.unlink()
    assert "gone" in rolled_back(path, anchor).message and not path.exists()
    with pytest.raises(LedgerError):
        Ledger.create(path, ACCOUNT, anchor=anchor)
    assert not path.exists()


def test_a_newer_ledger_is_accepted_and_noted(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    spend(path, None)
    before = anchor.read()
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        assert ledger.balance.spent == Cost(Fraction(2, 10))
    after = anchor.read()
    assert before is not None and after is not None and after.count > before.count


def test_an_anchor_that_cannot_be_written_refuses_and_the_spend_stays_charged(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor = FileAnchor(tmp_path / "note")
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", _full)
            with pytest.raises(LedgerError) as refused:
                charge(ledger, TENTH, {})
            assert refused.value.code == "anchor-failed" and "stays charged" in (refused.value.hint or "")
        assert ledger.balance.spent == TENTH
        charge(ledger, TENTH, {})
        assert anchor.read() is not None


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_command_that_fails_to_write_leaves_the_spend_charged(path: Path, tmp_path: Path) -> None:
    fails = "import sys; sys.exit(sys.argv[1] == 'write')"
    with pytest.raises(LedgerError) as refused:
        spend(path, CommandAnchor([sys.executable, "-c", fails], path))
    assert refused.value.code == "anchor-failed" and "exit status 1 on write" in refused.value.message
    good = CommandAnchor([sys.executable, "-c", PROGRAM, str(tmp_path / "note")], path)
    with Ledger(path, ACCOUNT, anchor=good) as ledger:
        bad = CommandAnchor([sys.executable, "-c", fails], path)
        ledger._journal._anchor = bad
        with pytest.raises(LedgerError):
            charge(ledger, TENTH, {})
        assert ledger.balance.spent == TENTH


@pytest.mark.parametrize("text", ["x", "1", "0 " + "00" * 32, "-1 " + "00" * 32, "1 " + "0" * 63, "1 " + "g" * 64])
def test_an_anchor_that_says_something_else_is_refused(path: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "note").write_text(text)
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT, anchor=FileAnchor(tmp_path / "note"))
    assert refused.value.code == "anchor-failed" and not path.exists()


@pytest.mark.parametrize("command", [["/nowhere/at/all"], [sys.executable, "-c", "raise SystemExit(3)"]])
def test_a_command_that_cannot_be_run_is_refused(path: Path, command: list[str]) -> None:
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT, anchor=CommandAnchor(command, path))
    assert refused.value.code == "anchor-failed" and not path.exists()


def test_a_command_that_hangs_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "SECONDS", 0.2)
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT, anchor=CommandAnchor([sys.executable, "-c", "import time; time.sleep(60)"], path))
    assert "took more than" in refused.value.message


def test_a_smaller_count_never_replaces_a_larger_one(anchor: Anchor) -> None:
    for count in (3, 7, 5, 7, 6):
        anchor.write(Note(count, bytes([count]) * 32), lambda place: bytes([place]) * 32)
    assert anchor.read() == Note(7, b"\7" * 32)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_note_that_the_ledger_does_not_hold_is_never_overwritten(anchor: Anchor, count: int) -> None:
    anchor.write(Note(3, b"a" * 32), lambda _: None)
    anchor.write(Note(3, b"a" * 32), lambda _: b"a" * 32)
    with pytest.raises(LedgerError) as refused:
        anchor.write(Note(count, b"b" * 32), lambda _: b"b" * 32)
    assert refused.value.code == "ledger-rolled-back" and "another copy" in refused.value.message
    assert anchor.read() == Note(3, b"a" * 32)


class Overtaken(FileAnchor):
    """Something happens right after the note was read."""

    then: Callable[[], object] | None = None

    def read(self) -> Note | None:
        found = super().read()
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return found


@pytest.mark.parametrize("prices", [1, 2, 3])
def test_of_two_copies_that_pay_at_once_one_gets_its_receipt(path: Path, tmp_path: Path, prices: int) -> None:
    spend(path, FileAnchor(tmp_path / "note"))
    copy = tmp_path / "copy.sqlite"
    for end in ("", ".key"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    late = Overtaken(tmp_path / "note")
    with (
        Ledger(path, ACCOUNT, anchor=FileAnchor(tmp_path / "note")) as one,
        Ledger(copy, ACCOUNT, anchor=late) as other,
    ):
        late.then = lambda: charge(one, TENTH, {})
        with pytest.raises(LedgerError) as refused:
            other.reserve(lambda: None, lambda _: [Spend(TENTH, {})] * prices)
        assert refused.value.code == "ledger-rolled-back"
        charge(one, TENTH, {})


def test_a_command_that_keeps_another_note_is_refused(path: Path) -> None:
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT, anchor=CommandAnchor([sys.executable, "-c", ""], path))
    assert refused.value.code == "anchor-failed" and "says another" in refused.value.message


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_a_command_is_out_of_reach_of_the_terminals_ctrl_c(path: Path) -> None:
    alone = "import os, sys; sys.exit(os.getpgrp() != os.getpid())"
    assert CommandAnchor([sys.executable, "-c", alone], path).read() is None


def test_a_ledger_of_two_names_has_one_lock_for_its_command(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "l.sqlite"
    early = CommandAnchor(["x"], link)
    link.symlink_to(path)
    assert early._lock == CommandAnchor(["x"], link)._lock == CommandAnchor(["x"], path)._lock


def test_a_note_behind_a_link_is_written_where_it_lies(path: Path, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    (tmp_path / "note").symlink_to(tmp_path / "safe" / "note")
    spend(path, FileAnchor(tmp_path / "note"))
    assert (tmp_path / "note").is_symlink() and FileAnchor(tmp_path / "safe" / "note").read() is not None


@pytest.mark.parametrize("what", ["ledger", "note", "command", "command's ledger"])
def test_a_name_with_a_nul_is_refused_as_such(path: Path, tmp_path: Path, what: str) -> None:
    bad = tmp_path / "a\0b"
    make: dict[str, Callable[[], object]] = {
        "ledger": lambda: Ledger(bad, ACCOUNT),
        "note": lambda: Ledger(path, ACCOUNT, anchor=FileAnchor(bad)),
        "command": lambda: Ledger(path, ACCOUNT, anchor=CommandAnchor(["a\0b"], path)),
        "command's ledger": lambda: Ledger(bad, ACCOUNT, anchor=CommandAnchor(["a"], bad)),
    }
    with pytest.raises(LedgerError) as refused:
        make[what]()
    assert refused.value.hint and not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="flock")
def test_a_lock_that_the_system_refuses_is_an_error_of_the_anchor(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(fcntl, "flock", _full)
    with pytest.raises(LedgerError) as refused:
        spend(path, FileAnchor(tmp_path / "note"))
    assert refused.value.code == "anchor-failed" and "locked" in refused.value.message


def test_a_command_is_not_told_the_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_LEDGER_KEY", "ab" * 32)
    fails = "import os, sys; sys.exit('DPSQL_LEDGER_KEY' in os.environ)"
    assert CommandAnchor([sys.executable, "-c", fails], path).read() is None


def test_a_new_key_leaves_the_anchor_true(path: Path, anchor: Anchor) -> None:
    spend(path, anchor)
    noted = anchor.read()
    Ledger.rotate_key(path, anchor=None)  # interrupted, say, before the anchor was told
    assert anchor.read() == noted
    spend(path, anchor)


def test_a_ledger_in_memory_cannot_be_anchored_and_cannot_be_one_that_must_exist(anchor: Anchor) -> None:
    with pytest.raises(LedgerError):
        Ledger(":memory:", ACCOUNT, anchor=anchor)
    with pytest.raises(LedgerError):
        Ledger(":memory:", ACCOUNT, must_exist=True)


def test_a_ledger_that_must_exist_is_created_by_the_steward_alone(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LedgerError) as refused:
            Ledger(path, ACCOUNT, must_exist=True)
        assert refused.value.code == "ledger-missing"
        assert "`dpsql budget --create --steward`" in (refused.value.hint or "")
        assert not list(path.parent.iterdir())
    Ledger.create(path, ACCOUNT)
    with Ledger(path, ACCOUNT, must_exist=True) as ledger:
        charge(ledger, TENTH, {})
    with pytest.raises(LedgerError) as exists:
        Ledger.create(path, ACCOUNT)
    assert exists.value.code == "ledger-exists"
    path.unlink()
    with pytest.raises(LedgerError):
        Ledger(path, ACCOUNT, must_exist=True)


def _many(path: str, note: str, results: multiprocessing.Queue[str]) -> None:
    paid = 0
    try:
        for _ in range(20):
            try:
                with Ledger(path, ACCOUNT, anchor=FileAnchor(Path(note))) as ledger:
                    charge(ledger, Cost(Fraction(1, 30)), {})
                    paid += 1
            except BudgetError:
                break
        results.put(str(paid))
    except BaseException as error:
        results.put(repr(error))


def test_processes_that_share_an_anchored_ledger_spend_its_total_once(path: Path, tmp_path: Path) -> None:
    """None takes another's later note for a rollback, and the note ends at the ledger's end."""
    context = own_processes()
    results = context.Queue()
    note = tmp_path / "note"
    processes = [context.Process(target=_many, args=(str(path), str(note), results)) for _ in range(4)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    results.close()
    results.join_thread()
    assert sum(map(int, outcomes)) == 30, outcomes
    with Ledger(path, ACCOUNT, anchor=FileAnchor(note)) as ledger:
        assert ledger.balance.remaining.epsilon == 0
        with ledger._journal.reading():
            assert FileAnchor(note).read() == ledger._journal._last
