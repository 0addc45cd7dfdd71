"""The text of a drafted policy: TOML with a question in a comment wherever the steward has to decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from textwrap import wrap
from typing import Any

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, RowUnit
from dpsql.steward.data_profile import MANY_UNITS, ColumnSeen, TableSeen, UnitRows
from dpsql.steward.inputs import Input
from dpsql.steward.question_budget import QuestionBudget
from dpsql.steward.unit_guess import Guess, Meaning, is_code, meaning, prefix_of

ASK = "# ? "  # begins a question


@dataclass(frozen=True, slots=True)
class TableDraft:
    """One table of the draft.

    guess: None where the steward made it public. seen, rows: None where nobody looked. held: for each column of few
    values, by its lower-cased name, how many units hold the value that the fewest hold. within: other ids of which each
    stands in the rows of one unit alone.
    """

    input: Input
    guess: Guess | None
    seen: TableSeen | None
    rows: UnitRows | None
    held: Mapping[str, int]
    within: frozenset[str] = frozenset()

    @property
    def unprotected(self) -> tuple[tuple[str, str], ...]:
        """Columns that name people whom this draft doesn't protect, as far as rows show, and whom they name."""
        return () if self.guess is None else tuple((c, e) for c, e in self.guess.others if c not in self.within)

    @property
    def units(self) -> int:
        """How many are protected, as far as anybody looked."""
        if self.guess is None or self.seen is None:
            return 0
        return self.seen.rows if self.rows is None else self.rows.units

    @property
    def unit_name(self) -> str:
        """What one of the protected is called."""
        unit = self.guess.unit if self.guess is not None else None
        if isinstance(unit, ColumnUnit):
            return self._meaning(unit.column).entity or unit.column
        return "unit" if isinstance(unit, LinkedUnit) else "row"

    def is_id(self, column: str) -> bool:
        """Is a column the unit, or somebody's or something's id?"""
        unit = self.guess.unit if self.guess is not None else None
        people = [other for other, _ in self.guess.others] if self.guess is not None else []
        if isinstance(unit, ColumnUnit):
            people.append(unit.column)
        return column.lower() in map(str.lower, people) or self._meaning(column).is_id

    def may_list(self, column: ColumnSeen) -> bool:
        """Are a column's values worth a list? Ids' aren't, nor are those of a table that may be public as a whole."""
        return self.guess is not None and self.guess.lookup is None and not self.is_id(column.name)

    def _meaning(self, column: str) -> Meaning:
        return meaning(column, self.input.name, prefix_of([name for name, _ in self.input.columns]))

    def has_range(self, column: ColumnSeen) -> bool:
        """Is a range drafted for a column? Neither for ids nor for codes, which nobody adds up."""
        return self.may_list(column) and not (column.type.is_integer and is_code(column.name))


@dataclass(frozen=True, slots=True)
class Draft:
    """All that a draft says."""

    tables: tuple[TableDraft, ...]
    budget: QuestionBudget
    delta: str
    looked: bool


def write(draft: Draft) -> str:
    """The whole file."""
    public = {one.input.name for one in draft.tables if one.guess is None}
    lines = [*_head(draft), *_budget(draft)]
    for table in draft.tables:
        lines += ["", *_table(table, public)]
    return "\n".join(lines) + "\n"


def questions(text: str) -> int:
    """How many questions a draft asks."""
    return sum(line.startswith(ASK) for line in text.splitlines())


def _comment(text: str, first: str = "# ") -> Iterator[str]:
    """A comment of several lines, without what TOML forbids in one."""
    yield from wrap(_said(text), 116, initial_indent=first, subsequent_indent="# ", break_on_hyphens=False)


def _ask(text: str) -> Iterator[str]:
    return _comment(text, ASK)


def _head(draft: Draft) -> Iterator[str]:
    yield from _comment(
        "A policy drafted by `dpsql init`. Comments that begin with a question mark are questions to the data's "
        "steward; what stands below each is the safe answer. docs/policy.md says what every key means. When they are "
        "decided: dpsql check --steward"
    )
    if draft.looked:
        yield "#"
        yield from _comment(
            "WARNING: rows were read (--steward). Numbers and values below that were read off the data are covered by "
            "no ε, and whoever reads this file learns them: each is the steward's to justify, or to replace by what is "
            "known without the data."
        )
    yield ""


