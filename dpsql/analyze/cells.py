"""Cells: which combinations of key values there can be, as far as that is known without any private row.

Each key is an expression over variables. Some of these have public values: columns of public tables, which come
together row by row, columns with listed values or a small range, and stepped expressions over a wide one. The cells are
what the keys are over all their combinations that meet the query's own conditions (Theorem KEYS-2); a condition that
looks at anything else narrows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from sqlglot import exp

from dpsql.analyze.combine import Cells, Fact, Group, Key, Lists, combined
from dpsql.analyze.domains import (
    MAX_CELLS,
    MAX_IMPLIED,
    Domain,
    PublicEngine,
    declared,
    identifier,
    implied,
    quoted,
    together,
    typed,
)
from dpsql.analyze.facts import expanded, narrowed, over_truncations, plain, same_values, truncated
from dpsql.analyze.moments import Looks, at_beginnings, beginning, common, looks, refines
from dpsql.analyze.nulls import may_be_null, present
from dpsql.analyze.steps import Computed, image_of_range, stepped
from dpsql.analyze.variables import Arrow, Variables
from dpsql.core.errors import Error
from dpsql.core.ranges import Range
from dpsql.plan.nodes import Expr
from dpsql.plan.rows import plan_column
from dpsql.sql.scalar import Scalar, scalar
from dpsql.sql.trees import copied, holds, nodes_of, rebuilt


class Lister:
    """Lists the values of expressions over variables, on rows for which these facts hold."""

    def __init__(self, facts: Sequence[Expr], variables: Variables, public: PublicEngine) -> None:
        self.variables, self.public = variables, public
        every = expanded(facts, variables)
        self.known = _without_nulls(narrowed({n: c.scalar for n, c in variables.columns.items()}, every), every)
        self.lists: dict[Expr, Domain | None] = {}  # of variables and of expressions
        self.images: dict[Expr, Domain] = {}  # of expressions that are listed as a whole, over all that they look at
        self.names: dict[Expr, str] = {}  # of the expressions that columns of lists stand for
        self.read: dict[tuple[str, ...], Arrow | None] = {}
        self._totals: dict[Expr, Scalar] = {}
        self.same = same_values(every, self.known, variables, lambda n: self.listed(plan_column(n)) is not None)
        self.facts = [f for f in map(self._with_same, every) if not (isinstance(f, exp.EQ) and f.this == f.expression)]

    def cells(self, keys: Sequence[Expr]) -> tuple[Cells | None, list[Domain | None]]:
        """The cells of these keys, and each key's values; None of what only private selection could find."""
        prepared, facts = self._prepared(keys)
        covers = [self.cover(k) for k in prepared]
        if any(c is None for c in covers):
            return None, [None if c is None else self.domain(k) for k, c in zip(keys, covers, strict=True)]
        cells = self._combined(prepared, facts)
        return cells, list(cells.domains)

    def domain(self, e: Expr) -> Domain | None:
        """The values of one expression; None where they aren't public."""
        (prepared,), facts = self._prepared([e])
        return self._combined([prepared], facts).domains[0] if self.cover(prepared) is not None else None

    def with_range(self, name: str, known: Range) -> Lister:
        """A lister that takes a variable to have this range."""
        changed = Variables()
        changed.columns = dict(self.variables.columns)
        changed.beside, changed.marks = self.variables.beside, self.variables.marks
        column = changed.columns[name]
        changed.columns[name] = replace(
            column, scalar=replace(column.scalar, range=column.scalar.range.intersect(known))
        )
        return Lister(self.facts, changed, self.public)

    # ---------------------------------------------------------------- one expression

    def _prepared(self, keys: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """Keys, and the facts beside them, over parts with public values, where they equal such expressions."""
        written = [self._with_same(plain(key)) for key in keys]
        units = self._units(written)
        prepared = [self._by_image(self._at_beginnings(key, units)) for key in written]
        chosen = [k if self.cover(k) is not None else w for k, w in zip(prepared, written, strict=True)]
        return chosen, [self._at_beginnings(fact, units) for fact in self.facts]

    def _looks(self, node: Expr) -> Looks:
        """The moments whose own values are too many to list, and that this call looks at."""
        return tuple((moment, unit) for moment, unit in looks(node) if self._is_long(moment))

    def _is_long(self, moment: Expr) -> bool:
        try:
            kind = self._total(moment).type
        except Error:
            return False
        return (kind.is_date or kind.is_timestamp) and self.cover(moment) is None

    def _units(self, keys: Sequence[Expr]) -> dict[Expr, str]:
        """For moments that keys look at in several ways: one unit for all of them, and for the facts about them."""
        calls: dict[Expr, dict[Expr, str]] = {}
        for node in (n for key in keys for n in nodes_of(key, exp.Expr)):
            for moment, unit in self._looks(node):
                calls.setdefault(moment, {})[node] = unit
        found: dict[Expr, str] = {}
        for moment, mine in calls.items():
            beside = [u for f in self.facts for n in nodes_of(f, exp.Expr) for m, u in looks(n) if m == moment]
            unit = reduce(common, mine.values())
            if self.listed(truncated(unit, moment)) is None:
                continue
            for other in dict.fromkeys(beside):
                finer = common(unit, other)
                unit = finer if self.listed(truncated(finer, moment)) is not None else unit
            found[moment] = unit
        return found

    def _at_beginnings(self, e: Expr, units: Mapping[Expr, str]) -> Expr:
        """The expression with calls of moments taken of the beginnings of their units, where these are listed."""

        def rewrite(node: Expr) -> Expr:
            seen = self._looks(node)
            changed = {}
            for moment, unit in seen:
                chosen = units.get(moment, unit)
                if refines(chosen, unit) and node != truncated(chosen, moment):
                    changed[id(moment)] = beginning(chosen, moment, self._total(moment).type)
            if not changed:
                return rebuilt(node, rewrite)
            coarse = at_beginnings(node, changed)
            return coarse if self.cover(coarse) not in (None, (coarse,)) else rebuilt(node, rewrite)

        return rewrite(e)

    def _by_image(self, e: Expr) -> Expr:
        """The expression; its largest parts over one column with a wide range have their values listed, if few."""
        waiting = [e]
        while waiting:
            node = waiting.pop()
            names = {c.name for c in nodes_of(node, exp.Column)}
            if not names or isinstance(node, exp.Column) or self._is_exact(node):
                continue
            if len(names) > 1 or not self._has_few(node, next(iter(names))):
                waiting.extend(c for c in node.iter_expressions() if len(names) > 1 or isinstance(c, exp.If | exp.Case))
        return e

    def _is_exact(self, e: Expr) -> bool:
        """Has it public values, all of which there can be? Not so of CASE by its arms, and of parts taken apart."""
        found = self.cover(e)
        return found is not None and len(found) < 2 and (found != (e,) or _arms(e) is None)

    def _has_few(self, e: Expr, name: str) -> bool:
        """Are the values of an expression over this column few? Then they are listed from now on."""
        if self._is_public_name(name):
            return False
        try:
            total = self._total(e)
        except Error:
            return False
        about = [f for f in self.facts if {c.name for c in nodes_of(f, exp.Column)} == {name}]
        if self.known[name].type.is_timestamp:
            about = [f for f in about if self._unit_of([f], name) is not None]
        conditions = [self._total(f).sql for f in about]
        whole = Computed(total, self.known[name], self._unit_of([e, *about], name), conditions)
        values = image_of_range(whole, self.public)
        if values is not None:
            self.images[e] = self._without_null(e, total, values)
        return values is not None

    def _unit_of(self, parts: Sequence[Expr], name: str) -> str | None:
        """The unit of a moment on which expressions rest; None where a part of them takes the moment itself."""
        every = [n for part in parts for n in nodes_of(part, exp.Expr)]
        seen = [unit for n in every for moment, unit in looks(n) if moment == plan_column(name)]
        whole = len(seen) == sum(isinstance(n, exp.Column) for n in every)
        return reduce(common, seen) if whole else None

    def _with_same(self, e: Expr) -> Expr:
        def rewrite(node: Expr) -> Expr:
            if isinstance(node, exp.Column) and node.name in self.same:
                return copied(self.same[node.name])
            return rebuilt(node, rewrite)

        return rewrite(e) if self.same else e

    def cover(self, e: Expr) -> tuple[Expr, ...] | None:
        """Parts of an expression with public values, such that it is a function of them; None where there are none."""
        if not holds(e, exp.Column):
            return ()
        if e in self.images:
            return (e,)
        if isinstance(e, exp.Column):
            return (e,) if (self._fits([e]) if self._is_public(e.name) else self.listed(e) is not None) else None
        below = [self.cover(c) for c in e.iter_expressions() if holds(c, exp.Column)]
        found = tuple(dict.fromkeys(leaf for one in below for leaf in one or ()))
        whole = all(one is not None for one in below)
        if whole and self._fits(found):
            return found
        if self.listed(e) is not None:
            return (e,)
        return self._of_parts(e) if whole else None

    def _of_parts(self, e: Expr) -> tuple[Expr, ...] | None:
        """The operands of an expression, each by itself, where all of what they are made of would be too many."""
        parts = [c for c in e.iter_expressions() if holds(c, exp.Column)]
        if isinstance(e, exp.Case | exp.If) or any(isinstance(c, exp.If) for c in parts):
            return None  # a WHEN has no value of its own
        for part in parts:
            values = self.domain(part) if self.listed(part) is None and self.cover(part) != (part,) else None
            if values is not None:  # from now on everywhere, so that it is one part wherever it stands
                self.images[part] = values
        found = tuple(dict.fromkeys(parts))
        return found if all(self.listed(part) is not None for part in found) and self._fits(found) else None

    def _is_public(self, name: str) -> bool:
        return name in self.variables.beside and self.known[name].type.is_key

    def _fits(self, leaves: Iterable[Expr]) -> bool:
        """Are there few enough combinations of these to look at them all?"""
        public: dict[Group, set[str]] = {}
        sizes = []
        for leaf in leaves:
            if isinstance(leaf, exp.Column) and self._is_public(leaf.name):
                public.setdefault(self.variables.beside[leaf.name].columns, set()).add(leaf.name)
            else:
                values = self.listed(leaf)
                assert values is not None
                sizes.append(len(values.values))
        tables = [self._public_rows(frozenset(names)) for names in public.values()]
        counts = [t.num_rows for t in tables if t is not None]
        few = len(sizes) <= 1 or prod(sizes) <= MAX_IMPLIED
        return few and len(counts) == len(tables) and prod(sizes) * prod(counts) <= MAX_CELLS

    def listed(self, e: Expr) -> Domain | None:
        """The values of a variable that is no public column, or of an expression by its kind or its range."""
        if e in self.images:
            return self.images[e]
        if e not in self.lists:
            self.lists[e] = self._of_variable(e.name) if isinstance(e, exp.Column) else self._by_itself(e)
        return self.lists[e]

    def _of_variable(self, name: str) -> Domain | None:
        column = replace(self.variables.columns[name], scalar=self.known[name])
        if column.public is not None or not column.scalar.type.is_key:
            return None
        nulls = [None] if column.scalar.range.nullable else []
        if not column.origins:
            return declared(column, self.public)
        sides = [Lister(o.facts, self.variables, self.public).domain(o.value) for o in column.origins]
        parts = [d for d in sides if d is not None]
        if len(parts) < len(sides):
            return implied(column.scalar, nulls)
        values = together(parts, column.scalar, nulls, self.public)
        return Domain(values, " and ".join(dict.fromkeys(d.why for d in parts)))

    def _by_itself(self, e: Expr) -> Domain | None:
        """The values of an expression whose columns aren't listed: CASE arms, steps, booleans, integers, dates."""
        try:
            total = self._total(e)
        except Error:
            return None  # no value by itself, like a WHEN
        nulls = [None] if may_be_null(e, self._total) else []
        arms = _arms(e)
        if arms is not None and total.type.is_key:
            parts = [self.domain(arm) for arm in arms]
            listed = [p for p in parts if p is not None]
            if len(listed) < len(parts):
                return implied(total, nulls)
            missing = nulls if any(p.values.null_count for p in listed) else []
            return Domain(together(listed, total, missing, self.public), "the values that CASE can give")
        values = stepped(e, self.known, total, self.public)
        return implied(total, nulls) if values is None else self._without_null(e, total, values)

    def _without_null(self, e: Expr, total: Scalar, values: Domain) -> Domain:
        """The values; NULL isn't one of them where the expression can't be."""
        if not values.values.null_count or may_be_null(e, self._total):
            return values
        return replace(values, values=values.values.drop_null())

    # ---------------------------------------------------------------- lists and what connects them

    def _combined(self, keys: Sequence[Expr], facts: Sequence[Expr]) -> Cells:
        leaves = {leaf: None for k in keys for leaf in self.cover(k) or ()}
        for leaf in leaves:
            if not isinstance(leaf, exp.Column):
                self.names.setdefault(leaf, f"s{len(self.names)}")
        over = [self._over_lists(k) for k in keys]
        connected = self._connected({c.name for k in over for c in nodes_of(k, exp.Column)}, facts)
        met = frozenset().union(*(f.names for f in connected))
        made = [self._key(k, met) for k in over]
        columns = {*met, *(n for k in made for n in k.names)}
        types = {n: self._scalars()[n].type for n in columns}
        return combined(made, connected, Lists({n: self._group(n) for n in columns}, types, self._rows, self.public))

    def _key(self, over: Expr, met: frozenset[str]) -> Key:
        total = scalar(over, self._scalars())
        names = {c.name: None for c in nodes_of(over, exp.Column)}
        why = " × ".join(dict.fromkeys(self._why(n) for n in names)) or "a constant"
        plainly = isinstance(over, exp.Column) and over.name not in met and not self._is_public_name(over.name)
        return Key(total, why, self.listed(self._leaf(over.name)) if plainly else None)

    def _is_public_name(self, name: str) -> bool:
        return name in self.variables.beside

    def _leaf(self, name: str) -> Expr:
        """What a column of a list stands for."""
        return next((e for e, n in self.names.items() if n == name), plan_column(name))

    def _why(self, name: str) -> str:
        if self._is_public_name(name):
            return "a public column"
        values = self.listed(self._leaf(name))
        assert values is not None
        return values.why

    def _group(self, name: str) -> Group:
        return self.variables.beside[name].columns if self._is_public_name(name) else (name,)

    def _scalars(self) -> dict[str, Scalar]:
        parts = {n: replace(self._total(e), sql=plan_column(n)) for e, n in self.names.items()}
        return {**self.known, **parts}

    def _total(self, e: Expr) -> Scalar:
        """An expression over variables, as it is known here."""
        if e not in self._totals:
            self._totals[e] = scalar(e, self.known)
        return self._totals[e]

    def _over_lists(self, e: Expr) -> Expr:
        """The expression with the parts that are listed replaced by their columns."""

        def rewrite(node: Expr) -> Expr:
            return plan_column(self.names[node]) if node in self.names else rebuilt(node, rewrite)

        return rewrite(e) if self.names else e

    def _connected(self, names: set[str], facts: Sequence[Expr]) -> list[Fact]:
        """The facts over lists that say something of these columns, or of others that they connect with them."""
        known = self._scalars()
        written = [self._over_lists(f) for f in (*facts, *over_truncations(self.facts, self.names))]
        waiting = [(f, isinstance(f, exp.EQ)) for f in dict.fromkeys(written)]
        waiting += [(exp.NullSafeEQ(this=plan_column(n), expression=e), True) for e, n in self.names.items()]
        reached = {n for name in names for n in self._group(name)}
        found: list[Fact] = []
        more = True
        while more:
            more = False
            for one in list(waiting):
                columns = {c.name for c in nodes_of(one[0], exp.Column)}
                if columns & reached and all(map(self._is_listed, columns)):
                    waiting.remove(one)
                    reached |= {n for c in columns for n in self._group(c)}
                    found.append(Fact(scalar(one[0], known).sql, one[1]))
                    more = True
        return found

    def _is_listed(self, name: str) -> bool:
        return self._is_public(name) or name in self.names.values() or self.listed(plan_column(name)) is not None

    # ---------------------------------------------------------------- rows of lists

    def _rows(self, group: Group, names: frozenset[str]) -> Arrow | None:
        """The different values that these columns have together; None where there are too many."""
        import pyarrow as pa

        if self._is_public_name(group[0]):
            return self._public_rows(names)
        (name,) = group
        values = self.listed(self._leaf(name))
        assert values is not None
        return pa.table({name: values.values})

    def _public_rows(self, names: frozenset[str]) -> Arrow | None:
        listed = tuple(sorted(names))
        if listed not in self.read:
            self.read[listed] = self._read(listed)
        return self.read[listed]

    def _read(self, names: tuple[str, ...]) -> Arrow | None:
        """Of public rows that meet the facts about them alone, or of no row where there may be none."""
        beside = self.variables.beside[names[0]]
        columns = {n: c for n in beside.columns if (c := self.variables.columns[n].public) is not None}
        rows = columns[names[0]]
        looked = [exp.alias_(identifier(c.column), n, quoted=True, copy=False) for n, c in columns.items()]
        whole: exp.Query = exp.select(*looked).from_(copied(rows.source), copy=False)
        if beside.missing:
            none = [exp.alias_(typed(exp.null(), self.known[n].type), n, quoted=True) for n in columns]
            whole = exp.union(whole, exp.select(*none), distinct=False)
        inner = exp.Subquery(this=whole, alias=exp.TableAlias(this=quoted("q")))
        query = exp.select(*(identifier(n) for n in names)).distinct(copy=False)
        query = query.from_(inner, copy=False).limit(MAX_CELLS + 1, copy=False)
        for fact in self.facts:
            about = {c.name for c in nodes_of(fact, exp.Column)}
            if about and about <= columns.keys():
                query = query.where(copied(scalar(fact, self.known).sql), copy=False)
        found = self.public.table(query, rows.rows)
        return found if found.num_rows <= MAX_CELLS else None


def _arms(key: Expr) -> list[Expr] | None:
    match key:
        case exp.Case():
            arms = [i.args["true"] for i in key.args["ifs"]]
            return [*arms, key.args.get("default") or exp.Null()]
        case exp.If():
            return [key.args["true"], key.args.get("false") or exp.Null()]
        case exp.Coalesce():
            return [key.this, *key.expressions]
        case _:
            return None


def _without_nulls(known: Mapping[str, Scalar], facts: Iterable[Expr]) -> Mapping[str, Scalar]:
    """The variables, those without NULL that can't be NULL where the facts hold."""
    there = frozenset().union(*map(present, facts))
    return {n: replace(s, range=s.range.with_nullable(False)) if n in there else s for n, s in known.items()}
