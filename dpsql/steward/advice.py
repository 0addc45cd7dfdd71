"""What a careful colleague would say about a policy that is valid: what it refuses, wastes or forgets.

Among it limits that the steward could declare. Trusted: they are read off the rows, and shown to the steward. Whoever
reads a policy learns a limit that stands in it, at no ε. So a limit is offered only where so many units have so many
rows that none of them is told apart by it: it rests on at least MANY_UNITS units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count

from dpsql.analyze.domains import MAX_IMPLIED
from dpsql.backends.base import Backend
from dpsql.backends.choose import file_kind
from dpsql.backends.lakes import is_lake
from dpsql.core.cost import show_rounded
from dpsql.core.frozen import dataclass
from dpsql.core.limit import Choose, Limit
from dpsql.core.types import Type
from dpsql.engine import Shared
from dpsql.policy.model import Column, ColumnUnit, Policy, RowUnit, Table
from dpsql.policy.reader import Bound
from dpsql.steward.data_profile import MANY_UNITS, UnitRows, nulls_and_values, rows_beyond, unit_rows, units_with_more
from dpsql.steward.unit_guess import CONTACTS, Subject, candidates, repeats_like_an_id

LITTLE = 10  # an ε above this protects little
ROWS = "rows"  # a fact rather than advice
CUT = Fraction(1, 100)  # of all rows, above which a limit is worth a word


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice. table: None where it is about all of them."""

    about: str
    text: str
    table: str | None = None