def _budget(draft: Draft) -> Iterator[str]:
    yield "[budget]"
    yield from _ask(
        "How much may all answers together ever tell of one of the protected? With ε, whatever anybody thinks of one "
        "of them becomes likelier, or less likely, by a factor of at most e^ε. 1 is strict, 3 is usual, above 10 "
        "protects little."
    )
    yield f"epsilon = {draft.budget.total:f}"
    yield from _ask(
        "With which probability δ may that promise fail? Far below 1 / (how many are protected). Keys that aren't "
        "public (names, cities, …) are shown only with δ > 0; with 0, GROUP BY them is refused."
    )
    yield f"delta = {draft.delta}"
    budget = draft.budget
    yield from _comment(
        f"What a question spends when it names no ε. The total is enough for {budget.questions} of them, and for "
        f"{budget.after_learning} after dpsql learn --steward. A question may name a larger ε: its answer is better, "
        "and fewer follow."
    )
    yield f"query_epsilon = {budget.query:f}"
    yield from _comment(
        "No limits (max_rows, max_groups) are drafted: each query chooses its own, from noisy counts, so that no row "
        "decides them."
    )


def _table(table: TableDraft, public: set[str]) -> Iterator[str]:
    one, made = table.input, table.guess
    yield f"[tables.{_key(one.name)}]"
    yield f"source = {_text(one.source)}"
    if one.table is not None:
        yield f"table = {_text(one.table)}"
    if one.separator is not None:
        yield f"separator = {_text(one.separator)}"
    if made is None:
        yield "public = true  # as the steward said: everybody may see all of it"
        return
    yield from _unit(table, made)
    columns = list(_columns(table, made, public))
    if columns:
        yield from ("", f"[tables.{_key(one.name)}.columns]", *columns)


def _unit(table: TableDraft, made: Guess) -> Iterator[str]:
    name, unit = table.input.name, made.unit
    match unit:
        case RowUnit():
            yield from _row_unit(table, made)
        case ColumnUnit(column, domain):
            yield from _ask(
                f"Who is protected in {name}? All rows with one {column} together: {made.why}. If every row is "
                'somebody else\'s, write unit = "row".'
            )
            whole = f"{{ column = {_text(column)}" + (f", domain = {_text(domain)}" if domain else "") + " }"
            yield f"unit = {whole if domain or column.lower() == 'row' else _text(column)}"
        case LinkedUnit(through, on):
            pairs = ", ".join(f"{_key(here)} = {_text(there)}" for here, there in on)
            yield from _ask(f"Do the rows of {name} belong to those whom {through} names? {made.why}.")
            yield f"unit = {{ through = {_text(through)}, on = {{ {pairs} }} }}"
    for column, entity in table.unprotected:
        yield from _ask(
            f"{column} names people, too, and this draft does NOT protect them: what one {entity} did can show in "
            f"answers. Is that right? dpsql init --unit {entity} protects each {entity} instead."
        )
    if made.key is not None:
        yield from _comment(
            "Other tables find their owners by this key. That it is unique, dpsql check --steward verifies."
        )
        yield f"key = {_text(made.key)}"
    yield from _limit(table, unit)


def _row_unit(table: TableDraft, made: Guess) -> Iterator[str]:
    name = table.input.name
    if made.lookup is not None:
        yield from _ask(
            f"May everybody see all of {name}? Perhaps, as {made.lookup}: then write public = true in place of the "
            "unit. Until then each row is protected for itself, and other private tables can't be joined with it."
        )
    else:
        yield from _ask(
            f"Who is protected in {name}? Each row for itself, as {made.why}. If a column says whom a row belongs to, "
            'name it: unit = "person_id". If nobody is in it, write public = true instead.'
        )
    for column in made.repeating:
        yield from _ask(f"Does {column} name people? Its values repeat as ids do. If so: unit = {_text(column)}")
    yield 'unit = "row"'


def _limit(table: TableDraft, unit: object) -> Iterator[str]:
    if isinstance(unit, RowUnit):
        return
    if table.rows is None:
        yield from _ask("Has each of them one row at most? Then promise it, and answers get better:")
        yield "# rows_per_unit = 1"
    elif table.rows.most == 1:
        yield from _comment("Nobody was seen with two rows. That it stays so, dpsql check --steward verifies.")
        yield "rows_per_unit = 1"


# ---------------------------------------------------------------- columns


