"""calibrate: Checked -> Quote. Splits the budget, picks statistics, fixes grids, noise and price.

The price is the sum of what the very noise objects cost that will be drawn from; nothing else computes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf, log, sqrt
from typing import Any

from sqlglot import exp

from dpsql.accounting.cost import Cost
from dpsql.accounting.fitting import Fits
from dpsql.accounting.pld import recorded
from dpsql.accounting.zcdp import Conversion, pure_epsilon
from dpsql.aggregates import COUNTED, RECIPES, is_moments
from dpsql.aggregates.base import Call
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import Argument, Checked, CheckedRelease
from dpsql.analyze.refusals import no_delta
from dpsql.analyze.sensitivity import Contribution, Sensitivity
from dpsql.errors import PrivacyError, SQLError
from dpsql.frozen import dataclass
from dpsql.mechanisms.budget import Drawn, GaussianSplit, LaplaceSplit, Noise, Split
from dpsql.mechanisms.gaussian import Gaussian
from dpsql.mechanisms.keys import Threshold
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import ONE_ROW
from dpsql.mechanisms.sampler import require_scale
from dpsql.mechanisms.zcdp import ZcdpGaussian, ZcdpLaplace
from dpsql.plan.nodes import (
    Again,
    CapGroups,
    Filter,
    Gridded,
    Group,
    Histogram,
    Matching,
    Named,
    OnCells,
    OnDomain,
    PerUnit,
    Plan,
    Project,
    Relation,
    Scan,
    Statement,
    ToGrid,
    Weight,
    WeightRows,
    WeightUnits,
    Winners,
)
from dpsql.respond import ResponseStep, share_out
from dpsql.sql.google import Bounds
from dpsql.sql.scalar import Scalar
from dpsql.statistics.base import Choice, Clip, Quantity, Statistic, Value
from dpsql.statistics.bounds import Automatic
from dpsql.statistics.clipped import on_grid, row_grid
from dpsql.statistics.grid import FINE_BITS, FINITE_PRESENCE, PRESENCE, Grid, choose_grid, coarsened, ranked_grid
from dpsql.statistics.moments import MAX_SPAN, RESOLUTION_BITS, Moments
from dpsql.statistics.strategy import Fine, Linear, Strategy, one_by_one, strategies
from dpsql.statistics.tally import Spectrum, Tally
from dpsql.statistics.top import SCORES, Top
from dpsql.statistics.total import Sum
from dpsql.statistics.units import Units

UNIT = "unit"  # the statement's column of units
WEIGHT_BITS = 16  # weights are integers of 2^-bits: a unit with more than 2^16 times its limit weighs nothing
SAME = 1 + 1e-9  # variances that differ by less are equal
MAX_NUMBERS = 10_000_000  # cells times statistics, and candidates of choices
SCALE_BITS = 40  # noise scales in grid units stay about below this, so that sampling is fast
CHOICE_BITS = 24  # less where choices multiply them by shares' denominators and parts
MAX_CANDIDATES = 2**20  # of a choice in one cell
ALL_CANDIDATES = 2**22  # in all cells, as far as that leaves a choice its FEWEST
FEWEST_CANDIDATES = 2**8
SHARED_CANDIDATES = 2**14  # where several values are chosen
UNKNOWN_CANDIDATES = 2**14  # in each cell, where it isn't known how many cells there are


@dataclass(frozen=True, slots=True)
class Measurement:
    """One statistic and the noise it gets."""

    statistic: Statistic
    sensitivity: Sensitivity
    noise: Noise

    def in_rows(self, bits: int) -> NoisyMax | None:
        """A choice's noise in rows, or in the unit of the sums that it is made by: comparable whatever the grid."""
        if not isinstance(self.noise, NoisyMax):
            return None
        score = self.statistic.score if isinstance(self.statistic, Top) else None
        step = score.value.grid.step if isinstance(score, Sum) else Fraction(1)
        return NoisyMax(self.noise.scale * step / (1 if isinstance(score, Units) else 2**bits))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cells leave: those whose noisy number of units reaches a threshold (Theorem KEY-1)."""

    measurement: int  # that of the number of units
    threshold: int
    delta: Fraction  # what it costs


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One statement over private rows and the noise its results get; becomes the noisy table `name`."""

    name: str
    checked: CheckedRelease
    statement: Statement
    cells: Any  # the public cells in key order, an Arrow table with k0, k1, …; None: no keys, or private ones
    tallies: tuple[Tally, ...]  # of the statement
    calls: tuple[Call, ...]
    measurements: tuple[Measurement, ...]
    estimates: Mapping[Quantity, Linear]
    bits: int  # of the weights
    selection: Selection | None
    histograms: tuple[Histogram, ...] = ()  # what choices look at; their cells are the statement's
    matchings: tuple[Matching, ...] = ()  # what counts of distinct values look at, where units have limits

    @property
    def count(self) -> int | None:
        """How many cells; None where that is not known beforehand."""
        return self.checked.cells


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """Everything that a query will do and cost, before any private row is read."""

    plan: Plan
    result: tuple[tuple[str, str], ...]  # the answer's columns as DuckDB names and types them
    steps: tuple[Step, ...]
    epsilon: Fraction
    split: Split
    other: tuple[str, float] | None  # the mechanism that was not chosen, and its error relative to the chosen one
    responses: tuple[ResponseStep, ...] = ()  # rows that leave one by one; then there are no steps
    fits: Fits | None = None  # how often the account could pay for it; `explain` fills it in
    automatic: tuple[Automatic, ...] = ()  # the automatic bounds that it rests on
    before: Before | None = None  # what must be released first: then this noise is for the seed ranges
    lesser: Quote | None = None  # the same with what it would have had if its automatic bounds were still to pay
    aside: Quote | None = None  # an estimate of what limits and ranges cut (clipping.py)
    cuts: tuple[Mapping[str, Any], ...] = ()  # such estimates that were released before; `explain` fills them in

    @property
    def price(self) -> Cost:
        """What all of it costs."""
        *others, own = [cost for cost, _ in self.spends]
        total = sum(others, own)  # Theorem COMP-1
        if not others or total.rho is None:
            return total
        # Theorems COMP-2 and ZCDP-2: the sum is at most ρ(ε), and the conversion takes its δ once.
        return Cost(self.epsilon, own.delta, total.rho, total.parts)

    @property
    def own(self) -> Cost:
        """Computed from the noise objects that will be drawn from, and from the thresholds that will be used."""
        noise = self.split.cost([s for s, _ in self.measured], [n for _, n in self.measured])
        selection = self._threshold
        if noise.rho is None:
            return Cost(noise.epsilon, noise.delta + selection)  # Theorems COMP-1 and KEY-1
        return Cost(noise.epsilon, noise.delta + selection, noise.rho, selection)  # Theorems COMP-2 and KEY-2

    @property
    def measured(self) -> list[tuple[Sensitivity, Drawn]]:
        """Every noise that will be drawn, with the sensitivity of what it is added to."""
        noises: list[tuple[Sensitivity, Drawn]] = [(m.sensitivity, m.noise) for s in self.steps for m in s.measurements]
        return noises + [(ONE_ROW, one) for s in self.responses for one in s.mechanisms]

    @property
    def _threshold(self) -> Fraction:
        return sum((s.selection.delta for s in self.steps if s.selection is not None), Fraction(0))

    @property
    def spends(self) -> list[tuple[Cost, dict[str, object]]]:
        """What the ledger records: each release that comes before the query, then the query itself."""
        first = () if self.before is None else self.before.quotes
        aside = () if self.aside is None else (self.aside,)
        own = self.own if self.before is None else self.before.rest
        return [*((q.own, q.note) for q in (*first, *aside)), (own, self.note)]

    @property
    def note(self) -> dict[str, object]:
        """What the ledger notes beside the price."""
        found: dict[str, object] = {"sql": self.plan.text}
        if (noises := self._noted) is not None:
            found["noises"] = noises
        winners = [m.statistic.title for s in self.steps for m in s.measurements if isinstance(m.statistic, Top)]
        if winners and self.before is None:
            found["chosen"] = winners  # of the counts or sums behind it, nothing was released
        return {**found, "threshold": str(self._threshold)} if self._threshold else found

    @property
    def _noted(self) -> list[list[str]] | None:
        """The noises that will be drawn, or what is no less private; None where that can't be said beforehand.

        Which statistics are measured, or whether winners are chosen, may hang on ranges that aren't released yet.
        """
        if self.before is None:
            return recorded(self.measured)
        if isinstance(self.split, LaplaceSplit):
            return [["laplace", str(self.before.rest.epsilon)]]  # Theorem COMP-1: any number of them, with all of ε
        chosen = any(r.winners is not None for r in self.plan.releases)
        same = not chosen and all(isinstance(noise, Gaussian) for _, noise in self.measured)
        return recorded(self.measured) if same else None  # Theorem GAUSS-3: (Δᵢ/σᵢ)² add up to the same

    def __str__(self) -> str:
        from dpsql.plan.show import show

        return show(self)


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """Releases of ranges that a query needs first (auto.py), and what is set aside for the query itself."""

    quotes: tuple[Quote, ...]
    rest: Cost  # the most that the query itself costs, whatever the ranges will be
    ask: Ask
    limits: Limits