def from_schema(policy: Policy, schema: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[Advice]:
    """What can be said without a look at rows."""
    budget = policy.budget
    if budget.epsilon > LITTLE:
        yield Advice(
            "epsilon",
            f"ε = {show_rounded(budget.epsilon, up=False)} in all protects little: what anybody thinks of one unit may "
            "change by a factor of e^ε; 1 to 3 is usual",
        )
    private = {
        name: [(column, Type.parse(text)) for column, text in schema[name]]
        for name, table in policy.tables.items()
        if not table.public
    }
    hidden = [
        f"{policy.tables[n].name}.{c}" for n, columns in private.items() for c in _hidden(policy.tables[n], columns)
    ]
    if hidden and budget.delta == 0:
        yield Advice(
            "delta",
            f"δ = 0 refuses GROUP BY {_listed(hidden)}, whose keys aren't public, and Gaussian noise: set [budget] "
            "delta, say 1e-6, or give them values or references",
        )
    if policy.data.on_change == "refuse" and (growing := [t for t in policy.tables.values() if _grows(t)]):
        named = _listed([f"{table.name} ({table.source})" for table in growing])
        yield Advice(
            "on_change",
            f"a new file of {named} is new data: every query is refused then, a nightly job's, too, until the steward "
            'runs dpsql refresh --steward; [data] on_change = "accept" takes new files as they come',
        )
    for name, columns in private.items():
        yield from _table(policy, policy.tables[name], columns)


def _grows(table: Table) -> bool:
    """Is a private table made of whatever files there are: of a pattern, or of a lake's present version?"""
    source = table.source or ""
    return not table.public and (table.kind == "catalog" or is_lake(source) or any(c in source for c in "*?["))


def _table(policy: Policy, table: Table, columns: Sequence[tuple[str, Type]]) -> Iterator[Advice]:
    useless = [f"{name} ({type_})" for name, type_ in columns if not type_.is_written]
    opaque = [f"{name} ({type_})" for name, type_ in columns if type_.is_written and not type_.is_key]
    if useless:
        yield Advice(
            "columns",
            f"nobody can use {_listed(useless)}: nested values have neither keys nor a range; give their parts columns "
            "of their own",
            table.name,
        )
    if opaque:
        yield Advice("columns", f"{_listed(opaque)} can't be grouped by or added up", table.name)
    people = [one for one in candidates([Subject(table.name, tuple(columns))]) if one.entity not in CONTACTS]
    if isinstance(table.unit, RowUnit):
        found = [column for one in people for column in one.within(table.name)]
        if found:
            yield Advice(
                "unit",
                f'unit = "row" protects one row, and {_listed(found)} looks like an id: if somebody can have several '
                f'rows, write unit = "{found[0]}"',
                table.name,
            )
        return
    unit = table.unit.column.lower() if isinstance(table.unit, ColumnUnit) else None
    others = [one for one in people if unit not in {c.lower() for c in one.within(table.name)}]
    if unit is not None and others:
        named = _listed([f"{column} ({one.entity})" for one in others for column in one.within(table.name)])
        yield Advice("unit", f"other people are named by {named}: this policy does not protect them", table.name)


def from_rows(engine: Shared, table: Table) -> Iterator[Advice]:
    """What rows show. Trusted: the steward alone may see it."""
    schema = [(name, Type.parse(text)) for name, text in engine.schema[table.name.lower()]]
    columns = [(name, type_) for name, type_ in schema if type_.is_key]
    rows, nulls, distinct = nulls_and_values(engine.backend, table, columns)
    full = [name for name, _ in columns if rows and not nulls[name] and _promised_nothing(table, name)]
    if full:
        yield Advice("nullable", f"never NULL, and not declared so (nullable = false): {_listed(full)}", table.name)
    if unlisted := _unlisted(engine, table):
        text = f"nobody can use {_listed(unlisted)}: a column of a CSV file has to be listed, with its type"
        yield Advice("columns", text, table.name)
    units = unit_rows(engine.backend, engine.policy, table)
    if units is not None:
        if units.most > 1:
            yield Advice(ROWS, f"of one unit: {units}", table.name)
            yield from _offer(engine, table, units)
        yield from _cut(engine, table, units)
    elif isinstance(table.unit, RowUnit):
        for name, type_ in columns:
            if repeats_like_an_id(table.name, name, type_, distinct[name], rows):
                text = f'unit = "row", and {name} repeats like an id (about {distinct[name]:,} values in {rows:,} rows)'
                yield Advice("unit", f"{text}: is it one of people?", table.name)
    protected = units.units if units is not None else rows
    delta = engine.policy.budget.delta
    if protected and delta > Fraction(1, 10 * protected):
        yield Advice(
            "delta",
            f"δ = {show_rounded(delta, up=False)} is more than 1 / (10 × {protected:,} units): it could show somebody "
            "as they are; take a smaller one",
            table.name,
        )


def _unlisted(engine: Shared, table: Table) -> list[str]:
    """Columns of a CSV file that the policy doesn't list. For the steward alone: a first line may be a row."""
    if table.name.lower() not in engine.unlisted or table.source is None:
        return []
    files = next(one.files for one in engine.located if one.table is table)
    known = {name.lower() for name, _ in engine.schema[table.name.lower()]}
    held = file_kind().contents(table.source, files)
    return [name for one in held for name, _ in one.columns if name.lower() not in known]


def _offer(engine: Shared, table: Table, units: UnitRows) -> Iterator[Advice]:
    """A limit that the steward could declare where the policy has none."""
    if table.rows_per_unit is not None or _limit(engine.policy, table, "max_rows") is not None:
        return
    limit = declared_limit(engine.backend, engine.policy, table, units.most)
    if limit is None:
        text = f"none can be declared that rests on {MANY_UNITS} units or more: leave max_rows to the queries"
    else:
        below = max((step for step in ladder(limit.max_rows) if step < limit.max_rows), default=0)
        text = (
            f"max_rows = {limit.max_rows:,} could be declared (it cuts {float(Fraction(limit.cut, units.rows)):.1%} of "
            f"the rows; {limit.units:,} units have more than {below:,}). People who read the policy learn it, and no ε "
            "covers that; without it queries choose their own limits"
        )
    yield Advice("max_rows", text, table.name)


def _cut(engine: Shared, table: Table, units: UnitRows) -> Iterator[Advice]:
    """Limits that leave out more than a hundredth of the rows."""
    limit = _limit(engine.policy, table, "max_rows")
    limit = limit.most if isinstance(limit, Choose) else limit
    if limit is None:
        return
    (beyond,) = rows_beyond(engine.backend, engine.policy, table, [limit])
    share = Fraction(beyond, units.rows)
    if share > CUT:
        yield Advice(
            "max_rows",
            f"max_rows = {limit:,} cuts {float(share):.1%} of the rows: {beyond:,} of {units.rows:,}",
            table.name,
        )


def _promised_nothing(table: Table, column: str) -> bool:
    said = table.column(column)
    return said is not None and said.nullable


def _hidden(table: Table, columns: Sequence[tuple[str, Type]]) -> list[str]:
    """Columns that people group by and whose keys aren't public: texts, which ids and private ones are not."""
    unit = table.unit.column.lower() if isinstance(table.unit, ColumnUnit) else None
    return [
        name
        for name, type_ in columns
        if type_.is_text
        and name.lower() != unit
        and public_keys(name, type_, table.column(name)) is None
        and not ((said := table.column(name)) is not None and said.private)
    ]


def _limit(policy: Policy, table: Table, name: str) -> Limit | None:
    found: Limit | None = table.limits.get(name, getattr(policy.privacy, name))
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


COUNT_EPSILON = Fraction(3, 10)
"""The ε of the count for which a limit is compared where the policy says nothing of queries."""


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """A limit that could be declared. units: have more rows than the step below it. cut: rows beyond the limit."""

    max_rows: int
    units: int
    cut: int


def ladder(most: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, …, up to the first that is at least `most`."""
    steps: list[int] = []
    for step in _steps():
        steps.append(step)
        if step >= most:
            break
    return steps


def declared_limit(backend: Backend, policy: Policy, table: Table, most: int) -> DeclaredLimit | None:
    """The limit of the ladder with which COUNT(*) is least wrong; None where none rests on enough units.

    most: the greatest number of rows of one unit.
    """
    steps = ladder(most)
    below = units_with_more(backend, policy, table, [0, *steps[:-1]])
    cut = rows_beyond(backend, policy, table, steps)
    offered = [
        DeclaredLimit(step, units, rows)
        for step, units, rows in zip(steps, below, cut, strict=True)
        if units >= MANY_UNITS
    ]
    return least_wrong(offered, policy.budget.query_epsilon or COUNT_EPSILON)


def least_wrong(offered: Sequence[DeclaredLimit], epsilon: Fraction) -> DeclaredLimit | None:
    """The limit with the least sum of the rows that it cuts and of the noise that a count with it has."""
    noise = Fraction(141, 100) / epsilon  # a standard deviation of Laplace noise, for one row
    return min(offered, key=lambda limit: limit.cut + noise * limit.max_rows, default=None)


def _steps() -> Iterator[int]:
    for power in count():
        yield from (factor * 10**power for factor in (1, 2, 5))


def public_keys(name: str, type_: Type, said: Column | None) -> str | None:
    """The public keys of a column, in words; None where keys are selected privately."""
    if said is not None and said.private:
        return None
    if said is not None and said.values is not None:
        return f"{name} ({len(said.values):,} values)"
    if said is not None and said.references is not None:
        return f"{name} (those of {said.references.table}.{said.references.column})"
    if type_.is_boolean:
        return f"{name} (true, false)"
    if said is None or said.min is None or said.max is None:
        return None
    if (type_.is_integer or type_.is_date) and _span(said.min, said.max) < MAX_IMPLIED:
        return f"{name} ({'each day' if type_.is_date else 'each whole number'} of its range)"
    return None


def _span(low: Bound, high: Bound) -> float:
    gap = high - low  # type: ignore[operator]  # a policy's min and max are of one kind
    return float(gap.days) if hasattr(gap, "days") else float(gap)
