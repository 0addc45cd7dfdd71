"""One cell of the matrix: a command is run as people run it, and what it says is judged.

Every cell is an answer or a clear refusal: an exit code that docs/commands.md names, and a message with what to do.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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


def ask(script: Path, folder: Path, *words: str, stdin: str = "", **environment: str) -> Cell:
    """Run the console script in a folder, with an environment of next to nothing."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": f"{script.parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8", **environment}
    done = subprocess.run(
        [str(script), *words], cwd=folder, input=stdin, capture_output=True, text=True, env=env, timeout=SECONDS
    )
    return Cell(words, done.returncode, done.stdout, done.stderr)


def counted(cells: Sequence[Cell]) -> str:
    """How many cells of each kind, for the summary of a run."""
    kinds = [cell.kind for cell in cells]
    return " ".join(str(kinds.count(kind)) for kind in ("answer", "refusal", "failure"))
