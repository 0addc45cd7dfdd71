"""Passes: what can be written in two ways is written in one of them before names are resolved, from tree to tree.

PASSES is their order; each is a function in a file of its name, and tests/golden/rewrite has a file of cases for each.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.sql.rewrite.any_value import any_value
from dpsql.sql.rewrite.count_distinct import count_distinct
from dpsql.sql.rewrite.fetch_first import fetch_first
from dpsql.sql.rewrite.flatten_joins import flatten_joins
from dpsql.sql.rewrite.interval_compare import interval_compare
from dpsql.sql.rewrite.membership import membership
from dpsql.sql.rewrite.name_outputs import name_outputs
from dpsql.sql.rewrite.ordered_set import ordered_set
from dpsql.sql.rewrite.parenthesised_query import parenthesised_query
from dpsql.sql.rewrite.rollup_and_cube import rollup_and_cube
from dpsql.sql.rewrite.values_query import values_query

Pass = Callable[[exp.Query], exp.Query]

PASSES: tuple[Pass, ...] = (
    ordered_set,
    count_distinct,
    name_outputs,  # before any other expression changes: an output is called what was written
    membership,
    interval_compare,
    any_value,
    values_query,  # after membership, which reads x IN (VALUES …)
    flatten_joins,
    parenthesised_query,  # after joins are flat: parentheses that are left hold queries
    fetch_first,
    rollup_and_cube,
)


def rewrite(tree: exp.Query) -> exp.Query:
    """The query after every pass. Nodes that come from its text still know where they stand in it."""
    for one in PASSES:
        tree = one(tree)
    return tree
