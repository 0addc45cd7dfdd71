"""Run by test_crash.py in a process of its own: queries that are killed at a fault point, over and over.

Fault points are before and after each statement that the ledger's connection runs, and between the stages of the
pipeline. The process that is killed is a fork, made before anything is opened. What a query does that others could see
goes through a pipe: that it is about to read rows, and what it answered.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpsql
import dpsql.run as pipeline
from dpsql.accounting import ledger as ledgers
from dpsql.accounting import store
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.opening import account
from dpsql.backends.duckdb import backend
from dpsql.store.archive import replays

SQL = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k"


class Fuse:
    """Kills the process when as many fault points have been passed."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.passed = 0

    def hit(self) -> None:
        self.passed += 1
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            self.hit()
            result = function(*arguments, **named)
            self.hit()
            return result

        return wrapped


class Connection:
    """A SQLite connection with a fault point around each statement."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self.execute = fuse.around(inner.execute)
        self.executemany = fuse.around(inner.executemany)
        self.executescript = fuse.around(inner.executescript)
        self.serialize = fuse.around(inner.serialize)
        self.close = fuse.around(inner.close)
        self._inner = inner

    @property
    def in_transaction(self) -> bool:
        return bool(self._inner.in_transaction)


def query(policy: Path, fuse: Fuse, tell: Callable[[object], None]) -> None:
    """One query, with fault points everywhere."""
    connect, execute = store._connect, vars(backend)["execute"]
    store._connect = lambda where: Connection(connect(where), fuse)  # type: ignore[assignment, return-value]
    for name in ("release", "finish", "keep"):
        setattr(pipeline, name, fuse.around(getattr(pipeline, name)))
    for name in ("reserve", "record", "answered"):
        setattr(ledgers.Ledger, name, fuse.around(getattr(ledgers.Ledger, name)))

    def read(*arguments: Any) -> Any:
        fuse.hit()
        tell("reading")
        fuse.hit()
        return execute(*arguments)

    vars(backend)["execute"] = fuse.around(read)
    with dpsql.connect(policy) as session:
        fuse.hit()
        answer = session.query(SQL, epsilon="0.001", fresh=True)
        tell([answer.receipt.id, answer.to_arrow().to_pylist()])
        fuse.hit()


def attempt(policy: Path, length: int) -> tuple[list[Any], int | None, int]:
    """Fork, query, die (or not): what was seen, how many points were passed if it lived, and the exit status."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        fuse = Fuse(length)

        def tell(what: object) -> None:
            os.write(writer, json.dumps(what).encode() + b"\n")

        code = 1
        try:
            query(policy, fuse, tell)
            tell(fuse.passed)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        seen = [json.loads(line) for line in pipe.read().splitlines()]
    _, status = os.waitpid(child, 0)
    passed = seen.pop() if status == 0 else None
    return seen, passed, status


def main(folder: str, trials: int) -> None:
    policy = Path(folder) / "policy.toml"
    attempt(policy, 10**9)  # makes the ledger
    _, points, status = attempt(policy, 10**9)
    assert status == 0 and points is not None and points > 40, (points, status)
    reads, answers, killed, steps = 2, 2, 0, set()
    trial = 0
    while killed < trials:
        point = 1 + (trial * points // trials if trials < points else trial) % points
        trial += 1
        seen, _, status = attempt(policy, point)
        assert status in (signal.SIGKILL, 0), status
        killed += status == signal.SIGKILL
        steps.add(point)
        reads += seen.count("reading")
        loaded = dpsql.Policy.load(policy)
        with Ledger(loaded.ledger_path, account(loaded)) as ledger:
            history, spent = ledger.history(), ledger.balance.spent
            assert spent.epsilon == sum(entry.cost.epsilon for entry in history) <= loaded.budget.epsilon
            assert len(history) >= reads, "rows were read that nobody paid for"
            for id, rows in (what for what in seen if what != "reading"):
                answers += 1
                (entry,) = [e for e in history if e.id == id]
                assert entry.state == "released", "an answer left that the ledger doesn't know"
                assert replays(ledger, id)[0].to_arrow().to_pylist() == rows, "a lost reply must be the reply"
            released = [e for e in history if e.state == "released"]
            assert len(released) >= answers
            for entry in released[-1:]:
                kept = {one.kind for one in ledger.kept(entry.id)[1]}
                assert "release" in kept, "a release was recorded without its tables"
                if "answer" in kept:
                    assert replays(ledger, entry.id)
    print(json.dumps({"points": points, "killed": killed, "steps": len(steps), "reads": reads, "answers": answers,
                      "spends": len(history), "released": len(released)}))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