@dataclass(frozen=True, slots=True)
class Ask:
    """What a query may spend, and how."""

    epsilon: Fraction
    delta: Fraction  # under zcdp: for key selection alone
    mechanism: str = "auto"
    conversion: Conversion | None = None  # what ε means in ρ; None under basic accounting

    @property
    def pure(self) -> Fraction:
        """The ε of the Laplace noise that it buys."""
        return self.epsilon if self.conversion is None else pure_epsilon(self.conversion.rho(self.epsilon))


def check_columns(plan: Plan, result: tuple[tuple[str, str], ...]) -> None:
    """Refuse whatever DuckDB reads differently, before it is paid for."""
    if len(plan.post.selects) != len(result):
        raise SQLError(
            f"DuckDB sees {len(result)} columns in this query, and dpsql {len(plan.post.selects)}",
            code="column-count",
            hint="name the columns one by one",
        )


def calibrate(checked: Checked, ask: Ask, result: tuple[tuple[str, str], ...]) -> Quote:
    """Spend (ε, δ) on the whole query, with the mechanism and the statistics of least relative error."""
    check_columns(checked.plan, result)
    if checked.responses:
        responses, shares = share_out(checked.responses, ask.epsilon, ask.conversion)
        return Quote(checked.plan, result, (), ask.epsilon, shares, None, responses)
    drafts = [_draft(release, ask.pure) for release in checked.releases]
    selecting = sum(d.checked.private_keys for d in drafts)
    if selecting and not ask.delta:
        raise no_delta(next(u for d in drafts if (u := d.checked.unlisted) is not None))
    options = [_option(drafts, choice) for choice in _splits(ask, bool(selecting))]
    best = min(options, key=lambda o: o.loss)
    other = next((o for o in options if o is not best), None)
    ratio = (other.split.name, (other.loss / best.loss) ** 0.5) if other is not None and best.loss else None
    return _quote(checked.plan, result, drafts, best, ask.epsilon, ratio)


