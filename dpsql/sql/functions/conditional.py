"""Comparisons, logic, choices and casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range
from dpsql.core.types import BOOLEAN, DATE, Type
from dpsql.sql.as_sql import as_sql
from dpsql.sql.functions.base import Function, Scalar, Scope, binary, boolean, call, mismatch, only, wrap
from dpsql.sql.functions.casts import align, as_boolean, convert, merged, number_of_date
from dpsql.sql.functions.constants import literal_as
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import copied


def comparison(node: exp.Expr, scope: Scope) -> Scalar:
    """=, <>, <, <=, >, >= in the type in which DuckDB would compare."""
    only(node, "this", "expression")
    a, b = align([scope(node.this), scope(node.expression)], [node.this, node.expression])
    return boolean(binary(type(node), a.sql, b.sql), a, b)


def distinct(node: exp.Expr, scope: Scope) -> Scalar:
    """IS [NOT] DISTINCT FROM: NULL is a value like any other."""
    only(node, "this", "expression")
    a, b = align([scope(node.this), scope(node.expression)], [node.this, node.expression])
    return boolean(binary(type(node), a.sql, b.sql), nullable=False)


def connective(node: exp.Expr, scope: Scope) -> Scalar:
    """AND and OR, flat however long the chain is."""
    kind = type(node)
    operands: list[exp.Expr] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            only(current, "this", "expression")
            waiting.extend((current.expression, current.this))
        else:
            operands.append(current)
    parts = [as_boolean(scope(o), o) for o in operands]
    tree = wrap(parts[0].sql)
    for part in parts[1:]:
        tree = kind(this=tree, expression=wrap(part.sql))
    return boolean(tree, *parts)


def negation(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = as_boolean(scope(node.this), node.this)
    return boolean(exp.Not(this=wrap(s.sql)), s)


def is_test(node: exp.Expr, scope: Scope) -> Scalar:
    """IS NULL, IS TRUE, IS FALSE: never NULL themselves."""
    only(node, "this", "expression")
    s = scope(node.this)
    if isinstance(node.expression, exp.Boolean):
        s = as_boolean(s, node.this)
    elif not isinstance(node.expression, exp.Null):
        raise refuse(
            SQLError,
            f"{shown(node)}: only NULL, TRUE and FALSE can follow IS",
            node,
            code="unsupported-expression",
            hint="write x IS NULL, x IS NOT NULL, or x IS NOT DISTINCT FROM y",
        )
    return boolean(exp.Is(this=wrap(s.sql), expression=node.expression.copy()), nullable=False)


def between(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "low", "high")
    nodes = [node.this, node.args["low"], node.args["high"]]
    x, low, high = align([scope(n) for n in nodes], nodes)
    return boolean(exp.Between(this=wrap(x.sql), low=wrap(low.sql), high=wrap(high.sql)), x, low, high)


def member(node: exp.Expr, scope: Scope) -> Scalar:
    """x IN (a, b, …) over a written list."""
    only(node, "this", "expressions")
    nodes = [node.this, *node.expressions]
    if len(nodes) < 2:
        raise refuse(
            SQLError, "IN needs a list of values", node, code="unsupported-expression", hint="write x IN (1, 2, 3)"
        )
    parts = align([scope(n) for n in nodes], nodes)
    return boolean(exp.In(this=wrap(parts[0].sql), expressions=[p.sql.copy() for p in parts[1:]]), *parts)


def case(node: exp.Expr, scope: Scope) -> Scalar:
    """CASE in both forms; each branch knows its own condition."""
    only(node, "this", "ifs", "default")
    branches = node.args["ifs"]
    subject = node.args.get("this")
    if subject is not None:
        tests = [subject, *(b.this for b in branches)]
        aligned = align([scope(t) for t in tests], tests)
        subject_sql: exp.Expr | None = aligned[0].sql
        conditions = [a.sql for a in aligned[1:]]
        values = [scope(b.args["true"]) for b in branches]
    else:
        subject_sql = None
        conditions = [as_boolean(scope(b.this), b.this).sql for b in branches]
        values = [scope.where(b.this)(b.args["true"]) for b in branches]
    nodes = [b.args["true"] for b in branches]
    default = node.args.get("default")
    if default is not None:
        values.append(scope(default))
        nodes.append(default)
    return _choose(values, nodes, default is not None, conditions, subject_sql)


def condition_of(node: exp.Expr, scope: Scope) -> Scalar:
    """IF(condition, a, b)."""
    only(node, "this", "true", "false")
    other = node.args.get("false")
    if other is None:
        raise refuse(
            SQLError, "IF takes a condition and two values", node, code="wrong-arguments", hint="write IF(x > 0, 1, 0)"
        )
    condition = as_boolean(scope(node.this), node.this)
    values = [scope.where(node.this)(node.args["true"]), scope(other)]
    return _choose(values, [node.args["true"], other], True, [condition.sql], None)


def _choose(
    values: Sequence[Scalar],
    nodes: Sequence[exp.Expr],
    has_default: bool,
    conditions: Sequence[exp.Expr],
    subject: exp.Expr | None,
) -> Scalar:
    parts = align(values, nodes)
    firm = [p for p, v in zip(parts, values, strict=True) if not v.is_null]
    nullable = not has_default or len(firm) < len(parts) or any(p.nullable for p in firm)
    known = firm[0].range.hull(*(p.range for p in firm[1:])) if firm else Range()
    ifs = [exp.If(this=copied(c), true=copied(p.sql)) for c, p in zip(conditions, parts, strict=False)]
    sql = exp.Case(
        this=copied(subject) if subject is not None else None,
        ifs=ifs,
        default=copied(parts[-1].sql) if has_default else None,
    )
    return merged(sql, parts[0].type, known.with_nullable(nullable), firm)


def coalesce(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "expressions", "is_nvl", "is_null")
    nodes = [node.this, *node.expressions]
    values = [scope(n) for n in nodes]
    parts = align(values, nodes)
    # Nothing after a value that is never NULL is ever looked at.
    used: list[Scalar] = []
    for part, value in zip(parts, values, strict=True):
        if value.is_null:
            continue
        used.append(part)
        if not part.nullable:
            break
    known = used[0].range.hull(*(p.range for p in used[1:])) if used else Range()
    known = known.with_nullable(all(p.nullable for p in used))
    sql = exp.Coalesce(this=parts[0].sql.copy(), expressions=[p.sql.copy() for p in parts[1:]])
    return merged(sql, parts[0].type, known, [p for p, v in zip(parts, values, strict=True) if not v.is_null])


def nullif(node: exp.Expr, scope: Scope) -> Scalar:
    """NULLIF(a, b): a, or NULL where a = b; it has a's type."""
    only(node, "this", "expression")
    a = scope(node.this)
    left, right = align([a, scope(node.expression)], [node.this, node.expression])
    if left.type == a.type:
        sql: exp.Expr = exp.Nullif(this=a.sql.copy(), expression=right.sql.copy())
    else:
        sql = exp.Case(ifs=[exp.If(this=binary(exp.EQ, left.sql, right.sql), true=exp.Null())], default=a.sql.copy())
    return Scalar(sql, a.type, a.range.with_nullable(True), a.extent)


