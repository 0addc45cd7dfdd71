"""Quote -> plain values: what a query would measure, what that costs, and how far off its answers would be.

Everything here is a function of the SQL, the policy and the ledger; no private row has been read.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor, isfinite, sqrt
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.aggregates import COUNTED, RECIPES
from dpsql.aggregates.base import Call, Rational
from dpsql.aggregates.bool_and_or import Either
from dpsql.aggregates.derived import Derived
from dpsql.aggregates.variance import Variance
from dpsql.analyze.checked import Argument
from dpsql.core.cost import Cost
from dpsql.core.zcdp import pure_rho
from dpsql.explain.describe import described
from dpsql.explain.responses import response_facts
from dpsql.mechanisms.base import Pure
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.plan.estimates import Source, estimated
from dpsql.plan.google import interval_of
from dpsql.plan.grouping import SETS, branches
from dpsql.plan.nodes import Aggregate
from dpsql.quote.model import Measurement, Quote, Step
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import as_written
from dpsql.statistics.base import Choice, Quantity
from dpsql.statistics.clipped import Clipped
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.joint import Joint
from dpsql.statistics.moments import Moments
from dpsql.statistics.ranks import Extreme, Quantiles
from dpsql.statistics.strategy import Linear
from dpsql.statistics.top import SCORES, Top
from dpsql.statistics.total import Sum
from dpsql.statistics.units import Units

CONFIDENCE = 0.95
EXAMPLE_ROWS = 1000  # an average's error depends on how many rows a group has
Facts = dict[str, Any]
Place = tuple[str, str]  # (release, column)
Lineage = tuple[frozenset[Place], bool]  # the release columns that an output is made of; is it one of them, unchanged?


def as_dict(quote: Quote, *, verbose: bool = False) -> Facts:
    """What `explain` says; verbose adds the SQL that runs."""
    epsilon = quote.price.epsilon
    steps: dict[str, Facts] = {}
    count = sum(len(s.measurements) for s in quote.steps)
    for step in quote.steps:
        before = sum(len(s["measurements"]) for s in steps.values())
        steps[step.name] = _release(step, quote.price, before, verbose, count)
    responses: dict[str, Facts] = {}
    for response in quote.responses:
        known = sum(len(r["aggregates"]) for r in responses.values())
        responses[response.name] = response_facts(response, quote.price, known, verbose)
    lineages = _lineage(quote.plan.post, {*steps, *responses})
    facts: Facts = {
        "sql": quote.plan.text,
        "price": _cost(quote.price),
        "mechanism": quote.split.name,
        "other": None if quote.other is None else {"mechanism": quote.other[0], "error": quote.other[1]},
        "columns": [
            _column(name, kind, lineage, steps, responses)
            for (name, kind), lineage in zip(quote.result, lineages, strict=True)
        ],
        "releases": list(steps.values()),
        "responses": list(responses.values()),
    }
    if quote.aside is not None:
        facts["clipping"] = {"cost": _cost(quote.aside.own)}
    if quote.cuts:
        facts["cuts"] = [dict(one) for one in quote.cuts]
    if quote.automatic:
        facts["automatic"] = _automatic(quote)
        _forget(quote, facts["releases"])
    if quote.price.delta == 0:  # Theorem GROUP-1: k units are protected at k·ε
        facts["group_privacy"] = {str(k): float(k * epsilon) for k in (1, 2, 5)}
    if quote.fits is not None:
        facts["fits"] = {"more": quote.fits.more, **quote.fits.whole}
    if verbose:
        noises = {
            Source(r.name, i): (m, c.type)
            for r in quote.responses
            for i, (m, c) in enumerate(zip(r.mechanisms, r.checked.columns, strict=True))
        }
        facts["post_processing"] = as_sql(estimated(quote.plan.post.copy(), noises), pretty=True)
    return facts


def _automatic(quote: Quote) -> list[Facts]:
    """The automatic bounds that the query rests on, those that it must pay for first with their price."""
    first = iter(() if quote.before is None else quote.before.quotes)
    found = []
    for one in quote.automatic:
        cost = None if one.range is not None else _cost(next(first).own)
        found.append({**one.facts(), "seed": [one.seed.first, one.seed.last], "cost": cost})
    return found


def _forget(quote: Quote, releases: list[Facts]) -> None:
    """Leave out what isn't known before a range is: noise and errors of whatever hangs on its seed range."""
    pending = {f"{a.table}.{a.column}: automatic" for a in quote.automatic if a.range is None}
    for step, facts in zip(quote.steps, releases, strict=True):
        hanging: set[int] = set()
        for argument, aggregate in zip(step.checked.arguments, facts["aggregates"], strict=True):
            if argument.value is not None and pending & set(argument.value.range.why) and "range" in aggregate:
                aggregate["range"] = None
                aggregate["error"] = None
                aggregate["pending"] = True
                hanging |= set(aggregate["measurements"])
        for m in facts["measurements"]:
            if m["number"] in hanging:
                m.update(l1=None, l2=None, scale=None, grid=None)


