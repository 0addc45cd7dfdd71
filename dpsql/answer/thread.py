"""Which result row comes from which cell of a release, and how each output moves with the cell's aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.answer.gradient import STILL, Gradient, Look, Moves, moves, one
from dpsql.answer.intervals import SET_SIZE, Origin
from dpsql.answer.tables import CELL
from dpsql.core.frozen import dataclass
from dpsql.plan.google import interval_of
from dpsql.plan.grouping import SETS, branches
from dpsql.sql.nodes import holds_aggregate

SLOPE = "dpsql hidden slope"


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """An output column: the aggregate it shows unchanged, if it does, and how it moves, if that is known."""

    origin: Origin | None
    moves: Moves | None


@dataclass(frozen=True, slots=True, eq=False)
class Thread:
    """A SELECT each row of which is one cell; behind its outputs come the cell and `hidden` slopes."""

    releases: tuple[str, ...]
    outputs: tuple[Output, ...]
    hidden: tuple[str, ...]
    depth: int = 0  # of subqueries below it


Numeric = Callable[[str, int], bool]
"""Is an aggregate of a release a noisy number, which has slopes?"""


def numbered(root: exp.Query) -> exp.Query:
    """Give the cells of grouping sets one numbering: those of the second set come after those of the first."""
    for subquery in root.find_all(exp.Subquery):
        if SETS in subquery.meta:
            for i, (branch, table) in enumerate(zip(branches(subquery.this), subquery.meta[SETS], strict=True)):
                number = exp.Add(this=_cell(table), expression=exp.Literal.number(i * SET_SIZE))
                branch.append("expressions", exp.alias_(number, CELL, quoted=True))
    return root


def ordered(root: exp.Query, releases: frozenset[str]) -> exp.Query:
    """Answers come in key order unless the query orders them (attack 36)."""
    if not isinstance(root, exp.Select) or _released(root, releases) is None:
        return root
    if not root.args.get("order") and not root.args.get("distinct"):
        root.set("order", exp.Order(expressions=[exp.Ordered(this=_cell(root.args["from_"].this.alias_or_name))]))
    return root


def threaded(
    root: exp.Query, releases: frozenset[str], numeric: Numeric, *, slopes: bool = True
) -> tuple[exp.Query, Thread | None]:
    """Add the hidden cell to the output, and slopes, where each result row is one cell of one release."""
    if not isinstance(root, exp.Select) or root.args.get("distinct") or root.args.get("group"):
        return root, None
    if any(o.alias_or_name.lower() == CELL for o in root.selects):  # somebody's own column
        return root, None
    if (tables := _released(root, releases)) is not None:
        look = _aggregate_of(tables, numeric)
        outputs = [Output(origin_of(o.this, tables), moves(o.this, look)) for o in root.selects]
        return root, _exported(root, root.args["from_"].this.alias_or_name, Thread(tables, tuple(outputs), ()), slopes)
    from_ = root.args.get("from_")
    if from_ is None or root.args.get("joins") or not isinstance(from_.this, exp.Subquery) or _aggregates(root):
        return root, None
    inner, thread = threaded(from_.this.this, releases, numeric, slopes=slopes)
    if thread is None:
        return root, None
    behind = 1 + len(thread.hidden)
    names = [c.name for c in from_.this.args["alias"].columns] or [o.alias for o in inner.selects[:-behind]]
    if from_.this.args["alias"].columns:
        for name in (CELL, *thread.hidden):
            from_.this.args["alias"].append("columns", exp.to_identifier(name, quoted=True))
    known = dict(zip(names, thread.outputs, strict=False))
    outputs = [_through(o.this, known) for o in root.selects]
    return root, _exported(
        root, from_.this.alias, Thread(thread.releases, tuple(outputs), (), thread.depth + 1), slopes
    )


def _through(node: exp.Expr, known: Mapping[str, Output]) -> Output:
    """An output over a subquery that is a thread itself."""
    look: Look = lambda c: known[c.name].moves if c.name in known else None  # noqa: E731  # a lambda reads best here
    shown = known.get(node.name) if isinstance(node, exp.Column) else None
    return Output(shown.origin if shown is not None else None, moves(node, look))


def _exported(root: exp.Select, table: str, thread: Thread, slopes: bool) -> Thread:
    """Add the cell and the slopes to what a SELECT gives; its outputs' slopes are then columns of it."""
    root.append("expressions", exp.alias_(_cell(table), CELL, quoted=True))
    hidden: list[str] = []
    if not slopes:
        return replace(thread, outputs=tuple(Output(o.origin, None) for o in thread.outputs))

    def column(slope: exp.Expr) -> exp.Expr:
        hidden.append(f"{SLOPE} {thread.depth} {len(hidden)}")
        root.append("expressions", exp.alias_(slope.copy(), hidden[-1], quoted=True))
        return exp.Column(this=exp.to_identifier(hidden[-1], quoted=True))

    def columns(gradient: Gradient) -> Gradient:
        return {aggregate: column(slope) for aggregate, slope in gradient.items()}

    found = []
    for output in thread.outputs:
        known = output.moves
        if known is not None and known.slopes and output.origin is None:
            known = Moves(columns(known.slopes), tuple(columns(d) for d in known.doubts), known.unit)
        found.append(Output(output.origin, known))
    return replace(thread, outputs=tuple(found), hidden=tuple(hidden))


def _released(root: exp.Select, releases: frozenset[str]) -> tuple[str, ...] | None:
    """The release that a SELECT reads, or the releases of its grouping sets; None where it reads anything else."""
    from_ = root.args.get("from_")
    if from_ is None or root.args.get("joins"):
        return None
    source = from_.this
    if isinstance(source, exp.Table) and source.name in releases and not source.args.get("alias"):
        return (source.name,)
    found: tuple[str, ...] | None = source.meta.get(SETS)
    return found


def _aggregates(root: exp.Select) -> bool:
    return any(holds_aggregate(o) for o in root.selects) or root.args.get("having") is not None


def _aggregate_of(releases: tuple[str, ...], numeric: Numeric) -> Look:
    """How the columns of a release move: an aggregate with itself, a key with nothing."""

    def look(column: exp.Column) -> Moves | None:
        origin = origin_of(column, releases)
        if origin is None:
            return None if interval_of(column.name) is not None else STILL
        return Moves({origin.aggregate: one()}) if all(numeric(r, origin.aggregate) for r in releases) else None

    return look


def origin_of(node: exp.Expr, releases: tuple[str, ...]) -> Origin | None:
    """The aggregate that an output shows unchanged."""
    if isinstance(node, exp.Column) and node.name.startswith("a") and node.name[1:].isdigit():
        return Origin(releases, int(node.name[1:]))
    return None


def _cell(table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(CELL, quoted=True), table=exp.to_identifier(table, quoted=True))