def _splits(ask: Ask, selecting: bool) -> list[tuple[Split, Fraction]]:
    """The mechanisms to choose from, each with the δ that it leaves for key selection.

    Gaussian noise needs δ; beside key selection it gets half of it.
    """
    splits: list[tuple[Split, Fraction]] = []
    if ask.conversion is not None:  # ρ pays for either kind of noise; all of δ is for key selection
        if ask.mechanism in ("auto", "laplace"):
            splits.append((ZcdpLaplace(ask.epsilon, ask.conversion), ask.delta))
        if ask.mechanism in ("auto", "gaussian"):
            splits.append((ZcdpGaussian(ask.epsilon, ask.conversion), ask.delta))
        return splits
    if ask.mechanism in ("auto", "laplace"):
        splits.append((LaplaceSplit(ask.epsilon), ask.delta))
    if ask.mechanism == "gaussian" and not ask.delta:
        raise PrivacyError(
            "Gaussian noise needs δ > 0",
            code="needs-delta",
            hint='give one: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6; or use mechanism = "laplace"',
        )
    if ask.mechanism in ("auto", "gaussian") and ask.delta:
        noise = ask.delta / 2 if selecting else ask.delta
        splits.append((GaussianSplit(ask.epsilon, noise), ask.delta - noise))
    return splits


# ---------------------------------------------------------------- what to measure


@dataclass(frozen=True, slots=True)
class _Draft:
    """What one release needs, with everything but the noise decided."""

    checked: CheckedRelease
    bits: int
    unit: Contribution  # in integer weights
    columns: tuple[Named, ...]  # of the statement's Project
    values: tuple[tuple[str, str, Grid], ...]  # of its ToGrid
    calls: tuple[Call, ...]
    candidates: tuple[Strategy, ...]
    alone: tuple[Strategy, ...]  # each call by itself, and the units that a threshold counts
    secret: int  # of the cap on groups; one for all statements of the release