def _release(step: Step, price: Cost, before: int, verbose: bool, count: int) -> Facts:
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
        "enforced": {"max_rows": enforced.mass, "max_rows_per_group": enforced.peak, "max_groups": enforced.cap},
        "cells": step.count,
        "keys": [
            {
                "key": _sql(key),
                "values": None if checked.domains is None else len(checked.domains[i].values),
                "from": None if checked.domains is None else checked.domains[i].why,
            }
            for i, key in enumerate(checked.release.keys)
        ],
        "selection": None
        if step.selection is None
        else {"threshold": step.selection.threshold, "delta": float(step.selection.delta)},
        "measurements": [
            _measurement(m, i, price, count, step.bits) for i, m in enumerate(step.measurements, before + 1)
        ],
        "aggregates": [_aggregate(step, a, c, before) for a, c in zip(checked.arguments, step.calls, strict=True)],
    }
    if verbose:
        from dpsql.backends.duckdb.distinct import render_matching
        from dpsql.backends.duckdb.render import render, render_histogram, text_of

        statements = [render(step.statement)] if step.tallies else []
        statements += [render_histogram(histogram) for histogram in step.histograms]
        statements += [render_matching(matching) for matching in step.matchings]
        facts["statement"] = ";\n\n".join(text_of(s, pretty=True) for s in statements)
    return facts


def _measurement(m: Measurement, number: int, price: Cost, count: int, bits: int) -> Facts:
    step = _grid_step(m, bits)
    # Laplace: a share of ε (or ρ). Gaussian: one vector, of whose squared norm each statistic has the same share.
    event = m.noise.event(m.sensitivity)
    epsilon = event.epsilon if isinstance(event, Pure) else None
    share = Fraction(1, count)
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
    if isinstance(m.statistic, Clipped):
        return m.statistic.step
    if isinstance(m.statistic, Moments):
        return Fraction(1, m.statistic.resolution * weight)
    return (score.value.grid.step if isinstance(score, Sum | Joint) else Fraction(1)) / weight


def _aggregate(step: Step, argument: Argument, call: Call, before: int) -> Facts:
    facts: Facts = {
        "aggregate": _call_text(argument.call),
        "measurements": sorted({before + place[0] + 1 for q in _needs(call) for place, _ in step.estimates[q].terms}),
        "error": _error(step, call),
    }
    if argument.clip is not None:
        facts["clip"] = {"low": float(argument.clip.low), "high": float(argument.clip.high)}
    elif argument.value is not None and call.function not in (*COUNTED, "BOOL_AND", "BOOL_OR"):
        facts["range"] = _range(argument.value)
        if argument.second is not None:
            facts["second_range"] = _range(argument.second)
    return facts


def _range(value: Scalar) -> Facts:
    found = value.range
    return {"low": _end(found.low), "high": _end(found.high), "from": [w.replace('"', "") for w in found.why]}


