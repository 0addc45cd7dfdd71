"""SELECT a + 1 is SELECT a + 1 AS "a + 1": an output keeps the name that its text gives it, however it is rewritten."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.names import UNWRITTEN, aliased, output_name
from dpsql.sql.stars import is_star
from dpsql.sql.trees import copied, nodes_of


def name_outputs(tree: exp.Query) -> exp.Query:
    """The query with a name for each output, except for columns, which have one, and what stands for several of them.

    Nobody wrote these names, so no other clause can refer to them: the alias says so in its meta.
    """
    if not any(_unnamed(item) for select in nodes_of(tree, exp.Select) for item in select.expressions):
        return tree
    copy = copied(tree)
    for select in nodes_of(copy, exp.Select):  # outer ones first, while what they hold is as it was written
        select.set("expressions", [_named(item) if _unnamed(item) else item for item in select.expressions])
    return copy


def _unnamed(item: exp.Expr) -> bool:
    return not (isinstance(item, exp.Alias | exp.Column) or is_star(item) or item.find(exp.Columns))


def _named(item: exp.Expr) -> exp.Alias:
    output = aliased(item, output_name(item))
    output.meta[UNWRITTEN] = True
    return output
