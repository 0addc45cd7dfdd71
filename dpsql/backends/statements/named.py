"""Which columns of which tables a statement names."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.sql.trees import nodes_of

if TYPE_CHECKING:
    from dpsql.quote.model import ResponseStep, Step

NAMED = "columns named by statements of"
"""Under which name, followed by the engine's, a step keeps what its statements name, beside their texts."""

Trees = Callable[["Step | ResponseStep"], Iterable[exp.Query]]
"""The statements that an engine runs for a step, in every form that it may choose."""


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
