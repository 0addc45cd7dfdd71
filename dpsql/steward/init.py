"""init: a draft of a policy for data that has none. Every decision of the steward's is a question in it.

From schemas and names alone no row is read. With `steward`, rows are read, and what they show is proposed, or told on
the terminal where it must not stand in a policy. Trusted: counts and extremes there are covered by no ε.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.backends.base import WHOLE_SOURCE
from dpsql.backends.choose import file_kind, kind_of
from dpsql.core.errors import PolicyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy, RowUnit, Unit
from dpsql.refresh.promises import rows
from dpsql.steward.data_profile import (
    MANY_UNITS,
    ColumnSeen,
    TableSeen,
    UnitRows,
    least_holders,
    see,
    unit_rows,
    within_units,
)
from dpsql.steward.draft import Draft, TableDraft, listed, write
from dpsql.steward.inputs import Inputs, find
from dpsql.steward.question_budget import question_budget
from dpsql.steward.ranges import Range
from dpsql.steward.unit_guess import ROW, Candidate, Guess, Subject, candidates, guess, named

EPSILON = "3"
"""The total ε that is proposed where nobody names one."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the steward said; None and nothing: the safe proposal.

    unit: somebody's name, a column's, or "row". declined: columns that repeat as people's ids do, in lower case, and of
    which the steward said that they name nobody.
    """

    unit: str | None = None
    public: frozenset[str] = frozenset()
    epsilon: str = EPSILON
    delta: str | None = None
    declined: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Drafted:
    """The text of a policy that `check` accepts; what its reader must not see, and the steward should; the policy."""

    text: str
    findings: tuple[str, ...]
    policy: Policy


@dataclass(frozen=True, slots=True)
class Prospect:
    """The data before anything is decided: its tables, what rows show (None: nobody looked), whom to protect."""

    inputs: Inputs
    folder: Path
    seen: Mapping[str, TableSeen] | None
    subjects: tuple[Subject, ...]

    @property
    def candidates(self) -> list[Candidate]:
        """Who could be protected, the likeliest first."""
        return candidates(self.subjects)

    def doubtful(self, unit: str | None, declined: Collection[str]) -> list[Candidate]:
        """Candidates by repetition who would be units of tables where whom `unit` names owns no row."""
        chosen = self.protected(unit)
        made = guess(self.subjects, chosen, (), declined)
        units = {(name, one.unit.column) for name, one in made.items() if isinstance(one.unit, ColumnUnit)}
        return [one for one in self.candidates if one.repeats and one != chosen and units & set(one.columns)]

    @property
    def lookups(self) -> dict[str, str]:
        """Tables that may be public, and why."""
        made = guess(self.subjects, self.protected(None), ())
        return {name: one.lookup for name, one in made.items() if one.lookup is not None}

    def repetition(self, one: Candidate) -> str:
        """What was seen of a candidate by repetition: its first column, its values, their rows."""
        (table, column), *_ = one.columns
        assert self.seen is not None
        rows, distinct = self.seen[table].rows, self.seen[table].columns[column.lower()].distinct
        return f"{distinct:,} values of {table}.{column} in {rows:,} rows"

    def protected(self, unit: str | None) -> Candidate | None:
        """Whom a steward means, by default the likeliest; None: each row for itself."""
        if unit is None:
            return next(iter(self.candidates), None)
        if unit.lower() == ROW:
            return None
        if (found := named(unit, self.subjects)) is None:
            names = [column for subject in self.subjects for column in subject.meanings]
            close = nearest(unit, names)
            raise PolicyError(
                f"unit: no table has a column {unit} that could be an id",
                code="unknown-column",
                hint=f"did you mean {close}?" if close else 'name a column of whole numbers or text, or "row"',
            )
        return found


def look_at(data: Sequence[str], folder: Path, *, steward: bool) -> Prospect:
    """Find the tables; for the steward, look at their rows, too."""
    inputs = find(data, folder, file_kind().contents)
    seen = _see(inputs, folder) if steward else None
    return Prospect(inputs, folder, seen, tuple(_subjects(inputs, seen)))


def draft(prospect: Prospect, answers: Answers) -> Drafted:
    """A policy as the answers want it, and what the steward should know of it."""
    names = {one.name for one in prospect.inputs.tables}
    if unknown := sorted(answers.public - names):
        close = nearest(unknown[0], sorted(names))
        raise PolicyError(
            f"public: there is no table {unknown[0]}",
            code="unknown-table",
            hint=f"did you mean {close}?" if close else f"the tables are {', '.join(sorted(names))}",
        )
    made = guess(prospect.subjects, prospect.protected(answers.unit), answers.public, answers.declined)
    owned = _look_again(prospect, made) if prospect.seen is not None else {}
    nobody: Owned = (None, {}, frozenset())
    tables = tuple(
        TableDraft(one, made.get(one.name), (prospect.seen or {}).get(one.name), *owned.get(one.name, nobody))
        for one in prospect.inputs.tables
    )
    delta = answers.delta or _delta(max((table.units for table in tables), default=0))
    whole = Draft(tables, question_budget(answers.epsilon), delta, prospect.seen is not None)
    text = write(whole)
    policy = Policy.from_dict(tomllib.loads(text, parse_float=Decimal), folder=prospect.folder, sources=())
    return Drafted(text, tuple(findings(whole)), policy)


def _subjects(inputs: Inputs, seen: Mapping[str, TableSeen] | None) -> Iterable[Subject]:
    for one in inputs.tables:
        columns = [(name, Type.parse(text)) for name, text in one.columns]
        if seen is None:
            yield Subject(one.name, tuple(columns))
            continue
        known = seen[one.name].columns
        typed = [(name, known[name.lower()].type if name.lower() in known else type_) for name, type_ in columns]
        unique = frozenset(name for name, column in known.items() if column.unique)
        yield Subject(one.name, tuple(typed), unique, seen[one.name].repeating)


def _see(inputs: Inputs, folder: Path) -> dict[str, TableSeen]:
    """All rows of all tables, each row its own unit and the columns of CSV files text, as a first policy would say."""
    units: dict[str, tuple[Unit, str | None]] = {one.name: (RowUnit(), None) for one in inputs.tables}
    policy = _policy(inputs, folder, units, {})
    located = kind_of(policy).locate(policy, {})
    backend = kind_of(policy).open_backend(located, policy.engine, folder)
    try:
        for one in located:
            found = backend.examine(one, sorted(backend.apart(one) or [WHOLE_SOURCE]))
            if bad := [part for part, facts in found.items() if facts is None]:  # which queries would be refused for
                raise backend.unreadable(one, bad)
        return {
            each.name: see(backend, policy.tables[each.name.lower()], typed=each.kind != "csv")
            for each in inputs.tables
        }
    finally:
        backend.close()


Owned = tuple[UnitRows | None, Mapping[str, int], frozenset[str]]
"""Of a table: how many rows units have, how many hold a rare value, and other ids of which each is one unit's."""


