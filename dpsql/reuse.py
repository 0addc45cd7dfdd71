"""Free answers: what left once may leave again (Theorem FREE-1).

A release is found again by what it measures, not by the text of the query: the relation below the statistics, the keys
and their cells, the bounds on one unit, and the version of the data. Aliases, spacing, ORDER BY, LIMIT, HAVING and all
other post-processing are not part of that. The stored noisy table answers a query when it has every quantity that the
query needs, with no more noise than the query would get.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b

from sqlglot import exp

from dpsql.accounting.account import Receipt
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.stored import Kept
from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.analyze.checked import Argument
from dpsql.answer import Answer
from dpsql.archive import Archived, Left, pack_answer, pack_release, to_bytes, unpack_release
from dpsql.calibrate import Quote, Step
from dpsql.plan.nodes import Filter, Link, Relation, Scan
from dpsql.release import Noisy
from dpsql.sql.scalar import Scalar
from dpsql.statistics.base import Quantity, Value
from dpsql.statistics.strategy import Linear
from dpsql.statistics.units import Units

FORMAT = "1"  # part of every key: stored releases of another format are not found


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Stored releases that answer a whole query, and the receipt of the spend that the first of them left under."""

    noisy: tuple[Noisy, ...]
    receipt: Receipt


class _UnknownError(Exception):
    """Something that no rule here knows: the release is neither stored for reuse nor looked for."""


def find(quote: Quote, versions: Mapping[str, str], ledger: Ledger) -> Found | None:
    """What answers the whole query for free; None where a single one of its releases isn't there."""
    noisy: list[Noisy] = []
    ids: list[str] = []
    for step in quote.steps:
        key = release_key(step, versions)
        hit = next(
            ((id, n) for id, kept in ledger.stored(key) if (n := _answers(step, unpack_release(kept))) is not None),
            None,
        ) if key else None  # fmt: skip
        if hit is None:
            return None
        ids.append(hit[0])
        noisy.append(hit[1])
    if not ids:
        return None
    entry = ledger.entry(ids[0])
    free = ledger.account.filter.nothing
    return Found(tuple(noisy), Receipt(entry.id, entry.time, free, "released", reused=True))


def keep(quote: Quote, versions: Mapping[str, str], noisy: Sequence[Noisy], answers: Sequence[Answer]) -> list[Kept]:
    """What to store of a query that has been answered: its noisy tables, then its answer (of a batch: answers)."""
    kept = []
    for step, one in zip(quote.steps, noisy, strict=True):
        names = _Names()
        values: dict[str, Value] = {}
        wheres: dict[str, str] = {}
        try:
            names.relation(step.checked.relation)
            for argument, call in zip(step.checked.arguments, step.calls, strict=True):
                if argument.value is not None and call.value is not None:
                    values.setdefault(names.value(argument.value), call.value)
                if argument.where is not None and call.where is not None:
                    wheres[names.expression(argument.where.sql)] = call.where
        except _UnknownError:
            values, wheres = {}, {}
        threshold = None if step.selection is None else step.selection.threshold
        kept.append(pack_release(release_key(step, versions), one, _offers(step), values, wheres, threshold))
    return [*kept, *map(pack_answer, answers)]


# ---------------------------------------------------------------- the key of a release plan


def release_key(step: Step, versions: Mapping[str, str]) -> bytes:
    """What a step measures below its statistics, as a hash; b"" where no rule says what that is."""
    checked, names = step.checked, _Names()
    unit = checked.bounding.contribution
    try:
        whole: list[object] = [
            FORMAT,
            names.relation(checked.relation),
            [[names.expression(k.sql), k.type.sql] for k in checked.keys],
            "private" if checked.private_keys else "public",
            [checked.bounding.mass, checked.bounding.peak, checked.bounding.cap, checked.min_units],
            [str(unit.mass), str(unit.peak), str(unit.groups), unit.keyed, unit.replace],
            [[table, versions[table]] for table in sorted(names.tables)],
        ]
    except (_UnknownError, KeyError):
        return b""
    found = blake2b(json.dumps(whole).encode(), digest_size=32, person=b"dpsql.release")
    if step.cells is not None:
        found.update(to_bytes(step.cells))
    return found.digest()


