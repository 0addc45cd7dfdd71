"""Quote -> plain values: what a query would measure, what that costs, and how far off its answers would be.

Everything here is a function of the SQL, the policy and the ledger; no private row has been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import floor, isfinite, sqrt
from typing import Any

import numpy as np

from dpsql.aggregates import RECIPES, present
from dpsql.aggregates.base import Call, Rational, Recipe
from dpsql.aggregates.clipping_bias import ClippingBias
from dpsql.analyze.checked import value_key
from dpsql.backends.base import Backend
from dpsql.bounds.bias import bias_of, cuts_of, hidden_lines, lines
from dpsql.bounds.promised import reach_of_average, reach_of_cut
from dpsql.core.cost import Cost, pure_rho
from dpsql.explain.relation_text import described, response_facts
from dpsql.mechanisms.base import Pure
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.plan.estimates import ResponseColumn, estimated
from dpsql.plan.google import interval_of
from dpsql.plan.nodes import Filter, Mark, parts_of
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.lineage import Lineage, call_text, kind_of, lineage, written
from dpsql.quote.model import Measurement, Quote, Step
from dpsql.quote.notes import groups_left_out
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import Scalar
from dpsql.statistics.base import Choice, Quantity
from dpsql.statistics.counts import Units, Votes
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.moments import Moments
from dpsql.statistics.sized import Sized
from dpsql.statistics.strategy import Linear
from dpsql.statistics.sums import Clipped, Joint, Sum
from dpsql.statistics.top import SCORES, Top

EXAMPLE_LIMITS = (1, 10, 100)
EXAMPLE_ROWS = 1000  # an average's error depends on how many rows a group has
Facts = dict[str, Any]


def as_dict(quote: Quote, *, backend: Backend | None = None) -> Facts:
    """What `explain` says; a backend adds the SQL that it runs."""
    epsilon, other = quote.price.epsilon, None if quote.main.open else quote.main.other
    steps: dict[str, Facts] = {}
    count = sum(len(s.measurements) for s in quote.steps)
    for step in quote.steps:
        before = sum(len(s["measurements"]) for s in steps.values())
        parts = quote.main.split.parts or (Fraction(1, max(1, count)),) * count
        bias = bias_of(step.checked, quote.counts)
        steps[step.name] = _release(step, quote.price, before, backend, parts, bias, learned=quote.learned)
    responses: dict[str, Facts] = {}
    for response in quote.responses:
        known = sum(len(r["aggregates"]) for r in responses.values())
        responses[response.name] = response_facts(response, quote.price, known, backend)
    lineages = lineage(quote.plan.post, {*steps, *responses})
    facts: Facts = {
        "sql": quote.plan.text,
        "price": _cost(quote.price),
        "mechanism": quote.main.split.name,
        "other": None if other is None else {"mechanism": other[0], "error": other[1]},
        "columns": [
            _column(name, kind, found, steps, responses)
            for (name, kind), found in zip(quote.result, lineages, strict=True)
        ],
        "releases": list(steps.values()),
        "responses": list(responses.values()),
    }
    if counting := [stage for stage in quote.stages if stage.kind == "limits"]:
        chosen = _chosen_limits(quote) if quote.main.open else []
        counts = sum(len(stage.steps) for stage in counting)
        facts["limits"] = {"cost": _cost(quote.cost_of(counting)), "chosen": chosen, "counts": counts}
        if quote.main.open:
            _forget_noise(quote, facts["releases"])
    if quote.learned:
        facts["learned"] = True
    if quote.counts and not quote.main.open:
        cuts = [cut for cut in cuts_of([s.checked for s in quote.steps], quote.counts) if cut.known]
        facts["cuts"] = [*lines(cuts), *hidden_lines(cuts)]
    if quote.main.automatic:
        facts["automatic"] = _automatic(quote)
        _forget(quote, facts["releases"])
    notes = [*chain(*quote.notes), *groups_left_out(quote.steps, chosen=quote.main.open)]
    if notes:
        facts["notes"] = list(dict.fromkeys(notes))
    if quote.price.delta == 0:  # Theorem GROUP-1: k units are protected at k·ε
        facts["group_privacy"] = {str(k): float(k * epsilon) for k in (1, 2, 5)}
    if quote.fits is not None:
        facts["fits"] = {"more": quote.fits.more, **quote.fits.whole}
    if backend is not None:
        noises = {
            ResponseColumn(r.name, i): (m, c.type)
            for r in quote.responses
            for i, (m, c) in enumerate(zip(r.mechanisms, r.checked.columns, strict=True))
        }
        facts["post_processing"] = as_sql(estimated(quote.plan.post.copy(), noises), pretty=True)
    return facts


def _automatic(quote: Quote) -> list[Facts]:
    """The automatic bounds that the query rests on, those that it must pay for first with their price."""
    first = (stage for stage in quote.stages if stage.kind == "range")
    found = []
    for one in quote.main.automatic:
        cost = None if one.range is not None else _cost(next(first).own)
        found.append({**one.facts(), "seed": [one.seed.first, one.seed.last], "cost": cost})
    return found


def _chosen_limits(quote: Quote) -> list[str]:
    """The limits that are chosen before the query itself is measured."""
    return list(dict.fromkeys(name for step in quote.steps for name in sorted(step.checked.bounding.chosen)))


def _forget_noise(quote: Quote, releases: list[Facts]) -> None:
    """Leave out what isn't known before the limits are: noise and errors of releases that hang on them."""
    for step, facts in zip(quote.steps, releases, strict=True):
        if not step.checked.bounding.chosen:
            continue
        chosen = step.checked.bounding.chosen
        facts.update(mass=None, peak=None, groups=None, chosen=sorted(chosen))
        facts["enforced"] = {name: None if name in chosen else limit for name, limit in facts["enforced"].items()}
        for m in facts["measurements"]:
            m.update(l1=None, l2=None, scale=None, grid=None)
            if step.checked.private_keys:  # by what they are found, and for which share, is chosen with the limits
                m.update(share=None, epsilon=None)
        if step.checked.private_keys:
            facts["selection"].update(by=None, threshold=None, units=None, other_units=None)
        for aggregate in facts["aggregates"]:
            aggregate.update(error=None, pending=True, by_limit=_by_limit(step, aggregate["error"]))
            if "presence" in aggregate:
                aggregate["presence"] |= {"above": None, "large_enough": None}


