"""Which columns of which tables a statement reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from dpsql.quote.model import ResponseStep, Step

NAMED = "columns named by statements of"
"""Under which name, followed by the engine's, a step keeps what its statements name, beside their texts."""

Trees = Callable[["Step | ResponseStep"], Iterable[exp.Query]]
"""The statements that an engine runs for a step, in every form that it may choose."""

Aliases = Mapping[str, str | None]
"""What the FROM of one SELECT calls its sources: the name of the table; None for a subquery."""


def columns_named_by(
    steps: Sequence[Step | ResponseStep], engine: str, trees: Trees, known: Mapping[str, AbstractSet[str]]
) -> dict[str, frozenset[str]]:
    """For each table that the steps' statements on this engine read, the columns of it that they name.

    known: the columns of each table, in lower case; of other tables nothing is given.
    """
    found: dict[str, set[str]] = {}
    for step in steps:
        for table, names in _named_in(step, engine, trees).items():
            if table in known:
                found.setdefault(table, set()).update(known[table] & set(names))
    return {table: frozenset(names) for table, names in found.items()}


def _named_in(step: Step | ResponseStep, engine: str, trees: Trees) -> Mapping[str, Collection[str]]:
    """The names in a step's statements, by tables; of a step that may run often they are looked for once."""
    from dpsql.quote.model import ResponseStep

    texts = {} if isinstance(step, ResponseStep) else step.texts
    kept = f"{NAMED} {engine}"
    if kept not in texts:
        found: dict[str, set[str]] = {}
        for tree in trees(step):
            for table, names in columns_named(tree).items():
                found.setdefault(table, set()).update(names)
        texts[kept] = json.dumps({table: sorted(names) for table, names in found.items()})
    named: Mapping[str, Collection[str]] = json.loads(texts[kept])
    return named


def columns_named(statement: exp.Query) -> dict[str, set[str]]:
    """For each name of a table, its columns that the statement reads, in lower case, and maybe some that it doesn't.

    A column with a qualifier is of the source that the nearest SELECT around it calls so, as SQL resolves it; where
    none does, it may be of any table. One without a qualifier may be of any table of a SELECT around it. So none is
    missed: a query is charged, and its columns are there (Theorem SCAN-1, Parts of a source).
    """
    found: dict[str, set[str]] = {}
    anywhere: list[str] = []
    waiting: list[tuple[exp.Expr, tuple[Aliases, ...]]] = [(statement, ())]
    while waiting:  # parents first, with the SELECTs around each node, the nearest first
        node, around = waiting.pop()
        if isinstance(node, exp.Select):
            around = (_aliases(node), *around)
        elif isinstance(node, exp.Table):
            found.setdefault(node.name, set())
        elif isinstance(node, exp.Column):
            name, tables = node.name.lower(), _tables_of(node, around)
            if tables is None:
                anywhere.append(name)
            else:
                for table in tables:
                    found.setdefault(table, set()).add(name)
        waiting += [(child, around) for child in node.iter_expressions()]
    for names in found.values():
        names.update(anywhere)
    return found


def _aliases(select: exp.Select) -> Aliases:
    start = select.args.get("from_")
    sources = [*([] if start is None else [start.this]), *(join.this for join in select.args.get("joins") or ())]
    return {source.alias_or_name: source.name if isinstance(source, exp.Table) else None for source in sources}


def _tables_of(column: exp.Column, around: Iterable[Aliases]) -> list[str] | None:
    """The tables that a column may be of; None where it may be of any."""
    if not column.table:
        return [table for aliases in around for table in aliases.values() if table is not None]
    for aliases in around:
        if column.table in aliases:
            table = aliases[column.table]
            return [] if table is None else [table]
    return None
