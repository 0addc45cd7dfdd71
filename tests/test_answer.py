"""Answers: their error bars cover what they claim to, their figures are right, and they cost what they say."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support import Connect, added_to, charge, cursor_of

import dpsql
from dpsql.accounting.account import Receipt
from dpsql.answer.finish import answer_from
from dpsql.answer.tables import CELL
from dpsql.backends.duckdb.run import execute
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.release import release
from dpsql.store.plain import pack_error

GROUPS = 100
PER_GROUP = 100
RUNS = 60  # 6,000 draws: 95% ± 0.28%, so that bounds 1.5% away are five standard errors off
NAMES = [f"name{i:04d}" for i in range(10_000)]

VALUES = [20 + (i * 37) % 61 for i in range(GROUPS * PER_GROUP)]
PEOPLE = pa.table(
    {
        "v": pa.array(VALUES, pa.int32()),
        "x": pa.array([v / 7 for v in VALUES]),
        "d": pa.array([Decimal(v) / 4 for v in VALUES], pa.decimal128(9, 2)),
        "k": ["abcd"[i % 4] for i in range(len(VALUES))],
        "g": pa.array([i % GROUPS for i in range(len(VALUES))], pa.int32()),
    }
)
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "v": {"min": 0, "max": 100},
                "x": {"min": 0, "max": 15},
                "d": {"min": 0, "max": 25},
                "k": {"values": ["a", "b", "c", "d"]},
                "g": {"min": 0, "max": GROUPS - 1},
            },
        }
    }
}


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": PEOPLE}, POLICY)


def answers(session: dpsql.Session, sql: str, epsilon: Any, runs: int) -> list[dpsql.Answer]:
    """Independent answers from one quote: the exact stage runs once, release and finish each time."""
    engine = session._engine
    quote = session.explain(sql, epsilon=epsilon)
    receipt = charge(engine.ledger, quote.price, {"sql": sql})
    cursor = cursor_of(session)
    exact = [execute(step, cursor) for step in quote.steps]
    cursor.close()
    return [
        answer_from(
            quote.parts[0],
            [release(s, e) for s, e in zip(quote.steps, exact, strict=True)],
            receipt,
            engine.public,
        )
        for _ in range(runs)
    ]


# ---------------------------------------------------------------- intervals

SETS = [
    ("COUNT(*)",),
    ("SUM(v)",),
    ("AVG(v)",),
    ("SUM(x)", "COUNT(*)"),
    ("AVG(x)", "SUM(x)", "COUNT(*)"),
    ("AVG(d)", "COUNT(v)", "SUM(d)"),
    ("SUM(v)", "SUM(x)", "SUM(d)", "COUNT(*)"),
]


def exact_values(call: str) -> list[float]:
    with duckdb.connect(":memory:") as plain:
        plain.register("t", PEOPLE)
        return [float(v) for (v,) in plain.execute(f"SELECT {call} FROM t GROUP BY g ORDER BY g").fetchall()]


def coverage(session: dpsql.Session, calls: tuple[str, ...], epsilon: object, confidence: float) -> dict[str, float]:
    """How often intervals hold the exact value; each group of each answer is a draw of its own."""
    listed = ", ".join(f"{call} AS a{i}" for i, call in enumerate(calls))
    hits = dict.fromkeys(calls, 0)
    exact = {call: exact_values(call) for call in calls}
    for answer in answers(session, f"SELECT {listed} FROM t WHERE g IS NOT NULL GROUP BY g", epsilon, RUNS):
        found = answer.intervals(confidence)
        for i, call in enumerate(calls):
            intervals = found[f"a{i}"]
            assert intervals is not None and len(intervals) == GROUPS
            hits[call] += sum(i is not None and i[0] <= v <= i[1] for i, v in zip(intervals, exact[call], strict=True))
    return {call: n / (RUNS * GROUPS) for call, n in hits.items()}


@pytest.mark.parametrize("calls", SETS, ids=lambda calls: ", ".join(calls))
@pytest.mark.sample(2)
def test_95_percent_intervals_cover_the_exact_value(calls: tuple[str, ...], session: dpsql.Session) -> None:
    for call, share in coverage(session, calls, 1, 0.95).items():
        assert share >= 0.935, (call, share)


def test_each_row_of_a_rollup_has_the_interval_of_its_own_set(session: dpsql.Session) -> None:
    answer = session.query("SELECT k, COUNT(*) AS n, AVG(v) AS m FROM t GROUP BY ROLLUP (k)", epsilon=1)
    assert [k for k, *_ in answer.rows] == ["a", "b", "c", "d", None, None]  # set by set, NULL keys last
    found = answer.intervals()
    assert found["k"] is None and found["n"] is not None and found["m"] is not None
    for (_, n, mean), around_n, around_mean in zip(answer.rows, found["n"], found["m"], strict=True):
        assert around_n is not None and around_n[0] <= n <= around_n[1] and around_n[1] - around_n[0] < 100
        assert around_mean is not None and (mean is None or around_mean[0] <= mean <= around_mean[1])
    widths = [m[1] - m[0] for m in found["m"] if m is not None and m[1] - m[0] < 99]
    assert widths[-1] < min(widths[:-1])  # the total has four times the rows of a cell


def test_intervals_of_a_rollup_follow_rows_through_an_outer_query(session: dpsql.Session) -> None:
    sql = "SELECT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k)) WHERE n > 1000 ORDER BY n DESC LIMIT 2"
    answer = session.query(sql, epsilon=1)
    found = answer.intervals()["n"]
    assert found is not None
    assert all(i is not None and i[0] <= n <= i[1] for (n,), i in zip(answer.rows, found, strict=True))


def test_intervals_are_not_wider_than_they_need_be(session: dpsql.Session) -> None:
    # With large noise the discreteness of counts is no excuse.
    for calls in (("COUNT(*)",), ("SUM(v)",), ("SUM(v)", "COUNT(*)")):
        for call, share in coverage(session, calls, "0.02", 0.95).items():
            assert 0.935 <= share <= 0.97, (call, share)
    for call, share in coverage(session, ("COUNT(*)", "SUM(v)"), "0.02", 0.5).items():
        assert 0.46 <= share <= 0.54, (call, share)


def test_an_interval_is_centred_on_the_answer_and_grows_with_confidence(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n, SUM(v) AS s FROM t", epsilon="0.1")
    widths = []
    for confidence in (0.5, 0.9, 0.99):
        found = answer.intervals(confidence)
        for i, name in enumerate(("n", "s")):
            low, high = found[name][0]  # type: ignore[index, misc]  # it has noise of its own
            assert (low + high) / 2 == pytest.approx(answer.rows[0][i], abs=0.51)
        low, high = found["n"][0]  # type: ignore[index, misc]  # it has noise of its own
        widths.append(high - low)
    assert widths == sorted(widths) and widths[0] < widths[2]


def test_a_count_alone_has_the_exact_half_width_of_its_noise(session: dpsql.Session) -> None:
    quote = session.explain("SELECT COUNT(*) AS n FROM t", epsilon=1)
    answer = session.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
    n = answer.rows[0][0]
    assert answer.intervals()["n"] == [(n - 3, n + 3)]
    assert added_to(quote.steps[0].measurements[0]).within(0.95) == 3


def test_an_average_stays_within_its_range_and_so_does_its_interval(session: dpsql.Session) -> None:
    for answer in answers(session, "SELECT k, AVG(v) AS a FROM t GROUP BY k", "0.01", 50):
        for (_, a), interval in zip(answer.rows, answer.intervals()["a"], strict=True):  # type: ignore[arg-type]
            assert a is None or 0 <= a <= 100
            assert interval is not None and 0 <= interval[0] <= interval[1] <= 100


@pytest.mark.parametrize("sql", ["SELECT SUM(v * 0) AS s FROM t", "SELECT SUM(v) AS s FROM t WHERE v < 0"])
def test_a_sum_that_can_only_be_0_is_that_and_its_interval_is_a_point(sql: str, session: dpsql.Session) -> None:
    answer = session.query(sql, epsilon=1)
    assert (answer.rows, answer.intervals()) == ([(0,)], {"s": [(0.0, 0.0)]})
    assert "0" in str(answer)


def test_columns_without_noise_have_no_interval(session: dpsql.Session) -> None:
    answer = session.query("SELECT k, COUNT(*) AS n, COUNT(*) * 2 AS m, 1 AS one FROM t GROUP BY k", epsilon=1)
    found = answer.intervals()
    assert list(found) == ["k", "n", "m", "one"]
    assert found["n"] is not None and found["m"] is not None
    assert found["k"] is None and found["one"] is None


def test_intervals_follow_their_rows_through_order_limit_having_and_outer_selects(session: dpsql.Session) -> None:
    for sql in (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 50 ORDER BY k DESC LIMIT 3",
        "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) WHERE n > 50 ORDER BY n",
        "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT * FROM c WHERE k <> 'b'",
    ):
        answer = session.query(sql, epsilon=1)
        found = answer.intervals()["n"]
        assert found == [(n - 3, n + 3) for _, n in answer.rows] and answer.rows


def test_a_confidence_outside_of_0_and_1_is_refused(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) FROM t", epsilon=1)
    for wrong in (0, 1, -1, 2, float("nan")):
        with pytest.raises(ValueError):
            answer.intervals(wrong)


# ---------------------------------------------------------------- the example of 10,000 names


def test_a_histogram_over_10_000_names_is_within_12_for_all_cells_with_95_percent(connect: Connect) -> None:
    counts = [(i * 7) % 50 for i in range(10_000)]
    data = pa.table({"name": pa.array([n for n, c in zip(NAMES, counts, strict=True) for _ in range(c)])})
    policy = {"tables": {"people": {"unit": "row", "columns": {"name": {"values": NAMES, "nullable": False}}}}}
    session = connect({"people": data}, policy)
    sql = "SELECT name, COUNT(*) AS n FROM people WHERE name IS NOT NULL GROUP BY name"
    quote = session.explain(sql, epsilon=1)
    (step,) = quote.steps
    assert step.count == 10_000
    noise = step.measurements[0].noise
    assert isinstance(noise, DiscreteLaplace)
    assert noise.within(0.95, 10_000) == 12
    assert noise.laplace_within(0.95, 10_000) == pytest.approx(12.2, abs=0.01)
    assert "12.2 for all 10,000 cells with 95%" in str(quote)
    cursor = cursor_of(session)
    exact = execute(step, cursor)
    cursor.close()
    true = np.array(counts)
    runs = 400
    worst = np.array([np.abs(np.asarray(release(step, exact).columns[0][0]) - true).max() for _ in range(runs)])
    # Exactly: (1 − 2·a¹³/(1 + a))^10000 with a = 1/e.
    a = np.exp(-1.0)
    expected = (1 - 2 * a**13 / (1 + a)) ** 10_000
    assert 0.95 <= expected <= 0.97
    share = float((worst <= 12).mean())
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / runs)
    assert float((worst <= 11).mean()) < 0.95  # 12 is the smallest such figure


# ---------------------------------------------------------------- what an answer is


def test_an_answer_is_arrow_pandas_polars_rows_and_columns(session: dpsql.Session) -> None:
    answer = session.query("SELECT k, COUNT(*) AS n, AVG(v) AS a FROM t GROUP BY k", epsilon=1)
    assert answer.columns == ["k", "n", "a"]
    assert [r[0] for r in answer.rows] == ["a", "b", "c", "d", None]
    table = answer.to_arrow()
    assert isinstance(table, pa.Table) and table.schema.types == [pa.string(), pa.int64(), pa.float64()]
    assert list(zip(*table.to_pydict().values(), strict=True)) == answer.rows
    frame = answer.to_pandas()
    assert list(frame.columns) == answer.columns and frame["n"].tolist() == [r[1] for r in answer.rows]
    polars = answer.to_polars()
    assert polars.columns == answer.columns and polars.rows() == answer.rows


def test_answers_with_equal_names_keep_all_columns(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n, SUM(v) AS n FROM t", epsilon=10**6)
    assert answer.columns == ["n", "n"]
    assert answer.rows == [(len(VALUES), sum(VALUES))]


def test_cost_and_receipt_say_what_was_spent(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*), SUM(v) FROM t", epsilon="0.3")
    assert answer.cost.epsilon == Fraction(3, 10) and answer.cost.delta == 0 and answer.cost.rho is None
    assert isinstance(answer.receipt, Receipt)
    assert answer.receipt.cost == answer.cost
    (entry,) = session._engine.ledger.history()
    assert entry.id == answer.receipt.id and entry.state == "released" and entry.cost == answer.cost
    assert session.budget.spent.epsilon == Fraction(3, 10)


def test_a_quote_says_the_price_that_is_then_paid_and_spends_nothing(session: dpsql.Session) -> None:
    for sql in (
        "SELECT COUNT(*) FROM t",
        "SELECT k, COUNT(*), SUM(v), AVG(x), SUM(d) FROM t GROUP BY k",
        "SELECT (SELECT COUNT(*) FROM t) / (SELECT COUNT(*) FROM t WHERE v > 50)",
    ):
        before = session.budget.spent.epsilon
        quote = session.explain(sql, epsilon="0.7")
        assert session.budget.spent.epsilon == before
        assert quote.price.epsilon == Fraction(7, 10)  # ε is what the whole query costs
        answer = session.query(sql, epsilon="0.7")
        assert answer.cost == quote.price
        assert session.budget.spent.epsilon - before == Fraction(7, 10)


def test_a_list_of_public_keys_has_those_that_are_there_and_is_paid_for(session: dpsql.Session) -> None:
    answer = session.query("SELECT DISTINCT k FROM t", epsilon=10)
    assert [r[0] for r in answer.rows] == ["a", "b", "c", "d"]
    assert answer.cost.epsilon == session.budget.spent.epsilon == 10


def test_a_cte_used_twice_is_measured_and_paid_once(session: dpsql.Session) -> None:
    sql = "WITH c AS (SELECT COUNT(*) AS n FROM t WHERE v > 30) SELECT x.n AS a, y.n AS b FROM c x, c y"
    assert len(session.explain(sql, epsilon=1).steps) == 1
    for _ in range(10):
        a, b = session.query(sql, epsilon="0.01").rows[0]
        assert a == b


def test_an_aggregate_asked_twice_is_measured_once(session: dpsql.Session) -> None:
    quote = session.explain("SELECT COUNT(*), COUNT(*) + 1, AVG(v), SUM(v), COUNT(v) FROM t", epsilon=1)
    assert len(quote.steps) == 1
    assert len(quote.steps[0].measurements) <= 2
    a, b = session.query("SELECT COUNT(*) AS a, COUNT(*) AS b FROM t", epsilon="0.01").rows[0]
    assert a == b


def test_a_column_that_is_never_null_needs_no_count_of_its_own(connect: Connect) -> None:
    session = connect({"t": PEOPLE}, POLICY)
    n, m = session.query("SELECT COUNT(*), COUNT(v) FROM t WHERE v IS NOT NULL", epsilon="0.01").rows[0]
    assert n == m


def test_answers_differ_from_query_to_query(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE v > 50"
    assert len({a.rows[0] for a in answers(session, sql, "0.01", 20)}) > 10


# ---------------------------------------------------------------- budgets


def test_ten_queries_at_a_tenth_exhaust_one_and_the_eleventh_is_refused(connect: Connect) -> None:
    session = connect({"t": PEOPLE}, POLICY, epsilon=1)
    for n in range(10):
        assert session.budget.remaining.epsilon == Fraction(10 - n, 10)
        session.query(f"SELECT COUNT(*) FROM t WHERE v > {n}", epsilon=0.1)
    assert session.budget.remaining.epsilon == 0 and session.budget.spent.epsilon == 1
    with pytest.raises(dpsql.BudgetError) as error:
        session.query("SELECT COUNT(*) FROM t", epsilon=0.1)
    assert error.value.exit_code == 4
    assert session.budget.spent.epsilon == 1


def test_a_budget_error_says_what_is_left_and_costs_nothing(connect: Connect) -> None:
    session = connect({"t": PEOPLE}, POLICY, epsilon=1)
    session.query("SELECT COUNT(*) FROM t", epsilon="0.75")
    with pytest.raises(dpsql.BudgetError) as error:
        session.query("SELECT COUNT(*) FROM t", epsilon="0.5", fresh=True)
    assert "0.25" in str(error.value) and "0.5" in str(error.value) and error.value.hint
    assert session.budget.remaining.epsilon == Fraction(1, 4)
    session.query("SELECT COUNT(*) FROM t", epsilon="0.25", fresh=True)
    assert session.budget.remaining.epsilon == 0


def test_the_policys_query_epsilon_is_used_where_a_query_names_none(connect: Connect) -> None:
    policy = {"budget": {"epsilon": 2, "delta": 0, "query_epsilon": 0.5, "max_query_epsilon": 1}, **POLICY}
    session = connect({"t": PEOPLE}, policy)
    assert session.query("SELECT COUNT(*) FROM t").cost.epsilon == Fraction(1, 2)
    with pytest.raises(dpsql.PrivacyError) as error:
        session.query("SELECT COUNT(*) FROM t", epsilon="1.1")
    assert error.value.code == "max-query-epsilon" and error.value.hint
    assert session.budget.spent.epsilon == Fraction(1, 2)


def test_an_account_in_a_file_outlives_its_session(tmp_path: Any) -> None:
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0}, **POLICY})
    for n in range(3):
        with dpsql.connect(policy, sources={"t": PEOPLE}, ledger=tmp_path / "l.sqlite") as session:
            assert session.budget.spent.epsilon == Fraction(3 * n, 10)
            session.query("SELECT COUNT(*) FROM t", epsilon="0.3", fresh=True)
    session = dpsql.connect(policy, sources={"t": PEOPLE}, ledger=tmp_path / "l.sqlite")
    with session, pytest.raises(dpsql.BudgetError):
        session.query("SELECT COUNT(*) FROM t", epsilon="0.3", fresh=True)


FAR = [
    ("CAST('infinity' AS TIMESTAMP)", "infinity"),
    ("CAST('-infinity' AS DATE)", "-infinity"),
    ("CAST('20000-01-02' AS DATE)", "20000-01-02"),
    ("CAST('20000-01-02 03:04:05' AS TIMESTAMP)", "20000-01-02 03:04:05"),
    ("CAST('infinity' AS TIMESTAMPTZ)", "infinity"),
    ("CAST('0044-03-15 (BC)' AS DATE)", "0044-03-15 (BC)"),
]


@pytest.mark.parametrize(("value", "text"), FAR)
@pytest.mark.sample(2)
def test_a_date_that_python_has_no_place_for_is_shown_as_text(connect: Connect, value: str, text: str) -> None:
    session = connect({"t": pa.table({"x": [0, 1] * 500})}, {"tables": {"t": {"unit": "row"}}}, delta=1e-6)
    near = value.replace(text, "2020-01-01")
    sql = f"SELECT CASE WHEN x > 0 THEN {value} ELSE {near} END AS k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k"
    answer = session.query(sql, epsilon=1000, delta=1e-6)
    keys = {row[0] for row in answer.rows}
    assert text in keys and any(isinstance(k, datetime.date) and k.year == 2020 for k in keys)
    from dpsql.answer.notebook import html_table
    from dpsql.answer.render import as_csv, as_json
    from dpsql.answer.text_table import plain_table

    for shown in (as_csv(answer), str(as_json(answer)), plain_table(answer), html_table(answer)):
        assert text in shown and "2020-01-01" in shown


# ---------------------------------------------------------------- a query that only shows its release

SHOWN = [
    "SELECT COUNT(*) FROM t",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT COUNT(*), k, COUNT(*), SUM(v), SUM(x), SUM(d), AVG(d), STDDEV(x) FROM t GROUP BY k",
    "SELECT g, g, AVG(v) FROM t GROUP BY ALL",
    "SELECT x > 3 AS b, MEDIAN(v), MAX(d) FROM t GROUP BY b",
    "SELECT v // 10 AS decade, SUM(d) FROM t GROUP BY 1",
]


@pytest.mark.parametrize("sql", SHOWN)
def test_it_is_the_answer_that_the_engine_would_give(
    session: dpsql.Session, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.answer import finish as stage

    shown = session.query(sql, epsilon=1)
    monkeypatch.setattr(stage, "_shown", lambda *_: None)
    computed = session.query(sql, epsilon=1)
    assert computed.receipt.reused and computed.noisy[0].step.name == shown.noisy[0].step.name
    assert shown.table.schema.equals(computed.table.schema)
    assert shown.rows == computed.rows
    assert [pack_error(one)[0] for one in shown.origins] == [pack_error(one)[0] for one in computed.origins]
    assert shown.intervals() == computed.intervals()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k DESC",
        "SELECT k, COUNT(*) FROM t GROUP BY k LIMIT 1",
        "SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) > 10",
        "SELECT k, COUNT(*) + 1 FROM t GROUP BY k",
        "SELECT k, COUNT(*) FROM t GROUP BY k QUALIFY ROW_NUMBER() OVER (ORDER BY k) = 1",
    ],
)
def test_whatever_else_a_query_does_is_done(session: dpsql.Session, sql: str) -> None:
    from dpsql.aggregates.noisy import Noisy
    from dpsql.answer.finish import _shown
    from dpsql.answer.tables import noisy_table
    from dpsql.run import _measure as measure

    quote = session.explain(sql, epsilon=1)
    engine = session._engine
    found = measure(quote.main, engine, engine.deadline(), engine.indexing(engine.data()))
    noisy = [n for n in found if isinstance(n, Noisy)]
    assert _shown(quote.parts[0], {n.step.name: noisy_table(n, quote.plan.post) for n in noisy}) is None


@pytest.mark.parametrize("name", ["__cell", CELL])
@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "{0}", COUNT(*) AS n FROM t GROUP BY "{0}" ORDER BY 2 DESC, 1',
        'SELECT COUNT(*) + 1 AS "{0}" FROM t',
        'SELECT * FROM (SELECT "{0}", COUNT(*) AS n FROM t GROUP BY 1) WHERE n > 5',
    ],
)
def test_a_column_may_be_called_like_the_hidden_one(connect: Connect, name: str, sql: str) -> None:
    columns = {name: {"values": ["a", "b"]}}
    session = connect({"t": pa.table({name: ["a", "b"] * 50})}, {"tables": {"t": {"unit": "row", "columns": columns}}})
    rows = session.query(sql.format(name), epsilon=10**4).rows
    assert sorted(rows, key=str)[-1] in [("b", 50), (101,), (None, 0)]


def test_keys_of_unsigned_integers(connect: Connect) -> None:
    wide = 2**64 - 1
    keys = pa.array([1, wide] * 50, pa.uint64())
    for said, more in (({"values": [1, wide]}, {}), ({"references": "p.k"}, {"p": {"public": True}})):
        tables = {"t": pa.table({"k": keys}), **({"p": pa.table({"k": keys.slice(0, 2)})} if more else {})}
        session = connect(tables, {"tables": {"t": {"unit": "row", "columns": {"k": said}}, **more}})
        rows = session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=10**4).rows
        assert rows == [(1, 50), (wide, 50), (None, 0)]
