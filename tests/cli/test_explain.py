"""What explain says, and that it says it without looking at rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import dpsql as package

Run = Callable[..., Result]
QUERY = (
    "SELECT region, COUNT(*) AS n, AVG(income) AS mean, SUM(age) AS years, SUM(age) / COUNT(*) AS ratio, 1 AS one "
    "FROM people WHERE age < 65 GROUP BY region HAVING COUNT(income) > 3"
)


def explained(run: Run, sql: str, *arguments: str) -> str:
    done = run("explain", sql, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_explain_says_for_each_column_what_is_measured_and_how_far_off_it_is(dpsql: Run) -> None:
    shown = explained(dpsql, QUERY, "--epsilon", "0.5")
    for piece in (
        "price     ε = 0.5, δ = 0",
        "protects one unit with ε = 0.5 (1 for 2 units together, 2.5 for 5 units together)",
        "unit      each row of people: each row is its own unit",
        "mass 1, peak 1, in at most 1 group",
        "cells     4 = region (4: values of people.region)",
        "discrete Laplace",
        "region  key region: no noise",
        "n       COUNT(*), from ",
        "range [0, 1,000] (people.income: policy [0, 1000]); values outside are clipped",
        "range [0, 65] (people.age: policy [0, 120]; WHERE age < 65)",
        "where it has 1,000 rows",
        "the error shrinks as 1/n",
        "ratio   computed from COUNT(*), SUM(people.age)",
        "one     public, no noise",
        "not an output itself: COUNT(people.income)",
    ):
        assert piece in shown, f"{piece!r} is not in\n{shown}"


def test_ten_thousand_names_are_within_12_point_2_all_at_once(dpsql: Run, folder: Path) -> None:
    names = [f"name{i}" for i in range(10_000)]
    pq.write_table(pa.table({"name": names}), folder / "names.parquet")
    pq.write_table(pa.table({"name": ["name7"] * 3}), folder / "births.parquet")
    with (folder / "policy.toml").open("a") as policy:
        policy.write(
            '[tables.births]\nsource = "births.parquet"\nunit = "row"\n'
            '[tables.births.columns]\nname = { references = "names.name" }\n'
            '[tables.names]\nsource = "names.parquet"\npublic = true\n'
        )
    sql = "SELECT name, COUNT(*) FROM births WHERE name IS NOT NULL GROUP BY name"
    assert "within 12.2 for all 10,000 cells with 95% (exactly: 12)" in explained(dpsql, sql, "--epsilon", "1")


def test_the_shares_add_up_to_the_price_and_noise_follows_from_them(dpsql: Run) -> None:
    found = json.loads(explained(dpsql, QUERY, "--epsilon", "0.5", "--json"))
    measured = found["releases"][0]["measurements"]
    assert found["price"] == {"epsilon": 0.5, "delta": 0.0, "rho": None}
    assert math.isclose(sum(m["epsilon"] for m in measured), 0.5) and math.isclose(sum(m["share"] for m in measured), 1)
    for m in measured:
        assert math.isclose(m["scale"], m["l1"] / m["epsilon"]) and m["l2"] <= m["l1"]
    assert found["group_privacy"] == {"1": 0.5, "2": 1.0, "5": 2.5}
    assert [c["kind"] for c in found["columns"]] == [
        "key", "aggregate", "aggregate", "aggregate", "expression", "public",
    ]  # fmt: skip


def test_a_lone_counts_error_is_the_laplace_quantile(dpsql: Run) -> None:
    found = json.loads(explained(dpsql, "SELECT COUNT(*) FROM people", "--epsilon", "1", "--json"))
    (aggregate,) = found["releases"][0]["aggregates"]
    # Pr[|Z| > 3] = 2e⁻⁴/(1 + e⁻¹) = 2.7%, Pr[|Z| > 2] = 7.3%
    assert aggregate["error"]["one_cell"] == 3
    assert math.isclose(aggregate["error"]["all_cells_laplace"], math.log(20))


def test_the_error_that_explain_expects_is_the_width_that_the_answer_has(folder: Path) -> None:
    from dpsql.explain.text import as_dict

    sql = "SELECT region, COUNT(*) AS n, SUM(income) AS total FROM people GROUP BY region"
    with package.connect(folder / "policy.toml") as session:
        expected = as_dict(session.explain(sql))["releases"][0]["aggregates"]
        intervals = session.query(sql).intervals()
    for aggregate, name in zip(expected, ("n", "total"), strict=True):
        cells = intervals[name]
        assert cells is not None
        for cell in cells:
            assert cell is not None and math.isclose((cell[1] - cell[0]) / 2, aggregate["error"]["one_cell"])


def test_explain_follows_columns_through_subqueries_and_unions(dpsql: Run) -> None:
    sql = (
        "WITH t AS (SELECT region AS r, COUNT(*) AS n FROM people GROUP BY region) "
        "SELECT u.r, u.n, u.n * 2 AS twice, regions.label FROM t AS u JOIN regions ON regions.region = u.r"
    )
    found = json.loads(explained(dpsql, sql, "--json"))
    assert [c["kind"] for c in found["columns"]] == ["key", "aggregate", "expression", "public"]
    union = "SELECT COUNT(*) AS n FROM people UNION ALL SELECT SUM(age) FROM people"
    (column,) = json.loads(explained(dpsql, union, "--json"))["columns"]
    assert column["kind"] == "expression" and len(column["from"]) == 2


def test_verbose_shows_both_statements_and_plain_explain_neither(dpsql: Run) -> None:
    assert "SELECT" not in explained(dpsql, QUERY)
    shown = explained(dpsql, QUERY, "--verbose")
    assert "on the data (r0)" in shown and 'FROM "people"' in shown
    assert "on the noisy results" in shown and 'FROM "r0"' in shown


def test_explain_spends_nothing_and_says_when_the_budget_would_not_do(dpsql: Run) -> None:
    done = dpsql("explain", QUERY, "--epsilon", "7")
    assert done.stderr == "left ε = 100 · nothing was spent\n"
    assert "would be refused" in dpsql("explain", QUERY, "--epsilon", "101").stderr
    assert dpsql("budget").stdout.split()[-1] == "100"


def test_explain_is_the_same_whatever_the_rows_are(dpsql: Run, folder: Path) -> None:
    before = explained(dpsql, QUERY, "--verbose")
    table = pq.read_table(folder / "people.parquet")
    pq.write_table(table.slice(0, 1), folder / "people.parquet")
    assert dpsql("budget", "--accept-data-change", "--steward").exit_code == 0
    assert explained(dpsql, QUERY, "--verbose") == before


def test_a_quote_prints_what_explain_prints(dpsql: Run, folder: Path) -> None:
    with package.connect(folder / "policy.toml") as session:
        assert f"{session.explain(QUERY)}\n" == explained(dpsql, QUERY)


@pytest.mark.parametrize(
    "sql",
    [
        QUERY,
        "SELECT COUNT(*) FROM people",
        "SELECT region, SUM(age) FROM people GROUP BY GROUPING SETS ((region), ())",
        "WITH a AS (SELECT AVG(age) AS m FROM people) SELECT COUNT(*) AS n FROM people, a WHERE age > m",
        "SELECT 1 AS one",
    ],
)
def test_a_notebook_shows_a_quote_as_tables_that_say_what_its_text_says(folder: Path, sql: str) -> None:
    with package.connect(folder / "policy.toml") as session:
        quote = session.explain(sql, epsilon=0.5)
    shown = quote._repr_html_()
    root = ElementTree.fromstring(shown.replace("<br>", "<br/>"))
    words = " ".join(root.itertext()).replace("|", " ")
    for line in str(quote).splitlines():
        for word in line.split():
            assert word in ("measured", "output") or word.rstrip(":") in words, (
                f"{word!r} of {line!r} is not in\n{words}"
            )


def test_html_of_a_quote_obeys_no_name(folder: Path) -> None:
    with package.connect(folder / "policy.toml") as session:
        shown = session.explain('SELECT COUNT(*) AS "<script>" FROM people', epsilon=1)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown
