"""The canonical text of a release's rows, whatever a query calls their columns: for finding the same release again.

Only nodes and expressions that are known here have a text, so that nothing new is ever confused with another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.plan.nodes import (
    Filter,
    Given,
    GroupUnits,
    Join,
    Link,
    Mark,
    Project,
    PublicTable,
    Relation,
    Scan,
    Union,
    Windows,
    columns_of,
)
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied, explicit, nodes, nodes_of
from dpsql.statistics.base import Clip


class UnknownNode(Exception):
    """Something that no rule here knows: the release is neither stored for reuse nor looked for."""


class Names:
    """Plan columns by where they come from. earlier: what earlier steps are, whose noisy values may be constants."""

    def __init__(self, earlier: Mapping[str, str]) -> None:
        self.columns: dict[str, str] = {}  # of the relation that was read last
        self.tables: set[str] = set()
        self._earlier = earlier
        self._count = 0
        self._texts: dict[int, tuple[exp.Expr, Mapping[str, str], str]] = {}  # of expressions, with what named them

    def relation(self, relation: Relation | PublicTable | Given) -> list[object]:
        """A canonical text of the rows; afterwards `columns` are its columns."""
        match relation:
            case Scan():
                self.tables |= {relation.table, *(link.table for link in relation.links)}
                hidden = () if relation.unit is None or relation.unit in dict(relation.columns) else (relation.unit,)
                place = self._scope([*relation.columns, *((u, "") for u in hidden)])
                links = [_link(link) for link in relation.links]
                return ["scan", place, relation.table, self._column(relation.unit), relation.owner, links]
            case PublicTable():
                self.tables.add(relation.table)
                return ["public", self._scope(relation.columns), relation.table]
            case Given():
                return ["given", self._given(relation), self._scope(relation.columns), relation.one_row]
            case Filter():
                below = self.relation(relation.input)
                return ["filter", below, self.expression(relation.condition)]
            case Project():
                below = self.relation(relation.input)
                texts = [self.expression(e) for _, e in relation.columns]
                place = self._scope([(name, str(i)) for i, (name, _) in enumerate(relation.columns)])
                return ["project", below, place, texts, self._column(relation.unit)]
            case Join():
                sides = self._both(relation.left, relation.right)
                return ["join", *sides, relation.kind, *self._condition(relation.condition, relation.units)]
            case Mark():
                sides = self._both(relation.input, relation.other)
                member = None if relation.member is None else [self.expression(e) for e in relation.member]
                found = ["mark", *sides, *self._condition(relation.condition, relation.units), member]
                # The other side's columns end here: elsewhere the same names may be those of another relation.
                self.columns = {name: self.columns[name] for name in columns_of(relation.input)}
                return [*found, self._add(relation.column)]
            case Union():
                parts = []
                for one in relation.inputs:
                    text = self.relation(one)
                    parts.append([text, [self._column(name) for name, _ in relation.inputs[0].columns]])
                place = self._scope([(name, str(i)) for i, (name, _) in enumerate(relation.inputs[0].columns)])
                return ["union", parts, place, self._column(relation.inputs[0].unit)]
            case GroupUnits():
                below, unit = self.relation(relation.input), self._column(relation.unit)
                named = (*relation.keys, *relation.columns)
                texts = [self.expression(e) for _, e in named]
                place = self._scope([(relation.unit, ""), *((name, str(i)) for i, (name, _) in enumerate(named))])
                return ["units", below, unit, len(relation.keys), texts, place]
            case Windows():
                below, unit = self.relation(relation.input), self._column(relation.unit)
                return ["window", below, unit, self.expression(relation.window), self._add(relation.column)]
            case _:
                raise UnknownNode

    def _scope(self, columns: Sequence[tuple[str, str]]) -> str:
        """Start over with these columns, (plan name, what it is here)."""
        place, self._count = f"s{self._count}", self._count + 1
        self.columns = {plan: f"{place}.{here.lower()}" for plan, here in columns}
        if len(self.columns) < len(columns):
            raise UnknownNode
        return place

    def _add(self, plan: str) -> str:
        before = self.columns
        place = self._scope([(plan, "")])
        if plan in before:
            raise UnknownNode
        self.columns = {**before, plan: f"{place}."}
        return place

    def _both(self, left: Relation, right: Relation | PublicTable | Given) -> list[object]:
        one = self.relation(left)
        columns = self.columns
        other = self.relation(right)
        if columns.keys() & self.columns.keys():
            raise UnknownNode
        self.columns = {**columns, **self.columns}
        return [one, other]

    def _condition(self, condition: exp.Expr | None, units: tuple[str, str] | None) -> list[object]:
        text = None if condition is None else self.expression(condition)
        return [text, None if units is None else [self._column(u) for u in units]]

    def _column(self, plan: str | None) -> str | None:
        if plan is None:
            return None
        if plan not in self.columns:
            raise UnknownNode
        return self.columns[plan]

    def _given(self, given: Given) -> list[object]:
        """A query over public tables and over earlier releases, which are told by what they are."""
        used = {table.name for table in nodes_of(given.query, exp.Table)}
        released = sorted(used & self._earlier.keys())
        self.tables |= {name.lower() for name in used if name not in self._earlier}
        if given.noisy and not released:
            raise UnknownNode
        text = as_sql(explicit(given.query), comments=False, copy=False)
        return [text, [[name, self._earlier[name]] for name in released]]

    def expression(self, node: exp.Expr) -> str:
        """The expression over canonical names; nothing in it may stand for anything else."""
        known = self._texts.get(id(node))
        if known is None or known[1] is not self.columns:  # the node is kept, so nothing else has its id
            known = self._texts[id(node)] = (node, self.columns, self._text(node))
        return known[2]

    def _text(self, node: exp.Expr) -> str:
        copy = exp.Paren(this=copied(node))  # a parent, so that a lone column can be replaced
        for part in nodes(copy):
            if isinstance(part, exp.Table | exp.Query | exp.Placeholder | exp.Parameter):
                raise UnknownNode(type(part).__name__)
            if isinstance(part, exp.Column):
                if part.table:
                    raise UnknownNode
                part.set("this", exp.to_identifier(self._column(part.name), quoted=True))
        return as_sql(explicit(copy, copy=False), comments=False, copy=False)

    def value(self, value: Scalar) -> str:
        """An aggregated value: its expression, its type, the range that it is clipped to, and whether it may lack."""
        found = value.range
        return json.dumps([self.expression(value.sql), value.type.sql, str(found.low), str(found.high), found.nullable])

    def counted(self, argument: Argument) -> str:
        """What is aggregated, as far as its column goes: distinct values are neither clipped nor on a grid."""
        assert argument.value is not None
        if not argument.distinct:
            return self.value(argument.value)
        return json.dumps(["distinct", self.expression(argument.value.sql), argument.value.type.sql])

    def clip(self, argument: Argument, clip: Clip) -> str:
        """A clip per unit and group: of what, and to which bounds."""
        assert argument.clip is not None
        value = None if argument.value is None else self.value(argument.value)
        return json.dumps([value, clip.kind, str(argument.clip.low), str(argument.clip.high)])

    def argument(self, argument: Argument) -> list[object]:
        """What an aggregate is taken of."""
        clip = argument.clip
        return [
            None if argument.value is None else self.counted(argument),
            None if argument.where is None else self.expression(argument.where.sql),
            argument.units,
            argument.distinct,
            None if clip is None else [clip.per, str(clip.low), str(clip.high)],
            *([] if argument.second is None else [self.value(argument.second)]),
        ]


def named(checked: CheckedRelease, earlier: Mapping[str, str]) -> tuple[Names, list[object]]:
    """The names of a release's columns, and the canonical text of its rows; made once for a release."""
    key = (named, tuple(sorted(earlier.items())))
    found: tuple[Names, list[object]] | None = checked.once.get(key)
    if found is None:
        names = Names(earlier)
        found = checked.once[key] = names, names.relation(checked.relation)
    return found


def _link(link: Link) -> list[object]:
    return [link.table, [[here.lower(), there.lower()] for here, there in link.on]]
