"""Which units have which values: Matching -> a sqlglot tree, and its result -> the number of values for each cell."""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from dpsql.backends.statements.bounding import Form, keyed_hash
from dpsql.backends.statements.render import rows_in_cells
from dpsql.backends.statements.rows import CELL, CELLS, public_cells
from dpsql.plan.nodes import Gridded, Matching, WeightRows
from dpsql.quote.candidates import UNIT
from dpsql.sql.dialect import DIALECT
from dpsql.statistics.distinct import Numbers, assigned

SEEN, VALUES, MANY, EDGES, OWNED, OVER, HEAVY, LIGHT, REST = (
    f"dpsql_{name}" for name in ("seen", "values", "many", "edges", "owned", "over", "heavy", "light", "rest")
)
OUTPUTS = (CELL, "u", "v", "c")  # cell; unit, value and capacity in it; where u = −1 another v values, which all count


def render_matching(node: Matching, form: Form = Form.JOINS) -> exp.Select:
    """How many values count in any case, by cell, and who has the others (Theorem DISTINCT-1).

    A unit is heavy in a cell where it has more values than it may take; what any other unit has counts. All of it
    comes from one look at the rows: where they are only numbered as they are read, a second one could number them anew.
    """
    rows = _rows(node, node.input, form, UNIT)
    certain = exp.select("cell", "-1 AS u", "COUNT(*) AS v", "0 AS c").from_(LIGHT).group_by("cell")
    limits = [limit for limit in (node.mass, node.peak) if limit is not None]
    if not limits:
        return certain.with_(LIGHT, as_=exp.select("cell", "x").distinct().from_(rows.subquery("r")))
    assert form is Form.JOINS, "once.py has the statement that names rows once"
    pair, value = _equal(EDGES, HEAVY, "cell", UNIT), _equal(EDGES, LIGHT, "cell", "x")
    within: exp.Query = exp.select(f"{EDGES}.cell", f"{EDGES}.x").from_(EDGES).join(HEAVY, on=pair, join_type="ANTI")
    first, few = (
        _looked_at(rows, min(limits))
        if node.every is None
        else _listed(rows, _rows(node, node.every, form), keys=bool(node.keys))
    )
    within = exp.union(few, within, distinct=False)
    light = exp.select("cell", "x").distinct().from_(within.subquery("l"))
    rest = exp.select(f"{EDGES}.cell", f"{EDGES}.x", "u", "c").from_(EDGES).join(HEAVY, on=pair)
    rest = rest.join(LIGHT, on=value, join_type="ANTI")
    values = exp.select("cell", "x").distinct().from_(REST)
    numbers = exp.select("*", "ROW_NUMBER() OVER () AS v").from_(values.subquery("n")).subquery("b")
    uncertain = (
        exp.select("a.cell", "u", "v", "c").from_(f"{REST} AS a").join(numbers, on=_equal("a", "b", "cell", "x"))
    )
    query = exp.select("*").from_(exp.union(certain, uncertain, distinct=False, copy=False).subquery("w", copy=False))
    parts = {**first, OWNED: _owned(node), OVER: _over(node), HEAVY: _heavy(node), LIGHT: light, REST: rest}
    for name, part in parts.items():
        if part is not None:
            query = query.with_(name, as_=part, materialized=True, copy=False)
    return query


def _rows(node: Matching, input_: Gridded | WeightRows, form: Form, *more: str) -> exp.Select:
    """The cell and the value x of each row that has one (by way of listed units: of all), and more of its columns."""
    assert node.tally.value is not None
    outputs = {**{name: name for name in more}, "x": node.tally.value}
    absent = node.every is not None  # then it is asked of values, and of few units' rows
    return rows_in_cells(input_, node.keys, node.types, outputs, node.tally.where, form, absent=absent)


def _looked_at(rows: exp.Select, limit: int) -> tuple[dict[str, exp.Select | None], exp.Select]:
    """Values of units with more rows than the least limit, and the values of all others.

    Theorem DISTINCT-1: a unit has no more values than rows, so whoever has no more rows than that is heavy nowhere.
    """
    many = exp.select(UNIT).from_(SEEN).group_by(UNIT).having(f"COUNT(*) > {limit}")
    few = exp.select(f"{SEEN}.cell", f"{SEEN}.x").from_(SEEN).join(MANY, on=_equal(SEEN, MANY, UNIT), join_type="ANTI")
    return {SEEN: rows, MANY: many, EDGES: _edges()}, few


