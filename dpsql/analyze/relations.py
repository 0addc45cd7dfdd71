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
    automatic_range,
    closed_columns,
    computed,
    declared_range,
    moved,
    narrowed_columns,
    nullable_column,
    renamed_conditions,
    same_type,
)
from dpsql.analyze.domains import KeyColumn
from dpsql.analyze.numbering import kept_rows, number_column, numbered
from dpsql.analyze.ownership import Ownership, nullable_promise, scan_owner
from dpsql.analyze.per_unit import canonical, own_aggregate, own_window
from dpsql.analyze.public import PublicFacts
from dpsql.analyze.ranges import Range
from dpsql.analyze.refusals import no_condition
from dpsql.errors import PrivacyError
from dpsql.frozen import dataclass
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
from dpsql.sql.types import BOOLEAN, Type
from dpsql.statistics.bounds import Seed

MAX_FAN_OUT = 10_000  # how often joins with public rows may repeat a private one


def known_relation(relation: Relation, used: set[str], most: int | None, catalog: Catalog) -> Known:
    """Everything about a relation. used: the columns that anybody looks at; most: the query's max_rows."""
    taken = frozenset(name for part in parts_of(relation) for name in columns_of(part)) | used
    return _Analyzer(used, taken, most, catalog).relation(relation)


