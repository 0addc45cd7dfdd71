"""RANDOMIZED_RESPONSE, RR_COUNT and RR_FREQUENCY from SQL to the answer."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql

SIGMAS = 4.7534  # the normal quantile of 1 − 1e-6
ENORMOUS = 10**6
POLICY: dict[str, Any] = {
    "privacy": {"adjacency": "replace_one"},
    "tables": {
        "poll": {
            "unit": "row",
            "columns": {
                "choice": {"values": ["green", "red", "blue"]},
                "grade": {"values": [3, 1, 2]},
                "day": {"values": [date(2024, 1, 1), date(2024, 1, 2)]},
                "price": {"values": [0.5, 1.25]},
            },
        },
        "colours": {"public": True},
    },
}
COLOURS = pa.table({"name": ["red", "green", "blue"], "warm": [True, False, False]})
ROWS = "SELECT RANDOMIZED_RESPONSE(yes) AS x, RANDOMIZED_RESPONSE(choice) AS c FROM poll"


def poll(n: int) -> pa.Table:
    return pa.table(
        {
            "yes": pa.array([None if k % 10 == 9 else bool(k % 10 < 3) for k in range(n)], pa.bool_()),
            "choice": pa.array([("red", "green", "blue", "pink", None)[k % 5] for k in range(n)], pa.string()),
            "grade": pa.array([(1, 2, 3, 4, None)[k % 5] for k in range(n)], pa.int16()),
            "day": pa.array([date(2024, 1, 1 + int(k % 3)) for k in range(n)], pa.date32()),
            "price": pa.array([(0.5, 1.25, float("nan"))[k % 3] for k in range(n)], pa.float64()),
            "age": pa.array([k % 90 for k in range(n)], pa.int32()),
        }
    )


def open_poll(connect: Connect, n: int = 1000, **budget: Any) -> dpsql.Session:
    return connect({"poll": poll(n), "colours": COLOURS}, POLICY, **budget)


def test_without_noise_the_rows_are_those_of_the_table_in_another_order(connect: Connect) -> None:
    session = open_poll(connect)
    names = ["yes", "choice", "grade", "day", "price"]
    calls = ", ".join(f"RANDOMIZED_RESPONSE({name}) AS {name}" for name in names)
    answer = session.query(f"SELECT {calls} FROM poll", epsilon=5 * ENORMOUS)
    firsts = {"yes": False, "choice": "green", "grade": 3, "day": date(2024, 1, 1), "price": 0.5}
    listed: dict[str, set[Any]] = {
        "yes": {False, True},
        "choice": {"green", "red", "blue"},
        "grade": {1, 2, 3},
        "day": {date(2024, 1, 1), date(2024, 1, 2)},
        "price": {0.5, 1.25},
    }
    true = [tuple(row[n] if row[n] in listed[n] else firsts[n] for n in names) for row in poll(1000).to_pylist()]
    assert Counter(answer.rows) == Counter(true)
    assert answer.rows != true
    assert answer.to_arrow().schema.types == [pa.bool_(), pa.string(), pa.int16(), pa.date32(), pa.float64()]


def test_columns_share_epsilon_and_the_whole_query_costs_what_was_asked(connect: Connect) -> None:
    session = open_poll(connect, epsilon=3)
    quote = session.explain(ROWS, epsilon=1)
    assert [m.epsilon for step in quote.responses for m in step.mechanisms] == [Fraction(1, 2)] * 2
    answer = session.query(ROWS, epsilon=1)
    assert answer.cost.epsilon == 1 and answer.cost.delta == 0
    assert session.budget.spent.epsilon == 1
    assert len(answer.rows) == 1000


def test_the_same_column_twice_is_drawn_once(connect: Connect) -> None:
    session = open_poll(connect)
    sql = "SELECT RANDOMIZED_RESPONSE(yes) AS a, RANDOMIZED_RESPONSE(yes) AS b, NOT a AS c FROM poll"
    (step,) = session.explain(sql, epsilon=1).responses
    assert [m.epsilon for m in step.mechanisms] == [1]
    assert all(a == b and c != a for a, b, c in session.query(sql, epsilon=1).rows)


def test_two_tables_of_randomised_rows_share_epsilon(connect: Connect) -> None:
    session = open_poll(connect)
    sql = """SELECT (SELECT RR_COUNT(x) FROM (SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll)),
                    (SELECT RR_COUNT(c, 'red') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS c FROM poll))"""
    quote = session.explain(sql, epsilon=1)
    assert [m.epsilon for step in quote.responses for m in step.mechanisms] == [Fraction(1, 2)] * 2
    assert quote.price.epsilon == 1
    assert len(session.query(sql, epsilon=2 * ENORMOUS).rows) == 1


def test_estimates_without_noise_are_the_true_counts(connect: Connect) -> None:
    session = open_poll(connect)
    sql = f"""SELECT RR_COUNT(x), RR_FREQUENCY(x), RR_COUNT(x, FALSE), RR_COUNT(c, 'red'), RR_COUNT(c, 'green'),
                     RR_FREQUENCY(c, 'blue') FROM ({ROWS})"""
    answer = session.query(sql, epsilon=2 * ENORMOUS)
    assert answer.rows == [(300.0, 0.3, 700.0, 200.0, 600.0, 0.2)]
    assert set(answer.to_arrow().schema.types) == {pa.float64()}
    assert set(answer.intervals().values()) == {None}


def test_estimates_are_unbiased_over_many_queries(connect: Connect) -> None:
    session, n, times = open_poll(connect, 2000), 2000, 60
    sql = f"SELECT RR_COUNT(x), RR_FREQUENCY(c, 'red'), RR_FREQUENCY(c, 'green') FROM ({ROWS})"
    found = np.array([session.query(sql, epsilon=2, fresh=True).rows[0] for _ in range(times)])
    (step,) = session.explain(sql, epsilon=2).responses
    yes, choice = (m.standard_error(n) for m in step.mechanisms)
    for column, true, error in zip(found.T, (600, 0.2, 0.6), (yes * n, choice, choice), strict=True):
        assert abs(column.mean() - true) < SIGMAS * error / math.sqrt(times)
        assert column.std() < 1.6 * error


def test_what_is_above_randomised_rows_is_plain_sql(connect: Connect) -> None:
    session = open_poll(connect)
    joined = f"""WITH r AS ({ROWS})
        SELECT warm, COUNT(*) AS n, RR_COUNT(x) AS yes, RR_FREQUENCY(x) AS share
        FROM r JOIN colours ON colours.name = r.c GROUP BY warm HAVING COUNT(*) > 1 ORDER BY warm"""
    first, second = session.query(joined, epsilon=2 * ENORMOUS).rows
    assert first[:2] == (False, 800) and second[:2] == (True, 200)
    assert first[2] + second[2] == 300
    assert first[3] == pytest.approx(first[2] / 800)
    where = f"SELECT RR_COUNT(x) AS n FROM ({ROWS}) WHERE c = 'red'"
    assert session.query(where, epsilon=2 * ENORMOUS).rows[0][0] == second[2]
    nobody = f"SELECT RR_COUNT(x) AS n, RR_FREQUENCY(x) AS f FROM ({ROWS}) WHERE c = 'mauve'"
    assert session.query(nobody, epsilon=2 * ENORMOUS).rows == [(0.0, None)]
    counts = f"SELECT c, COUNT(*) AS n FROM ({ROWS}) GROUP BY c ORDER BY n DESC, c LIMIT 2"
    assert session.query(counts, epsilon=2 * ENORMOUS).rows == [("green", 600), ("blue", 200)]
    first_rows = session.query(f"{ROWS} ORDER BY c, x LIMIT 2", epsilon=2 * ENORMOUS).rows
    assert first_rows == [(False, "blue"), (False, "blue")]
    both = "SELECT RANDOMIZED_RESPONSE(yes) FROM poll UNION ALL SELECT RANDOMIZED_RESPONSE(yes) FROM poll"
    assert len(session.query(both, epsilon=1).rows) == 2000


def test_a_lone_table_keeps_its_order_and_rows_that_nobody_is_joined_to_are_not_counted(connect: Connect) -> None:
    session = open_poll(connect)
    sql = """SELECT RR_COUNT(c, 'red') AS n, RR_FREQUENCY(c, 'red') AS f FROM (VALUES ('red'), ('mauve')) AS v(name)
             LEFT JOIN (SELECT RANDOMIZED_RESPONSE(grade) AS g, RANDOMIZED_RESPONSE(choice) AS c FROM poll) AS r
             ON v.name = 'red' AND r.g = 1"""
    assert session.query(sql, epsilon=2 * ENORMOUS).rows == [(200.0, 1.0)]


# ---------------------------------------------------------------- what left once may leave again


def test_the_same_query_again_returns_the_same_rows_and_costs_nothing(connect: Connect) -> None:
    session = open_poll(connect, epsilon=1)
    first = session.query(ROWS, epsilon=1)
    again = session.query(ROWS.replace(" AS x", " AS other"), epsilon=1)
    assert again.rows == first.rows and again.receipt.reused and again.cost.epsilon == 0
    assert session.budget.spent.epsilon == 1
    assert session.is_stored(session.explain(ROWS, epsilon=1))
    assert session.replay(first.receipt.id).rows == first.rows
    with pytest.raises(dpsql.BudgetError):
        session.query(ROWS, epsilon=1, fresh=True)


def test_stored_rows_answer_estimates_at_a_smaller_epsilon_by_the_noise_that_was_drawn(connect: Connect) -> None:
    session = open_poll(connect, epsilon=2 * ENORMOUS)
    session.query(ROWS, epsilon=2 * ENORMOUS)
    found = session.query(
        "SELECT RR_COUNT(c, 'red') FROM (SELECT RANDOMIZED_RESPONSE(choice) AS c FROM poll)", epsilon=1
    )
    assert found.rows == [(200.0,)] and found.receipt.reused


def test_stored_rows_answer_no_query_with_a_larger_epsilon_or_another_column(connect: Connect) -> None:
    session = open_poll(connect, epsilon=10)
    session.query(ROWS, epsilon=2)
    for sql, epsilon in ((ROWS, 3), ("SELECT RANDOMIZED_RESPONSE(grade) FROM poll", 1)):
        assert not session.query(sql, epsilon=epsilon).receipt.reused
    assert session.query("SELECT RANDOMIZED_RESPONSE(yes) FROM poll", epsilon=1).receipt.reused


def test_rows_that_are_too_many_to_store_are_paid_for_again(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.accounting.stored.LARGEST", 1000)
    session = open_poll(connect, epsilon=2)
    assert not session.query(ROWS, epsilon=1).receipt.reused
    assert not session.query(ROWS, epsilon=1).receipt.reused


# ---------------------------------------------------------------- accounting and refusals beyond the SQL


def test_under_zcdp_the_ledger_subtracts_what_the_columns_cost(connect: Connect) -> None:
    budget = {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp"}
    session = connect({"poll": poll(100), "colours": COLOURS}, {**POLICY, "budget": budget})
    quote = session.explain(ROWS, epsilon=1)
    each = [float(m.epsilon) for step in quote.responses for m in step.mechanisms]
    assert quote.price.rho is not None
    assert float(quote.price.rho) == pytest.approx(sum(e * math.tanh(e / 2) for e in each), rel=1e-12)
    session.query(ROWS, epsilon=1)
    assert session.budget.spent.rho == quote.price.rho
    assert "randomized response" in str(quote)


def test_a_batch_shares_its_price_between_rows_and_aggregates(connect: Connect) -> None:
    session = open_poll(connect)
    text = f"SELECT COUNT(*) FROM poll; {ROWS}; {ROWS} ORDER BY 1"
    columns = len(session.explain(ROWS, epsilon=1).responses[0].mechanisms)
    count, rows, ordered = session.batch(text, epsilon=60)
    spends = [e.cost.epsilon for e in session._engine.ledger.history()]
    assert spends == [Fraction(60 * columns, columns + 1), Fraction(60, columns + 1)]
    assert count.cost.epsilon == 60 and abs(count.rows[0][0] - len(rows.rows)) < 5
    assert sorted(map(str, ordered.rows)) == sorted(map(str, rows.rows))  # randomised once for both
    again = session.batch(text, epsilon=60)
    assert [a.rows for a in again[:2]] == [count.rows, rows.rows] and len(session._engine.ledger.history()) == 2
    assert session.query(ROWS, epsilon=1).receipt.reused


def test_an_accuracy_is_refused_before_payment(connect: Connect) -> None:
    session = open_poll(connect)
    with pytest.raises(dpsql.PrivacyError) as accuracy:
        session.query(ROWS, accuracy=3)
    assert accuracy.value.code == "accuracy"
    assert session.budget.spent.epsilon == 0


def test_a_mechanism_for_numbers_changes_nothing(connect: Connect) -> None:
    session = open_poll(connect)
    assert session.explain(ROWS, epsilon=1, mechanism="laplace").price.epsilon == 1


def test_explain_and_prices_say_it_in_plain_values(connect: Connect) -> None:
    from dpsql.explain.text import as_dict, show

    session = open_poll(connect)
    quote = session.explain(f"SELECT RR_FREQUENCY(x) FROM ({ROWS})", epsilon=2)
    facts = as_dict(quote, backend=session.backend)
    (rows,) = facts["responses"]
    first = rows["aggregates"][0]
    assert (first["mechanism"], first["values"], first["epsilon"], first["share"]) == ("randomized response", 2, 1, 0.5)
    assert first["keep"] == pytest.approx(math.e / (1 + math.e))
    assert first["standard_error"]["frequency"] == pytest.approx(0.0096, rel=0.01)
    assert "age" not in rows["statement"] and "AVG(" in facts["post_processing"]
    assert "RR_" not in facts["post_processing"]
    assert show(quote, backend=session.backend)
    assert len(session.prices(ROWS)) > 3


def test_an_empty_table_has_no_rows(connect: Connect) -> None:
    session = open_poll(connect, 0)
    assert session.query(ROWS, epsilon=1).rows == []
    assert session.query(ROWS, epsilon=1).receipt.reused
    assert session.query(f"SELECT RR_COUNT(x), RR_FREQUENCY(x) FROM ({ROWS})", epsilon=1).rows == [(0.0, None)]