def extreme(name: str, combine: Callable[[list[Range]], Range]) -> Callable[[exp.Expr, Scope], Scalar]:
    """LEAST and GREATEST, which skip NULLs in DuckDB (and put NaN above everything)."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this", "expressions", "ignore_nulls")
        nodes = [node.this, *node.expressions]
        values = [scope(n) for n in nodes]
        parts = align(values, nodes)
        firm = [p for p, v in zip(parts, values, strict=True) if not v.is_null]
        known = combine([p.range for p in firm]) if firm else Range()
        to = parts[0].type
        hard = combine([p.hard for p in firm]) if firm and to.limits else None
        return Scalar(call(name, *(p.sql for p in parts)), to, known, hard)

    return rule


_TARGETS = "numbers, BOOLEAN, VARCHAR, DATE, TIMESTAMP and TIMESTAMPTZ"


def cast(node: exp.Expr, scope: Scope) -> Scalar:
    """CAST, TRY_CAST and :: alike: NULL where the value has no place in the type."""
    only(node, "this", "to", "safe")
    return cast_to(node, Type.parse(as_sql(node.args["to"])), scope)


def cast_to(node: exp.Expr, to: Type, scope: Scope) -> Scalar:
    s = scope(node.this)
    if not (to.is_numeric or to.is_boolean or to.name == "VARCHAR" or to.is_date or to.is_timestamp):
        hint = f"cast to {_TARGETS}" if to.name != "UHUGEINT" else "cast to HUGEINT"
        raise refuse(SQLError, f"a cast to {to} isn't supported", node, code="unsupported-type", hint=hint)
    if s.text is not None and not isinstance(node, exp.TryCast):
        return literal_as(s, to, node)
    if s.type == to:
        return s
    if not _castable(s, to):
        raise mismatch(
            node, f"{shown(node.this)} is {s.type}, which can't be cast to {to}", _way(s.type, to, shown(node.this))
        )
    return convert(s, to)


def _way(source: Type, to: Type, text: str) -> str:
    """What gives a value of another kind where no cast does."""
    if to.is_date or to.is_timestamp:
        return "dates are made of text: STRPTIME('2024-01-31', '%Y-%m-%d'), or CAST('2024-01-31' AS DATE)"
    if source.is_date or source.is_timestamp:
        return number_of_date(text)
    if source.is_written:
        return f"only IS NULL, COUNT and CAST({text} AS VARCHAR) work on {source}"
    return f"only IS NULL and COUNT work on {source}"


def _castable(s: Scalar, to: Type) -> bool:
    source = s.type
    if s.is_null or source.is_text:
        return True
    if to.is_text:
        return source.is_written  # Theorem SCAN-1: what is inside of a nested value isn't made to fit
    if source.is_numeric or source.is_boolean:
        return to.is_numeric or to.is_boolean
    return (source.is_date or source.is_timestamp) and (to.is_date or to.is_timestamp)


def to_date(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE(x)."""
    only(node, "this")
    return cast_to(node, DATE, scope)


