"""What one release could measure: columns named, values on grids, candidate statistics; everything but the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.analyze.combination import canonical
from dpsql.core.frozen import dataclass
from dpsql.core.grid import FINE_BITS, FINITE_PRESENCE, PRESENCE, Grid, choose_grid, coarsened, ranked_grid
from dpsql.core.sensitivity import Contribution
from dpsql.plan.nodes import Named, Winners
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import cast
from dpsql.sql.google import Bounds
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied
from dpsql.statistics.base import Clip, Quantity, Tally, Value
from dpsql.statistics.counts import Units, Votes
from dpsql.statistics.moments import MAX_SPAN, RESOLUTION_BITS
from dpsql.statistics.sized import Sizing, sized
from dpsql.statistics.strategy import SIZED, Fine, Linear, Strategy, one_by_one, strategies
from dpsql.statistics.sums import on_grid, row_grid
from dpsql.statistics.top import SCORES, Top

Contrast = tuple[tuple[Quantity, float], ...]
UNIT = "unit"  # the statement's column of units
UNITS = Quantity("units")
WEIGHT_BITS = 16  # weights are integers of 2^-bits: a unit with more than 2^16 times its limit weighs nothing
MAX_NUMBERS = 10_000_000  # cells times statistics, and candidates of choices
VOTE_BITS = 10  # votes are integers of 2^-bits, and the smallest has about so many
MOST_VOTE_BITS = 30  # with more, a product of votes would overflow in the engine's 64 bits, once anybody is there
SCALE_BITS = 40  # noise scales in grid units stay about below this, so that sampling is fast
CHOICE_BITS = 24  # less where choices multiply them by shares' denominators and parts
MAX_CANDIDATES = 2**20  # of a choice in one cell
ALL_CANDIDATES = 2**22  # in all cells, as far as that leaves a choice its FEWEST
FEWEST_CANDIDATES = 2**8
SHARED_CANDIDATES = 2**14  # where several values are chosen
APART = 2**8  # sums of one value whose bounds are further apart than that don't get the finest grid of all
UNKNOWN_CANDIDATES = 2**14  # in each cell, where it isn't known how many cells there are


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ways to measure one release: columns, grids and calls are settled, statistics and noise aren't yet."""

    checked: CheckedRelease
    bits: int
    unit: Contribution  # in integer weights
    columns: tuple[Named, ...]  # of the statement's Project
    values: tuple[tuple[str, str, Grid], ...]  # of its ToGrid
    calls: tuple[Call, ...]
    contrasts: tuple[tuple[Contrast, ...], ...]  # of each call: what its noise is judged by
    candidates: tuple[Strategy, ...]
    alone: tuple[Strategy, ...]  # each call by itself, and the units of a threshold, to compare candidates with
    voting: Candidates | None = None  # the same where keys are found by votes (Theorem KEYW-1); None: they can't be
    once: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What others made of it and of nothing else: each mechanism is compared by the same numbers."""


def candidates_of(checked: CheckedRelease, epsilon: Fraction, *, compare: bool = False) -> Candidates:
    """Name the statement's columns, put values on grids, and list the candidate statistics.

    compare: list what each aggregate would be measured by alone, also where this release doesn't need it.
    """
    columns: list[Named] = [(f"k{i}", canonical(k)) for i, k in enumerate(checked.keys)]
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
    single = [(*RECIPES[c.function].needs(c), *RECIPES[c.function].interval_needs(c)) for c in calls]
    sizing = _sizing(checked, calls)
    if sizing is not None:
        bits = min(bits, _bits_of_size(single, sizing, where_text, epsilon))
    selecting = checked.private_keys or checked.min_units is not None
    gridded: dict[str, tuple[str, str, Grid]] = {}
    for argument, call in zip(checked.arguments, calls, strict=True):
        if call.distinct:
            assert call.value is not None and argument.value is not None
            named = (call.value.column, canonical(argument.value))
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
    rows_are_units = checked.owner.rows == 1 and not checked.bounding.weighted  # a weighted row is more than 1
    # Winners need no bound on a unit's groups, and then what else could be measured isn't compared with them.
    compared = replace(unit, groups=Fraction(1)) if checked.winners is not None and unit.groups is None else unit
    fine = _fine(checked, epsilon, bits)

    def ways(wanted: Sequence[Quantity], fine: Fine) -> list[Strategy]:
        most = _candidates(checked)
        return strategies(
            wanted,
            where_text,
            compared,
            weight=weight,
            rows_are_units=rows_are_units,
            fine=fine,
            candidates=most,
            sizing=sizing,
            most_values=checked.bounding.values,
        )

    def listed(
        single: Sequence[Sequence[Quantity]], votes: Votes | None
    ) -> tuple[list[Strategy], tuple[Strategy, ...]]:
        """The candidates for all of this, and what each would be measured by alone, where that is compared."""
        needs = [quantity for wanted in single for quantity in wanted]
        found = ways(needs, fine)
        alone: tuple[Strategy, ...] = ()
        if compare or any(c.together for c in found):
            alone = tuple(ways(wanted, replace(fine, enough=False))[0] for wanted in single)
            apart = one_by_one(alone, needs, compared, weight=weight, rows_are_units=rows_are_units)
            if apart is not None and all(apart.statistics != c.statistics for c in found):
                found.append(apart)
        found = [c for c in found if (checked.cells or 1) * len(tallies_of(c)) <= MAX_NUMBERS] or found
        if votes is None:
            return found, alone
        elected = [Strategy((*c.statistics, votes), c.estimates) for c in found]
        return elected, (*alone, Strategy((votes,), {})) if alone else ()

    small, alone = listed([*single, *(((UNITS,),) if selecting else ())], None)
    if checked.winners is not None and (chosen := _winners(checked.winners, checked.cells or 1, small, unit)):
        small, alone = [chosen], (chosen,) if alone else ()
    values = tuple(gridded.values())
    contrasts = tuple(
        tuple(tuple((q, float(share)) for q, share in one.items()) for one in RECIPES[c.function].contrasts(c))
        for c in calls
    )
    found = Candidates(checked, bits, unit, tuple(columns), values, calls, contrasts, tuple(small), alone)
    # Where units are counted anyway, that count tells the keys, too: it is measured once.
    if any(UNITS in wanted for wanted in single) or (votes := _votes(checked, epsilon)) is None:
        return found
    small, alone = listed(single, votes)
    return replace(found, voting=replace(found, candidates=tuple(small), alone=alone))


def _votes(checked: CheckedRelease, epsilon: Fraction) -> Votes | None:
    """The votes by which keys could be found: where a unit may be in several groups."""
    groups = checked.bounding.contribution.groups
    if not checked.private_keys or checked.min_units is not None or groups is None or groups < 2:
        return None
    bits = VOTE_BITS + int(groups).bit_length() // 2  # a vote of 1/√groups still has that many
    if bits > MOST_VOTE_BITS:  # Theorem KEYW-1 (d): proved limits multiply in joins, and may be any number
        return None
    return Votes(bits) if bits + max(0, int(4 / epsilon).bit_length()) <= SCALE_BITS else None


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
    scale = (checked.bounding.rows or Fraction(1)) / epsilon
    return max(0, most - max(0, (scale.numerator // scale.denominator).bit_length()))


def _candidates(checked: CheckedRelease) -> int:
    """How many candidates a choice may have in one cell."""
    if checked.cells is None:
        return UNKNOWN_CANDIDATES
    return min(MAX_CANDIDATES, max(FEWEST_CANDIDATES, ALL_CANDIDATES // max(1, checked.cells)))


def _sizing(checked: CheckedRelease, calls: Sequence[Call]) -> Sizing | None:
    """The limit on one unit's size, and how much of each sum on its grid counts as one row; None: rows are counted."""
    size = checked.bounding.size
    if size is None:
        return None
    units: dict[tuple[Value, str | None], Fraction] = {}
    for argument, call in zip(checked.arguments, calls, strict=True):
        scale = argument.scale(size)
        if scale is not None and call.value is not None:
            units[call.value, call.where] = scale.unit
    return Sizing(size.most, tuple(units.items()))


