"""Ranges of values that a query computes: found privately where arithmetic alone makes them wide (Theorem AUTO-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import Connect

import dpsql
from dpsql.analyze import widths
from dpsql.answer.render import range_lines
from dpsql.cli.main import cli
from dpsql.core.errors import PrivacyError

N = 20_000
RANDOM = np.random.default_rng(3)
ORDERS = RANDOM.integers(0, 8000, N)
START = np.datetime64("2023-01-01") + RANDOM.integers(0, 300, N).astype("timedelta64[D]")
ITEMS = pa.table(
    {
        "order_id": ORDERS,
        "customer": ORDERS // 2,
        "price": RANDOM.gamma(2, 10, N).clip(0, 500).round(2),
        "quantity": RANDOM.integers(1, 6, N),
        "ordered": pa.array(START),
        "sent": pa.array(START + RANDOM.integers(0, 14, N).astype("timedelta64[D]")),
        "kind": ["a", "b"] * (N // 2),
    }
)
DAYS = {"min": date(2020, 1, 1), "max": date(2024, 12, 31)}
COLUMNS: dict[str, Any] = {
    "price": {"min": 0, "max": 500, "private": True},
    "quantity": {"min": 1, "max": 20},
    "ordered": DAYS,
    "sent": DAYS,
    "kind": {"values": ["a", "b"], "nullable": False},
}
TOTALS = "(SELECT order_id, SUM(price * quantity) AS total FROM items GROUP BY order_id, customer)"
AVERAGE = f"SELECT AVG(total) FROM {TOTALS}"


def policy(**privacy: object) -> dict[str, Any]:
    return {
        "privacy": {"limits_share": 0, "max_rows": 20, **privacy},
        "tables": {"items": {"unit": "customer", "columns": COLUMNS}},
    }


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"items": ITEMS}, policy(), epsilon=100, delta=0)


def spends(session: dpsql.Session) -> list[tuple[str, Fraction]]:
    return [(str(e.note["sql"]), e.cost.epsilon) for e in session._engine.ledger.history()]


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("items", ITEMS)
        yield connection


# ---------------------------------------------------------------- what it is good for


def errors(connect: Connect, sql: str, truth: float) -> list[float]:
    """The relative errors of nine answers, each from a new ledger, the smallest first."""
    found = []
    for _ in range(9):
        answer = connect({"items": ITEMS}, policy(limits_share=0.05), epsilon=1, delta=0).query(sql, epsilon=1)
        found.append(abs(answer.rows[0][0] / truth - 1))
    return sorted(found)


def test_an_average_of_totals_is_right_where_its_derived_range_made_it_noise(
    connect: Connect, exact: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((truth,),) = exact.execute(AVERAGE).fetchall()
    assert errors(connect, AVERAGE, truth)[4] < 0.08  # the median
    monkeypatch.setattr(widths, "WIDER", 10**9)
    assert errors(connect, AVERAGE, truth)[4] > 0.08


@pytest.mark.parametrize("sql", [AVERAGE, "SELECT AVG(sent - ordered) FROM items"])
def test_its_interval_holds_the_truth(connect: Connect, exact: duckdb.DuckDBPyConnection, sql: str) -> None:
    ((truth,),) = exact.execute(sql).fetchall()
    answer = connect({"items": ITEMS}, policy(limits_share=0.05), epsilon=1, delta=0).query(sql, epsilon=1)
    cells = next(iter(answer.intervals(0.95).values()))
    assert cells is not None and cells[0] is not None
    low, high = cells[0]
    assert low <= truth <= high and high - low < truth / 2
    assert any("a range that was found automatically" in note for note in answer.notes)


def test_totals_are_found_that_no_single_row_could_have(connect: Connect) -> None:
    rows = {"order_id": np.arange(4000) // 8, "customer": np.arange(4000) // 8}
    items = pa.table({**rows, "price": np.full(4000, 450.0), "quantity": np.full(4000, 20)})
    columns = {name: COLUMNS[name] for name in ("price", "quantity")}
    whole = {**policy(), "tables": {"items": {"unit": "customer", "columns": columns}}}
    (found,) = connect({"items": items}, whole, epsilon=10, delta=0).query(AVERAGE, epsilon=10).ranges
    assert found["low"] <= 72_000 <= found["high"] <= 200_000


WITHOUT_LIMITS: dict[str, Any] = {"tables": policy()["tables"]}


def test_totals_of_any_number_of_rows_have_a_range_that_is_found(
    connect: Connect, exact: duckdb.DuckDBPyConnection
) -> None:
    ((truth,),) = exact.execute(AVERAGE).fetchall()
    session = connect({"items": ITEMS}, WITHOUT_LIMITS, epsilon=10, delta=0)
    shown = str(session.explain(AVERAGE, epsilon=1))
    assert "total: nobody limits the rows that it is added up of; ε = 0.1 of the price finds a narrower one" in shown
    answer = session.query(AVERAGE, epsilon=1)
    assert abs(answer.rows[0][0] / truth - 1) < 0.05 and answer.ranges[0]["high"] in (1024, 2048)
    assert session.query(AVERAGE, epsilon=1).cost.epsilon == 0
    assert session.query(AVERAGE, epsilon=1, max_rows=20).ranges == (
        {**answer.ranges[0], "named": True},
    )  # the histogram is the same with a limit


def test_where_nobody_limits_rows_and_nothing_is_found_the_range_is_that_of_a_few_rows(connect: Connect) -> None:
    session = connect({"items": ITEMS.slice(0, 3)}, WITHOUT_LIMITS, epsilon=10, delta=0)
    (line,) = range_lines(session.query(AVERAGE, epsilon="0.1"))
    assert line.endswith("clipped to 0 to 160,000, which some rows can have; the answer means little")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT MEDIAN(total) FROM {TOTALS}",
        f"SELECT AVG(total), MAX(total) FROM {TOTALS}",
        f"SELECT AVG(order_id + total) FROM {TOTALS}",
        f"SELECT AVG(1 / total) FROM {TOTALS}",
    ],
)
def test_what_needs_a_range_and_is_not_added_up_is_refused_as_before(connect: Connect, sql: str) -> None:
    session = connect({"items": ITEMS}, WITHOUT_LIMITS, epsilon=10, delta=0)
    with pytest.raises(PrivacyError) as refused:
        session.query(sql, epsilon=1)
    assert refused.value.code == "needs-range" and spends(session) == []


def test_a_range_of_unlimited_rows_that_no_share_can_pay_is_refused(connect: Connect) -> None:
    whole = {"budget": {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp"}, **WITHOUT_LIMITS}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"items": ITEMS}, ledger=":memory:") as session:
        with pytest.raises(PrivacyError) as refused:
            session.query(AVERAGE, epsilon="0.000001")
        assert refused.value.code == "automatic" and spends(session) == []


def test_keys_stay_those_of_unlimited_rows(connect: Connect) -> None:
    session = connect({"items": ITEMS}, WITHOUT_LIMITS, epsilon=10, delta=1e-5)
    totals = TOTALS.replace("price * quantity", "quantity")
    by_total = f"SELECT total // 1000000, AVG(total) FROM {totals} GROUP BY 1"
    assert session.explain(by_total, epsilon=1).steps[0].checked.private_keys


# ---------------------------------------------------------------- what it costs


def test_the_first_query_pays_a_share_that_explain_names_and_the_answer_says_what_was_clipped(
    session: dpsql.Session,
) -> None:
    shown = str(session.explain(AVERAGE, epsilon=1))
    assert "total: 0 to 200,000 by arithmetic; ε = 0.1 of the price finds a narrower one, once" in shown
    assert "range and error known once" in shown and spends(session) == []
    answer = session.query(AVERAGE, epsilon=1)
    assert spends(session) == [("automatic range of total", Fraction(1, 10)), (AVERAGE, Fraction(9, 10))]
    assert answer.cost.epsilon == session.budget.spent.epsilon == 1
    (line,) = range_lines(answer)
    found = re.fullmatch(r"values of total are clipped to (0 to [\d,]+), a range that was found automatically", line)
    assert found is not None
    assert f"total lies in {found[1]}: found before" in str(session.explain(AVERAGE, epsilon=2))


def test_a_repetition_is_free_and_later_queries_find_the_range_whatever_their_limits_and_names(
    session: dpsql.Session,
) -> None:
    first = session.query(AVERAGE, epsilon=1)
    again = session.query(AVERAGE, epsilon=1)
    assert again.rows == first.rows and again.receipt.reused and again.cost.epsilon == 0
    assert session.replay(first.receipt.id).ranges == first.ranges
    assert session.replay(str(first.ranges[0]["release"])).columns == ["bucket", "units"]
    renamed = "(SELECT SUM(price * quantity) AS t FROM items GROUP BY customer, order_id) AS o"
    other = f"SELECT COUNT(*), STDDEV(o.t) FROM {renamed}"
    for sql, max_rows in ((AVERAGE, 7), (AVERAGE.replace("AVG", "VARIANCE"), 20), (other, 20)):
        later = session.query(sql, epsilon=1, max_rows=max_rows)
        assert later.cost.epsilon == 1 and later.ranges[0]["high"] == first.ranges[0]["high"]
    assert len([sql for sql, _ in spends(session) if sql.startswith("automatic")]) == 1


def test_a_batch_pays_once_for_all_its_statements(session: dpsql.Session) -> None:
    text = f"{AVERAGE}; SELECT COUNT(*) FROM items; SELECT SUM(total) FROM {TOTALS}"
    answers = session.batch(text, epsilon=2)
    assert [cost for _, cost in spends(session)] == [Fraction(1, 5), Fraction(9, 5)]
    assert answers[0].ranges and answers[0].ranges == answers[2].ranges
    assert [a.rows for a in session.batch(text, epsilon=2)] == [a.rows for a in answers] and len(spends(session)) == 2


def test_another_analyst_finds_the_range(tmp_path: Path) -> None:
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    path = tmp_path / "policy.toml"
    path.write_text(
        "[budget]\nepsilon = 10\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 20\n"
        "[budget.analysts]\nann = 5\nben = 5\n"
        '[tables.items]\nsource = "items.parquet"\nunit = "customer"\n'
        "[tables.items.columns]\nprice = { min = 0, max = 500 }\nquantity = { min = 1, max = 20 }\n"
    )
    with dpsql.connect(path, analyst="ann") as ann:
        first = ann.query(AVERAGE, epsilon=1)
    with dpsql.connect(path, analyst="ben") as ben:
        other = ben.query(AVERAGE.replace("AVG", "VARIANCE"), epsilon=1)
        assert other.cost.epsilon == 1 and (other.ranges[0]["low"], other.ranges[0]["high"]) == (
            first.ranges[0]["low"],
            first.ranges[0]["high"],
        )


def test_several_values_have_a_share_each(session: dpsql.Session) -> None:
    session.query("SELECT SUM(price * quantity), AVG(sent - ordered), COUNT(*) FROM items", epsilon=1)
    assert sorted(cost for _, cost in spends(session)) == [Fraction(1, 10), Fraction(1, 10), Fraction(8, 10)]


def test_a_filter_takes_the_range_of_all_rows(session: dpsql.Session) -> None:
    sql = f"SELECT AVG(total) FILTER (WHERE total < 100), AVG(total) FROM {TOTALS}"
    answer = session.query(sql, epsilon=1)
    assert len(spends(session)) == 2 and len(answer.ranges) == 1


# ---------------------------------------------------------------- which values


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT AVG(CLIP(total, 0, 1000)) FROM {TOTALS}",
        f"SELECT AVG(LEAST(GREATEST(total, 0), 1000)) FROM {TOTALS}",
        f"SELECT AVG(total, contribution_bounds_per_row => (0, 1000)) FROM {TOTALS}",
        f"SELECT MEDIAN(total), MAX(total), COUNT(total) FROM {TOTALS}",
        "SELECT SUM(price * 100), AVG(price / 0.01), SUM(price * (24 * 60)) FROM items",
        "SELECT SUM(CASE WHEN kind = 'a' THEN 1000 ELSE 0 END), SUM(CASE WHEN price > 9 THEN 5000 END) FROM items",
        "SELECT AVG(date_diff('day', DATE '2020-01-01', sent)), AVG(year(sent)) FROM items",
        "SELECT SUM(price * CLIP(quantity, 1, 2)) FROM items",
        "SELECT AVG(m) FROM (SELECT customer, MAX(price) AS m FROM items GROUP BY customer)",
        "SELECT SUM(price + quantity) FROM items",
    ],
)
def test_a_range_that_is_named_or_of_one_column_stands_as_it_is(session: dpsql.Session, sql: str) -> None:
    assert session.query(sql, epsilon=1).ranges == ()
    assert len(spends(session)) == 1


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT SUM(price * quantity) FROM items", "price * quantity"),
        ("SELECT AVG(POW(price, 2)) FROM items", "POWER(price, 2)"),
        ("SELECT AVG(sent - ordered) FROM items", "sent - ordered"),
        ("SELECT AVG(date_sub('day', ordered, sent) * 24) FROM items", "DATE_SUB('day', ordered, sent) * 24"),
        ("SELECT AVG(n) FROM (SELECT customer, COUNT(*) AS n FROM items GROUP BY customer)", "n"),
        ("SELECT COVAR_POP(price, total) FROM (SELECT price, SUM(price) OVER (PARTITION BY customer) AS total "
         "FROM items)", "total"),
        ("SELECT AVG(y) FROM (SELECT customer, price * quantity AS y FROM items UNION ALL "
         "SELECT customer, price FROM items)", "y"),
        ("SELECT AVG(gap) FROM (SELECT date_diff('day', MIN(ordered), MAX(sent)) AS gap FROM items GROUP BY customer)",
         "gap"),
    ],
)  # fmt: skip
def test_a_wide_value_pays_for_its_range(session: dpsql.Session, sql: str, text: str) -> None:
    (found,) = session.query(sql, epsilon=1).ranges
    assert found["column"] == text and found["found"]
    assert [cost for _, cost in spends(session)] == [Fraction(1, 10), Fraction(9, 10)]


def test_values_of_columns_with_automatic_bounds_rest_on_those_alone(connect: Connect) -> None:
    columns = {**COLUMNS, "price": {"bounds": "auto"}}
    whole = {**policy(), "tables": {"items": {"unit": "customer", "columns": columns}}}
    answer = connect({"items": ITEMS}, whole, epsilon=10).query(AVERAGE, epsilon=1)
    assert [one["column"] for one in answer.ranges] == ["items.price"]


# ---------------------------------------------------------------- what is refused, and what isn't


def test_an_accuracy_needs_a_range_that_is_known(session: dpsql.Session) -> None:
    sql = f"SELECT SUM(total) FROM {TOTALS}"
    with pytest.raises(PrivacyError) as refused:
        session.query(sql, accuracy=20_000)
    assert refused.value.code == "automatic" and "the same query and an epsilon" in str(refused.value.hint)
    assert "the range of total" in refused.value.message and spends(session) == []
    session.query(sql, epsilon="0.5")
    assert session.query(sql, accuracy=20_000).ranges


@pytest.mark.parametrize("buckets", [None, (0, 0), (-60, -50), (60, 64), (-60, 64)])
@pytest.mark.parametrize(
    "sql",
    [
        AVERAGE,
        "SELECT SUM(1 / (price * quantity + 1)) + STDDEV(price * quantity) FROM items",
        "SELECT kind, AVG(sent - ordered) FILTER (WHERE sent - ordered > 100) FROM items GROUP BY kind",
    ],
)
@pytest.mark.sample(4)
def test_whatever_is_found_nothing_is_refused_and_the_range_stays_inside_the_derived_one(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, sql: str, buckets: tuple[int, int] | None
) -> None:
    monkeypatch.setattr("dpsql.quote.bounds.covered_value", lambda counts, scale, seed: buckets)
    answer = session.query(sql, epsilon=1)
    assert answer.cost.epsilon == 1
    (argument,) = [a for step in session.explain(sql, epsilon=1).steps for a in step.checked.arguments if a.wide][:1]
    (value,), (wide,) = argument.values, argument.wide
    assert isinstance(value.range.low, Fraction) and isinstance(value.range.high, Fraction)
    assert wide.low <= value.range.low < value.range.high <= wide.high
    assert session.query(sql, epsilon=1, fresh=True).rows


def test_where_nothing_is_found_the_derived_range_stands_and_it_is_said(connect: Connect) -> None:
    session = connect({"items": ITEMS.slice(0, 3)}, policy(), epsilon=10, delta=0)
    answer = session.query(AVERAGE, epsilon="0.1")
    assert range_lines(answer) == [
        "no narrower range was found for total: its values are clipped to 0 to 200,000, which the policy gives"
    ]
    session.query(AVERAGE, epsilon="0.1")
    assert len(spends(session)) == 4


def test_an_epsilon_that_is_too_small_to_be_shared_is_answered_with_the_derived_range(connect: Connect) -> None:
    whole = {"budget": {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp"}, **policy()}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"items": ITEMS}, ledger=":memory:") as session:
        answer = session.query(AVERAGE, epsilon="0.000001")
        assert answer.cost.epsilon == Fraction(1, 10**6) and answer.ranges == ()
        assert session.query(AVERAGE, epsilon=1).ranges


def test_the_command_line_says_what_was_clipped(tmp_path: Path) -> None:
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    path = tmp_path / "policy.toml"
    path.write_text(
        "[budget]\nepsilon = 10\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 20\n"
        '[tables.items]\nsource = "items.parquet"\nunit = "customer"\n'
        "[tables.items.columns]\nprice = { min = 0, max = 500 }\nquantity = { min = 1, max = 20 }\n"
    )
    run = CliRunner().invoke(cli, ["query", AVERAGE, "--epsilon", "1", "--policy", str(path)])
    assert run.exit_code == 0 and "a range that was found automatically" in run.stderr


def test_rows_that_noisy_values_decide_about_have_no_range_found(connect: Connect) -> None:
    """Below a window such conditions can't be left out, and what they compare with is released after ranges."""
    windowed = (
        "SELECT SUM(POWER(x, 2)) FROM (SELECT id, x, LAG(x) OVER (PARTITION BY id ORDER BY x) AS before FROM t "
        "WHERE k IN (SELECT k FROM t GROUP BY k HAVING COUNT(*) > 2))"
    )
    rows = pa.table({"id": list(range(60)) * 2, "k": ["a", "b", "c"] * 40, "x": [float(i % 50) for i in range(120)]})
    columns = {"k": {"values": ["a", "b", "c"]}, "x": {"min": 0, "max": 600}}
    session = connect({"t": rows}, {"tables": {"t": {"unit": "id", "columns": columns}}}, epsilon=100, delta=1e-6)
    answer = session.query(windowed, epsilon=50, max_rows=2)
    assert not answer.ranges and answer.rows[0][0] is not None