def _call_text(call: Aggregate) -> str:
    """An aggregate as the query writes it, its contribution bounds included."""
    text = _sql(call.node)
    if call.bounds is None:
        return text
    plain = _sql(call.node.this if isinstance(call.node, exp.Filter) else call.node)
    return text.replace(plain, f"{plain[:-1]}, {call.bounds.text})", 1)


def _needs(call: Call) -> tuple[Quantity, ...]:
    return RECIPES[call.function].needs(call)


def _error(step: Step, call: Call) -> Facts | None:
    """Half-widths for one cell and for all of them at once, in the aggregate's own units.

    Counts and sums have one error whatever the data. An average's is given for groups of EXAMPLE_ROWS rows and the
    least favourable average; that of other moments for such groups with values that are spread over their range.
    """
    if (ranks := _rank_error(step, call)) is not None:
        return {"confidence": CONFIDENCE, **ranks}
    recipe = RECIPES[call.function]
    if isinstance(recipe, Either):
        return _decided(step, recipe.decides(call))
    moments = isinstance(recipe, Derived | Variance)
    bounds = recipe.bounds(call)
    cells = recipe.examples(call, EXAMPLE_ROWS) if isinstance(recipe, Derived | Variance) else _cells(step, call)
    found = [terms for cell in cells if (terms := _terms(step, call, cell)) is not None]
    if not found:
        return None
    one = max(float(half_width(terms, CONFIDENCE)) for terms in found)
    every = max(float(half_width(terms, CONFIDENCE, step.count)) for terms in found) if step.count else one
    facts: Facts = {"confidence": CONFIDENCE, "one_cell": one, "all_cells": every}
    if moments or bounds is not None:
        facts["rows"] = EXAMPLE_ROWS
        facts["shrinks"] = not isinstance(recipe, Derived) or recipe.shrinks
    elif len(found[0]) == 1 and isinstance(found[0][0][1], DiscreteLaplace):
        weight, noise = found[0][0]
        facts["all_cells_laplace"] = abs(weight) * noise.laplace_within(CONFIDENCE, max(step.count or 1, 1))
    if (cost := _choice_epsilon(step)) is not None:
        facts["choice_epsilon"] = cost
    return facts


def _rank_error(step: Step, call: Call) -> Facts | None:
    """Of a choice: by how many rows its rank may be off, and among how many candidates it was made."""
    found = [place[0] for need in _needs(call) for place, _ in step.estimates[need].terms]
    chosen = [(m.statistic, m.noise) for m in (step.measurements[i] for i in dict.fromkeys(found))]
    if not chosen or not isinstance(chosen[0][1], NoisyMax):
        return None
    if isinstance(chosen[0][0], Top):
        return _top_error(step, chosen[0][0], chosen[0][1])
    off = [
        statistic.ranks(noise.worst(statistic.candidates, CONFIDENCE)) / 2**step.bits
        for statistic, noise in chosen
        if isinstance(statistic, Choice) and isinstance(noise, NoisyMax)
    ]
    points = max(s.value.grid.span + 1 for s, _ in chosen if isinstance(s, Quantiles | Extreme))
    return {"ranks": max(off), "candidates": points}


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


def _cells(step: Step, call: Call) -> list[dict[Quantity, float]]:
    """Cells with so many rows and the averages at which the error may be largest."""
    bounds = RECIPES[call.function].bounds(call)
    if call.value is not None and call.function == "GEOMEAN":  # of the logarithms, which it is an average of
        bounds = RECIPES["AVG"].bounds(call)
    means = [0.0] if bounds is None else [bounds[0], (bounds[0] + bounds[1]) / 2, bounds[1]]
    return [{q: mean * EXAMPLE_ROWS if q.kind == "total" else EXAMPLE_ROWS for q in step.estimates} for mean in means]


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
    name: str, type_: str, lineage: Lineage, releases: Mapping[str, Facts], responses: Mapping[str, Facts]
) -> Facts:
    """Where an output column comes from: a key or an aggregate as it stands, an expression over them, or neither."""
    steps = {**releases, **responses}
    places, unchanged = sorted(lineage[0], key=lambda p: (list(steps).index(p[0]), p[1])), lineage[1]
    kind = "public"
    if places:
        kind = "expression" if not unchanged else "key" if places[0][1].startswith("k") else "aggregate"
        kind = "response" if unchanged and places[0][0] in responses else kind
        kind = "interval" if unchanged and interval_of(places[0][1]) is not None else kind
    return {
        "name": name,
        "type": type_,
        "kind": kind,
        "from": [f"{release}.{column}" for release, column in places],
        "of": [_written(steps[release], column) for release, column in places],
    }


