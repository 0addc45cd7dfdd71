"""The key lies outside of the ledger, and nothing in a ledger is believed without it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from support import charge

from dpsql.accounting import durable, fingerprint
from dpsql.accounting.anchor import FileAnchor, Note
from dpsql.accounting.fingerprint import FileMark, Source
from dpsql.accounting.journal import Journal
from dpsql.accounting.keys import NEXT, VARIABLE, Keys
from dpsql.accounting.ledger import Account, Kept, Ledger
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')
TENTH = Cost(Fraction(1, 10))
ONE, TWO = "11" * 32, "22" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


def key(path: Path) -> Path:
    return Path(f"{path}.key")


def make(path: Path) -> Path:
    with Ledger(path, ACCOUNT) as ledger:
        ledger.record(charge(ledger, TENTH, {}), [Kept("release", b"k", "{}", b"noisy")])
    return path


def spent(path: Path) -> Fraction:
    with Ledger(path, ACCOUNT) as ledger:
        return ledger.balance.spent.epsilon


def refusal(path: Path) -> LedgerError:
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT)
    assert refused.value.hint and refused.value.__cause__ is None
    return refused.value


def test_the_key_is_hexadecimal_text_that_its_owner_alone_can_read(path: Path) -> None:
    make(path)
    assert stat.S_IMODE(key(path).stat().st_mode) == 0o600
    text = key(path).read_text()
    assert len(bytes.fromhex(text)) == 32 and text.endswith("\n")


def test_neither_the_key_nor_the_secret_of_fingerprints_is_in_the_ledger(path: Path) -> None:
    journal = Journal(make(path), None)
    journal.store.close()
    for hidden in (journal.key, journal.secret):
        assert hidden not in path.read_bytes() and hidden.hex().encode() not in path.read_bytes()


def test_the_key_is_on_the_disk_before_the_ledger_has_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    link, sync = os.link, durable.sync_folder

    def linked(source: Path, target: Path) -> None:
        order.append(target.name)
        link(source, target)

    def synced(folder: Path) -> None:
        order.append("synced")
        sync(folder)

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(durable, "sync_folder", synced)
    make(path)
    assert order[:4] == ["l.sqlite.key.new", "synced", "l.sqlite", "synced"]
    assert key(path).exists() and not Path(f"{path}.key.new").exists()


def test_a_ledger_without_its_key_is_refused_and_gets_no_new_one(path: Path) -> None:
    key(make(path)).unlink()
    error = refusal(path)
    assert error.code == "key-missing" and VARIABLE in (error.hint or "")
    assert not key(path).exists()


def test_another_ledgers_key_is_refused(path: Path) -> None:
    make(path)
    shutil.copy(key(make(path.with_name("other"))), key(path))
    assert refusal(path).code == "key-wrong"


@pytest.mark.parametrize("text", [b"", b"0" * 63, b"0" * 66, b"x" * 64, b"\xff" * 64, "é".encode() * 32])
def test_a_damaged_key_is_refused(path: Path, text: bytes) -> None:
    key(make(path)).write_bytes(text)
    assert refusal(path).code == "key-damaged"


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620])
def test_a_key_that_others_can_read_or_write_is_refused(path: Path, mode: int) -> None:
    key(make(path)).chmod(mode)
    error = refusal(path)
    assert error.code == "key-exposed" and "chmod 600" in (error.hint or "")
    key(path).chmod(0o640)  # a group may share a ledger
    assert spent(path) == Fraction(1, 10)


def test_the_environment_may_hold_the_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, ONE)
    make(path)
    assert not key(path).exists() and spent(path) == Fraction(1, 10)
    monkeypatch.setenv(VARIABLE, TWO)
    assert refusal(path).code == "key-wrong"
    monkeypatch.delenv(VARIABLE)
    assert refusal(path).code == "key-missing"
    key(path).write_text(ONE)
    key(path).chmod(0o600)
    assert spent(path) == Fraction(1, 10)


@pytest.mark.parametrize("text", ["", "1234", "zz" * 32, "11" * 33])
def test_a_key_in_the_environment_that_is_none_is_refused(
    path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    error = refusal(path)
    assert error.code == "key-damaged" and VARIABLE in error.message and "64 hexadecimal digits" in error.message
    assert not path.exists()


def test_a_key_that_was_left_by_an_interrupted_creation_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def full(source: Path, target: Path) -> None:
        if target == path:
            raise OSError(28, "No space left on device")
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        refusal(path)
    left = Path(f"{path}.key.new").read_bytes()
    assert not key(path).exists()
    make(path)
    assert key(path).read_bytes() == left and not Path(f"{path}.key.new").exists()


def test_a_key_that_did_not_get_its_name_is_the_ledgers_and_gets_it_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            make(path)
    assert path.exists() and not key(path).exists()
    left = Path(f"{path}.key.new").read_bytes()
    make(path)
    assert spent(path) == Fraction(1, 10)
    assert key(path).read_bytes() == left and not Path(f"{path}.key.new").exists()


def test_a_key_whose_ledger_is_gone_begins_no_other_account(path: Path) -> None:
    """A deleted ledger would be a new one with the whole budget."""
    make(path).unlink()
    error = refusal(path)
    assert error.code == "ledger-missing" and "dpsql budget --create --steward" in (error.hint or "")
    assert not path.exists()
    Ledger.create(path, ACCOUNT)
    assert spent(path) == 0


def test_whoever_looks_while_another_creates_the_ledger_finds_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for the ledger and that for its key the other one is done with both."""
    ask, others = Keys.for_new_ledger, [True]

    def late(self: Keys, *, anew: bool = False) -> bytes:
        if others:
            others.clear()
            make(path)
        return ask(self, anew=anew)

    monkeypatch.setattr(Keys, "for_new_ledger", late)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent.epsilon == Fraction(1, 10)


