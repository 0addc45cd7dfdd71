"""Combinations of public values: lists joined by the facts that connect them, one by one and within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from sqlglot import exp

from dpsql.analyze.domains import MAX_CELLS, Domain, PublicEngine, identifier, quoted, typed
from dpsql.analyze.per_unit import canonical
from dpsql.analyze.variables import Arrow
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied, nodes_of

Names = frozenset[str]
Group = tuple[str, ...]  # columns that come together: of public rows, or of one list of values


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Which values of some keys go together: for each of the keys the places of its values in its domain."""

    keys: tuple[int, ...]
    places: tuple[Any, ...]  # numpy arrays, one for each key

    @property
    def count(self) -> int:
        return len(self.places[0])


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The public cells of a release: the values of each key, and a product of lists of those that go together."""

    domains: tuple[Domain, ...]
    lists: tuple[Listed, ...]

    @classmethod
    def of(cls, domains: tuple[Domain, ...]) -> Cells:
        """All combinations of these values."""
        import numpy as np

        every = (Listed((key,), (np.arange(len(one.values)),)) for key, one in enumerate(domains))
        return cls(domains, tuple(every))

    @property
    def count(self) -> int:
        return prod(one.count for one in self.lists)

    @property
    def holds_null(self) -> bool:
        return any(d.values.null_count for d in self.domains)

    def table(self) -> Arrow:
        """All cells in key order, NULLs last: columns k0, k1, …"""
        import numpy as np
        import pyarrow as pa

        # One key: its values as they are. take() imports all of pyarrow.compute, which is slow.
        if len(self.domains) == 1:
            return pa.table({"k0": self.domains[0].values})
        places: dict[int, Any] = {}
        repeat = total = self.count
        for one in self.lists:
            repeat = repeat // one.count if one.count else 0
            index = np.tile(np.repeat(np.arange(one.count), repeat), total // (one.count * repeat) if repeat else 0)
            places |= {key: p[index] for key, p in zip(one.keys, one.places, strict=True)}
        keys = range(len(self.domains))
        if [k for one in self.lists for k in one.keys] != list(keys):
            order = np.lexsort([places[k] for k in reversed(keys)])
            places = {k: p[order] for k, p in places.items()}
        return pa.table({f"k{k}": self.domains[k].values.take(pa.array(places[k])) for k in keys})


@dataclass(frozen=True, slots=True)
class Key:
    """A key over columns of lists, as it runs."""

    total: Scalar
    why: str
    domain: Domain | None  # where it is one of the columns itself, and no list of it was joined to anything

    @property
    def names(self) -> Names:
        return frozenset(c.name for c in nodes_of(self.total.sql, exp.Column))


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition over columns of lists, as it runs."""

    sql: Expr
    equality: bool

    @property
    def names(self) -> Names:
        return frozenset(c.name for c in nodes_of(self.sql, exp.Column))


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists that there are: which columns come together, their types, and how their rows are read."""

    groups: Mapping[str, Group]
    types: Mapping[str, Type]
    read: Callable[[Group, Names], Arrow | None]  # the different values of these columns; None: too many
    public: PublicEngine


def combined(keys: Sequence[Key], facts: Sequence[Fact], lists: Lists) -> Cells:
    """The combinations of the keys' values that meet the facts, and perhaps some that don't."""
    domains: dict[int, Domain] = {}
    found: list[Listed] = []
    for numbers in _clusters([{lists.groups[n] for n in k.names} for k in keys], facts, lists):
        mine = [keys[i] for i in numbers]
        joined = _Joiner(mine, facts, lists).run()
        for own in [numbers] if joined is not None else [(i,) for i in numbers]:
            rows = joined if joined is not None else _alone(own[0], mine, keys, facts, lists)
            values, listed = _evaluated(own, keys, rows, lists)
            domains |= values
            found.append(listed)
    return Cells(tuple(domains[i] for i in range(len(keys))), tuple(found))


def _alone(number: int, beside: Sequence[Key], keys: Sequence[Key], facts: Sequence[Fact], lists: Lists) -> Arrow:
    """The rows of one key, where all that hang together would be too many: facts about others say nothing."""
    others = {n for k in beside for name in k.names - keys[number].names for n in lists.groups[name]}
    rows = _Joiner([keys[number]], [f for f in facts if not f.names & others], lists).run()
    assert rows is not None, "a key was said to have a list"
    return rows


def _clusters(groups: Sequence[set[Group]], facts: Iterable[Fact], lists: Lists) -> list[tuple[int, ...]]:
    """The keys that hang together, through a list or through facts; in the order of their first ones."""
    connected = [*({lists.groups[n] for n in f.names} for f in facts), *groups]
    clusters: list[set[Group]] = []
    for one in connected:
        touched = [c for c in clusters if c & one]
        clusters = [c for c in clusters if not c & one] + [one.union(*touched)]
    inside = [next((i for i, c in enumerate(clusters) if c & g), -1 - k) for k, g in enumerate(groups)]
    return [tuple(k for k, c in enumerate(inside) if c == one) for one in dict.fromkeys(inside)]


class _Joiner:
    """Joins the lists that some keys are made of with each other, and with those that facts connect them to."""

    def __init__(self, keys: Sequence[Key], facts: Sequence[Fact], lists: Lists) -> None:
        self.keys, self.lists = keys, lists
        self.facts = list(facts)

    def run(self) -> Arrow | None:
        """The rows of columns that the keys look at; None where there would be too many."""
        groups = self.lists.groups
        needed = list(dict.fromkeys(groups[n] for k in self.keys for n in sorted(k.names)))
        if not needed:
            return _one_row()
        waiting, current = needed[1:], self._load(needed[0])
        while current is not None:
            group = self._next(current, waiting)
            if group is None:
                return current
            table = self._load(group)
            merged = None if table is None else self._merged(current, table)
            if merged is not None:
                current = merged
            elif group in needed:
                return None
            else:  # it can only have narrowed something
                self.facts = [f for f in self.facts if not f.names & set(group)]
            waiting = [g for g in waiting if g != group]
        return None

    def _next(self, current: Arrow, waiting: Sequence[Group]) -> Group | None:
        """A list that an equality connects with the rows so far, else one that any fact does, else one of a key."""
        have, groups = set(current.column_names), self.lists.groups
        for facts in ([f for f in self.facts if f.equality], self.facts):
            for fact in facts:
                outside = {groups[n] for n in fact.names - have}
                if fact.names & have and len(outside) == 1:
                    return next(iter(outside))
        return waiting[0] if waiting else None

    def _looked_at(self) -> Names:
        return frozenset().union(*(k.names for k in self.keys), *(f.names for f in self.facts))

    def _load(self, group: Group) -> Arrow | None:
        rows = self.lists.read(group, self._looked_at() & set(group))
        return None if rows is None else self._filtered(rows)

    def _filtered(self, rows: Arrow) -> Arrow:
        """The rows that meet the facts about them alone, which then need not be looked at any more."""
        own = [f for f in self.facts if f.names <= set(rows.column_names)]
        if not own:
            return rows
        query = exp.select("*").from_(self._source("a", rows), copy=False)
        query = query.where(*(copied(f.sql) for f in own), copy=False)
        self.facts = [f for f in self.facts if f not in own]
        return self.lists.public.table(query, {"a": rows})

    def _merged(self, left: Arrow, right: Arrow) -> Arrow | None:
        """Both side by side where the facts about them hold: only what is still looked at, and each row once."""
        have = {*left.column_names, *right.column_names}
        own = [f for f in self.facts if f.names <= have]
        few = left.num_rows * right.num_rows <= MAX_CELLS
        if not few and not any(f.equality for f in own):
            return None
        before, self.facts = self.facts, [f for f in self.facts if f not in own]
        kept = [identifier(n) for n in sorted(have & self._looked_at())]
        tables = {"a": left, "b": right}
        query = exp.select(*kept).from_(self._source("a", left), copy=False)
        query = query.join(self._source("b", right), join_type="CROSS", copy=False)
        if own:
            query = query.where(*(copied(f.sql) for f in own), copy=False)
        if few:
            return self.lists.public.table(query.distinct(copy=False), tables)
        found = self.lists.public.table(query.limit(MAX_CELLS + 1, copy=False), tables)
        if found.num_rows > MAX_CELLS:
            self.facts = before
            return None
        return self.lists.public.table(exp.select("*").distinct().from_(self._source("a", found)), {"a": found})

    def _source(self, name: str, rows: Arrow) -> exp.Subquery:
        return source(name, rows, self.lists.types)


def _one_row() -> Arrow:
    import pyarrow as pa

    return pa.table({"one": [1]})


def source(name: str, rows: Arrow, types: Mapping[str, Type]) -> exp.Subquery:
    """Rows in the types that they stand for: not all of them come through Arrow."""
    columns = [
        exp.alias_(typed(identifier(n), types[n]) if n in types else identifier(n), n, quoted=True, copy=False)
        for n in rows.column_names
    ]
    query = exp.select(*columns).from_(exp.Table(this=quoted(name)), copy=False)
    return exp.Subquery(this=query, alias=exp.TableAlias(this=quoted(name)))


def _evaluated(
    numbers: tuple[int, ...], keys: Sequence[Key], rows: Arrow, lists: Lists
) -> tuple[dict[int, Domain], Listed]:
    """The values of keys over these rows: the different ones of each, and which go together."""
    import numpy as np
    import pyarrow as pa

    mine = [keys[i] for i in numbers]
    only = mine[0].domain
    if len(mine) == 1 and only is not None:
        return {numbers[0]: only}, Listed(numbers, (np.arange(len(only.values)),))
    values = [exp.alias_(_shown(k.total), f"k{i}") for i, k in enumerate(mine)]
    query = exp.select(*values).distinct(copy=False).from_(source("a", rows, lists.types), copy=False)
    inner = exp.Subquery(this=query, alias=exp.TableAlias(this=quoted("q")))
    columns = [identifier(f"k{i}") for i in range(len(mine))]
    ranked = [exp.alias_(_place(c), f"c{i}") for i, c in enumerate(columns)] if len(mine) > 1 else []
    whole = exp.select(*columns, *ranked).from_(inner, copy=False)
    for key, column in zip(mine, columns, strict=True):
        if not key.total.range.nullable:
            whole = whole.where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null())), copy=False)
    whole = whole.order_by(*(exp.Ordered(this=c.copy(), nulls_first=False) for c in columns), copy=False)
    found = lists.public.table(whole, {"a": rows})
    listed = [found.column(f"k{i}").combine_chunks() for i in range(len(mine))]
    if len(mine) == 1:
        return {numbers[0]: Domain(listed[0], mine[0].why)}, Listed(numbers, (np.arange(len(listed[0])),))
    places = [np.asarray(found.column(f"c{i}").to_pylist(), dtype=np.int64) for i in range(len(mine))]
    domains = {}
    for number, key, array, place in zip(numbers, mine, listed, places, strict=True):
        _, first = np.unique(place, return_index=True)
        domains[number] = Domain(array.take(pa.array(first)), key.why)
    return domains, Listed(numbers, tuple(places))


def _place(column: Expr) -> Expr:
    """The place of a value among the different ones in order, NULL last."""
    order = exp.Order(expressions=[exp.Ordered(this=column.copy(), nulls_first=False)])
    ranked = exp.Window(this=exp.DenseRank(), order=order)
    return exp.Sub(this=ranked, expression=exp.Literal.number(1))


def _shown(total: Scalar) -> Expr:
    """A key as a group shows it."""
    value = canonical(total)
    return exp.cast(value, "VARCHAR") if total.type.is_text else value