def _by_limit(step: Step, error: Any) -> dict[str, float] | None:
    """The noise of one cell for limits of 1, 10 and 100 rows, where the limit is still to be chosen."""
    mass = step.checked.bounding.mass
    if error is None or mass is None or "one_cell" not in error:
        return None
    noise = float(error.get("noise", error["one_cell"])) / mass
    return {str(limit): noise * limit for limit in EXAMPLE_LIMITS}


def _forget(quote: Quote, releases: list[Facts]) -> None:
    """Leave out what isn't known before a range is: noise and errors of whatever hangs on its seed range."""
    open_ranges = [a for a in quote.main.automatic if a.range is None]
    pending, values = {f"{a.title}: automatic" for a in open_ranges}, {a.key for a in open_ranges}
    for step, facts in zip(quote.steps, releases, strict=True):
        hanging: set[int] = set()
        for argument, aggregate in zip(step.checked.arguments, facts["aggregates"], strict=True):
            wide = any(value_key(step.checked.release.input, w.written) in values for w in argument.wide)
            column = argument.value is not None and bool(pending & set(argument.value.range.why))
            if (wide or column) and "range" in aggregate:
                aggregate["range"] = None
                aggregate.update(error=None, pending=True, by_limit=None)
                hanging |= set(aggregate["measurements"])
        for m in facts["measurements"]:
            if m["number"] in hanging:
                m.update(l1=None, l2=None, scale=None, grid=None)


