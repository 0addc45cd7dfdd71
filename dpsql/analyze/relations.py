"""Relations, node by node: what each column can hold, who owns each row, and how many rows one unit can have.

The relation that comes out is the one that runs: every expression in it is total (Theorem TOTAL-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from dpsql.analyze.catalog import (
    Catalog,
    Known,
    closed_columns,
    column_of,
    computed,
    moved,
    narrowed_columns,
)
from dpsql.analyze.joins import check_units, equated, fan_out, joined_owner, matches_once, unlinked
from dpsql.analyze.numbering import kept_rows, number_column, numbered
from dpsql.analyze.ownership import Ownership, scan_owner
from dpsql.analyze.per_unit import canonical, own_aggregate, own_window
from dpsql.analyze.public import PublicFacts
from dpsql.analyze.refusals import no_condition
from dpsql.analyze.variables import (
    KeyColumn,
    Origin,
    Variables,
    facts_over_variables,
    nullable_column,
    over_variables,
)
from dpsql.analyze.widths import width_of
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import BOOLEAN, Type
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Named,
    Project,
    PublicTable,
    Relation,
    Scan,
    Union,
    Windows,
    columns_of,
    parts_of,
    unit_of,
)
from dpsql.plan.owners import units, ways
from dpsql.plan.rows import all_of, conjuncts, fresh, plan_column
from dpsql.sql.functions.casts import align
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar, scalar
from dpsql.sql.trees import copied, nodes_of

MAX_FAN_OUT = 10_000  # how often joins with public rows may repeat a private one


def known_relation(relation: Relation, used: set[str], most: int | None, catalog: Catalog) -> Known:
    """Everything about a relation. used: the columns that anybody looks at; most: the query's max_rows."""
    taken = frozenset(name for part in parts_of(relation) for name in columns_of(part)) | used
    return _Analyzer(used, taken, most, catalog, Variables()).relation(relation)


def counted_relation(relation: Relation, used: set[str], catalog: Catalog) -> Known:
    """Everything about a relation in which the units of a release are counted.

    The rows of the release are analyzed once for all counts that look at the same of their columns.
    """
    base = catalog.memo.base_of(relation)
    if base is None:
        return known_relation(relation, used, None, catalog)
    names = frozenset(name for part in parts_of(base) for name in columns_of(part))
    looked = used & names
    key = ("rows", id(base), frozenset(looked), catalog.known_ranges)
    _, rows = catalog.memo.kept(key, lambda: (base, known_relation(base, looked, None, catalog)))  # it keeps its id
    variables = rows.variables.copy()
    analyzer = _Analyzer(used, names | used, None, catalog, variables, (base, replace(rows, variables=variables)))
    return analyzer.relation(relation)


