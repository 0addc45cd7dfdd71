"""Work that can be stopped while it runs: it has a thread of its own, so that whoever waits for it can be interrupted.

A statement on the main thread would keep Ctrl-C, and every other signal, waiting until it ends.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _thread import LockType

T = TypeVar("T")

SLICE, PATIENCE = 0.25, 0.02
"""Seconds of one wait; and between two interruptions: one that comes before a statement has begun is lost."""


class TimeUp(Exception):
    """The work took longer than it may, and was stopped."""


def stoppable(work: Callable[[], T], interrupt: Callable[[], None], seconds: float | None = None) -> T:
    """What `work` returns, or raises.

    If the wait ends early (by Ctrl-C or another signal's handler, or because the time is up: TimeUp), `interrupt` is
    called until the work has ended, and what ended the wait goes on up, unchanged. Nothing is left running.
    """
    claim, done, outcome = allocate_lock(), allocate_lock(), list[tuple[bool, T | BaseException]]()
    done.acquire()

    def run() -> None:
        if not claim.acquire(blocking=False):
            return  # given up before it began
        try:
            outcome.append((True, work()))
        except BaseException as error:  # it belongs to whoever waits
            outcome.append((False, error))
        finally:
            done.release()

    early: BaseException | None = None
    try:
        start_new_thread(run, ())
        if not _wait(done, seconds):
            early = TimeUp()
    except BaseException as error:  # a signal's handler raised it, wherever that was
        early = error
    if early is not None:
        if not claim.acquire(blocking=False):
            _end(done, interrupt)
        raise early
    good, found = outcome.pop()
    if good:
        return found  # type: ignore[return-value]  # of a work that returned
    try:
        raise found  # type: ignore[misc]  # of a work that raised
    finally:
        del found  # its traceback holds this frame


def _wait(done: LockType, seconds: float | None) -> bool:
    """Wait for the end; False: the time was up before. A signal that another thread got is seen between two waits."""
    end = None if seconds is None else monotonic() + seconds
    while True:
        left = SLICE if end is None else min(SLICE, max(end - monotonic(), 0))
        if done.acquire(timeout=left):
            return True
        if end is not None and monotonic() >= end:
            return False


def _end(done: LockType, interrupt: Callable[[], None]) -> None:
    """Interrupt the work until it has ended; a second Ctrl-C does no more than the first."""
    while True:
        try:
            with suppress(Exception):  # a connection that somebody closed meanwhile has nothing to interrupt
                interrupt()
            if done.acquire(timeout=PATIENCE):
                return
        except KeyboardInterrupt:
            continue


def to_the_end(work: Callable[[], T]) -> T:
    """What `work` returns. Whoever interrupts it waits until all of it is done: it is never left half-way."""
    return stoppable(work, lambda: None)
