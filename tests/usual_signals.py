"""Signals do what they do to a program in a terminal, whoever started the tests.

A shell without job control starts background jobs with SIGINT and SIGQUIT ignored, nohup and services with SIGHUP, and
processes inherit it. Tests of signals, and tests that start what they send signals to, say so:

    pytestmark = pytest.mark.usefixtures("usual_signals")

Others leave them alone: who ignores the end of a terminal wants the tests to go on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    **{getattr(signal, name): signal.SIG_DFL for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name)},
}


@contextmanager
def usual() -> Iterator[None]:
    """Inside of it these signals are neither ignored nor blocked, in this process and in those that it starts."""
    before = {number: signal.getsignal(number) for number in USUAL}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, USUAL) if hasattr(signal, "pthread_sigmask") else None
    for number, handler in USUAL.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # not set from Python: nobody could set it again
                signal.signal(number, handler)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
