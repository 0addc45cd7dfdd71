"""A process of its own (alive.py): it ends a session of Spark Connect when the process that has it is gone.

It reads one line, which says which session, and waits. A word after that means that the session was ended; the end of
the input without one, that its process is gone. Nothing but Python's own modules is loaded before.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress


def main() -> None:
    """Wait, and end the session where nobody else did."""
    told = sys.stdin.buffer.readline()
    if sys.stdin.buffer.read() or not told:
        return
    session = json.loads(told)
    sys.path[:] = session["path"]
    with suppress(Exception):
        end(session["url"], session["session"], session["user"])


def end(url: str, session: str, user: str | None) -> None:
    """Interrupt what a session runs, and end it."""
    from dpsql.backends.spark.alive import be_impatient
    from dpsql.backends.spark.server import connect_module

    connect_module()
    from pyspark.sql.connect.client import SparkConnectClient

    client = SparkConnectClient(connection=url, user_id=user)
    client._session_id = session  # the one of whom it inherits
    be_impatient(client)
    try:
        with suppress(Exception):
            client.interrupt_all()
        client.release_session()
    finally:
        client.close()


if __name__ == "__main__":
    main()
