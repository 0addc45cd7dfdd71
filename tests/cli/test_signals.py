"""Stop means stop: a query that would take hours ends when it is told to, the ledger right and nothing left behind.

Real processes, a real statement (one unit's 300,000 rows joined to themselves: 9·10¹⁰ rows) and real signals. Nothing
here asserts how long something takes; the limits only end a test whose process doesn't end.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.opening import account
from dpsql.backends.base import engine_failed
from dpsql.backends.duckdb.spill import PREFIX

if sys.platform == "win32":
    pytest.skip("there are no such signals here", allow_module_level=True)

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("usual_signals")]

ROOT = Path(__file__).parents[2]
POLICY = """
[budget]
epsilon = 100
delta = 1e-5
query_epsilon = 1

[engine]
folder = "spilled"

[privacy]
limits_share = 0
max_rows = 10

[tables.visits]
source = "visits.parquet"
unit = "who"
"""
ENDLESS = "SELECT COUNT(*) FROM visits a JOIN visits b ON a.who = b.who WHERE a.x <> b.x + 0.5"
SECONDS = 60
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a policy and data in which one unit has most of the rows."""
    rows = {"who": [1] * 300_000 + list(range(2, 100)), "x": [float(i) for i in range(300_098)]}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "spilled").mkdir()
    return tmp_path


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Start a command in the folder; what still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=place,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def states(place: Path) -> list[str]:
    """The spends of the account, as another process sees them."""
    if not (place / "policy.ledger.sqlite").exists():
        return []
    with Ledger(place / "policy.ledger.sqlite", account(dpsql.Policy.load(place / "policy.toml"))) as ledger:
        return [str(entry.state) for entry in ledger.history()]


