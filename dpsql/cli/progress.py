"""A sign of life while a command works for longer: for people at a terminal alone.

How long a query takes is outside of the guarantee: nothing of this is ever written to a file or a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from dpsql.core.doing import done_now

PATIENCE = 1.0  # seconds before anything is shown
EVERY = 0.25  # seconds from one sign to the next
SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CLEAR = "\r\x1b[K"
_SHOWN: list[Event] = []  # the one that is shown


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[], None]]:
    """Show, after a second, what is being done and for how long; yields what ends that, and ends with the block.

    A block inside of another one shows nothing of its own.
    """
    if quiet or _SHOWN or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda: None
        return
    done = Event()
    _SHOWN.append(done)
    thread = Thread(target=_signs, args=(done,), daemon=True)

    def end() -> None:
        if not done.is_set():
            done.set()
            thread.join()
            _SHOWN.clear()

    thread.start()
    try:
        yield end
    finally:
        end()


def _signs(done: Event) -> None:
    begun, shown = monotonic(), 0
    if done.wait(PATIENCE):
        return
    while True:
        sys.stderr.write(f"{CLEAR}{SIGNS[shown % len(SIGNS)]} {done_now() or 'working'}, {monotonic() - begun:.0f} s")
        sys.stderr.flush()
        shown += 1
        if done.wait(EVERY):
            break
    sys.stderr.write(CLEAR)
    sys.stderr.flush()
