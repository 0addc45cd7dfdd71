"""File systems that lock no files, and such that are mounted for reading alone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from support import charge

from dpsql.accounting import durable, store
from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

if sys.platform == "win32":
    pytest.skip("locks of a POSIX system", allow_module_level=True)

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')
UNREACHABLE = "SQLite's functions can't be reached here"

WITHOUT = """
import ctypes, errno, fcntl, sys
import _sqlite3

class Vfs(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("size", ctypes.c_int), ("longest", ctypes.c_int),
                *((f"slot{n}", ctypes.c_void_p) for n in range(16)), ("set_call", ctypes.c_void_p)]

FCNTL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, use_errno=True)
SET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
number = int(sys.argv[1])

def refused(*_):
    ctypes.set_errno(number)
    return -1

def refused_in_python(*_):
    raise OSError(number, "no locks")

try:
    find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
except AttributeError:
    print("unreachable")
    sys.exit()
find.restype, find.argtypes = ctypes.POINTER(Vfs), [ctypes.c_char_p]
vfs = find(None)
kept = FCNTL(refused)
assert SET(vfs.contents.set_call)(ctypes.cast(vfs, ctypes.c_void_p), b"fcntl", ctypes.cast(kept, ctypes.c_void_p)) == 0
fcntl.lockf = refused_in_python

from fractions import Fraction
from dpsql.accounting import store
from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.errors import LedgerError

store.BUSY_SECONDS = 1e9  # whoever takes it for another process waits for ever
try:
    Ledger(sys.argv[2], Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}'))
except LedgerError as error:
    print(error.code, error.hint, sep="\\n")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "l.sqlite"
    with Ledger(made, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1, 10)), {"sql": "SELECT 1"})
    return made


@pytest.mark.parametrize("number", ["ENOLCK", "ENOTSUP", "ENOSYS"])
def test_a_file_system_without_locks_is_not_taken_for_another_process(path: Path, number: str) -> None:
    import errno

    command = [sys.executable, "-c", WITHOUT, str(getattr(errno, number)), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.stdout == "unreachable\n":
        pytest.skip(UNREACHABLE)
    assert done.stdout.startswith("ledger-no-locks\n") and "local disk" in done.stdout, done.stderr


def test_a_lock_that_is_held_is_no_missing_one(path: Path) -> None:
    assert not durable.are_missing(path.parent)
    assert not durable.are_missing(path.parent / "nowhere")


def test_a_ledger_that_is_held_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first wait of each looks whether there are locks at all."""
    asked: list[Path] = []

    def are_missing(folder: Path) -> bool:
        asked.append(folder)
        return durable.are_missing(folder)

    monkeypatch.setattr(store, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(store, "are_missing", are_missing)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Ledger(path, ACCOUNT) as ledger:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(LedgerError) as error:
                charge(ledger, Cost(Fraction(1, 10)), {})
            assert error.value.code == "ledger-busy" and "nothing was spent" in (error.value.hint or "")
        other.execute("COMMIT")
        charge(ledger, Cost(Fraction(1, 10)), {})
    assert asked == [path.parent] * 2


READ = """
import sys
from fractions import Fraction
from dpsql.accounting.ledger import Account, Ledger

with Ledger(sys.argv[1], Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}'), only_read=True) as l:
    print(l.balance.spent.epsilon, len(l.history()))
"""


def mounted(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run this where the file's folder is mounted for reading alone."""
    folder = str(path.parent)
    mount = f"mount --bind '{folder}' '{folder}' && mount -o remount,ro,bind '{folder}' && exec \"$@\""
    command = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    return subprocess.run([*command, sys.executable, "-c", code, str(path)], capture_output=True, text=True)


@pytest.mark.parametrize("logged", [False, True])
def test_a_ledger_on_a_read_only_mount_is_read(path: Path, logged: bool) -> None:
    if not logged:
        done = mounted(path, READ)
    else:  # somebody was killed, or still has it open where it can be written
        with Ledger(path, ACCOUNT) as ledger:
            charge(ledger, Cost(Fraction(1, 10)), {"sql": "SELECT 2"})
            done = mounted(path, READ)
    assert done.stdout.split() == (["1/5", "2"] if logged else ["1/10", "1"]), done.stderr


def test_nothing_is_spent_on_a_read_only_mount(path: Path) -> None:
    done = mounted(path, READ.replace(", only_read=True", ""))
    assert done.returncode != 0 and "can't be opened" in done.stderr


def test_a_file_that_cannot_change_is_opened_without_a_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a read-only mount needs, on a disk that isn't one."""
    monkeypatch.setattr(store, "_mode", lambda path, only_read: store.UNCHANGING if only_read else "mode=rw")
    with Ledger(path, ACCOUNT, only_read=True) as ledger:
        assert ledger.balance.spent.epsilon == Fraction(1, 10) and len(ledger.history()) == 1
        assert sorted(file.name for file in path.parent.iterdir()) == ["l.sqlite", "l.sqlite.key"]
        with pytest.raises(LedgerError) as error:
            charge(ledger, Cost(Fraction(1, 10)), {})
        assert error.value.code == "ledger-unwritable"
