"""public LEFT JOIN private: which aggregates don't see the public rows that nobody matches.

Such a row has NULLs for everything private. Where every aggregate of a release passes over it, the release is that of
the inner join (Theorem OWN-3), and the row's group is there anyway: its keys are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from sqlglot import exp

from dpsql.core.errors import PrivacyError
from dpsql.plan.nodes import Expr
from dpsql.sql.nodes import aggregate_form, is_privacy_unit
from dpsql.sql.refuse import refuse, shown

_STRICT = (  # NULL where one of their values is
    exp.Paren, exp.Cast, exp.TryCast, exp.Neg, exp.Not, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.Abs, exp.Round, exp.Floor, exp.Ceil,
    exp.Sqrt, exp.Ln, exp.Exp, exp.Lower, exp.Upper, exp.Length, exp.Year, exp.Month, exp.Day, exp.Extract,
    exp.DateDiff,
)  # fmt: skip


def check_unseen(node: Expr, private: Set[str], place: Expr) -> None:
    """Refuse an aggregate that counts or adds something up for a public row without a match."""
    call, where = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
    if where is not None and _not_true(where, private):
        return
    argument = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.args.get("this")
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    form = aggregate_form(call)
    if isinstance(argument, exp.Expr) and not isinstance(argument, exp.Star):
        if form.condition and _not_true(argument, private):
            return
        if not form.condition and (_is_null(argument, private) or (form.skips_zero and _is_zero(argument, private))):
            return
    raise refuse(
        PrivacyError,
        f"{shown(node)} would look at public rows without a match, and show that nobody has one",
        node,
        code="outer-join",
        hint=f"aggregate columns of {place.alias_or_name}: COUNT(its column), SUM(its column); or use JOIN, all public "
        "keys are shown anyway",
    )


def check_kept(where: Iterable[Expr], private: Set[str], place: Expr) -> None:
    """Refuse a condition that asks for public rows without a match, like WHERE its column IS NULL."""
    for condition in where:
        looked = {c.table for c in condition.find_all(exp.Column)} & private
        if looked and not _not_true(condition, private):
            raise rows_without_match(place)


def rows_without_match(place: Expr) -> PrivacyError:
    """The rows themselves are asked for, not aggregates of them."""
    return refuse(
        PrivacyError,
        "a row of the public side without a match would show that nobody has one",
        place,
        code="outer-join",
        hint="put the private table on the left of the LEFT JOIN, or aggregate it before you join",
    )


def _is_null(e: Expr, private: Set[str]) -> bool:
    """Is it NULL wherever the private columns are?"""
    match e:
        case exp.Column():
            return e.table in private
        case exp.Null():
            return True
        case exp.Case() | exp.If():
            default = _default(e)
            return _falls_through(e, private) and (default is None or _is_null(default, private))
        case exp.Coalesce():
            return all(_is_null(v, private) for v in (e.this, *e.expressions))
        case exp.Between() | exp.In():
            return _is_null(e.this, private)
    if is_privacy_unit(e):
        return True
    return isinstance(e, _STRICT) and any(_is_null(v, private) for v in e.iter_expressions())


def _is_zero(e: Expr, private: Set[str]) -> bool:
    match e:
        case exp.Literal():
            return e.is_number and float(e.this) == 0
        case exp.Paren():
            return _is_zero(e.this, private)
        case exp.Case() | exp.If():
            default = _default(e)
            return default is not None and _falls_through(e, private) and _is_zero(default, private)
        case exp.Coalesce():
            return all(_is_null(v, private) or _is_zero(v, private) for v in (e.this, *e.expressions))
        case _:
            return False


def _default(e: exp.Case | exp.If) -> Expr | None:
    found: Expr | None = e.args.get("default") if isinstance(e, exp.Case) else e.args.get("false")
    return found


def _falls_through(e: exp.Case | exp.If, private: Set[str]) -> bool:
    """Does no WHEN of this CASE hold?"""
    if isinstance(e, exp.If):
        return _not_true(e.this, private)
    if e.this is not None:
        return _is_null(e.this, private)
    return all(_not_true(one.this, private) for one in e.args["ifs"])


def _not_true(e: Expr, private: Set[str]) -> bool:
    match e:
        case exp.Paren():
            return _not_true(e.this, private)
        case exp.And():
            return any(_not_true(v, private) for v in (e.this, e.expression))
        case exp.Or():
            return all(_not_true(v, private) for v in (e.this, e.expression))
        case exp.Not(this=exp.Is() as test) if isinstance(test.expression, exp.Null):
            return _is_null(test.this, private)
        case _:
            return _is_null(e, private)
