"""Ctrl-C and SIGTERM: the command ends at once, cleans up, and says whether anything was charged.

Until a command makes or opens something there is nothing to clean up, and the process just ends: an exception in the
middle of an import would come out as any other. From then on KeyboardInterrupt is raised, for both signals.
"""

from __future__ import annotations

import os
import signal
import sys
from time import monotonic

TYPE_CHECKING = False  # typing takes time to import, and a signal before install() isn't ours yet
if TYPE_CHECKING:
    from types import FrameType

    from dpsql.accounting.account import Receipt
    from dpsql.session import Session


AGAIN = 1.0  # seconds


class _State:
    received = 0
    raised = float("-inf")
    careful = False
    session: Session | None = None
    before: Receipt | None = None  # its last spend when it was watched first


def install() -> None:
    """Take the signals over, unless whoever started the process had them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(number: int, _: FrameType | None) -> None:
    _State.received = _State.received or number
    if not _State.careful:
        os.write(2, f"{_line(None)}\n".encode())
        os._exit(128 + number)
    now = monotonic()
    if now - _State.raised > AGAIN:  # two that come together are one
        _State.raised = now
        raise KeyboardInterrupt


def careful() -> None:
    """From now on there is something to clean up."""
    _State.careful = True
    if _State.received:  # something in between took the exception for itself
        raise KeyboardInterrupt


def watch(session: Session | None) -> None:
    """The session whose spend from now on is told when the command is stopped."""
    _State.session = session
    _State.before = None if session is None else session.charged
    careful()


def begin() -> None:
    """A command begins, with no signal received and no session opened."""
    _State.received, _State.session = 0, None


def received() -> bool:
    """Has a signal come?"""
    return _State.received != 0


def stopped() -> int:
    """Say that the command was stopped, and whether anything was charged; the exit code."""
    _tell()
    return 128 + (_State.received or signal.SIGINT)


def go_on(session: Session) -> None:
    """Ctrl-C ended one statement of several: say whether it was charged, and let the command go on.

    SIGTERM ends the command, too: then KeyboardInterrupt is raised.
    """
    if _State.received == signal.SIGTERM:
        raise KeyboardInterrupt
    _tell()
    _State.received = 0
    watch(session)


def _tell() -> None:
    session = _State.session
    receipt = None if session is None or session.charged is _State.before else session.charged
    charged = None if receipt is None else receipt.id
    print(_line(charged, unsure=session is not None and session.paying), file=sys.stderr, flush=True)


def _line(charged: str | None, *, unsure: bool = False) -> str:
    if unsure:
        return "stopped while it was paid for: `dpsql budget --history` says whether it was charged"
    return "stopped; nothing was charged" if charged is None else f"stopped; the query stays charged ({charged[:8]})"


def ignore() -> None:
    """The process is ending: further signals change nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