def _release(
    step: Step,
    price: Cost,
    before: int,
    backend: Backend | None,
    parts: Sequence[Fraction],
    bias: ClippingBias,
    *,
    learned: bool,
) -> Facts:
    checked = step.checked
    unit, enforced = checked.bounding.contribution, checked.bounding
    facts: Facts = {
        "name": step.name,
        "table": checked.owner.table,
        "unit": checked.owner.unit or "row",
        "why": checked.owner.why,
        "rows": described(checked.release.input),
        "mass": None if unit.mass is None else float(unit.mass),
        "peak": None if unit.peak is None else float(unit.peak),
        "groups": None if unit.groups is None else float(unit.groups),
        "enforced": {
            "max_rows": enforced.mass,
            "max_rows_per_group": enforced.peak,
            "max_groups": enforced.cap,
            **checked.size_limit,
        },
        "cells": step.count,
        "keys": [
            {
                "key": written(key),
                "values": None if checked.listed is None else len(checked.listed.domains[i].values),
                "from": None if checked.listed is None else checked.listed.domains[i].why,
            }
            for i, key in enumerate(checked.release.keys)
        ],
        "better": None if checked.unlisted is None else checked.unlisted.better,
        "selection": _selection(step),
        "measurements": [
            _measurement(m, i, price, parts[i - 1], step.bits) for i, m in enumerate(step.measurements, before + 1)
        ],
        "aggregates": [_aggregate(step, i, before, bias, learned=learned) for i in range(len(checked.arguments))],
    }
    if backend is not None:
        facts["statement"] = ";\n\n".join(backend.written(step, pretty=True))
    return facts


def _selection(step: Step) -> Facts | None:
    """By what keys leave: a noisy number of units, or of their votes; and about how many units a key needs."""
    found = step.selection
    if found is None:
        return None
    statistic = step.measurements[found.measurement].statistic
    whole = 2**statistic.bits if isinstance(statistic, Votes) else 1
    return {
        "by": "votes" if found.votes else "units",
        "threshold": found.threshold / whole if found.votes else found.threshold,
        "units": found.units,
        "other_units": found.other,
        "delta": float(found.delta),
    }


def _measurement(m: Measurement, number: int, price: Cost, share: Fraction, bits: int) -> Facts:
    step = _grid_step(m, bits)
    # Laplace: a share of ε (or ρ). Gaussian: one vector, of whose squared norm each statistic has its share.
    event = m.noise.event(m.sensitivity)
    epsilon = event.epsilon if isinstance(event, Pure) else None
    if epsilon is not None and price.rho is None:
        share = epsilon / price.epsilon if price.epsilon else Fraction(0)
    elif epsilon is not None and price.rho is not None:
        share = pure_rho(epsilon) / price.rho if price.rho else Fraction(0)
    return {
        "number": number,
        "statistic": m.statistic.title,
        "epsilon": None if epsilon is None else float(epsilon),
        "share": float(share) if price.epsilon else 0.0,
        "l1": float(m.sensitivity.l1 * step),
        "l2": sqrt(m.sensitivity.l2_squared) * float(step),
        "mechanism": m.noise.name,
        "scale": float(m.noise.width * step),
        "grid": float(step),
    }


def _grid_step(m: Measurement, bits: int) -> Fraction:
    """What one integer of a statistic stands for: sums count in steps of their grid, counts in ones."""
    score = m.statistic.score if isinstance(m.statistic, Top) else m.statistic
    weight = 1 if isinstance(score, Units | Clipped | Distinct) else 2**bits
    if isinstance(m.statistic, Clipped | Sized):
        return m.statistic.step
    if isinstance(m.statistic, Votes):
        return Fraction(1, 2**m.statistic.bits)
    if isinstance(m.statistic, Moments):
        return Fraction(1, m.statistic.resolution * weight)
    return (score.value.grid.step if isinstance(score, Sum | Joint) else Fraction(1)) / weight


