"""One cell of the matrix: a command is run as people run it, and what it says is judged.

Every cell is an answer or a clear refusal: an exit code that docs/commands.md names, and a message with what to do.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import dpsql

REFUSALS = {2: "usage", 3: "refused", 4: "budget", 5: "policy or ledger", 6: "data"}
OURS = "|".join(name for name in dpsql.__all__ if name.endswith("Error"))
FOREIGN = re.compile(
    r"this is a bug in dpsql|Traceback \(most recent call last\)"
    rf"|\b(?!(?:{OURS})\b)[A-Z]\w*(?:Error|Exception)\b"
)
SECONDS = 300
"""After which a command hangs."""


@dataclass(frozen=True)
class Cell:
    """What one command did."""

    words: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def kind(self) -> str:
        """answer, refusal or failure."""
        if FOREIGN.search(self.stdout) or FOREIGN.search(self.stderr):
            return "failure"
        if self.code == 0:
            return "answer"
        told = any(word in self.stderr for word in ("help:", '"hint": "', "Usage:"))
        return "refusal" if self.code in REFUSALS and told else "failure"

    def __str__(self) -> str:
        return f"dpsql {' '.join(self.words)}: {self.code}\n{self.stdout[-2000:]}\n{self.stderr[-2000:]}"


STOPPED = -signal.SIGTERM, 128 + signal.SIGTERM
Ask = Callable[..., Cell]
"""`ask`, or `ask_a_fork`, which is quicker."""


def ask(script: Path, folder: Path, *words: str, stdin: str = "", **environment: str) -> Cell:
    """Run the console script in a folder, with an environment of next to nothing."""
    env = _bare(script, folder, environment)
    done = subprocess.run(
        [str(script), *words], cwd=folder, input=stdin, capture_output=True, text=True, env=env, timeout=SECONDS
    )
    return Cell(words, done.returncode, done.stdout, done.stderr)


def ask_a_fork(script: Path, folder: Path, *words: str, stdin: str = "") -> Cell:
    """The same, but for what every command imports first: that takes longer than most commands."""
    with tempfile.TemporaryDirectory() as name:
        streams = [Path(name, stream) for stream in ("stdin", "stdout", "stderr")]
        for path, text in zip(streams, (stdin, "", ""), strict=True):
            path.write_text(text, encoding="utf-8")
        command = (str(script), str(folder), words, _bare(script, folder, {}), [str(path) for path in streams])
        process = _preloaded(script)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        return Cell(words, code, *(path.read_text(encoding="utf-8") for path in streams[1:]))


def ask_a_server(script: Path, folder: Path, token: str, *words: str) -> tuple[Cell, Cell]:
    """Start `dpsql serve`, ask a command of it, and stop it: both cells. Where it refuses to begin, twice that."""
    env = _bare(script, folder, {})
    starting = (str(script), "serve", "--port", "0")
    with (folder / "served").open("w+", encoding="utf-8") as said:
        with subprocess.Popen(starting, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as on:
            try:
                address = _address(on, folder / "served")
                asked = ask(script, folder, *words, "--server", address, DPSQL_TOKEN=token) if address else None
            finally:
                on.terminate()
        said.seek(0)
        code = 0 if asked is not None and on.returncode in STOPPED else on.returncode
        served = Cell(("serve",), code, "", said.read())
    return served, asked or served


def _address(process: subprocess.Popen[bytes], said: Path) -> str | None:
    """Where a server listens, once it says so; None where it ends instead."""
    until = monotonic() + SECONDS
    while process.poll() is None and monotonic() < until:
        if found := re.search(r"serves .* at (http://\S+)", said.read_text(encoding="utf-8")):
            return found[1]
        sleep(0.1)
    return None


@cache
def _preloaded(script: Path) -> subprocess.Popen[str]:
    command = [str(script.with_name("python")), str(Path(__file__).with_name("preloaded.py"))]
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    atexit.register(process.kill)
    return process


def _bare(script: Path, folder: Path, more: dict[str, str]) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": f"{script.parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8", **more}


def counted(cells: Sequence[Cell]) -> str:
    """How many cells of each kind, for the summary of a run."""
    kinds = [cell.kind for cell in cells]
    return " ".join(str(kinds.count(kind)) for kind in ("answer", "refusal", "failure"))
