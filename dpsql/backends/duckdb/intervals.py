"""Months and days kept apart: to DuckDB, what differs in nothing but INTERVALs of one length is the same.

1 month = 30 days = 720 hours to DuckDB's comparison, which its search for common expressions uses (FACT-INTERVAL-1). So
months are written in another form than all else: `months + x` and `x + days`, TIME_BUCKET with its origin and without.
No INTERVAL of months alone equals one of another number of months, and what equals 1 day is as long as 1 day.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.dialect import constants, data_type
from dpsql.sql.trees import nodes_of

Parts = tuple[int, int, int]


def kept_apart(tree: exp.Query) -> exp.Query:
    """The query with months in a form of their own. The tree is used up.

    An INTERVAL whose place has no such form is refused where the query has one of the other kind, too.
    """
    written = [n for n in nodes_of(tree, exp.Interval, exp.Cast) if isinstance(n, exp.Interval) or _to_interval(n)]
    found = [(node, parts) for node in written if (parts := _parts(node)) is not None]
    computed = len(found) < len(written)  # DuckDB may find that it is a constant, too
    if len({node.sql() for node in written}) < 2:
        return tree  # no two of them can be taken for one another
    if not computed and all(parts[0] and not any(parts[1:]) for _, parts in found):
        return tree  # months alone: what compares equal is the same
    if not computed and not any(months for _, (months, *_) in found):
        return tree  # none at all
    if computed or any(_order_matters(node, parts) for node, parts in found):
        raise _mixed()
    for node, parts in reversed(found):  # the inner ones first: those outside hold them
        if not (_shift(node, parts) or _bucket(node, parts) or isinstance(node.parent, exp.GenerateSeries)):
            raise _mixed()
    return tree


def _mixed() -> SQLError:
    return SQLError(
        "months and days in one query: DuckDB can't tell INTERVALs apart that are as long as each other",
        code="interval-mixed",
        hint="write months and days apart, as constants: d - INTERVAL 1 MONTH - INTERVAL 3 DAY; or ask in two queries",
    )


def _to_interval(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.this is exp.DType.INTERVAL


def _order_matters(node: exp.Expr, parts: Parts) -> bool:
    """Are there months beside other parts, one of which takes away? Times with a zone get the months last then."""
    operand = node
    while isinstance(operand.parent, exp.Paren):
        operand = operand.parent
    minus = isinstance(operand.parent, exp.Sub)
    return bool(parts[0]) and any(parts[1:]) and (minus or min(parts) < 0)


def _parts(node: exp.Expr) -> Parts | None:
    """Months, days and microseconds of a constant INTERVAL; None for all else."""
    if isinstance(node, exp.Cast) and not _to_interval(node):
        return None
    value = node.this.unnest() if isinstance(node.this, exp.Expr) else None
    sign = ""
    while isinstance(value, exp.Neg):
        sign, value = ("" if sign else "-"), value.this.unnest()
    if not isinstance(value, exp.Literal):
        return None
    unit = node.args.get("unit")
    return constants().interval(f"{sign}{value.name} {unit.name if isinstance(unit, exp.Expr) else ''}".strip())


def _shift(node: exp.Expr, parts: Parts) -> bool:
    """Write x ± INTERVAL as months + x ± the rest of it; False where that isn't what stands there."""
    operand = node
    while isinstance(operand.parent, exp.Paren):
        operand = operand.parent
    place = operand.parent
    if not isinstance(place, exp.Add | exp.Sub | exp.DateAdd):
        return False
    minus = isinstance(place, exp.Sub)
    made: exp.Expr = place.expression if operand is place.this else place.this
    if _parts(made.unnest()) is not None or (minus and made is place.expression):
        return False
    months, days, micros = parts
    if months:
        made = exp.Add(this=_interval(f"{-months if minus else months} months"), expression=made)
    if days or micros or not months:
        rest = _interval(f"{days} days {micros} microseconds")
        made = (exp.Sub if minus else exp.Add)(this=made, expression=rest)
    place.replace(exp.Paren(this=made))
    return True


def _bucket(node: exp.Expr, parts: Parts) -> bool:
    """Give TIME_BUCKET of months the origin that it has anyway; False where that isn't what stands there."""
    call = node.parent
    months, days, micros = parts
    if isinstance(call, exp.DateBin) and call.this is node and call.args.get("unit") is None:
        moment = call.expression
    elif isinstance(call, exp.Anonymous) and call.this == "time_bucket" and len(call.expressions) == 2:
        moment = call.expressions[1]
    else:
        return False
    if months and not (days or micros):
        origin = exp.Cast(this=exp.Literal.string("2000-01-01"), to=data_type("DATE"))
        call.replace(exp.Anonymous(this="time_bucket", expressions=[node, moment, origin]))
    return True


def _interval(text: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=data_type("INTERVAL"))
