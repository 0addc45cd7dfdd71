"""Ways to answer a query, run in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent


class Failed(Exception):
    """A way that can't answer: what its system says."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run took: seconds by the clock and of processors, the process's peak of memory in MB, the answer."""

    wall: float
    cpu: float
    peak: float
    answer: dict[str, Any] | None


class Worker:
    """A process of worker.py. Use it in a with statement."""

    def __init__(self, task: Mapping[str, Any], *, python: str = sys.executable, patience: float = 3600) -> None:
        self.patience = patience
        command = [python, "-m", "benchmarks.worker"]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=as_installed(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self._order(task)
        except BaseException:
            self.__exit__()
            raise

    def run(self, way: str, *, answer: bool = False) -> Taken:
        return Taken(**self._order({"way": way, "answer": answer}))

    def _order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        given, replies = self._process.stdin, self._process.stdout
        assert given is not None and replies is not None
        try:
            given.write(json.dumps(order) + "\n")
            given.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(replies, selectors.EVENT_READ)
                if not selector.select(self.patience):
                    raise Failed(f"more than {self.patience:,.0f} s")
            line = replies.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"the process ended with {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def as_installed() -> dict[str, str]:
    """The environment, with bytecode: without it Python would compile all of dpsql at each start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def in_turns(many: int, ways: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each way once a turn; every other turn backwards."""
    for turn in range(many):
        for way in ways if turn % 2 == 0 else reversed(ways):
            yield turn, way


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the most."""
    return {"median": median(values), "least": min(values), "most": max(values)}


def summary(runs: Sequence[Taken]) -> dict[str, Any]:
    """Seconds of a way's runs."""
    return {"runs": len(runs), "cpu": spread([r.cpu for r in runs]), "wall": spread([r.wall for r in runs])}
