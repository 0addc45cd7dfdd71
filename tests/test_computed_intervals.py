"""Intervals of what is computed from noisy tables: they cover, they agree with each other, they survive a replay.

Theorem INTERVAL-1. Coverage tests count cells of which an exact 95% interval would miss one in twenty; their bounds are
at least 4.5 standard deviations away, so that each fails by chance less than once in 100,000 runs.
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from support import Connect

import dpsql
from dpsql.answer import errors, simulate
from dpsql.answer.gradient import STILL, Moves, moves, one
from dpsql.answer.intervals import Between, Simulated, Slopes, row_intervals, summary
from dpsql.answer.render import as_json
from dpsql.answer.text_table import text_table
from dpsql.core.errors import EngineError
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import post

GROUPS, PER_GROUP = 40, 250
SIZE = GROUPS * PER_GROUP
TABLE = pa.table(
    {
        "g": pa.array([i % GROUPS for i in range(SIZE)], pa.int32()),
        "k": ["abcd"[i % 4] for i in range(SIZE)],
        "v": pa.array([(i * 37) % 101 for i in range(SIZE)], pa.int32()),
        "x": [((i * 61) % 89) / 9 for i in range(SIZE)],
    }
)
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "g": {"min": 0, "max": GROUPS - 1},
                "k": {"values": ["a", "b", "c", "d", "nowhere"]},
                "v": {"min": 0, "max": 100},
                "x": {"min": 0, "max": 10},
            },
        },
        "names": {"public": True, "columns": {}},
    }
}
NAMES = pa.table({"g": pa.array(range(GROUPS), pa.int32()), "size": [float(10 + i) for i in range(GROUPS)]})
BY_G = "SELECT g, COUNT(*) AS n FROM t WHERE g IS NOT NULL GROUP BY g"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE, "names": NAMES}, POLICY)


def exact(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as plain:
        plain.register("t", TABLE)
        plain.register("names", NAMES)
        return plain.execute(sql).fetchall()


def held(session: dpsql.Session, sql: str, epsilon: str, runs: int) -> tuple[int, int]:
    """How many intervals of the column x hold the exact value, and how many there are. The first column is a key."""
    true = {row[0]: row[-1] for row in exact(sql)}
    found = []
    for _ in range(runs):
        answer = session.query(sql, epsilon=epsilon, fresh=True)
        for row, interval in zip(answer.rows, answer.intervals()["x"] or (), strict=True):
            if true.get(row[0]) is not None:
                assert interval is not None, row
                found.append(interval[0] - 1e-9 <= float(true[row[0]]) <= interval[1] + 1e-9)
    return sum(found), len(found)


# ---------------------------------------------------------------- coverage

COLUMNS = {  # the column, and over how many cells an error is shared: they count as one
    "ratio": ("SELECT g, COUNT(*) FILTER (WHERE v > 50) * 100.0 / COUNT(*) AS x FROM t", 1),
    "difference": ("SELECT g, COUNT(*) FILTER (WHERE v > 50) - COUNT(*) FILTER (WHERE v < 20) AS x FROM t", 1),
    "rounded": ("SELECT g, ROUND(SUM(v) / COUNT(*), 1) AS x FROM t", 1),
    "at least 0": ("SELECT g, GREATEST(COUNT(*) FILTER (WHERE v = 7), 0) AS x FROM t", 1),
    "share": ("SELECT g, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t", 1),
    "moving average": ("SELECT g, AVG(COUNT(*)) OVER (ORDER BY g ROWS 2 PRECEDING) AS x FROM t", 3),
    "growth": ("SELECT g, COUNT(*) * 1.0 / LAG(COUNT(*)) OVER (ORDER BY g) - 1 AS x FROM t", 2),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("epsilon", ["1", "0.2"])
def test_intervals_of_computed_columns_hold_the_exact_value(session: dpsql.Session, name: str, epsilon: str) -> None:
    column, shared = COLUMNS[name]
    hits, cells = held(session, f"{column} WHERE g IS NOT NULL GROUP BY g", epsilon, 12)
    assert hits / cells >= 0.94 - 4.5 * sqrt(0.05 * 0.95 * shared / cells), (hits, cells)


def test_a_ratio_of_two_releases_holds_the_exact_value(session: dpsql.Session) -> None:
    sql = (
        f"SELECT a.g, b.n * 1.0 / a.n AS x FROM ({BY_G}) a JOIN "
        "(SELECT g, COUNT(*) AS n FROM t WHERE v > 50 AND g IS NOT NULL GROUP BY g) b ON a.g = b.g"
    )
    hits, cells = held(session, sql, "1", 12)
    assert hits / cells >= 0.94 - 4.5 * sqrt(0.05 * 0.95 / cells), (hits, cells)


# ---------------------------------------------------------------- two ways to the same interval


@pytest.mark.parametrize(
    "column",
    [
        "COUNT(*) FILTER (WHERE v > 50) * 100.0 / COUNT(*)",
        "SUM(v) / COUNT(*)",
        "AVG(v) - AVG(x)",
        "SUM(v) - 3 * COUNT(*)",
    ],
)
def test_propagation_and_simulation_agree(session: dpsql.Session, column: str) -> None:
    rest = "FROM t WHERE g IS NOT NULL GROUP BY g"
    # Noise of many rows: whole numbers are no matter. First order has to be enough, for one divided by 250 ± 60.
    by_row = session.query(f"SELECT g, {column} AS x {rest}", epsilon="0.2")
    # The window keeps it from being arithmetic in a row, and adds nothing. The release is the stored one.
    drawn = session.query(f"SELECT g, {column} + 0 * MAX({column}) OVER () AS x {rest}", epsilon="0.2")
    assert drawn.receipt.reused and drawn.rows == by_row.rows
    assert isinstance(by_row.origins[1], Slopes) and isinstance(drawn.origins[1], Simulated)
    first, second = (np.array(answer.intervals()["x"], dtype=np.float64) for answer in (by_row, drawn))
    # The median of 40 widths, each off by a tenth or so.
    assert 0.85 <= np.median((second[:, 1] - second[:, 0]) / (first[:, 1] - first[:, 0])) <= 1.15


def test_what_two_aggregates_share_cancels(session: dpsql.Session) -> None:
    sql = "SELECT g, SUM(v) - SUM(v) AS nothing, SUM(v) * 2.0 / SUM(v) AS two FROM t WHERE g IS NOT NULL GROUP BY g"
    found = session.query(sql, epsilon=1).intervals()
    assert found["nothing"] == [(0.0, 0.0)] * GROUPS
    assert found["two"] is not None
    assert all(i == pytest.approx((2.0, 2.0), abs=1e-9) for i in found["two"])


def test_a_release_that_is_read_twice_gets_the_same_noise_in_both_places(session: dpsql.Session) -> None:
    sql = f"WITH q AS ({BY_G}) SELECT a.g, a.n * 1.0 / b.n AS x FROM q a JOIN q b ON a.g = b.g"
    assert session.query(sql, epsilon=1).intervals()["x"] == [(1.0, 1.0)] * GROUPS


def test_wider_confidence_is_wider_also_beyond_what_was_drawn(session: dpsql.Session) -> None:
    answer = session.query("SELECT g, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t GROUP BY g", epsilon=1)
    widths = []
    for confidence in (0.3, 0.5, 0.9, 0.95, 0.99, 1 - 1e-9):
        low, high = (answer.intervals(confidence)["x"] or [])[0] or (0.0, 0.0)
        widths.append(high - low)
    assert widths == sorted(widths) and widths[0] > 0
    # A Laplace tail: ln(1/2·10⁻⁹)/ln(40) = 5.4 times as far as 95%; a sum has thinner ones.
    assert 3 * widths[3] < widths[-1] < 9 * widths[3]


# ---------------------------------------------------------------- derivatives

EXPRESSIONS = (
    "a + 2 * b - 3", "a * b / (a + b)", "100.0 * a / b", "-(a - b) / NULLIF(a, 0)", "COALESCE(a / b, 0)",
    "CASE WHEN k = 1 THEN a * a ELSE b / a END", "CASE WHEN a > 0 THEN b / a END",
    "CAST(a AS DOUBLE) / CAST(b AS DECIMAL(18, 3))", "ROUND(a / b, 12)", "(a - b) * (a - b) / (b * b)",
)  # fmt: skip


def _look(column: exp.Column) -> Moves | None:
    return STILL if column.name == "k" else Moves({"ab".index(column.name): one()})


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_derivative_is_what_a_small_step_shows(text: str) -> None:
    node = parse_one(text, read="duckdb")
    found = moves(node, _look)
    assert found is not None
    with duckdb.connect() as plain:

        def value(tree: exp.Expr, a: float, b: float) -> float:
            cast = f"SELECT {as_sql(post(tree))} FROM (SELECT {a!r}::DOUBLE AS a, {b!r}::DOUBLE AS b, 1 AS k)"
            return float((plain.execute(cast).fetchone() or [np.nan])[0])

        a, b, h = 7.0, 3.0, 1e-2
        steps = [(value(node, a + h, b) - value(node, a - h, b)) / (2 * h)]
        steps.append((value(node, a, b + h) - value(node, a, b - h)) / (2 * h))
        slopes = [value(found.slopes[i], a, b) if i in found.slopes else 0.0 for i in (0, 1)]
    assert slopes == pytest.approx(steps, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "a // b",
        "GREATEST(a, 0)",
        "CASE WHEN a > 5 THEN 1 ELSE 0 END",
        "a / SUM(b) OVER ()",
        "a + (SELECT MAX(b))",
        "ABS(a)",
    ],
)
def test_what_is_no_smooth_arithmetic_has_no_derivative(text: str) -> None:
    assert moves(parse_one(text, read="duckdb"), _look) is None


def test_a_divisor_that_may_be_0_leaves_no_interval(session: dpsql.Session) -> None:
    sql = "SELECT k, COUNT(*) AS n, SUM(v) * 1.0 / COUNT(*) AS x FROM t WHERE k IS NOT NULL GROUP BY k"
    without = 0
    for _ in range(10):
        answer = session.query(sql, epsilon=1, fresh=True)
        for (k, _, x), divisor, ratio in zip(answer.rows, *_named(answer, "n", "x"), strict=True):
            if min(abs(divisor[0]), abs(divisor[1])) < 1:
                continue  # its ends are rounded, so that it may hold 0 or not
            holds_0 = divisor[0] <= 0 <= divisor[1]
            assert (k == "nowhere" or not holds_0) and (ratio is None) == (holds_0 or x is None)
            without += ratio is None
    assert without >= 3  # with 95% each


def _cells(answer: dpsql.Answer) -> list[tuple[tuple[Any, ...], Any]]:
    return list(zip(answer.rows, answer.intervals()["x"] or (), strict=True))


# ---------------------------------------------------------------- which row is which


def test_rows_keep_their_intervals_through_order_limit_and_having(session: dpsql.Session) -> None:
    sql = (
        "SELECT COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t WHERE g IS NOT NULL GROUP BY g "
        "ORDER BY n DESC LIMIT 3"
    )
    answer = session.query(sql, epsilon=1)
    found = answer.intervals()["x"]
    assert found is not None and len(found) == len(answer.rows) == 3
    assert all(i is not None and i[0] <= x <= i[1] for (_, x), i in zip(answer.rows, found, strict=True))
    having = session.query("SELECT g, COUNT(*) + 0 AS x FROM t GROUP BY g HAVING COUNT(*) > 100", epsilon=1)
    assert all(i is not None for i in having.intervals()["x"] or [None])


def test_a_join_with_a_public_table_and_a_union_have_intervals(session: dpsql.Session) -> None:
    joined = session.query(f"SELECT q.g, n / size AS x FROM ({BY_G}) q JOIN names ON q.g = names.g", epsilon=1)
    assert joined.intervals()["g"] is None
    assert all(i is not None for i in joined.intervals()["x"] or [None])
    both = session.query("SELECT k, COUNT(*) AS x FROM t GROUP BY k UNION ALL SELECT 'all', COUNT(*) FROM t", epsilon=1)
    widths = {k: i[1] - i[0] for (k, _), i in _cells(both)}
    assert len(widths) == 7 and all(w > 0 for w in widths.values())


def test_one_row_without_a_key_has_an_interval(session: dpsql.Session) -> None:
    spread = session.query(f"SELECT MAX(n) - MIN(n) AS x FROM ({BY_G})", epsilon=1).intervals()["x"]
    assert spread is not None and spread[0] is not None and spread[0][0] < spread[0][1]
    ratio = "SELECT (SELECT COUNT(*) FROM t WHERE v > 50) * 1.0 / (SELECT COUNT(*) FROM t) AS x"
    low, high = (session.query(ratio, epsilon=1).intervals()["x"] or [])[0] or (0.0, 0.0)
    assert low < 0.5 < high + 0.01


def test_numbers_that_noise_does_not_move_have_no_interval(session: dpsql.Session) -> None:
    sql = f"SELECT COUNT(*) AS many, MAX(g) AS last FROM ({BY_G} HAVING COUNT(*) > 10)"
    assert session.query(sql, epsilon=1).intervals() == {"many": None, "last": None}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT k, COUNT(*) AS x FROM t GROUP BY k UNION ALL SELECT k, COUNT(*) FROM t GROUP BY k", "the same key"),
        ("SELECT k, MEDIAN(v) * 2 AS x FROM t GROUP BY k", "MEDIAN was chosen"),
    ],
)
def test_a_column_without_an_interval_says_why(session: dpsql.Session, sql: str, why: str) -> None:
    answer = session.query(sql, epsilon=1)
    assert answer.intervals()["x"] is None and why in answer.missing["x"]
    assert any(note.startswith("x has no interval: ") and why in note for note in answer.notes)


# ---------------------------------------------------------------- it never stands in the way


def test_what_takes_long_is_simulated_on_request(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "AT_ONCE", simulate.Effort(0, 1.0))
    sql = "SELECT g, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t WHERE g IS NOT NULL GROUP BY g"
    answer = session.query(sql, epsilon=1)
    assert answer.intervals()["x"] is None and "--intervals" in answer.missing["x"]
    found = answer.intervals(simulate=True)["x"]
    assert found is not None and all(i is not None and i[0] < i[1] for i in found)
    assert answer.intervals(simulate=True)["x"] == found  # simulated once
    assert not answer.simulated().missing


def test_a_simulation_ends_when_its_time_is_up(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "AT_ONCE", simulate.Effort(10**9, 0.0))
    answer = session.query("SELECT g, SUM(COUNT(*)) OVER (ORDER BY g) AS x FROM t GROUP BY g", epsilon=1)
    assert answer.intervals()["x"] is None and answer.later is not None


def test_an_engine_that_fails_in_a_simulation_fails_nobodys_query(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise EngineError("internal error")

    sql = "SELECT g, SUM(COUNT(*)) OVER (ORDER BY g) AS x FROM t GROUP BY g"
    with monkeypatch.context() as patch:
        patch.setattr(type(session._engine.public), "apart", broken)
        answer = session.query(sql, epsilon=1)
    assert len(answer.rows) == GROUPS + 1 and answer.intervals()["x"] is None and answer.later is None
    assert session.query(sql, epsilon=1).intervals()["x"] is not None


def test_simulation_costs_nothing_and_reads_nothing_but_noisy_tables(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "AT_ONCE", simulate.Effort(0, 1.0))
    answer = session.query("SELECT g, SUM(COUNT(*)) OVER (ORDER BY g) AS x FROM t GROUP BY g", epsilon=1)
    left = session.budget.remaining
    read: list[set[str]] = []
    real = type(session._engine.public).apart

    def watched(self: Any, query: Any, tables: Any, seconds: float) -> Any:
        read.append(set(tables))
        return real(self, query, tables, seconds)

    monkeypatch.setattr(type(session._engine.public), "apart", watched)
    assert answer.intervals(simulate=True)["x"] is not None
    assert read == [{"r0 draws", "dpsql draws"}] and session.budget.remaining == left


# ---------------------------------------------------------------- replays

QUANTILES = (
    "SELECT k, QUANTILE_DISC(v, 0.1) AS low, MEDIAN(v) AS x, QUANTILE_DISC(v, 0.9) AS high, COUNT(v) AS n "
    "FROM t GROUP BY k"
)
KEPT = (
    "SELECT k, SUM(v) * 1.0 / COUNT(*) AS x FROM t GROUP BY k",
    "SELECT k, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x, MEDIAN(v) * 2 AS y FROM t GROUP BY k",
    QUANTILES,
)


@pytest.mark.parametrize("sql", KEPT)
def test_a_replay_has_the_very_intervals_ranks_and_reasons(session: dpsql.Session, sql: str) -> None:
    first = session.query(sql, epsilon=5)
    again = session.replay(first.receipt.id)
    assert first.intervals()["x"] is not None
    for confidence in (0.5, 0.95, 0.999):
        assert again.intervals(confidence) == first.intervals(confidence)
    assert (again.rows, again.columns, again.notes, again.ranks) == (
        first.rows,
        first.columns,
        first.notes,
        first.ranks,
    )
    assert text_table(again) == text_table(first)


# ---------------------------------------------------------------- ranks and too few


def test_quantiles_lie_between_ends_that_were_chosen(session: dpsql.Session) -> None:
    answer = session.query(QUANTILES, epsilon=5)
    for name, error in zip(answer.columns, answer.origins, strict=True):
        assert isinstance(error, Between) == (name in ("low", "x", "high"))
    for (_, _, x, _, _), interval in _cells(answer):
        assert interval is not None and interval[0] <= x <= interval[1]
    assert answer.intervals(0.99)["x"] is None  # it was chosen for 95%
    told = json.loads(json.dumps(as_json(answer)))
    assert list(told["ranks"]) == ["low", "x", "high"] and all(isinstance(n, int) for n in told["ranks"].values())
    alone = session.query("SELECT k, MEDIAN(x) AS x FROM t GROUP BY k", epsilon=1)
    assert alone.intervals()["x"] is not None and alone.ranks["x"] > 0


def test_an_average_of_next_to_nothing_is_null_and_its_interval_is_its_range(session: dpsql.Session) -> None:
    sql = "SELECT k, AVG(v) AS x, STDDEV_POP(v) AS s, COUNT(v) AS n FROM t WHERE k IS NOT NULL GROUP BY k"
    few = 0
    for _ in range(20):
        answer = session.query(sql, epsilon=1, fresh=True)
        rows = {row[0]: (row, *ends) for row, *ends in zip(answer.rows, *_named(answer, "x", "s", "n"), strict=True)}
        assert rows["a"][0][1] is not None and rows["a"][0][2] is not None
        (_, mean, deviation, _), around, spread, count = rows["nowhere"]
        assert (mean is None) == (count[0] <= 0) and (mean is not None or deviation is None)
        if mean is None:
            few += 1
            assert around == (0.0, 100.0) and spread == (0.0, 50.0)
            assert "too few" in text_table(answer) and as_json(answer)["rows"][4][1] is None
            assert as_json(answer)["intervals"]["x"][4] == [0.0, 100.0]
    assert few >= 12  # an empty cell passes with 2.5%: 9 of 20 would once in 10⁹ times


def _named(answer: dpsql.Answer, *names: str) -> list[list[Any]]:
    found = answer.intervals()
    return [list(found[name] or []) for name in names]


# ---------------------------------------------------------------- what is kept of draws


def test_draws_on_one_side_extend_the_interval_to_the_other() -> None:
    draws, value = np.linspace(1, 3, 401)[None, :], np.array([1.5])
    (low, high) = row_intervals(summary(draws, value, by_row=False), [1.5], (), None, 0.95)[0]  # type: ignore[index, misc]  # it has one
    assert low == pytest.approx(2 * 1.5 - 2.95, abs=0.01) and high == pytest.approx(2.95, abs=0.01)
    (low, high) = row_intervals(summary(draws, value, by_row=True), [1.5], (), None, 0.95)[0]  # type: ignore[index, misc]  # it has one
    assert low == pytest.approx(1.05, abs=0.01) and high == pytest.approx(2.95, abs=0.01)


def test_a_row_that_draws_leave_out_has_no_interval() -> None:
    draws = np.where(np.arange(400)[None, :] % 5 == 0, np.nan, 1.0)
    assert row_intervals(summary(draws, np.array([1.0]), by_row=True), [1.0], (), None, 0.95) == [None]