# ---------------------------------------------------------------- a new key


def test_a_new_key_keeps_everything_and_the_old_one_is_worth_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**18))
    (tmp_path / "t.csv").write_text("a\n1\n")
    source = Source("t", (tmp_path / "t.csv",))
    with Ledger(make(path), ACCOUNT) as ledger:
        version = ledger.recognise([source])["t"]
        ledger.record_promise("t", "p", version, True)
    old = key(path).read_bytes()
    Ledger.rotate_key(path)
    assert key(path).read_bytes() != old and stat.S_IMODE(key(path).stat().st_mode) == 0o600
    assert not Path(f"{path}.key.new").exists()

    def unread(*_: object) -> FileMark:
        raise AssertionError("the file's mark is known")

    monkeypatch.setattr(fingerprint, "_read", unread)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == TENTH and len(ledger.stored(b"k")) == 1
        assert ledger.recognise([source])["t"] == version and ledger.promises("t", version) == {"p"}
        with ledger._store.snapshot() as db:
            assert db.execute("SELECT COUNT(*) FROM event WHERE kind = 'key'").fetchone() == (1,)
    key(path).write_bytes(old)
    assert refusal(path).code == "key-wrong"


def test_a_copy_from_before_is_refused_under_the_new_key(path: Path) -> None:
    shutil.copy(make(path), path.with_name("copy"))
    Ledger.rotate_key(path)
    shutil.copy(path.with_name("copy"), path)
    assert refusal(path).code == "key-wrong"


def test_sessions_that_are_open_take_the_new_key_over(path: Path) -> None:
    with Ledger(make(path), ACCOUNT) as ledger:
        for _ in range(3):
            Ledger.rotate_key(path)
            ledger.record(charge(ledger, TENTH, {}), [])
    assert spent(path) == Fraction(4, 10)


def test_in_the_environment_the_new_key_is_brought_along(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, ONE)
    make(path)
    with pytest.raises(LedgerError) as refused:
        Ledger.rotate_key(path)
    assert NEXT in (refused.value.hint or "") and spent(path) == Fraction(1, 10)
    monkeypatch.setenv(NEXT, ONE)
    with pytest.raises(LedgerError):
        Ledger.rotate_key(path)
    monkeypatch.setenv(NEXT, TWO)
    Ledger.rotate_key(path)
    assert refusal(path).code == "key-wrong"
    monkeypatch.setenv(VARIABLE, TWO)
    assert spent(path) == Fraction(1, 10)


ROTATE = """
import os, signal, sys
from dpsql.accounting import store
from dpsql.accounting.ledger import Ledger
sys.path.insert(0, sys.argv[3])
from crash_driver import Connection, Fuse
fuse = Fuse(int(sys.argv[2]))
connect = store._connect
store._connect = lambda where: Connection(connect(where), fuse)
for name in ("open", "write", "fsync", "link", "replace", "unlink", "close"):
    setattr(os, name, fuse.around(getattr(os, name)))
Ledger.rotate_key(sys.argv[1])
print(fuse.passed)
"""


