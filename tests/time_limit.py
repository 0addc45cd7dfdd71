"""A test that doesn't end fails, with the stacks of all threads and of the processes that it started.

pytest-timeout says how long a test may take (`timeout` in pyproject.toml, --timeout, the mark `timeout`). Its own dump
goes to a terminal that workers of pytest-xdist don't have, so that it is made here, and belongs to the test's report. A
main thread that looks at no signals is ended LATER, with its whole process: then the stacks are on standard error, and
pytest-xdist says in which test its worker ended.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

AGAIN = 20.0  # seconds until it is said once more to a test that took the first failure for something else
LATER = 60.0  # seconds after the limit at which the process is ended
FAULTS = "PYTHONFAULTHANDLER"  # with it, Python's processes write their stacks when they are aborted
LONGEST = 20_000  # characters of one process


_ERRORS: list[int] = []  # standard error, as it was before tests' output was captured


def pytest_configure() -> None:
    os.environ[FAULTS] = "1"  # for processes that tests start
    _ERRORS.append(os.dup(2))


def pytest_unconfigure() -> None:
    os.close(_ERRORS.pop())


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Start the clock of a test. None: this system has no such signal, or somebody wants another way."""
    faulthandler.dump_traceback_later(settings.timeout + LATER, exit=True, file=_ERRORS[-1])
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None
    begun = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0

    def end(_: int, frame: FrameType | None) -> None:
        item.add_report_section("call", "stacks", _stacks(frame) + "".join(_processes(begun)))
        pytest.fail(f"no end after {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN)
    return True


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Stop the clock."""
    faulthandler.cancel_dump_traceback_later()
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


def pytest_enter_pdb() -> None:
    """Whoever looks at a test with a debugger has time."""
    faulthandler.cancel_dump_traceback_later()
    if hasattr(signal, "SIGALRM"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stacks(main: FrameType | None) -> str:
    """Where each thread is. main: where the main thread was when the signal came."""
    frames = sys._current_frames()
    pieces = []
    for thread in threading.enumerate():
        frame = main if thread is threading.main_thread() else frames.get(thread.ident or 0)
        pieces.append(f"thread {thread.name}\n{''.join(traceback.format_stack(frame)) if frame else ''}")
    known = {thread.ident for thread in threading.enumerate()}
    pieces += [
        f"a thread that isn't Python's\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames.items()
        if ident not in known
    ]
    return "\n".join(pieces)


# ---------------------------------------------------------------- processes, where /proc has them


def _processes(begun: float) -> Iterator[str]:
    """What the processes are that were started since, and their last words: Python's are aborted, and say where."""
    if not Path("/proc/self/stat").exists():
        return
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, started in _descendants():
        if started < begun - 1 / ticks:
            continue  # other tests' as well
        with suppress(OSError):  # it has ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield f"\nprocess {pid}: {command[:500]}\n{_last_words(pid)}"


def _descendants() -> list[tuple[int, float]]:
    """The processes below this one, and when they began, in seconds since the machine did."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, starts = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], starts[pid] = int(fields[1]), int(fields[19]) / ticks
    found = [os.getpid()]
    for parent in found:
        found += [pid for pid, its in parents.items() if its == parent]
    return [(pid, starts[pid]) for pid in found[1:]]


def _last_words(pid: int) -> str:
    """Abort a process of Python's that shows its stacks then; what it wrote to standard error."""
    if f"{FAULTS}=".encode() not in Path(f"/proc/{pid}/environ").read_bytes():
        return ""
    if "python" not in Path(f"/proc/{pid}/exe").readlink().name:
        return ""
    # Whoever waits for the process has the other end of this pipe or file, and waits here: nobody else reads it.
    handle = os.open(f"/proc/{pid}/fd/2", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.kill(pid, signal.SIGABRT)
        said, until = b"", time.monotonic() + 5
        while time.monotonic() < until and (_alive(pid) or not said):
            with suppress(BlockingIOError):
                said += os.read(handle, LONGEST)
            time.sleep(0.05)
        with suppress(BlockingIOError):
            said += os.read(handle, LONGEST)
    finally:
        os.close(handle)
    return said[-LONGEST:].decode(errors="replace")


def _alive(pid: int) -> bool:
    """Is it still running? One that nobody has waited for yet isn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
