"""What a draft tells the steward on the terminal: what rows show that must not stand in a policy, and what to look at.

Trusted: the counts and extremes here are covered by no ε.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from dpsql.policy.model import ColumnUnit
from dpsql.refresh.promises import rows
from dpsql.steward.draft import Draft, TableDraft, listed
from dpsql.steward.ranges import Range
from dpsql.steward.seen import MANY_UNITS, ColumnSeen


def findings(draft: Draft) -> list[str]:
    """One sentence each, in the order of the draft's tables."""
    found = [f"{table.input.name}: {text}" for table in draft.tables for text in _of_table(table)]
    budget = draft.budget
    found.append(
        f"the drafted budget of ε = {budget.total:f} lasts for {budget.questions} questions at ε = {budget.query:f} "
        f"each ({budget.after_learning} once dpsql learn took its share); --epsilon gives one question more"
    )
    return found


def _of_table(table: TableDraft) -> Iterator[str]:
    if table.guess is None:
        return
    yield from _people(table)
    if table.rows is not None and table.rows.most > 1:
        yield f"rows of one {table.unit_name}: {table.rows}"
    columns = table.seen.columns.values() if table.seen is not None else ()
    for column in columns:
        yield from _column(table, column)


def _people(table: TableDraft) -> Iterator[str]:
    made = table.guess
    assert made is not None
    if made.by_repetition and isinstance(made.unit, ColumnUnit):
        yield (
            f"{_repeats(table, made.unit.column)}, so all rows with one {made.unit.column} are protected together. "
            f'If {made.unit.column} names nobody, write unit = "row"'
        )
    for column, entity in made.others:
        if column in table.within:
            yield f"each {entity} of {column} is of one {table.unit_name} alone: what hides the one hides the other"
            continue
        yield (
            f"WARNING: {column} names people, too, and this draft does not protect them. Noise hides what one "
            f"{table.unit_name} did; what one {entity} did can show in answers. "
            f"dpsql init --unit {entity} protects each {entity} instead"
        )
    for column in made.repeating:
        yield f"{_repeats(table, column)}, and was not taken for a person. If it names people: --unit {column}"


def _repeats(table: TableDraft, column: str) -> str:
    seen = table.seen.columns.get(column.lower()) if table.seen is not None else None
    counts = f" ({seen.distinct:,} values in {rows(table.seen.rows)})" if seen is not None and table.seen else ""
    return f"{column} repeats as people's ids do{counts}"


def _column(table: TableDraft, column: ColumnSeen) -> Iterator[str]:
    total = table.seen.rows if table.seen is not None else 0
    if total and column.nulls == total:
        yield f"{column.name} has no value in any row"
    if column.missing:
        yield f"{column.name} holds NA or the like in {rows(column.missing)}"
    if column.range is not None and table.has_range(column):
        yield from _range(column.name, column.range)
    held = table.held.get(column.name.lower(), MANY_UNITS)
    if column.values and held < MANY_UNITS and table.may_list(column):
        who = f"{held:,} {table.unit_name}{'' if held == 1 else 's'}"
        yield (
            f"the rarest of the {len(column.values)} values of {column.name} is held by {who}, so none are drafted as "
            f"public keys. If all of them are known without the data: {listed(column.values)}"
        )


def _range(name: str, found: Range) -> Iterator[str]:
    if found.outside:
        verb = "lies" if found.outside == 1 else "lie"
        ends = []
        if found.above:
            ends.append(f"the largest is {_number(found.greatest)}")
        if found.below:
            ends.append(f"the smallest is {_number(found.least)}")
        yield (
            f"{rows(found.outside)} of {name} {verb} outside of {_number(found.low)} to {_number(found.high)}, the "
            f"drafted range: {' and '.join(ends)}"
        )
    for number in found.unknown:
        yield (
            f"{_number(number)} stands apart from the other values of {name}, and the drafted range leaves it out: "
            f'if it means "unknown", averages are right with WHERE {name} <> {number}'
        )


def _number(value: Any) -> str:
    """A number with commas and at most six digits behind them; a day or a moment as it is."""
    if isinstance(value, float | Decimal):
        return f"{value:,.0f}" if value == value.__trunc__() else f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
