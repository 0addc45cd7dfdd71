"""Threads that wait for each other: a lock of many readers, the time of a reply, and work that can be stopped."""

from __future__ import annotations

import threading
import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _thread import LockType

T = TypeVar("T")

# ---------------------------------------------------------------- many inside, or one alone


class ReadWriteLock:
    """A lock that many readers share, or one writer has alone. Whoever shares it must not ask for it alone."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._readers = 0
        self._has_writer = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Have the lock together with other readers; wait while a writer has it."""
        with self._moved:
            self._moved.wait_for(lambda: not self._has_writer)
            self._readers += 1
        try:
            yield
        finally:
            with self._moved:
                self._readers -= 1
                self._moved.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the lock alone; wait until no reader and no other writer has it."""
        with self._moved:
            self._moved.wait_for(lambda: not self._has_writer)
            self._has_writer = True
            try:
                self._moved.wait_for(lambda: not self._readers)
            except BaseException:
                self._has_writer = False
                self._moved.notify_all()
                raise
        try:
            yield
        finally:
            with self._moved:
                self._has_writer = False
                self._moved.notify_all()


# ---------------------------------------------------------------- a public moment before which nothing is seen


class TooLate(Exception):
    """The moment came before the work was done."""


class ReleaseTime:
    """The moment at which a paid query is answered: a fixed time after it came, whatever the rows hold.

    seconds, limit: the time as a number and as it was written. The moment is public, and no function of private rows.
    """

    def __init__(self, seconds: float, limit: str) -> None:
        self.seconds, self.limit = seconds, limit
        self._begun = self.until = monotonic()

    def settle(self) -> None:
        """Fix the moment, after the price is paid and before any row is read.

        The time is counted from when the query came; where planning, or waiting for another query, took more than half
        of it, from now.
        """
        now = monotonic()
        first = self._begun + self.seconds
        self.until = first if first - now >= self.seconds / 2 else now + self.seconds

    def held(self, work: Iterable[T]) -> Iterator[T]:
        """Yield all that `work` yields, or raise what `work` raised, when the moment has come.

        Raise TooLate where `work` isn't done by then. Then nobody sees what `work` has yielded or will yield: how far
        it came would tell more than whether it was done. `work` goes on in its thread until it finds that its time is
        up.
        """
        made: list[T] = []
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                for item in work:
                    made.append(item)
                ended.append(None)
            except BaseException as error:  # it belongs to whoever waits
                ended.append(error)

        threading.Thread(target=run, name="dpsql-held", daemon=True).start()
        while (left := self.until - monotonic()) > 0:
            time.sleep(left)
        # The one look: what is seen here is all that the moment tells (Assumption HOLD-1).
        finished = list(ended)
        if not finished:
            raise TooLate
        if finished[0] is not None:
            raise finished[0]
        yield from made


# ---------------------------------------------------------------- work that can be stopped

# Such work has a thread of its own, so that whoever waits for it can be interrupted. A statement on the main thread
# would keep Ctrl-C, and every other signal, waiting until it ends.

WAIT_SECONDS = 0.25
"""Of one wait: a signal that another thread got is seen between two of them."""
INTERRUPT_SECONDS = 0.02
"""Between two interruptions: an interruption that comes before a statement has begun is lost."""


class TimeUp(Exception):
    """The work took longer than it may, and was stopped."""


def stoppable(work: Callable[[], T], interrupt: Callable[[], None], seconds: float | None = None) -> T:
    """What `work` returns, or raises.

    If the wait ends early (by Ctrl-C or another signal's handler, or because the time is up: TimeUp), `interrupt` is
    called until the work has ended, and what ended the wait goes on up, unchanged. Nothing is left running.
    """
    done, outcome = allocate_lock(), list[tuple[bool, T | BaseException]]()
    started, given_up, ended = list[int](), list[bool](), list[bool]()
    done.acquire()

    def run() -> None:
        try:
            if not given_up:
                outcome.append((True, work()))
        except BaseException as error:  # it belongs to whoever waits
            outcome.append((False, error))
        finally:
            ended.append(True)
            done.release()

    end = partial(_end, started, given_up, ended, done, interrupt)
    early: BaseException | None = None
    # A handler may raise at any call, also while what another one raised is looked after: from here on there is no
    # call outside of a try until the work has ended.
    try:
        started.extend(map(start_new_thread, (run,), ((),)))  # one call: no signal comes between start and note
        if not _wait(done, seconds):
            early = TimeUp()
    except BaseException as error:  # a signal's handler raised it, wherever that was
        early = error
    if early is not None:
        try:
            end()
        except BaseException:  # another signal, before it could be caught there
            try:
                end()
            except BaseException:
                end()
        raise early
    returned, result = outcome.pop()
    if returned:
        return result  # type: ignore[return-value]  # of a work that returned
    try:
        raise result  # type: ignore[misc]  # of a work that raised
    finally:
        del result  # its traceback holds this frame


def _wait(done: LockType, seconds: float | None) -> bool:
    """Wait for the end; False: the time was up before."""
    end = None if seconds is None else monotonic() + seconds
    while True:
        left = WAIT_SECONDS if end is None else min(WAIT_SECONDS, max(end - monotonic(), 0))
        if done.acquire(timeout=left):
            return True
        if end is not None and monotonic() >= end:
            return False


def _end(
    started: list[int], given_up: list[bool], ended: list[bool], done: LockType, interrupt: Callable[[], None]
) -> None:
    """Keep the work from beginning, or interrupt it until it has ended; other signals change nothing."""
    while True:
        try:
            given_up.append(True)
            if ended or not started:
                return
            with suppress(Exception):  # a connection that somebody closed meanwhile has nothing to interrupt
                interrupt()
            done.acquire(timeout=INTERRUPT_SECONDS)
        except BaseException:  # what was raised first goes up
            continue


def to_the_end(work: Callable[[], T]) -> T:
    """What `work` returns. Whoever interrupts it waits until all of it is done: it is never left half-way."""
    return stoppable(work, lambda: None)
