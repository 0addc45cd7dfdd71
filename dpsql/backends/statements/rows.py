"""Rows: relations, and values on their grids -> sqlglot trees. Analyst text never gets here, only our own nodes."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from dpsql.backends.statements.divide import divided
from dpsql.backends.statements.pieces import (
    alias,
    column,
    conjunction,
    every,
    grouped,
    joined,
    same,
    select,
    subquery,
    table,
    where,
)
from dpsql.plan.nodes import (
    Again,
    Filter,
    Given,
    Gridded,
    GroupUnits,
    Join,
    Mark,
    OnDomain,
    Project,
    PublicTable,
    Relation,
    Scan,
    ToGrid,
    Union,
    Windows,
    columns_of,
    unit_of,
)
from dpsql.plan.rows import conjuncts, given_rows
from dpsql.sql.gridded import cast, gridded, present
from dpsql.sql.trees import copied, nodes_of

CELLS = "dpsql_cells"  # the Arrow table of public cells: its columns are cell, k0, k1, …
CELL = "cell"
ROWS_READ = "dpsql_rows"
TOGETHER = 8
"""How many values one look at the rows puts on their grids. Columns are computed for some thousand rows at a time, and
those of more values than that don't stay in the processor's caches (FACT-SPEED-4)."""

Names = frozenset[str]


def public_cells(keys: tuple[str, ...], types: tuple[str, ...]) -> exp.Subquery:
    """The public cells, their keys in the very types that the rows' keys have."""
    typed = [alias(cast(column(k), t), k) for k, t in zip(keys, types, strict=True)]
    return subquery(select([column(CELL), *typed], table(CELLS)), CELLS)


def gridded_rows(node: Gridded) -> exp.Select:
    """Rows with their values as integers."""
    match node:
        case ToGrid():
            return _to_grid(node)
        case OnDomain():
            rows = select([every("d")], subquery(_to_grid(node.input), "d"))
            return joined(rows, public_cells(node.keys, node.types), same(node.keys, CELLS, "d"), "SEMI")
        case Again():
            return select([exp.Star()], table(ROWS_READ))
        case _:
            assert_never(node)


def _to_grid(node: ToGrid) -> exp.Select:
    replaced = {value for _, value, _ in node.values}
    kept: list[exp.Expr] = [column(name) for name, _ in node.input.columns if name not in replaced]
    made = [alias(gridded(column(value), grid), name) for name, value, grid in node.values]
    rows = _project(node.input, gathered=node.sparse and len(made) > TOGETHER)
    return divided(select([*kept, *made], subquery(rows, "p")), node.together)


def _project(node: Project, *, gathered: bool = False) -> exp.Select:
    """gathered: sorted by unit below, for nothing but that rows come in thousands again (FACT-SPEED-4)."""
    outputs = [alias(copied(e), name) for name, e in node.columns]
    rows = relation(node.input, _named(*(e for _, e in node.columns)))
    unit = unit_of(node.input)
    if gathered and unit is not None:
        rows = select([exp.Star()], subquery(rows, "g"))
        rows.set("order", exp.Order(expressions=[exp.Ordered(this=column(unit))]))
    return select(outputs, subquery(rows, "s"))


def relation(node: Relation | PublicTable | Given, needed: Names | None = None) -> exp.Select:
    """The rows of a relation, each with its unit. needed: columns that are looked at; None: any of them may be."""
    match node:
        case Scan():
            return _scan(node, needed)
        case PublicTable():
            shown = [(name, source) for name, source in node.columns if needed is None or name in needed]
            return select([alias(column(source), name) for name, source in shown], table(node.table))
        case Given():
            return given_rows(node)
        case Filter():
            return _filter(node, needed)
        case Project():
            return _project(node)
        case Join():
            return _join(node, needed)
        case Mark():
            seen = None if needed is None else needed - {node.column} | _asked(node)
            return select([every("a"), alias(_test(node), node.column)], subquery(relation(node.input, seen), "a"))
        case Union():
            sides = [relation(one) for one in node.inputs]
            whole = sides[0] if len(sides) == 1 else exp.union(*sides, distinct=False, copy=False)
            return select([exp.Star()], subquery(whole, "u"))
        case GroupUnits():
            keys = [alias(copied(e), name) for name, e in node.keys]
            values = [alias(copied(e), name) for name, e in node.columns]
            # A constant is no key, and a number would be a position.
            by = [column(node.unit), *(copied(e) for _, e in node.keys if e.find(exp.Column))]
            seen = _named(*(e for _, e in (*node.keys, *node.columns))) | {node.unit}
            rows = subquery(relation(node.input, seen), "g")
            return grouped(select([column(node.unit), *keys, *values], rows), by)
        case Windows():
            seen = None if needed is None else needed - {node.column} | _named(node.window)
            rows = subquery(relation(node.input, seen), "w")
            return select([every("w"), alias(copied(node.window), node.column)], rows)
        case _:
            assert_never(node)


