"""Why build says no, in words."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.form import Form
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Expr, Scan
from dpsql.sql.nodes import is_aggregate, is_estimate
from dpsql.sql.refuse import offsets, refuse, shown


def returns_rows(node: Expr, scan: Scan, what: str) -> PrivacyError:
    """Rows of a private table where only aggregates may leave."""
    outputs = node.selects if isinstance(node, exp.Query) else []
    if isinstance(node, exp.Select) and node.args.get("group"):
        return refuse(
            PrivacyError,
            f"GROUP BY keeps the unit of {scan.table}: each group would be one person's",
            node.args["group"].expressions,
            code="returns-rows",
            hint="group by something that many people share; or aggregate once more: SELECT AVG(n) FROM (SELECT …)",
        )
    return refuse(
        PrivacyError,
        f"{what} returns rows of a private table, {scan.table}",
        outputs if offsets(outputs) else scan.node,
        code="returns-rows",
        hint="aggregate them: COUNT(*), SUM(x), AVG(x), with or without GROUP BY",
    )


def unit_in_sets(keys: Sequence[Expr]) -> PrivacyError:
    """A grouping set whose groups are single units, beside others."""
    return refuse(
        PrivacyError,
        "one of these grouping sets keeps the unit: each of its groups would be one person's",
        list(keys),
        code="returns-rows",
        hint="leave the unit out of the grouping sets; or group by it in a derived table, and aggregate once more",
    )


def not_selected(node: Expr) -> SQLError:
    """ORDER BY of a SELECT DISTINCT that names something else."""
    return refuse(
        SQLError,
        "ORDER BY of a SELECT DISTINCT takes what is selected",
        node,
        code="order-by",
        hint="order by an output column",
    )


def check_distinct(node: exp.Select) -> None:
    """DISTINCT ON takes rows of each unit, or it is refused."""
    clause = node.args.get("distinct")
    if clause is not None and clause.args.get("on"):
        raise refuse(
            PrivacyError,
            "DISTINCT ON over private rows picks some people's rows and not others'",
            clause.args["on"],
            code="limit-private",
            hint="take rows of each unit: DISTINCT ON (unit), without QUALIFY; or aggregate first, DISTINCT ON works "
            "on the result",
        )


def only_counted(node: Expr) -> PrivacyError:
    """PRIVACY_UNIT() anywhere but in COUNT(DISTINCT …)."""
    return refuse(
        PrivacyError,
        "PRIVACY_UNIT() stands for the owner of a private row, and can only be counted",
        node,
        code="privacy-unit",
        hint="write COUNT(DISTINCT PRIVACY_UNIT()) over a private table",
    )


def results_only(join: exp.Join) -> PrivacyError:
    """A join that looks at the order or at the absence of other people's rows."""
    kind = str(join.args.get("method") or join.args.get("kind")).upper()
    return refuse(
        PrivacyError,
        f"{kind} JOIN works on results and public tables, not on private rows",
        join.this,
        code="join-kind",
        hint="aggregate the private table in a CTE, then join the result",
    )


def lateral_rows(join: exp.Join) -> PrivacyError:
    """LATERAL beside a private table."""
    return refuse(
        PrivacyError,
        "LATERAL works beside results and public tables, not beside private rows",
        join.this,
        code="join-kind",
        hint="compute the expression in the SELECT list of a subquery",
    )


def not_yet_correlated(node: exp.Column) -> PrivacyError:
    """A column of an outer query where only the subquery's own rows can be looked at."""
    return refuse(
        PrivacyError,
        f"{shown(node)} belongs to an outer query, and this subquery can't look at it",
        node,
        code="correlated",
        hint="aggregate in a CTE and join the result; or compare the unit of both queries with =",
    )


def not_grouped(node: exp.Column) -> SQLError:
    """A column that has no one value in a group."""
    name = shown(node)
    if node.this.meta.get("star"):
        message = f"* stands for {name}, too, which must be in GROUP BY or inside an aggregate"
        hint = "write the columns of GROUP BY instead of *"
    elif node.find_ancestor(exp.Having):
        message = f"HAVING looks at groups, and {name} is neither in GROUP BY nor inside an aggregate"
        hint = f"put a condition on rows into WHERE, or aggregate: AVG({name})"
    else:
        message = f"{name} must be in GROUP BY or inside an aggregate"
        hint = f"add {name} to GROUP BY, or aggregate it: COUNT({name}), AVG({name}), …"
    return refuse(SQLError, message, node, code="not-grouped", hint=hint)


def misplaced(node: Expr) -> SQLError:
    """An aggregate where single rows are looked at."""
    around = node.parent
    while around is not None and not isinstance(around, exp.Where | exp.Query) and not is_aggregate(around):
        around = around.parent
    if around is not None and is_aggregate(around):
        message = "an aggregate can't hold another one"
        hint = "aggregate in two steps: SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM … GROUP BY …)"
    elif isinstance(around, exp.Where):
        condition = node
        while condition.parent is not around and not isinstance(condition.parent, exp.And):
            assert condition.parent is not None
            condition = condition.parent
        filtered = isinstance(around.parent, exp.Filter)
        message = f"{'FILTER' if filtered else 'WHERE'} looks at single rows, so it can't hold an aggregate"
        hint = "filter by columns" if filtered else f"put a condition on groups into HAVING: HAVING {shown(condition)}"
    else:
        message = "an aggregate can't stand here"
        hint = "aggregate in the SELECT list, HAVING or ORDER BY"
    return refuse(SQLError, message, node, code="misplaced-aggregate", hint=hint)


def no_response(node: Expr) -> PrivacyError:
    """RR_COUNT or RR_FREQUENCY of anything but a column of randomised values as it stands."""
    return refuse(
        PrivacyError,
        f"{node.name.upper()} estimates from a column that RANDOMIZED_RESPONSE made, and this is none as it stands",
        node,
        code="randomized-response",
        hint=f"write SELECT {node.name.upper()}(x) FROM (SELECT RANDOMIZED_RESPONSE(b) AS x FROM t)",
    )


def unsupported_aggregate(form: Form, node: Expr) -> PrivacyError:
    """An aggregate without a recipe."""
    if is_estimate(node):
        return no_response(node)
    known = ", ".join(sorted(name for name, recipe in RECIPES.items() if not recipe.tells_presence))
    return refuse(
        PrivacyError,
        f"{form.name} shows single rows, and no noise hides that"
        if form.shows_rows
        else f"{form.name} of private rows is not supported by this version",
        node,
        code="unsupported-aggregate",
        hint=form.instead or f"what can be asked of private rows: {known}",
    )
