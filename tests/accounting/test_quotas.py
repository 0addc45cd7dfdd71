"""Who spends: quotas under the shared total, the largest query, renewal, and clocks that go backwards."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import charge

import dpsql
from dpsql.accounting import durable as ledger_clock
from dpsql.accounting.account import Balance, Entry
from dpsql.accounting.account_statement import statement
from dpsql.accounting.ledger import Account, Ledger, Quota
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, LedgerError, PrivacyError

ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
ACCOUNT = Account(Fraction(1), Fraction(0), "basic", ROW)
MONTHLY = Account(Fraction(1), Fraction(0), "basic", ROW, "monthly")
TABLE = pa.table({"v": list(range(50))})
TABLES = {"t": {"unit": "row", "columns": {"v": {"min": 0, "max": 50}}}}


def policy(**budget: Any) -> dpsql.Policy:
    return dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0, **budget}, "tables": TABLES})


def counts(session: dpsql.Session, epsilon: str) -> dpsql.Answer:
    return session.query("SELECT COUNT(*) FROM t", epsilon=epsilon, fresh=True)


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_an_analyst_has_a_quota_and_others_have_the_rest(accountant: str, tmp_path: Path) -> None:
    delta = 0 if accountant == "basic" else 1e-6
    loaded = policy(delta=delta, accountant=accountant, analysts={"marketing": 0.5, "research": 1})
    path = tmp_path / "l.sqlite"
    with (
        dpsql.connect(loaded, sources={"t": TABLE}, ledger=path, analyst="marketing") as marketing,
        dpsql.connect(loaded, sources={"t": TABLE}, ledger=path, analyst="research") as research,
    ):
        counts(marketing, "0.4")
        with pytest.raises(BudgetError) as refused:
            counts(marketing, "0.4")
        assert refused.value.code == "analyst-quota" and "quota of marketing" in refused.value.message
        offered = (refused.value.hint or "").split("fits is ")[1]
        quote = marketing.explain("SELECT COUNT(*) FROM t", epsilon="0.4")
        assert quote.fits is not None and quote.fits.more == 0  # the quota counts, not just what is left in all
        counts(marketing, offered)
        counts(research, "0.4")
        with pytest.raises(BudgetError) as empty:
            counts(research, "0.9")
        assert empty.value.code == "budget-exhausted"
        assert sorted(research.budget.analysts) == ["marketing", "research"]
        if accountant == "basic":
            assert research.budget.analysts["marketing"].epsilon == Fraction(1, 2)


def test_the_tighter_limit_is_the_one_that_is_named() -> None:
    quota = Quota("ada", Fraction(1, 2))
    with Ledger(":memory:", ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(9, 10)), {}, analyst="bob")
        with pytest.raises(BudgetError) as refused:
            charge(ledger, Cost(Fraction(3, 5)), {}, analyst="ada", quota=quota)
        assert refused.value.code == "budget-exhausted" and "fits is 0.1" in (refused.value.hint or "")


def test_everybody_else_shares_one_quota_where_there_is_a_star(tmp_path: Path) -> None:
    loaded = policy(analysts={"marketing": 0.5, "*": 0.2})
    for name, epsilon in (("ada", "0.1"), (None, "0.1")):
        with dpsql.connect(loaded, sources={"t": TABLE}, ledger=tmp_path / "l.sqlite", analyst=name) as session:
            counts(session, epsilon)
    with (
        dpsql.connect(loaded, sources={"t": TABLE}, ledger=tmp_path / "l.sqlite", analyst="eve") as session,
        pytest.raises(BudgetError, match="quota of everybody else"),
    ):
        counts(session, "0.1")
    with dpsql.connect(loaded, sources={"t": TABLE}, ledger=tmp_path / "l.sqlite", analyst="marketing") as session:
        counts(session, "0.5")


def test_a_stored_release_is_free_for_every_analyst(tmp_path: Path) -> None:
    loaded = policy(analysts={"ada": 0.5, "bob": 0.1})
    path = tmp_path / "l.sqlite"
    with dpsql.connect(loaded, sources={"t": TABLE}, ledger=path, analyst="ada") as ada:
        rows = ada.query("SELECT COUNT(*) FROM t", epsilon="0.5").rows
    with dpsql.connect(loaded, sources={"t": TABLE}, ledger=path, analyst="bob") as bob:
        answer = bob.query("SELECT COUNT(*) FROM t", epsilon="0.5")
        assert answer.receipt.reused and answer.rows == rows


@pytest.mark.parametrize("name", ["", "  ", "*", "a\nb", "x" * 101, 7])
def test_a_name_is_a_short_printable_text(name: Any) -> None:
    with pytest.raises(PrivacyError) as refused:
        dpsql.connect(policy(), sources={"t": TABLE}, ledger=":memory:", analyst=name)
    assert refused.value.code == "analyst"


def test_one_query_may_spend_no_more_than_the_policy_says() -> None:
    loaded = policy(max_query_epsilon=0.3)
    with dpsql.connect(loaded, sources={"t": TABLE}, ledger=":memory:") as session:
        with pytest.raises(PrivacyError) as refused:
            counts(session, "0.31")
        assert refused.value.code == "max-query-epsilon" and session.budget.spent.epsilon == 0
        counts(session, "0.3")


amounts = st.fractions(0, 1, max_denominator=20)


@settings(max_examples=60, deadline=None)
@given(
    spends=st.lists(st.tuples(st.sampled_from(["ada", "bob", ""]), amounts), max_size=25),
    quotas=st.dictionaries(st.sampled_from(["ada", "bob"]), amounts),
)
def test_any_sequence_of_spends_stays_within_every_quota_and_the_total(
    spends: list[tuple[str, Fraction]], quotas: dict[str, Fraction]
) -> None:
    model: dict[str, Fraction] = {}
    with Ledger(":memory:", ACCOUNT) as ledger:
        for who, epsilon in spends:
            mine = model.get(who, Fraction(0)) + epsilon
            fits = sum(model.values()) + epsilon <= 1 and mine <= quotas.get(who, Fraction(1))
            quota = Quota(who, quotas[who]) if who in quotas else None
            if fits:
                charge(ledger, Cost(epsilon), {}, analyst=who, quota=quota)
                model[who] = mine
            else:
                with pytest.raises(BudgetError):
                    charge(ledger, Cost(epsilon), {}, analyst=who, quota=quota)
            assert {n: c.epsilon for n, c in ledger.balance.analysts.items()} == model


# ---------------------------------------------------------------- renewal


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = ""
        monkeypatch.setattr(ledger_clock, "now", lambda: self.time)

    def set(self, day: str) -> None:
        self.time = f"{day}T00:00:00.000+00:00"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_monthly_account_has_its_totals_each_month(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    clock.set("2026-01-31")
    with Ledger(path, MONTHLY) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(1, 10)), {})
        clock.set("2026-02-01")
        assert ledger.balance.remaining.epsilon == 1 and ledger.balance.period == "2026-02"
        charge(ledger, Cost(Fraction(2, 3)), {})
        assert ledger.balance.spent.epsilon == Fraction(2, 3)
    with Ledger(path, MONTHLY) as ledger:
        assert ledger.balance.spent.epsilon == Fraction(2, 3)
        assert [entry.period for entry in ledger.history()] == ["2026-01", "2026-02"]


@pytest.mark.parametrize("back", ["2026-04-30", "2026-01-01", "1999-12-31"])
def test_a_clock_that_goes_backwards_renews_nothing(clock: Clock, tmp_path: Path, back: str) -> None:
    path = tmp_path / "l.sqlite"
    clock.set("2026-05-15")
    with Ledger(path, MONTHLY) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
    clock.set(back)
    with Ledger(path, MONTHLY) as ledger:
        assert ledger.balance.remaining.epsilon == 0
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(1, 1000)), {})
        clock.set("2026-05-31")
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(1, 1000)), {})
        clock.set("2026-06-01")
        charge(ledger, Cost(Fraction(1)), {})


def test_an_account_for_life_never_renews_whatever_the_clock(clock: Clock) -> None:
    clock.set("2026-05-15")
    with Ledger(":memory:", ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
        clock.set("2126-05-15")
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(1, 1000)), {})


def test_renewal_is_the_accounts_and_a_change_of_it_the_stewards(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1)), {})
    with pytest.raises(LedgerError) as refused:
        Ledger(path, MONTHLY)
    assert refused.value.code == "policy-changed" and "renew: never -> monthly" in refused.value.message
    assert Ledger.accept_policy_change(path, MONTHLY) == ["renew: never -> monthly"]
    with Ledger(path, MONTHLY) as ledger:  # what was spent before stays spent in every month
        assert ledger.balance.remaining.epsilon == 0
    Ledger.accept_policy_change(path, ACCOUNT)
    with Ledger(path, ACCOUNT) as ledger:
        assert ledger.balance.spent.epsilon == 1


def test_a_spend_for_life_in_between_lets_no_clock_go_back(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    clock.set("2026-05-15")
    with Ledger(path, MONTHLY) as ledger:
        charge(ledger, Cost(Fraction(9, 10)), {})
    Ledger.accept_policy_change(path, ACCOUNT)
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1, 10)), {})
    Ledger.accept_policy_change(path, MONTHLY)
    clock.set("2026-04-15")
    with Ledger(path, MONTHLY) as ledger:
        assert ledger.balance.period == "2026-05"
        with pytest.raises(BudgetError):
            charge(ledger, Cost(Fraction(1, 1000)), {})


@settings(max_examples=60, deadline=None)
@given(spends=st.lists(st.tuples(st.integers(1, 9), amounts), max_size=25))
def test_no_order_of_clock_times_overspends_a_month(spends: list[tuple[int, Fraction]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        clock.set("2026-01-01")
        latest, spent = "2026-01", Fraction(0)
        with Ledger(":memory:", MONTHLY) as ledger:
            for month, epsilon in spends:
                clock.set(f"2026-0{month}-10")
                now = max(latest, f"2026-0{month}")
                before = spent if now == latest else Fraction(0)
                if before + epsilon <= 1:
                    charge(ledger, Cost(epsilon), {})
                    latest, spent = now, before + epsilon
                else:
                    with pytest.raises(BudgetError):
                        charge(ledger, Cost(epsilon), {})


def test_a_statement_of_many_different_queries_looks_at_each_entry_a_fixed_number_of_times() -> None:
    looks = []

    class Note(dict[str, object]):
        def get(self, *asked: object) -> object:
            looks.append(asked)
            return super().get(*asked)  # type: ignore[call-overload]

    account = Account(Fraction(100), Fraction(1, 10**6), "zcdp", "{}")
    price = Cost(Fraction(1), Fraction(0), Fraction(1, 100))
    entries = [Entry(f"{n:032x}", "", price, "released", Note(sql=f"SELECT {n}"), f"a{n}") for n in range(500)]
    spent = account.filter.shown(price.times(500))
    found = statement(account, Balance(account.total, spent, account.filter.remaining(spent)), entries, {})
    assert len(found.queries) == len(found.analysts) == 500 and {line.releases for line in found.queries} == {1}
    assert all(line.spent == account.filter.shown(price) for line in found.queries)
    assert len(looks) <= 3 * 500