class _Names:
    """Plan columns by where they come from, whatever the query calls them."""

    def __init__(self) -> None:
        self.columns: dict[str, str] = {}
        self.tables: set[str] = set()

    def relation(self, relation: Relation) -> list[object]:
        """A canonical text of the rows; only nodes that are known here, so that a new one is never confused."""
        match relation:
            case Scan():
                scan = len(self.tables)
                self.tables |= {relation.table, *(link.table for link in relation.links)}
                for plan, column in relation.columns:
                    self._name(plan, f"s{scan}.{column.lower()}")
                if relation.unit is not None and relation.unit not in self.columns:
                    self._name(relation.unit, f"s{scan}.")
                unit = None if relation.unit is None else self.columns[relation.unit]
                return ["scan", relation.table, unit, relation.owner, [_link(link) for link in relation.links]]
            case Filter():
                below = self.relation(relation.input)
                return ["filter", below, self.expression(relation.condition)]
            case _:
                raise _UnknownError

    def _name(self, plan: str, canonical: str) -> None:
        if plan in self.columns:
            raise _UnknownError
        self.columns[plan] = canonical

    def expression(self, node: exp.Expr) -> str:
        """The expression over canonical names; nothing in it may stand for anything else."""
        copy = node.copy()
        for part in copy.find_all(exp.Table, exp.Query, exp.Placeholder, exp.Parameter):
            raise _UnknownError(type(part).__name__)
        for column in copy.find_all(exp.Column):
            if column.table or column.name not in self.columns:
                raise _UnknownError
            column.this.replace(exp.to_identifier(self.columns[column.name], quoted=True))
        return str(copy.sql(dialect="duckdb", comments=False))

    def value(self, value: Scalar) -> str:
        """An aggregated value: its expression, its type, the range that it is clipped to, and whether it may lack."""
        found = value.range
        return json.dumps([self.expression(value.sql), value.type.sql, str(found.low), str(found.high), found.nullable])


def _link(link: Link) -> list[object]:
    return [link.table, [[here.lower(), there.lower()] for here, there in link.on]]


# ---------------------------------------------------------------- does a stored release answer this one?


def _answers(step: Step, stored: Archived) -> Noisy | None:
    """The stored table as the table of this step; None if it lacks something, or has more noise."""
    names, left = _Names(), stored.noisy.step
    names.relation(step.checked.relation)
    if step.selection is not None and (stored.threshold is None or stored.threshold > step.selection.threshold):
        return None
    calls: list[Call] = []
    mine = [Fraction(m.noise.variance) for m in step.measurements]
    theirs = [Fraction(m.noise.variance) for m in left.measurements]
    for argument, call in zip(step.checked.arguments, step.calls, strict=True):
        other = _rename(argument, call, names, stored)
        if other is None:
            return None
        recipe = RECIPES[call.function]
        needs = dict(zip(recipe.needs(call), recipe.needs(other), strict=True))
        if any(q not in left.estimates for q in needs.values()):
            return None
        for contrast in recipe.contrasts(call):
            asked = Linear.combine((step.estimates[q], w) for q, w in contrast.items()).variance(mine)
            had = Linear.combine((left.estimates[needs[q]], w) for q, w in contrast.items()).variance(theirs)
            if had > asked * (1 + Fraction(1, 10**9)):
                return None
        calls.append(other)
    assert isinstance(left, Left)
    return replace(stored.noisy, step=replace(left, name=step.name, calls=tuple(calls)))


def _rename(argument: Argument, call: Call, names: _Names, stored: Archived) -> Call | None:
    """The call in the stored release's own names."""
    value, where = call.value, call.where
    if argument.value is not None and value is not None:
        value = stored.values.get(names.value(argument.value))
        if value is None:
            return None
    if argument.where is not None and where is not None:
        where = stored.wheres.get(names.expression(argument.where.sql))
        if where is None:
            return None
    return replace(call, value=value, where=where)


def _offers(step: Step) -> dict[Quantity, Linear]:
    """All that the measured statistics tell: what the query needed, and what they give besides."""
    found = dict(step.estimates)
    for quantity, linear in _measured(step):
        found.setdefault(quantity, linear)
    return found


def _measured(step: Step) -> Iterator[tuple[Quantity, Linear]]:
    for index, measurement in enumerate(step.measurements):
        whole = 1 if isinstance(measurement.statistic, Units) else 2**step.bits  # units are never weighted
        for quantity, weights in measurement.statistic.quantities().items():
            yield quantity, Linear.of({(index, column): w / whole for column, w in enumerate(weights)})
