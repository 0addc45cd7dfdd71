"""Names: which column a name means in a scope, and what outputs are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.core.errors import SQLError, nearest
from dpsql.sql.as_sql import as_sql
from dpsql.sql.refuse import refuse

UNWRITTEN = "unwritten"  # in the meta of an output's alias: nobody wrote it, so nothing refers to it
Unlisted = frozenset[str]  # tables of which only those columns exist that the policy lists, lower case


@dataclass(frozen=True, slots=True)
class FromItem:
    """A source of a FROM, as names are looked up in it."""

    name: str  # as the query spells it
    alias: str  # unique in the whole query
    columns: tuple[str, ...]


@dataclass(slots=True)
class Scope:
    """The sources whose columns a name can mean, and the scope around them."""

    sources: list[FromItem]
    outer: Scope | None
    merged: dict[str, str] = field(default_factory=dict)  # USING: lower name -> alias of the side that is kept


def lookup(
    scope: Scope, name: str, table: str | None, node: exp.Expr, unlisted: Unlisted, *, missing_ok: bool = False
) -> exp.Column | None:
    """The column that a name means: in this scope, else in the ones around it; None only where that is allowed."""
    level: Scope | None = scope
    while level is not None:
        hits = [
            (s, c)
            for s in level.sources
            if table is None or s.name.lower() == table.lower()
            for c in s.columns
            if c.lower() == name.lower()
        ]
        if len(hits) > 1 and name.lower() in level.merged and table is None:
            hits = [h for h in hits if h[0].alias == level.merged[name.lower()]]
        if len(hits) > 1:
            raise refuse(
                SQLError,
                f"{name} is ambiguous: it is in {' and '.join(s.name for s, _ in hits)}",
                node,
                code="ambiguous-column",
                hint=f"write {hits[0][0].name}.{name}",
            )
        if hits:
            source, name_there = hits[0]
            found = column(source.alias, name_there)
            found.this.meta.update(_meta(node))
            return found
        level = level.outer
    if missing_ok:
        return None
    known = [c for s in scope.sources for c in s.columns]
    tables = [s.name for s in scope.sources]
    if table is not None and table.lower() not in [t.lower() for t in tables]:
        near = nearest(table, tables, cutoff=0.7)
        hint = f"did you mean {near}?" if near else f"sources here: {', '.join(tables) or 'none'}"
        raise refuse(SQLError, f"there is no source {table} here", node, code="unknown-column", hint=hint)
    near = nearest(name, known, cutoff=0.7)
    hint = f"did you mean {near}?" if near else f"columns here: {', '.join(known[:20]) or 'none'}"
    for owner in (t for t in tables if t.lower() in unlisted):
        # Whether the file has it, nobody is told: its first line may be somebody's row (attack 49).
        listed = f'[tables.{owner}.columns] {name} = {{ type = "…" }}'
        hint += f"\na column of {owner}'s file has to be listed in the policy: {listed}"
    raise refuse(SQLError, f"there is no column {name}", node, code="unknown-column", hint=hint)


def _meta(node: exp.Expr) -> dict[str, object]:
    identifier = node.this if isinstance(node, exp.Column) else node
    return dict(identifier.meta) if isinstance(identifier, exp.Expr) else {}


def column(alias: str, name: str) -> exp.Column:
    """A bound column."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def aliased(value: exp.Expr, name: str) -> exp.Alias:
    """An output with its name."""
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def output_name(item: exp.Expr) -> str:
    """What DuckDB would call an output."""
    if isinstance(item, exp.Alias | exp.Column):
        return item.alias_or_name
    if isinstance(item, exp.Count) and (item.this is None or isinstance(item.this, exp.Star)):
        return "count_star()"
    # What DuckDB lacks is refused by whoever looks at the item; sqlglot would write about it to stderr.
    return as_sql(item).lower()


def unique_names(names: Iterable[str]) -> list[str]:
    """The names of outputs, with a number after each that another one has already, whatever its case."""
    seen: set[str] = set()
    unique: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate.lower() in seen:
            candidate, n = f"{name}_{n}", n + 1
        seen.add(candidate.lower())
        unique.append(candidate)
    return unique
