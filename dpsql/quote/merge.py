"""Batches: several statements with one price, measured together.

Releases of the same rows by the same keys become one, so that what two statements need is measured, and paid for, once.
The budget is then shared out over all statistics at once. What each statement does with its tables is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analyze.checked import Argument, Checked, CheckedRelease
from dpsql.analyze.responses import CheckedResponses
from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.budget import Split
from dpsql.plan.nodes import Given, Plan, counted_groups, counts_rows, parts_of
from dpsql.quote.model import Measurement, Stage, Step, View
from dpsql.statistics.base import Statistic
from dpsql.statistics.counts import Count, Units
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.sums import Joint, Sum


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """All statements with their releases merged, and where each finds its tables."""

    checked: Checked
    views: tuple[View, ...]  # of the releases
    rows: tuple[View, ...]  # of the tables whose rows leave one by one
    several: bool = True  # is it a batch?


def merge(text: str, checked: Sequence[Checked]) -> Together:
    """Releases over the same rows, keys and bounds become one with all their aggregates."""
    if len(checked) == 1:
        return _alone(checked[0])
    checked = with_shared_lists(_of_all_groups(checked))
    merged: list[CheckedRelease] = []
    responses: list[CheckedResponses] = []
    views: list[View] = []
    rows: list[View] = []
    for part, one in enumerate(checked):
        for name, release in zip(one.plan.tables, one.releases, strict=True):
            if any(isinstance(p, Given) and p.noisy for p in parts_of(release.relation)):
                raise SQLError(
                    "a statement with a subquery over private rows can't be part of a batch",
                    code="batch",
                    hint="send it as a query of its own",
                )
            index = next((i for i, other in enumerate(merged) if _same(other, release)), len(merged))
            if index == len(merged):
                merged.append(release)
            merged[index] = _with(merged[index], release)
            arguments = merged[index].arguments
            views.append(View(part, name, index, tuple(arguments.index(a) for a in release.arguments)))
        for response in one.responses:
            index = next((i for i, other in enumerate(responses) if _same_rows(other, response)), len(responses))
            if index == len(responses):
                responses.append(replace(response, name=f"rows{index}"))
            rows.append(View(part, response.name, index, ()))
    public = frozenset().union(*(one.plan.public for one in checked))
    names = tuple(f"b{i}" for i in range(len(merged)))
    plan = Plan(text.strip(), tuple(m.release for m in merged), names, exp.Select(), public)
    return Together(Checked(plan, tuple(merged), tuple(responses)), tuple(views), tuple(rows))


def _of_all_groups(checked: Sequence[Checked]) -> list[Checked]:
    """All statements, those of the same groups but for HAVING over all of these: one release serves them all."""
    every = [release for one in checked for release in one.releases]

    def widened(release: CheckedRelease) -> CheckedRelease:
        kept, whole = release.release.kept, _without_having(release)
        others = [other for other in every if other.release.kept != kept]
        return whole if kept and any(_same(whole, _without_having(other)) for other in others) else release

    return [replace(one, releases=tuple(map(widened, one.releases))) for one in checked]


def _without_having(release: CheckedRelease) -> CheckedRelease:
    """The release with all groups, whatever HAVING says of keys; itself where all groups would be too many to list."""
    if not release.release.kept or (release.wider is None and not release.private_keys):
        return release
    return replace(release, release=replace(release.release, kept=()), listed=release.wider, wider=None)


def _alone(checked: Checked) -> Together:
    """One statement: its releases are its own."""
    views = [
        View(0, name, i, tuple(range(len(release.arguments))))
        for i, (name, release) in enumerate(zip(checked.plan.tables, checked.releases, strict=True))
    ]
    rows = [View(0, response.name, i, ()) for i, response in enumerate(checked.responses)]
    return Together(checked, tuple(views), tuple(rows), several=False)


def _same_rows(a: CheckedResponses, b: CheckedResponses) -> bool:
    return a.responses.input.table == b.responses.input.table and [c.identity for c in a.columns] == [
        c.identity for c in b.columns
    ]


def _same(a: CheckedRelease, b: CheckedRelease) -> bool:
    return (
        a.relation == b.relation
        and [k.sql for k in a.keys] == [k.sql for k in b.keys]
        and a.owner == b.owner
        and a.release.kept == b.release.kept
        and (a.bounding, a.min_units, a.cells) == (b.bounding, b.min_units, b.cells)
        # Winners are chosen by one aggregate, and are part of what is released (Theorem FREE-1).
        and a.winners == b.winners
        and (a.winners is None or a.arguments == b.arguments)
    )


def with_shared_lists(checked: Sequence[Checked]) -> list[Checked]:
    """All statements, their lists of groups told by what another one counts in the same groups, where one does."""
    every = [release for one in checked for release in one.releases]
    return [
        replace(one, releases=tuple(_list_of_counted(release, every) for release in one.releases)) for one in checked
    ]


def _list_of_counted(release: CheckedRelease, every: Sequence[CheckedRelease]) -> CheckedRelease:
    """A list of groups whose rows another statement counts is told by these counts: it needs no measurement of its own.

    Private keys are selected by their units whatever is counted besides.
    """
    told = [a for a in release.arguments if a.recipe.tells_presence]
    if len(told) < len(release.arguments) or not told or release.private_keys:
        return release
    for other in every:
        rows = replace(release, bounding=other.bounding, winners=other.winners)
        if other.winners is None and any(counts_rows(a.call) for a in other.arguments) and _same(other, rows):
            call = counted_groups(by_units=False)
            whole = replace(release.release, aggregates=(call,))
            return replace(rows, release=whole, arguments=(Argument(call, None, None, False),))
    return release


def _with(a: CheckedRelease, b: CheckedRelease) -> CheckedRelease:
    arguments = tuple(dict.fromkeys((*a.arguments, *b.arguments)))
    release = replace(a.release, aggregates=tuple(argument.call for argument in arguments))
    return replace(a, release=release, arguments=arguments)


# ---------------------------------------------------------------- sharing the budget out


def share(stage: Stage) -> Stage:
    """A stage with its budget shared out for the least total error, if all statistics are of one measure (SPLIT-2).

    Otherwise, and where thresholds hang on the noise, it keeps its equal shares.
    """
    measured = [m for step in stage.releases for m in step.measurements]
    sizes = [_size(m, step, stage.split) for step in stage.releases for m in step.measurements]
    measures = {_measure(m.statistic) for m in measured}
    thresholds = any(
        step.selection is not None or any(a.recipe.tells_presence for a in step.checked.arguments)
        for step in stage.releases
    )
    if len(measured) < 2 or len(measures) != 1 or None in measures or thresholds or not all(sizes):
        return stage
    whole = sum(sizes)
    # Rounded down, so that the shares are never more than the whole.
    shares = [Fraction(int(size / whole * 2**40), 2**40) for size in sizes]
    if not all(shares):
        return stage
    bought = stage.split.noise.calibrated
    noises = iter([bought(m.sensitivity, stage.split.budget, s) for m, s in zip(measured, shares, strict=True)])
    steps = tuple(
        replace(step, measurements=tuple(replace(m, noise=next(noises)) for m in step.measurements))
        for step in stage.releases
    )
    return replace(stage, steps=steps)


def _measure(statistic: Statistic) -> object:
    """What a statistic's unit of measure is; None where it has several."""
    match statistic:
        case Count() | Units() | Distinct():
            return "count"
        case Sum():
            return statistic.value.text
        case _:
            return None


def _size(measurement: Measurement, step: Step, split: Split) -> float:
    """The share that a statistic gets, up to a factor (Theorem SPLIT-2)."""
    statistic = measurement.statistic
    weight = 1 if isinstance(statistic, Units | Distinct) else 2**step.bits
    unit = (statistic.value.grid.step if isinstance(statistic, Sum | Joint) else Fraction(1)) / weight
    return split.noise.best_share(measurement.sensitivity, unit, split.budget)
