"""Work in a thread of its own: what it returns, raises, and how it is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import duckdb
import pytest

from dpsql.backends.base import Deadline, engine_failed
from dpsql.backends.duckdb.cursor import Cursor
from dpsql.core.concurrency import TimeUp, stoppable, to_the_end
from dpsql.core.errors import DataError

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("usual_signals")]

ENDLESS = "SELECT SUM(a.range * b.range) FROM range(10000000) a, range(10000000) b"


def press_ctrl_c() -> None:
    """As a terminal does: it is the main thread that gets it."""
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def test_work_returns_and_raises_as_if_it_were_called() -> None:
    assert to_the_end(lambda: 7) == 7
    error = KeyError("x")

    def fail() -> None:
        raise error

    with pytest.raises(KeyError) as raised:
        to_the_end(fail)
    assert raised.value is error


def test_work_past_its_time_is_interrupted_and_waited_for() -> None:
    stop, ended = threading.Event(), threading.Event()

    def work() -> None:
        stop.wait()
        ended.set()

    with pytest.raises(TimeUp):
        stoppable(work, stop.set, 0.01)
    assert ended.is_set()


def test_an_interruption_reaches_the_caller_unchanged_after_the_work_has_ended() -> None:
    interruption = KeyboardInterrupt("this very one")
    stop, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        stop.wait()
        ended.set()

    def handle(*_: object) -> None:
        raise interruption

    def press() -> None:
        begun.wait()
        press_ctrl_c()

    before = signal.signal(signal.SIGINT, handle)
    try:
        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt) as raised:
            stoppable(work, stop.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised.value is interruption and ended.is_set()


def test_a_signal_that_another_thread_got_is_seen_all_the_same() -> None:
    stop = threading.Event()
    threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        stoppable(stop.wait, stop.set)


def test_a_second_interruption_does_not_leave_the_work_running() -> None:
    begun, pressed, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        pressed.wait()
        ended.set()

    def press() -> None:
        begun.wait()
        for _ in range(5):
            time.sleep(0.05)
            press_ctrl_c()
        time.sleep(0.05)
        pressed.set()

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        to_the_end(work)
    assert ended.is_set()
    thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_two_signals_that_come_together_do_not_leave_the_work_running() -> None:
    """Both are pending when the process goes on: the second arrives while the first is being handled."""
    script = """
import os, signal, subprocess, time
from dpsql.core.concurrency import stoppable
def raising(number, frame):
    raise KeyboardInterrupt
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, raising)
told, ended = [], []
def work():
    for _ in range(3000):
        if told:
            break
        time.sleep(0.01)
    ended.append(True)
pid = os.getpid()
subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -STOP {pid}; kill -INT {pid}; kill -TERM {pid}; kill -CONT {pid}"])
try:
    stoppable(work, lambda: told.append(True))
except KeyboardInterrupt:
    print("told", bool(told), "ended", bool(ended))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "told True ended True\n"


def test_what_goes_wrong_with_the_interruption_does_not_leave_the_work_running() -> None:
    ended = threading.Event()

    def work() -> None:
        time.sleep(0.1)
        ended.set()

    def closed() -> None:
        raise duckdb.ConnectionException("Connection already closed")

    with pytest.raises(TimeUp):
        stoppable(work, closed, 0.01)
    assert ended.is_set()


def test_a_statement_past_its_deadline_is_stopped_with_a_constant_message_and_the_cursor_goes_on() -> None:
    cursor = Cursor(duckdb.connect(":memory:"))
    cursor.until = Deadline(time.monotonic() + 0.05, "50ms")
    for run in (cursor.arrow, cursor.rows, cursor.typed, lambda text: cursor.execute(text).fetchall()):
        with pytest.raises(DataError) as stopped:
            run(ENDLESS)
        assert str(stopped.value) == str(engine_failed()) and "longer than 50ms" in stopped.value.aside
    cursor.until = None
    assert cursor.rows("SELECT 1 AS one") == (["one"], [(1,)])
    cursor.close()


def test_many_threads_run_statements_at_once() -> None:
    connection = duckdb.connect(":memory:")
    found: list[int] = []

    def run(n: int) -> None:
        cursor = Cursor(connection.cursor())
        found.extend(cursor.rows(f"SELECT {n} + SUM(range) FROM range(1000)")[1][0][0] - 499_500 for _ in range(20))
        cursor.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(list(range(8)) * 20)
