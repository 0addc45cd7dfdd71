"""Run by test_flight.py in a process of its own: a claimed release, killed before and after each statement in turn.

After each death a successor looks, pays what has to be paid, and answers. Prints what was left, by statement.
"""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path

from crash_driver import Connection, Fuse

from dpsql.accounting import durable, store
from dpsql.accounting.ledger import Account, Kept, Ledger, Receipt, Spend
from dpsql.core.cost import Cost

ACCOUNT = Account(Fraction(1000), Fraction(0), "basic", '{"adjacency":"add_remove"}')


def reserve(ledger: Ledger, key: bytes) -> tuple[list[str], list[Receipt]]:
    def look() -> list[str]:
        return [id for id, _ in ledger.stored(key)]

    return ledger.reserve(look, lambda found: [] if found else [Spend(Cost(Fraction(1)), {}, key)])


def work(path: Path, key: bytes, data: bytes) -> list[str]:
    with Ledger(path, ACCOUNT) as ledger:
        found, receipts = reserve(ledger, key)
        with ledger.working(receipts):
            for receipt in receipts:
                ledger.record(receipt, [Kept("release", key, "{}", data)])
                ledger.answered(receipt, [Kept("answer", b"", "{}", data)])
                found = [receipt.id]
    return found


def attempt(path: Path, key: bytes, length: int) -> int | None:
    """Fork, work, die: how many fault points were passed, if it lived."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        fuse = Fuse(length)
        connect = store._connect
        store._connect = lambda where: Connection(connect(where), fuse)  # type: ignore[assignment, return-value]
        try:
            work(path, key, b"dead")
            os.write(writer, str(fuse.passed).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        passed = pipe.read()
    os.waitpid(child, 0)
    return int(passed) if passed else None


def main(folder: str, some: int) -> None:
    path = Path(folder) / "l.sqlite"
    work(path, b"first", b"first")  # a ledger in which nothing is stored yet is looked at more often
    points = attempt(path, b"second", 10**9)
    assert points is not None and points > 60, points
    left = []
    for point in range(1, points + 1, some):
        key = b"%d" % point
        with Ledger(path, ACCOUNT) as ledger:
            before = len(ledger.history())
        assert attempt(path, key, point) is None
        with Ledger(path, ACCOUNT) as ledger:
            mine = ledger.history()[before:]
            released = [entry for entry in mine if entry.state == "released"]
            assert len(released) <= len(mine) <= 1, "more was released than spent"
            assert [id for id, _ in ledger.stored(key)] == [entry.id for entry in released]
            with ledger._store.transaction() as db:
                db.execute("UPDATE claim SET lease_end = ?", (durable.after(-1),))
        (id,) = work(path, key, b"alive")
        with Ledger(path, ACCOUNT) as ledger:
            history = ledger.history()[before:]
            assert len(history) == len(mine) + (not released), "a successor pays once, unless it is recorded"
            ((stored, kept),) = ledger.stored(key)
            assert stored == id == history[-1].id and kept.data == (b"dead" if released else b"alive")
            assert ledger.balance.spent.epsilon == len(ledger.history())
        left.append([len(mine), len(released)])
    print(json.dumps(left))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
