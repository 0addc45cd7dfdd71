"""A nightly job that survives a crash half-way: python nightly.py 2026-11-14

What was paid for is recorded before it is written; the next start goes on where this one ended. `--crash` ends the
process, as a power cut would, when the first query is paid for and the second one isn't.
"""

import logging
import os
import sys

from dpsql.jobs import run


class Crash(logging.Handler):
    """Ends the process at the first thing that is released: no clean-up, no flush."""

    def emit(self, record: logging.LogRecord) -> None:
        os._exit(137)


logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
if "--crash" in sys.argv:
    logging.getLogger("dpsql").addHandler(Crash())
run("release.toml", params={"date": sys.argv[1]})
