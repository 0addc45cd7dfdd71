"""NULL as a key: which expressions can't be NULL on rows whose columns are as the policy and the conditions say.

An aggregate's argument is taken to be NULL wherever a row could make it so, whatever the policy says of its columns. Of
keys it is enough that they aren't for rows within the ranges: others are dropped (Theorems KEYS-1 and KEYS-2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analyze.moments import looks
from dpsql.core.errors import Error
from dpsql.plan.nodes import Expr
from dpsql.sql.scalar import Scalar

Total = Callable[[Expr], Scalar]

# NULL only where an operand is, as long as the result has a range, which its type then holds.
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Trunc)


def may_be_null(e: Expr, total: Total) -> bool:
    """May the expression be NULL on a row within the ranges of its columns?

    total: the total form of an expression, with what is known of its columns.
    """
    try:
        known = total(e)
        return known.range.nullable and _may_be(e, known, total)
    except Error:
        return True


def _may_be(e: Expr, known: Scalar, total: Total) -> bool:
    moments = [moment for moment, _ in looks(e)]
    if moments and all(_is_moment(total(moment)) for moment in moments):
        return _any(moments, total)  # infinite moments alone have no parts, and none of them lies in a range
    match e:
        case exp.Paren():
            return may_be_null(e.this, total)
        case exp.Coalesce():
            return all(may_be_null(arm, total) for arm in (e.this, *e.expressions))
        case exp.Case():
            arms = [branch.args["true"] for branch in e.args["ifs"]]
            return e.args.get("default") is None or _any([*arms, e.args["default"]], total)
        case exp.If():
            return e.args.get("false") is None or _any([e.args["true"], e.args["false"]], total)
        case exp.Cast():
            return not _has_room(total(e.this), known) or may_be_null(e.this, total)
        case exp.Div() | exp.IntDiv() | exp.Mod():
            divisor = total(e.expression).range
            away = divisor.is_finite and not divisor.contains(Fraction(0))
            return not (away and known.range.is_finite) or _any([e.this, e.expression], total)
        case exp.Add() | exp.Sub() if _is_moment(known):
            shifted = [side for side in (e.this, e.expression) if not isinstance(side.unnest(), exp.Interval)]
            return known.range.low is None or known.range.high is None or _any(shifted, total)
        case _ if isinstance(e, _STRICT):
            operands = [part for part in e.iter_expressions() if part.find(exp.Column) is not None]
            return not known.range.is_finite or _any(operands, total)
        case exp.DPipe() | exp.Concat() | exp.Upper() | exp.Lower() | exp.Left() | exp.Right() | exp.Substring():
            return _any([part for part in e.iter_expressions() if part.find(exp.Column) is not None], total)
        case _:
            return True


def _is_moment(known: Scalar) -> bool:
    return known.type.is_date or known.type.is_timestamp


def _any(parts: Sequence[Expr], total: Total) -> bool:
    return any(may_be_null(part, total) for part in parts)


def _has_room(source: Scalar, result: Scalar) -> bool:
    """Does each value of the source's range have a place in the type that it is cast to?"""
    low, high = source.range.low, source.range.high
    if result.type.is_text:
        return True
    if low is None or high is None:
        return False
    if _is_moment(source) and _is_moment(result):
        return True
    if not source.type.is_numeric or not result.type.is_numeric:
        return False
    rounded = source.range.rounded(result.type.scale or 0)
    if not isinstance(rounded.low, Fraction) or not isinstance(rounded.high, Fraction):
        return False
    return result.type.is_float or result.type.holds(rounded.low, rounded.high)


# ---------------------------------------------------------------- conditions

# TRUE and FALSE both need that no operand is NULL.
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Like, exp.ILike)
_THROUGH = (exp.Paren, exp.Cast, exp.Upper, exp.Lower, exp.Trim, exp.Left, exp.Right, exp.Substring, exp.Length)
_OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe)


def present(condition: Expr) -> frozenset[str]:
    """The columns that aren't NULL on any row where the condition is TRUE."""
    return _present(condition, True)


def _present(e: Expr, truth: bool) -> frozenset[str]:
    match e:
        case exp.Paren():
            return _present(e.this, truth)
        case exp.Is(this=value, expression=exp.Null()) if not truth:
            return _strictly(value)
        case exp.Not():
            return _present(e.this, not truth)
        case exp.And() | exp.Or():
            sides = _present(e.this, truth), _present(e.expression, truth)
            both = isinstance(e, exp.And) is truth
            return sides[0] | sides[1] if both else sides[0] & sides[1]
        case exp.Is(this=value, expression=exp.Boolean()) if truth:
            return _strictly(value)
        case exp.Between() if not truth:  # FALSE needs one end only
            return _strictly(e.this)
        case exp.In() if e.expressions and not e.args.get("query"):
            return _strictly(e.this)
        case exp.Column():
            return _strictly(e)
        case _ if isinstance(e, _COMPARED):
            return frozenset().union(*(_strictly(part) for part in e.iter_expressions()))
        case _:
            return frozenset()


def _strictly(e: Expr) -> frozenset[str]:
    """The columns that aren't NULL where the expression isn't."""
    if isinstance(e, exp.Column):
        return frozenset((e.name,))
    moments = [moment for moment, _ in looks(e)]
    if moments:
        return frozenset().union(*(_strictly(moment) for moment in moments))
    if isinstance(e, _OPERATORS):
        return _strictly(e.this) | _strictly(e.expression)
    return _strictly(e.this) if isinstance(e, (*_STRICT, *_THROUGH)) else frozenset()
