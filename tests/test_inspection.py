"""SHOW TABLES, DESCRIBE t and DESCRIBE SELECT …: what they say is so, and they cost nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsql
import dpsql.dbapi
from dpsql.analyze.domains import Domain
from dpsql.cli.main import cli
from dpsql.explain.schema import keys_text
from dpsql.sql.inspection import DescribeQuery, DescribeTable, ShowTables, inspection

DAY, MOMENT = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)
ROWS: dict[str, Any] = {
    "person": [1, 2, 3],
    "place": [{"city": "Bern", "at": {"lat": 1.0, "days": [DAY]}}] * 3,
    "tags": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "name": ["a", "b", "c"],
    "sex": ["f", "m", "f"],
    "code": ["k"] * 3,
    "secret": ["x"] * 3,
    "visits": [1, 2, 3],
    "minutes": [1, 2, 3],
    "open_end": [1, 2, 3],
    "wide": [1, 2, 3],
    "height": [1.5, 2.5, 3.5],
    "price": [Decimal("1.50")] * 3,
    "income": [1.0, 2.0, 3.0],
    "hidden": [1, 2, 3],
    "member": [True, False, None],
    "born": [DAY] * 3,
    "day": [DAY] * 3,
    "seen": [MOMENT] * 3,
    "at": [dt.time(1)] * 3,
    "photo": [b"x"] * 3,
}
COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "code": {"references": "codes.code"},
    "secret": {"private": True},
    "minutes": {"min": 0, "max": 60},
    "open_end": {"min": 0},
    "wide": {"min": 0, "max": 10**9},
    "price": {"min": 0, "max": 99.5},
    "income": {"bounds": "auto"},
    "hidden": {"private": True, "min": 0, "max": 5},
    "day": {"min": DAY, "max": dt.date(2024, 12, 31)},
    "seen": {"min": MOMENT, "max": dt.datetime(2024, 12, 31, 12)},
}


def open_(folder: Path, *, delta: float = 1e-6, unit: str = "person") -> dpsql.Session:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": delta},
            "privacy": {"max_rows": 2, "max_rows_per_group": 1, "max_groups": 2},
            "tables": {"visits": {"unit": unit, "max_rows": 3, "columns": COLUMNS}, "codes": {"public": True}},
        },
        folder=folder,
    )
    return dpsql.connect(policy, sources={"visits": pa.table(ROWS), "codes": pa.table({"code": ["k", "l"]})})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Session]:
    with open_(tmp_path_factory.mktemp("inspection")) as opened:
        yield opened


def described(session: dpsql.Session, sql: str = "DESCRIBE visits") -> dict[str, dict[str, Any]]:
    return {row["column_name"]: row for row in session.query(sql).to_arrow().to_pylist()}


# ---------------------------------------------------------------- which statements they are


@pytest.mark.parametrize("text", ["SHOW TABLES", "show all tables;", "DESCRIBE", "-- all\n/* of */ Describe ; "])
def test_tables_are_shown(text: str) -> None:
    assert inspection(text) == ShowTables()


@pytest.mark.parametrize(
    ("text", "name"),
    [("DESCRIBE visits", "visits"), ("desc TABLE Visits;", "Visits"), ('SHOW "odd name"', "odd name")],
)
def test_a_table_is_described(text: str, name: str) -> None:
    found = inspection(text)
    assert isinstance(found, DescribeTable) and found.table == name
    assert text[slice(*found.place)].strip('"') == name


def test_a_query_is_described_in_its_place() -> None:
    found = inspection("\nDESCRIBE SELECT 1")
    assert found == DescribeQuery("\n         SELECT 1")


@pytest.mark.parametrize("text", ["SELECT 1", "SUMMARIZE visits", "DESCRIBE visits; SELECT 1", "DESCRIBE 'open", ""])
def test_other_statements_are_left_to_the_parser(text: str) -> None:
    assert inspection(text) is None


@pytest.mark.parametrize("text", ["SHOW", "SHOW TABLES FROM x", "DESCRIBE main.visits", "DESCRIBE 1", "SHOW SELECT 1"])
def test_what_is_not_understood_is_refused_with_the_forms(session: dpsql.Session, text: str) -> None:
    with pytest.raises(dpsql.SQLError) as refused:
        session.query(text)
    assert refused.value.code == "inspection" and "DESCRIBE SELECT" in str(refused.value)


def test_an_unknown_table_is_refused_at_its_place(session: dpsql.Session) -> None:
    with pytest.raises(dpsql.SQLError) as refused:
        session.query("DESCRIBE visit")
    assert refused.value.code == "unknown-table" and "did you mean visits?" in str(refused.value)
    assert refused.value.span == dpsql.Span(1, 10, 5)


@pytest.mark.parametrize("text", ["DESCRIBE visits", "SHOW TABLES"])
def test_there_is_no_price_to_explain(session: dpsql.Session, text: str) -> None:
    for ask in (session.explain, session.prices):
        with pytest.raises(dpsql.SQLError) as refused:
            ask(text, epsilon=1)
        assert refused.value.code == "not-a-query" and "costs nothing" in str(refused.value)


# ---------------------------------------------------------------- what they say


def test_tables_say_who_is_protected(session: dpsql.Session) -> None:
    assert session.query("SHOW TABLES").rows == [
        ("visits", "private", "person", len(ROWS), "max_rows = 3"),
        ("codes", "public", "", 1, ""),
    ]


PROBES = {
    "key": "SELECT {x}, COUNT(*) FROM visits GROUP BY {x}",
    "SUM, AVG, …": "SELECT SUM({x}), AVG({x}), MEDIAN({x}), STDDEV({x}) FROM visits",
    "SUM(CLIP(x, a, b))": "SELECT SUM(CLIP({x}, 0, 5)) FROM visits",
    "MIN, MAX, …": "SELECT MIN({x}), MAX({x}), MEDIAN({x}) FROM visits",
    "COUNT_IF": "SELECT COUNT_IF({x}) FROM visits",
    "unit: COUNT DISTINCT": "SELECT COUNT(DISTINCT {x}) FROM visits",
    "COUNT": "SELECT COUNT({x}) FROM visits",
}


def accepted(session: dpsql.Session, sql: str) -> dpsql.Quote | None:
    try:
        return session.explain(sql, epsilon=1)
    except dpsql.Error:
        return None


@pytest.mark.parametrize("delta", [1e-6, 0])
def test_what_may_be_asked_can_be_asked_and_nothing_else(tmp_path: Path, delta: float) -> None:
    with open_(tmp_path, delta=delta) as session:
        for name, row in described(session).items():
            if name not in ROWS:
                continue
            said = row["ask"]
            works = {probe: accepted(session, sql.format(x=name)) for probe, sql in PROBES.items()}
            for probe in ("SUM, AVG, …", "COUNT_IF"):
                assert (probe in said) == (works[probe] is not None), (name, probe, said)
            for probe in ("SUM(CLIP(x, a, b))", "MIN, MAX, …", "unit: COUNT DISTINCT", "COUNT"):
                assert probe not in said or works[probe] is not None, (name, probe, said)
            grouped = works["key"]
            assert (said.startswith("key")) == (grouped is not None), (name, said)
            if grouped is not None:
                assert ("(selected)" in said) == (grouped.steps[0].checked.listed is None), (name, said)


def test_values_are_the_policys_ranges_and_keys(session: dpsql.Session) -> None:
    found = {name: row["values"] for name, row in described(session).items() if row["values"]}
    assert found == {
        "sex": "f, m",
        "code": "codes.code (2)",
        "minutes": "0 to 60",
        "open_end": "from 0",
        "wide": "0 to 1000000000",
        "price": "0 to 99.5",
        "income": "automatic range",
        "hidden": "0 to 5",
        "member": "FALSE, TRUE",
        "day": "2024-01-01 to 2024-12-31",
        "seen": "2024-01-01 to 2024-12-31 12:00:00",
    }


def test_parts_of_nested_columns_are_listed_below_them(session: dpsql.Session) -> None:
    rows = [row[:2] for row in session.query("DESCRIBE visits").rows]
    assert rows[:10] == [
        ("person", "BIGINT"),
        ("place", "STRUCT(…)"),
        ("place.city", "VARCHAR"),
        ("place.at", "STRUCT(…)"),
        ("place.at.lat", "DOUBLE"),
        ("place.at.days", "DATE[]"),
        ("place.at.days[]", "DATE"),
        ("tags", "MAP(…)"),
        ("tags[key]", "VARCHAR"),
        ("tags[value]", "BIGINT"),
    ]


def test_of_nested_parts_nothing_can_be_asked_as_it_says(session: dpsql.Session) -> None:
    assert described(session)["place.city"]["ask"] == "nothing: nested"
    assert accepted(session, "SELECT COUNT(place.city) FROM visits") is None


def test_long_lists_of_keys_are_cut_and_counted() -> None:
    values = pa.array(["Amer-Indian-Eskimo", "Black", "White", None])
    assert keys_text(Domain(values, "values of people.race")) == "Amer-Indian-Es… (3)"


def written(folder: Path, source: str, column: str) -> Path:
    """A policy of one table t, each row its own unit, with one column x."""
    path = folder / "policy.toml"
    table = f'[tables.t]\nsource = "{source}"\nunit = "row"\ncolumns.x = {column}\n'
    path.write_text(f"[budget]\nepsilon = 1\n{table}")
    return path


def test_a_verified_promise_shows_that_null_is_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "t.parquet")
    policy = written(tmp_path, "t.parquet", "{ nullable = false }")
    with dpsql.connect(policy) as before:
        assert described(before, "DESCRIBE t")["x"]["null"] == "YES"
    assert CliRunner().invoke(cli, ["check", "--steward", "--policy", str(policy)]).exit_code == 0
    with dpsql.connect(policy) as after:
        assert described(after, "DESCRIBE t")["x"]["null"] == "NO"


def test_a_csv_column_that_the_policy_does_not_list_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    with dpsql.connect(written(tmp_path, "t.csv", '{ type = "INTEGER" }')) as session:
        assert list(described(session, "DESCRIBE t")) == ["x"]


def test_a_querys_columns_say_where_they_come_from(session: dpsql.Session) -> None:
    sql = """DESCRIBE SELECT sex, minutes // 10 AS tens, COUNT(*) AS n, AVG(price) AS price, SUM(price) / COUNT(*) AS r
             FROM visits GROUP BY ALL"""
    assert session.query(sql).rows == [
        ("sex", "VARCHAR", "key", "sex", "3: values of visits.sex"),
        ("tens", "BIGINT", "key", "minutes // 10", "8: integers 0 to 60"),
        ("n", "BIGINT", "noisy", "COUNT(*)", ""),
        ("price", "DOUBLE", "noisy", "AVG(visits.price)", "of 0 to 99.5"),
        ("r", "DOUBLE", "computed", "COUNT(*), SUM(visits.price)", ""),
    ]


def test_a_querys_columns_are_those_of_its_answer(session: dpsql.Session) -> None:
    sql = "SELECT sex, COUNT(*) AS n, AVG(minutes) FROM visits GROUP BY sex"
    answer = session.query(sql, epsilon=0.1)
    assert list(described(session, f"DESCRIBE {sql}")) == answer.columns


def test_a_query_that_is_refused_is_refused_where_it_stands(session: dpsql.Session) -> None:
    with pytest.raises(dpsql.PrivacyError) as refused:
        session.query("DESCRIBE SELECT SUM(height) FROM visits")
    assert refused.value.span == dpsql.Span(1, 21, 6)


# ---------------------------------------------------------------- what they cost


def test_they_cost_nothing_and_are_in_no_ledger(tmp_path: Path) -> None:
    with open_(tmp_path) as session:
        for sql in ("SHOW TABLES", "DESCRIBE visits", "DESCRIBE SELECT COUNT(*) FROM visits"):
            answer = session.query(sql)
            assert answer.cost.epsilon == 0 and answer.cost.delta == 0 and answer.receipt.id == ""
            assert "±" not in str(answer)
        assert session.charged is None and session.budget.spent.epsilon == 0
        assert session._engine.ledger.history() == []


def test_they_need_no_epsilon_where_only_what_is_free_is_answered(session: dpsql.Session) -> None:
    found = session.free("DESCRIBE codes")
    assert found is not None and found.rows == session.query("DESCRIBE codes").rows


def test_they_are_answered_through_a_cursor(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "t.parquet")
    with dpsql.dbapi.connect(str(written(tmp_path, "t.parquet", "{ min = 0, max = 5 }"))) as connection:
        cursor = connection.cursor()
        assert cursor.execute("DESCRIBE t").fetchall() == [("x", "BIGINT", "YES", "0 to 5", "key, SUM, AVG, …")]
        assert [row[0] for row in cursor.execute("DESCRIBE SELECT x, COUNT(*) AS n FROM t GROUP BY x")] == ["x", "n"]


def test_a_query_with_parameters_is_described(session: dpsql.Session) -> None:
    sql = "DESCRIBE SELECT COUNT(*) AS n FROM visits WHERE sex = $sex"
    assert session.query(sql, params={"sex": "f"}).rows == [("n", "BIGINT", "noisy", "COUNT(*)", "")]


def test_their_receipt_says_that_they_cost_nothing(session: dpsql.Session) -> None:
    said = session.query("DESCRIBE codes").about
    assert said["sql"] == "DESCRIBE codes" and said["cost"]["epsilon"] == "0" and said["releases"] == []


def test_in_a_batch_they_stand_in_their_place_for_nothing(tmp_path: Path) -> None:
    with open_(tmp_path) as session:
        answers = session.batch("SHOW TABLES; SELECT COUNT(*) AS n FROM visits; DESCRIBE codes", epsilon=1)
        assert [a.columns[0] for a in answers] == ["name", "n", "column_name"]
        assert session.budget.spent.epsilon == 1
        assert len(session.batch("SHOW TABLES; DESCRIBE codes")) == 2


def test_a_batch_with_an_unknown_table_is_refused_before_payment(tmp_path: Path) -> None:
    with open_(tmp_path) as session:
        with pytest.raises(dpsql.SQLError, match="no table nowhere"):
            session.batch("SELECT COUNT(*) FROM visits; DESCRIBE nowhere", epsilon=1)
        assert session.budget.spent.epsilon == 0
