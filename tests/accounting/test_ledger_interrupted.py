"""Threads that share a ledger, and interrupts at any moment: the session's sums are the file's, and nothing is held."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import charge

from dpsql.accounting import events
from dpsql.accounting.ledger import Account, Ledger, Quota
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError

ACCOUNT = Account(Fraction(3), Fraction(0), "basic", '{"adjacency":"add_remove"}')
QUOTA = Quota("a", Fraction(3))
ONE = Cost(Fraction(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


def test_no_spend_is_lost_that_another_thread_sees_while_what_is_left_is_summed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_cost, sum_ = events.read_cost, Ledger._sum
    with Ledger(path, ACCOUNT) as ledger, Ledger(path, ACCOUNT) as other:

        def interleave() -> None:
            """Another process spends and another thread of this one looks, wherever the lock would let it."""
            if threading.current_thread().name == "left" and not ledger._store._lock._is_owned():  # type: ignore[attr-defined]
                look = threading.Thread(target=lambda: (charge(other, ONE, {}, analyst="a"), ledger.has_stored()))
                look.start()
                look.join()

        def read(body: Any) -> Cost:
            interleave()
            return read_cost(body)

        def summed(self: Ledger, *arguments: Any) -> Cost:
            interleave()
            return sum_(self, *arguments)

        charge(other, ONE, {}, analyst="a")
        monkeypatch.setattr(events, "read_cost", read)
        monkeypatch.setattr(Ledger, "_sum", summed)
        asking = threading.Thread(target=lambda: ledger.left(QUOTA), name="left")
        asking.start()
        asking.join()
        with Ledger(path, ACCOUNT) as fresh:
            assert ledger.balance == fresh.balance
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(3)), {}, analyst="a")


def test_what_is_spent_can_be_asked_any_number_of_times_and_stays(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, ONE, {}, analyst="a")
        with ledger._journal.reading():
            state = ledger._journal.state
            before = {name: repr(value) for name, value in vars(state).items() if name != "_rules"}
            assert state.spent() == state.spent() == {("", "a"): ONE}
            assert {name: repr(value) for name, value in vars(state).items() if name != "_rules"} == before


def test_the_state_is_never_read_without_the_lock(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        with pytest.raises(RuntimeError, match="inside a transaction"):
            _ = ledger._journal.state
        failed: list[BaseException] = []

        def elsewhere() -> None:
            try:
                _ = ledger._journal.state
            except RuntimeError as error:
                failed.append(error)

        with ledger._journal.reading():
            assert ledger._journal.state.count == 2
            other = threading.Thread(target=elsewhere)
            other.start()
            other.join()
        assert len(failed) == 1


def test_an_interrupt_right_after_a_transaction_began_leaves_none_open(path: Path) -> None:
    class Interrupted:
        """The connection, with an interrupt behind each BEGIN."""

        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def execute(self, sql: str, *rest: Any) -> Any:
            done = self.real.execute(sql, *rest)
            if sql.startswith("BEGIN"):
                raise KeyboardInterrupt
            return done

    with Ledger(path, ACCOUNT) as ledger, Ledger(path, ACCOUNT) as other:
        real = ledger._store._connection
        ledger._store._connection = Interrupted(real)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            charge(ledger, ONE, {})
        ledger._store._connection = real
        assert not real.in_transaction
        charge(other, ONE, {})
        assert ledger.balance.spent == ONE
