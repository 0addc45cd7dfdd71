"""Conditions that no declared value meets: what the SQL and the policy alone say of why an answer may be empty.

A declared range or list is the steward's word, not a fact about rows: rows may be outside of it. So these are sentences
for people, and decide nothing. No private row is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dpsql.analyze.catalog import Catalog, column_of, narrowed_columns
from dpsql.analyze.variables import KeyColumn
from dpsql.core.errors import nearest
from dpsql.core.ranges import Range
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Project,
    PublicTable,
    Relation,
    Release,
    Scan,
    Union,
    Windows,
)
from dpsql.plan.rows import conjuncts
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import excluded
from dpsql.sql.trees import nodes_of

LONGEST = 90  # characters of a line
MOST = 3  # literals that are named
ALIKE = 0.4  # of 1: how much a value must be like a literal to be what was meant

Columns = Mapping[str, KeyColumn]


def unmet(release: Release, catalog: Catalog) -> list[str]:
    """Lines for people: conditions that are never true or that no declared value meets, and literals that no list has.

    Both sides of what is compared follow from the SQL and the policy.
    """
    reader = _Reader(catalog)
    columns = reader.columns(release.input)
    for call in release.aggregates:
        for written in (call.argument, call.second, call.where):
            reader.literals(written, columns)
    for key in release.keys:
        reader.literals(key, columns)
    return [*dict.fromkeys(reader.never), *list(dict.fromkeys(reader.unlisted))[:MOST]]


def never_true(condition: Expr) -> bool:
    """Is it FALSE or NULL whatever a row holds, by its constants alone?"""
    if any(True for _ in condition.find_all(exp.Column, exp.Query, exp.Anonymous)):
        return False
    try:
        found = simplify(condition.copy())
    except TypeError:  # a date beside a timestamp: nothing is known of it
        return False
    return isinstance(found, exp.Null) or (isinstance(found, exp.Boolean) and not found.this)


class _Reader:
    """Follows columns of the policy through a relation, as far as they keep their values."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.never: list[str] = []
        self.unlisted: list[str] = []

    def columns(self, node: Relation) -> Columns:
        """The columns of a relation that are columns of the policy's tables, as narrow as its conditions make them."""
        match node:
            case Scan():
                return self._scanned(node)
            case Filter():
                below = self.columns(node.input)
                self._condition(node.condition, below)
                return narrowed_columns(below, node.condition)
            case Project():
                return self._renamed(node.columns, self.columns(node.input))
            case Join():
                both = {**self.columns(node.left), **self._other(node.right)}
                self.literals(node.condition, both)
                return both
            case Mark():
                self.literals(node.condition, {**self.columns(node.input), **self._other(node.other)})
                return self.columns(node.input)
            case Union():
                first, *others = [self.columns(one) for one in node.inputs]
                return {n: c for n, c in first.items() if all(n in o and o[n].policy == c.policy for o in others)}
            case GroupUnits():
                below = self.columns(node.input)
                for _, written in node.columns:
                    self.literals(written, below)
                return self._renamed(node.keys, below)
            case Windows():
                return self.columns(node.input)
            case _:
                assert_never(node)

    def _scanned(self, scan: Scan) -> Columns:
        catalog = self._catalog
        table = catalog.policy.tables[scan.table]
        types = {name.lower(): text for name, text in catalog.schema[scan.table]}
        return {plan: column_of(catalog, table, name, types[name.lower()], plan) for plan, name in scan.columns}

    def _other(self, node: Relation | PublicTable | Given) -> Columns:
        return {} if isinstance(node, PublicTable | Given) else self.columns(node)

    def _renamed(self, named: tuple[tuple[str, Expr], ...], below: Columns) -> Columns:
        for _, written in named:
            self.literals(written, below)
        return {n: below[e.name] for n, e in named if isinstance(e, exp.Column) and e.name in below}

    def _condition(self, condition: Expr, columns: Columns) -> None:
        self.literals(condition, columns)
        for one in conjuncts(condition):
            if never_true(one):
                self.never.append(_cut(f"nothing but noise can come out: {_text(one)} is never true"))
        known = {name: c.scalar for name, c in columns.items()}
        for one, name, found in excluded(condition, known):
            self.never.append(_excluded(_text(one), columns[name], found))

    def literals(self, written: Expr | None, columns: Columns) -> None:
        """Note each literal that is compared with a column whose list of values doesn't have it."""
        if written is None or not columns:
            return
        for node in nodes_of(written, exp.EQ, exp.NEQ, exp.In):
            sides = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
            names = [s.name for s in sides if isinstance(s, exp.Column) and s.name in columns]
            for literal in (s for s in sides if isinstance(s, exp.Literal)):
                for name in names[:1]:
                    if (line := _unlisted(literal, columns[name])) is not None:
                        self.unlisted.append(line)


def _unlisted(literal: exp.Literal, column: KeyColumn) -> str | None:
    """What is said of a literal that isn't among a column's declared values; None where it is, or where none are."""
    if column.policy is None or not column.policy.values or _holds(column.policy.values, literal):
        return None
    line = f"{_short(as_sql(literal))} is not among the values that the policy lists for {_short(column.policy.name)}"
    near = _nearest(column.policy.values, literal)
    found = f"{line}: did you mean {near}?"
    return found if near is not None and len(found) <= LONGEST else _cut(line)


def _nearest(values: tuple[Any, ...], literal: exp.Literal) -> str | None:
    """The declared value that is most like a literal, as SQL writes it; None where none is."""
    if literal.is_string:
        near = nearest(literal.name, [str(v) for v in values], cutoff=ALIKE)
        return None if near is None else _short(f"'{near}'")
    return str(min(values, key=lambda v: abs(Decimal(str(v)) - Decimal(literal.name))))


def _holds(values: tuple[Any, ...], literal: exp.Literal) -> bool:
    if literal.is_string or any(isinstance(v, str) for v in values):
        return literal.name in {str(v) for v in values}
    try:
        return Decimal(literal.name) in {Decimal(str(v)) for v in values}
    except InvalidOperation:  # dates, which such a literal is never compared with
        return True


def _excluded(condition: str, column: KeyColumn, known: Range) -> str:
    """What is said of a condition that no value in a column's range meets."""
    before = next((why.removeprefix("WHERE ").replace('"', "") for why in known.why if why.startswith("WHERE ")), None)
    name = column.scalar.sql.name if column.policy is None else column.policy.name
    if before is not None:
        return _cut(f"nothing but noise can come out: no {_short(name)} meets {before} and {condition}")
    return _cut(f"{condition} should keep no row: the policy has {_short(name)} {_between(known)}")


def _between(known: Range) -> str:
    low, high = (None if end is None else _end(end) for end in (known.low, known.high))
    if low is None:
        return f"up to {high}"
    return f"from {low} on" if high is None else f"from {low} to {high}"


def _end(value: Any) -> str:
    return f"{float(value):,.6g}" if hasattr(value, "numerator") else str(value)


def _text(condition: Expr) -> str:
    return _short(as_sql(condition).replace('"', ""), 30)


def _short(text: str, room: int = 20) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _cut(line: str) -> str:
    return _short(line, LONGEST)
