"""An aggregate is known by name in its own file alone: whoever needs to know something of it asks for that fact."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

import dpsql
from dpsql.aggregates import FORMS, RECIPES
from dpsql.aggregates.present import PRESENT
from dpsql.plan.build import build
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse

PACKAGE = Path(dpsql.__file__).parent
NAMES = {name for form in FORMS.values() for name in (form.name, *form.words)}
CLASSES = {node.__name__ for form in FORMS.values() for node in form.nodes}

STRINGS = {
    "analyze/per_unit.py": "another implementation: exact aggregates of one unit's own rows; all others are refused",
    "sql/nodes.py": "RR_COUNT and RR_FREQUENCY: estimates from rows that leave one by one, which are no aggregates",
    "plan/estimates.py": "the same",
    "backends/spark/aggregates.py": "how Spark writes what statements add up, and the range of that",
    "backends/spark/first.py": "the same, of FIRST and LAST",
    "sql/writer.py": "how sqlglot writes BOOL_AND and BOOL_OR, with casts that nobody wrote",
    "explain/schema.py": "words for people: what DESCRIBE says that may be asked of a column",
}
NODES = {
    "analyze/widths.py": "how wide what is added up within a unit may be: a count of its rows, or a sum of them",
    "answer/alone.py": "a scalar subquery is ANY_VALUE of its one number, after the rewrite",
    "plan/set_counts.py": "COUNT over EXCEPT and INTERSECT becomes a difference of counts",
    "quote/indexed.py": "a unit's number of rows, which a table of units has anyway",
    "analyze/relations.py": "which values of a unit's own rows a per-unit MIN, MAX or ANY_VALUE can show",
    "analyze/per_unit.py": STRINGS["analyze/per_unit.py"],
    "backends/spark/aggregates.py": STRINGS["backends/spark/aggregates.py"],
    "backends/spark/first.py": STRINGS["backends/spark/first.py"],
    "backends/spark/conform.py": "which row is first and last on a server, by each type's order",
    "quote/statements.py": "units that have a row outside of a range: BOOL_OR of their own rows, and how it is counted",
    "sql/names.py": "DuckDB has a name of its own for a column that is COUNT(*)",
    "sql/rewrite/ordered_set.py": "the grammar of WITHIN GROUP, before any aggregate is looked at",
    "sql/trees.py": "sqlglot writes BOOL_AND and BOOL_OR with casts that nobody wrote",
    "plan/winners.py": "ARG_MAX(key, n) over a release: a form of ORDER BY n DESC LIMIT 1, not an aggregate of rows",
}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """What the modules outside of aggregates/ are made of."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith("aggregates/"):
            found[place] = list(ast.walk(ast.parse(path.read_text())))
    assert len(found) > 100
    return found


def classes_looked_for(parts: list[ast.AST]) -> set[str]:
    """The names of sqlglot's classes that values are tested for."""
    found: set[str] = set()
    for node in parts:
        tests: list[ast.AST] = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            tests = [node.args[1]]
        elif isinstance(node, ast.MatchClass):
            tests = [node.cls]
        elif isinstance(node, ast.Compare):
            tests = list(node.comparators)
        found |= {a.attr for test in tests for a in ast.walk(test) if isinstance(a, ast.Attribute)}
    return found


def test_no_aggregate_is_known_by_name_outside_of_its_file() -> None:
    found = {
        place
        for place, parts in nodes().items()
        if any(isinstance(node, ast.Constant) and node.value in NAMES for node in parts)
    }
    assert found == set(STRINGS)


def test_no_aggregate_is_known_by_its_class_outside_of_its_file() -> None:
    found = {place for place, parts in nodes().items() if classes_looked_for(parts) & CLASSES}
    assert found == set(NODES)


def test_a_spelling_stands_for_one_aggregate() -> None:
    assert max(Counter(word for form in FORMS.values() for word in form.words).values()) == 1
    assert max(Counter(node for form in FORMS.values() for node in form.nodes).values()) == 1
    unwritten = [form for form in FORMS.values() if not form.nodes and not form.words]
    assert unwritten == [PRESENT]  # which groups are there: nobody can call it
    assert all(name == form.name == name.upper() for name, form in FORMS.items())


@pytest.mark.parametrize("name", sorted(RECIPES.keys() - {PRESENT.name}))
def test_a_recipe_says_what_it_is_for_the_list_of_functions(name: str) -> None:
    forms, _, about = RECIPES[name].description.partition(": ")
    assert forms.startswith(f"{name}(") and about


@pytest.mark.parametrize(
    ("call", "zero"),
    [("COUNT(*)", True), ("REGR_COUNT(n, n)", True), ("APPROX_COUNT_DISTINCT(n)", True), ("SUM(n)", False)],
)
def test_what_counts_is_0_where_the_group_that_is_looked_up_is_not_there(call: str, zero: bool) -> None:
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1, "delta": 0},
            "tables": {"t": {"unit": "id", "columns": {"n": {"min": 0, "max": 9}, "k": {"values": ["a"]}}}},
        }
    )
    table = pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.int64()), "k": pa.array([], "string")})
    sql = f"SELECT AVG(n - (SELECT {call} FROM t u WHERE u.k = t.k)) FROM t"
    with dpsql.connect(policy, sources={"t": table}, ledger=":memory:") as session:
        engine = session._engine
        plan = build(bind(parse(sql), engine.columns, engine.unlisted), engine.policy)
    argument = plan.releases[-1].aggregates[0].argument
    assert argument is not None and (argument.find(exp.Coalesce) is not None) == zero
