"""A disk that fails at any call, that is full, or that loses its power: no ledger, or a whole one with every receipt.

What is covered: each write, truncation, sync, deletion, link and rename that creation, commit, checkpoint and closing
make, failing once or from then on, whole or half done; and the states that a disk may have after a power cut behind
each of them, with unsynced writes lost sector by sector (faulty_disk.py says how names are lost). SQLite is reached by
way of its VFS. Where its functions can't be reached, a limit on the size of files still makes writes fail everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UNREACHABLE = "this Python's SQLite hides its functions"
posix = pytest.mark.skipif(os.name != "posix", reason="calls of a POSIX system")


def drive(what: str, folder: Path, some: int = 0, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{before}\nimport disk_driver, sys; disk_driver.main(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    command = [sys.executable, "-c", code, what, str(folder), str(some)]
    with tempfile.TemporaryDirectory() as here:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=here)
        # SQLite names its files after the pointer that the patched VFS hands on: a stale one names files anywhere.
        assert os.listdir(here) == [], "SQLite was handed names that aren't the ledger's"  # noqa: PTH208
    return done


def found(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    if "unreachable" in result:
        pytest.skip(UNREACHABLE)
    return result


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: hundreds of ledgers are made, and each is synced dozens of times."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as made:
        yield Path(made)


@posix
def test_a_call_that_fails_leaves_no_ledger_or_a_whole_one(folder: Path, pytestconfig: pytest.Config) -> None:
    kinds = 4 if pytestconfig.getoption("--whole") else 1
    result = found(drive("faults", folder, kinds))
    assert result["calls"] > 100 and result["runs"] == kinds * result["calls"]
    assert 0 < result["ledgers"] < result["runs"]  # some failed while the ledger was made


@posix
def test_a_power_cut_leaves_no_ledger_or_a_whole_one(folder: Path, pytestconfig: pytest.Config) -> None:
    result = found(drive("power", folder, 40 if pytestconfig.getoption("--whole") else 3))
    assert result["states"] > 200 and 0 < result["ledgers"] < result["states"]


UNSYNCED_COMMITS = """
from dpsql.accounting import store
connect = store._connect
def careless(where):
    connection = connect(where)
    connection.execute("PRAGMA synchronous = OFF")
    return connection
store._connect = careless
"""
SILENT_CREATION = """
from dpsql.accounting import durable
from contextlib import contextmanager
import os
@contextmanager
def careless(path, content):
    made = path.with_name("draft")
    handle = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.write(handle, content)
    except OSError:
        pass
    os.close(handle)
    yield made
    os.unlink(made)
durable.draft = careless
"""


@posix
@pytest.mark.parametrize(
    ("what", "sabotage"),
    [("power", UNSYNCED_COMMITS), ("power", SILENT_CREATION), ("faults", SILENT_CREATION)],
    ids=["unsynced-commits", "unsynced-creation", "unnoticed-failure"],
)
def test_the_harness_notices_carelessness(what: str, sabotage: str, folder: Path) -> None:
    done = drive(what, folder, 3, sabotage)
    if done.returncode == 0 and "unreachable" in done.stdout:
        pytest.skip(UNREACHABLE)
    assert done.returncode == 1 and "Error" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]


LIMITED = """
import resource, shutil, signal, sys
from pathlib import Path
import disk_driver
from faulty_disk import Disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, disk = Path(sys.argv[1]) / "l", Disk()
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
folder.mkdir()
disk_driver.work(folder / "l.sqlite", disk)
largest = max(file.stat().st_size for file in folder.iterdir()) + 60_000
shutil.rmtree(folder)
ledgers = runs = 0
for limit in [*range(0, 100, 9), *range(100, largest, 1531)]:
    folder.mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    asked, given = disk_driver.work(folder / "l.sqlite", disk)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    ledgers += disk_driver.check(folder / "l.sqlite", asked, given, limit)
    runs += 1
    shutil.rmtree(folder)
print(runs, ledgers)
"""


@posix
def test_files_that_may_not_grow_leave_no_ledger_or_a_whole_one(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    command = [sys.executable, "-c", LIMITED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    runs, ledgers = map(int, done.stdout.split())
    assert runs > 50 and 0 < ledgers < runs
