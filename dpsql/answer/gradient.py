"""How an expression over the aggregates of one cell moves with each of them: derivatives, as SQL for the same row.

Theorem INTERVAL-1: noise of a column to first order, which is all that propagation looks at.
What is no arithmetic (a window, a subquery, GREATEST, an integer division) has none here, and is simulated instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import data_type
from dpsql.sql.nodes import holds_aggregate

MAX_SIZE = 2_000  # nodes of a derivative: the product of many factors has a long one

Gradient = dict[int, exp.Expr]
"""The derivative with respect to each aggregate, a DOUBLE; 0 where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """How an expression moves with the aggregates of its row's cell.

    doubts: of everything that is divided by, how it moves, relative to itself. Where that is much, first order is
    not enough.
    """

    slopes: Gradient
    doubts: tuple[Gradient, ...] = ()
    unit: float = 0.0  # to which it is rounded in the end


STILL = Moves({})
Look = Callable[[exp.Column], Moves | None]
"""How a column moves; None where that isn't known."""


def moves(node: exp.Expr, look: Look) -> Moves | None:
    """How an expression moves; None where it isn't arithmetic over the aggregates of one row."""
    match node:
        case exp.Paren():
            return moves(node.this, look)
        case exp.Column():
            return look(node)
        case exp.Neg():
            return _sum([(node.this, -1)], look)
        case exp.Add():
            return _sum([(node.this, 1), (node.expression, 1)], look)
        case exp.Sub():
            return _sum([(node.this, 1), (node.expression, -1)], look)
        case exp.Mul():
            return _product(node, look)
        case exp.Div():
            return _quotient(node, look)
        case exp.Cast() | exp.TryCast():
            return _cast(node, look)
        case exp.Round():
            return _rounded(node, look)
        case exp.Nullif() if _is_still(node.expression, look):
            return moves(node.this, look)
        case exp.Coalesce() if all(_is_still(e, look) for e in node.expressions):
            return _coalesced(node, look)
        case exp.Case():
            return _case(node, look)
        case _:
            return STILL if _is_still(node, look) else None


def _is_still(node: exp.Expr, look: Look) -> bool:
    """Does noise leave it as it is? Only of scalar expressions over columns that are."""
    if holds_aggregate(node) or any(isinstance(n, exp.Query | exp.Window | exp.Subquery) for n in node.walk()):
        return False
    found = [look(c) for c in node.find_all(exp.Column)]
    return all(one is not None and not one.slopes for one in found)


def _sum(parts: Iterable[tuple[exp.Expr, int]], look: Look) -> Moves | None:
    slopes: dict[int, list[exp.Expr]] = {}
    doubts: tuple[Gradient, ...] = ()
    for part, sign in parts:
        found = moves(part, look)
        if found is None:
            return None
        doubts += found.doubts
        for aggregate, slope in found.slopes.items():
            slopes.setdefault(aggregate, []).append(slope if sign > 0 else exp.Neg(this=exp.Paren(this=slope)))
    return _small({a: _added(terms) for a, terms in slopes.items()}, doubts)


def _product(node: exp.Mul, look: Look) -> Moves | None:
    left, right = moves(node.this, look), moves(node.expression, look)
    if left is None or right is None:
        return None
    slopes: dict[int, list[exp.Expr]] = {}
    for found, other in ((left, node.expression), (right, node.this)):
        for aggregate, slope in found.slopes.items():
            slopes.setdefault(aggregate, []).append(_times(slope, _double(other)))
    return _small({a: _added(terms) for a, terms in slopes.items()}, left.doubts + right.doubts)


def _quotient(node: exp.Div, look: Look) -> Moves | None:
    """(a/b)' = a'/b − (a/b)·(b'/b)."""
    above, below = moves(node.this, look), moves(node.expression, look)
    if above is None or below is None:
        return None
    slopes: dict[int, list[exp.Expr]] = {}
    divisor = _double(node.expression)
    for aggregate, slope in above.slopes.items():
        slopes.setdefault(aggregate, []).append(_over(slope, divisor))
    relative = {aggregate: _over(slope, divisor) for aggregate, slope in below.slopes.items()}
    for aggregate, slope in relative.items():
        whole = _over(_double(node.this), divisor)
        slopes.setdefault(aggregate, []).append(exp.Neg(this=exp.Paren(this=_times(whole, slope.copy()))))
    doubts = above.doubts + below.doubts + ((relative,) if relative else ())
    return _small({a: _added(terms) for a, terms in slopes.items()}, doubts)


