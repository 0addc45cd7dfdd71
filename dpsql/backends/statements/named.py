"""Which columns of which tables a statement names."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.trees import nodes_of


def columns_named(statement: exp.Query) -> dict[str, set[str]]:
    """For each name of a table, all names that stand for columns of it, in lower case; some may be other things'.

    A column with a qualifier is one of the tables that have this alias anywhere; one without may be anybody's.
    """
    called: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for table in nodes_of(statement, exp.Table):
        called.setdefault(table.alias_or_name, set()).add(table.name)
        found.setdefault(table.name, set())
    bare = {name for alias, names in called.items() if alias in names for name in [alias]}
    for column in nodes_of(statement, exp.Column):
        for name in called.get(column.table, ()) if column.table else bare:
            found[name].add(column.name.lower())
    return found
