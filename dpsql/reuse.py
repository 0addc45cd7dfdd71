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
from dpsql.plan.canonical import Names, UnknownNode
from dpsql.plan.nodes import Given, PublicTable, parts_of
from dpsql.pool import pool
from dpsql.release import Noisy
from dpsql.statistics.base import Clip, Quantity, Value
from dpsql.statistics.strategy import Linear

FORMAT = "1"  # part of every key: stored releases of another format are not found


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Stored releases that answer a whole query, and the receipt of the spend that the first of them left under."""

    noisy: tuple[Noisy, ...]
    receipt: Receipt


def find(quote: Quote, versions: Mapping[str, str], ledger: Ledger) -> Found | None:
    """What answers the whole query for free; None where a single one of its releases isn't there."""
    noisy: list[Noisy] = []
    ids: list[str] = []
    earlier: dict[str, str] = {}
    for step in quote.steps:
        key = release_key(step, versions, earlier)
        stored = [(id, unpack_release(kept)) for id, kept in ledger.stored(key)] if key else []
        if step.selection is None and len(stored) > 1:  # nothing was withheld: all have the same cells
            stored.append((stored[0][0], pool([archived for _, archived in stored])))
        hits = ((id, _answers(step, archived, earlier)) for id, archived in stored)
        id, one = next((hit for hit in hits if hit[1] is not None), ("", None))
        if one is None:
            return None
        earlier[step.name] = _identity(step, key, id, earlier)
        ids.append(id)
        noisy.append(one)
    if not ids:
        return None
    entry = ledger.entry(ids[0])
    free = ledger.account.filter.nothing
    return Found(tuple(noisy), Receipt(entry.id, entry.time, free, "released", reused=True))


def keep(quote: Quote, versions: Mapping[str, str], noisy: Sequence[Noisy], answers: Sequence[Answer]) -> list[Kept]:
    """What to store of a query that has been answered: its noisy tables, then its answer (of a batch: answers)."""
    kept: list[Kept] = []
    earlier: dict[str, str] = {}
    for step, one in zip(quote.steps, noisy, strict=True):
        names = Names(earlier)
        values: dict[str, Value] = {}
        wheres: dict[str, str] = {}
        clips: dict[str, Clip] = {}
        key = release_key(step, versions, earlier)
        if key:
            names.relation(step.checked.relation)
            for argument, call in zip(step.checked.arguments, step.calls, strict=True):
                if argument.value is not None and call.value is not None:
                    values.setdefault(names.value(argument.value), call.value)
                if argument.second is not None and call.second is not None:
                    values.setdefault(names.value(argument.second), call.second)
                if argument.where is not None and call.where is not None:
                    wheres[names.expression(argument.where.sql)] = call.where
                if call.clip is not None:
                    clips[names.clip(argument, call.clip)] = call.clip
            earlier[step.name] = _identity(step, key, answers[0].receipt.id, earlier)
        threshold = None if step.selection is None else step.selection.threshold
        kept.append(pack_release(key, one, _offers(step), values, wheres, clips, threshold))
    return [*kept, *(pack_answer(answer, noisy) for answer in answers)]


def public_tables(quote: Quote) -> frozenset[str]:
    """The public tables whose rows decide which private rows a release is of."""
    found = set()
    for step in quote.steps:
        for part in parts_of(step.checked.relation):
            if isinstance(part, PublicTable):
                found.add(part.table.lower())
            elif isinstance(part, Given):
                found |= {table.name.lower() for table in part.query.find_all(exp.Table)}
    return frozenset(found)


# ---------------------------------------------------------------- the key of a release plan


def release_key(step: Step, versions: Mapping[str, str], earlier: Mapping[str, str]) -> bytes:
    """What a step measures below its statistics, as a hash; b"" where no rule says what that is.

    earlier: the identities of earlier steps, whose noisy values may be constants of this one.
    """
    checked, names = step.checked, Names(earlier)
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
        for argument in checked.arguments:
            names.argument(argument)  # an argument that no rule knows can't be found again either
    except (UnknownNode, KeyError):
        return b""
    found = blake2b(json.dumps(whole).encode(), digest_size=32, person=b"dpsql.release")
    if step.cells is not None:
        found.update(to_bytes(step.cells))
    return found.digest()


def _identity(step: Step, key: bytes, receipt: str, earlier: Mapping[str, str]) -> str:
    """What tells this very noisy table apart from every other: its spend, its plan, and what its columns are."""
    names = Names(earlier)
    names.relation(step.checked.relation)
    aggregates = [[a.call.function, names.argument(a)] for a in step.checked.arguments]
    return json.dumps([receipt, key.hex(), aggregates])


# ---------------------------------------------------------------- does a stored release answer this one?


def _answers(step: Step, stored: Archived, earlier: Mapping[str, str]) -> Noisy | None:
    """The stored table as the table of this step; None if it lacks something, or has more noise."""
    names, left = Names(earlier), stored.noisy.step
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


def _rename(argument: Argument, call: Call, names: Names, stored: Archived) -> Call | None:
    """The call in the stored release's own names."""
    value, second, where = call.value, call.second, call.where
    if argument.value is not None and value is not None:
        value = stored.values.get(names.value(argument.value))
        if value is None:
            return None
    if argument.second is not None and second is not None:
        second = stored.values.get(names.value(argument.second))
        if second is None:
            return None
    if argument.where is not None and where is not None:
        where = stored.wheres.get(names.expression(argument.where.sql))
        if where is None:
            return None
    clip = call.clip
    if clip is not None:
        clip = stored.clips.get(names.clip(argument, clip))
        if clip is None:
            return None
    return replace(call, value=value, second=second, where=where, clip=clip)


def _offers(step: Step) -> dict[Quantity, Linear]:
    """All that the measured statistics tell: what the query needed, and what they give besides."""
    found = dict(step.estimates)
    for quantity, linear in _measured(step):
        found.setdefault(quantity, linear)
    return found


def _measured(step: Step) -> Iterator[tuple[Quantity, Linear]]:
    for index, measurement in enumerate(step.measurements):
        for quantity, weights in measurement.statistic.quantities().items():
            whole = 1 if quantity.kind in ("units", "clipped") else 2**step.bits  # those are never weighted
            yield quantity, Linear.of({(index, column): w / whole for column, w in enumerate(weights)})
