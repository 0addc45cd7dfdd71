"""Commands of one installed dpsql, each in a fork of a process that has imported what all of them import.

Run by the python of an environment. A line of JSON on standard input is one command: the console script, its folder,
its words, its environment, and the files that are its three streams. A line with its exit code comes back. What a fork
runs is the console script; whether that imports all that it needs is seen where it is started as people start it.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import sys
import traceback

USUAL = ("dpsql.cli.main", "dpsql.session", "dpsql.sql.statements", "dpsql.answer.rehearse", "pyarrow.parquet")


def main() -> None:
    for name in USUAL:
        __import__(name)
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(script: str, folder: str, words: list[str], environment: dict[str, str], streams: list[str]) -> None:
    """Run the command, and end the process as its console script ends it."""
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")  # the parent's has read ahead
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script, *words]
    try:
        runpy.run_path(script, run_name="__main__")  # it ends the process
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
