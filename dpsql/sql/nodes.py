"""Which nodes of a parsed tree may stand in a query at all: a closed list, refused by default."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates import FORMS, form_of
from dpsql.aggregates.form import Form
from dpsql.core.errors import SQLError
from dpsql.sql.functions import lookup, refusal
from dpsql.sql.refuse import refuse

_WINDOW_NODES = tuple(
    getattr(exp, n)
    for n in ("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "Ntile", "Lag", "Lead", "FirstValue",
              "LastValue", "NthValue")
    if hasattr(exp, n)
)  # fmt: skip
_WINDOW_NAMES = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"}
_STRUCTURE = (
    exp.Star, exp.Distinct, exp.Filter, exp.Where, exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.Exists,
    exp.Alias, exp.Tuple, exp.IgnoreNulls, exp.RespectNulls, exp.Any, exp.All, exp.WithinGroup,
    exp.Grouping, exp.GroupingId,
)  # fmt: skip
_PARTS = (
    exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.DataType, exp.DataTypeParam, exp.Var, exp.Identifier, exp.If,
    exp.Interval,
)  # fmt: skip

_TAKE_SHARES = tuple(node for form in FORMS.values() if form.takes_shares for node in form.nodes)
_ESTIMATES = ("RR_COUNT", "RR_FREQUENCY")

MAX_LIST = 2_000


def aggregate_form(node: exp.Expr) -> Form:
    """The function of an aggregate call."""
    form = form_of(node)
    assert form is not None, "no call of an aggregate"
    return form


def is_aggregate(node: exp.Expr) -> bool:
    """Is this node a call of an aggregate function? Over results all work; of private rows, those with an answer."""
    return form_of(node) is not None


def is_starred(node: object) -> bool:
    """Is this node a call of an aggregate that may be taken of whole rows, by sqlglot's class for it?"""
    form = None if isinstance(node, exp.Anonymous) else form_of(node)
    return form is not None and form.starred


def bare(node: exp.Expr) -> exp.Expr:
    """An aggregate, with or without FILTER, without the IGNORE NULLS that it has anyway and sqlglot spells out."""
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.IgnoreNulls):
        inner = bare(node.this)
        return node if inner is node.this else exp.Filter(this=inner.copy(), expression=node.expression.copy())
    form = form_of(node.this) if isinstance(node, exp.IgnoreNulls) else None
    return node.this if form is not None and form.nulls_spelt else node


def is_window_function(node: exp.Expr) -> bool:
    """Is this node a function that only makes sense in a window?"""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _WINDOW_NAMES
    return isinstance(node, _WINDOW_NODES)


def is_privacy_unit(node: object) -> bool:
    """Is this node a call of PRIVACY_UNIT(), the unit of a private row whatever its column is called?"""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PRIVACY_UNIT"


def is_randomized(node: object) -> bool:
    """Is this node a call of RANDOMIZED_RESPONSE()?"""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "RANDOMIZED_RESPONSE"


def is_estimate(node: object) -> bool:
    """Is this node a call of RR_COUNT or RR_FREQUENCY, estimates from randomised values?"""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _ESTIMATES


def interval_end(node: object) -> str | None:
    """low for a call of DP_INTERVAL_LOW, high for one of DP_INTERVAL_HIGH, None for all else."""
    if isinstance(node, exp.Anonymous):
        return {"DP_INTERVAL_LOW": "low", "DP_INTERVAL_HIGH": "high"}.get(node.name.upper())
    return None


def holds_aggregate(node: exp.Expr) -> bool:
    """Does it hold an aggregate of its own SELECT? A window's function is none, but the window's parts may be."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        inner = list(function.iter_expressions()) if isinstance(function, exp.Expr) else []
        return any(holds_aggregate(e) for e in [*inner, *(e for e in node.iter_expressions() if e is not node.this)])
    return is_aggregate(node) or any(holds_aggregate(e) for e in node.iter_expressions())


def check_node(node: exp.Expr) -> None:
    """Refuse a node that no list knows. Columns and subqueries are the binder's own business."""
    if isinstance(node, exp.Exists) and not isinstance(node.this, exp.Query):
        hint = "write EXISTS (SELECT 1 FROM …)"
        raise refuse(SQLError, "EXISTS takes a query", node, code="wrong-arguments", hint=hint)
    if isinstance(node, _STRUCTURE + _PARTS) or is_aggregate(node) or is_window_function(node):
        return
    if isinstance(node, exp.Array) and isinstance(node.parent, _TAKE_SHARES):
        return  # the shares of the rows; what they must be is build's business
    if is_privacy_unit(node):
        if node.expressions:
            raise refuse(
                SQLError,
                "PRIVACY_UNIT() takes no argument",
                node,
                code="privacy-unit",
                hint="write COUNT(DISTINCT PRIVACY_UNIT())",
            )
        return
    if is_randomized(node):
        if len(node.expressions) != 1:
            raise refuse(
                SQLError,
                "RANDOMIZED_RESPONSE takes one column",
                node,
                code="randomized-response",
                hint="write RANDOMIZED_RESPONSE(x) for each column",
            )
        return
    if end := interval_end(node):
        if len(node.expressions) != 1:
            name = f"DP_INTERVAL_{end.upper()}"
            raise refuse(
                SQLError, f"{name} takes one alias", node, code="interval", hint=f"write {name}(n) for COUNT(*) AS n"
            )
        return
    entry = lookup(node)
    if entry is None:
        raise refusal(node)
    if entry.check is not None:
        entry.check(node)
    if isinstance(node, exp.In) and len(node.expressions) > MAX_LIST:
        raise refuse(
            SQLError,
            f"an IN list has at most {MAX_LIST:,} values",
            node.this,
            code="too-large",
            hint="make the list a public table, and join it to the result",
        )