def _aggregate(step: Step, place: int, before: int, bias: ClippingBias, *, learned: bool) -> Facts:
    argument, call = step.checked.arguments[place], step.calls[place]
    rows = _usual_rows(step, call, bias, learned=learned)
    usual = None if bias.sizes is None else bias.sizes.get(place)  # what values are on average, about: SIZE-1
    facts: Facts = {
        "aggregate": call_text(argument.call),
        "measurements": sorted({before + place[0] + 1 for q in _needs(call) for place, _ in step.estimates[q].terms}),
        "error": None
        if argument.recipe.tells_presence
        else _with_cut(_error(step, call, rows, usual), call, place, bias),
    }
    if argument.recipe.tells_presence:
        facts["presence"] = _presence(step, call)
    if argument.clip is not None:
        facts["clip"] = {"low": float(argument.clip.low), "high": float(argument.clip.high)}
    elif argument.value is not None and argument.recipe.ranged:
        facts["range"] = _range(argument.value, argument.recipe)
        if argument.second is not None:
            facts["second_range"] = _range(argument.second, argument.recipe)
    return facts


def _presence(step: Step, call: Call) -> Facts:
    """What a group's noisy number must exceed for it to be listed, and from which size on it hardly ever fails to."""
    return {
        "of": "units" if call.units else "rows",
        "above": float(max(call.at)),
        "large_enough": present.large_enough(step, call),
        "missed": float(present.MISS),
        "stray": 0.0 if step.count is None else float(present.STRAY),
    }


def _range(value: Scalar, recipe: Recipe) -> Facts:
    found = value.range
    ends = {
        name: recipe.written_end(float(end)) if isinstance(end, Fraction) else _end(end)
        for name, end in (("low", found.low), ("high", found.high))
    }
    return {**ends, "from": [w.replace('"', "") for w in found.why]}


def _needs(call: Call) -> tuple[Quantity, ...]:
    return RECIPES[call.function].needs(call)


def _usual_rows(step: Step, call: Call, bias: ClippingBias, *, learned: bool) -> int:
    """About how many rows an aggregate is of, where stored counts of the query's own rows tell it; else an example.

    Nothing tells how many of them a group, a FILTER or a condition leaves.
    """
    checked = step.checked
    alone = not checked.keys and call.where is None and len(bias.rows) == 1 and bias.rows[0].known
    if not alone or (learned and any(isinstance(p, Filter | Mark) for p in parts_of(checked.release.input))):
        return EXAMPLE_ROWS  # what was learned is of the whole table
    parts = 1 if bias.sizes is None else len(bias.sizes) + int(bias.counted)  # of a size, the rows are one of several
    return max(1, round(bias.rows[0].kept / max(parts, 1)))


def _error(step: Step, call: Call, rows: int, usual: float | None) -> Facts | None:
    """Half-widths for one cell and for all of them at once, in the aggregate's own units.

    Counts and sums have one error whatever the data. An average's is given for groups of so many rows and the
    least favourable average; that of other moments for such groups with values that are spread over their range.
    """
    if (ranks := _rank_error(step, call)) is not None:
        return {"confidence": CONFIDENCE, **ranks}
    recipe = RECIPES[call.function]
    if (deciding := recipe.decides(call)) is not None:
        return _decided(step, deciding)
    examples = recipe.examples(call, rows)
    cells = _cells(step, recipe.averages(call), rows, usual) if examples is None else examples
    found = [terms for cell in cells if (terms := _terms(step, call, cell)) is not None]
    if not found:
        return None
    one = max(float(half_width(terms, CONFIDENCE)) for terms in found)
    every = max(float(half_width(terms, CONFIDENCE, step.count)) for terms in found) if step.count else one
    facts: Facts = {"confidence": CONFIDENCE, "one_cell": one, "all_cells": every}
    if examples is not None or recipe.bounds(call) is not None:
        facts["rows"] = rows
        facts["shrinks"] = recipe.shrinks
    elif len(found[0]) == 1 and isinstance(found[0][0][1], DiscreteLaplace):
        weight, noise = found[0][0]
        facts["all_cells_laplace"] = abs(weight) * noise.laplace_within(CONFIDENCE, max(step.count or 1, 1))
    if (cost := _choice_epsilon(step)) is not None:
        facts["choice_epsilon"] = cost
    return facts