def _bits_of_size(
    single: Sequence[Sequence[Quantity]], sizing: Sizing, where_text: Mapping[str | None, str], epsilon: Fraction
) -> int:
    """How many bits weights may have beside the factors of a size, while noise scales stay below 2^SCALE_BITS."""
    weighed = [q for wanted in single for q in wanted if q.kind in SIZED]
    return max(0, SCALE_BITS - int(sized(weighed, sizing, where_text, 1).most / epsilon).bit_length())


def _grids(checked: CheckedRelease, epsilon: Fraction, bits: int) -> dict[tuple[exp.Expr, object], Grid]:
    """A grid for each summed value (with its range: a FILTER may narrow it); others are only counted."""
    grids: dict[tuple[exp.Expr, object], Grid] = {}
    noises: dict[tuple[exp.Expr, object], list[Fraction]] = {}
    for argument, value in [(a, v) for a in checked.arguments if a.clip is None for v in a.values]:
        if not argument.recipe.counted and not argument.ordered:
            noises.setdefault(_value_key(value), []).append(_noise(checked, argument, value))
    divided = {_value_key(v) for a in checked.arguments if a.recipe.powers_of_values for v in a.values}
    for argument, value in [(a, v) for a in checked.arguments for v in a.values]:
        if argument.recipe.counted:
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
        key = _value_key(value)
        if checked.bounding.size is not None:
            grids[key] = _sized_grid(value, noises[key], checked.bounding.size.most, epsilon)
            continue
        noise = max(min(noises[key]), max(noises[key]) / APART) / epsilon
        grid = choose_grid(value.type, value.range, noise, bits=bits)
        if key in divided:
            grid = coarsened(grid, value.range, MAX_SPAN)
            # At least two points: the moments are taken relative to the span, which must not be 0.
            grid = replace(grid, high=max(grid.high, grid.low + 1))
        grids[key] = grid
    return grids


