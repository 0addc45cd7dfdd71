"""Is the Spark that is waited for still there? And who stops its work, where this process is gone?

Spark's own client waits for more than ten minutes for a server that is gone. Here it is asked for a word every few
seconds while a statement runs, and whoever waits is told when no answer comes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

BEAT = 5.0  # seconds between two questions
ANSWER = 25.0  # seconds in which each must be answered: a driver may be collecting garbage
GOODBYE = 10.0  # seconds for an interruption, and for the end of a session
RETRIES, FIRST_PAUSE, LONGEST_PAUSE = 6, 200, 4000  # of a call that reaches nobody: 11 seconds, pauses in milliseconds
LEAVE = b"leave"
_LEFT_BEHIND = Path(__file__).with_name("left_behind.py")


def be_impatient(client: Any) -> None:
    """Let the calls of a client of Spark Connect fail in seconds where nobody answers, and end where one hangs.

    The call that has a statement's rows has no limit here: whoever makes it sets one, and looks for beats meanwhile.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client.set_retry_policies(
        [
            DefaultPolicy(
                max_retries=RETRIES,
                initial_backoff=FIRST_PAUSE,
                max_backoff=LONGEST_PAUSE,
                backoff_multiplier=2,
                jitter=0,
                max_server_retry_delay=LONGEST_PAUSE,
            )
        ]
    )
    client._rpc_deadlines = replace(
        client._rpc_deadlines,
        config=ANSWER,
        interrupt=GOODBYE,
        release_session=GOODBYE,
        get_status=ANSWER,
        fetch_error_details=GOODBYE,
    )


@contextmanager
def beating(ask: Callable[[], object], gone: Callable[[], None]) -> Iterator[None]:
    """Ask something small again and again, as long as the context lasts; `gone` is called where that fails, once."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(BEAT):
            try:
                ask()
            except Exception:
                if not over.is_set():
                    gone()
                return

    threading.Thread(target=watch, name="dpsql-spark-alive", daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Heir:
    """A small process that ends a session where this one is gone without a word: killed, or out of memory.

    A server goes on with a statement for minutes after nobody waits for it, and the next one would wait behind it. The
    address may hold a token: it is told through a pipe, which nobody else reads.
    """

    def __init__(self, url: str, client: Any) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        session = {"url": url, "session": client._session_id, "user": client._user_id, "path": sys.path}
        with suppress(OSError):  # where no process can be started, the server's own limits are what there is
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_LEFT_BEHIND)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=os.name == "posix",  # Ctrl-C in a terminal is for this process alone
            )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(session).encode() + b"\n")
            self._process.stdin.flush()

    def leave(self) -> None:
        """There is nothing to end any more. Never fails."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError, ValueError, subprocess.TimeoutExpired):
                process.communicate(LEAVE, timeout=GOODBYE)
