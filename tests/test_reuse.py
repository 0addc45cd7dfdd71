"""Free answers: what left once may leave again, and nothing else may."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect

import dpsql
from dpsql import run as loop
from dpsql.accounting.opening import open_ledger
from dpsql.backends.choose import kind_of
from dpsql.core.errors import BudgetError, LedgerError

TABLE = pa.table(
    {
        "id": list(range(300)),
        "k": ["a", "b", "c"] * 100,
        "v": [float(i % 50) for i in range(300)],
        "w": [i % 7 for i in range(300)],
        "s": [f"s{i % 2}" for i in range(300)],
    }
)
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 2, "max_groups": 2},
    "tables": {
        "t": {
            "unit": "id",
            "columns": {"k": {"values": ["a", "b", "c"]}, "v": {"min": 0, "max": 50}, "w": {"min": 0, "max": 7}},
        }
    },
}


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100, delta=1e-6)


def spent(session: dpsql.Session) -> Fraction:
    return session.budget.spent.epsilon


BY_KEY = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k"


@pytest.mark.parametrize(
    "again",
    [
        BY_KEY,
        "select   K as kk, count(*) c , sum(V) from T as x group by 1",
        "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k ORDER BY 3 DESC LIMIT 1",
        "SELECT k, SUM(v) / COUNT(*) FROM t GROUP BY k HAVING COUNT(*) > 10",
        "WITH z AS (SELECT k AS a, v AS b FROM t) SELECT a, SUM(b), COUNT(*) FROM z GROUP BY a",
        "SELECT k, SUM(v) FROM t GROUP BY k",
        "SELECT k, AVG(v) FROM t GROUP BY k",
        "SELECT k, COUNT(*) FROM t GROUP BY k",
    ],
)
@pytest.mark.sample(2)
def test_the_same_release_is_free_whatever_is_done_with_it(session: dpsql.Session, again: str) -> None:
    first = session.query(BY_KEY, epsilon=1)
    assert not first.receipt.reused and spent(session) == 1
    # Asked for alone, a statistic would get more of ε: it is the same release at half of it.
    second = session.query(again, epsilon=1 if again in (BY_KEY,) else "0.5")
    assert second.receipt.reused and second.receipt.id == first.receipt.id
    assert second.cost.epsilon == second.cost.delta == second.receipt.cost.epsilon == 0
    assert spent(session) == 1


def test_having_on_keys_is_free_after_all_groups_and_not_the_other_way_round(session: dpsql.Session) -> None:
    some = session.query(f"{BY_KEY} HAVING k <> 'b'", epsilon=1)
    every = session.query(BY_KEY, epsilon=1)
    assert [row[0] for row in some.rows] == ["a", "c"] and not every.receipt.reused and spent(session) == 2
    again = session.query(
        "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k HAVING k = 'b' AND n > -1e9", epsilon=1
    )
    assert again.receipt.id == every.receipt.id and again.rows == [row for row in every.rows if row[0] == "b"]
    assert spent(session) == 2 and again.intervals()["n"] is not None
    assert session.query(f"{BY_KEY} HAVING k <> 'b'", epsilon=1).receipt.id == some.receipt.id


def test_a_repeat_shows_the_very_numbers_and_the_very_intervals(session: dpsql.Session) -> None:
    first = session.query(BY_KEY, epsilon=1)
    second = session.query(BY_KEY, epsilon=1)
    assert second.rows == first.rows and second.intervals() == first.intervals()
    assert second.columns == first.columns and second.to_arrow().schema == first.to_arrow().schema


def test_an_average_from_a_stored_sum_and_count_is_their_quotient(session: dpsql.Session) -> None:
    # COUNT(v), not COUNT(*): a double may be NaN, so the average is over the rows that have a number.
    first = {row[0]: row for row in session.query("SELECT k, COUNT(v), SUM(v) FROM t GROUP BY k", epsilon=8).rows}
    average = session.query("SELECT k, AVG(v) FROM t GROUP BY k", epsilon=4)
    assert average.receipt.reused
    for key, mean in average.rows:
        if key is not None:
            assert mean == pytest.approx(first[key][2] / first[key][1], rel=5e-2)
    widths = average.intervals()["avg(v)"]
    assert widths is not None and all(w is not None for w in widths[:3])


def test_an_average_comes_from_a_sum_and_a_count_of_two_queries(session: dpsql.Session) -> None:
    totals = dict(session.query("SELECT k, SUM(v) FROM t GROUP BY k", epsilon=8).rows)
    counts = dict(session.query("SELECT k, COUNT(v) FROM t GROUP BY k", epsilon=8).rows)
    average = session.query("SELECT k, AVG(v) AS mean FROM t GROUP BY k", epsilon=2)
    assert average.receipt.reused and spent(session) == 16
    for key, mean in average.rows:
        if key is not None:
            assert mean == pytest.approx(totals[key] / counts[key], rel=5e-2)
    widths = average.intervals()["mean"]
    assert widths is not None and all(w is not None and w[0] < w[1] for w in widths[:3])
    assert not session.query("SELECT k, AVG(v) FROM t GROUP BY k", epsilon=10).receipt.reused


def test_filters_of_two_queries_are_not_mixed_up(session: dpsql.Session) -> None:
    """A FILTER that all aggregates of a query have is a condition on its rows: these stand beside another one each."""
    many = session.query("SELECT COUNT(*) FILTER (WHERE w > 2), SUM(v) FROM t", epsilon=4).rows[0][0]
    few = session.query("SELECT COUNT(*) FILTER (WHERE w < 2), SUM(v) FROM t", epsilon=4).rows[0][0]
    assert many > 2 * few
    before = spent(session)
    both = "SELECT COUNT(*) FILTER (WHERE w < 2), COUNT(*) FILTER (WHERE w > 2) FROM t"
    assert session.query(both, epsilon="0.1").rows == [(few, many)] and spent(session) == before
    assert not session.query("SELECT COUNT(*) FILTER (WHERE w = 2) FROM t", epsilon="0.1").receipt.reused


def test_a_filter_that_all_aggregates_share_is_a_condition_on_rows(session: dpsql.Session) -> None:
    first = session.query("SELECT COUNT(*) FILTER (WHERE w > 2), SUM(v) FILTER (WHERE w > 2) FROM t", epsilon=4)
    again = session.query("SELECT COUNT(*), SUM(v) FROM t WHERE w > 2", epsilon=4)
    assert again.receipt.reused and again.rows == first.rows
    assert not session.query("SELECT COUNT(*), SUM(v) FROM t WHERE w > 1", epsilon="0.1").receipt.reused


def test_the_better_of_two_draws_is_taken(session: dpsql.Session) -> None:
    session.query("SELECT SUM(w), COUNT(*) FROM t", epsilon=1)
    (good,) = session.query("SELECT SUM(w) FROM t", epsilon=4).rows[0]
    (count,) = session.query("SELECT COUNT(*) FROM t", epsilon=4).rows[0]
    assert session.query("SELECT COUNT(*), SUM(w) FROM t", epsilon=4).rows == [(count, good)]


def test_a_smaller_epsilon_reuses_and_a_larger_one_pays(session: dpsql.Session) -> None:
    first = session.query(BY_KEY, epsilon="0.5")
    for epsilon in ("0.5", "0.25", "0.001", "0.000001"):
        assert session.query(BY_KEY, epsilon=epsilon).rows == first.rows
    assert spent(session) == Fraction(1, 2)
    better = session.query(BY_KEY, epsilon="0.6")
    assert not better.receipt.reused and spent(session) == Fraction(11, 10)
    assert session.query(BY_KEY, epsilon="0.5").receipt.reused


def test_counts_of_distinct_values_are_found_again_and_are_no_counts_of_rows(session: dpsql.Session) -> None:
    first = session.query("SELECT k, COUNT(DISTINCT v) AS n, COUNT(v) FROM t GROUP BY k", epsilon=1)
    again = session.query("SELECT k, APPROX_COUNT_DISTINCT(V) FROM t GROUP BY 1", epsilon="0.5")
    assert again.receipt.reused and again.rows == [row[:2] for row in first.rows]
    assert session.query("SELECT k, COUNT(v) FROM t GROUP BY k", epsilon="0.5").rows == [r[::2] for r in first.rows]
    for sql in ("COUNT(DISTINCT w)", "COUNT(DISTINCT v) FILTER (WHERE w > 1)", "COUNT(DISTINCT v::INTEGER)"):
        assert not session.query(f"SELECT k, {sql} FROM t GROUP BY k", epsilon="0.1").receipt.reused
    pooled = session.query("SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT w) FROM t GROUP BY k", epsilon="0.01")
    assert pooled.receipt.reused and [row[:2] for row in pooled.rows] == again.rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT w), COUNT(DISTINCT w) FILTER (WHERE w > 3) FROM t",
        "SELECT COUNT(DISTINCT w) FILTER (WHERE w IS NOT NULL), APPROX_COUNT_DISTINCT(w) FROM t",
        "SELECT COUNT(DISTINCT w), COUNT(DISTINCT (w)) FROM t",
        "SELECT SUM(w), SUM((w)) FROM t",
    ],
)
def test_what_stands_twice_in_a_query_is_found_again(session: dpsql.Session, sql: str) -> None:
    first = session.query(sql, epsilon=1)
    again = session.query(sql, epsilon=1)
    assert again.receipt.reused and again.rows == first.rows and spent(session) == 1


def test_the_same_value_written_in_two_ways_is_measured_once(session: dpsql.Session) -> None:
    (step,) = session.explain("SELECT COUNT(DISTINCT w), COUNT(DISTINCT (w)) FROM t", epsilon=1).steps
    assert len(step.measurements) == 1


def test_values_of_two_queries_are_not_mixed_up_though_they_look_alike(connect: Connect) -> None:
    rows = pa.table({"id": list(range(100)), "s": ['"a'] * 30 + ["a"] * 70})
    session = connect({"t": rows}, {"privacy": {"max_rows": 2}, "tables": {"t": {"unit": "id"}}}, epsilon=10**9)
    sums = [f"SUM(CASE WHEN s LIKE '{pattern}' THEN 1 ELSE 0 END)" for pattern in ('"%', "%")]
    for one in sums:
        session.query(f"SELECT {one} FROM t", epsilon=10**6)
    both = session.query(f"SELECT {', '.join(sums)} FROM t", epsilon=10**5)
    assert (both.receipt.reused, both.rows) == (True, [(30, 100)])


def test_fresh_pays_for_a_new_draw(session: dpsql.Session) -> None:
    first = session.query(BY_KEY, epsilon=1)
    second = session.query(BY_KEY, epsilon=1, fresh=True)
    assert second.rows != first.rows and not second.receipt.reused and spent(session) == 2
    assert session.query(BY_KEY, epsilon=1).rows == second.rows  # the latest


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT k, COUNT(*), SUM(v) FROM t WHERE w > 1 GROUP BY k", {}),
        ("SELECT k, COUNT(*), SUM(v + 1) FROM t GROUP BY k", {}),
        ("SELECT k, COUNT(*), SUM(LEAST(v, 20)) FROM t GROUP BY k", {}),
        ("SELECT k, COUNT(*), SUM(w) FROM t GROUP BY k", {}),
        ("SELECT k, COUNT(*) FILTER (WHERE w > 1), SUM(v) FROM t GROUP BY k", {}),
        ("SELECT s, COUNT(*), SUM(v) FROM t GROUP BY s", {}),
        ("SELECT COUNT(*), SUM(v) FROM t", {}),
        ("SELECT k, COUNT(*), SUM(v) FROM t WHERE k <> 'a' GROUP BY k", {}),
        ("SELECT k, COUNT(DISTINCT id), SUM(v) FROM t GROUP BY k", {}),
        (BY_KEY, {"max_rows": 1}),
        (BY_KEY, {"max_rows_per_group": 1}),
    ],
)
@pytest.mark.sample(3)
def test_another_release_is_paid_for(session: dpsql.Session, sql: str, options: dict[str, Any]) -> None:
    session.query(BY_KEY, epsilon=1)
    other = session.query(sql, epsilon="0.1", **options)
    assert not other.receipt.reused and spent(session) == Fraction(11, 10)


def test_a_stored_release_is_free_even_when_the_budget_is_gone(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1)
    first = session.query(BY_KEY, epsilon=1)
    assert session.query(BY_KEY, epsilon=1).rows == first.rows
    with pytest.raises(BudgetError):
        session.query(BY_KEY, epsilon=1, fresh=True)


@pytest.mark.long
def test_many_releases_of_the_same_rows_are_all_found_again(session: dpsql.Session) -> None:
    """A dashboard of many numbers over one table: its releases differ in nothing but what is summed."""
    asked = [f"SELECT SUM(CASE WHEN w = 3 THEN v ELSE {i} END) FROM t" for i in range(60)]
    first = [session.query(sql, epsilon=1).rows for sql in asked]
    paid = spent(session)
    assert [session.query(sql, epsilon=1).rows for sql in asked] == first and spent(session) == paid == 60


def test_private_keys_are_the_ones_that_left(session: dpsql.Session) -> None:
    sql = "SELECT s, COUNT(*) FROM t GROUP BY s"
    first = session.query(sql, epsilon=5, delta="1e-7")
    assert session.query(sql, epsilon=5, delta="1e-7").rows == first.rows
    assert session.query(sql, epsilon=5, delta="1e-8").receipt.reused
    assert not session.query(sql, epsilon=5, delta="2e-7").receipt.reused  # a lower threshold: more keys
    assert spent(session) == 10


def test_variances_are_reused_too(session: dpsql.Session) -> None:
    first = session.query("SELECT VAR_POP(v), AVG(v) FROM t", epsilon=4)
    again = session.query("SELECT VAR_POP(v) FROM t", epsilon=2)
    assert again.receipt.reused and again.rows[0][0] == first.rows[0][0]
    assert session.query("SELECT STDDEV_POP(v) FROM t", epsilon=2).rows[0][0] == pytest.approx(first.rows[0][0] ** 0.5)


def test_filters_are_found_by_what_they_say(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*) FILTER (WHERE w > 2) AS many, COUNT(*) FILTER (WHERE w < 2) AS few FROM t"
    first = session.query(sql, epsilon=2).rows[0]
    swapped = session.query("SELECT COUNT(*) FILTER (WHERE w < 2), COUNT(*) FILTER (WHERE w > 2) FROM t", epsilon=2)
    assert swapped.receipt.reused and swapped.rows[0] == (first[1], first[0])


def test_two_releases_in_one_query_are_reused_together_or_not_at_all(session: dpsql.Session) -> None:
    one, other = "SELECT COUNT(*) AS n FROM t WHERE w > 1", "SELECT COUNT(*) AS n FROM t WHERE w > 2"
    both = f"SELECT a.n, b.n FROM ({one}) AS a, ({other}) AS b"
    session.query(one, epsilon=1)
    assert not session.query(both, epsilon="0.2").receipt.reused
    assert session.query(both, epsilon="0.2").receipt.reused
    session.query(other, epsilon=1)
    assert session.query(both, epsilon=2).receipt.reused
    assert spent(session) == Fraction(22, 10)


def test_sums_past_64_bits_come_back_exactly(connect: Connect) -> None:
    big = pa.table({"x": pa.array([10**17] * 300, pa.int64())})
    columns = {"x": {"min": 0, "max": 10**18}}
    session = connect({"t": big}, {"tables": {"t": {"unit": "row", "columns": columns}}})
    first = session.query("SELECT SUM(x) FROM t", epsilon=1000)
    again = session.query("SELECT SUM(x) FROM t", epsilon=1000)
    assert again.receipt.reused and again.rows == first.rows
    assert session.replay(first.receipt.id).rows == first.rows


# ---------------------------------------------------------------- joins, subqueries, several steps

CODES = pa.table({"code": ["a", "b", "c"], "label": ["x", "y", "y"]})
WITH_CODES: dict[str, Any] = {**POLICY, "tables": {**POLICY["tables"], "codes": {"public": True}}}

ROWS = [
    ("SELECT label, COUNT(*) FROM t JOIN codes ON k = code GROUP BY label",
     "SELECT c.label AS l, COUNT(*) AS n FROM t AS x JOIN codes AS c ON x.k = c.code GROUP BY 1 ORDER BY n"),
    ("SELECT COUNT(*) FROM t WHERE k IN (SELECT code FROM codes WHERE label = 'y')", None),
    ("SELECT COUNT(*) FROM (SELECT id, MAX(w) AS m FROM t GROUP BY id) WHERE m > 3",
     "WITH z AS (SELECT id, MAX(w) AS top FROM t GROUP BY id) SELECT COUNT(*) AS n FROM z WHERE top > 3"),
    ("SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE b.w > 3", None),
    ("SELECT COUNT(*) FROM t WHERE v > (SELECT AVG(v) FROM t)", None),
    ("SELECT COUNT(*) FROM (SELECT id, w FROM t UNION ALL SELECT id, w FROM t) WHERE w > 2", None),
    ("SELECT COUNT(*) FROM (SELECT w, ROW_NUMBER() OVER (PARTITION BY id ORDER BY w) AS r FROM t) WHERE r = 1", None),
    ("SELECT SUM(LEAST((SELECT MIN(x.w) FROM t AS x WHERE x.id = t.id), 5)) FILTER (WHERE id IN "
     "(SELECT y.id FROM t AS y WHERE y.w > 1 GROUP BY y.id HAVING COUNT(*) = 1)) FROM t", None),
    ("SELECT k, COUNT(*) FROM t GROUP BY ROLLUP (k)", None),
    ("SELECT SUM(v, contribution_bounds_per_group => (0, 40)) FROM t",
     "SELECT SUM(v, contribution_bounds_per_group => (0, 40)) AS s FROM t"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "again"), ROWS)
@pytest.mark.sample(3)
def test_releases_of_any_rows_are_found_again(connect: Connect, sql: str, again: str | None) -> None:
    session = connect({"t": TABLE, "codes": CODES}, WITH_CODES, epsilon=100)
    first = session.query(sql, epsilon=1)
    assert not first.receipt.reused
    for text in (sql, again or sql):
        repeat = session.query(text, epsilon=1)
        assert repeat.receipt.reused and sorted(map(str, repeat.rows)) == sorted(map(str, first.rows))
    assert session.replay(first.receipt.id).rows == first.rows
    assert session.replay(first.receipt.id).intervals() == first.intervals()
    assert spent(session) == 1


def test_no_two_of_these_are_taken_for_one_another(connect: Connect) -> None:
    session = connect({"t": TABLE, "codes": CODES}, WITH_CODES, epsilon=100)
    texts = [sql for sql, _ in ROWS] + [
        "SELECT label, COUNT(*) FROM t LEFT JOIN codes ON k = code GROUP BY label",
        "SELECT COUNT(*) FROM t WHERE k NOT IN (SELECT code FROM codes WHERE label = 'y')",
        "SELECT COUNT(*) FROM t WHERE k IN (SELECT code FROM codes WHERE label = 'x')",
        "SELECT COUNT(*) FROM (SELECT id, MIN(w) AS m FROM t GROUP BY id) WHERE m > 3",
        "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.w > 3",
        "SELECT COUNT(*) FROM t WHERE v > (SELECT COUNT(*) FROM t)",
        "SELECT COUNT(*) FROM t WHERE v < (SELECT AVG(v) FROM t)",
        "SELECT SUM(v, contribution_bounds_per_group => (0, 30)) FROM t",
        "SELECT SUM(v, contribution_bounds_per_row => (0, 30)) FROM t",
        "SELECT SUM(v) FROM t",
    ]
    for sql in texts:
        assert not session.query(sql, epsilon="0.5").receipt.reused, sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t WHERE v > (SELECT AVG(v) FROM t)",
        "SELECT COUNT(*), (SELECT AVG(v) FROM t) FROM t WHERE v > (SELECT AVG(v) FROM t) OR w < (SELECT AVG(w) FROM t)",
    ],
)
def test_a_noisy_constant_is_the_very_one_whatever_left_since(connect: Connect, sql: str) -> None:
    """A later step's rows depend on an earlier step's noise: another draw of it is another release."""
    session = connect({"t": TABLE, "codes": CODES}, WITH_CODES, epsilon=100)
    first = session.query(sql, epsilon=1)
    for other in ("SELECT AVG(v) FROM t", "SELECT SUM(v), COUNT(v) FROM t", "SELECT AVG(w), AVG(v) FROM t"):
        session.query(other, epsilon=5)  # better draws of the constant, and newer
    paid = spent(session)
    again = session.query(sql, epsilon=1)
    assert again.receipt.reused and again.rows == first.rows and spent(session) == paid
    second = session.query(sql, epsilon=1, fresh=True)
    assert session.query(sql, epsilon=1).rows == second.rows  # a whole draw, never half of each


def test_a_public_table_that_changed_is_another_release(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    pq.write_table(CODES, tmp_path / "codes.parquet")
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "t.parquet"\nunit = "row"\n'
        '[privacy]\nlimits_share = 0\nmax_rows = 1\n[tables.codes]\nsource = "codes.parquet"\npublic = true\n'
    )
    sql = "SELECT COUNT(*) FROM t WHERE k IN (SELECT code FROM codes WHERE label = 'y')"
    with dpsql.connect(tmp_path / "policy.toml") as session:
        session.query(sql, epsilon=1)
        assert session.query(sql, epsilon=1).receipt.reused
    pq.write_table(CODES.slice(0, 2), tmp_path / "codes.parquet")
    with dpsql.connect(tmp_path / "policy.toml") as session:
        assert not session.query(sql, epsilon=1).receipt.reused


# ---------------------------------------------------------------- versions of the data


def accept(path: Path) -> None:
    """Let the data be a new version, and nothing else: what comes after it in a refresh isn't done."""
    policy = dpsql.Policy.load(path)
    sources = [one.source for one in kind_of(policy).locate(policy, {}) if not one.table.public]
    with open_ledger(policy) as ledger:
        ledger.accept(ledger.sights(sources))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "t.parquet"\nunit = "row"\n'
        "[tables.t.columns]\nv = { min = 0, max = 50 }\n"
    )
    return tmp_path