def _named(*expressions: exp.Expr | None) -> Names:
    """The columns that expressions look at."""
    return frozenset(c.name for e in expressions if e is not None for c in nodes_of(e, exp.Column))


def _asked(node: Mark) -> Names:
    """The columns that a mark looks at, of either side."""
    return _named(*(node.member or ()), node.condition) | frozenset(node.units or ())


def _filter(node: Filter, needed: Names | None) -> exp.Select:
    """A filter by a mark asks for it where it stands: a semi- or anti-join instead of a column."""
    conditions, below = conjuncts(node.condition), node.input
    if isinstance(below, Mark):
        mark = column(below.column)
        asked = [c for c in conditions if (c.this.unnest() if isinstance(c, exp.Not) else c) == mark]
        rest = [c for c in conditions if c not in asked]
        if len(asked) == 1 and not any(c.name == below.column for r in rest for c in nodes_of(r, exp.Column)):
            kept = exp.Not(this=_test(below)) if isinstance(asked[0], exp.Not) else _test(below)
            inner: Relation = below.input if not rest else Filter(below.input, exp.and_(*(copied(r) for r in rest)))
            constant = exp.Boolean(this=not isinstance(asked[0], exp.Not))
            seen = None if needed is None else needed - {below.column} | _asked(below)
            rows = select([every("a"), alias(constant, below.column)], subquery(relation(inner, seen), "a"))
            return where(rows, kept)
    seen = None if needed is None else needed | _named(node.condition)
    return where(select([exp.Star()], subquery(relation(below, seen), "f")), copied(node.condition))


def _join(node: Join, needed: Names | None) -> exp.Select:
    """Theorem OWN-3. Rows of two private sides match only where their units are the same."""
    conditions = _conditions(node.units, node.condition, columns_of(node.left), columns_of(node.right))
    seen = None if needed is None else needed | _named(node.condition) | frozenset(node.units or ())
    left, right = subquery(relation(node.left, seen), "a"), subquery(relation(node.right, seen), "b")
    rows = select([every("a"), every("b")], left)
    if not conditions:
        if node.kind == "inner":
            return joined(rows, right, None, "CROSS")
        conditions.append(exp.true())
    return joined(rows, right, conjunction(conditions), "LEFT" if node.kind == "left" else "INNER")


def _conditions(
    units: tuple[str, str] | None, condition: exp.Expr | None, left: tuple[str, ...], right: tuple[str, ...]
) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    if units is not None:
        found.append(exp.EQ(this=column(units[0], "a"), expression=column(units[1], "b")))
    if condition is not None:
        found.append(_sided(condition, left, right))
    return found


def _sided(e: exp.Expr, left: tuple[str, ...], right: tuple[str, ...]) -> exp.Expr:
    """Each column with its side: a bare name that is one of the sides' would mean all of it."""
    copy = copied(e)
    for one in nodes_of(copy, exp.Column):
        side = "a" if one.name in left else "b"
        assert side == "a" or one.name in right, one.name
        one.set("table", exp.to_identifier(side))
    return copy


def _test(node: Mark) -> exp.Expr:
    """Theorem OWN-4. EXISTS never is NULL; IN over public values is as SQL has it."""
    other = subquery(relation(node.other, _asked(node)), "b")
    left, right = columns_of(node.input), columns_of(node.other)
    if node.member is not None:
        value, theirs = (_sided(e, left, right) for e in node.member)
        return exp.In(this=value, query=exp.Subquery(this=select([theirs], other)))
    conditions = _conditions(node.units, node.condition, left, right)
    found = select([], other)
    return exp.Exists(this=where(found, conjunction(conditions)) if conditions else found)


def _scan(node: Scan, needed: Names | None) -> exp.Select:
    """Theorem OWN-1. Inner joins along the links drop rows that point to nothing; NULL units are dropped."""
    shown = [(name, source) for name, source in node.columns if needed is None or name in needed]
    columns = [alias(column(source, "t0"), name) for name, source in shown]
    last = f"t{len(node.links)}"
    if node.links:
        assert node.unit is not None and node.owner is not None
        columns.append(alias(column(node.owner, last), node.unit))
    elif node.unit is not None and node.owner is None:
        columns.append(alias(exp.Window(this=exp.RowNumber()), node.unit))
    rows = select(columns, table(node.table, "t0"))
    for i, link in enumerate(node.links):
        equal = [exp.EQ(this=column(a, f"t{i}"), expression=column(b, f"t{i + 1}")) for a, b in link.on]
        joined(rows, table(link.table, f"t{i + 1}"), conjunction(equal))
    return rows if node.owner is None else where(rows, present(column(node.owner, last)))
