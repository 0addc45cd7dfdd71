"""The account: exact sums, admission, durability, several processes."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Connect, charge, own_processes

from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.cost import Cost, show_rounded
from dpsql.core.errors import BudgetError, LedgerError

ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
CUSTOMER = '{"adjacency":"add_remove","tables":{"t":{"unit":"customer"}}}'
ACCOUNT = Account(Fraction(1), Fraction(1, 10**6), "basic", ROW)


def price(epsilon: str, delta: str = "0") -> Cost:
    return Cost(Fraction(epsilon), Fraction(delta))


def test_ten_times_a_tenth_exactly_exhausts_one(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.sqlite", ACCOUNT) as ledger:
        for _ in range(10):
            charge(ledger, price("0.1"), {})
        assert ledger.balance.spent == price("1")
        assert ledger.balance.remaining == price("0", "1e-6")
        with pytest.raises(BudgetError):
            charge(ledger, price("1e-6"), {})
        assert ledger.balance.spent == price("1")


def test_delta_has_its_own_limit() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        charge(ledger, price("0.1", "6e-7"), {})
        with pytest.raises(BudgetError) as refused:
            charge(ledger, price("0.5", "5e-7"), {})
        assert "delta = 5e-7" in refused.value.message and "delta = 4e-7 is left" in refused.value.message
        assert "largest epsilon that fits is 0.4, with delta at most 4e-7" in (refused.value.hint or "")
        charge(ledger, price("0.9", "4e-7"), {})
        assert ledger.balance.remaining == price("0")


def test_a_refusal_names_the_price_what_is_left_and_the_largest_epsilon_that_fits() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        charge(ledger, price("2/3"), {})
        with pytest.raises(BudgetError) as refused:
            charge(ledger, price("0.5"), {})
        assert refused.value.code == "budget-exhausted"
        assert "epsilon = 0.5" in refused.value.message and "epsilon = 0.33333333" in refused.value.message
        (fits,) = re.findall(r"fits is ([\d.]+)$", refused.value.hint or "")
        charge(ledger, price(fits), {})  # what the message offers can be paid
        with pytest.raises(BudgetError) as empty:
            charge(ledger, price("0.5"), {})
        assert "nothing more can be paid" in (empty.value.hint or "")


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_delta_that_is_used_up_leaves_what_needs_none(accountant: str, connect: Connect) -> None:
    policy = {
        "privacy": {"max_rows": 1, "max_groups": 1},
        "tables": {"t": {"unit": "row", "columns": {"k": {"values": ["a", "b"]}}}},
        "budget": {"epsilon": 1, "delta": 1e-6, "accountant": accountant},
    }
    session = connect({"t": pa.table({"k": ["a", "b"] * 50, "s": ["x"] * 100})}, policy)
    left = session.budget.remaining.delta if accountant == "basic" else session.budget.remaining.parts
    session.query("SELECT s, COUNT(*) FROM t GROUP BY s", epsilon="0.1", delta=left, mechanism="laplace")
    wide = "SELECT s, k, COUNT(*) FROM t GROUP BY s, k"
    with pytest.raises(BudgetError) as refused:
        session.query(wide, epsilon="0.2")
    assert "delta is used up" in (refused.value.hint or "") and "--delta 0" in (refused.value.hint or "")
    offered = (refused.value.hint or "").split("fits is ")[1]
    session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=offered, delta=0)
    assert session.budget.remaining.epsilon < Fraction(1, 10**4)


def test_prices_are_shown_rounded_up_and_what_is_left_rounded_down() -> None:
    assert show_rounded(Fraction(2, 3), up=True) == "0.66666667"
    assert show_rounded(Fraction(2, 3), up=False) == "0.66666666"
    assert show_rounded(Fraction(0), up=True) == "0"
    assert show_rounded(Fraction(100), up=True) == "100"
    assert show_rounded(Fraction(1, 10**300), up=False) == "1e-300"
    assert Fraction(show_rounded(Fraction(1, 7 * 10**50), up=True)) > Fraction(1, 7 * 10**50)


def test_a_price_of_zero_is_recorded_too(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.sqlite", ACCOUNT) as ledger:
        charge(ledger, price("1", "1e-6"), {})
        receipt = charge(ledger, price("0"), {"sql": "free"})
        assert ledger.history()[-1].id == receipt.id


@pytest.mark.parametrize("bad", [price("-1"), price("0", "-1e-9"), Cost(Fraction(0), Fraction(0), Fraction(1))])
def test_a_price_is_never_a_refund_and_never_of_another_accountant(bad: Cost) -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        with pytest.raises(ValueError):
            charge(ledger, bad, {})
        assert ledger.history() == []


@pytest.mark.parametrize("bad", [0.1, float("nan"), 1, True])
def test_a_price_is_a_fraction_and_nothing_else(bad: float) -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        with pytest.raises(ValueError):
            charge(ledger, Cost(bad), {})  # type: ignore[arg-type]  # on purpose
        assert ledger.history() == []


def test_a_price_with_thousands_of_digits_is_refused() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        with pytest.raises(BudgetError) as refused:
            charge(ledger, Cost(Fraction(1, 10**5000)), {})
        assert refused.value.code == "price-digits"


def test_a_receipt_goes_from_reserved_to_released_once() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        receipt = charge(ledger, price("0.25", "1e-7"), {"sql": "SELECT 1", "epsilon": Fraction(1, 4)})
        assert receipt.state == "reserved" and re.fullmatch("[0-9a-f]{32}", receipt.id)
        assert receipt.time.endswith("+00:00")
        done = ledger.record(receipt, [])
        assert done == replace(receipt, state="released")
        (entry,) = ledger.history()
        assert (entry.id, entry.time, entry.cost, entry.state) == (done.id, done.time, done.cost, "released")
        assert entry.note == {"sql": "SELECT 1", "epsilon": "1/4"}
        for again in (receipt, replace(receipt, id="0" * 32)):
            with pytest.raises(LedgerError) as refused:
                ledger.record(again, [])
            assert refused.value.code == "receipt-unknown"
        assert ledger.balance.spent == price("0.25", "1e-7")


def test_reserved_and_released_are_both_spent_and_nothing_gives_back() -> None:
    with Ledger(":memory:", ACCOUNT) as ledger:
        charge(ledger, price("0.5"), {})
        ledger.record(charge(ledger, price("0.5"), {}), [])
        assert ledger.balance.remaining.epsilon == 0
    assert not [name for name in dir(Ledger) if re.search("refund|cancel|rollback|delete|undo", name)]


amounts = st.one_of(
    st.fractions(0, 2, max_denominator=1000), st.decimals(0, 1, places=4).map(Fraction), st.just(Fraction(1, 10))
)


@settings(max_examples=150, deadline=None)
@given(
    totals=st.tuples(amounts, amounts),
    spends=st.lists(st.tuples(amounts, amounts, st.integers(0, 1), st.booleans()), max_size=25),
)
def test_any_sequence_of_spends_agrees_with_exact_sums(
    totals: tuple[Fraction, Fraction], spends: list[tuple[Fraction, Fraction, int, bool]]
) -> None:
    """Two sessions on one file take turns; the model is two running sums."""
    import tempfile

    account = Account(*totals, "basic", ROW)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.sqlite"
        with Ledger(path, account) as one, Ledger(path, account) as two:
            epsilon = delta = Fraction(0)
            paid = 0
            for e, d, who, release in spends:
                ledger = (one, two)[who]
                if epsilon + e <= totals[0] and delta + d <= totals[1]:
                    receipt = charge(ledger, Cost(e, d), {})
                    epsilon, delta, paid = epsilon + e, delta + d, paid + 1
                    if release:
                        ledger.record(receipt, [])
                else:
                    with pytest.raises(BudgetError):
                        charge(ledger, Cost(e, d), {})
                assert one.balance == two.balance
                assert one.balance.spent == Cost(epsilon, delta)
            assert len(two.history()) == paid
        with Ledger(path, account) as again:
            assert again.balance.spent == Cost(epsilon, delta)
            assert again.balance.remaining == Cost(totals[0] - epsilon, totals[1] - delta)


# --- the account itself -------------------------------------------------------------------------------------------


def test_changed_totals_are_refused_until_the_steward_accepts_them(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    more = replace(ACCOUNT, epsilon=Fraction(5))
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, price("0.5"), {})
        with pytest.raises(LedgerError) as refused:
            Ledger(path, more)
        assert refused.value.code == "policy-changed"
        assert "epsilon: 1 -> 5" in refused.value.message
        assert "dpsql budget --accept-policy-change --steward" in (refused.value.hint or "")
        assert Ledger.accept_policy_change(path, more) == ["epsilon: 1 -> 5"]
        assert Ledger.accept_policy_change(path, more) == []
        for use in (lambda: ledger.balance, lambda: charge(ledger, price("0.1"), {})):
            with pytest.raises(LedgerError):  # a session that still holds the old policy
                use()
    with Ledger(path, more) as ledger:
        assert ledger.balance.spent == price("0.5")
        assert ledger.balance.remaining.epsilon == Fraction(9, 2)


def test_totals_lowered_below_what_was_spent_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, price("0.5"), {})
    less = replace(ACCOUNT, epsilon=Fraction(1, 4))
    Ledger.accept_policy_change(path, less)
    with Ledger(path, less) as ledger:
        assert ledger.balance.remaining.epsilon == 0
        with pytest.raises(BudgetError):
            charge(ledger, price("0"), {})


def test_spending_per_row_and_then_asking_per_customer_is_refused_for_good(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    other = replace(ACCOUNT, relation=CUSTOMER)
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, price("0.5"), {})
    for attempt in (lambda: Ledger(path, other), lambda: Ledger.accept_policy_change(path, other)):
        with pytest.raises(LedgerError) as refused:
            attempt()
        assert refused.value.code == "policy-changed"
        assert 'relation.tables.t.unit: "row" -> "customer"' in refused.value.message
        assert "new ledger file" in (refused.value.hint or "")
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == price("0.5")


def test_another_relation_is_accepted_only_while_nothing_was_spent(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    other = replace(ACCOUNT, relation=CUSTOMER)
    Ledger(path, ACCOUNT).close()
    with pytest.raises(LedgerError):
        Ledger(path, other)
    assert Ledger.accept_policy_change(path, other)
    Ledger(path, other).close()


def test_a_relation_in_another_notation_is_not_silently_the_same(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    Ledger(path, ACCOUNT).close()
    with pytest.raises(LedgerError) as refused:
        Ledger(path, replace(ACCOUNT, relation=ROW.replace(":", ": ")))
    assert "another notation" in refused.value.message


def test_an_unknown_accountant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as refused:
        Ledger(tmp_path / "l.sqlite", replace(ACCOUNT, accountant="renyi"))
    assert refused.value.code == "accountant-unknown"
    assert list(tmp_path.iterdir()) == []


def test_a_change_can_only_be_accepted_by_a_ledger_that_exists(tmp_path: Path) -> None:
    for path in (tmp_path / "l.sqlite", ":memory:"):
        with pytest.raises(LedgerError) as refused:
            Ledger.accept_policy_change(path, ACCOUNT)
        assert refused.value.code == "ledger-missing"
    assert list(tmp_path.iterdir()) == []


# --- threads, processes, crashes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_that_share_a_ledger_never_overspend(where: str, tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.sqlite" if where == "file" else ":memory:", ACCOUNT) as ledger:
        paid: list[str] = []

        def spend() -> None:
            for _ in range(4):
                try:
                    paid.append(ledger.record(charge(ledger, price("0.1"), {}), []).id)
                except BudgetError:
                    continue

        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(paid)) == 10
        assert ledger.balance.spent == price("1")


def _spend_at_barrier(path: str, barrier: Barrier, results: multiprocessing.Queue[str]) -> None:
    barrier.wait()
    try:
        with Ledger(path, ACCOUNT) as ledger:
            charge(ledger, price("0.5"), {"pid": os.getpid()})
        results.put("paid")
    except BudgetError:
        results.put("refused")
    except BaseException as error:
        results.put(repr(error))


@pytest.mark.parametrize("exists", [True, False])
def test_eight_processes_at_a_barrier_spend_the_last_epsilon_once(exists: bool, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    last = 1 if exists else 2  # how many prices of 0.5 still fit
    if exists:
        with Ledger(path, ACCOUNT) as ledger:
            charge(ledger, price("0.5"), {})
    context = own_processes()
    barrier, results = context.Barrier(8), context.Queue()
    processes = [context.Process(target=_spend_at_barrier, args=(str(path), barrier, results)) for _ in range(8)]
    for process in processes:
        process.start()
    outcomes = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    results.close()
    results.join_thread()
    assert outcomes == ["paid"] * last + ["refused"] * (8 - last)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == price("1")
    assert {file.name for file in tmp_path.iterdir()} == {"l.sqlite", "l.sqlite.key"}


KILLED = """
import os, signal, sys
from fractions import Fraction
from dpsql.core.cost import Cost
from dpsql.accounting.ledger import Account, Ledger, Spend
ledger = Ledger(sys.argv[1], Account(Fraction(1), Fraction(1, 10**6), "basic", sys.argv[2]))
_, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(Cost(Fraction(1, 4)), {})])
if sys.argv[3] == "inside":
    with ledger._store.transaction() as db:
        db.execute("INSERT INTO event VALUES (4, 'spend', 't', 'x', '{}', '{}', x'00')")
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "released":
    ledger.record(receipt, [])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
@pytest.mark.parametrize("step", ["reserved", "released", "inside"])
def test_a_spend_survives_kill_9_after_the_reservation(step: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), ROW, step], check=False)
    assert done.returncode == -signal.SIGKILL
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent == price("0.25")
        (entry,) = ledger.history()
        assert entry.state == ("released" if step == "released" else "reserved")
        charge(ledger, price("0.75"), {})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("where", ["file", "memory"])
def test_a_forked_process_cannot_spend_from_its_parents_ledger(where: str, tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.sqlite" if where == "file" else ":memory:", ACCOUNT) as ledger:
        child = os.fork()
        if child == 0:
            try:
                charge(ledger, price("0.5"), {})
                os._exit(1)
            except LedgerError as error:
                ledger.close()
                os._exit(0 if error.code == "ledger-forked" else 2)
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        charge(ledger, price("1"), {})