def _look_again(prospect: Prospect, made: Mapping[str, Guess]) -> dict[str, Owned]:
    """What can be seen once units are known."""
    seen = prospect.seen or {}
    inputs = Inputs(tuple(one for one in prospect.inputs.tables if one.name in made), ())
    policy = _policy(inputs, prospect.folder, {n: (one.unit, one.key) for n, one in made.items()}, seen)
    kind = kind_of(policy)
    backend = kind.open_backend(kind.locate(policy, {}), policy.engine, prospect.folder)
    try:
        owned: dict[str, Owned] = {}
        for table in policy.tables.values():
            listed = [name for name, column in seen[table.name].columns.items() if column.values]
            held = least_holders(backend, policy, table, listed)
            ids = [column for column, _ in made[table.name].others]
            owned[table.name] = (
                unit_rows(backend, policy, table),
                held,
                within_units(backend, policy, table, ids),
            )
        return owned
    finally:
        backend.close()


def _policy(
    inputs: Inputs, folder: Path, units: Mapping[str, tuple[Unit, str | None]], seen: Mapping[str, TableSeen]
) -> Policy:
    """A policy to look at rows with: it is never written, has no ledger, and answers nothing."""
    tables: dict[str, object] = {}
    for one in inputs.tables:
        unit, key = units[one.name]
        known = seen[one.name].columns if one.name in seen else {}
        types = {c: known[c.lower()].type.sql if c.lower() in known else "VARCHAR" for c, _ in one.columns}
        columns = {column: {"type": type_} for column, type_ in types.items()}
        folders = {column: {"type": type_} for column, type_ in one.columns if column in one.folders}
        table: dict[str, object] = {"source": one.source, "unit": _written(unit)}
        table |= {"table": one.table} if one.table is not None else {}
        table |= {"separator": one.separator} if one.separator is not None else {}
        table |= {"columns": columns if one.kind == "csv" else folders}
        tables[one.name] = table | ({"key": key} if key is not None else {})
    return Policy.from_dict({"budget": {"epsilon": 1}, "tables": tables}, folder=folder, sources=())


def _written(unit: Unit) -> object:
    match unit:
        case RowUnit():
            return ROW
        case ColumnUnit(column, domain):
            return {"column": column, **({"domain": domain} if domain else {})}
        case LinkedUnit(through, on):
            return {"through": through, "on": dict(on)}


def _delta(units: int) -> str:
    """A power of ten, at most a tenth of 1 / units."""
    digits = len(str(max(units, 1)))  # units < 10^digits
    return f"1e-{max(6, digits + 1)}"


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
