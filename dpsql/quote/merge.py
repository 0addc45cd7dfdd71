"""Batches: several statements with one price, measured together.

Releases of the same rows by the same keys become one, so that what two statements need is measured, and paid for, once.
The budget is then shared out over all statistics at once. What each statement does with its tables is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.accounting.account import Receipt
from dpsql.analyze.checked import Checked, CheckedRelease
from dpsql.analyze.domains import PublicEngine
from dpsql.answer.finish import finish
from dpsql.answer.model import Answer
from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.budget import Split
from dpsql.plan.nodes import Given, Plan, parts_of
from dpsql.quote.calibrate import check_columns
from dpsql.quote.model import Measurement, Quote, Step
from dpsql.release import Noisy, Responded
from dpsql.sql.parse import Tree
from dpsql.sql.refuse import refuse
from dpsql.statistics.base import Statistic
from dpsql.statistics.count import Count
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.joint import Joint
from dpsql.statistics.total import Sum
from dpsql.statistics.units import Units
from dpsql.store.archive import view

MOST = 100  # statements

_DUCKDB = Dialect.get_or_raise("duckdb")
Result = tuple[tuple[str, str], ...]


def statements(text: str) -> list[str]:
    """The statements of a text, each in its place: what comes before it is blank, so that errors point right."""
    try:
        tokens = _DUCKDB.tokenize(text)
    except TokenError:
        return [text]  # parse says what is wrong
    ends = [t.start for t in tokens if t.token_type is TokenType.SEMICOLON]
    starts = [0, *(end + 1 for end in ends)]
    pieces = []
    for start, end in zip(starts, [*ends, len(text)], strict=True):
        if any(start <= t.start < end and t.token_type is not TokenType.SEMICOLON for t in tokens):
            pieces.append("".join(c if c == "\n" else " " for c in text[:start]) + text[start:end])
    if len(pieces) > MOST:
        raise SQLError(f"a batch has at most {MOST} statements", code="too-long", hint="split it into several files")
    return pieces or [text]


def alone(tree: Tree) -> Tree:
    """A statement that leaves the budget to the batch; limits it may have of its own."""
    for name in ("epsilon", "delta", "mechanism"):
        if name in tree.options:
            error = SQLError(
                f"a batch has one {name}",
                code="batch",
                hint=f"leave it out here, and give it beside the file: --{name}",
            )
            error.offsets = tree.options[name].place
            raise error
    return tree


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement's release is in the batch: which of the merged ones, and where its aggregates are in there."""

    release: int
    aggregates: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One statement of a batch."""

    plan: Plan
    result: Result
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """All statements, and their releases merged."""

    checked: Checked
    parts: tuple[Part, ...]


def merge(text: str, checked: Sequence[tuple[Checked, Result]]) -> Batch:
    """Releases over the same rows, keys and bounds become one with all their aggregates."""
    merged: list[CheckedRelease] = []
    parts = []
    for one, result in checked:
        check_columns(one.plan, result)
        places = []
        if one.responses:
            raise refuse(
                SQLError,
                "a statement with RANDOMIZED_RESPONSE can't be part of a batch",
                one.responses[0].responses.calls,
                code="batch",
                hint="send it as a query of its own",
            )
        for release in one.releases:
            if any(isinstance(part, Given) and part.noisy for part in parts_of(release.relation)):
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
            places.append(Place(index, tuple(arguments.index(a) for a in release.arguments)))
        parts.append(Part(one.plan, result, tuple(places)))
    public = frozenset().union(*(one.plan.public for one, _ in checked))
    names = tuple(f"b{i}" for i in range(len(merged)))
    plan = Plan(text.strip(), tuple(m.release for m in merged), names, exp.Select(), public)
    return Batch(Checked(plan, tuple(merged)), tuple(parts))


def _same(a: CheckedRelease, b: CheckedRelease) -> bool:
    return (
        a.relation == b.relation
        and [k.sql for k in a.keys] == [k.sql for k in b.keys]
        and a.owner == b.owner
        and (a.bounding, a.min_units, a.cells) == (b.bounding, b.min_units, b.cells)
        # Winners are chosen by one aggregate, and are part of what is released (Theorem FREE-1).
        and a.winners == b.winners
        and (a.winners is None or a.arguments == b.arguments)
    )


def _with(a: CheckedRelease, b: CheckedRelease) -> CheckedRelease:
    arguments = tuple(dict.fromkeys((*a.arguments, *b.arguments)))
    release = replace(a.release, aggregates=tuple(argument.call for argument in arguments))
    return replace(a, release=release, arguments=arguments)


def quotes(quote: Quote, together: Batch) -> Iterator[Quote]:
    """Each statement's own quote: its post-processing, over its part of the batch's releases."""
    for part in together.parts:
        steps = []
        for name, place in zip(part.plan.tables, part.places, strict=True):
            step = quote.steps[place.release]
            steps.append(replace(step, name=name, calls=tuple(step.calls[i] for i in place.aggregates)))
        yield replace(quote, plan=part.plan, result=part.result, steps=tuple(steps))


def answer(
    quote: Quote, part: Part, noisy: Sequence[Noisy | Responded], receipt: Receipt, public: PublicEngine
) -> Answer:
    """One statement's answer from the tables of the whole batch, which has no randomised rows."""
    views = []
    for name, place in zip(part.plan.tables, part.places, strict=True):
        source = noisy[place.release]
        assert isinstance(source, Noisy)
        views.append(view(source, name, tuple(source.step.calls[i] for i in place.aggregates)))
    return finish(replace(quote, plan=part.plan, result=part.result), views, receipt, public)


# ---------------------------------------------------------------- sharing the budget out


def share(quote: Quote) -> Quote:
    """The same budget with the least total error, where all statistics are of one unit of measure (SPLIT-2).

    Otherwise, and where thresholds hang on the noise, the equal shares that it has.
    """
    measured = [m for step in quote.steps for m in step.measurements]
    sizes = [_size(m, step, quote.split) for step in quote.steps for m in step.measurements]
    measures = {_measure(m.statistic) for m in measured}
    thresholds = any(step.selection is not None for step in quote.steps)
    if len(measured) < 2 or len(measures) != 1 or None in measures or thresholds or not all(sizes):
        return quote
    whole = sum(sizes)
    # Rounded down, so that the shares are never more than the whole.
    shares = [Fraction(int(size / whole * 2**40), 2**40) for size in sizes]
    if not all(shares):
        return quote
    noises = iter(
        [
            quote.split.noise.calibrated(m.sensitivity, quote.split.budget, s)
            for m, s in zip(measured, shares, strict=True)
        ]
    )
    steps = tuple(
        replace(step, measurements=tuple(replace(m, noise=next(noises)) for m in step.measurements))
        for step in quote.steps
    )
    return replace(quote, steps=steps)


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