def _draft(checked: CheckedRelease, epsilon: Fraction) -> _Draft:
    """Name the statement's columns, put values on grids, and list the candidate statistics."""
    columns: list[Named] = [(f"k{i}", _canonical(k)) for i, k in enumerate(checked.keys)]
    if checked.owner.unit is not None:
        columns.append((UNIT, exp.column(exp.to_identifier(checked.owner.unit, quoted=True))))
    places: dict[exp.Expr, str] = {}
    wheres: dict[exp.Expr, str] = {}
    where_text: dict[str | None, str] = {None: ""}
    for argument in checked.arguments:
        if argument.where is not None and argument.where.sql not in wheres:
            name = f"f{len(wheres)}"
            wheres[argument.where.sql] = name
            columns.append((name, argument.where.sql))
            assert argument.call.where is not None
            where_text[name] = f" where {_text(argument.call.where)}"
        for value in argument.values:
            places.setdefault(value.sql, f"x{len(places)}")
    room = _room(checked, epsilon, CHOICE_BITS if any(a.ordered for a in checked.arguments) else SCALE_BITS)
    bits = min(WEIGHT_BITS, room) if checked.bounding.weighted else 0
    grids = _grids(checked, epsilon, bits)
    calls = tuple(_call(a, places, wheres, grids) for a in checked.arguments)
    single = [RECIPES[c.function].needs(c) for c in calls]
    if checked.private_keys or checked.min_units is not None:
        single.append((_UNITS,))
    needs = [quantity for wanted in single for quantity in wanted]
    gridded: dict[str, tuple[str, str, Grid]] = {}
    for argument, call in zip(checked.arguments, calls, strict=True):
        if call.distinct:
            assert call.value is not None and argument.value is not None
            named = (call.value.column, _canonical(argument.value))
            columns += [named] if named not in columns else []
            continue
        for scalar, held in zip(argument.values, call.values, strict=False):  # none of a call that counts units
            if held.column not in gridded:
                source = f"x{held.column[1:]}"
                columns.append((source, _gridded_input(scalar, held.grid)))
                gridded[held.column] = (held.column, source, held.grid)
    weight = 2**bits
    whole = checked.bounding.contribution
    unit = whole.weighted(weight) if whole.mass is not None else whole
    rows_are_units = checked.owner.rows == 1
    # Winners need no bound on a unit's groups, and then what else could be measured isn't compared with them.
    compared = replace(unit, groups=Fraction(1)) if checked.winners is not None and unit.groups is None else unit
    fine = _fine(checked, epsilon, bits)

    def ways(wanted: Sequence[Quantity], fine: Fine) -> list[Strategy]:
        most = _candidates(checked)
        return strategies(
            wanted, where_text, compared, weight=weight, rows_are_units=rows_are_units, fine=fine, candidates=most
        )

    candidates = ways(needs, fine)
    alone = tuple(ways(wanted, replace(fine, enough=False))[0] for wanted in single)
    apart = one_by_one(alone, needs, compared, weight=weight, rows_are_units=rows_are_units)
    if apart is not None and all(apart.statistics != c.statistics for c in candidates):
        candidates.append(apart)
    small = [c for c in candidates if (checked.cells or 1) * len(_tallies(c)) <= MAX_NUMBERS] or candidates
    if checked.winners is not None and (chosen := _winners(checked.winners, checked.cells or 1, small, unit)):
        small = [chosen]
    values = tuple(gridded.values())
    return _Draft(checked, bits, unit, tuple(columns), values, calls, tuple(small), alone, secrets.randbits(64))


def _winners(winners: Winners, cells: int, candidates: Sequence[Strategy], unit: Contribution) -> Strategy | None:
    """The winners alone, where that takes less noise than all of the counts or sums."""
    single = [c for c in candidates if len(c.statistics) == 1 and isinstance(c.statistics[0], SCORES)]
    if not single or len(single[-1].estimates) != 1:
        return None
    (score,), (need,) = single[-1].statistics, single[-1].estimates
    top = Top(score, min(winners.count, max(1, cells)), winners.largest)
    comparable = unit.groups is not None or not isinstance(score, Units)
    if comparable and top.sensitivity(unit).l1 > score.sensitivity(unit).l1:
        return None
    return Strategy((top,), {need: Linear.of({(0, 0): Fraction(1)})})


def _fine(checked: CheckedRelease, epsilon: Fraction, bits: int) -> Fine:
    """How finely rows are divided, and whether the noise is so much coarser that this costs nothing (MOMENTS-1)."""
    resolution = 2 ** max(4, min(RESOLUTION_BITS, _room(checked, epsilon) - bits))
    mass = checked.bounding.contribution.mass
    return Fine(resolution, mass is not None and mass * resolution / epsilon >= 2**FINE_BITS)


