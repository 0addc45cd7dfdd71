"""What every function rule is made of: typed total expressions and trees."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range, Value
from dpsql.core.types import BOOLEAN, NULL, Type
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.primitives import PRIMITIVES
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import copied


@dataclass(frozen=True, slots=True)
class Scalar:
    """A row's value. `sql` never raises, whatever the row holds, and is a function of that row alone (TOTAL-1).

    `range` may rest on the policy's word. `extent` holds whatever the data are: it decides what can overflow and what
    can be zero. None stands for all that the type can hold. A value that may be NULL has an extent that says so from
    the start, and no condition takes that back: an engine may compute the value before it looks at the condition.
    `longest` is the most characters that a text can have whatever the data are; None for the row's own texts and for
    what is no longer than they are or than the bound of lengths.py.
    """

    sql: exp.Expr
    type: Type
    range: Range
    extent: Range | None = None
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.extent is not None and self.range.nullable and not self.extent.nullable:
            object.__setattr__(self, "extent", self.extent.with_nullable(True))

    @property
    def hard(self) -> Range:
        """The extent, by the type where nothing better is known; not NULL only if that holds whatever the data are."""
        if self.extent is not None:
            return self.extent
        limits = self.type.limits
        return Range(*limits) if limits else Range()

    @property
    def nullable(self) -> bool:
        return self.range.nullable

    @property
    def is_null(self) -> bool:
        return isinstance(self.sql, exp.Null)

    @property
    def text(self) -> str | None:
        """The text of a string literal; None for everything else."""
        return str(self.sql.this) if isinstance(self.sql, exp.Literal) and self.sql.is_string else None


class Scope(Protocol):
    """How a rule looks at its arguments, and at those of a branch whose condition holds."""

    def __call__(self, node: exp.Expr) -> Scalar: ...
    def where(self, condition: exp.Expr) -> Scope: ...


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the allow-list."""

    names: tuple[str, ...]
    kind: str
    about: str
    total: str
    range: str
    rule: Callable[[exp.Expr, Scope], Scalar]
    nodes: tuple[type[exp.Expr], ...] = ()
    check: Callable[[exp.Expr], object] | None = None  # what its literals must be over results, too: before payment

    @property
    def name(self) -> str:
        return self.names[0]


def mismatch(node: exp.Expr, what: str, hint: str) -> SQLError:
    return refuse(SQLError, what, node, code="type-mismatch", hint=hint)


def only(node: exp.Expr, *names: str) -> None:
    """Refuses a call that carries anything but these arguments: what no rule reads must not be dropped."""
    extra = [key for key, value in node.args.items() if key not in names and value not in (None, False, [])]
    if extra:
        raise refuse(
            SQLError,
            f"{shown(node)}: this form isn't supported",
            node,
            code="unsupported-expression",
            hint="use its plain form; `dpsql functions` lists it",
        )


def needs(node: exp.Expr, *names: str) -> None:
    """Refuses a call that lacks one of these arguments."""
    if any(node.args.get(name) is None for name in names):
        raise refuse(
            SQLError,
            f"{shown(node)} takes {len(names)} arguments",
            node,
            code="wrong-arguments",
            hint="give it all of them; `dpsql functions` says what they are",
        )


def arguments(node: exp.Expr, least: int, most: int | None = None) -> list[exp.Expr]:
    """The arguments of a call by position, counted."""
    found: list[exp.Expr] = list(node.expressions)
    if not isinstance(node, exp.Anonymous):
        found = [a for a in (node.args.get("this"), node.args.get("expression")) if a is not None] + found
    top = least if most is None else most
    if not least <= len(found) <= top:
        count = str(least) if least == top else f"{least} to {top}"
        raise refuse(
            SQLError,
            f"{shown(node)} takes {count} argument{'s' if top != 1 else ''}, not {len(found)}",
            node,
            code="wrong-arguments",
            hint=f"give it {count}; `dpsql functions` says what they are",
        )
    return found


def call(name: str, *args: exp.Expr) -> exp.Expr:
    """A call of a primitive."""
    assert name in PRIMITIVES, name
    return exp.Anonymous(this=name, expressions=[copied(a) for a in args])


_ATOMS = (
    exp.Column,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.Anonymous,
    exp.Cast,
    exp.Case,
    exp.Coalesce,
    exp.Nullif,
)


def wrap(node: exp.Expr) -> exp.Expr:
    return copied(node) if isinstance(node, _ATOMS) else exp.Paren(this=copied(node))


def binary(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """left <op> right, in parentheses where they are needed; a chain of + or * stays flat on its left."""
    flat = isinstance(left, kind) and kind in (exp.Add, exp.Mul)
    return kind(this=copied(left) if flat else wrap(left), expression=wrap(right))


def number(value: int) -> exp.Expr:
    size = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=size) if value < 0 else size


def nullif_zero(s: Scalar) -> exp.Expr:
    """The divisor with NULL for 0."""
    return exp.Nullif(this=copied(s.sql), expression=exp.Literal.number("0"))


def between_or_null(node: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """The value where it lies within constants, NULL elsewhere: the function around it sees its domain alone."""
    test = exp.Between(this=wrap(node), low=low, high=high)
    return exp.Case(ifs=[exp.If(this=test, true=copied(node))])


def cast_node(node: exp.Expr, to: Type, total: bool) -> exp.Expr:
    """CAST where it can't fail, TRY_CAST elsewhere."""
    kind = exp.Cast if total else exp.TryCast
    return kind(this=copied(node), to=data_type(to.sql))


def null() -> Scalar:
    return Scalar(exp.Null(), NULL, Range(nullable=True))


def boolean(sql: exp.Expr, *arguments: Scalar, nullable: bool | None = None) -> Scalar:
    """A test: 0 or 1; NULL where an argument is."""
    if nullable is None:
        nullable = any(a.nullable for a in arguments)
    return Scalar(sql, BOOLEAN, Range(Fraction(0), Fraction(1), nullable))


def fraction(value: Value | None) -> Fraction | None:
    return value if isinstance(value, Fraction) else None


def ends(r: Range) -> tuple[Fraction | None, Fraction | None]:
    """Both ends of a range of numbers."""
    return fraction(r.low), fraction(r.high)