def _with_cut(error: Facts | None, call: Call, place: int, bias: ClippingBias) -> Facts | None:
    """The error with what limits may cut, where stored counts tell it: half of the width that the interval will have.

    cut: the most that may be missing, upwards or downwards.
    """
    if error is None or "one_cell" not in error or not bias.cuts or not bias.known:
        return error
    if error.get("rows"):
        more = reach_of_average(bias, call, place, error["rows"], error["confidence"])
        down, up = more, more
    else:
        down, up = reach_of_cut(bias, call, place, error["one_cell"], error["confidence"])
    if not (down or up):
        return error
    half = (down + up) / 2
    return {
        **error,
        "noise": error["one_cell"],
        "cut": max(down, up),
        "one_cell": error["one_cell"] + half,
        "all_cells": error["all_cells"] + half,
    }


def _rank_error(step: Step, call: Call) -> Facts | None:
    """Of a choice: by how many rows its rank may be off, and among how many candidates it was made."""
    chosen = _chosen(step, call)
    if not chosen or not isinstance(chosen[0][1], NoisyMax):
        return None
    if isinstance(chosen[0][0], Top):
        return _top_error(step, chosen[0][0], chosen[0][1])
    points = max(s.points for s, _ in chosen if isinstance(s, Choice))
    facts: Facts = {"ranks": ranks_off(step, call, CONFIDENCE), "candidates": points}
    recipe = RECIPES[call.function]
    facts |= {} if recipe.nearness is None else {"nearness": recipe.nearness}
    return facts if recipe.note is None else {**facts, "approximate": True}


def ranks_off(step: Step, call: Call, confidence: float) -> float | None:
    """At most so many rows lie between a value that was chosen and the exact one; None where none was chosen."""
    off = [
        statistic.ranks(noise.worst(statistic.candidates, confidence)) / 2**step.bits
        for statistic, noise in _chosen(step, call)
        if isinstance(statistic, Choice) and isinstance(noise, NoisyMax)
    ]
    return max(off, default=None)


def _chosen(step: Step, call: Call) -> list[tuple[Any, Any]]:
    """The statistics that an aggregate is made of, and their noise."""
    found = [place[0] for need in _needs(call) for place, _ in step.estimates[need].terms]
    return [(m.statistic, m.noise) for m in (step.measurements[i] for i in dict.fromkeys(found))]


def _top_error(step: Step, top: Top, noise: NoisyMax) -> Facts:
    """How far below the best a winner's score may be, and what all the scores would cost with the same noise."""
    grid = _grid_step(step.measurements[0], step.bits)
    unit = step.checked.bounding.contribution
    counted = not isinstance(top.score, Units)
    whole = unit.weighted(2**step.bits) if counted else unit
    histogram = None
    if counted or unit.groups is not None:
        histogram = float(top.score.sensitivity(whole).l1 / noise.scale) if noise.scale else 0.0
    return {"below_best": noise.worst(step.count or 1, CONFIDENCE) * float(grid), "histogram_epsilon": histogram}


def _choice_epsilon(step: Step) -> float | None:
    """What the winners alone would cost, with noise of the same size, where they were counted and not chosen."""
    winners, cells = step.checked.release.winners, step.count
    single = step.measurements[0] if len(step.measurements) == 1 else None
    if winners is None or cells is None or step.checked.private_keys or single is None:
        return None
    if not isinstance(single.statistic, SCORES) or isinstance(single.noise, NoisyMax):
        return None
    unit = step.checked.bounding.contribution
    whole = unit if isinstance(single.statistic, Units) else unit.weighted(2**step.bits)
    top = Top(single.statistic, min(winners.count, max(1, cells)), winners.largest)
    noise = single.noise.scale if isinstance(single.noise, DiscreteLaplace) else sqrt(single.noise.variance / 2)
    return float(top.sensitivity(whole).l1) / float(noise) if noise else 0.0