def _listed(rows: exp.Select, every: exp.Select, *, keys: bool) -> tuple[dict[str, exp.Select | None], exp.Select]:
    """Values of listed units that have one which nobody else has, and the values of all others.

    Theorem INDEX-2: whoever isn't listed is heavy nowhere, and has a value that more rows hold than listed units' do.
    Nobody is asked whose the other rows are.
    """
    by_value = exp.select("cell" if keys else "CAST(0 AS BIGINT) AS cell", "x", "COUNT(*) AS n")
    by_value = by_value.group_by("cell", "x") if keys else by_value.group_by("x")  # FACT-SPEED-5
    all_of, theirs = by_value.from_(every.subquery("r")).subquery("a"), by_value.from_(SEEN).subquery("b")
    values = exp.select("a.cell", "a.x", "a.n > COALESCE(b.n, 0) AS others").from_(all_of)
    values = values.join(theirs, on=_equal("a", "b", "cell", "x"), join_type="LEFT")
    alone = exp.select("cell", "x").from_(VALUES).where("NOT others").subquery("a")
    many = exp.select(UNIT).distinct().from_(SEEN).join(alone, on=_equal(SEEN, "a", "cell", "x"), join_type="SEMI")
    few = exp.select("cell", "x").from_(VALUES).where("others AND NOT x IS NULL")
    return {SEEN: rows, VALUES: values, MANY: many, EDGES: _edges().where(f"NOT {SEEN}.x IS NULL")}, few


def _edges() -> exp.Select:
    """Which values units have that are looked at."""
    return exp.select(f"{SEEN}.*").distinct().from_(SEEN).join(MANY, on=_equal(SEEN, MANY, UNIT), join_type="SEMI")


def _owned(node: Matching) -> exp.Select:
    """How many values m each unit has in each cell, and p of them within the peak."""
    peaked = "COUNT(*)" if node.peak is None else f"LEAST(COUNT(*), {node.peak})"
    return exp.select("cell", UNIT, "COUNT(*) AS m", f"{peaked} AS p").from_(EDGES).group_by("cell", UNIT)


def _over(node: Matching) -> exp.Select | None:
    """The units with more values than the mass; None where no values are shared out over cells."""
    if node.mass is None or not node.keys:
        return None
    return exp.select(UNIT, "SUM(p) AS s").from_(OWNED).group_by(UNIT).having(f"SUM(p) > {node.mass}")


def _heavy(node: Matching) -> exp.Select:
    """The units and cells where a unit has more values than its capacity c there; u numbers them."""
    if node.mass is None or not node.keys:
        c = "p" if node.mass is None else f"LEAST(p, {node.mass})"
        pairs: exp.Query = exp.select("cell", UNIT, "m", f"{c} AS c").from_(OWNED)
    else:
        within = exp.select("cell", UNIT, "m", "p AS c").from_(OWNED)
        within = within.join(OVER, on=_equal(OWNED, OVER, UNIT), join_type="ANTI")
        pairs = exp.union(within, _shares(node, node.mass), distinct=False)
    return exp.select("*", "ROW_NUMBER() OVER () AS u").from_(pairs.subquery("h")).where("c < m")


def _shares(node: Matching, mass: int) -> exp.Select:
    """⌊mass · p / s⌋ in each cell; the places that are left go to the unit's cells one by one, by a keyed hash."""
    own = exp.select(f"{OWNED}.*", "s").from_(OWNED).join(OVER, on=_equal(OWNED, OVER, UNIT))
    order = [keyed_hash(UNIT if node.by_unit else None, node.keys), *map(exp.column, node.keys)]
    turn = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=e) for e in order]),
    )
    floor = f"CAST(CAST({mass} AS HUGEINT) * p // s AS BIGINT) AS q"
    shared = exp.select("o.cell", UNIT, "m", _parsed(floor), exp.alias_(turn, "turn")).from_(own.subquery("o"))
    shared = shared.join(public_cells(node.keys, node.types), on=_equal("o", CELLS, "cell"))
    more = f"CAST(turn <= {mass} - SUM(q) OVER (PARTITION BY {UNIT}) AS BIGINT)"
    return exp.select("cell", UNIT, "m", f"q + {more} AS c").from_(shared.subquery("q"))


def _parsed(text: str) -> exp.Expr:
    return exp.maybe_parse(text, dialect=DIALECT)


def _equal(left: str, right: str, *names: str) -> str:
    return " AND ".join(f"{left}.{n} = {right}.{n}" for n in names)


def counted(columns: tuple[Numbers, Numbers, Numbers, Numbers], cells: int) -> Numbers:
    """The number of values for each cell, from a statement's OUTPUTS."""
    cell, unit, value, capacity = columns
    certain = unit < 0
    found = np.zeros(cells, dtype=np.int64)
    found[cell[certain]] = value[certain]
    cell, unit, value, capacity = (column[~certain] for column in columns)
    if len(cell):
        values, value = np.unique(value, return_inverse=True)
        _, first, unit = np.unique(unit, return_index=True, return_inverse=True)
        home = np.zeros(len(values), dtype=np.int64)
        home[value] = cell
        taken = assigned(unit, value, capacity[first], len(values))
        found += np.bincount(home[taken], minlength=cells)
    return found