@dataclass(frozen=True, slots=True)
class _Analyzer:
    used: set[str]
    taken: frozenset[str]  # all names of plan columns
    most: int | None
    catalog: Catalog
    variables: Variables
    known: tuple[Relation, Known] | None = None  # rows that are analyzed already

    @property
    def public(self) -> PublicFacts:
        known = self.catalog
        return PublicFacts(known.policy, known.schema, known.public, known.describe, known.given)

    def relation(self, node: Relation) -> Known:
        if self.known is not None and node is self.known[0]:
            return self.known[1]
        match node:
            case Scan():
                return self.scan(node)
            case Filter():
                return self.filter(node)
            case Project():
                return self.project(node)
            case Join():
                return self.join(node)
            case Mark():
                return self.mark(node)
            case Union():
                return self.union(node)
            case GroupUnits():
                return self.group_units(node)
            case Windows():
                return self.windows(node)
            case _:
                assert_never(node)

    # ---------------------------------------------------------------- tables

    def scan(self, scan: Scan) -> Known:
        policy, promises = self.catalog.policy, self.catalog.promises
        table = policy.tables[scan.table]
        types = {name.lower(): text for name, text in self.catalog.schema[scan.table]}
        columns: dict[str, KeyColumn] = {}
        for plan, name in scan.columns:
            if plan in self.used or plan == scan.unit:
                columns[plan] = self.variables.add(column_of(self.catalog, table, name, types[name.lower()], plan))
        if scan.unit is not None and scan.unit not in columns:  # at the end of the links
            last = scan.links[-1].table
            text = next(t for c, t in self.catalog.schema[last] if c.lower() == str(scan.owner).lower())
            hidden = Scalar(plan_column(scan.unit), Type.parse(text), Range(nullable=False))
            columns[scan.unit] = self.variables.add(KeyColumn(policy.tables[last].name, None, hidden))
        return Known(scan, columns, (), scan_owner(scan, policy, promises), self.variables)

    # ---------------------------------------------------------------- rows

    def conditions(self, condition: Expr | None, known: Mapping[str, Scalar], clause: str) -> list[Scalar]:
        found = []
        for written in conjuncts(condition):
            total = self.catalog.memo.total(written, known)
            if not total.type.is_boolean:
                raise no_condition(clause, written, total)
            found.append(total)
        return found

    def filter(self, node: Filter) -> Known:
        below = self.relation(node.input)
        found = self.conditions(node.condition, below.scalars, "WHERE")
        columns = narrowed_columns(below.columns, node.condition)
        total = all_of(copied(c.sql) for c in found)
        assert total is not None
        owner = kept_rows(below.owner, node.condition)
        facts = facts_over_variables(conjuncts(node.condition), below.columns) if node.narrows else ()
        relation = Filter(below.relation, total, node.narrows)
        return Known(relation, columns, (*below.facts, *facts), owner, self.variables)

    def project(self, node: Project) -> Known:
        below = self.relation(node.input)
        listed = [(n, e) for n, e in node.columns if n in self.used or n == node.unit]
        known = below.scalars
        made: list[Named] = []
        columns: dict[str, KeyColumn] = {}
        for name, e in listed:
            columns[name], total = computed(name, e, below.columns, known, self.variables)
            made.append((name, e.copy() if isinstance(e, exp.Column) else total.sql))
        names = {e.name: n for n, e in reversed(listed) if isinstance(e, exp.Column)}
        owner = replace(
            below.owner,
            unit=node.unit,
            own=frozenset(n for n, e in listed if _is_own(e, below.owner)),
            unique=moved(below.owner.unique, names),
            ranks=frozenset(names[r] for r in below.owner.ranks if r in names),
        )
        return Known(Project(below.relation, tuple(made), node.unit), columns, below.facts, owner, self.variables)

    # ---------------------------------------------------------------- two sides

    def join(self, node: Join) -> Known:
        left = self.relation(node.left)
        private = None if isinstance(node.right, PublicTable | Given) else self.relation(node.right)
        right_node: Relation | PublicTable | Given
        right: Mapping[str, KeyColumn]
        hidden = None  # the right side's unit, where it isn't looked up
        if isinstance(node.right, PublicTable | Given):
            right_node, listed = self.public.columns(node.right, self.used)
            right = self.variables.add_public(listed, missing=node.kind == "left")
            node = replace(node, right=right_node)
        else:
            right_node, right = _of(private).relation, _of(private).columns
            bare = unlinked(node.left, right_node, node.condition, self.catalog.policy)
            if bare is not None and (node.kind == "inner" or unit_of(right_node) not in self.used):
                hidden = unit_of(right_node)
                right_node, node = bare, replace(node, units=None)
        # What a closed column is compared with tells as much as the column itself.
        closed = closed_columns(conjuncts(node.condition), {**left.columns, **right})
        right = {n: replace(c, closed=c.closed | closed) for n, c in right.items()} if closed else right
        both = {**left.columns, **right}
        known = {name: c.scalar for name, c in both.items()}
        found = self.conditions(node.condition, known, "ON")
        if private is not None:
            check_units(left.owner, private.owner, known, node.node)
        same = equated(node, known)
        once = matches_once(node, same, private, self.public)
        if once and isinstance(right_node, Given) and not right_node.one_row:
            right_node = replace(right_node, unique=(tuple(sorted(same)),))
        repeats = left.owner.repeats * (1 if private is None else private.owner.repeats)
        repeats *= 1 if once or private is not None else fan_out(node, same, self.public)
        if repeats > MAX_FAN_OUT:
            raise refuse(
                PrivacyError,
                f"joins with public rows repeat a private row more than {MAX_FAN_OUT:,} times",
                node.node,
                code="too-large",
                hint="join on more columns, or aggregate the public side first",
            )
        if left.owner.unit is None and not once:
            name = fresh("privacy unit", self.taken)
            own = replace(left.owner, unit=name, numbered=True, own=left.owner.own | {name})
            column = self.variables.add(number_column(left.owner.table, name))
            numbers = {**left.columns, name: column}
            left = Known(numbered(left.relation, name), numbers, left.facts, own, self.variables)
        narrowed = narrowed_columns(both, node.condition)
        if node.kind == "left":
            columns: Mapping[str, KeyColumn] = {**left.columns, **self.optional(narrowed, right, private)}
        else:
            columns = {**left.columns, **narrowed}
        facts = (*left.facts, *self.join_facts(node, both, right, private))
        condition = all_of(copied(c.sql) for c in found)
        relation = replace(node, left=left.relation, right=right_node, condition=condition, node=None, once=once)
        owner = replace(joined_owner(node, left.owner, private, once, self.catalog.policy), repeats=repeats)
        if hidden is None:
            return Known(relation, columns, facts, owner, self.variables)
        assert owner.unit is not None
        kept = [(n, plan_column(n)) for n in columns_of(relation)]
        whole = Project(relation, (*kept, (hidden, plan_column(owner.unit))), owner.unit)
        return Known(whole, columns, facts, owner, self.variables)

    def optional(
        self, narrowed: Mapping[str, KeyColumn], right: Mapping[str, KeyColumn], private: Known | None
    ) -> dict[str, KeyColumn]:
        """The right side's columns after a LEFT JOIN: those of a match, or NULL."""
        found = {n: nullable_column(narrowed[n]) for n in right}
        if private is None:
            return found  # one row of the variables, or none: they know
        return {n: self.variables.add(replace(c, origins=_origin(c.made, private.facts))) for n, c in found.items()}

    def join_facts(
        self, node: Join, both: Mapping[str, KeyColumn], right: Mapping[str, KeyColumn], private: Known | None
    ) -> tuple[Expr, ...]:
        """What the rows of a join meet besides what its left side does."""
        if not node.narrows:
            return ()  # public rows without a match are groups, too
        met = facts_over_variables(conjuncts(node.condition), both)
        if node.kind == "inner":
            return (*(private.facts if private is not None else ()), *met)
        there = [c.made for c in right.values() if c.made is not None]
        if private is not None or not there:
            return ()
        without = all_of(exp.Is(this=c.copy(), expression=exp.null()) for c in there)
        assert without is not None
        return tuple(exp.Or(this=exp.Paren(this=f), expression=exp.Paren(this=without.copy())) for f in met)

    def mark(self, node: Mark) -> Known:
        left = self.relation(node.input)
        private = None if isinstance(node.other, PublicTable | Given) else self.relation(node.other)
        other: Relation | PublicTable | Given
        right: Mapping[str, KeyColumn]
        if isinstance(node.other, PublicTable | Given):
            other, listed = self.public.columns(node.other, self.used)
            right = self.variables.add_public(listed)
        else:
            other, right = _of(private).relation, _of(private).columns
            bare = unlinked(node.input, other, node.condition, self.catalog.policy)
            if bare is not None:
                other, node = bare, replace(node, units=None)
        known = {name: c.scalar for name, c in {**left.columns, **right}.items()}
        found = self.conditions(node.condition, known, "EXISTS")
        member = None
        if node.member is not None:
            equal = scalar(exp.EQ(this=node.member[0].copy(), expression=node.member[1].copy()), known).sql
            member = (equal.this, equal.expression)
        if private is not None:
            check_units(left.owner, private.owner, known, None)
        relation = Mark(
            left.relation,
            other,
            node.column,
            all_of(copied(c.sql) for c in found),
            node.units,
            member,
        )
        test = Scalar(plan_column(node.column), BOOLEAN, Range.of(0, 1, member is not None))
        looked = [*conjuncts(node.condition), *(node.member[:1] if node.member is not None else ())]
        closed = closed_columns(looked, {**left.columns, **right})
        mark = self.variables.add(KeyColumn(left.owner.table, None, test, closed=closed))
        columns = {**left.columns, node.column: mark}
        if private is None and mark.made is not None:
            equal_values = [exp.EQ(this=node.member[0], expression=node.member[1])] if node.member is not None else []
            holds = [*conjuncts(node.condition), *equal_values]
            self.variables.marks[mark.made.name] = facts_over_variables(holds, {**left.columns, **right})
        mine = {c.name for e in looked for c in nodes_of(e, exp.Column)} & set(columns_of(node.input))
        own = left.owner.own | {node.column} if mine <= left.owner.own else left.owner.own
        return Known(relation, columns, left.facts, replace(left.owner, own=own), self.variables)

    def union(self, node: Union) -> Known:
        sides = [self.relation(one) for one in node.inputs]
        names = [n for n, _ in node.inputs[0].columns if n in sides[0].columns]
        first = sides[0].owner
        columns: dict[str, KeyColumn] = {}
        casts: list[list[Named]] = [[] for _ in sides]
        for name in names:
            parts = [s.columns[name] for s in sides]
            values = [replace(p.scalar, sql=exp.Null()) if p.scalar.type.is_null else p.scalar for p in parts]
            aligned = align(values, [_written(one, name) for one in node.inputs])
            for made, value in zip(casts, aligned, strict=True):
                made.append((name, value.sql))
            firm = [a for a, v in zip(aligned, values, strict=True) if not v.is_null] or aligned
            hull = firm[0].range.hull(*(a.range for a in firm[1:])).with_nullable(any(a.nullable for a in aligned))
            hard = firm[0].hard.hull(*(a.hard for a in firm[1:])) if firm[0].type.limits else None
            whole = Scalar(plan_column(name), firm[0].type, hull, hard)
            closed = frozenset().union(*(p.never_keys for p in parts))
            origins = tuple(o for p, s in zip(parts, sides, strict=True) for o in _origin(p.made, s.facts))
            width = max((p.width for p in parts if p.width is not None), default=None)
            column = KeyColumn(parts[0].table, None, whole, origins=origins, closed=closed, width=width)
            columns[name] = self.variables.add(column)
        for one in sides[1:]:
            if first.unit is not None:
                pair = {"left": sides[0].columns[first.unit].scalar, "right": one.columns[first.unit].scalar}
                check_units(
                    replace(first, unit="left"),
                    replace(one.owner, unit="right"),
                    pair,
                    _written(node.inputs[0], names[0]),
                )
        rows = [s.owner.rows for s in sides]
        total = None if any(r is None for r in rows) else sum(r for r in rows if r is not None)  # Theorem OWN-5
        why = "a union: a unit may have any number of rows" if total is None else f"a union: at most {total} rows"
        owner = Ownership(
            first.table,
            first.unit,
            first.domain,
            total,
            None,
            why,
            frozenset() if first.unit is None else units(ways(node, self.catalog.policy)) | {first.unit},
            repeats=sum(s.owner.repeats for s in sides),
            numbered=any(s.owner.numbered for s in sides),
        )
        inputs = tuple(Project(s.relation, tuple(c), first.unit) for s, c in zip(sides, casts, strict=True))
        return Known(Union(inputs), columns, (), owner, self.variables)

    # ---------------------------------------------------------------- one unit's rows

    def rows_bound(self, owner: Ownership) -> int | None:
        """How many rows a unit is taken to have: this chooses ranges, and clips make them true (RANGE-1)."""
        found = [n for n in (owner.rows, owner.promised, self.most) if n is not None]
        return min(found) if found else None

    def group_units(self, node: GroupUnits) -> Known:
        below = self.relation(node.input)
        known, bound = below.scalars, self.rows_bound(below.owner)
        columns = {node.unit: below.columns[node.unit]}
        keys: list[Named] = []
        for name, e in node.keys:
            columns[name], total = computed(name, e, below.columns, known, self.variables)
            if not total.type.is_key and not total.type.is_null:
                raise refuse(
                    PrivacyError,
                    f"{total.type.sql} can't be a group key",
                    e,
                    code="key-type",
                    hint="group by a number, text, a date or a timestamp",
                )
            keys.append((name, canonical(total)))
        made: list[Named] = []
        for name, call in node.columns:
            value = own_aggregate(call, known, bound)
            shown = replace(value, sql=plan_column(name))
            closed, origins = closed_columns([call], below.columns), _chosen(call, below)
            width = width_of(call, below.columns)
            column = KeyColumn("", None, shown, origins=origins, closed=closed, width=width)
            columns[name] = self.variables.add(column)
            made.append((name, value.sql))
        own_keys = all(_is_own(e, below.owner) for _, e in node.keys)
        own = {node.unit, *(n for n, e in node.keys if _is_own(e, below.owner))}
        if own_keys:
            own |= {n for n, _ in node.columns}
        owner = replace(
            below.owner,
            rows=1 if own_keys else below.owner.rows,
            promised=None if own_keys else below.owner.promised,
            why="one row for each unit" if own_keys else below.owner.why,
            own=frozenset(own),
            unique=frozenset({frozenset({node.unit, *(n for n, _ in node.keys)})}),
            ranks=frozenset(),
        )
        relation = GroupUnits(below.relation, node.unit, tuple(keys), tuple(made))
        return Known(relation, columns, below.facts, owner, self.variables)

    def windows(self, node: Windows) -> Known:
        below = self.relation(node.input)
        assert isinstance(node.window, exp.Window)
        seen = [c.scalar for n, c in below.columns.items() if n in self.used]
        value = own_window(node.window, below.scalars, node.unit, self.rows_bound(below.owner), seen)
        made = replace(value, sql=plan_column(node.column))
        closed = closed_columns([node.window], below.columns)
        column = KeyColumn("", None, made, closed=closed, width=width_of(node.window, below.columns))
        columns = {**below.columns, node.column: self.variables.add(column)}
        ranks = below.owner.ranks
        partition = node.window.args.get("partition_by") or []
        held = units(ways(node.input, self.catalog.policy))
        if isinstance(node.window.this, exp.RowNumber) and all(
            isinstance(p, exp.Column) and p.name in held for p in partition
        ):
            ranks |= {node.column}
        relation = Windows(below.relation, node.unit, node.column, value.sql)
        return Known(relation, columns, below.facts, replace(below.owner, ranks=ranks), self.variables)


# ---------------------------------------------------------------- small pieces


def _of(known: Known | None) -> Known:
    assert known is not None
    return known


def _origin(made: Expr | None, facts: tuple[Expr, ...]) -> tuple[Origin, ...]:
    assert made is not None
    return (Origin(made, facts),)


def _chosen(call: Expr, below: Known) -> tuple[Origin, ...]:
    """Where the value of an aggregate that takes one of the rows' values comes from."""
    if not isinstance(call, exp.Min | exp.Max | exp.AnyValue) or call.expressions:
        return ()
    made = over_variables(call.this, below.columns)
    return () if made is None else _origin(made, below.facts)


def _is_own(e: Expr, owner: Ownership) -> bool:
    return all(c.name in owner.own for c in nodes_of(e, exp.Column))


def _written(side: Project, name: str) -> Expr:
    return next(e for n, e in side.columns if n == name)