def _cells(
    step: Step, averages: tuple[float, float] | None, rows: int, usual: float | None
) -> list[dict[Quantity, float]]:
    """Cells with so many rows and the averages at which the error may be largest.

    Of a known number of rows the error itself is guessed: for averages between the middle of the range and its ends, or
    about what is known of values on average.
    """
    means = [0.0] if averages is None else [averages[0], sum(averages) / 2, averages[1]]
    if averages is not None and rows != EXAMPLE_ROWS:
        means = [(mean + means[1]) / 2 for mean in means] if usual is None else [usual]
    return [{q: mean * rows if q.kind == "total" else rows for q in step.estimates} for mean in means]


def _decided(step: Step, count: Mapping[Quantity, Fraction]) -> Facts | None:
    """How many rows must decide BOOL_AND or BOOL_OR for it to be right: the noise takes all but 1/2 of them away."""
    linear = Linear.combine((step.estimates[q], w) for q, w in count.items())
    terms: list[tuple[Any, Any]] = [(float(w), step.measurements[place[0]].noise) for place, w in linear.terms]
    if not terms:
        return None
    one_sided = float(half_width(terms, 2 * CONFIDENCE - 1))
    return {"confidence": CONFIDENCE, "decided_by": floor(one_sided + 1.5)}


def _terms(step: Step, call: Call, sums: Mapping[Quantity, float]) -> list[tuple[float, Any]] | None:
    """The aggregate's noise to first order: each draw with its weight, in a cell with these sums."""
    fine = 2**30
    if not all(isfinite(size) for size in sums.values()):  # so many rows of such values are more than a float holds
        return None
    cell = {q: Rational(np.array([round(Fraction(size) * fine)], dtype=object), fine) for q, size in sums.items()}
    weights: dict[tuple[int, int], float] = {}
    for quantity, slope in RECIPES[call.function].spread(call, cell).slopes:
        for place, weight in step.estimates[quantity].terms:
            weights[place] = weights.get(place, 0.0) + float(slope[0]) * float(weight)
    if not all(isfinite(w) for w in weights.values()):  # a deviation of 0 has no first-order error
        return None
    drawn = [(w, step.measurements[place[0]].noise) for place, w in weights.items() if w]
    return [(w, noise) for w, noise in drawn if not isinstance(noise, NoisyMax)] or None


def _column(
    name: str, type_: str, found: Lineage, releases: Mapping[str, Facts], responses: Mapping[str, Facts]
) -> Facts:
    """Where an output column comes from: a key or an aggregate as it stands, an expression over them, or neither."""
    steps = {**releases, **responses}
    places = sorted(found[0], key=lambda p: (list(steps).index(p[0]), p[1]))
    return {
        "name": name,
        "type": type_,
        "kind": kind_of(found, responses.keys()),
        "from": [f"{release}.{column}" for release, column in places],
        "of": [_written(steps[release], column) for release, column in places],
    }


def _written(release: Facts, column: str) -> str:
    """A column of a release as the query writes it."""
    if (end := interval_of(column)) is not None:
        return f"DP_INTERVAL_{end[1].upper()}({release['aggregates'][end[0]]['aggregate']})"
    if column == present.COLUMN:
        return next(str(a["aggregate"]) for a in release["aggregates"] if "presence" in a)
    index = int(column[1:])
    written: str = (
        release["keys"][index]["key"] if column.startswith("k") else release["aggregates"][index]["aggregate"]
    )
    return written


def _end(value: Any) -> float | str:
    return float(value) if isinstance(value, Fraction) else str(value)


def _cost(cost: Cost) -> dict[str, float | None]:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