def _columns(table: TableDraft, made: Guess, public: set[str]) -> Iterator[str]:
    csv = table.input.kind == "csv"
    if csv and table.seen is None:
        yield from _ask(
            "What do the columns hold? A CSV file doesn't say: write INTEGER, DOUBLE, DATE, TIMESTAMP or BOOLEAN where "
            "it isn't text. `dpsql init --steward` reads the rows and proposes types. A column that isn't listed can't "
            "be used."
        )
    elif made.lookup is None and table.seen is not None:
        yield from _ask(
            "Would anybody know these ranges without the data? They hold 99.9% of the values or so, and were rounded "
            "outwards. What lies outside is clipped: dpsql check --steward says how much. nullable = false is a "
            "promise that it verifies."
        )
    elif made.lookup is None and any(Type.parse(text).is_numeric for _, text in table.input.columns):
        yield from _ask(
            'Which ranges are known? SUM and AVG need one. "auto" finds it privately, for a tenth of the first query '
            "that needs it; min and max cost nothing and are better: { min = 0, max = 120 }."
        )
    for name, text in table.input.columns:
        seen = table.seen.columns.get(name.lower()) if table.seen is not None else None
        type_ = seen.type if seen is not None else Type.parse(text)
        if not type_.is_key:
            yield from _comment(f"{name} is {text}: no query can use it")
            continue
        if name in table.input.folders:
            yield from _comment(f"{name} stands in the names of the files' folders, from which its type was taken.")
        yield from _column(table, made, _Column(name, type_, seen), public)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column to write. seen: None where nobody looked."""

    name: str
    type: Type
    seen: ColumnSeen | None

    @property
    def as_seen(self) -> ColumnSeen:
        """As rows show it, or as one that nobody looked at."""
        return self.seen if self.seen is not None else ColumnSeen(self.name, self.type, 0, 0, 0)


def _column(table: TableDraft, made: Guess, column: _Column, public: set[str]) -> Iterator[str]:
    name, seen = column.name, column.seen
    typed = table.input.kind == "csv" or name in table.input.folders
    facts = [f"type = {_text(column.type.sql)}"] if typed else []
    reference = (made.references or {}).get(name) if made.lookup is None else None
    is_public = reference is not None and reference[0] in public
    facts += _nullable(table, made, column, reference)
    if reference is not None and is_public:
        facts.append(f"references = {_text('.'.join(reference))}")
    elif table.has_range(column.as_seen):
        facts += _range(column.type, seen)
    if facts:
        yield f"{_key(name)} = {{ {', '.join(facts)} }}{_remark(table, column)}"
    rest = [fact for fact in facts if not fact.startswith(("min", "max", "bounds", "nullable"))]
    if reference is not None and not is_public:
        line = ", ".join([*rest, f"references = {_text('.'.join(reference))}"])
        yield f"# {_key(name)} = {{ {line} }}  # instead, if {_said(reference[0])} is public: its keys are, then"
    if seen is not None and table.may_list(seen) and not is_public:
        kept = [fact for fact in facts if not fact.startswith(("min", "max", "bounds"))]
        yield from _values(table, seen, kept)


def _nullable(table: TableDraft, made: Guess, column: _Column, reference: tuple[str, str] | None) -> Iterator[str]:
    """The promise that a column is never NULL, where rows show it and a query is better for it."""
    seen = column.seen
    if seen is None or seen.nulls or not seen.distinct or made.lookup is not None:
        return
    if isinstance(made.unit, ColumnUnit) and made.unit.column == column.name:
        yield "nullable = false"  # so no row is left out
        return
    if table.is_id(column.name):
        return
    if not column.type.is_text or reference is not None or seen.values is not None:
        yield "nullable = false"


def _remark(table: TableDraft, column: _Column) -> str:
    """What else is to be said of a column, behind its line."""
    if column.seen is None or not column.seen.missing:
        return ""
    unit = table.guess.unit if table.guess is not None else None
    is_unit = isinstance(unit, ColumnUnit) and unit.column == column.name
    what = "one more unit" if is_unit else "a text like any other" if column.type.is_text else "NULL"
    return f"  # NA and the like: {what}"


def _values(table: TableDraft, seen: ColumnSeen, kept: Sequence[str]) -> Iterator[str]:
    """A list of values to propose: only where each of them is held by many, and so tells of nobody."""
    if not seen.values or table.held.get(seen.name.lower(), 0) < MANY_UNITS:
        return
    facts = ", ".join([*kept, listed(seen.values)])
    yield from _ask(
        f"Would anybody know these {len(seen.values)} values of {seen.name} without the data? Then, in place of what "
        f"is said of {seen.name} above (every value is a public key, and needs no δ):"
    )
    yield f"# {_key(seen.name)} = {{ {facts} }}"


def _range(type_: Type, seen: ColumnSeen | None) -> list[str]:
    """What is said of a column's range: as seen, rounded outwards; to be found privately where nobody looked."""
    if seen is None:
        return ['bounds = "auto"'] if type_.is_numeric else []
    if seen.range is None:
        return []
    return [f"min = {_value(seen.range.low)}", f"max = {_value(seen.range.high)}"]


# ---------------------------------------------------------------- TOML


def listed(values: Sequence[Any]) -> str:
    """A column's values as a policy lists them."""
    return f"values = [{', '.join(_value(value) for value in values)}]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="seconds")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _said(text: str) -> str:
    """A name in a comment: on one line, and without what TOML forbids there."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