def _rotate(path: Path, fuse: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ROTATE, str(path), str(fuse), str(Path(__file__).parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no kill -9 here")
def test_kill_9_while_the_key_changes_leaves_a_ledger_that_opens(path: Path, pytestconfig: pytest.Config) -> None:
    """At statements and calls of the system (some of them, and with --whole all)."""
    make(path)
    points = int(_rotate(path, 10**9).stdout)
    assert points > 60
    killed = 0
    step = 1 if pytestconfig.getoption("--whole") else 23
    for point in range(1, points, step):
        killed += _rotate(path, point).returncode == -9
        assert spent(path) == Fraction(1, 10)
    assert killed > points // (step + 1) // 2
    Ledger.rotate_key(path)
    assert spent(path) == Fraction(1, 10) and not Path(f"{path}.key.new").exists()


def test_a_change_that_was_interrupted_is_finished_by_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    old = key(path).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", killed)  # before it has its new name
        with pytest.raises(KeyboardInterrupt):
            Ledger.rotate_key(path)
    assert key(path).read_bytes() == old and spent(path) == Fraction(1, 10)
    rename = durable.replace
    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", lambda a, b: killed() if b == key(path) else rename(a, b))
        with pytest.raises(KeyboardInterrupt):  # after the ledger was told
            Ledger.rotate_key(path)
    assert Path(f"{path}.key.new").exists() and spent(path) == Fraction(1, 10)
    Ledger.rotate_key(path)
    assert not Path(f"{path}.key.new").exists() and spent(path) == Fraction(1, 10)


def test_a_planted_new_key_is_not_believed(path: Path, tmp_path: Path) -> None:
    """Somebody who never saw the key puts a history of his own there, with its key as the new one."""
    other = make(tmp_path / "other")
    with Ledger(make(path), ACCOUNT) as ledger:
        charge(ledger, TENTH, {})
    before = path.read_bytes()
    shutil.copyfile(other, path)
    new = Path(f"{path}.key.new")
    for text in (key(other).read_text(), f"{key(other).read_text().strip()} {ONE}\n"):
        new.write_text(text)
        new.chmod(0o600)
        assert refusal(path).code == "key-wrong"
    path.write_bytes(before)
    assert spent(path) == Fraction(2, 10)
    Ledger.rotate_key(path)
    assert spent(path) == Fraction(2, 10) and not new.exists()


@pytest.mark.skipif(os.name != "posix", reason="owners of files")
def test_a_key_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path)
    status = os.fstat

    def foreign(handle: int) -> os.stat_result:
        found = list(status(handle))
        found[stat.ST_UID] = 54321
        return os.stat_result(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", foreign)
        error = refusal(path)
    assert error.code == "key-exposed" and "54321" in error.message
    assert spent(path) == Fraction(1, 10)


def test_a_key_behind_a_link_is_changed_where_it_lies(path: Path, tmp_path: Path) -> None:
    make(path)
    safe = tmp_path / "safe"
    safe.mkdir()
    shutil.move(key(path), safe / "k")
    key(path).symlink_to(safe / "k")
    old = (safe / "k").read_bytes()
    Ledger.rotate_key(path)
    assert key(path).is_symlink() and (safe / "k").read_bytes() != old and list(safe.iterdir()) == [safe / "k"]
    assert spent(path) == Fraction(1, 10)


class Full(FileAnchor):
    """An anchor that takes no further note."""

    def _put(self, note: Note, before: Note | None) -> None:
        raise self._failed("can't be written: no space")


@pytest.mark.parametrize("outside", [False, True])
def test_an_anchor_that_fails_after_a_change_of_the_key_says_which_key_counts(
    path: Path, tmp_path: Path, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outside:
        monkeypatch.setenv(VARIABLE, ONE)
        monkeypatch.setenv(NEXT, TWO)
    good = FileAnchor(tmp_path / "note")
    Ledger(path, ACCOUNT, anchor=good).close()
    with pytest.raises(LedgerError) as refused:
        Ledger.rotate_key(path, anchor=Full(tmp_path / "note"))
    error = refused.value
    assert error.code == "anchor-failed" and "has the NEW key" in error.message and "no space" in error.message
    assert "keep both keys" in (error.hint or "") and "nothing was answered" not in (error.hint or "")
    if outside:
        assert refusal(path).code == "key-wrong"
        monkeypatch.setenv(VARIABLE, TWO)
    else:
        assert key(path).exists() and Path(f"{path}.key.new").exists()
    Ledger(path, ACCOUNT, anchor=good).close()


def test_an_error_before_a_change_of_the_key_does_not_speak_of_a_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)

    def failing(*_: object) -> None:
        raise LedgerError("no", code="x", hint="y")

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.accounting.journal.wrap", failing)
        with pytest.raises(LedgerError) as refused:
            Ledger.rotate_key(path)
    assert refused.value.message == "no"


def test_a_ledger_in_memory_keeps_its_key_in_memory() -> None:
    journal = Journal(":memory:", ACCOUNT)
    before = journal.key
    journal.rotate()
    assert journal.key != before and len(journal.key) == 32
    journal.store.close()
    assert len(Keys(None).candidates()) == 1
