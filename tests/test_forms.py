"""Statements in several forms, for engines that differ in what is dear to them: all find the same integers.

They are compared on DuckDB, which runs every form, under the same secret: so what neighbours were tried on in one form
(tests/privacy) holds of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp
from support import cursor_of

import dpsql
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.run import execute
from dpsql.backends.statements.bounding import Form
from dpsql.backends.statements.once import matched_once, render_once
from dpsql.backends.statements.render import render
from dpsql.backends.statements.rows import CELLS
from dpsql.plan.nodes import Group

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("p", pa.int64()), ("x", pa.float64()), ("n", pa.int64())])
LIMITS: dict[str, dict[str, Any]] = {
    "rows": {"max_rows": 4},
    "rows per group": {"max_rows": 6, "max_rows_per_group": 2},
    "groups": {"max_rows": 5, "max_groups": 2},
}
QUERIES = {
    "rows": "SELECT COUNT(*), SUM(x) FROM t",
    "by public key": "SELECT k, COUNT(*), SUM(x), AVG(n) FROM t GROUP BY k",
    "filtered": "SELECT k, SUM(n) FILTER (WHERE x > 1), COUNT(n) FROM t WHERE n < 5 OR x > 0 GROUP BY k",
    "units": "SELECT k, COUNT(DISTINCT id) FILTER (WHERE x > 1), COUNT(*) FROM t GROUP BY k",
    "by private keys": "SELECT k, p, COUNT(*), SUM(x), COUNT(DISTINCT id) FROM t GROUP BY k, p",
    "values": "SELECT COUNT(DISTINCT n) FROM t",
    "values by public key": "SELECT k, COUNT(DISTINCT n) FROM t GROUP BY k",
    "texts by two keys": "SELECT k, x > 1 AS large, COUNT(DISTINCT p::VARCHAR) FROM t GROUP BY k, x > 1",
}
CAPPED = ("units", "by private keys")  # no limit but that of groups bounds them
CASES = [(query, limit) for query in QUERIES for limit in LIMITS if limit == "groups" or query not in CAPPED]


def rows(dice: Random) -> pa.Table:
    """Few units, of which some have many more rows, groups and values than any limit."""
    many = [1, 1, 2, 3, 5, 40]
    made = [
        (
            unit,
            dice.choice(["a", "b", "c", "other", None]),
            dice.randrange(6),
            dice.choice([None, float("nan"), float("inf"), -7.0, dice.uniform(-4, 9)]),
            dice.choice([None, dice.randrange(-3, 12), 2**62]),
        )
        for unit in range(12)
        for _ in range(dice.choice(many))
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*made, strict=True), SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    columns = {"k": {"values": ["a", "b", "c"]}, "x": {"min": -2, "max": 5}, "n": {"min": 0, "max": 9}}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e6, "delta": 1e-4},
            "privacy": {"limits_share": 0},
            "tables": {"t": {"unit": "id", "columns": columns}},
        }
    )
    with dpsql.connect(policy, sources={"t": rows(Random(0))}, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize(("query", "limit"), CASES)
def test_every_form_of_a_statement_finds_the_same_integers(query: str, limit: str, session: dpsql.Session) -> None:
    quote = session.explain(QUERIES[query], epsilon=1, delta="1e-6", **LIMITS[limit])
    dice = Random(f"{query} {limit}")
    for _ in range(4):
        cursor = cursor_of(session)
        cursor.register("t", rows(dice))
        for step in quote.steps:
            _compare(step, cursor)
        cursor.close()


def _text(query: exp.Select) -> str:
    """Without where rows are to be, of which DuckDB knows nothing."""
    for one in query.find_all(exp.Select):
        one.set("distribute", None)
    return text_of(query)


def _compare(step: Any, cursor: Any) -> None:
    exact = execute(step, cursor)
    if step.cells is not None:
        numbers = pa.array(range(step.cells.num_rows), pa.int64())
        cursor.register(CELLS, step.cells.append_column("cell", numbers))
    if step.tallies:
        plain, *others = (sorted(cursor.rows(_text(render(step.statement, form)))[1], key=repr) for form in Form)
        assert plain and all(other == plain for other in others)
        assert not isinstance(step.statement, Group) or any(any(row) for row in plain)
    for node in step.matchings:
        cells = step.cells.num_rows if node.keys else 1
        result = cursor.arrow(_text(render_once(node, Form.WINDOWS)))
        assert list(matched_once(result, cells)) == list(exact.tallies[node.tally])
