"""Which releases only need their largest groups, in order: those can be chosen instead of counted (CHOOSE-1).

ORDER BY COUNT(*) DESC LIMIT 1 where only keys leave, also around a derived table, and ARG_MAX(key, n) over one.
Nothing else of the noisy table may be looked at: then a table of the winners alone, in their order, does as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.plan.nodes import Given, Plan, Release, Winners, parts_of

MAX_WINNERS = 1_000
AGGREGATE = "a0"


def with_winners(plan: Plan) -> Plan:
    """The plan with every such release marked; whether it pays off is for calibrate to say."""
    found = [_marked(r, name, plan) for r, name in zip(plan.releases, plan.tables, strict=True)]
    return replace(plan, releases=tuple(found))


def _marked(release: Release, name: str, plan: Plan) -> Release:
    recipes = [aggregate.recipe for aggregate in release.aggregates]
    if not release.keys or len(recipes) != 1 or recipes[0] is None or not recipes[0].ranks_groups:
        return release
    given = [p.query for r in plan.releases for p in parts_of(r.input) if isinstance(p, Given)]
    places = [t for query in [plan.post, *given] for t in query.find_all(exp.Table) if t.name == name]
    if len(places) != 1 or any(t.name == name for query in given for t in query.find_all(exp.Table)):
        return release
    winners = _winners(places[0], name)
    return release if winners is None else replace(release, winners=winners)


def _winners(table: exp.Table, name: str) -> Winners | None:
    select = _reader(table)
    if select is None:
        return None
    uses = [c for c in select.find_all(exp.Column) if c.table == name and not _is_key(c.name)]
    if any(c.name != AGGREGATE for c in uses):
        return None
    if (winners := _first(select, uses)) is not None:
        return winners
    # A derived table that shows keys and the aggregate as they stand.
    shown = [o for o in select.selects if isinstance(o.unalias(), exp.Column)]
    counts = [o.alias_or_name for o in shown if o.unalias().name == AGGREGATE]
    if not _is_plain(select) or len(shown) < len(select.selects) or len(uses) != 1 or len(counts) != 1:
        return None
    around = select.parent
    if not isinstance(around, exp.Subquery) or around.args["alias"].columns:
        return None
    outer = _reader(around)
    if outer is None:
        return None
    alias, column = around.alias, counts[0]
    uses = [c for c in outer.find_all(exp.Column) if c.table == alias and c.name == column]
    return _first(outer, uses) or _argument(outer, uses)


def _reader(source: exp.Expr) -> exp.Select | None:
    """The SELECT that reads from this source and from nothing else."""
    from_ = source.parent
    select = from_.parent if isinstance(from_, exp.From) else None
    if not isinstance(select, exp.Select) or select.args.get("joins") or select.args.get("laterals"):
        return None
    return select


def _is_key(name: str) -> bool:
    return name.startswith("k") and name[1:].isdigit()


def _is_plain(select: exp.Select, *, but: Sequence[str] = ()) -> bool:
    return not any(v for k, v in select.args.items() if k not in ("expressions", "from_", "kind", *but))


def _first(select: exp.Select, uses: Sequence[exp.Column]) -> Winners | None:
    """ORDER BY the aggregate first, then keys, with a LIMIT; the aggregate is at most selected beside that."""
    order, limit, offset = (select.args.get(k) for k in ("order", "limit", "offset"))
    if select.find(exp.Window):  # it looks at all groups
        return None
    if order is None or limit is None or not _is_plain(select, but=("order", "limit", "offset")) or not uses:
        return None
    first = order.expressions[0]
    if not isinstance(first, exp.Ordered) or all(first.this is not use for use in uses):
        return None
    selected = {id(o.unalias()) for o in select.selects}
    if any(use is not first.this and id(use) not in selected for use in uses):
        return None
    counts = [_whole(c.expression if c is not None else exp.Literal.number(0)) for c in (limit, offset)]
    if isinstance(limit, exp.Fetch) or counts[0] is None or counts[1] is None:
        return None
    total = counts[0] + counts[1]
    largest, shown = bool(first.args.get("desc")), len(uses) > 1
    return Winners(total, largest, shown=shown) if 1 <= total <= MAX_WINNERS else None


def _argument(select: exp.Select, uses: Sequence[exp.Column]) -> Winners | None:
    """ARG_MAX(key, aggregate), or ARG_MIN, and nothing beside it."""
    calls = [o.unalias() for o in select.selects]
    if not _is_plain(select) or len(calls) != 1 or len(uses) != 1 or select.find(exp.Window):
        return None
    call = calls[0]
    if not isinstance(call, exp.ArgMax | exp.ArgMin) or call.args.get("count") or call.expression is not uses[0]:
        return None
    return Winners(1, isinstance(call, exp.ArgMax), present=True)


def _whole(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None
