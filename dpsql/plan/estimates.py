"""RR_COUNT and RR_FREQUENCY: what randomised values say of the true ones, without bias (Theorem RR-1).

They are post-processing. Which column an estimate is from is found out by lineage before anything is paid; the formula
is put in once the noise that was drawn is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqlglot import exp

from dpsql.core.errors import PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.plan.nodes import Expr, Responses
from dpsql.plan.refusals import no_response
from dpsql.sql.dialect import cast, data_type
from dpsql.sql.nodes import is_estimate
from dpsql.sql.refuse import E, Place, offsets, refuse, shown
from dpsql.sql.trees import nodes, nodes_of

CODE = "randomized-response"
SOURCE = "dpsql_response"  # in a call's meta: the column that it estimates from
_CONSTANT = (exp.Literal, exp.Boolean, exp.Neg, exp.Paren, exp.Cast, exp.DataType, exp.DataTypeParam)
_ANSWER = re.compile(r"a(\d+)")


@dataclass(frozen=True, slots=True)
class ResponseColumn:
    """A column of a noisy table of randomised rows."""

    table: str
    column: int


def trace_estimates(post: exp.Query, responses: Mapping[str, Responses]) -> None:
    """Note in each estimate the column that it is from; refuse those that have none."""
    for call in estimates(post):
        _check_call(call)
        select = call.find_ancestor(exp.Select)
        column = call.expressions[0]
        if select is None or not isinstance(column, exp.Column):
            raise no_response(call)
        path = list(_path(column, select, responses))
        if not path or not isinstance(path[-1], ResponseColumn):
            raise no_response(call)
        source = path[-1]
        for one in [select, *(s for s in path if isinstance(s, exp.Select))]:
            _check_independent(call, source, one, responses)
        call.meta[SOURCE] = source


def estimates(post: exp.Expr) -> list[exp.Anonymous]:
    """The calls of RR_COUNT and RR_FREQUENCY in a query."""
    return [call for call in nodes_of(post, exp.Anonymous) if is_estimate(call)]


def _check_call(call: exp.Anonymous) -> None:
    name = call.name.upper()
    if not 1 <= len(call.expressions) <= 2:
        raise _refuse(SQLError, f"{name} takes a column, and a value", call, f"write {name}(x) or {name}(x, 'a')")
    if isinstance(call.parent, exp.Filter | exp.Window) or any(nodes_of(call, exp.Distinct)):
        raise _refuse(
            SQLError,
            f"{name} takes no FILTER, DISTINCT or OVER",
            call,
            "filter by other randomised columns with WHERE, and group by them with GROUP BY",
        )
    value = call.expressions[1] if len(call.expressions) > 1 else None
    if value is not None and not all(isinstance(part, _CONSTANT) for part in nodes(value)):
        raise _refuse(
            SQLError,
            f"{name} counts one value, which is a constant",
            value if offsets(value) else call,
            f"write {name}(x, 'a'), once for each value",
        )


def _path(
    column: exp.Column, select: exp.Select, responses: Mapping[str, Responses]
) -> Iterator[exp.Select | ResponseColumn]:
    """The subqueries through which a column comes as it stands, and the column of randomised values that it is."""
    source = next((s for s in _sources(select) if s.alias_or_name == column.table), None)
    if isinstance(source, exp.Table) and source.name in responses and (found := _ANSWER.fullmatch(column.name)):
        yield ResponseColumn(source.name, int(found[1]))
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select):
        return
    inner = source.this
    if any(inner.args.get(part) for part in ("group", "distinct", "qualify", "limit", "offset", "having")):
        return
    alias = source.args.get("alias")
    names = [c.name for c in alias.columns] if alias is not None and alias.columns else inner.named_selects
    output = next((o.unalias() for n, o in zip(names, inner.selects, strict=False) if n == column.name), None)
    if isinstance(output, exp.Column):
        yield inner
        yield from _path(output, inner, responses)


def _sources(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    return [*([from_.this] if from_ else []), *(j.this for j in select.args.get("joins") or [])]


def _check_independent(
    call: Expr, source: ResponseColumn, select: exp.Select, responses: Mapping[str, Responses]
) -> None:
    """Rows chosen by their randomised values of this very column say nothing of the true ones by this formula."""
    group, where = select.args.get("group"), select.args.get("where")
    conditions = [j.args["on"] for j in select.args.get("joins") or [] if j.args.get("on")]
    for part in [*([group] if group else []), *([where] if where else []), *conditions]:
        for column in nodes_of(part, exp.Column):
            if source in list(_path(column, select, responses)):
                raise _refuse(
                    PrivacyError,
                    f"{shown(call)} among rows that were chosen by the same randomised column is no estimate",
                    column if column.this.meta.get("start") is not None else call,
                    f"leave the column out of WHERE, ON and GROUP BY, and name the value: {call.name.upper()}(x, 'a')",
                )


# ---------------------------------------------------------------- the formula


def estimated(post: exp.Query, noises: Mapping[ResponseColumn, tuple[RandomizedResponse, str]]) -> exp.Query:
    """The query with the formula in each estimate's place; noises: what was drawn for a column, and its type."""
    for call in estimates(post):
        noise, kind = noises[call.meta[SOURCE]]
        call.replace(_formula(call, noise, kind))
    return post


def _formula(call: exp.Anonymous, noise: RandomizedResponse, kind: str) -> Expr:
    """Theorem RR-1: share·slope − offset, where share is that of the value among the randomised ones."""
    column, *given = call.expressions
    value = exp.TryCast(this=given[0].copy() if given else exp.true(), to=data_type(kind))
    chosen = cast(exp.EQ(this=column.copy(), expression=value), "INTEGER")
    if call.name.upper() == "RR_FREQUENCY":
        scaled = exp.Mul(this=exp.Avg(this=chosen), expression=_double(noise.slope))
        return exp.Paren(this=exp.Sub(this=scaled, expression=_double(noise.offset)))
    total = exp.func("coalesce", exp.Sum(this=chosen), exp.Literal.number(0))
    scaled = exp.Mul(this=total, expression=_double(noise.slope))
    expected = exp.Mul(this=exp.Count(this=column.copy()), expression=_double(noise.offset))
    return exp.Paren(this=exp.Sub(this=scaled, expression=expected))


def _double(x: float) -> Expr:
    return cast(exp.Literal.string(repr(x)), "DOUBLE")


def _refuse(kind: type[E], message: str, place: Place, hint: str) -> E:
    return refuse(kind, message, place, code=CODE, hint=hint)