@dataclass(frozen=True, slots=True)
class _Analyzer:
    used: set[str]
    taken: frozenset[str]  # all names of plan columns
    most: int | None
    catalog: Catalog

    @property
    def public(self) -> PublicFacts:
        known = self.catalog
        return PublicFacts(known.policy, known.schema, known.public, known.describe, known.given)

    def relation(self, node: Relation) -> Known:
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
        verified = promises.get(scan.table, frozenset())
        types = {name.lower(): text for name, text in self.catalog.schema[scan.table]}
        columns: dict[str, KeyColumn] = {}
        for plan, name in scan.columns:
            if plan in self.used or plan == scan.unit:
                said = table.column(name)
                type_ = Type.parse(types[name.lower()])
                nullable = said is None or said.nullable or nullable_promise(table, name) not in verified
                if said is not None and said.share is not None and type_.is_numeric:
                    said_range = automatic_range(table.name, said, Seed.of(type_), self.catalog.ranges, nullable)
                else:
                    said_range = declared_range(table.name, said, type_, nullable)
                known = Scalar(plan_column(plan), type_, said_range)
                columns[plan] = KeyColumn(table.name, said, known)
        if scan.unit is not None and scan.unit not in columns:  # at the end of the links
            last = scan.links[-1].table
            text = next(t for c, t in self.catalog.schema[last] if c.lower() == str(scan.owner).lower())
            hidden = Scalar(plan_column(scan.unit), Type.parse(text), Range(nullable=False))
            columns[scan.unit] = KeyColumn(policy.tables[last].name, None, hidden)
        return Known(scan, columns, (), scan_owner(scan, policy, promises))

    # ---------------------------------------------------------------- rows

    def conditions(self, condition: Expr | None, known: Mapping[str, Scalar], clause: str) -> list[Scalar]:
        found = []
        for written in conjuncts(condition):
            total = scalar(written, known)
            if not total.type.is_boolean:
                raise no_condition(clause, written, total)
            found.append(total)
        return found

    def filter(self, node: Filter) -> Known:
        below = self.relation(node.input)
        found = self.conditions(node.condition, below.scalars, "WHERE")
        columns = narrowed_columns(below.columns, node.condition)
        total = all_of(c.sql.copy() for c in found)
        assert total is not None
        owner = kept_rows(below.owner, node.condition)
        return Known(Filter(below.relation, total), columns, (*below.conditions, *(c.sql for c in found)), owner)

    def project(self, node: Project) -> Known:
        below = self.relation(node.input)
        listed = [(n, e) for n, e in node.columns if n in self.used or n == node.unit]
        known = below.scalars
        made: list[Named] = []
        columns: dict[str, KeyColumn] = {}
        for name, e in listed:
            columns[name] = computed(name, e, below.columns, known)
            made.append((name, e.copy() if isinstance(e, exp.Column) else scalar(e, known).sql))
        names = {e.name: n for n, e in reversed(listed) if isinstance(e, exp.Column)}
        owner = replace(
            below.owner,
            unit=node.unit,
            own=frozenset(n for n, e in listed if _is_own(e, below.owner)),
            unique=moved(below.owner.unique, names),
            ranks=frozenset(names[r] for r in below.owner.ranks if r in names),
        )
        conditions = renamed_conditions(below.conditions, names)
        return Known(Project(below.relation, tuple(made), node.unit), columns, conditions, owner)

    # ---------------------------------------------------------------- two sides

    def join(self, node: Join) -> Known:
        left = self.relation(node.left)
        private = None if isinstance(node.right, PublicTable | Given) else self.relation(node.right)
        right_node: Relation | PublicTable | Given
        right: Mapping[str, KeyColumn]
        hidden = None  # the right side's unit, where it isn't looked up
        if isinstance(node.right, PublicTable | Given):
            right_node, right = self.public.columns(node.right, self.used)
            node = replace(node, right=right_node)
        else:
            right_node, right = _of(private).relation, _of(private).columns
            bare = self.unlinked(node.left, right_node, node.condition)
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
            self.check_units(left.owner, private.owner, known, node.node)
        equated = self.equated(node, known)
        once = self.matches_once(node, equated, private)
        if once and isinstance(right_node, Given) and not right_node.one_row:
            right_node = replace(right_node, unique=(tuple(sorted(equated)),))
        repeats = left.owner.repeats * (1 if private is None else private.owner.repeats)
        repeats *= 1 if once or private is not None else self.fan_out(node, equated)
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
            column = number_column(left.owner.table, name)
            left = Known(numbered(left.relation, name), {**left.columns, name: column}, left.conditions, own)
        narrowed = narrowed_columns(both, node.condition)
        if node.kind == "left":
            nullable = {n: nullable_column(narrowed[n]) for n in right}
            columns: Mapping[str, KeyColumn] = {**left.columns, **nullable}
            conditions = left.conditions
        else:
            columns = {**left.columns, **narrowed}
            below = private.conditions if private is not None else ()
            conditions = (*left.conditions, *below, *(c.sql for c in found))
        relation = replace(
            node, left=left.relation, right=right_node, condition=all_of(c.sql.copy() for c in found), node=None
        )
        owner = replace(self.joined_owner(node, left.owner, private, once), repeats=repeats)
        if hidden is None:
            return Known(relation, columns, conditions, owner)
        assert owner.unit is not None
        listed = [(n, plan_column(n)) for n in columns_of(relation)]
        whole = Project(relation, (*listed, (hidden, plan_column(owner.unit))), owner.unit)
        return Known(whole, columns, conditions, owner)

    def unlinked(self, left: Relation, right: Relation, condition: Expr | None) -> Relation | None:
        """The right side without the way to its owner, where the condition goes along that way (Theorem OWN-7).

        A row that points to the key of a left row's order belongs to whom that order belongs to: no need to look it up.
        """
        bottom, looked = right, conjuncts(condition)
        while isinstance(bottom, Filter):
            looked = [*looked, bottom.condition]
            bottom = bottom.input
        if not isinstance(bottom, Scan) or not bottom.links:
            return None
        if any(c.name == bottom.unit for e in looked for c in e.find_all(exp.Column)):
            return None
        link, plan = bottom.links[0], {column.lower(): name for name, column in bottom.columns}
        pointing = tuple(plan[here.lower()] for here, there in sorted(link.on, key=lambda pair: pair[1].lower()))
        meaning = ("key", link.table, *sorted(there.lower() for _, there in link.on))
        equal = {(c.this.unnest(), c.expression.unnest()) for c in conjuncts(condition) if isinstance(c, exp.EQ)}
        names = {(a.name, b.name) for a, b in equal if isinstance(a, exp.Column) and isinstance(b, exp.Column)}
        names |= {(b, a) for a, b in names}
        for known, mine in ways(left, self.catalog.policy, matched=True):
            if known == meaning and all(pair in names for pair in zip(mine, pointing, strict=True)):
                return _without_links(right)
        return None

    def joined_owner(self, node: Join, left: Ownership, private: Known | None, once: bool) -> Ownership:
        """Theorem OWN-3: rows multiply, unless each has at most one match."""
        rows = left.rows
        if not once:
            theirs = private.owner.rows if private is not None else None
            rows = None if rows is None or theirs is None else rows * max(1, theirs)
        promised = left.promised if once else None
        own = left.own
        mine = {c.name for e in conjuncts(node.condition) for c in e.find_all(exp.Column)} & set(columns_of(node.left))
        if private is not None:
            if node.kind == "inner" or self.by_unit_alone(node):
                own |= private.owner.own
        elif once and mine <= own:
            own |= set(columns_of(node.right))  # what a column of the unit's own leads to
        unique = left.unique if once else frozenset()
        ranks = left.ranks if once else frozenset()
        why = left.why if once else "joined: a unit may have any number of rows"
        if not once and rows is not None:
            why = f"joined: at most {rows} rows"
        return replace(left, rows=rows, promised=promised, own=own, unique=unique, ranks=ranks, why=why)

    def by_unit_alone(self, node: Join) -> bool:
        """Is the unit's equality the only condition? Then a unit's rows have all a match, or none (attack 42)."""
        assert not isinstance(node.right, PublicTable | Given)
        mine, theirs = (units(ways(side, self.catalog.policy)) for side in (node.left, node.right))
        for conjunct in conjuncts(node.condition):
            if not isinstance(conjunct, exp.EQ):
                return False
            a, b = conjunct.this.unnest(), conjunct.expression.unnest()
            if not isinstance(a, exp.Column) or not isinstance(b, exp.Column):
                return False
            if not ((a.name in mine and b.name in theirs) or (b.name in mine and a.name in theirs)):
                return False
        return True

    def matches_once(self, node: Join, equated: set[str], private: Known | None) -> bool:
        """Does each row of the left side have at most one match, whatever the private data are?

        What is said here of a subquery's rows must also be said to publish, which checks it on those that are joined.
        """
        if isinstance(node.right, Given) and node.right.one_row:
            return True
        if private is not None:
            own = {private.owner.unit} if private.owner.unit is not None else set()
            return any(one <= equated | own for one in private.owner.unique)
        assert isinstance(node.right, PublicTable | Given)
        noisy = isinstance(node.right, Given) and node.right.noisy
        return bool(equated) and not noisy and self.public.unique(node.right, equated)

    def equated(self, node: Join, known: Mapping[str, Scalar]) -> set[str]:
        """The right side's columns that must equal one of the left side's, value for value."""
        mine, theirs = set(columns_of(node.left)), set(columns_of(node.right))
        found: set[str] = set()
        for conjunct in conjuncts(node.condition):
            if isinstance(conjunct, exp.EQ):
                a, b = conjunct.this.unnest(), conjunct.expression.unnest()
                if isinstance(a, exp.Column) and isinstance(b, exp.Column) and same_type(known[a.name], known[b.name]):
                    pairs = ((a.name, b.name), (b.name, a.name))
                    found |= {there for here, there in pairs if here in mine and there in theirs}
        return found

    def fan_out(self, node: Join, equated: set[str]) -> int:
        """How often a public side repeats a row at most. One person's must not become a million: that would cost
        time which only that person would (attack 11)."""
        assert isinstance(node.right, PublicTable | Given)
        return self.public.fan_out(node.right, equated)

    def check_units(self, left: Ownership, right: Ownership, known: Mapping[str, Scalar], place: Expr | None) -> None:
        """One type for the units of both sides: all integers are one, all texts are one, and nothing is cast."""
        assert left.unit is not None and right.unit is not None
        if not same_type(known[left.unit], known[right.unit]):
            a, b = known[left.unit].type, known[right.unit].type
            raise refuse(
                PrivacyError,
                f"the units of {left.table} are {a.sql}, those of {right.table} are {b.sql}: they are never the same",
                place,
                code="unit-types",
                hint="the steward gives both unit columns one type",
            )

    def mark(self, node: Mark) -> Known:
        left = self.relation(node.input)
        private = None if isinstance(node.other, PublicTable | Given) else self.relation(node.other)
        other: Relation | PublicTable | Given
        right: Mapping[str, KeyColumn]
        if isinstance(node.other, PublicTable | Given):
            other, right = self.public.columns(node.other, self.used)
        else:
            other, right = _of(private).relation, _of(private).columns
            bare = self.unlinked(node.input, other, node.condition)
            if bare is not None:
                other, node = bare, replace(node, units=None)
        known = {name: c.scalar for name, c in {**left.columns, **right}.items()}
        found = self.conditions(node.condition, known, "EXISTS")
        member = None
        if node.member is not None:
            equal = scalar(exp.EQ(this=node.member[0].copy(), expression=node.member[1].copy()), known).sql
            member = (equal.this, equal.expression)
        if private is not None:
            self.check_units(left.owner, private.owner, known, None)
        relation = Mark(
            left.relation,
            other,
            node.column,
            all_of(c.sql.copy() for c in found),
            node.units,
            member,
        )
        test = Scalar(plan_column(node.column), BOOLEAN, Range.of(0, 1, member is not None))
        looked = [*conjuncts(node.condition), *(node.member[:1] if node.member is not None else ())]
        closed = closed_columns(looked, {**left.columns, **right})
        columns = {**left.columns, node.column: KeyColumn(left.owner.table, None, test, closed=closed)}
        mine = {c.name for e in looked for c in e.find_all(exp.Column)} & set(columns_of(node.input))
        own = left.owner.own | {node.column} if mine <= left.owner.own else left.owner.own
        return Known(relation, columns, left.conditions, replace(left.owner, own=own))

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
            columns[name] = KeyColumn(parts[0].table, None, whole, parts=tuple(parts), closed=closed)
        for one in sides[1:]:
            if first.unit is not None:
                pair = {"left": sides[0].columns[first.unit].scalar, "right": one.columns[first.unit].scalar}
                self.check_units(
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
        return Known(Union(inputs), columns, (), owner)

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
            columns[name] = computed(name, e, below.columns, known)
            total = scalar(e, known)
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
            columns[name] = KeyColumn(
                "", None, replace(value, sql=plan_column(name)), closed=closed_columns([call], below.columns)
            )
            made.append((name, value.sql))
        own_keys = all(_is_own(e, below.owner) for _, e in node.keys)
        own = {node.unit, *(n for n, e in node.keys if _is_own(e, below.owner))}
        if own_keys:
            own |= {n for n, _ in node.columns}
        names = {e.name: n for n, e in node.keys if isinstance(e, exp.Column)} | {node.unit: node.unit}
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
        return Known(relation, columns, renamed_conditions(below.conditions, names), owner)

    def windows(self, node: Windows) -> Known:
        below = self.relation(node.input)
        assert isinstance(node.window, exp.Window)
        seen = [c.scalar for n, c in below.columns.items() if n in self.used]
        value = own_window(node.window, below.scalars, node.unit, self.rows_bound(below.owner), seen)
        made = replace(value, sql=plan_column(node.column))
        closed = closed_columns([node.window], below.columns)
        columns = {**below.columns, node.column: KeyColumn("", None, made, closed=closed)}
        ranks = below.owner.ranks
        partition = node.window.args.get("partition_by") or []
        held = units(ways(node.input, self.catalog.policy))
        if isinstance(node.window.this, exp.RowNumber) and all(
            isinstance(p, exp.Column) and p.name in held for p in partition
        ):
            ranks |= {node.column}
        relation = Windows(below.relation, node.unit, node.column, value.sql)
        return Known(relation, columns, below.conditions, replace(below.owner, ranks=ranks))


# ---------------------------------------------------------------- small pieces


def _without_links(relation: Relation) -> Relation:
    if isinstance(relation, Filter):
        return replace(relation, input=_without_links(relation.input))
    assert isinstance(relation, Scan)
    return replace(relation, unit=None, owner=None, links=())


def _of(known: Known | None) -> Known:
    assert known is not None
    return known


def _is_own(e: Expr, owner: Ownership) -> bool:
    return all(c.name in owner.own for c in e.find_all(exp.Column))


def _written(side: Project, name: str) -> Expr:
    return next(e for n, e in side.columns if n == name)