def test_stored_releases_belong_to_a_version_of_the_data(folder: Path) -> None:
    sql = "SELECT SUM(v) FROM t"
    with dpsql.connect(folder / "policy.toml") as session:
        first = session.query(sql, epsilon=1)
        assert session.query(sql, epsilon=1).receipt.reused
    pq.write_table(TABLE.slice(0, 200), folder / "t.parquet")
    with pytest.raises(LedgerError) as refused, dpsql.connect(folder / "policy.toml") as session:
        session.query(sql, epsilon=1)  # not even the stored release: which data it speaks of is the steward's to say
    assert refused.value.code == "data-changed"
    accept(folder / "policy.toml")
    with dpsql.connect(folder / "policy.toml") as session:
        second = session.query(sql, epsilon=1)
        assert not second.receipt.reused and session.budget.spent.epsilon == 2
        assert session.replay(first.receipt.id).rows == first.rows  # what left stays readable
    pq.write_table(TABLE, folder / "t.parquet")  # back to what it was: a new version, since that is no public fact
    accept(folder / "policy.toml")
    with dpsql.connect(folder / "policy.toml") as session:
        assert not session.query(sql, epsilon=1).receipt.reused


def test_an_open_session_never_reads_an_old_duckdb_file_under_a_new_version(tmp_path: Path) -> None:
    def write(name: str, rows: int) -> None:
        with duckdb.connect(str(tmp_path / name)) as db:
            db.execute(f"CREATE TABLE t AS SELECT i // {rows} AS uid, 1 AS v FROM range(100) r(i)")

    write("shop.duckdb", 50)
    write("new.duckdb", 1)
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[budget]\nepsilon = 10\ndelta = 0\n[tables.t]\nsource = "shop.duckdb"\ntable = "main.t"\nunit = "uid"\n'
        "rows_per_unit = 1\n"
    )
    from dpsql.steward.check import check

    with dpsql.connect(policy) as session:
        session.query("SELECT COUNT(*) FROM t", epsilon=1)
        (tmp_path / "new.duckdb").replace(tmp_path / "shop.duckdb")
        accept(policy)
        assert not check(policy, steward=True).broken
        with pytest.raises(dpsql.DataError) as refused:
            session.query("SELECT COUNT(*) FROM t WHERE v = 1", epsilon=1)
    assert refused.value.code == "data-changed"