def until_it_is_charged(place: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the ledger shows the spend; the statement begins right after."""
    deadline = time.monotonic() + SECONDS
    while not states(place):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)


def left_behind(place: Path) -> list[str]:
    return [p.name for p in (place / "spilled").iterdir() if p.name.startswith(PREFIX)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_statement_and_the_spend_stays(
    place: Path, start: Start, number: signal.Signals, code: int
) -> None:
    process = start("-m", "dpsql", "query", ENDLESS, "-o", "answer.csv")
    until_it_is_charged(place, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert out == ""
    assert err.startswith("stopped; the query stays charged (") and err.count("\n") == 1
    assert states(place) == ["reserved"]
    assert left_behind(place) == []
    assert sorted(p.name for p in place.iterdir() if "answer" in p.name) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_stewards_check_is_stopped_as_well(place: Path, start: Start, number: signal.Signals, code: int) -> None:
    policy = (place / "policy.toml").read_text()
    (place / "policy.toml").write_text(policy.replace('unit = "who"', 'unit = "who"\nkey = "x"'))
    slow = "import dpsql.refresh.promises as p, sqlglot as s\n"
    slow += f"p.one = lambda e, q, one=p.one: one(e, s.parse_one({ENDLESS!r}))\n"
    slow += "import sys; from dpsql.__main__ import main; sys.argv[1:] = ['check', '--steward']; main()"
    process = start("-c", slow)
    deadline = time.monotonic() + SECONDS
    while not left_behind(place):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (code, "")
    assert err.splitlines()[-1] == "stopped; nothing was charged" and "Traceback" not in err
    assert left_behind(place) == []


HOOK = """
import os, signal, sys
wanted, number = sys.argv[1], int(sys.argv[2])

class Signal:
    def find_spec(self, name, path=None, target=None):
        if name == wanted and Signal.armed:
            Signal.armed = False
            print("sent", file=sys.stderr)
            os.kill(os.getpid(), number)

Signal.armed = True
sys.meta_path.insert(0, Signal())
sys.argv[1:] = ["query", "SELECT COUNT(*) FROM visits"]
from dpsql.__main__ import main
main()
"""
IMPORTED = [
    "dpsql.cli.stop", "dpsql.cli.main", "click", "dpsql.session",
    "numpy", "sqlglot", "duckdb", "dpsql.engine", "pyarrow",
]  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.sample(2)
@pytest.mark.parametrize("module", IMPORTED)
def test_a_signal_while_things_are_imported_ends_without_a_traceback(
    place: Path, start: Start, module: str, number: signal.Signals, code: int
) -> None:
    process = start("-c", HOOK, module, str(int(number)))
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (code, "")
    sent, told = err.splitlines()
    # pyarrow is imported for the answer, when the query is paid for.
    charged = module == "pyarrow"
    assert sent == "sent" and told.startswith("stopped; the query stays" if charged else "stopped; nothing was")
    assert states(place) == ["reserved"] * charged
    assert left_behind(place) == []


WAITING = """
import sys
from dpsql.accounting import store

store.BUSY_SECONDS = 1e9
def asked(folder):
    print("waiting", flush=True)
    return False
store.are_missing = asked
from dpsql.__main__ import main
main()
"""


@pytest.mark.parametrize("held", ["BEGIN IMMEDIATE", "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("made", [True, False])
def test_a_signal_ends_the_wait_for_another_process_that_holds_the_ledger(
    place: Path, start: Start, held: str, number: signal.Signals, code: int, made: bool
) -> None:
    """While it is opened, and while a spend is to be recorded; the other process holds it all the time."""
    if made:
        query = ["-m", "dpsql", "query", "SELECT COUNT(*) FROM visits"]
        assert start(*query).wait(timeout=SECONDS) == 0
    else:
        assert start("-m", "dpsql", "check").wait(timeout=SECONDS) == 0
    spends = states(place)
    with closing(sqlite3.connect(place / "policy.ledger.sqlite", isolation_level=None)) as other:
        other.executescript(held)
        other.execute("SELECT * FROM head").fetchall()
        process = start("-c", WAITING, "query", "SELECT COUNT(*) FROM visits", "--fresh")
        assert process.stdout is not None and process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (code, "", "stopped; nothing was charged\n")
    assert states(place) == spends


HELD = """
import sqlite3
from dpsql.accounting.ledger import Ledger

def held(*arguments, record=Ledger.record):
    held.other = sqlite3.connect("policy.ledger.sqlite", isolation_level=None)
    held.other.execute("BEGIN IMMEDIATE")
    return record(*arguments)

Ledger.record = held
"""


def test_a_signal_ends_the_wait_to_record_what_was_measured_and_the_spend_stays(place: Path, start: Start) -> None:
    process = start("-c", HELD + WAITING, "query", "SELECT COUNT(*) FROM visits")
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and out.replace("waiting\n", "") == ""
    assert err.startswith("stopped; the query stays charged (") and err.count("\n") == 1
    assert states(place) == ["reserved"]


def test_the_folder_of_a_process_that_was_killed_goes_when_the_next_one_starts(place: Path, start: Start) -> None:
    process = start("-m", "dpsql", "query", ENDLESS)
    until_it_is_charged(place, process)
    assert len(left_behind(place)) == 1
    process.kill()
    process.wait(timeout=SECONDS)
    (dead,) = left_behind(place)
    alive = start("-m", "dpsql", "query", ENDLESS, "--fresh")
    deadline = time.monotonic() + SECONDS
    while len(states(place)) < 2:
        assert alive.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    (living,) = left_behind(place)
    assert living != dead
    # A third one removes what is dead, and only that.
    assert start("-m", "dpsql", "query", "SELECT COUNT(*) FROM visits").wait(timeout=SECONDS) == 0
    assert left_behind(place) == [living]


LIBRARY = """
import json, os, signal, sys, threading
import dpsql

session = dpsql.connect("policy.toml")
main = threading.current_thread()
started = threading.Event()
reserve = session._engine.ledger.reserve
def told(*a, **k):
    found = reserve(*a, **k)
    started.set()
    return found
session._engine.ledger.reserve = told

def press():
    started.wait()
    threading.Event().wait(0.5)
    os.kill(os.getpid(), signal.SIGINT)

other = []
def beside():
    for _ in range(20):
        other.append(len(session.query("SELECT COUNT(*) FROM visits", fresh=True).rows))

threads = [threading.Thread(target=press), threading.Thread(target=beside)]
try:
    for thread in threads[:1]:
        thread.start()
    session.query(ENDLESS)
except KeyboardInterrupt as interruption:
    print(type(interruption) is KeyboardInterrupt, interruption.args == ())
charged = session.charged
threads[1].start()
threads[1].join()
print(other == [1] * 20, charged is not None)
print(json.dumps([e.state for e in session._engine.ledger.history()]))
""".replace("ENDLESS", repr(ENDLESS))


def test_ctrl_c_reaches_whoever_uses_the_library_and_the_session_goes_on(place: Path, start: Start) -> None:
    process = start("-c", LIBRARY)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    first, second, third = out.splitlines()
    assert (first, second) == ("True True", "True True")
    assert json.loads(third) == ["reserved"] + ["released"] * 20


BESIDE = """
import os, signal, threading, time
import dpsql

session = dpsql.connect("policy.toml")
ended = []

def beside():
    session.query(ENDLESS, fresh=True)
    ended.append(True)

def press():
    while len(session._engine.ledger.history()) < 2:
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=beside)
thread.start()
threading.Thread(target=press).start()
try:
    session.query(ENDLESS, fresh=True)
except KeyboardInterrupt:
    thread.join(0.5)
    print("interrupted, and the other", "runs" if thread.is_alive() and not ended else "ended", flush=True)
os._exit(0)
""".replace("ENDLESS", repr(ENDLESS))


def test_ctrl_c_stops_ones_own_statement_and_no_other_threads(place: Path, start: Start) -> None:
    out, err = start("-c", BESIDE).communicate(timeout=SECONDS)
    assert out.splitlines() == ["interrupted, and the other runs"], err


def test_a_query_past_its_time_limit_stays_charged_and_gets_a_constant_message(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_ENGINE_TIMEOUT", "500ms")
    with dpsql.connect(place / "policy.toml") as session:
        with pytest.raises(dpsql.DataError) as stopped:
            session.query(ENDLESS)
        assert str(stopped.value).startswith(str(engine_failed())) and "longer than 500ms" in stopped.value.aside
        assert session.budget.spent.epsilon == 1
        assert session.query("SELECT COUNT(*) FROM visits").rows  # what is quick is still answered


def test_a_query_that_runs_out_of_memory_stays_charged_and_gets_a_constant_message(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_ENGINE_MEMORY", "12MB")
    monkeypatch.setenv("DPSQL_ENGINE_SPILL", "0GB")
    with dpsql.connect(place / "policy.toml") as session:
        with pytest.raises(dpsql.DataError) as failed:
            session.query("SELECT x, COUNT(DISTINCT who) FROM visits GROUP BY x", delta=1e-6, max_groups=2)
        assert failed.value.code == "engine" and "the query stays charged" in failed.value.message
        assert session.budget.spent.epsilon == 1
