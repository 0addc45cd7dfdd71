"""What of Google's and Snowflake's SQL build must understand: unit columns, contribution bounds, interval ends."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.aggregates.form import Form
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Expr, Relation, scanned
from dpsql.plan.owners import units, ways
from dpsql.policy.model import Policy
from dpsql.sql.google import BOUNDS, UNIT_COLUMN, Bounds
from dpsql.sql.nodes import holds_aggregate, interval_end
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import Rewrite, nodes

MOST_ROWS = 2**31
MOST = 10**280  # of a sum: doubles hold 2²⁰ times as much

# ---------------------------------------------------------------- privacy_unit_column


def unit_column(node: exp.Select) -> exp.Column | None:
    """The privacy_unit_column of a SELECT's clause, bound; None if it names none."""
    column: exp.Column | None = node.meta.get(UNIT_COLUMN)
    return column


def check_unit(column: exp.Column, plan: Expr | None, rows: Relation | None, policy: Policy) -> None:
    """A privacy_unit_column must be the policy's unit, by lineage. plan: it as a plan column, over these rows."""
    if isinstance(plan, exp.Column) and rows is not None and plan.name in units(ways(rows, policy)):
        return
    message = f"{shown(column)} is not the privacy unit: the policy says what that is"
    hint = "leave privacy_unit_column out: the policy knows the unit"
    if rows is None:
        message = "privacy_unit_column stands in a SELECT without private rows"
    else:
        scan = scanned(rows)
        if scan.unit is None:
            message += f", and in {scan.table} each row is one"
        elif scan.links:
            message += f", and rows of {scan.table} belong to {scan.links[-1].table}.{scan.owner}"
        else:
            hint = f"write privacy_unit_column = {scan.owner}, or leave it out"
    raise refuse(PrivacyError, message, column, code="privacy-unit", hint=hint)


# ---------------------------------------------------------------- contribution bounds


def contribution(call: Expr, form: Form, distinct: bool) -> Bounds | None:
    """The contribution bounds of an aggregate call, where they make sense."""
    bounds: Bounds | None = call.meta.get(BOUNDS)
    name = form.name
    if bounds is None:
        return None
    if distinct:
        raise _wrong(bounds, "what is DISTINCT is counted once, so there is nothing to clip", "leave the bounds out")
    if form.pair or form.clips == "nothing":
        instead = f"clip: {name}(CLIP(y, 0, 100), CLIP(x, 0, 100))" if form.pair else f"leave them out: {name}(x)"
        raise _wrong(bounds, f"contribution bounds don't say what they clip in {name}", instead)
    if bounds.per == "row":
        if form.clips == "rows":
            example = f"{name}(*, contribution_bounds_per_group => (0, 5))"
            raise _wrong(bounds, f"{name} counts rows, and has no value to clip", f"bound its groups: {example}")
        return bounds
    if form.clips == "rows":
        whole = bounds.low.denominator == bounds.high.denominator == 1
        if not whole or bounds.low < 0 or not 1 <= bounds.high <= MOST_ROWS:
            raise _wrong(
                bounds,
                f"{name} takes whole numbers from 0 to 2³¹ as bounds, and the upper one is at least 1",
                f"write {name}(*, contribution_bounds_per_group => (0, 5))",
            )
    elif form.clips != "sums":
        instead = f"clip each row: {name}(x, contribution_bounds_per_row => (0, 100))"
        if form.per_group_instead:
            instead += f"\n{form.per_group_instead.replace('{bounds}', bounds.text)}"
        raise _wrong(bounds, f"only SUM and COUNT can be clipped per group, not {name}", instead)
    elif max(abs(bounds.low), abs(bounds.high)) > MOST:
        raise _wrong(bounds, "these bounds are too wide for any sum", "give it bounds below 1e280")
    elif bounds.low == bounds.high == 0:
        raise _wrong(bounds, "between 0 and 0 nothing is left of a sum", "make one of the bounds another number than 0")
    return bounds


def _wrong(bounds: Bounds, message: str, hint: str) -> SQLError:
    error = SQLError(message, code="contribution-bounds", hint=hint)
    error.offsets = bounds.place
    return error


# ---------------------------------------------------------------- DP_INTERVAL_LOW, DP_INTERVAL_HIGH

_AGGREGATE = re.compile(r"a\d+")
_END = re.compile(r"(a\d+)_(low|high)")


def interval_column(call: Expr, rewrite: Rewrite) -> str:
    """The column of a noisy table that holds an end of an aggregate's interval; rewrite: gives that table's columns."""
    argument = call.expressions[0]
    found = rewrite(argument) if holds_aggregate(argument) else None
    if not isinstance(found, exp.Column) or not _AGGREGATE.fullmatch(found.name):
        raise not_an_aggregate(call)
    return f"{found.name}_{interval_end(call)}"


def interval_of(column: str) -> tuple[int, str] | None:
    """Of which aggregate a column of a noisy table is an end, and which end; None: of none."""
    found = _END.fullmatch(column)
    return None if found is None else (int(found[1][1:]), found[2])


def not_an_aggregate(call: Expr) -> SQLError:
    """DP_INTERVAL_LOW or _HIGH of anything but an aggregate of private rows as it stands."""
    name = f"DP_INTERVAL_{str(interval_end(call)).upper()}"
    error = SQLError(
        f"{name} takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has "
        "noise of its own",
        code="interval",
        hint=f"write SELECT COUNT(*) AS n, {name}(n) FROM …",
    )
    if "start" in call.meta:
        error.offsets = (call.meta["start"], call.meta["end"] + 2)  # with its bracket
    return error


def check_post(post: exp.Query) -> None:
    """What makes sense for aggregates of private rows alone must not be left over for the results."""
    for node in nodes(post):
        if interval_end(node) is not None:
            raise not_an_aggregate(node)
        bounds: Bounds | None = node.meta.get(BOUNDS)
        if bounds is not None:
            raise _wrong(
                bounds,
                "results are public, and need no contribution bounds",
                "leave them out; CLIP(x, 0, 100) clips a number",
            )