def test_data_that_is_replaced_while_a_query_runs_is_not_released(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dpsql.connect(folder / "policy.toml") as session:
        measure = loop._measure

        def replaced(*given: Any) -> Any:
            pq.write_table(TABLE.slice(0, 100), folder / "t.parquet")
            accept(folder / "policy.toml")
            return measure(*given)

        monkeypatch.setattr(loop, "_measure", replaced)
        with pytest.raises(dpsql.DataError) as refused:
            session.query("SELECT SUM(v) FROM t", epsilon=1)
        assert refused.value.code == "data-changed"
        assert session.budget.spent.epsilon == 1


def test_an_open_session_reads_no_other_version_not_even_an_accepted_one(tmp_path: Path) -> None:
    """Its header, its schema and what was found readable are those of the version that it opened."""

    def write(header: str, row: str, more: str = "") -> None:
        (tmp_path / "t.csv").write_text(header + "".join(row.format(i=i) for i in range(100)) + more)

    write("uid,v\n", "{i},1\n")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[budget]\nepsilon = 10000\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 1\n"
        '[tables.t]\nsource = "t.csv"\nunit = "uid"\n'
        '[tables.t.columns]\nuid = { type = "INTEGER" }\nv = { type = "INTEGER", min = 0, max = 9 }\n'
    )
    changes = (("v,uid\n", "1,{i}\n", ""), ("uid,v\n", "{i},1\n", '1,"2\n3,4\n'))
    for asked in (False, True):
        for change in changes:
            write("uid,v\n", "{i},1\n")
            accept(policy)
            with dpsql.connect(policy) as session:
                if asked:
                    session.query("SELECT COUNT(*) FROM t", epsilon=100, fresh=True)
                write(*change)  # the unit in the other column's place; a quote that swallows other people's rows
                accept(policy)
                spent = session.budget.spent
                for _ in range(2):
                    with pytest.raises(dpsql.DataError) as refused:
                        session.query("SELECT SUM(v) FROM t", epsilon=100)
                    assert refused.value.code == "data-changed" and session.budget.spent == spent