def _cast(node: exp.Cast | exp.TryCast, look: Look) -> Moves | None:
    kind = Type.parse(as_sql(node.args["to"]))
    found = moves(node.this, look)
    if found is None or not found.slopes:
        return found
    if kind.is_integer:
        return Moves(found.slopes, found.doubts, 1.0)
    if kind.is_decimal:
        return Moves(found.slopes, found.doubts, 10.0 ** -(kind.scale or 0))
    return Moves(found.slopes, found.doubts) if kind.is_float else None


def _rounded(node: exp.Round, look: Look) -> Moves | None:
    found = moves(node.this, look)
    digits = node.args.get("decimals")
    if found is None or not found.slopes:
        return found if digits is None or _is_still(digits, look) else None
    if digits is None:
        return Moves(found.slopes, found.doubts, 1.0)
    sign = -1 if isinstance(digits, exp.Neg) else 1
    number = digits.this if sign < 0 else digits
    if not isinstance(number, exp.Literal) or not number.name.isdigit():
        return None
    return Moves(found.slopes, found.doubts, 10.0 ** -max(-300, min(300, sign * int(number.name))))


def _coalesced(node: exp.Coalesce, look: Look) -> Moves | None:
    found = moves(node.this, look)
    if found is None:
        return None
    there = exp.Not(this=exp.Is(this=exp.Paren(this=node.this.copy()), expression=exp.Null()))
    return Moves({a: _where(there, slope) for a, slope in found.slopes.items()}, found.doubts)


def _case(node: exp.Case, look: Look) -> Moves | None:
    """That of the branch that is taken. Noise may not choose between two values: only whether there is one."""
    conditions = [*([node.this] if node.this is not None else []), *(i.this for i in node.args["ifs"])]
    results = [i.args["true"] for i in node.args["ifs"]]
    last = node.args.get("default")
    values = [r for r in [*results, last] if r is not None and not isinstance(r, exp.Null)]
    if not all(_is_still(c, look) for c in conditions) and len(values) > 1:
        return None
    found = [None if r is None else moves(r, look) for r in [*results, last]]
    if any(f is None and r is not None for f, r in zip(found, [*results, last], strict=True)):
        return None
    slopes: Gradient = {}
    for aggregate in sorted({a for f in found if f is not None for a in f.slopes}):
        whole = node.copy()
        for branch, f in zip(whole.args["ifs"], found, strict=False):
            branch.set("true", _slope(f, aggregate))
        whole.set("default", _slope(found[-1], aggregate))
        slopes[aggregate] = whole
    return _small(slopes, tuple(d for f in found if f is not None for d in f.doubts))


def _slope(found: Moves | None, aggregate: int) -> exp.Expr:
    slope = found.slopes.get(aggregate) if found is not None else None
    return slope.copy() if slope is not None else _double(exp.Literal.number(0))


# ---------------------------------------------------------------- the algebra


def _small(slopes: Gradient, doubts: tuple[Gradient, ...]) -> Moves | None:
    trees = [tree for gradient in (slopes, *doubts) for tree in gradient.values()]
    if sum(1 for tree in trees for _ in tree.walk()) > MAX_SIZE:
        return None
    return Moves(slopes, doubts)


def one() -> exp.Expr:
    """The slope of an aggregate with respect to itself."""
    return _double(exp.Literal.number(1))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Paren(this=node.copy()), data_type("DOUBLE"))


def _added(terms: list[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: exp.Add(this=exp.Paren(this=a), expression=exp.Paren(this=b)), terms)


def _times(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Mul(this=exp.Paren(this=a.copy()), expression=exp.Paren(this=b))


def _over(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Div(this=exp.Paren(this=a.copy()), expression=exp.Paren(this=b.copy()))


def _where(condition: exp.Expr, slope: exp.Expr) -> exp.Expr:
    zero = _double(exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=slope)], default=zero)
