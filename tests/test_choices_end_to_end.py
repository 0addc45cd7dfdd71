"""Quantiles, extremes and winners: like plain DuckDB without noise, near it with noise, and charged as selections."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from math import ceil
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql.aggregates import quantile
from dpsql.answer.text_table import plain_table
from dpsql.quote.spare import rows_cut
from dpsql.remote.wire import pack, unpack
from dpsql.statistics.ranks import Extreme

N = 4_000
RNG = np.random.default_rng(5)
TABLE = pa.table(
    {
        "id": np.repeat(np.arange(N // 4), 4),
        "i": RNG.integers(0, 100, N),
        "x": RNG.normal(50, 15, N).clip(0, 100),
        "zeros": np.where(RNG.random(N) < 0.6, 0, RNG.integers(1, 1000, N)),
        "k": pa.array(RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])),
        "d": pa.array([date(2024, 1, 1 + int(n)) for n in RNG.integers(0, 30, N)]),
        "seen": pa.array([datetime(2024, 1, 1, int(n)) for n in RNG.integers(0, 24, N)]),
        "price": pa.array([Decimal(int(n)) / 4 for n in RNG.integers(0, 400, N)], pa.decimal128(9, 2)),
        "b": RNG.random(N) < 0.3,
    }
)
COLUMNS: dict[str, Any] = {
    "i": {"min": 0, "max": 99},
    "x": {"min": 0, "max": 100},
    "zeros": {"min": 0, "max": 1000},
    "k": {"values": ["a", "b", "c"]},
    "d": {"min": date(2024, 1, 1), "max": date(2024, 12, 31)},
    "seen": {"min": datetime(2024, 1, 1), "max": datetime(2024, 1, 2)},
    "price": {"min": 0, "max": 100},
}


def opened(unit: str, **budget: Any) -> dpsql.Session:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**9, "delta": 0, **budget},
            "privacy": {"limits_share": 0, "max_rows": 10, "max_groups": 10},
            "tables": {"t": {"unit": unit, "columns": COLUMNS}},
        }
    )
    return dpsql.connect(policy, sources={"t": TABLE}, ledger=":memory:")


@pytest.fixture(params=["row", "id"], scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[dpsql.Session]:
    with opened(request.param) as one:
        yield one


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return rows


EXACT = [
    "SELECT QUANTILE_DISC(i, 0.5), QUANTILE(i, 0.9), QUANTILE_DISC(i, 0.01) FROM t",
    "SELECT k, QUANTILE_DISC(i, 0.25) FROM t WHERE i > 10 GROUP BY k ORDER BY k",
    "SELECT MIN(i), MAX(i), MIN(zeros), MAX(zeros) FROM t",
    "SELECT k, MIN(i), MAX(i) FROM t GROUP BY k ORDER BY k",
    "SELECT MIN(d), MAX(d), QUANTILE_DISC(d, 0.5), APPROX_QUANTILE(d, 0.3) FROM t",
    "SELECT MIN(price), MAX(price), QUANTILE_DISC(price, 0.75) FROM t",
    "SELECT QUANTILE_DISC(zeros, [0.1, 0.25, 0.5, 0.55]) FROM t",
    "SELECT MAX(b), MIN(b) FROM t",
    "SELECT MAX(i) FILTER (WHERE k = 'a') - MIN(i) AS width FROM t",
    "SELECT QUANTILE_DISC(i, 0), QUANTILE_DISC(i, 1) FROM t",
    "SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY i) FROM t",
    "SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1",
    "SELECT MODE(k), COUNT(*) FROM t",
    "SELECT MODE(k) FILTER (WHERE i > 50) AS often, MODE() WITHIN GROUP (ORDER BY b) FROM t WHERE i < 90",
    "SELECT k FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY SUM(i) LIMIT 1",
    "SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT PRIVACY_UNIT()) DESC, k LIMIT 1",
    "SELECT ARG_MAX(k, n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)",
    "SELECT k FROM (SELECT k, SUM(x) AS s FROM t GROUP BY k) ORDER BY s DESC LIMIT 1 OFFSET 1",
]


@pytest.mark.sample(6)
@pytest.mark.parametrize("sql", EXACT)
def test_without_noise_it_is_what_duckdb_says(session: dpsql.Session, sql: str) -> None:
    answer = [tuple(row) for row in session.query(sql, epsilon=10**6).rows]
    expected = plain(sql.replace("PRIVACY_UNIT()", "id"))
    if "GROUP BY k ORDER BY k" in sql:
        answer = answer[:3]  # a NULL key is one more public group
    assert answer == expected


BETWEEN = [
    "MEDIAN(i)",
    "QUANTILE_CONT(x, 0.9)",
    "MEDIAN(x)",
    "QUANTILE_CONT(zeros, 0.7)",
    "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY x)",
]


@pytest.mark.parametrize("call", BETWEEN)
def test_a_continuous_quantile_lies_between_its_neighbours(session: dpsql.Session, call: str) -> None:
    ((value,),) = session.query(f"SELECT {call} FROM t", epsilon=10**6).rows
    column = next(c for c in ("zeros", "i", "x") if f"({c}" in call or f"BY {c}" in call)
    share = {"MEDIAN(i)": 0.5, "MEDIAN(x)": 0.5}.get(call) or float(
        next(w for w in call.replace("(", " ").replace(")", " ").replace(",", " ").split() if w.startswith("0."))
    )
    values = np.sort(np.asarray(TABLE.column(column)))
    rank = int(share * N)
    step = 100 / 2**18
    assert values[max(0, rank - 2)] - step <= value <= values[min(N - 1, rank + 1)] + step


@pytest.mark.parametrize("call", ["MAD(i)", "MAD(x)", "MAD(zeros)", "MAD(price)", "MAD(i) FILTER (WHERE k = 'a')"])
def test_without_noise_half_of_the_rows_lie_within_the_median_deviation(session: dpsql.Session, call: str) -> None:
    ((found,),) = session.query(f"SELECT {call} FROM t", epsilon=10**6).rows
    ((exact,),) = plain(f"SELECT {call} FROM t")
    step = {"MAD(x)": 0.01, "MAD(price)": 0.25}.get(call, 1)  # how far apart values of neighbouring ranks are
    assert abs(float(found) - float(exact)) <= step


def test_the_median_deviation_of_each_group_is_near_duckdbs() -> None:
    sql = "SELECT k, MAD(x) AS m FROM t GROUP BY k ORDER BY k"
    with opened("row") as session:
        found = session.query(sql, epsilon=3).rows[:3]  # a NULL key is one more public group
        assert session.query("SELECT k, MAD(x) FROM t GROUP BY k", epsilon=1).cost.epsilon == 0  # the same once more
    for (k, near), (same, exact) in zip(found, plain(sql), strict=True):
        assert k == same and abs(near - exact) < 1


def test_types_are_duckdbs() -> None:
    sql = (
        "SELECT MEDIAN(i) AS a, QUANTILE_DISC(i, 0.5) AS b, MEDIAN(d) AS c, MIN(d) AS d, MEDIAN(seen) AS e, "
        "QUANTILE_CONT(price, 0.5) AS f, QUANTILE_CONT(i, [0.1, 0.9]) AS g, MAX(b) AS h, MAD(i) AS j, "
        "MAD(price) AS l FROM t"
    )
    with opened("row") as session:
        answer = session.query(sql, epsilon=100)
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        expected = connection.sql(sql).to_arrow_table().schema
    assert [str(f.type) for f in answer.to_arrow().schema] == [str(f.type) for f in expected]
    intervals = answer.intervals()
    assert [name for name, found in intervals.items() if found is None] == ["g", "h", "j", "l"]
    kinds: dict[str, type] = {"c": datetime, "d": date, "e": datetime, "f": float}
    for name, kind in kinds.items():
        for ends in intervals[name] or []:
            assert ends is not None and [type(end) for end in ends] == [kind, kind] and ends[0] <= ends[1]


def test_the_median_of_ten_thousand_is_off_by_two_ranks_at_most_on_average() -> None:
    values = np.random.default_rng(1).uniform(0, 1000, 10_000)
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1000, "delta": 0},
            "tables": {"t": {"unit": "row", "columns": {"x": {"min": 0, "max": 1000}}}},
        }
    )
    with dpsql.connect(policy, sources={"t": pa.table({"x": values})}, ledger=":memory:") as session:
        errors = []
        for _ in range(25):
            ((median,),) = session.query("SELECT MEDIAN(x) FROM t", epsilon=1, fresh=True).rows
            errors.append(abs(int((values < median).sum()) - 5_000))
    assert np.mean(errors) <= 2


def test_explain_bounds_how_far_off_a_rank_is() -> None:
    with opened("row") as session:
        sql, off = "SELECT QUANTILE_DISC(zeros, [0.65, 0.8, 0.9]) AS q FROM t", []
        from dpsql.explain.facts import as_dict

        error = as_dict(session.explain(sql, epsilon=1))["releases"][0]["aggregates"][0]["error"]
        values = np.sort(np.asarray(TABLE.column("zeros")))
        for _ in range(12):
            ((found,),) = session.query(sql, epsilon=1, fresh=True).rows
            assert found == sorted(found)
            for q, value in zip((0.65, 0.8, 0.9), found, strict=True):
                low, high = np.searchsorted(values, value), np.searchsorted(values, value, side="right")
                off.append(max(0, low - q * N, q * N - high))
        assert np.quantile(off, 0.95) <= error["ranks"]
        assert np.mean(off) < 15


def test_a_winner_is_charged_as_a_selection_and_a_longer_list_is_charged_again() -> None:
    """Attack 41."""
    with opened("id", epsilon=10) as session:
        first = "SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT id) DESC LIMIT 1"
        answer = session.query(first, epsilon=1)
        assert answer.cost.epsilon == 1 and len(answer.rows) == 1
        assert session.query(first.replace("COUNT", "count"), epsilon=1).cost.epsilon == 0  # the same once more
        longer = session.query(first.replace("LIMIT 1", "LIMIT 3"), epsilon=1)
        assert longer.cost.epsilon == 1 and len(longer.rows) == 3
        other = session.query(first.replace("DESC", ""), epsilon=1)
        assert other.cost.epsilon == 1
        counted = session.query("SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k", epsilon=1, max_groups=4)
        assert counted.cost.epsilon == 1
        entry = session._engine.ledger.entry(answer.receipt.id)
        assert "chosen" in str(entry.note)


def test_counts_that_are_shown_are_a_histogram() -> None:
    with opened("id") as session:
        shown = session.explain("SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", epsilon=1)
        hidden = session.explain("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", epsilon=1)
        filtered = session.explain(
            "SELECT k FROM t GROUP BY k HAVING COUNT(*) > 5 ORDER BY COUNT(*) DESC LIMIT 1", epsilon=1
        )
    assert "discrete Laplace" in str(shown) and "discrete Laplace" in str(filtered)
    assert "noisy maximum" in str(hidden) and "only keys leave" in str(hidden)


def test_quantiles_repeat_for_free_and_survive_replay() -> None:
    with opened("id", epsilon=10) as session:
        sql = "SELECT k, MEDIAN(i) AS m, QUANTILE_CONT(x, [0.1, 0.9]) AS q FROM t GROUP BY k"
        one = session.query(sql, epsilon=1)
        again = session.query(sql + " ORDER BY m DESC", epsilon="0.5")
        assert again.cost.epsilon == 0 and sorted(map(str, again.rows)) == sorted(map(str, one.rows))
        assert session.replay(one.receipt.id).rows == one.rows
        assert session.query(sql, epsilon=2).cost.epsilon == 2


def test_private_keys_are_selected_before_values_are_chosen() -> None:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 100, "delta": 1e-6},
            "privacy": {"limits_share": 0, "max_rows": 4, "max_groups": 3},
            "tables": {"t": {"unit": "id", "columns": {"i": {"min": 0, "max": 99}}}},
        }
    )
    with dpsql.connect(policy, sources={"t": TABLE}, ledger=":memory:") as session:
        answer = session.query("SELECT k, MEDIAN(i) AS m, COUNT(*) AS n FROM t GROUP BY k", epsilon=10)
    assert [row[0] for row in answer.rows] == ["a", "b", "c"]
    assert all(40 <= row[1] <= 60 for row in answer.rows)


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_choices_beside_counts_cost_what_was_asked_for(accountant: str, mechanism: str) -> None:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 5, "delta": 1e-6, "accountant": accountant},
            "privacy": {"limits_share": 0, "max_rows": 4, "max_groups": 4},
            "tables": {"t": {"unit": "id", "columns": COLUMNS}},
        }
    )
    with dpsql.connect(policy, sources={"t": TABLE}, ledger=":memory:") as session:
        answer = session.query("SELECT MEDIAN(i), COUNT(*), AVG(x), MAX(i) FROM t", epsilon=5, mechanism=mechanism)
        assert answer.cost.epsilon <= 5
        with pytest.raises(dpsql.BudgetError):
            session.query("SELECT MEDIAN(x) FROM t", epsilon=5)


def test_a_batch_merges_no_winners_with_anything_else() -> None:
    with opened("id") as session:
        first, summed, counted = session.batch(
            "SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1; "
            "SELECT k FROM t GROUP BY k ORDER BY SUM(i) DESC LIMIT 1; SELECT k, COUNT(*) FROM t GROUP BY k",
            epsilon=10**6,
        )
    assert first.rows == summed.rows == [("a",)]
    assert [row[0] for row in counted.rows] == ["a", "b", "c", None]
    assert first.cost.epsilon == 10**6


def test_winners_without_a_limit_on_groups_go_with_values_that_are_measured_together() -> None:
    sql = (
        "SELECT (SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT id) DESC LIMIT 1), "
        "(SELECT AVG(i) + AVG(x) FROM t), (SELECT AVG(i * 2) FROM t WHERE k = 'a')"
    )
    with opened("id") as session:
        assert session.query(sql, epsilon=10**6).rows[0][0] == "a"


def test_the_modes_of_groups_are_refused_with_a_query_that_works() -> None:
    with opened("id") as session:
        with pytest.raises(dpsql.PrivacyError) as refused:
            session.query("SELECT k, MODE(i) FROM t GROUP BY k", epsilon=1)
        assert "QUALIFY" in str(refused.value.hint)
        sql = "SELECT k, i FROM t GROUP BY k, i QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY COUNT(*) DESC) = 1"
        assert len(session.query(sql, epsilon=10**6).rows) == 3


def test_a_median_beside_a_sum_of_the_same_value_repeats_for_free() -> None:
    with opened("id", epsilon=10) as session:
        sql = "SELECT SUM(i), MEDIAN(i), QUANTILE_DISC(i, 0.9), AVG(i) FROM t"
        one = session.query(sql, epsilon=1)
        assert session.query(sql, epsilon=1).rows == one.rows
        assert session.budget.spent.epsilon == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_no_moment_makes_a_median_of_moments_fail(unit: str) -> None:
    """Attack 9: seconds that no microsecond holds."""
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 2, "max_groups": 2},
            "tables": {
                "t": {"unit": "id", "columns": {"at": {"min": datetime(2020, 1, 1), "max": datetime(2021, 1, 1)}}}
            },
        }
    )
    far = 2**53 if unit in ("s", "ms") else 2**60
    for numbers in ([0, 0], [0, far]):
        data = pa.table({"id": [1, 2], "at": pa.array(numbers, pa.int64()).cast(pa.timestamp(unit))})
        with dpsql.connect(policy, sources={"t": data}, ledger=":memory:") as session:
            ((median, last),) = session.query("SELECT MEDIAN(at), MAX(at) FROM t", epsilon=1).rows
        assert datetime(2020, 1, 1) <= median <= datetime(2021, 1, 1)
        assert last is not None


def test_what_looks_at_all_groups_is_no_choice() -> None:
    with opened("id") as session:
        counted = "SELECT k, COUNT(*) OVER () AS n FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1"
        assert session.query(counted, epsilon=10**6).rows == plain(counted) == [("a", 3)]
        numbered = "SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS n FROM t GROUP BY k ORDER BY COUNT(*) LIMIT 2 OFFSET 1"
        assert session.query(numbered, epsilon=10**6).rows == plain(numbered) == [("b", 2), ("a", 1)]


def test_arg_min_passes_over_the_group_without_a_key() -> None:
    with opened("id") as session:
        sql = "SELECT ARG_MIN(k, n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)"
        assert session.query(sql, epsilon=10**6).rows == plain(sql)


def test_a_mode_that_looks_at_an_outer_row_is_refused() -> None:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 10, "max_groups": 10},
            "tables": {"t": {"unit": "id", "columns": COLUMNS}, "pub": {"public": True}},
        }
    )
    with dpsql.connect(policy, sources={"t": TABLE, "pub": pa.table({"pk": ["a", "b"]})}, ledger=":memory:") as session:
        with pytest.raises(dpsql.Error) as refused:
            session.query("SELECT pk, (SELECT MODE(i) FROM t WHERE t.k = pub.pk) FROM pub", epsilon=1)
        assert session.budget.spent.epsilon == 0 and refused.value.hint


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ("SELECT MEDIAN(i) FROM t", "SELECT MEDIAN(i) FROM t"),
        ("SELECT MEDIAN(x) FROM t", "SELECT QUANTILE_CONT(x, [0.5, 0.5]) FROM t"),
        (
            "SELECT k FROM t GROUP BY k ORDER BY SUM(x) DESC LIMIT 1",
            "SELECT k FROM t GROUP BY k ORDER BY SUM(x) DESC LIMIT 1",
        ),
    ],
)
def test_a_choice_with_more_noise_answers_nothing_for_free(cheap: str, dear: str) -> None:
    for small, large in (("0.0000305", "0.0078125"), ("0.0001", "1"), ("0.02", "1")):
        with opened("id", epsilon=10) as session:
            session.query(cheap, epsilon=small)
            assert session.query(dear, epsilon=large).cost.epsilon > 0
            assert session.query(dear, epsilon=large).cost.epsilon == 0


def test_an_accuracy_of_winners_is_refused() -> None:
    with opened("id") as session, pytest.raises(dpsql.PrivacyError, match="winners"):
        session.query("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", accuracy=5)


def test_answers_say_what_was_chosen() -> None:
    from dpsql.answer.render import as_json

    with opened("id") as session:
        extremes = session.query("SELECT MIN(i), MAX(i), COUNT(*) FROM t", epsilon=1)
        winner = session.query("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", epsilon=1)
        again = session.query("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 1", epsilon=1)
        plain_ = session.query("SELECT k, COUNT(*), MEDIAN(i) FROM t GROUP BY k", epsilon=1)
        replayed = session.replay(winner.receipt.id)
    nobody = "rows of t whose id is NULL are left out"
    assert extremes.notes[:2] == (nobody, "MAX and MIN: approximate, a value that a few rows lie beyond")
    assert [note.split(":")[0] for note in extremes.notes[2:4]] == ["min(i)", "max(i)"]
    unknown = "too little is known of what limits cut to say how many rows it is from the exact one"
    assert plain_.notes[:2] == (nobody, f"median(i): {unknown}")  # the policy buys no counts of units
    assert as_json(plain_)["ranks"] == {"median(i)": None}
    with opened("row") as session:
        plain_ = session.query("SELECT k, COUNT(*), MEDIAN(i) FROM t GROUP BY k", epsilon=1)
    off = ceil(plain_.ranks["median(i)"])
    assert f"median(i): at most {off:,} rows from the exact one, in each row with 95%" in plain_.notes
    assert as_json(plain_)["ranks"] == {"median(i)": off}
    for one in (winner, again, replayed):
        assert one.notes[:2] == (
            nobody,
            "the winners were chosen: the counts or sums behind them were not released",
        )
        assert as_json(one)["receipt"]["notes"] == list(one.notes)


# ---------------------------------------------------------------- intervals


CHOSEN = "SELECT k, MEDIAN(i) AS m, QUANTILE_CONT(x, 0.9) AS q, MIN(d) AS first, MAX(seen) AS last FROM t GROUP BY k"


def test_each_group_has_intervals_in_the_type_of_its_column() -> None:
    with opened("row") as session:
        answer = session.query(CHOSEN, epsilon=20)
        again = session.replay(answer.receipt.id)
    intervals = answer.intervals()
    assert again.intervals() == intervals and again.notes == answer.notes
    for name, kind in {"m": float, "q": float, "first": date, "last": datetime}.items():
        place = answer.columns.index(name)
        for row, ends in zip(answer.rows, intervals[name] or [], strict=True):
            assert ends is not None and type(ends[0]) is type(ends[1]) is kind
            assert ends[0] <= row[place] <= ends[1]
    groups = answer.table["k"].to_pylist()
    held = []
    for k, *values in plain("SELECT k, MEDIAN(i), QUANTILE_CONT(x, 0.9), MIN(d), MAX(seen) FROM t GROUP BY k"):
        for name, value in zip(("m", "q", "first", "last"), values, strict=True):
            low, high = (intervals[name] or [])[groups.index(k)] or (value, value)
            held.append(low <= value <= high)
    assert sum(held) >= 8  # of 12, each of which fails in one of 20 answers at most


def test_ends_travel_in_files_and_in_the_type_of_their_column() -> None:
    with opened("row") as session:
        answer = session.query(CHOSEN, epsilon=20)
    table = answer.to_arrow(intervals=True)
    for name in ("first", "last"):
        for end in ("low", "high"):
            assert table.schema.field(f"{name}_{end}").type == table.schema.field(name).type
    assert str(table.schema.field("q_low").type) == "double"
    assert " to 2024-12-31" not in plain_table(answer).splitlines()[0] and "2024-01-01 to" in plain_table(answer)
    (remote,) = unpack(pack([answer]))
    assert remote.intervals() == answer.intervals()


def test_a_stored_release_without_ends_answers_for_free_and_without_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql, offered = "SELECT MEDIAN(i) AS m, MAX(x) AS last FROM t", Extreme.quantities
    with opened("row", epsilon=10) as session:
        with monkeypatch.context() as patch:
            patch.setattr(quantile.Chosen, "interval_needs", lambda *_: ())
            patch.setattr(Extreme, "quantities", lambda self: dict(list(offered(self).items())[:1]))
            old = session.query(sql, epsilon=1)
        assert set(old.intervals().values()) == {None}
        again = session.query("SELECT MAX(x) AS last, MEDIAN(i) AS m FROM t", epsilon=1)
        assert again.cost.epsilon == 0 and again.rows == [old.rows[0][::-1]]
        assert set(again.intervals().values()) == {None}
        new = session.query(sql, epsilon=2)
        assert new.cost.epsilon == 2 and None not in new.intervals().values()
        assert session.query(sql, epsilon=2).intervals() == new.intervals()


def test_the_greatest_value_of_few_rows_names_a_quantile_instead() -> None:
    with opened("row") as session:
        few = session.query("SELECT MAX(x) AS most, MIN(i) AS least, COUNT(*) AS n FROM t WHERE i < 3", epsilon=3)
        many = session.query("SELECT MAX(x) AS most, MEDIAN(i) AS m, COUNT(*) AS n FROM t", epsilon=500)
        uncounted = session.query("SELECT MAX(x) AS most FROM t WHERE i < 3", epsilon=1)
    most, least = few.advice
    assert most.startswith("most may be off by ") and most.endswith("ask for quantile(x, 0.99) instead")
    assert least.startswith("least may be off by ") and least.endswith("ask for quantile(i, 0.01) instead")
    assert set(few.advice) <= set(few.notes)
    assert many.advice == uncounted.advice == ()


def test_what_limits_cut_is_in_the_interval_of_a_median() -> None:
    """30 units have 40 rows each of 100, and the limit keeps few of them."""
    ids = np.concatenate([np.arange(3000), np.repeat(np.arange(3000, 3030), 40)])
    values = np.concatenate([np.arange(3000) % 50, np.full(1200, 100)])
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1000, "delta": 0},
            "privacy": {"limits_share": 0.2},
            "tables": {"t": {"unit": "id", "columns": {"i": {"min": 0, "max": 100}}}},
        }
    )
    data = pa.table({"id": ids, "i": values})
    with dpsql.connect(policy, sources={"t": data}, ledger=":memory:") as session:
        quote = session.explain("SELECT MEDIAN(i) AS m FROM t", epsilon=10)
        answer = session.query("SELECT MEDIAN(i) AS m FROM t", epsilon=10)
    (noisy,) = answer.noisy
    spare = next(q for q in noisy.step.estimates if q.kind == "spare")
    cut = rows_cut(noisy.bias)
    assert noisy.estimate(noisy.step.estimates[spare]).floats[0] == ceil(cut)
    (ends,) = answer.intervals()["m"] or [None]
    assert ends is not None and ends[0] <= np.median(values) <= ends[1] and quote.price == answer.cost
