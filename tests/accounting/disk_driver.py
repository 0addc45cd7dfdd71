"""Run by test_disk.py in a process of its own: a ledger is created and spent from on a disk that fails or loses power.

faults     each call in turn fails: once, or the disk is full from then on; whole or half done
power      the power goes after each call in turn
"""

from __future__ import annotations

import json
import shutil
import sys
from fractions import Fraction
from pathlib import Path

from faulty_disk import Disk, Image

from dpsql.accounting.fingerprint import Source
from dpsql.accounting.ledger import Account, Kept, Ledger, Receipt, Spend
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError

ACCOUNT = Account(Fraction(100), Fraction(0), "basic", '{"adjacency":"add_remove"}')
ONE = Cost(Fraction(1))


def charge(ledger: Ledger, note: dict[str, object], claim: bytes = b"") -> Receipt:
    _, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(ONE, note, claim)])
    return receipt


def work(path: Path, disk: Disk) -> tuple[int, int]:
    """Create a ledger and use it, as far as that works: how many prices were asked for, and how many receipts given."""
    asked = given = 0
    try:
        with Ledger(path, ACCOUNT) as ledger:
            for number in range(3):
                try:
                    asked += 1
                    receipt = charge(ledger, {"sql": f"SELECT {number} " + "x" * 3000}, b"claim %d" % number)
                    given += 1
                    disk.trace.append(("given", given))
                    ledger.record(receipt, [Kept("release", b"k", "{}", b"noisy" * 1000)])
                    ledger.recognise([Source(f"t{number}", chunks=lambda: iter([b"rows"]))])
                except LedgerError:
                    continue
    except LedgerError:
        pass
    return asked, given


def check(path: Path, asked: int, given: int, what: object) -> bool:
    """Is there a ledger? Then it is whole, knows every receipt that was given, and can be spent from."""
    there = path.exists()
    assert there or given == 0, f"{what}: receipts were given, and there is no ledger"
    with Ledger(path, ACCOUNT) as ledger:
        spent = ledger.balance.spent.epsilon
        assert given <= spent <= asked, f"{what}: {given} receipts, {spent} spent, {asked} asked for"
        assert len(ledger.history()) == spent
        for _, kept in ledger.stored(b"k"):
            assert kept.data == b"noisy" * 1000
        ledger.record(charge(ledger, {}), [])
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent.epsilon == spent + 1
    return there


def faults(folder: Path, disk: Disk, some: int) -> dict[str, int]:
    work(folder / "first" / "l.sqlite", disk)
    calls, runs, whole = disk.calls, 0, 0
    for number in range(1, calls + 1):
        for torn, full in ((False, True), (True, False), (False, False), (True, True))[:some]:
            path = folder / "l" / "l.sqlite"
            path.parent.mkdir()
            disk.calls, disk.fail_at, disk.torn, disk.full = 0, number, torn, full
            asked, given = work(path, disk)
            disk.fail_at = 0
            whole += check(path, asked, given, (number, torn, full))
            runs += 1
            shutil.rmtree(path.parent)
    return {"calls": calls, "runs": runs, "ledgers": whole}


def power(folder: Path, disk: Disk, some: int) -> dict[str, int]:
    path = folder / "first" / "l.sqlite"
    asked, _ = work(path, disk)
    trace, image, given, states, ledgers = list(disk.trace), Image(path.parent), 0, 0, 0
    again = folder / "again"
    seen: set[tuple[int, int]] = set()
    for number, operation in enumerate(trace):
        if operation[0] == "given":
            given = operation[1]
        else:
            image.apply(operation)
        for files in image.states(number, some):
            identity = (given, hash(tuple(sorted(files.items()))))
            if identity in seen:
                continue
            seen.add(identity)
            again.mkdir()
            for name, content in files.items():
                made = again / Path(name).name
                made.write_bytes(content)
                made.chmod(0o600)
            ledgers += check(again / "l.sqlite", asked, given, (number, operation[:3]))
            states += 1
            shutil.rmtree(again)
    return {"operations": len(trace), "states": states, "ledgers": ledgers}


def main(what: str, folder: str, some: str) -> None:
    disk = Disk()
    (Path(folder) / "first").mkdir()
    try:
        disk.install()
    except AttributeError:
        print(json.dumps({"unreachable": True}))
        return
    print(json.dumps((faults if what == "faults" else power)(Path(folder), disk, int(some))))


if __name__ == "__main__":
    main(*sys.argv[1:])
