"""Single flight (Theorem FLIGHT-1): what several ask for at once is paid once, and nobody shows a draw of his own."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from support import own_processes

from dpsql.accounting import claims, durable, stored
from dpsql.accounting.anchor import Anchor, FileAnchor
from dpsql.accounting.events import Event
from dpsql.accounting.ledger import Account, Kept, Ledger, Overtaken, Quota, Receipt, Spend
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, LedgerError

ACCOUNT = Account(Fraction(20), Fraction(0), "basic", '{"adjacency":"add_remove"}')
ONE = Cost(Fraction(1))
KEY = b"key"
posix = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


def look(ledger: Ledger, key: bytes = KEY) -> Callable[[], bytes | None]:
    """The newest noisy table that is stored under a key."""

    def newest() -> bytes | None:
        found = ledger.stored(key)
        return found[0][1].data if found else None

    return newest


def reserve(ledger: Ledger, key: bytes = KEY, **named: Any) -> tuple[bytes | None, list[Receipt]]:
    """What is stored under a key, or a receipt for it."""
    return ledger.reserve(look(ledger, key), lambda found: [] if found is not None else [Spend(ONE, {}, key)], **named)


def table(data: bytes, key: bytes = KEY) -> list[Kept]:
    return [Kept("release", key, "{}", data)]


def answer(ledger: Ledger, draw: Callable[[], bytes], key: bytes = KEY, **named: Any) -> bytes:
    """As a query does it: from the store, or paid, drawn and recorded."""
    while True:
        found, receipts = reserve(ledger, key, **named)
        if found is not None:
            return found
        with suppress(Overtaken), ledger.working(receipts):
            mine = draw()
            ledger.record(receipts[0], table(mine, key))
            return mine


def rows(ledger: Ledger) -> list[Any]:
    with ledger._store.snapshot() as db:
        return db.execute("SELECT key, owner, receipt, lease_end FROM claim ORDER BY key").fetchall()


def edit(path: Path, sql: str, *values: object) -> None:
    """As somebody would who can write the file, and hasn't its key."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(sql, values)


def spent(ledger: Ledger) -> Fraction:
    return ledger.balance.spent.epsilon


@contextmanager
def started(*targets: Callable[[], object]) -> Iterator[None]:
    """Threads that are at work during the block, and done after it."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---------------------------------------------------------------- paid once, answered alike


@pytest.mark.parametrize("where", ["shared", "apart", "memory"])
def test_eight_threads_that_ask_at_once_pay_once_and_get_the_same_bytes(where: str, path: Path) -> None:
    with Ledger(":memory:" if where == "memory" else path, ACCOUNT) as first:
        barrier, answers = threading.Barrier(8), list[bytes]()

        def ask() -> None:
            def draw() -> bytes:
                time.sleep(0.05)
                return os.urandom(8)

            barrier.wait()
            if where == "apart":
                with Ledger(path, ACCOUNT) as mine:
                    answers.append(answer(mine, draw))
            else:
                answers.append(answer(first, draw))

        with started(*[ask] * 8):
            pass
        assert len(answers) == 8 and len(set(answers)) == 1
        assert spent(first) == 1 and [e.state for e in first.history()] == ["released"]
        assert len(first.stored(KEY)) == 1 and rows(first) == []


def slowly() -> bytes:
    time.sleep(0.2)
    return os.urandom(8)


def _ask(path: str, barrier: Barrier, answers: multiprocessing.Queue[object]) -> None:
    try:
        with Ledger(path, ACCOUNT) as ledger:
            barrier.wait()
            answers.put(answer(ledger, slowly))
    except BaseException as error:
        answers.put(repr(error))


def test_eight_processes_that_ask_at_once_pay_once_and_get_the_same_bytes(path: Path) -> None:
    Ledger.create(path, ACCOUNT)
    context = own_processes()
    barrier, answers = context.Barrier(8), context.Queue()
    processes = [context.Process(target=_ask, args=(str(path), barrier, answers)) for _ in range(8)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    answers.close()
    answers.join_thread()
    with Ledger(path, ACCOUNT) as ledger:
        ((_, kept),) = ledger.stored(KEY)
        assert found == [kept.data] * 8
        assert spent(ledger) == 1 and rows(ledger) == []


def test_nothing_is_written_where_nothing_is_to_pay(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        answer(ledger, lambda: b"first")
        before = path.read_bytes()

        def refuse(**_: object) -> Any:
            raise AssertionError("a write transaction for a free answer")

        ledger._store.transaction = refuse  # type: ignore[method-assign]
        assert reserve(ledger) == (b"first", [])
        assert path.read_bytes() == before


def test_other_releases_do_not_wait_and_spends_without_a_claim_wait_for_nobody(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        reserve(one)
        assert reserve(other, b"another", patience=0)[1]
        for _ in range(2):
            assert reserve(other, b"", patience=0)[1]
        with pytest.raises(LedgerError):
            reserve(other, patience=0)
        assert spent(one) == 4


def test_what_was_recorded_after_the_look_is_found_inside_the_transaction(path: Path) -> None:
    """The other process is faster by all of its work: between this one's look and its write transaction."""
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        looks: list[bytes | None] = []

        def late() -> bytes | None:
            found = look(one)()
            if not looks:
                answer(other, lambda: b"theirs")
            looks.append(found)
            return found

        found, receipts = one.reserve(late, lambda found: [] if found is not None else [Spend(ONE, {}, KEY)])
        assert (found, receipts) == (b"theirs", []) and looks == [None, b"theirs"]
        assert spent(one) == 1


def test_a_look_inside_the_transaction_sees_entries_and_tables(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        answer(ledger, lambda: b"first")
        (id,) = (id for id, _ in ledger.stored(KEY))
        with ledger._journal.writing():
            assert ledger.stored(KEY)[0][1].data == b"first" and ledger.entry(id).state == "released"
            assert ledger.kept(id)[1] == table(b"first") and ledger.has_stored() and spent(ledger) == 1
        with ledger._journal.reading(), ledger._journal.reading():
            assert len(ledger.history()) == 1
        assert not ledger._store._connection.in_transaction


def test_a_transaction_inside_a_transaction_is_refused_and_spoils_nothing(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        _, (receipt,) = reserve(ledger)
        with ledger._journal.writing() as writer:
            with pytest.raises(RuntimeError, match="under way"), ledger._store.transaction():
                pass
            with pytest.raises(RuntimeError, match="under way"):
                reserve(ledger, b"another")
            ledger._claims.drop([receipt.id])  # it runs out by itself
            assert writer.db.in_transaction
            writer.add(Event("key", durable.now(), {}))
        assert len(rows(ledger)) == 1 and spent(ledger) == 1
    with Ledger(path, ACCOUNT) as ledger:
        assert spent(ledger) == 1


def test_a_query_of_several_releases_pays_for_those_that_are_missing_and_for_all_or_none(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        keys = (b"range", b"main")

        def missing(ledger: Ledger) -> list[Spend]:
            return [Spend(ONE, {}, key) for key in keys if not ledger.stored(key)]

        _, (first, second) = one.reserve(lambda: None, lambda _: missing(one))
        with one.working([first, second]):
            one.record(first, table(b"range", b"range"))
            with pytest.raises(LedgerError, match="somebody else"):  # the second one is still under way
                other.reserve(lambda: None, lambda _: missing(other), patience=0)
        _, (only,) = other.reserve(lambda: None, lambda _: missing(other))  # it was given up: it is paid anew
        other.record(only, table(b"main", b"main"))
        assert spent(one) == 3
        with pytest.raises(BudgetError):
            one.reserve(
                lambda: None, lambda _: [Spend(Cost(Fraction(9)), {}, b"a"), Spend(Cost(Fraction(9)), {}, b"b")]
            )
        assert spent(one) == 3 and rows(one) == []


def test_one_release_is_not_paid_twice_in_one_reservation(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        with pytest.raises(AssertionError):
            ledger.reserve(lambda: None, lambda _: [Spend(ONE, {}, KEY)] * 2)
        assert ledger.history() == [] and rows(ledger) == []


# ---------------------------------------------------------------- waiting


def test_a_waiter_goes_on_when_its_patience_ends_and_has_spent_nothing(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        reserve(one)
        for named in ({"patience": 0}, {"patience": 0.05}, {"given_up": lambda: True}):
            with pytest.raises(LedgerError) as busy:
                reserve(other, **named)
            assert busy.value.code == "release-busy" and "nothing was spent" in (busy.value.hint or "")
        assert spent(one) == 1 and len(rows(one)) == 1


def test_a_waiter_that_would_have_to_pay_is_refused_at_that_moment(path: Path) -> None:
    quota = Quota("ada", Fraction(1))
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        other.reserve(lambda: None, lambda _: [Spend(ONE, {})], analyst="ada")  # all that ada has
        _, receipts = reserve(one)
        refused = list[Exception]()

        def wait() -> None:
            try:
                reserve(other, analyst="ada", quota=quota)
            except Exception as error:
                refused.append(error)

        with started(wait), one.working(receipts):
            time.sleep(0.1)
            assert not refused  # as long as it may be free, nobody is refused
        assert isinstance(refused[0], BudgetError) and spent(one) == 2 and rows(one) == []


def test_a_waiter_goes_on_at_once_when_the_work_fails(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        _, receipts = reserve(one)
        with pytest.raises(ZeroDivisionError), one.working(receipts):
            raise ZeroDivisionError
        assert answer(other, lambda: b"second", patience=0) == b"second"
        assert spent(one) == 2
        with pytest.raises(Overtaken):
            one.record(receipts[0], table(b"first"))


@posix
@pytest.mark.usefixtures("usual_signals")
def test_a_signal_ends_the_wait_and_leaves_nothing(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        reserve(one)
        before = rows(one)
        killer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            reserve(other)
        killer.join()
        assert not other._store._connection.in_transaction and not other._store.held
        assert spent(other) == 1 and rows(other) == before


def test_an_interrupt_after_the_commit_leaves_the_spend_and_no_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(FileAnchor):
        """Interrupted when the spend is on the disk."""

        def write(self, *arguments: Any) -> None:
            super().write(*arguments)
            if armed:
                raise KeyboardInterrupt

    armed: list[bool] = []
    anchor: Anchor = Late(path.with_name("anchor"))
    with Ledger(path, ACCOUNT, anchor=anchor) as ledger:
        armed.append(True)
        with pytest.raises(KeyboardInterrupt):
            reserve(ledger)
        armed.clear()
        assert spent(ledger) == 1 and rows(ledger) == []
        assert answer(ledger, lambda: b"again", patience=0) == b"again" and spent(ledger) == 2


# ---------------------------------------------------------------- leases


def short(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(claims, "LEASE", seconds)


def test_a_lease_is_renewed_while_the_work_goes_on_and_the_thread_ends_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        short(monkeypatch, 1.5)
        _, receipts = reserve(one)
        (first,) = rows(one)
        with one.working(receipts):
            until(lambda: rows(other)[0][3] > first[3])
            renewed = rows(other)[0][3]
            until(lambda: rows(other)[0][3] > renewed)
            assert any(thread.name == "dpsql-claims" for thread in threading.enumerate())
            one.record(receipts[0], table(b"first"))
        assert not any(thread.name == "dpsql-claims" for thread in threading.enumerate())
        assert reserve(other) == (b"first", []) and spent(other) == 1


def test_short_work_and_unshared_work_never_renew(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        _, receipts = reserve(ledger)
        before = rows(ledger)
        with ledger.working(receipts):
            assert rows(ledger) == before
            ledger.record(receipts[0], table(b"first"))
        _, receipts = reserve(ledger, b"")
        with ledger.working(receipts):
            assert not any(thread.name == "dpsql-claims" for thread in threading.enumerate())


def test_a_block_that_was_never_left_is_not_renewed_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a signal had come right before the end of the block could be told."""
    short(monkeypatch, 0.3)
    with Ledger(path, ACCOUNT) as ledger:
        _, (receipt,) = reserve(ledger)
        stop = threading.Event()
        thread = threading.Thread(target=ledger._claims._keep, args=([receipt.id], weakref.ref(stop)), daemon=True)
        thread.start()
        del stop
        thread.join(timeout=60)
        assert not thread.is_alive()


KILLED = """
import os, signal, sys
from fractions import Fraction
from dpsql.accounting import claims
from dpsql.accounting.ledger import Account, Kept, Ledger, Spend
from dpsql.core.cost import Cost
claims.LEASE = 2.0
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
ledger = Ledger(sys.argv[1], Account(Fraction(20), Fraction(0), "basic", '{"adjacency":"add_remove"}'))
step = sys.argv[2]
if step == "paying":
    take = ledger._claims.take
    ledger._claims.take = lambda *a: (take(*a), die())
_, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(Cost(Fraction(1)), {}, b"key")])
with ledger.working([receipt]):
    if step == "working":
        die()
    if step == "recording":
        settle = ledger._claims.settle
        ledger._claims.settle = lambda *a: (settle(*a), die())
    ledger.record(receipt, [Kept("release", b"key", "{}", b"theirs")])
    if step == "answering":
        die()
    ledger.answered(receipt, [Kept("answer", b"", "{}", b"answer")])
    die()
"""
LEFT = {  # by step: what the dead process has spent, and released
    "paying": (0, 0),
    "working": (1, 0),
    "recording": (1, 0),
    "answering": (1, 1),
    "answered": (1, 1),
}


@posix
@pytest.mark.parametrize("step", LEFT)
def test_a_successor_of_whoever_was_killed_pays_once_more_unless_it_was_recorded(
    step: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), step], check=False)
    assert done.returncode == -signal.SIGKILL
    paid, released = LEFT[step]
    with Ledger(path, ACCOUNT) as ledger:
        history = ledger.history()
        assert (len(history), sum(entry.state == "released" for entry in history)) == (paid, released)
        found = answer(ledger, lambda: b"mine")
        assert found == (b"theirs" if released else b"mine")
        assert spent(ledger) == paid + (not released) and rows(ledger) == []
        assert len(ledger.stored(KEY)) == 1
        for entry in history:
            assert [k.kind for k in ledger.kept(entry.id)[1]] == ["release"] * released + ["answer"] * (
                step == "answered"
            )


@posix
def test_kill_9_at_any_statement_leaves_no_less_spent_than_released_and_a_successor_who_can_go_on(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every statement with --whole, otherwise every third fault point."""
    some = 1 if pytestconfig.getoption("--whole") else 3
    driver = Path(__file__).with_name("flight_driver.py")
    done = subprocess.run(
        [sys.executable, str(driver), str(tmp_path), str(some)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout)
    assert left == sorted(left) and {tuple(one) for one in left} == {(0, 0), (1, 0), (1, 1)}


def expire(path: Path) -> None:
    edit(path, "UPDATE claim SET lease_end = ?", durable.after(-1))


def test_a_late_claimant_is_overtaken_and_nothing_of_its_draw_is_stored(path: Path) -> None:
    with Ledger(path, ACCOUNT) as late, Ledger(path, ACCOUNT) as successor:
        _, (first,) = reserve(late)
        expire(path)
        _, (second,) = reserve(successor, patience=0)
        with pytest.raises(Overtaken):
            late.record(first, table(b"late"))  # while the successor is at work
        successor.record(second, table(b"successor"))
        with pytest.raises(Overtaken):
            late.record(first, table(b"late"))  # and afterwards
        assert reserve(late) == (b"successor", [])
        assert [kept.data for _, kept in late.stored(KEY)] == [b"successor"]
        assert [entry.state for entry in late.history()] == ["reserved", "released"] and spent(late) == 2


def test_a_late_claimant_does_not_remove_the_claim_of_its_successor(path: Path) -> None:
    with Ledger(path, ACCOUNT) as late, Ledger(path, ACCOUNT) as successor:
        _, receipts = reserve(late)
        with late.working(receipts):
            expire(path)
            _, (second,) = reserve(successor, patience=0)
            assert late._claims.renew([receipts[0].id]) == []
        assert [row[2] for row in rows(late)] == [second.id]
        successor.record(second, table(b"successor"))


def test_a_claimed_receipt_is_recorded_by_whoever_reserved_it(path: Path) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        _, (receipt,) = reserve(one)
        with pytest.raises(Overtaken):
            other.record(receipt, table(b"other"))
        one.record(receipt, table(b"one"))
        with pytest.raises(LedgerError, match="no reserved spend"):
            one.record(receipt, table(b"twice"))
        assert [kept.data for _, kept in other.stored(KEY)] == [b"one"]


def test_an_expired_claim_can_neither_be_renewed_nor_recorded_even_if_nobody_overtook(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        _, (receipt,) = reserve(ledger)
        expire(path)
        assert ledger._claims.renew([receipt.id]) == []
        with pytest.raises(Overtaken):
            ledger.record(receipt, table(b"late"))
        assert ledger.stored(KEY) == [] and spent(ledger) == 1
        assert answer(ledger, lambda: b"again", patience=0) == b"again" and spent(ledger) == 2


def test_the_late_claimant_answers_from_the_store_like_everybody(path: Path) -> None:
    """A whole query that is paused beyond its lease: its own draw is never shown."""
    with Ledger(path, ACCOUNT) as late, Ledger(path, ACCOUNT) as successor:

        def pause() -> bytes:
            expire(path)
            assert answer(successor, lambda: b"successor", patience=0) == b"successor"
            return b"late"

        assert answer(late, pause) == b"successor"
        assert spent(late) == 2 and len(late.stored(KEY)) == 1


# ---------------------------------------------------------------- claims that were written by hand


FORGERIES: dict[str, tuple[str, ...]] = {
    "deleted": ("DELETE FROM claim",),
    "another receipt": ("UPDATE claim SET receipt = 'x'",),
    "no receipt": ("UPDATE claim SET receipt = NULL",),
    "another owner": ("UPDATE claim SET owner = 'x'",),
    "another key": ("UPDATE claim SET key = x'00'",),
    "expired": ("UPDATE claim SET lease_end = ''",),
    "no text": ("UPDATE claim SET lease_end = CAST(x'ff00' AS TEXT), owner = CAST(x'ff' AS TEXT)",),
    "doubled": ("INSERT INTO claim SELECT x'00', owner, receipt, lease_end FROM claim",),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_whatever_is_done_to_the_claims_each_stored_table_has_a_charge_of_its_own(
    forgery: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as other:
        _, (first,) = reserve(one)
        for sql in FORGERIES[forgery]:
            edit(path, sql)
        short(monkeypatch, 0.3)  # a forged claim is waited for as long, and no longer
        with suppress(LedgerError):
            _, receipts = reserve(other, patience=30)
            other.record(receipts[0], table(b"other"))
        with suppress(Overtaken):
            one.record(first, table(b"one"))
        for ledger, receipt in ((one, first), (other, first)):
            with pytest.raises((Overtaken, LedgerError)):
                ledger.record(receipt, table(b"again"))
        stored_under = [id for id, _ in one.stored(KEY)]
        released = [entry.id for entry in one.history() if entry.state == "released"]
        assert len(stored_under) == len(set(stored_under)) == len(released) <= spent(one) == len(one.history())


@pytest.mark.parametrize("end", ["'9999-12-31T00:00:00.000+00:00'", "'zzz'", "x'ff'", "CAST(x'ff' AS TEXT)"])
def test_a_forged_claim_is_waited_for_no_longer_than_one_lease(
    end: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        edit(path, f"INSERT INTO claim VALUES (?, 'nobody', 'none', {end})", KEY)
        with pytest.raises(LedgerError) as busy:
            reserve(ledger, patience=0)
        assert busy.value.code == "release-busy"
        short(monkeypatch, 0.3)
        assert answer(ledger, lambda: b"mine", patience=60) == b"mine" and spent(ledger) == 1


def test_a_claim_that_is_renewed_is_waited_for_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        watch, now = claims.Watch(), [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        edit(path, "INSERT INTO claim VALUES (?, 'nobody', 'none', '9998')", KEY)
        seen = []
        for moment, end in ((0, None), (29, None), (29, "9999"), (58, None), (60, None)):
            now[0] = moment
            if end:
                edit(path, "UPDATE claim SET lease_end = ?", end)
            with ledger._store.snapshot() as db:
                seen.append(watch.busy(db, [KEY]))
        assert seen == [True, True, True, True, False]


def test_that_a_release_was_claimed_is_said_by_the_chain(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        _, (claimed,) = reserve(ledger)
        _, (alone,) = reserve(ledger, b"")
        edit(path, "DELETE FROM claim")
    with Ledger(path, ACCOUNT) as ledger:  # and by nothing that is remembered
        with pytest.raises(Overtaken):
            ledger.record(claimed, table(b"x"))
        ledger.record(alone, table(b"y"))
        bodies = [json.loads(body)["claimed"] for body in _bodies(path, "spend")]
        assert bodies == [True, False]


def test_a_spend_of_0_1_1_says_nothing_of_claims_and_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(kind: Any, time: str, body: dict[str, object], receipt: str, note: str) -> Event:
        return Event(kind, time, {k: v for k, v in body.items() if k != "claimed"}, receipt, note)

    with Ledger(path, ACCOUNT) as ledger, monkeypatch.context() as patched:
        patched.setattr("dpsql.accounting.ledger.Event", older)
        _, (receipt,) = reserve(ledger, b"")
    assert [set(json.loads(body)) & {"claimed"} for body in _bodies(path, "spend")] == [set()]
    with Ledger(path, ACCOUNT) as again:
        assert spent(again) == 1
        again.record(receipt, table(b"x"))
        assert again.kept(receipt.id)[1] == table(b"x")


def _bodies(path: Path, kind: str) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [body for (body,) in database.execute("SELECT body FROM event WHERE kind = ? ORDER BY seq", (kind,))]


# ---------------------------------------------------------------- answers


def test_answers_are_stored_after_their_release_and_once(path: Path) -> None:
    answers = [Kept("answer", b"", "{}", b"answer")]
    with Ledger(path, ACCOUNT) as ledger:
        _, (receipt,) = reserve(ledger)
        with pytest.raises(LedgerError) as early:
            ledger.answered(receipt, answers)
        ledger.record(receipt, table(b"first"))
        assert ledger.kept(receipt.id)[1] == table(b"first")
        ledger.answered(receipt, answers)
        assert ledger.kept(receipt.id)[1] == table(b"first") + answers
        with pytest.raises(LedgerError) as twice:
            ledger.answered(receipt, answers)
        assert early.value.code == twice.value.code == "receipt-unknown"
        assert len(ledger.kept(receipt.id)[1]) == 2 and spent(ledger) == 1
    with Ledger(path, ACCOUNT) as again:
        assert again.kept(receipt.id)[1] == table(b"first") + answers


def test_an_answer_is_kept_beside_its_tables_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LARGEST", 100)
    with Ledger(path, ACCOUNT) as ledger:
        for key, tables, answers, left in ((b"a", 200, 10, 0), (b"b", 10, 200, 1), (b"c", 10, 10, 2)):
            _, (receipt,) = reserve(ledger, key)
            ledger.record(receipt, table(b"x" * tables, key))
            ledger.answered(receipt, [Kept("answer", b"", "", b"x" * answers)])
            assert len(ledger.kept(receipt.id)[1]) == left


def test_each_part_is_stored_by_the_call_that_may(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        _, (receipt,) = reserve(ledger)
        with pytest.raises(AssertionError):
            ledger.record(receipt, [Kept("answer", b"", "{}", b"answer")])
        ledger.record(receipt, [])
        with pytest.raises(AssertionError):
            ledger.answered(receipt, table(b"a second draw"))


# ---------------------------------------------------------------- interleavings


def test_many_threads_and_few_releases_are_paid_once_each_although_claimants_fail(path: Path) -> None:
    """A claimant that fails has paid; otherwise each release is paid once, and everybody sees the same."""
    with Ledger(path, Account(Fraction(1000), Fraction(0), "basic", ACCOUNT.relation)) as ledger:
        seen: queue.Queue[tuple[bytes, bytes]] = queue.Queue()
        failed: queue.Queue[int] = queue.Queue()

        def ask(number: int) -> None:
            for step in range(6):
                key = b"%d" % ((number + step) % 3)

                def draw(step: int = step) -> bytes:
                    if number == 0 and step < 2:
                        raise ZeroDivisionError
                    return os.urandom(8)

                try:
                    seen.put((key, answer(ledger, draw, key)))
                except ZeroDivisionError:
                    failed.put(step)

        with started(*[lambda n=n: ask(n) for n in range(6)]):
            pass
        found = list(seen.queue)
        assert len(set(found)) == 3 and len(found) + failed.qsize() == 36
        assert spent(ledger) == 3 + failed.qsize() and rows(ledger) == []
        assert all(len(ledger.stored(b"%d" % n)) == 1 for n in range(3))
