"""What tells releases apart that are asked for at the same time: the keys of claims (Theorem FLIGHT-1).

Two that have the same key wait for each other and then look at what is stored, so no answer ever rests on a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

from dpsql.plan.nodes import Aggregate
from dpsql.quote.model import Ask, ResponseStep, Stage, Step
from dpsql.store.archive import to_bytes
from dpsql.store.canonical import Names, UnknownNode
from dpsql.store.responses import rows_key
from dpsql.store.reuse import identity, release_key


def claim_of(stage: Stage, versions: Mapping[str, str]) -> bytes:
    """What tells a stage apart from all that aren't identical to it; b"" where no rule says what it measures.

    Where a stage rests on earlier ones, it is told by them and by what it would be without them.
    """
    if stage.asked is not None:
        return _asked(stage, stage.asked, versions)
    whole: list[object] = [claim_of(one, versions).hex() for one in stage.after]
    earlier: dict[str, str] = {}
    for step in stage.steps:
        if isinstance(step, ResponseStep):
            columns = zip(step.checked.columns, step.mechanisms, strict=True)
            whole.append([rows_key(step, versions).hex(), *([c.identity, str(m.epsilon)] for c, m in columns)])
            continue
        key = release_key(step, versions, earlier)
        if not key:
            return b""
        threshold = None if step.selection is None else [step.selection.threshold, step.selection.votes]
        noises = [[m.noise.name, str(m.noise.variance)] for m in step.measurements]
        # On a finer grid, or where rows are divided more finely, the same integer is less noise.
        grids = [step.bits, *(str(v.grid.step) for q in step.estimates for v in (q.value, q.second) if v is not None)]
        weights = [str(weight) for linear in step.estimates.values() for _, weight in linear.terms]
        earlier[step.name] = identity(step, [key.hex()], earlier)
        whole.append([key.hex(), earlier[step.name], noises, grids, weights, threshold])
    return _hashed(whole) if stage.steps else b""


def _asked(stage: Stage, ask: Ask, versions: Mapping[str, str]) -> bytes:
    """The claim of a stage over automatic ranges: what it was asked for and of which rows, whatever the ranges are.

    It is the same before they are released and afterwards: whoever comes in between waits for the first one, too.
    """
    whole: list[object] = [stage.kind, str(ask.epsilon), str(ask.delta), ask.mechanism]
    earlier: dict[str, str] = {}
    whole += [[rows_key(step, versions).hex(), *(c.identity for c in step.checked.columns)] for step in stage.responses]
    try:
        for step in stage.releases:
            names = Names(earlier)
            written = _written(step, names)
            tables = [[table, versions[table]] for table in sorted(names.tables)]
            earlier[step.name] = json.dumps([written, tables])
            whole.append(earlier[step.name])
    except (UnknownNode, KeyError):
        return b""
    return _hashed(whole, *(to_bytes(step.cells) for step in stage.releases if step.cells is not None))


def _written(step: Step, names: Names) -> list[object]:
    """A step as the query writes it: nothing here hangs on a range."""
    release, bounding = step.checked.release, step.checked.bounding
    named = {"max_rows": bounding.mass, "max_groups": bounding.cap}  # what is chosen is told by what it is chosen for
    limits: list[object] = ["chosen" if name in bounding.chosen else limit for name, limit in named.items()]
    limits += [None if bounding.chosen else bounding.peak, step.checked.min_units]
    rows = names.relation(release.input)
    winners = None if release.winners is None else [release.winners.count, release.winners.largest]
    return [
        rows,
        [names.expression(key) for key in release.keys],
        limits,
        winners,
        [_aggregate(call, names) for call in release.aggregates],
    ]


def _aggregate(call: Aggregate, names: Names) -> list[object]:
    expressions = [None if e is None else names.expression(e) for e in (call.argument, call.second, call.where)]
    bounds = None if call.bounds is None else call.bounds.text
    return [call.function, call.distinct, [str(q) for q in call.at], bounds, *expressions]


def _hashed(whole: list[object], *tables: bytes) -> bytes:
    found = blake2b(json.dumps(whole).encode(), digest_size=32, person=b"dpsql.claim")
    for table in tables:
        found.update(table)
    return found.digest()
