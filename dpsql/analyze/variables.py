"""Variables: what the columns of a relation are made of, under names that mean one thing in the whole analysis.

A variable is a column of a private table, a column of public rows, or a result that no expression over one row gives
(an aggregate of a unit's rows, a mark). Each plan column is an expression over variables, and each condition that all
rows meet is a fact about them; subqueries rename and hide columns, and neither is lost by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Expr
from dpsql.plan.rows import plan_column
from dpsql.policy.model import Column
from dpsql.sql.dialect import data_type
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied, holds, nodes, rebuilt

Arrow = Any  # pyarrow has no types of its own

MAX_NODES = 500  # of an expression over variables: columns of columns of columns grow


@dataclass(frozen=True, slots=True)
class PublicColumn:
    """A column of public rows, and where these are read from."""

    source: Expr
    rows: Mapping[str, Arrow] = field(compare=False)  # what the source is, where it is no table
    column: str


@dataclass(frozen=True, slots=True)
class Origin:
    """One of the places that a variable's values come from: an expression over other variables, and facts there."""

    value: Expr
    facts: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A plan column that a key may use: what the policy says of it, and what is known of its values."""

    table: str
    policy: Column | None
    scalar: Scalar
    public: PublicColumn | None = None
    origins: tuple[Origin, ...] = ()  # its values are among theirs (or NULL, where its scalar may be)
    closed: frozenset[str] = frozenset()  # columns that may not be keys, and that it is made of
    made: Expr | None = None  # the expression over variables that it is
    width: Fraction | None = None  # of the widest column that it is made of (widths.py); None: there is none

    @property
    def never_keys(self) -> frozenset[str]:
        """The columns that the policy keeps out of keys and that this one tells about."""
        own = {self.policy.name} if self.policy is not None and self.policy.private else set()
        return self.closed | own


@dataclass(frozen=True, slots=True)
class Beside:
    """Public rows that private ones are joined to: the variables of one row of them."""

    columns: tuple[str, ...]
    missing: bool  # of a LEFT JOIN: there may be no row, and all of them are NULL


class Variables:
    """All variables of an analysis, by name. It only grows."""

    __slots__ = ("beside", "columns", "marks")

    def __init__(self) -> None:
        self.columns: dict[str, KeyColumn] = {}
        self.beside: dict[str, Beside] = {}  # by the variable
        self.marks: dict[str, tuple[Expr, ...]] = {}  # what holds (for some public row) where a mark is TRUE

    def copy(self) -> Variables:
        """The same variables, to which others are added than to these."""
        made = Variables()
        made.columns, made.beside, made.marks = dict(self.columns), dict(self.beside), dict(self.marks)
        return made

    def add(self, column: KeyColumn) -> KeyColumn:
        """The column as a new variable."""
        name = f"v{len(self.columns)}"
        made = plan_column(name)
        self.columns[name] = replace(column, scalar=replace(column.scalar, sql=made), made=made)
        return replace(column, made=made)

    def add_public(self, columns: Mapping[str, KeyColumn], *, missing: bool = False) -> dict[str, KeyColumn]:
        """The columns of public rows as new variables, which have the values of one row together."""
        listed = {n: nullable_column(c) for n, c in columns.items()} if missing else columns
        found = {name: self.add(column) for name, column in listed.items()}
        names = tuple(_name(c) for c in found.values() if c.public is not None)
        self.beside |= dict.fromkeys(names, Beside(names, missing))
        return found


def nullable_column(column: KeyColumn) -> KeyColumn:
    """A column of the side of a LEFT JOIN that may have no match."""
    known = column.scalar
    hard = None if known.extent is None else known.extent.with_nullable(True)
    return replace(column, scalar=replace(known, range=known.range.with_nullable(True), extent=hard))


def _name(column: KeyColumn) -> str:
    assert isinstance(column.made, exp.Column)
    return column.made.name


def over_variables(e: Expr, columns: Mapping[str, KeyColumn]) -> Expr | None:
    """An expression over plan columns as one over variables; None where it would be too large."""

    def rewrite(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in columns:
            column = columns[node.name]
            assert column.made is not None, node.name
            return _typed(copied(column.made), column.scalar)
        return rebuilt(node, rewrite)

    made = rewrite(e)
    return made if len(nodes(made)) <= MAX_NODES else None


def _typed(made: Expr, known: Scalar) -> Expr:
    """A constant in the type that its column has: a text literal by itself could be taken for a date."""
    if holds(made, exp.Column) or known.type.is_null:
        return made if isinstance(made, exp.Column) else exp.Paren(this=made)
    return made if isinstance(made, exp.Cast) else exp.cast(made, data_type(known.type.sql))


def facts_over_variables(conditions: Iterable[Expr], columns: Mapping[str, KeyColumn]) -> tuple[Expr, ...]:
    """Conditions as facts about variables; those that would be too large say nothing."""
    found = (over_variables(c, columns) for c in conditions)
    return tuple(f for f in found if f is not None)