def test_a_public_table_that_changes_after_a_query_was_analysed_bounds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join that was found to match one row must not match forty when it is run."""
    from dpsql.steward.check import check

    def public(times: int) -> None:
        pq.write_table(pa.table({"code": [c for c in range(5) for _ in range(times)]}), tmp_path / "p.parquet")

    public(1)
    pq.write_table(pa.table({"uid": list(range(100)), "k": [i % 5 for i in range(100)]}), tmp_path / "t.parquet")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[budget]\nepsilon = 10000\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 50\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "uid"\nrows_per_unit = 1\n'
        '[tables.p]\nsource = "p.parquet"\npublic = true\n'
    )
    assert not check(policy, steward=True).broken
    sql = "SELECT COUNT(*) FROM t JOIN p ON t.k = p.code"
    with dpsql.connect(policy) as session:
        assert session.explain(sql, epsilon=1).measured[0][0].l1 == 1
        quote = session._quoting.quote

        def racing(*arguments: Any, **options: Any) -> Any:
            try:
                return quote(*arguments, **options)
            finally:
                public(40)

        monkeypatch.setattr(session._quoting, "quote", racing)
        with pytest.raises(dpsql.DataError) as refused:
            session.query(sql, epsilon=1)
        assert refused.value.code == "data-changed"
        monkeypatch.setattr(session._quoting, "quote", quote)
        assert session.explain(sql, epsilon=1).measured[0][0].l1 > 1


def test_other_bounds_in_the_policy_are_another_release(folder: Path) -> None:
    sql = "SELECT SUM(v) FROM t"
    with dpsql.connect(folder / "policy.toml") as session:
        session.query(sql, epsilon=1)
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("max = 50", "max = 10"))
    with dpsql.connect(policy) as session:
        assert not session.query(sql, epsilon="0.5").receipt.reused


def test_a_stored_release_that_was_altered_is_refused(folder: Path) -> None:
    import sqlite3

    sql = "SELECT SUM(v) FROM t"
    with dpsql.connect(folder / "policy.toml") as session:
        id = session.query(sql, epsilon=1).receipt.id
    database = sqlite3.connect(folder / "policy.ledger.sqlite")
    database.execute("UPDATE stored SET facts = replace(facts, 'SUM', 'AVG') WHERE kind = 'release'")
    database.commit()
    database.close()
    with dpsql.connect(folder / "policy.toml") as session:
        uses: list[Callable[[], Any]] = [lambda: session.query(sql, epsilon=1), lambda: session.replay(id)]
        for use in uses:
            with pytest.raises(LedgerError) as refused:
                use()
            assert refused.value.code == "ledger-damaged"


# ---------------------------------------------------------------- replays


def test_a_lost_reply_is_fetched_again_for_nothing(session: dpsql.Session) -> None:
    first = session.query(BY_KEY + " ORDER BY n DESC LIMIT 2", epsilon=1)
    again = session.replay(first.receipt.id[:8])
    assert again.rows == first.rows and again.columns == first.columns
    assert again.intervals(0.9) == first.intervals(0.9)
    assert again.cost.epsilon == 0 and again.receipt.reused and spent(session) == 1


@pytest.mark.parametrize("id", ["", "zzzz", "0" * 32])
def test_an_unknown_release_is_refused(session: dpsql.Session, id: str) -> None:
    session.query(BY_KEY, epsilon=1)
    with pytest.raises(LedgerError) as refused:
        session.replay(id)
    assert refused.value.code == "receipt-unknown"


def test_a_query_that_failed_after_payment_has_no_answer_to_replay(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpsql.run as pipeline

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(pipeline, "release", fail)
    with pytest.raises(RuntimeError):
        session.query(BY_KEY, epsilon=1)
    monkeypatch.undo()
    (entry,) = session._engine.ledger.history()
    with pytest.raises(LedgerError) as refused:
        session.replay(entry.id)
    assert refused.value.code == "no-answer"
    assert not session.query(BY_KEY, epsilon=1).receipt.reused  # nothing was stored, and nothing refunded
    assert spent(session) == 2


def test_an_answer_too_large_to_keep_is_answered_and_said_to_be_gone(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.accounting import stored

    monkeypatch.setattr(stored, "LARGEST", 100)
    first = session.query(BY_KEY, epsilon=1)
    with pytest.raises(LedgerError, match="too large to keep"):
        session.replay(first.receipt.id)
    assert not session.query(BY_KEY, epsilon=1).receipt.reused and spent(session) == 2


def test_a_release_whose_answer_was_lost_is_said_to_be_free_and_is(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.accounting.ledger import Ledger

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Ledger, "answered", fail)  # the tables are stored by then
    with pytest.raises(RuntimeError):
        session.query(BY_KEY, epsilon=1)
    monkeypatch.undo()
    (entry,) = session._engine.ledger.history()
    with pytest.raises(LedgerError) as refused:
        session.replay(entry.id)
    assert refused.value.code == "no-answer" and "which is free" in (refused.value.hint or "")
    again = session.query(BY_KEY, epsilon=1)
    assert again.receipt.reused and again.receipt.id == entry.id and spent(session) == 1
