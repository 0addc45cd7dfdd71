"""Google's clause and contribution bounds: what is lifted out of a query, and what of it is left."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sqlglot import exp

import dpsql
from dpsql.sql.google import BOUNDS, UNIT_COLUMN
from dpsql.sql.parse import parse

CLAUSE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT {} COUNT(*) FROM t",
        "SELECT {} DISTINCT a, b FROM t",
        "SELECT {}\n  -- a comment, with OPTIONS(epsilon = 7)\n  a FROM t",
        "WITH c AS (SELECT {} COUNT(*) AS n FROM t) SELECT n FROM c",
        "SELECT a FROM (SELECT {} COUNT(*) AS a FROM t) UNION ALL (SELECT {} b FROM u)",
        "SELECT 'SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(x = 1)', (SELECT {} MAX(a) FROM t)",
    ],
)
def test_a_query_with_the_clause_is_the_query_without_it(sql: str) -> None:
    tree = parse(sql.format(*[CLAUSE] * 2))
    assert tree.root == parse(sql.format("", "")).root
    assert {name: option.value for name, option in tree.options.items()} == {"epsilon": "1", "max_groups": 2}


def test_options_are_case_insensitive_and_may_span_lines() -> None:
    sql = 'select with Differential_Privacy options (\n EPSILON = 1e-3,\n Max_Rows = 1_000, mechanism = "Laplace") 1'
    options = parse(sql).options
    assert [options[n].value for n in ("epsilon", "max_rows", "mechanism")] == ["1e-3", 1000, "laplace"]
    start, end = options["max_rows"].place
    assert sql[start:end] == "1_000"


def test_each_select_keeps_its_own_unit_column() -> None:
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = {})"
    sql = f"SELECT {clause.format('t.uid')} a FROM (SELECT {clause.format('id')} b FROM t)"
    selects = list(parse(sql).root.find_all(exp.Select))
    assert [s.meta[UNIT_COLUMN].sql() for s in selects] == ["t.uid", "id"]


@pytest.mark.parametrize("call", ["SUM", "AVG", "VAR_POP", "VARIANCE", "STDDEV", "stddev_samp", "mean", '"sum"'])
def test_bounds_stay_with_the_call_that_they_were_written_for(call: str) -> None:
    sql = f"SELECT ABS(x), {call}(f(x, (1, 2)), contribution_bounds_per_row => (-.5, 1e2)) FILTER (WHERE y), SUM(z)"
    root = parse(sql).root
    assert root == parse(f"SELECT ABS(x), {call}(f(x, (1, 2))) FILTER (WHERE y), SUM(z)").root
    (found,) = [node.meta[BOUNDS] for node in root.walk() if BOUNDS in node.meta]
    assert (found.per, found.low, found.high) == ("row", Fraction(-1, 2), 100)
    assert sql[slice(*found.place)] == "contribution_bounds_per_row => (-.5, 1e2)"


@pytest.mark.parametrize("cut", range(1, 120))
def test_a_query_that_ends_too_early_is_refused_and_never_breaks(cut: int) -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = -1, privacy_unit_column = a.b) "
        "SUM(x, contribution_bounds_per_row => (0, 1)) FROM t"
    )
    try:
        parse(sql[:-cut])
    except dpsql.SQLError as error:
        assert error.hint
