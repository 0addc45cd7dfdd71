"""Who is at work on which release: what several ask for at the same time is paid and measured once (Theorem FLIGHT-1).

A claim is a row beside the account: the key of a release, who is at work on it, the receipt of the spend that pays for
it, and until when others wait. It is written in the transaction that records the spend, renewed while the work goes on,
and removed in the transaction that records the release.

Nothing private rests on these rows, and they aren't chained. Whoever forges one makes others wait (for no longer than
one lease, unless it is renewed); whoever deletes one makes somebody pay twice. Clocks only say when waiting ends.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from dpsql.accounting import durable
from dpsql.accounting.store import Store
from dpsql.core.errors import LedgerError

LEASE = 30.0
"""Seconds that others wait for somebody of whom nothing is heard; he is heard of three times as often."""
SHORTEST, LONGEST = 0.005, 0.05
"""Seconds between two looks at a claim, the first and the last ones."""


class Overtaken(Exception):
    """The claim is lost: its lease had run out, and somebody else may be at work on the same release.

    What was measured must not be shown: it is thrown away, and the stored releases are asked once more. The spend
    stays spent.
    """


class Claims:
    """The claims of one open ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = secrets.token_hex(16)

    def take(self, db: sqlite3.Connection, claimed: Sequence[tuple[bytes, str]]) -> None:
        """Claim these keys, each for its receipt, from whoever had them; what has run out is cleared away."""
        if claimed:
            db.execute("DELETE FROM claim WHERE lease_end <= ?", (durable.after(0),))
            db.executemany(
                "INSERT OR REPLACE INTO claim (key, owner, receipt, lease_end) VALUES (?, ?, ?, ?)",
                [(key, self._owner, receipt, durable.after(LEASE)) for key, receipt in claimed],
            )

    def settle(self, db: sqlite3.Connection, receipt: str, time: str) -> bool:
        """Remove the claim of a receipt; False: it had run out at this time, or is somebody else's by now."""
        mine = (receipt, self._owner, time)
        return db.execute("DELETE FROM claim WHERE receipt = ? AND owner = ? AND lease_end > ?", mine).rowcount > 0

    def drop(self, receipts: Iterable[str]) -> None:
        """Remove the claims of these receipts where they are still ours: nobody is at work on them any more.

        Inside a transaction of the same thread, which a block that is only now cleared away may be, they are left to
        run out.
        """
        if self._store.under_way is not None:
            return
        with self._store.transaction(log_only=True) as db:
            db.executemany(
                "DELETE FROM claim WHERE receipt = ? AND owner = ?", [(receipt, self._owner) for receipt in receipts]
            )

    def renew(self, receipts: Iterable[str]) -> list[str]:
        """Begin a new lease for each of these; those that have one. What has run out stays lost."""
        with self._store.transaction(log_only=True) as db:
            now, end = durable.after(0), durable.after(LEASE)
            ask = "UPDATE claim SET lease_end = ? WHERE receipt = ? AND owner = ? AND lease_end > ?"
            return [r for r in receipts if db.execute(ask, (end, r, self._owner, now)).rowcount]

    @contextmanager
    def renewed(self, receipts: Sequence[str]) -> Iterator[None]:
        """Renew the claims of these receipts from time to time, as long as the block lasts."""
        stop = threading.Event()
        target, known = self._keep, (receipts, weakref.ref(stop))
        thread = threading.Thread(target=target, args=known, name="dpsql-claims", daemon=True)
        try:
            thread.start()
            yield
        finally:
            stop.set()
            if not self._store.held:  # else the thread may be waiting for this one
                thread.join()

    def _keep(self, receipts: Sequence[str], stopped: Callable[[], threading.Event | None]) -> None:
        """Renew until told to stop. A block that was left by a signal before it could say so is gone, and so is its
        event: that is why the event isn't held on to."""
        while receipts:
            stop = stopped()
            if stop is None or stop.wait(LEASE / 3):
                return
            del stop
            if stopped() is not None:
                # Where the disk is busy or full: once more, while the lease lasts.
                with suppress(LedgerError), self._store.waiting(given_up=lambda: _is_over(stopped())):
                    receipts = self.renew(receipts)

    def wait(
        self, watch: Watch, keys: Sequence[bytes], until: float | None, given_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Return when nobody holds any of these keys; LedgerError when the time is up, or whoever asked gave up.

        until: a time of the monotonic clock. Nothing is held meanwhile, and a signal ends it.
        """
        pause = SHORTEST
        while True:
            with self._store.snapshot() as db:
                if not watch.busy(db, keys):
                    return
            left = LONGEST if until is None else until - time.monotonic()
            if left <= 0 or given_up():
                raise LedgerError(
                    "the same release is being measured for somebody else, and it takes longer than you would wait",
                    code="release-busy",
                    hint="nothing was spent; ask again later: when it is done, it is free",
                )
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST)


def _is_over(stop: threading.Event | None) -> bool:
    return stop is None or stop.is_set()


class Watch:
    """What one reservation has seen of other people's claims: each row, and since when it is the same."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[tuple[object, ...], float]] = {}

    def busy(self, db: sqlite3.Connection, keys: Sequence[bytes]) -> bool:
        """Does anybody hold one of these keys? A row that stays the same for a whole lease is held by nobody,
        whatever end it names: a clock was changed, or it was forged."""
        held = [self._held(db, key) for key in keys]  # each of them is looked at
        return any(held)

    def _held(self, db: sqlite3.Connection, key: bytes) -> bool:
        # As bytes: what somebody wrote there needn't be text.
        ask = "SELECT CAST(owner AS BLOB), CAST(receipt AS BLOB), CAST(lease_end AS BLOB), lease_end > ? FROM claim"
        row = db.execute(f"{ask} WHERE key = ?", (durable.after(0), key)).fetchone()
        if row is None:
            return False
        *said, ahead = row
        now = time.monotonic()
        before, since = self._seen.get(key, ((), now))
        if before != tuple(said):
            self._seen[key] = (tuple(said), now)
            since = now
        return bool(ahead) and now - since < LEASE
