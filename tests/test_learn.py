"""Histograms of whole tables, learned once by the steward: everybody's queries choose their limits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import cursor_of, scale_of

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.backends.duckdb.run import execute
from dpsql.core import STEWARD
from dpsql.core.errors import BudgetError, DataError, PolicyError, PrivacyError
from dpsql.engine import Data
from dpsql.learn import Learned
from dpsql.quote import limits as histograms
from dpsql.quote.model import Quote
from dpsql.run import Payer

UNITS = 3_000
RANDOM = np.random.default_rng(7)
EACH = np.minimum(RANDOM.zipf(1.7, UNITS), 100)
ORDERS = pa.table(
    {
        "uid": np.repeat(np.arange(UNITS), EACH),
        "city": RANDOM.choice(["a", "b"], int(EACH.sum())),
        "amount": RANDOM.lognormal(1, 1, int(EACH.sum())).clip(0, 500),
    }
)
USERS = pa.table({"id": np.arange(UNITS), "plan": RANDOM.choice(["x", "y"], UNITS)})
AMOUNT = {"min": 0, "max": 500, "nullable": False}
TABLES: dict[str, Any] = {
    "orders": {"unit": "uid", "columns": {"amount": AMOUNT, "city": {"values": ["a", "b"]}}},
    "users": {"unit": "id", "rows_per_unit": 1, "columns": {"plan": {"values": ["x", "y"]}}},
}
COUNT = "SELECT COUNT(*) FROM orders"
HALF = Fraction(1, 2)

Open = Callable[..., dpsql.Engine]


@pytest.fixture
def opened() -> Iterator[Open]:
    """opened(budget=…, privacy=…): an engine over orders and users, whose promises are verified; closed at the end."""
    engines: list[dpsql.Engine] = []

    def make(**more: Any) -> dpsql.Engine:
        whole = {"budget": {"epsilon": 100, "delta": 1e-6}, "tables": TABLES, **more}
        sources = {"orders": ORDERS, "users": USERS}
        engine = dpsql.Engine.open(dpsql.Policy.from_dict(whole), sources=sources, ledger=":memory:")
        engines.append(engine)
        engine.refresh(steward=True)
        return engine

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def quotes(monkeypatch: pytest.MonkeyPatch) -> list[Quote]:
    """What is reserved while the test runs."""
    reserved: list[Quote] = []
    reserve = Payer.reserve

    def seen(self: Payer, quote: Quote, data: Data, fresh: bool) -> Any:
        reserved.append(quote)
        return reserve(self, quote, data, fresh)

    monkeypatch.setattr(Payer, "reserve", seen)
    return reserved


def kinds_bought(session: dpsql.Session, sql: str, **asked: Any) -> list[str]:
    """What a query buys: counts of units that choose limits, and its answer."""
    before = len(session._engine.ledger.history())
    session.query(sql, **{"epsilon": 1, **asked})
    after = session._engine.ledger.history()[before:]
    return ["limits" if str(e.note["sql"]).startswith(histograms.NOTED) else "answer" for e in after]


# ---------------------------------------------------------------- what it is for


def test_after_learning_a_query_has_its_whole_epsilon_for_its_answer(opened: Open) -> None:
    engine = opened()
    session = engine.session("ann")
    assert session.explain(COUNT, epsilon=1).stages[0].kind == "limits"
    report = engine.learn(steward=True)
    assert (report.now, report.needless, report.cost.epsilon) == (("orders",), ("users",), HALF)
    (before,) = engine.ledger.history()
    answer = session.query(COUNT, epsilon=1)
    entries = engine.ledger.history()
    assert [(e.analyst, e.cost.epsilon) for e in entries] == [(STEWARD, HALF), ("ann", Fraction(1))]
    assert before.id == entries[0].id and answer.cost.epsilon == 1
    assert answer.limits[0].startswith("max_rows = ") and abs(answer.rows[0][0] - EACH.sum()) < 0.05 * EACH.sum()
    assert session.query(COUNT, epsilon=1).cost.epsilon == 0
    assert "limits    learned, for free" in str(session.explain(COUNT, epsilon=1))


def test_learning_again_costs_nothing_and_says_so(opened: Open) -> None:
    engine = opened()
    engine.learn(steward=True, epsilon="0.3")
    again = engine.learn(steward=True)
    assert (again.now, again.before, again.receipts) == ((), ("orders",), ())
    assert "learned before" in str(again) and engine.session().budget.spent.epsilon == Fraction(3, 10)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), SUM(amount) FROM orders",
        "SELECT AVG(amount) FROM orders",
        "SELECT SUM(amount) FROM orders",
        "SELECT city, AVG(amount) FROM orders GROUP BY city",
        "SELECT SUM(o.amount) FROM orders o JOIN users u ON o.uid = u.id WHERE u.plan = 'x'",
    ],
)
def test_columns_that_are_learned_serve_their_sums_and_averages(opened: Open, sql: str) -> None:
    engine = opened()
    assert engine.learn(steward=True, columns=["orders.amount"]).now == ("orders", "orders.amount")
    assert sum(e.cost.epsilon for e in engine.ledger.history()) <= HALF
    assert kinds_bought(engine.session("ann"), sql) == ["answer"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM orders o JOIN users u ON o.uid = u.id WHERE u.plan = 'x'",
        "SELECT COUNT(*) FROM users u JOIN orders o ON o.uid = u.id WHERE u.plan = 'x'",
        "SELECT u.plan, COUNT(*) FROM orders o LEFT JOIN users u ON o.uid = u.id GROUP BY u.plan",
        "SELECT COUNT(*) FROM orders WHERE uid IN (SELECT id FROM users WHERE plan = 'x')",
        "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.uid = o.uid AND p.city = 'a')",
        "SELECT COUNT(*) FROM (SELECT uid, city FROM orders) x",
        "SELECT city, COUNT(*) FROM orders GROUP BY city",
    ],
)
def test_it_serves_queries_that_keep_or_drop_whole_units(opened: Open, sql: str) -> None:
    engine = opened()
    engine.learn(steward=True)
    assert kinds_bought(engine.session("ann"), sql) == ["answer"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM orders WHERE city = 'a'",
        "SELECT COUNT(*) FROM orders o JOIN users u ON o.uid = u.id AND o.city = u.plan",
        "SELECT COUNT(*) FROM orders o JOIN users u ON o.uid = u.id WHERE o.city = 'a' AND u.plan = 'x'",
        "SELECT COUNT(*) FROM orders a JOIN orders b ON a.uid = b.uid",
        "SELECT COUNT(*) FROM users u LEFT JOIN orders o ON o.uid = u.id",
        "SELECT COUNT(*) FROM (SELECT uid FROM orders UNION ALL SELECT uid FROM orders) x",
        "SELECT COUNT(*) FROM orders, generate_series(1, 3) AS g(n)",
        "SELECT COUNT(*) FROM orders CROSS JOIN (VALUES (1), (2), (3)) AS v(n)",
        "SELECT COUNT(*) FROM (SELECT uid, city, COUNT(*) AS n FROM orders GROUP BY uid, city) x",
    ],
)
def test_it_serves_no_query_in_which_a_unit_may_have_other_rows_than_in_one_table(opened: Open, sql: str) -> None:
    engine = opened()
    engine.learn(steward=True)
    assert kinds_bought(engine.session("ann"), sql) == ["limits", "answer"]


# ---------------------------------------------------------------- free repeats


@pytest.mark.parametrize(
    "sql", [COUNT, "SELECT COUNT(*) FROM orders o JOIN users u ON o.uid = u.id WHERE u.plan = 'x'"]
)
def test_what_was_asked_before_learning_is_still_free_after_it(opened: Open, sql: str) -> None:
    engine = opened()
    session = engine.session("ann")
    first = session.query(sql, epsilon=1)
    engine.learn(steward=True)
    again = session.query(sql, epsilon=1)
    assert again.cost.epsilon == 0 and again.rows == first.rows


def test_fresh_draws_the_answer_anew_and_what_was_learned_stays(opened: Open) -> None:
    engine = opened()
    engine.learn(steward=True)
    session = engine.session("ann")
    kinds_bought(session, COUNT)
    assert kinds_bought(session, COUNT, fresh=True) == ["answer"]
    assert engine.learn(steward=True).receipts == ()


def test_a_noisy_histogram_of_an_analysts_own_is_not_taken_for_a_learned_one(opened: Open) -> None:
    engine = opened()
    engine.session("ann").query(COUNT, epsilon="0.01")
    assert engine.learn(steward=True).now == ("orders",)


# ---------------------------------------------------------------- who pays, and who may use it


def test_no_quota_holds_it_and_an_analyst_with_a_small_one_uses_it(opened: Open) -> None:
    budget = {"epsilon": 100, "delta": 1e-6, "analysts": {"ann": 0.1, "*": 0.2}}
    engine = opened(budget=budget)
    engine.learn(steward=True)
    answer = engine.session("ann").query(COUNT, epsilon="0.1")
    assert answer.cost.epsilon == Fraction(1, 10)
    assert engine.session("bob").query(COUNT, epsilon="0.2", fresh=True).cost.epsilon == Fraction(1, 5)
    lines = {line.name: (line.spent.epsilon, line.quota) for line in engine.session("ann").account.analysts}
    assert lines[STEWARD] == (HALF, None) and lines["ann"] == (Fraction(1, 10), Fraction(1, 10))
    assert lines["everybody else"] == (Fraction(1, 5), Fraction(1, 5))


@pytest.mark.parametrize("share", ["all", "own"])
def test_it_serves_analysts_who_see_nobody_elses_releases(opened: Open, share: Any) -> None:
    engine = opened()
    assert kinds_bought(engine.session("ann", share=share), COUNT) == ["limits", "answer"]
    engine.learn(steward=True)
    bob = engine.session("bob", share=share)
    assert kinds_bought(bob, COUNT) == ["answer"] if share == "own" else not kinds_bought(bob, COUNT)
    assert kinds_bought(bob, "SELECT city, COUNT(*) FROM orders GROUP BY city") == ["answer"]


def test_no_analyst_has_the_stewards_name(opened: Open) -> None:
    with pytest.raises(PrivacyError, match="steward's own name"):
        opened().session(STEWARD)
    with pytest.raises(PolicyError, match="steward's own name"):
        opened(budget={"epsilon": 1, "analysts": {STEWARD: 0.5}})


def test_it_is_the_stewards_act(opened: Open) -> None:
    with pytest.raises(PolicyError, match="the steward's act"):
        opened().learn()


# ---------------------------------------------------------------- what it costs


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_all_of_it_costs_no_more_than_epsilon(quotes: list[Quote], accountant: str, adjacency: str) -> None:
    """The ledger holds what the noise objects cost, k histograms together: k·Δ/b is at most ε."""
    tables = {**TABLES, "again": {"unit": "uid"}}
    whole = {
        "budget": {"epsilon": 100, "delta": 1e-6, "accountant": accountant},
        "privacy": {"adjacency": adjacency},
        "tables": tables,
    }
    sources = {"orders": ORDERS, "users": USERS, "again": ORDERS}
    with dpsql.Engine.open(dpsql.Policy.from_dict(whole), sources=sources, ledger=":memory:") as engine:
        engine.learn(steward=True, columns=["orders.amount"])
        (quote,) = quotes
        steps = [step for stage in quote.stages for step in stage.releases]
        assert len(steps) >= 4
        delta = 1 if adjacency == "add_remove" else 2
        conversion = engine.ledger.account.filter.conversion
        for stage in quote.stages:
            moved = [delta if step.checked.release.keys else 1 for step in stage.releases]
            scales = [scale_of(step.measurements[0]) for step in stage.releases]
            price = sum((Fraction(m) / b for m, b in zip(moved, scales, strict=True)), Fraction(0))
            assert conversion is not None or price == stage.own.epsilon
        spent = engine.ledger.balance.spent
        assert 0.99 * HALF < spent.epsilon <= HALF
        if conversion is not None:
            assert spent.rho is not None and spent.rho <= conversion.rho(HALF)
        assert engine.ledger.balance.spent.delta <= Fraction(1, 10**6)


def test_one_person_has_one_vote_in_each_histogram(opened: Open, quotes: list[Quote]) -> None:
    engine = opened()
    session = engine.session()
    engine.learn(steward=True, columns=["orders.amount"])
    kept = ORDERS.filter(pa.compute.greater(ORDERS["uid"], 0))
    heavy = pa.table({"uid": np.zeros(5_000, int), "city": ["a", "b"] * 2_500, "amount": np.full(5_000, 500.0)})
    (quote,) = quotes
    for step in (step for stage in quote.stages for step in stage.releases):
        counts = []
        for rows in (kept, pa.concat_tables([kept, heavy.cast(ORDERS.schema)])):
            cursor = cursor_of(session)
            cursor.register("orders", rows)
            exact = execute(step, cursor)
            cursor.close()
            (m,) = step.measurements
            (column,) = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
            counts.append(np.array([int(n) for n in column]))
        moved = np.abs(counts[0] - counts[1]).sum()
        (m,) = step.measurements
        assert moved <= m.sensitivity.l1 and m.sensitivity.l1 == 1


def test_what_is_learned_later_has_what_is_left_of_epsilon(opened: Open) -> None:
    engine = opened()
    engine.learn(steward=True)
    with pytest.raises(BudgetError, match="is spent already") as refused:
        engine.learn(steward=True, columns=["orders.amount"])
    assert "--epsilon 1" in str(refused.value.hint)
    more = engine.learn(steward=True, epsilon=1, columns=["orders.amount"])
    assert (more.now, more.before) == (("orders.amount",), ("orders",))
    assert HALF < engine.ledger.balance.spent.epsilon <= 1


def test_a_budget_that_is_too_small_is_refused_with_what_fits(opened: Open) -> None:
    engine = opened(budget={"epsilon": 0.25})
    with pytest.raises(BudgetError) as refused:
        engine.learn(steward=True)
    assert "--epsilon 0.25" in str(refused.value.hint) and engine.ledger.balance.spent.epsilon == 0
    assert engine.learn(steward=True, epsilon="0.25").cost.epsilon == Fraction(1, 4)


def test_what_fails_between_payment_and_record_is_paid_and_learned_by_the_next_one(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    with monkeypatch.context() as broken:

        def dies(*_: object) -> Any:
            raise KeyboardInterrupt

        broken.setattr(Ledger, "record", dies)
        with pytest.raises(KeyboardInterrupt):
            engine.learn(steward=True)
    assert [e.state for e in engine.ledger.history()] == ["reserved"]
    assert kinds_bought(engine.session("ann"), COUNT) == ["limits", "answer"]
    assert engine.learn(steward=True).now == ("orders",)
    assert [e.state for e in engine.ledger.history() if e.analyst == STEWARD] == ["reserved", "released"]


def test_columns_are_named_and_have_ranges(opened: Open) -> None:
    engine = opened()
    with pytest.raises(PolicyError, match=r"no private table has a column orders\.amout") as refused:
        engine.learn(steward=True, columns=["orders.amout"])
    assert "orders.amount" in str(refused.value.hint)
    with pytest.raises(PolicyError, match="limits_share is 0"):
        opened(privacy={"limits_share": 0}).learn(steward=True)


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize("on_change", ["refuse", "accept"])
def test_what_was_learned_is_of_one_version_of_the_data(tmp_path: Path, on_change: str) -> None:
    path = tmp_path / "orders.parquet"
    pq.write_table(ORDERS, path)
    table = {"source": "orders.parquet", "unit": "uid", "columns": TABLES["orders"]["columns"]}
    whole = {"budget": {"epsilon": 100}, "data": {"on_change": on_change}, "tables": {"orders": table}}

    def opened() -> dpsql.Engine:
        return dpsql.Engine.open(dpsql.Policy.from_dict(whole, folder=tmp_path), ledger=tmp_path / "l.sqlite")

    def learned(engine: dpsql.Engine) -> Learned:
        return engine.learn(steward=True)

    with opened() as engine:
        engine.refresh(steward=True)
        assert learned(engine).now == ("orders",)
        assert kinds_bought(engine.session("ann"), COUNT) == ["answer"]
    pq.write_table(ORDERS.slice(10), path)
    with opened() as engine:
        if on_change == "refuse":
            with pytest.raises((DataError, dpsql.LedgerError)):
                learned(engine)
            engine.refresh(steward=True)
        assert kinds_bought(engine.session("ann"), COUNT) == ["limits", "answer"]
        assert learned(engine).now == ("orders",)
        assert kinds_bought(engine.session("ann"), "SELECT city, COUNT(*) FROM orders GROUP BY city") == ["answer"]
