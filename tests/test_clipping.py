"""Clipping is visible: what ± doesn't show is named, and estimated for a small, fixed share of the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import Connect, cursor_of

import dpsql
from dpsql.backends.duckdb.run import execute
from dpsql.core.errors import PrivacyError
from dpsql.quote.model import Measurement, Stage

RANDOM = np.random.default_rng(3)
UNITS = 20_000
ROWS = np.minimum(RANDOM.zipf(1.8, UNITS), 4000)
IDS = np.repeat(np.arange(UNITS), ROWS)
TABLE = pa.table({"id": IDS, "x": RANDOM.lognormal(3, 1, len(IDS)), "k": RANDOM.choice(list("abcdefgh"), len(IDS))})
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 8, "max_groups": 2},
    "tables": {"t": {"unit": "id", "columns": {"x": {"min": 0, "max": 60}}}},
}
SQL = "SELECT AVG(x), COUNT(*) FROM t"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100, delta=1e-6)


def spends(session: dpsql.Session) -> list[Fraction]:
    return [e.cost.epsilon for e in session._engine.ledger.history()]


def test_a_twentieth_of_epsilon_estimates_the_share_of_units_that_are_cut(session: dpsql.Session) -> None:
    answer = session.query(SQL, epsilon=4, clipping=True)
    assert spends(session) == [Fraction(19, 5), Fraction(1, 5)] and answer.cost.epsilon == 4
    assert answer.clipping is not None
    rows, outside = answer.clipping
    largest = Counter[int]()
    for id, x in zip(IDS.tolist(), TABLE["x"].to_pylist(), strict=True):
        largest[id] = max(largest[id], x)
    assert rows["what"] == "max_rows" and rows["limit"] == 8
    assert abs(rows["share"] - float(np.mean(ROWS > 8))) < 0.05
    assert rows["suggestion"]["limit"] > 8
    assert abs(outside["share"] - sum(v > 60 for v in largest.values()) / UNITS) < 0.03
    assert answer.limits == ("max_rows = 8", "the range of AVG(t.x) [0, 60]")
    assert session.replay(answer.receipt.id).clipping == answer.clipping


def test_the_estimate_is_stored_free_and_explain_speaks_of_the_limits_at_hand(session: dpsql.Session) -> None:
    assert "have more than" not in str(session.explain(SQL, epsilon=1))
    first = session.query(SQL, epsilon=4, clipping=True)
    again = session.query(SQL, epsilon=4, clipping=True)
    assert again.cost.epsilon == 0 and again.clipping == first.clipping and again.rows == first.rows
    assert "of units have more than max_rows = 8 rows; max_rows = " in str(session.explain(SQL, epsilon=1))
    assert "of units have more than max_rows = 2 rows; max_rows = " in str(session.explain(SQL, epsilon=1, max_rows=2))
    assert spends(session) == [Fraction(19, 5), Fraction(1, 5)]


def test_where_the_answer_is_stored_only_the_estimate_is_paid_for(session: dpsql.Session) -> None:
    session.query(SQL, epsilon=4)
    answer = session.query(SQL, epsilon=4, clipping=True)
    assert answer.cost.epsilon == Fraction(1, 5) and answer.clipping and spends(session) == [4, Fraction(1, 5)]


def test_groups_are_estimated_where_they_are_capped(session: dpsql.Session) -> None:
    answer = session.query("SELECT k, SUM(x) FROM t GROUP BY k", epsilon=4, delta="1e-7", clipping=True)
    assert answer.clipping is not None
    assert [c["what"] for c in answer.clipping] == ["max_rows", "max_groups", "range"]
    groups: dict[int, set[str]] = {}
    for id, k in zip(IDS.tolist(), TABLE["k"].to_pylist(), strict=True):
        groups.setdefault(id, set()).add(k)
    exact = sum(len(g) > 2 for g in groups.values()) / UNITS
    assert abs(answer.clipping[1]["share"] - exact) < 0.06


def test_a_query_in_which_nothing_is_cut_pays_for_no_estimate(connect: Connect) -> None:
    session = connect({"t": TABLE}, {"tables": {"t": {"unit": "row", "columns": {"x": {"min": 0, "max": 60}}}}})
    assert session.query("SELECT COUNT(*) FROM t", epsilon=1, clipping=True).clipping is None
    assert spends(session) == [1]
    answer = session.query("SELECT SUM(x) FROM t", epsilon=1, clipping=True)
    assert answer.clipping is not None and [c["what"] for c in answer.clipping] == ["range"]
    assert spends(session)[1:] == [Fraction(19, 20), Fraction(1, 20)]


def test_automatic_bounds_and_the_estimate_share_one_price(connect: Connect) -> None:
    policy = {**POLICY, "tables": {"t": {"unit": "id", "columns": {"x": {"bounds": "auto"}}}}}
    session = connect({"t": TABLE}, policy, epsilon=100)
    answer = session.query(SQL, epsilon=4, clipping=True)
    assert answer.cost.epsilon == sum(spends(session)) == 4 and len(spends(session)) == 3
    assert answer.clipping is not None and answer.clipping[1]["share"] < 0.05
    assert session.query(SQL, epsilon=4, clipping=True).cost.epsilon == 0


def test_under_zcdp_the_estimate_is_part_of_rho() -> None:
    whole = {**POLICY, "budget": {"epsilon": 10, "delta": 1e-6, "accountant": "zcdp"}}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        answer = session.query(SQL, epsilon=4, clipping=True)
        rhos = [e.cost.rho for e in session._engine.ledger.history()]
        conversion = session._engine.ledger.account.filter.conversion
        assert conversion is not None and answer.cost.rho == sum(r for r in rhos if r) <= conversion.rho(Fraction(4))
        assert answer.cost.epsilon == 4


def test_several_ranges_are_estimated_together_and_their_errors_hold(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000, delta=1e-6)
    sql = "SELECT SUM(x), SUM(x + 1), SUM(x * 2), COUNT(*) FROM t"
    quote = session.explain(sql, epsilon=1, clipping=True)
    assert (
        quote.stages[1].kind == "estimate" and "by" in quote.stages[1].releases[1].measurements[0].statistic.title
    )  # one block of all
    off = []
    exact = len(set(IDS[TABLE["x"].to_numpy() > 60].tolist())) / UNITS
    for _ in range(20):
        answer = session.query(sql, epsilon=1, clipping=True, fresh=True)
        assert answer.clipping is not None and [c["what"] for c in answer.clipping] == ["max_rows", *["range"] * 3]
        off += [abs(c["share"] - exact) <= c["error"] for c in answer.clipping[1:]]
        assert all(0 < c["error"] < 0.1 for c in answer.clipping[1:])
    assert np.mean(off) > 0.8
    assert "of units have a value outside of the range of" in str(session.explain(sql, epsilon=1))


def test_both_values_of_a_pair_have_a_range_and_what_is_only_counted_has_none(session: dpsql.Session) -> None:
    answer = session.query("SELECT CORR(x, x / 2), REGR_COUNT(x, x) FROM t", epsilon=20, clipping=True)
    pair = "CORR(t.x, t.x / 2)"
    of = [f"the first value of {pair} [0, 60]", f"the second value of {pair} [0, 30]"]
    assert answer.limits == ("max_rows = 8", *(f"the range of {text}" for text in of))
    assert answer.clipping is not None and [c.get("of") for c in answer.clipping] == [None, *of]
    exact = len(set(IDS[TABLE["x"].to_numpy() > 60].tolist())) / UNITS
    assert all(abs(c["share"] - exact) < 0.03 for c in answer.clipping[1:])


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        (SQL, {"accuracy": 10**6}),
        ("SELECT SUM(x) FROM t WHERE x > (SELECT AVG(x) FROM t)", {"epsilon": 1}),
    ],
)
def test_what_cannot_be_estimated_is_refused_before_it_is_paid(
    session: dpsql.Session, sql: str, options: dict[str, Any]
) -> None:
    sql = sql.replace("AVG(x), ", "") if "accuracy" in options else sql
    with pytest.raises(PrivacyError) as refused:
        session.query(sql, clipping=True, **options)
    assert refused.value.code == "clipping" and spends(session) == []


# ---------------------------------------------------------------- neighbours

HOSTILE = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -1e308, None, 0.0, 61.0])
ROW = st.tuples(HOSTILE, st.sampled_from(["a", "b", None, "zzz"]))


def small(rows: Sequence[tuple[int, Any, Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    kinds = (pa.int64(), pa.float64(), pa.string())
    return pa.table({n: pa.array(c, k) for n, c, k in zip(("id", "x", "k"), columns, kinds, strict=True)})


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    others=st.lists(st.tuples(st.integers(0, 3), ROW), max_size=8),
    mine=st.lists(ROW, max_size=40),
    other=st.lists(ROW, min_size=1),
)
def test_one_unit_moves_each_count_by_what_is_claimed(
    connect: Connect, adjacency: str, others: list[Any], mine: list[Any], other: list[Any]
) -> None:
    policy = {**POLICY, "privacy": {**POLICY["privacy"], "adjacency": adjacency}}
    session = connect({"t": small([])}, policy, delta=1e-6)
    quote = session.explain("SELECT k, SUM(x) FROM t GROUP BY k", epsilon=1, delta="1e-6", clipping=True)
    assert quote.stages[1].kind == "estimate" and len(quote.stages[1].steps) == 3
    base = [(id, x, k) for id, (x, k) in others]
    with_me = [*base, *((77, x, k) for x, k in mine)]
    neighbour = base if adjacency == "add_remove" else [*base, *((77, x, k) for x, k in other)]
    if adjacency == "replace_one" and not mine:
        return
    for m, moved in moves(session, quote.stages[1], with_me, neighbour):
        one = getattr(m.statistic, "resolution", 1)  # of a row that is divided over several counts
        assert moved <= m.sensitivity.l1 <= one * (1 if adjacency == "add_remove" else 2)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("aggregates", ["SUM(x)", "SUM(x), AVG(x + 1), SUM(2 * x)"])
def test_the_claims_are_attained(connect: Connect, adjacency: str, aggregates: str) -> None:
    policy = {**POLICY, "privacy": {**POLICY["privacy"], "adjacency": adjacency}}
    session = connect({"t": small([])}, policy, delta=1e-6)
    sql = f"SELECT k, {aggregates} FROM t GROUP BY k"
    quote = session.explain(sql, epsilon=1, delta="1e-6", clipping=True)
    assert quote.stages[1].kind == "estimate"
    inside, outside = [(77, 1.0, "a")], [(77, 61.0, str(i)) for i in range(40)]
    if adjacency == "add_remove":
        found = [moves(session, quote.stages[1], [], me) for me in (inside, outside)]
    else:
        found = [moves(session, quote.stages[1], me, other) for me, other in ((inside, outside), ([], outside))]
    for both in zip(*found, strict=True):
        assert max(moved for _, moved in both) == both[0][0].sensitivity.l1


def moves(
    session: dpsql.Session, aside: Stage, with_me: list[tuple[int, Any, Any]], neighbour: list[tuple[int, Any, Any]]
) -> list[tuple[Measurement, int]]:
    """How far each measurement of an estimate is from one table to the other."""
    found = []
    for step in aside.releases:
        seen = []
        for rows in (with_me, neighbour):
            cursor = cursor_of(session)
            cursor.register("t", small(rows))
            exact = execute(step, cursor)
            cursor.close()
            seen.append(
                [m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies]) for m in step.measurements]
            )
        for m, a, b in zip(step.measurements, *seen, strict=True):
            moved = sum(abs(int(x) - int(y)) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))
            found.append((m, moved))
    return found