def _room(checked: CheckedRelease, epsilon: Fraction, most: int = SCALE_BITS) -> int:
    """How many bits finer than a row the integers can be while noise scales stay below 2^most."""
    scale = (checked.bounding.contribution.mass or Fraction(1)) / epsilon
    return max(0, most - max(0, (scale.numerator // scale.denominator).bit_length()))


def _candidates(checked: CheckedRelease) -> int:
    """How many candidates a choice may have in one cell."""
    if checked.cells is None:
        return UNKNOWN_CANDIDATES
    return min(MAX_CANDIDATES, max(FEWEST_CANDIDATES, ALL_CANDIDATES // max(1, checked.cells)))


def _grids(checked: CheckedRelease, epsilon: Fraction, bits: int) -> dict[tuple[exp.Expr, object], Grid]:
    """A grid for each summed value (with its range: a FILTER may narrow it); others are only counted."""
    grids: dict[tuple[exp.Expr, object], Grid] = {}
    divided = {_value_key(v) for a in checked.arguments if is_moments(a.call.function) for v in a.values}
    for argument, value in [(a, v) for a in checked.arguments for v in a.values]:
        if argument.call.function in COUNTED:
            continue
        if argument.ordered:
            # Several quantiles cut the candidates into parts, which must be many enough to tell tied rows apart.
            several = sum(max(1, len(set(a.call.at))) for a in checked.arguments if a.ordered) > 1
            points = min(SHARED_CANDIDATES, _candidates(checked)) if several else _candidates(checked)
            grids[_value_key(value, ordered=True)] = ranked_grid(value.type, value.range, points)
            continue
        if argument.clip is not None:
            low, high, groups = argument.clip.low, argument.clip.high, checked.bounding.contribution.groups
            assert groups is not None
            scale = groups * max(abs(low), abs(high)) / epsilon
            grids[_value_key(value, argument.clip)] = row_grid(value.type, value.range, low, high, scale)
            continue
        mass = checked.bounding.contribution.mass
        assert mass is not None
        noise = mass * value.range.magnitude / epsilon
        key = _value_key(value)
        grid = choose_grid(value.type, value.range, noise, bits=bits)
        if key in divided:
            grid = coarsened(grid, value.range, MAX_SPAN)
            # At least two points: the moments are taken relative to the span, which must not be 0.
            grid = replace(grid, high=max(grid.high, grid.low + 1))
        grids[key] = grid
    return grids


def _value_key(value: Scalar, clip: Bounds | None = None, *, ordered: bool = False) -> tuple[exp.Expr, object]:
    return (value.sql, (value.range.low, value.range.high, clip, ordered))


def _call(
    argument: Argument,
    places: Mapping[exp.Expr, str],
    wheres: Mapping[exp.Expr, str],
    grids: Mapping[tuple[exp.Expr, object], Grid],
) -> Call:
    where = wheres[argument.where.sql] if argument.where is not None else None
    function = argument.call.function
    if argument.value is None or argument.units:
        return Call(function, None, None, where, argument.units, _clip(argument, None))
    assert argument.call.argument is not None
    if argument.distinct:
        # Whether it may be NULL decides nothing here; a FILTER that excludes NULL leaves it the same value.
        held = Value(f"d{places[argument.value.sql][1:]}", PRESENCE, True, _text(argument.call.argument))
        return Call(function, held, argument.value.type, where, distinct=True)
    value = _value(argument, argument.value, argument.call.argument, places, grids)
    second = None
    if argument.second is not None and argument.call.second is not None:
        second = _value(argument, argument.second, argument.call.second, places, grids)
    return Call(
        function,
        value,
        argument.kind or argument.value.type,
        where,
        clip=_clip(argument, value.grid),
        at=argument.call.at,
        listed=argument.call.listed,
        second=second,
    )


def _value(
    argument: Argument,
    value: Scalar,
    written: exp.Expr,
    places: Mapping[exp.Expr, str],
    grids: Mapping[tuple[exp.Expr, object], Grid],
) -> Value:
    """An argument on its grid, in the statement's column for it."""
    same = [g for (sql, _), g in grids.items() if sql == value.sql]
    # Counted only: share the column of a sum over the same expression, if there is one.
    counted = same[0] if same else FINITE_PRESENCE if value.type.is_float else PRESENCE
    grid = grids.get(_value_key(value, argument.clip, ordered=argument.ordered), counted)
    variant = f"_{same.index(grid)}" if grid in same and same.index(grid) else ""
    column = f"v{places[value.sql][1:]}{variant}"
    # NaN and ±inf count as NULL, so a float may be missing even where it is never NULL.
    return Value(column, grid, value.range.nullable or value.type.is_float, _text(written))


def _clip(argument: Argument, grid: Grid | None) -> Clip | None:
    """contribution_bounds_per_group in integers: of rows, of values, or of steps of their grid."""
    if argument.clip is None:
        return None
    if argument.call.function != "COUNT":
        assert grid is not None
        return on_grid(grid, argument.clip.low, argument.clip.high)
    return Clip("rows" if grid is None else "present", int(argument.clip.low), int(argument.clip.high))


def _canonical(key: Scalar) -> exp.Expr:
    """A key as one of its equals: −0.0 equals 0.0, and which of them a group shows would depend on a row."""
    if not key.type.is_float:
        return key.sql
    zero = exp.If(this=exp.EQ(this=key.sql.copy(), expression=exp.Literal.number(0)), true=_double("0"))
    strange = exp.If(this=exp.Anonymous(this="isnan", expressions=[key.sql.copy()]), true=_double("nan"))
    return exp.Case(ifs=[zero, strange], default=key.sql.copy())


def _double(text: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(text), "DOUBLE")


def _number(value: Scalar) -> exp.Expr:
    """Booleans are summed as 0 and 1."""
    return exp.cast(value.sql.copy(), "INTEGER") if value.type.is_boolean else value.sql


def _gridded_input(value: Scalar, grid: Grid) -> exp.Expr:
    """What goes on the grid: doubles on a binary grid, whatever the value's own type."""
    number = _number(value)
    return exp.cast(number.copy(), "DOUBLE") if grid.source == "float" and value.type.name != "DOUBLE" else number


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="duckdb").replace('"', "")


# ---------------------------------------------------------------- how to measure it

_UNITS = Quantity("units")


@dataclass(frozen=True, slots=True)
class _Option:
    """A mechanism with the best statistics for it."""

    split: Split
    strategies: tuple[Strategy, ...]
    loss: float
    delta: Fraction  # for key selection


def _option(drafts: Sequence[_Draft], choice: tuple[Split, Fraction]) -> _Option:
    """The statistics with the least loss.

    Several values are measured together only where no aggregate has more noise than alone (Theorem MOMENTS-2).
    """
    split, delta = choice
    if len(drafts) > 6:
        combinations = [tuple(d.candidates[0] for d in drafts)]
    else:
        combinations = list(product(*(d.candidates[: 2 if len(drafts) > 1 else None] for d in drafts)))
    alone = _one_by_one(drafts, split, delta) if any(c.together for d in drafts for c in d.candidates) else []

    def rank(combination: Sequence[Strategy]) -> tuple[int, float]:
        losses = _losses(drafts, combination, split, delta)
        bound = alone if any(c.together for c in combination) else losses
        return sum(mine > SAME * most for mine, most in zip(losses, bound, strict=True)), sum(losses)

    chosen = min(combinations, key=rank)
    for i, draft in enumerate(drafts if 1 < len(drafts) <= 6 else ()):  # then one release after the other
        chosen = min(((*chosen[:i], c, *chosen[i + 1 :]) for c in (chosen[i], *draft.candidates[2:])), key=rank)
    return _Option(split, chosen, rank(chosen)[1], delta)


def _losses(drafts: Sequence[_Draft], chosen: Sequence[Strategy], split: Split, delta: Fraction) -> list[float]:
    """The relative variance of each aggregate; a key below its threshold is an error of the threshold."""
    variances = _variances(split, list(zip(drafts, chosen, strict=True)))
    losses = []
    for draft, strategy in zip(drafts, chosen, strict=True):
        mine = [next(variances) for _ in strategy.statistics]
        losses += [_relative(draft, call, strategy, mine) for call in draft.calls]
        if draft.checked.private_keys:
            losses.append(_missed(draft, strategy, mine, split, delta))
    return losses


def _one_by_one(drafts: Sequence[_Draft], split: Split, delta: Fraction) -> list[float]:
    """The same, were each aggregate (and each selection) measured by itself, with an equal share of ε."""
    variances = _variances(split, [(d, c) for d in drafts for c in d.alone])
    losses = []
    for draft in drafts:
        for i, strategy in enumerate(draft.alone):
            mine = [next(variances) for _ in strategy.statistics]
            if i < len(draft.calls):
                losses.append(_relative(draft, draft.calls[i], strategy, mine))
            elif draft.checked.private_keys:
                losses.append(_missed(draft, strategy, mine, split, delta))
    return losses


def _variances(split: Split, chosen: Sequence[tuple[_Draft, Strategy]]) -> Iterator[float]:
    for variance in split.variances([s.sensitivity(d.unit) for d, c in chosen for s in c.statistics]):
        try:
            yield float(variance)
        except OverflowError:
            yield inf


def _relative(draft: _Draft, call: Call, strategy: Strategy, variances: Sequence[float]) -> float:
    contrasts = RECIPES[call.function].contrasts(call)
    total = 0.0
    for contrast in contrasts:
        weights: dict[tuple[int, int], float] = {}
        for quantity, factor in contrast.items():
            for place, weight in strategy.estimates[quantity].terms:
                weights[place] = weights.get(place, 0.0) + float(weight) * float(factor)
        total += sum(w * w * variances[place[0]] for place, w in weights.items())
    whole = 1 if call.units or call.clip else draft.checked.bounding.contribution.mass or 1
    return total / (max(1, len(contrasts)) * float(whole) ** 2)


def _missed(draft: _Draft, strategy: Strategy, variances: Sequence[float], split: Split, delta: Fraction) -> float:
    index = next(i for i, s in enumerate(strategy.statistics) if s == _units_of(strategy))
    return variances[index] * _tail(split, delta / _keys(draft)) ** 2


def _tail(split: Split, delta: Fraction) -> float:
    """About how many standard deviations of noise a threshold must leave: to compare mechanisms."""
    from statistics import NormalDist

    p = max(float(delta), 1e-300)
    if split.name == "gaussian":
        return -NormalDist().inv_cdf(p) if p > 1e-300 else 37.0
    return log(1 / (2 * p)) / sqrt(2)


def _units_of(strategy: Strategy) -> Statistic:
    return next(s for s in strategy.statistics if isinstance(s, Units) and s.where is None)


def _keys(draft: _Draft) -> Fraction:
    """Over how many keys the δ of a selection is divided (Theorem KEY-1)."""
    unit = draft.checked.bounding.contribution
    assert unit.groups is not None
    return unit.groups * (2 if unit.replace else 1)


def _quote(
    plan: Plan,
    result: tuple[tuple[str, str], ...],
    drafts: Sequence[_Draft],
    best: _Option,
    epsilon: Fraction,
    other: tuple[str, float] | None,
) -> Quote:
    sensitivities = [s.sensitivity(d.unit) for d, c in zip(drafts, best.strategies, strict=True) for s in c.statistics]
    chosen = [s for c in best.strategies for s in c.statistics]
    try:
        noises = best.split.noises(sensitivities)
        for statistic, noise in zip(chosen, noises, strict=True):
            if isinstance(noise, NoisyMax) and isinstance(statistic, Choice):
                require_scale(noise.scale * statistic.reach)
    except OverflowError:
        raise PrivacyError(
            "the noise would be larger than any answer",
            code="too-noisy",
            hint="ask with a larger ε, or with smaller limits and ranges",
        ) from None
    selecting = sum(d.checked.private_keys for d in drafts)
    steps, start, numbers = [], 0, 0
    for name, draft, strategy in zip(plan.tables, drafts, best.strategies, strict=True):
        choices = sum(s.candidates for s in strategy.statistics if isinstance(s, Choice)) // 16  # those are fast
        numbers += (draft.checked.cells or 1) * (len(_tallies(strategy)) + choices)
        if numbers > MAX_NUMBERS:
            raise PrivacyError(
                f"the answer would be made of more than {MAX_NUMBERS:,} numbers",
                code="too-large",
                hint="ask for fewer aggregates or grouping sets, or group by coarser keys",
            )
        end = start + len(strategy.statistics)
        measurements = tuple(
            Measurement(s, size, noise)
            for s, size, noise in zip(strategy.statistics, sensitivities[start:end], noises[start:end], strict=True)
        )
        start = end
        steps.append(_step(name, draft, strategy, measurements, best.delta / max(1, selecting)))
    return Quote(plan, result, tuple(steps), epsilon, best.split, other)


def _step(name: str, draft: _Draft, strategy: Strategy, measurements: tuple[Measurement, ...], delta: Fraction) -> Step:
    checked, tallies = draft.checked, _tallies(strategy)
    distinct = () if _plain(draft, tallies) else tuple(t for t in tallies if t.kind == "distinct")
    tallies = tuple(t for t in tallies if t not in distinct)
    return Step(
        name=name,
        checked=checked,
        statement=_statement(draft, tallies, tuple(s for s in strategy.statistics if isinstance(s, Moments))),
        cells=_cells(checked) if checked.keys and not checked.private_keys else None,
        tallies=tallies,
        calls=draft.calls,
        measurements=measurements,
        estimates=strategy.estimates,
        bits=draft.bits,
        selection=_selection(draft, measurements, delta),
        histograms=tuple(_histogram(draft, s) for s in strategy.spectra),
        matchings=tuple(_matching(draft, t) for t in distinct),
    )


def _tallies(strategy: Strategy) -> tuple[Tally, ...]:
    return tuple(dict.fromkeys(t for s in strategy.statistics for t in s.tallies))


def _selection(draft: _Draft, measurements: Sequence[Measurement], delta: Fraction) -> Selection | None:
    checked = draft.checked
    if not checked.private_keys and checked.min_units is None:
        return None
    index = next(i for i, m in enumerate(measurements) if isinstance(m.statistic, Units) and m.statistic.where is None)
    if not checked.private_keys:
        assert checked.min_units is not None
        return Selection(index, checked.min_units, Fraction(0))
    # Theorem KEY-1: δ/max_groups for each key, and the threshold from the very noise that the count gets.
    noise = measurements[index].noise
    assert not isinstance(noise, NoisyMax)
    threshold = Threshold(noise, delta / _keys(draft), checked.min_units or 0)
    return Selection(index, threshold.tau, delta)


def _statement(draft: _Draft, tallies: tuple[Tally, ...], together: tuple[Moments, ...]) -> Statement:
    """Plain aggregation where every bound is proved; else the steps of DESIGN "Bounding", and no others."""
    checked, bounding = draft.checked, draft.checked.bounding
    keys = tuple(f"k{i}" for i in range(len(checked.keys)))
    named = tuple((f"t{i}", t) for i, t in enumerate(tallies))
    rows = _rows(draft, together)
    # One GROUP BY unit and a join back reads the rows twice: not where they come from joins, or are numbered as read.
    bottom = _bottom(checked.relation)
    once = not keys or not isinstance(bottom, Scan) or bool(bottom.links) or checked.owner.numbered
    by_row = bounding.cap is None and bounding.peak is None and not _clips(draft, tallies)
    if _plain(draft, tallies):
        group = Group(rows, keys, named)
    elif bounding.mass is not None and by_row and not once:
        group = Group(Weight(rows, bounding.mass, draft.bits), keys, named)
    else:
        group = Group(_whole_units(draft, PerUnit(rows, keys, named)), keys, named)
    return OnCells(group, _types(checked)) if keys and not checked.private_keys else group


def _plain(draft: _Draft, tallies: tuple[Tally, ...]) -> bool:
    """Is every bound proved, and nothing taken per unit, so that rows are just aggregated?"""
    bounding = draft.checked.bounding
    enforced = bounding.mass is not None or bounding.peak is not None or bounding.cap is not None
    return not (enforced or _clips(draft, tallies) or draft.checked.owner.numbered)


def _clips(draft: _Draft, tallies: tuple[Tally, ...]) -> bool:
    """Is something clipped per unit? With one row for each unit, what a unit adds to a group is its row."""
    return any(t.clip is not None for t in tallies) and draft.checked.owner.rows != 1


def _matching(draft: _Draft, tally: Tally) -> Matching:
    """The values of each unit, in the groups that the statement leaves it."""
    checked, bounding = draft.checked, draft.checked.bounding
    keys, by_unit = tuple(f"k{i}" for i in range(len(checked.keys))), not checked.owner.numbered
    rows = _rows(draft)
    source: Gridded | WeightRows = rows
    if bounding.cap is not None:
        source = WeightRows(rows, CapGroups(PerUnit(Again(), keys, ()), bounding.cap, draft.secret, by_unit))
    return Matching(source, keys, _types(checked), tally, bounding.mass, bounding.peak, draft.secret, by_unit)


def _histogram(draft: _Draft, spectrum: Spectrum) -> Histogram:
    """The same rows and weights as the statement's, counted by value."""
    checked, bounding = draft.checked, draft.checked.bounding
    keys = tuple(f"k{i}" for i in range(len(checked.keys)))
    rows = _rows(draft)
    source: Gridded | WeightRows = rows
    if bounding.mass is not None or bounding.peak is not None or bounding.cap is not None:
        source = WeightRows(rows, _whole_units(draft, PerUnit(Again(), keys, ())))
    return Histogram(source, keys, _types(checked), spectrum)


def _types(checked: CheckedRelease) -> tuple[str, ...]:
    return tuple(k.type.sql for k in checked.keys)


def _rows(draft: _Draft, together: tuple[Moments, ...] = ()) -> Gridded:
    """The rows on their grids, those of other cells left out where units have limits; divided for joint statistics."""
    checked, bounding = draft.checked, draft.checked.bounding
    gridded = ToGrid(Project(checked.relation, draft.columns), draft.values, together)
    enforced = bounding.mass is not None or bounding.peak is not None or bounding.cap is not None
    if checked.keys and not checked.private_keys and enforced:
        return OnDomain(gridded, tuple(f"k{i}" for i in range(len(checked.keys))), _types(checked))
    return gridded


def _whole_units(draft: _Draft, per_unit: PerUnit) -> PerUnit | CapGroups | WeightUnits:
    """Cap groups, then peak, then mass: the order that Theorems CAP-1 and WEIGHT-2 need."""
    bounding = draft.checked.bounding
    units: PerUnit | CapGroups = (
        per_unit
        if bounding.cap is None
        else CapGroups(per_unit, bounding.cap, draft.secret, not draft.checked.owner.numbered)
    )
    if bounding.mass is not None or bounding.peak is not None:
        return WeightUnits(units, bounding.mass, bounding.peak, draft.bits)
    return units


def _bottom(relation: Relation) -> Relation:
    while isinstance(relation, Filter):
        relation = relation.input
    return relation


def _cells(checked: CheckedRelease) -> Any:
    """All combinations of the keys' public values, in key order (Theorem KEYS-1)."""
    import numpy as np
    import pyarrow as pa

    assert checked.domains is not None and checked.cells is not None
    total = repeat = checked.cells
    columns: dict[str, Any] = {}
    for i, domain in enumerate(checked.domains):
        size = len(domain.values)
        repeat = repeat // size if size else 0
        index = np.tile(np.repeat(np.arange(size), repeat), total // (size * repeat) if size and repeat else 0)
        # One key: its values as they are. take() imports all of pyarrow.compute, which is slow.
        columns[f"k{i}"] = domain.values if size == total else domain.values.take(pa.array(index))
    return pa.table(columns)