def _noise(checked: CheckedRelease, argument: Argument, value: Scalar) -> Fraction:
    """The most that one unit adds to a sum, in the value's own units."""
    size, mass = checked.bounding.size, checked.bounding.contribution.mass
    if size is not None:
        scale = argument.scale(size)
        assert scale is not None, "what is on a grid is summed"
        return size.most * scale.unit
    assert mass is not None
    return mass * value.range.magnitude


def _sized_grid(value: Scalar, noises: Sequence[Fraction], most: Fraction, epsilon: Fraction) -> Grid:
    """The grid of a sum in a unit's size: half as fine as others, as a row counts as up to 32 of its largest steps.

    And no finer than 2^-40 of what counts as one row, so that a row's own factor stays below 2^46 (Theorem SIZE-1).
    noises: the most that one unit adds to each sum of this value.
    """
    largest = min(max(noises), APART * min(noises))
    noise = max(2 * largest / epsilon, largest / most / 2**FINE_BITS)
    return choose_grid(value.type, value.range, noise, bits=WEIGHT_BITS)


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
    if not argument.recipe.counted:
        assert grid is not None
        return on_grid(grid, argument.clip.low, argument.clip.high)
    return Clip("rows" if grid is None else "present", int(argument.clip.low), int(argument.clip.high))


def _number(value: Scalar) -> exp.Expr:
    """Booleans are summed as 0 and 1."""
    return cast(copied(value.sql), "INTEGER") if value.type.is_boolean else value.sql


def _gridded_input(value: Scalar, grid: Grid) -> exp.Expr:
    """What goes on the grid: doubles on a binary grid, whatever the value's own type."""
    number, doubles = _number(value), grid.source == "float" and value.type.name != "DOUBLE"
    return cast(copied(number), "DOUBLE") if doubles else number


def _text(node: exp.Expr) -> str:
    return as_sql(node).replace('"', "")


def tallies_of(strategy: Strategy) -> tuple[Tally, ...]:
    return tuple(dict.fromkeys(t for s in strategy.statistics for t in s.tallies))
