"""What build must know of aggregates beyond one plain argument: pairs, conditions, logarithms, values of the keys."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates import form_of
from dpsql.aggregates.form import Form
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Expr
from dpsql.plan.refusals import unsupported_aggregate
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import Rewrite

_OTHER = ("this", "big_int")  # arguments of a node that are none of the call


def any_value(e: Expr, rewrite: Rewrite) -> Expr | None:
    """ANY_VALUE of what has one value in a group, because it depends on the keys alone: that value; else refused.

    rewrite: an expression over groups, whose columns are keys. None: it is another aggregate.
    """
    call = e.this if isinstance(e, exp.Filter) else e
    form = form_of(call)
    if form is None or not form.of_keys:
        return None
    argument = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.this
    if isinstance(e, exp.Filter) or not isinstance(argument, exp.Expr) or argument.find(exp.Column) is None:
        raise unsupported_aggregate(form, e)
    try:
        return rewrite(argument)
    except (SQLError, PrivacyError):
        raise unsupported_aggregate(form, e) from None


def second_argument(call: Expr, form: Form) -> Expr | None:
    """The other value of an aggregate of pairs; None for an aggregate of one value. Shares of a quantile are none."""
    name = form.name
    own = (*_OTHER, *(("expression", "quantile") if form.takes_shares else ()))
    extra = [v for k, v in call.args.items() if v and k not in own and call.key != "anonymous"]
    further = call.expressions[1:] if isinstance(call, exp.Anonymous) else []
    given = [*further, *(v for v in extra if isinstance(v, exp.Expr) or (isinstance(v, list) and v))]
    if not form.pair:
        if given:
            raise refuse(
                SQLError, f"{name} takes one argument", call, code="arity", hint=f"write {name}(x) for each of them"
            )
        return None
    if isinstance(call.this, exp.Distinct):
        raise refuse(
            PrivacyError,
            f"{name}(DISTINCT …): pairs can't be taken DISTINCT, which lets one row stand for many",
            call,
            code="distinct",
            hint=f"leave DISTINCT out: {name}({', '.join(shown(v, 40) for v in call.this.expressions)})",
        )
    if len(given) != 1 or not isinstance(given[0], exp.Expr):
        raise refuse(SQLError, f"{name} takes two arguments", call, code="arity", hint=f"write {name}(y, x)")
    second = given[0]
    return second.this if isinstance(second, exp.Order) else second  # no order can matter here