def _written(release: Facts, column: str) -> str:
    """A column of a release as the query writes it."""
    if (end := interval_of(column)) is not None:
        return f"DP_INTERVAL_{end[1].upper()}({release['aggregates'][end[0]]['aggregate']})"
    index = int(column[1:])
    written: str = (
        release["keys"][index]["key"] if column.startswith("k") else release["aggregates"][index]["aggregate"]
    )
    return written


def _end(value: Any) -> float | str:
    return float(value) if isinstance(value, Fraction) else str(value)


def _sql(node: exp.Expr) -> str:
    return as_sql(as_written(node)).replace('"', "")


def _cost(cost: Cost) -> dict[str, float | None]:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}


# ---------------------------------------------------------------- which release columns an output is made of


def _lineage(query: exp.Expr, releases: set[str], around: Mapping[str, _Source] | None = None) -> list[Lineage]:
    """For each output of a query over releases, the release columns in it; `around`: what a correlated query sees."""
    if isinstance(query, exp.SetOperation):
        sides = _lineage(query.this, releases, around), _lineage(query.expression, releases, around)
        return [(a[0] | b[0], False) for a, b in zip(*sides, strict=True)]
    if not isinstance(query, exp.Select):
        return [(_within(query, around or {}, releases), False)]
    sources: dict[str, _Source] = dict(around or {})
    from_ = query.args.get("from_")
    for node in [*([from_.this] if from_ else []), *(j.this for j in query.args.get("joins") or [])]:
        sources[node.alias_or_name] = _source(node, releases, sources)
    return [_output(output.unalias(), sources, releases) for output in query.selects]


_Source = Mapping[str, Lineage] | str  # a query's outputs by name, or the name of a release


def _output(node: exp.Expr, sources: Mapping[str, _Source], releases: set[str]) -> Lineage:
    if isinstance(node, exp.Column):
        source = sources.get(node.table, {})
        if isinstance(source, str):
            return frozenset({(source, node.name)}), True
        return source.get(node.name, (frozenset(), False))
    return _within(node, sources, releases), False


def _source(node: exp.Expr, releases: set[str], around: Mapping[str, _Source]) -> _Source:
    if isinstance(node, exp.Table) and node.name in releases:
        return node.name
    if not isinstance(node, exp.Subquery | exp.Lateral):
        return {}
    if SETS in node.meta:  # one row is one cell of one set: each column shows what it shows in that set
        outputs = zip(*(_lineage(b, releases) for b in branches(node.this)), strict=True)
        united = [(frozenset().union(*(places for places, _ in output)), True) for output in outputs]
        return dict(zip(node.this.named_selects, united, strict=True))
    alias = node.args.get("alias")
    query = node.this.unnest()
    names = [c.name for c in alias.columns] if alias is not None and alias.columns else query.named_selects
    return dict(zip(names, _lineage(query, releases, around), strict=False))


def _within(node: exp.Expr, sources: Mapping[str, _Source], releases: set[str]) -> frozenset[Place]:
    if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        return frozenset().union(*(places for places, _ in _lineage(node, releases, sources)))
    if isinstance(node, exp.Column):
        return _output(node, sources, releases)[0]
    return frozenset().union(*(_within(child, sources, releases) for child in node.iter_expressions()))