def truth(node: exp.Expr, scope: Scope) -> Scalar:
    value = Fraction(1 if node.this else 0)
    known = Range(value, value, nullable=False)
    return Scalar(exp.Boolean(this=bool(node.this)), BOOLEAN, known, known)


_TYPES = "compared in one type that holds both; text with a number is refused"
_PLAIN = "total in DuckDB"
_ONE_TYPE = "values brought to one type that holds them all"
_BIT = "0 or 1"

FUNCTIONS: tuple[Function, ...] = (
    Function(("=", "=="), "comparison", "equal", _TYPES, _BIT, comparison, (exp.EQ,)),
    Function(("<>", "!="), "comparison", "not equal", _TYPES, _BIT, comparison, (exp.NEQ,)),
    Function(("<",), "comparison", "less", _TYPES, _BIT, comparison, (exp.LT,)),
    Function(("<=",), "comparison", "less or equal", _TYPES, _BIT, comparison, (exp.LTE,)),
    Function((">",), "comparison", "greater", _TYPES, _BIT, comparison, (exp.GT,)),
    Function((">=",), "comparison", "greater or equal", _TYPES, _BIT, comparison, (exp.GTE,)),
    Function(("IS DISTINCT FROM",), "comparison", "not equal, NULL as a value", _TYPES, _BIT, distinct,
             (exp.NullSafeNEQ,)),
    Function(("IS NOT DISTINCT FROM",), "comparison", "equal, NULL as a value", _TYPES, _BIT, distinct,
             (exp.NullSafeEQ,)),
    Function(("BETWEEN",), "comparison", "within two values", _TYPES, _BIT, between, (exp.Between,)),
    Function(("IN",), "comparison", "one of a list", _TYPES, _BIT, member, (exp.In,)),
    Function(("IS NULL", "IS TRUE", "IS FALSE"), "comparison", "tests for NULL, TRUE, FALSE", _PLAIN, _BIT, is_test,
             (exp.Is,)),
    Function(("AND",), "logic", "both", _PLAIN, _BIT, connective, (exp.And,)),
    Function(("OR",), "logic", "either", _PLAIN, _BIT, connective, (exp.Or,)),
    Function(("NOT",), "logic", "the opposite", _PLAIN, _BIT, negation, (exp.Not,)),
    Function(("CASE",), "choice", "the first branch that applies", _ONE_TYPE, "hull of the branches", case,
             (exp.Case,)),
    Function(("IF", "IIF"), "choice", "one of two values", _ONE_TYPE, "hull of both", condition_of, (exp.If,)),
    Function(("COALESCE", "IFNULL"), "choice", "the first that isn't NULL", _ONE_TYPE, "hull", coalesce,
             (exp.Coalesce,)),
    Function(("NULLIF",), "choice", "NULL where both are equal", _TYPES, "that of the first", nullif, (exp.Nullif,)),
    Function(("LEAST",), "choice", "the smallest; NULLs are skipped", _ONE_TYPE, "least of the ends", extreme("least",
             Range.least), (exp.Least,)),
    Function(("GREATEST",), "choice", "the largest; NULLs are skipped", _ONE_TYPE, "greatest of the ends",
             extreme("greatest", Range.greatest), (exp.Greatest,)),
    Function(("CAST", "TRY_CAST", "::"), "cast", f"to {_TARGETS}", "NULL where it fails",
             "rounded; 0 or 1 for BOOLEAN", cast, (exp.Cast, exp.TryCast)),
    Function(("DATE",), "cast", "CAST(x AS DATE)", "NULL where it fails", "the days", to_date, (exp.Date,)),
    Function(("TRUE", "FALSE"), "literal", "constants", _PLAIN, "itself", truth, (exp.Boolean,)),
)  # fmt: skip
