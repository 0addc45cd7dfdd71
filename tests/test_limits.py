"""Limits that nobody named: chosen by a first stage of the query, for a share of its ε, and free from then on."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.core.errors import PrivacyError
from dpsql.explain.text import as_dict
from dpsql.plan.nodes import Release
from dpsql.quote import limits as chosen
from dpsql.quote.limits import SEED_GROUPS, SEED_ROWS

UNITS = 4_000
RANDOM = np.random.default_rng(11)
EACH = np.minimum(RANDOM.zipf(1.6, UNITS), 200)
IDS = np.repeat(np.arange(UNITS), EACH)
TABLE = pa.table(
    {
        "id": IDS,
        "k": RANDOM.choice(["a", "b", "c", "d"], len(IDS)),
        "town": [f"t{i}" for i in RANDOM.integers(0, 300, len(IDS))],
        "v": RANDOM.integers(0, 10, len(IDS)),
        "x": RANDOM.lognormal(2, 1, len(IDS)),
    }
)
COLUMNS: dict[str, Any] = {
    "k": {"values": ["a", "b", "c", "d"], "nullable": False},
    "v": {"min": 0, "max": 10},
    "x": {"bounds": "auto"},
}
SHARE = {"limits_share": 0.05}
POLICY: dict[str, Any] = {
    "privacy": {"limits_share": 0.05},
    "tables": {"t": {"unit": "id", "columns": COLUMNS}},
}
BY_KEY = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=1000, delta=1e-4)


def spends(session: dpsql.Session) -> list[tuple[str, Fraction]]:
    return [(str(e.note["sql"]), e.cost.epsilon) for e in session._engine.ledger.history()]


def used(answer: dpsql.Answer) -> dict[str, int]:
    found = [limit.split(" = ") for limit in answer.limits if limit.startswith("max_")]
    return {name: int(number.replace(",", "")) for name, number in found}


def test_a_twentieth_of_epsilon_chooses_a_limit_that_cuts_little(session: dpsql.Session) -> None:
    answer = session.query(BY_KEY, epsilon=4)
    assert spends(session) == [(f"limits of: {BY_KEY}", Fraction(1, 5)), (BY_KEY, Fraction(19, 5))]
    assert answer.cost.epsilon == session.budget.spent.epsilon == 4
    limit = used(answer)["max_rows"]
    assert 16 <= limit <= 512
    kept = np.minimum(EACH, limit).sum() / EACH.sum()
    assert kept > 0.9
    exact = dict(zip(*np.unique(TABLE["k"].to_numpy(zero_copy_only=False), return_counts=True), strict=True))
    for key, count in answer.rows[:4]:  # the last is NULL
        assert abs(count - exact[key]) < 0.15 * exact[key] + 6 * limit


def test_the_next_query_over_the_same_rows_has_the_limits_for_free_and_all_of_its_epsilon(
    session: dpsql.Session,
) -> None:
    first = session.query(BY_KEY, epsilon=4)
    other = session.query("SELECT k, COUNT(v) FROM t GROUP BY k", epsilon=1)
    assert spends(session)[2:] == [("SELECT k, COUNT(v) FROM t GROUP BY k", Fraction(1))]
    assert other.cost.epsilon == 1 and used(other)
    again = session.query(BY_KEY, epsilon=4)
    assert again.rows == first.rows and again.cost.epsilon == 0 and len(spends(session)) == 3


def test_better_counts_are_bought_where_stored_ones_have_much_more_noise(session: dpsql.Session) -> None:
    def bought(epsilon: str) -> bool:
        return any(stage.kind == "limits" for stage in session.explain(BY_KEY, epsilon=epsilon).stages)

    session.query(BY_KEY, epsilon=1)
    assert [bought(epsilon) for epsilon in ("0.2", "1", "1.4", "1.6")] == [False, False, False, True]


def test_all_stored_counts_together_decide_for_what_is_paid_anyway(session: dpsql.Session) -> None:
    first = session.query(BY_KEY, epsilon=1)
    session.query("SELECT COUNT(v) FROM t", epsilon=4)  # other counts of the same rows, with less noise
    assert session.query(BY_KEY, epsilon=1).cost.epsilon == 0  # found by the limit that it had
    assert session.query(BY_KEY, epsilon=1).rows == first.rows
    (stage,) = session.explain(BY_KEY, epsilon=2).stages
    assert stage.kind == "main"


def test_other_rows_have_limits_of_their_own(session: dpsql.Session) -> None:
    session.query("SELECT COUNT(*) FROM t", epsilon=1)
    session.query("SELECT COUNT(*) FROM t WHERE v > 5", epsilon=1)
    assert len(spends(session)) == 4


def test_limits_that_are_named_are_used_as_they_stand(session: dpsql.Session) -> None:
    answer = session.query(BY_KEY, epsilon=1, max_rows=3)
    assert used(answer) == {"max_rows": 3} and len(spends(session)) == 2  # what it cuts is counted
    declared = {**POLICY, "budget": {"epsilon": 9, "delta": 0}, "privacy": {"max_rows": 5}}
    with dpsql.connect(
        dpsql.Policy.from_dict(declared),
        sources={"t": TABLE},
        ledger=":memory:",
    ) as named:
        assert used(named.query(BY_KEY, epsilon=1)) == {"max_rows": 5}


@pytest.mark.parametrize("said", [{"max_rows": "auto"}, {"max_rows": {"most": 12}}])
def test_a_policy_may_say_that_a_limit_is_chosen_and_how_large_it_may_be(
    connect: Connect, said: dict[str, Any]
) -> None:
    session = connect({"t": TABLE}, {"privacy": SHARE | {"max_rows": 5}, "tables": {"t": POLICY["tables"]["t"] | said}})
    limit = used(session.query(BY_KEY, epsilon=4))["max_rows"]
    assert limit == 12 if said["max_rows"] != "auto" else limit >= 16
    assert len(spends(session)) == 2


def test_a_query_may_have_a_limit_chosen_that_the_policy_names(connect: Connect) -> None:
    session = connect({"t": TABLE}, {**POLICY, "privacy": SHARE | {"max_rows": 5}})
    assert used(session.query(BY_KEY, epsilon=4, max_rows="auto"))["max_rows"] >= 16


def test_the_most_holds_for_fixed_limits_too_and_for_what_a_query_names(connect: Connect) -> None:
    most = {"max_rows": {"most": 6}, "max_groups": {"most": 2}, "max_rows_per_group": {"most": 2}}
    session = connect({"t": TABLE}, {**POLICY, "privacy": SHARE | most}, delta=1e-4)
    small = session.query("SELECT COUNT(*) FROM t WHERE v > 100", epsilon="0.1")
    assert used(small) == {"max_rows": 2}  # one group
    with pytest.raises(PrivacyError, match="max_rows = 7 is more than the policy lets it be"):
        session.query(BY_KEY, epsilon=1, max_rows=7)
    enforced = as_dict(session.explain(BY_KEY, epsilon=1, max_rows=3))["releases"][0]["enforced"]
    assert enforced == {"max_rows": 3, "max_rows_per_group": 2, "max_groups": None}
    towns = used(session.query("SELECT town, COUNT(*) FROM t GROUP BY town", epsilon=4, delta="1e-6"))
    assert towns["max_groups"] <= 2 and towns.get("max_rows", 1) <= 6 and towns.get("max_rows_per_group", 1) <= 2


def test_the_share_is_the_policys_to_say(connect: Connect) -> None:
    session = connect({"t": TABLE}, {**POLICY, "privacy": {"limits_share": 0.2}}, epsilon=10, delta=0)
    session.query(BY_KEY, epsilon=1)
    assert [cost for _, cost in spends(session)] == [Fraction(1, 5), Fraction(4, 5)]


def test_few_units_get_the_fixed_limits(connect: Connect) -> None:
    small = pa.table({"id": [1, 1, 2, 3], "k": ["a", "a", "b", "c"], "v": [1, 2, 3, 4], "x": [1.0] * 4})
    session = connect({"t": small}, POLICY, epsilon=10, delta=0)
    assert used(session.query("SELECT COUNT(*) FROM t", epsilon="0.1")) == {"max_rows": SEED_ROWS}
    answer = session.query("SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k", epsilon="0.1")
    assert used(answer) == {"max_groups": SEED_GROUPS}


def test_private_keys_choose_groups_and_the_rows_in_each(session: dpsql.Session) -> None:
    answer = session.query("SELECT town, COUNT(*) FROM t GROUP BY town", epsilon=4, delta="1e-6")
    limits = used(answer)
    assert limits["max_groups"] >= 1 and answer.cost.epsilon == 4 and answer.cost.delta <= Fraction(1, 10**6)
    (noted, _), _ = spends(session)
    assert noted.startswith("limits of: ")


def test_ranges_and_limits_share_one_price(session: dpsql.Session) -> None:
    answer = session.query("SELECT k, SUM(x) FROM t GROUP BY k", epsilon=4)
    assert [sql.split(":")[0] for sql, _ in spends(session)][:2] == ["automatic bounds of t.x", "limits of"]
    assert sum(cost for _, cost in spends(session)) == 4 == answer.cost.epsilon
    assert answer.ranges[0]["found"] and answer.limits[0].startswith("one unit's sum of |x| = ")
    assert session.query("SELECT k, SUM(x) FROM t GROUP BY k", epsilon=4).cost.epsilon == 0


def test_a_batch_measures_each_histogram_once(session: dpsql.Session) -> None:
    first, second = session.batch(f"{BY_KEY}; SELECT k, COUNT(v) FROM t GROUP BY k", epsilon=4)
    assert len(spends(session)) == 2 and first.cost.epsilon == 4 and used(first) == used(second)
    quote = session.explain_batch("SELECT COUNT(*) FROM t WHERE v > 3; SELECT COUNT(v) FROM t WHERE v > 3", epsilon=1)
    assert [len(stage.steps) for stage in quote.stages if stage.kind == "limits"] == [1]


def test_under_zcdp_the_stages_stay_within_the_querys_rho() -> None:
    whole = {"budget": {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp"}, **POLICY}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        conversion = session._engine.ledger.account.filter.conversion
        assert conversion is not None
        answer = session.query(BY_KEY, epsilon=1)
        rhos = [e.cost.rho or Fraction(0) for e in session._engine.ledger.history()]
        assert len(rhos) == 2 and sum(rhos) <= conversion.rho(Fraction(1)) and answer.cost.epsilon == 1


def test_a_limit_that_would_refuse_the_query_gives_way(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """No refusal rests on a released value: the most that a choice can do is to be passed over."""
    monkeypatch.setattr(chosen, "choose_limit", lambda tail, limits, noise, unseen: 2.0**300)
    sql = "SELECT VAR_POP(v) FROM t"
    answer = session.query(sql, epsilon="0.001")
    assert used(answer) == {"max_rows": SEED_ROWS}


def test_an_accuracy_needs_limits_that_are_known(session: dpsql.Session) -> None:
    with pytest.raises(PrivacyError) as refused:
        session.query("SELECT COUNT(*) FROM t", accuracy=1000)
    assert refused.value.code == "automatic" and spends(session) == []
    session.query("SELECT COUNT(*) FROM t", epsilon=1)
    assert session.query("SELECT COUNT(*) FROM t", accuracy=1000, fresh=True).cost.epsilon < 1


def test_the_price_does_not_depend_on_what_is_chosen(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = []
    for limit in (1, 7, 128):
        monkeypatch.setattr(chosen, "choose_limit", lambda tail, limits, noise, unseen, limit=limit: float(limit))
        before = session.budget.spent
        answer = session.query(BY_KEY, epsilon=1, fresh=True) if limit > 1 else session.query(BY_KEY, epsilon=1)
        prices.append((answer.cost.epsilon, answer.cost.delta, session.budget.spent.epsilon - before.epsilon))
    assert {p[0] for p in prices} == {1} and {p[2] for p in prices} == {1}


def test_explain_says_what_is_spent_on_limits_and_then_which_are_used(session: dpsql.Session) -> None:
    before = str(session.explain(BY_KEY, epsilon=4))
    assert "max_rows: chosen first, for ε = 0.2 of the price, once" in before
    assert "max_rows still to be chosen" in before and "± 0.788 for 1" in before
    answer = session.query(BY_KEY, epsilon=4)
    after = str(session.explain(BY_KEY, epsilon=4))
    assert f"enforced  max_rows = {used(answer)['max_rows']}" in after and "chosen first" not in after
    assert session.budget.spent.epsilon == 4


# ---------------------------------------------------------------- conditions on noisy values

NOISY = (
    "SELECT COUNT(*) AS n FROM t WHERE v >= (SELECT AVG(v) FROM t)",
    "SELECT COUNT(*) AS n FROM t WHERE k IN (SELECT k FROM t GROUP BY k HAVING COUNT(*) > 10)",
    "WITH m AS (SELECT k, AVG(v) AS a FROM t GROUP BY k) SELECT COUNT(*) AS n FROM t JOIN m USING (k) WHERE v > a",
    "SELECT COUNT(*) AS n FROM t WHERE v > 2 AND v >= (SELECT AVG(v) FROM t WHERE v > 2)",
)


@pytest.mark.parametrize("sql", NOISY)
def test_a_condition_on_noisy_values_needs_no_named_limit(session: dpsql.Session, sql: str) -> None:
    answer = session.query(sql, epsilon=8)
    base = duckdb.connect()
    base.register("t", TABLE)
    ((exact,),) = base.execute(sql).fetchall()
    assert 8 <= used(answer)["max_rows"] <= 2048
    assert answer.rows[0][0] == pytest.approx(exact, rel=0.35) and answer.cost.epsilon == 8
    assert not any("not known" in note for note in answer.cut_notes)
    again = session.query(sql, epsilon=8)
    assert again.rows == answer.rows and again.cost.epsilon == 0
    other = session.explain(sql.replace("COUNT(*) AS n", "COUNT(v) AS n"), epsilon=8)
    assert [stage.kind for stage in other.stages] == ["main"]  # the counts are stored, and free


def test_units_are_counted_without_conditions_on_noisy_values(session: dpsql.Session) -> None:
    def counted(sql: str) -> set[Release]:
        stages = session.explain(sql, epsilon=1).stages
        return {step.checked.release for stage in stages if stage.kind == "limits" for step in stage.releases}

    assert counted("SELECT COUNT(*) FROM t") <= counted(NOISY[0])


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (
            "SELECT v > (SELECT AVG(v) FROM t) AS above, COUNT(DISTINCT id) FROM t GROUP BY 1",
            "max_groups",
        ),  # which groups there are
        (
            "SELECT COUNT(*) FROM t JOIN (SELECT k, COUNT(*) AS n FROM t GROUP BY k) m ON t.v < m.n",
            "max_rows",
        ),  # a row may have several matches
    ],
)
def test_what_more_than_conditions_rests_on_still_needs_a_limit(session: dpsql.Session, sql: str, limit: str) -> None:
    with pytest.raises(PrivacyError, match=r"any number|how many groups") as error:
        session.explain(sql, epsilon=1, delta="1e-6")
    assert limit in str(error.value) and not spends(session)


def test_stored_means_that_tell_otherwise_than_others_make_no_error(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means with more noise chose a histogram of sizes of their own, which all means together don't ask for."""

    def usual(counts: Sequence[float], noise: float) -> float:
        return 0.75 * 2.0 ** (-4 if noise > 20 else -6)

    monkeypatch.setattr(chosen, "usual_part", usual)
    ids = np.repeat(np.arange(600), 3)
    table = pa.table({"id": ids, "x": np.full(len(ids), 2.0)})
    policy = {"tables": {"t": {"unit": "id", "columns": {"x": {"min": 0, "max": 500}}}}}
    session = connect({"t": table}, policy, epsilon=100)
    for epsilon in (1, 10, 1, 3, 1):
        answer = session.query("SELECT COUNT(*), SUM(x) FROM t", epsilon=epsilon)
        assert session.explain("SELECT COUNT(*), SUM(x) FROM t", epsilon=epsilon).price.epsilon <= epsilon
        assert any("|x|" in limit for limit in answer.limits)
