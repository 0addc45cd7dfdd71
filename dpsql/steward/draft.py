"""The text of a drafted policy: TOML with a question in a comment wherever the steward has to decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from textwrap import wrap
from typing import Any

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, RowUnit
from dpsql.steward.guess import Candidate, Guess, repeats_like_an_id
from dpsql.steward.inputs import Input
from dpsql.steward.rounding import outwards
from dpsql.steward.seen import ColumnSeen, TableSeen, UnitRows
from dpsql.steward.words import meaning, prefix_of

MAX_ROWS, MAX_GROUPS = 50, 10
"""Limits where nobody looked: a guess, and said to be one."""
ASK = "# ? "  # begins a question


@dataclass(frozen=True, slots=True)
class Limit:
    """How many rows units have, and the limit that is proposed for them."""

    rows: UnitRows
    max_rows: int


@dataclass(frozen=True, slots=True)
class TableDraft:
    """One table of the draft. guess: None where the steward made it public. seen, limit: None where nobody looked."""

    input: Input
    guess: Guess | None
    seen: TableSeen | None
    limit: Limit | None
    links: bool = False  # other tables find their owners here

    @property
    def units(self) -> int:
        """How many are protected, as far as anybody looked."""
        if self.guess is None or self.seen is None:
            return 0
        return self.seen.rows if self.limit is None else self.limit.rows.units


@dataclass(frozen=True, slots=True)
class Draft:
    """All that a draft says."""

    tables: tuple[TableDraft, ...]
    protected: Candidate | None
    epsilon: str
    query_epsilon: str
    delta: str
    looked: bool


def write(draft: Draft) -> str:
    """The whole file."""
    public = {one.input.name for one in draft.tables if one.guess is None}
    lines = [*_head(draft), *_budget(draft), *_privacy(draft)]
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
    yield f"epsilon = {draft.epsilon}"
    yield from _ask(
        "With which probability δ may that promise fail? Far below 1 / (how many are protected). Keys that aren't "
        "public (names, cities, …) are shown only with δ > 0; with 0, GROUP BY them is refused."
    )
    yield f"delta = {draft.delta}"
    yield f"query_epsilon = {draft.query_epsilon}  # what a query spends when it names no ε: ten of them are the total"


def _privacy(draft: Draft) -> Iterator[str]:
    units = [t for t in draft.tables if t.guess is not None and not isinstance(t.guess.unit, RowUnit)]
    if not units:
        return
    yield from ("", "[privacy]")
    general = [t.limit for t in units if t.limit is not None and t.links and t.limit.rows.most > 1]
    if general:
        names = " and ".join(t.input.name for t in units if t.limit in general)
        yield from _ask(f"For how many rows of {names} may one of the protected count? Of them {general[0].rows}.")
        yield f"max_rows = {max(limit.max_rows for limit in general)}"
    elif any(table.limit is None for table in units):
        yield from _ask(
            "For how many rows may one of the protected count in an answer? The more, the less is cut, and the more "
            "noise is needed. Left out, each query chooses for a share of its ε, and what was chosen stays."
        )
        yield f"# max_rows = {MAX_ROWS}"
    yield from _ask("In how many groups may one of them show up, where keys aren't public? Left out, queries choose.")
    yield f"# max_groups = {MAX_GROUPS}"


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
    for other in made.others:
        yield from _ask(f"{other} looks like an id, too: whom it names is not protected by this unit. Is that right?")
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
    if table.seen is not None:
        for c in table.seen.columns.values():
            if made.lookup is None and repeats_like_an_id(name, c.name, c.type, c.distinct, table.seen.rows):
                yield from _ask(f"Is {c.name} an id? It has {c.distinct:,} values in {table.seen.rows:,} rows.")
    yield 'unit = "row"'


def _limit(table: TableDraft, unit: object) -> Iterator[str]:
    if isinstance(unit, RowUnit):
        return
    if table.limit is None:
        yield from _ask("Has each of them one row at most? Then promise it, and answers get better:")
        yield "# rows_per_unit = 1"
    elif table.limit.rows.most == 1:
        yield from _comment("Nobody was seen with two rows. That it stays so, dpsql check --steward verifies.")
        yield "rows_per_unit = 1"
    elif not table.links:  # a limit of its own would hold for joins with the tables that link to it, too
        yield from _ask(
            f"For how many rows may one of them count? Of them {table.limit.rows}. What is beyond the limit is cut, "
            "and noise grows with it; for COUNT(*) this one is the least wrong."
        )
        yield f"max_rows = {table.limit.max_rows}"


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
            "Would anybody know these ranges without the data? They were seen, and rounded outwards. What lies outside "
            "is clipped. nullable = false is a promise that dpsql check --steward verifies."
        )
    elif made.lookup is None and any(Type.parse(text).is_numeric for _, text in table.input.columns):
        yield from _ask(
            'Which ranges are known? SUM and AVG need one. "auto" finds it privately, for a tenth of the first query '
            "that needs it; min and max cost nothing and are better: { min = 0, max = 120 }."
        )
    prefix = prefix_of([name for name, _ in table.input.columns])
    unit = made.unit.column if isinstance(made.unit, ColumnUnit) else None
    for name, text in table.input.columns:
        seen = table.seen.columns.get(name.lower()) if table.seen is not None else None
        type_ = seen.type if seen is not None else Type.parse(text)
        if not type_.is_key:
            yield from _comment(f"{name} is {text}: no query can use it")
            continue
        is_id = name == unit or meaning(name, table.input.name, prefix).is_id
        folder = name in table.input.folders
        if folder:
            yield from _comment(f"{name} stands in the names of the files' folders, from which its type was taken.")
        typed = csv or folder
        yield from _column(name, type_, seen, made, csv=typed, is_unit=name == unit, is_id=is_id, public=public)


def _column(
    name: str,
    type_: Type,
    seen: ColumnSeen | None,
    made: Guess,
    *,
    csv: bool,
    is_unit: bool,
    is_id: bool,
    public: set[str],
) -> Iterator[str]:
    facts = [f"type = {_text(type_.sql)}"] if csv else []
    said = []
    reference = (made.references or {}).get(name) if made.lookup is None else None
    keyed = not type_.is_text or reference is not None or (seen is not None and seen.values is not None)
    if seen is not None and not seen.nulls and keyed and not is_id and made.lookup is None:
        facts.append("nullable = false")
    if reference is not None and reference[0] in public:
        facts.append(f"references = {_text('.'.join(reference))}")
    elif not is_id and made.lookup is None:
        facts += _range(name, type_, seen)
    if seen is not None and seen.missing:
        what = "one more unit" if is_unit else "a text like any other" if type_.is_text else "NULL"
        said.append(f"{seen.missing:,} rows with NA or the like: {what}")
    if facts:
        yield f"{_key(name)} = {{ {', '.join(facts)} }}" + (f"  # {'; '.join(said)}" if said else "")
    rest = [fact for fact in facts if not fact.startswith(("min", "max", "bounds", "nullable"))]
    if reference is not None and reference[0] not in public:
        line = ", ".join([*rest, f"references = {_text('.'.join(reference))}"])
        yield f"# {_key(name)} = {{ {line} }}  # instead, if {_said(reference[0])} is public: its keys are, then"
    public_already = reference is not None and reference[0] in public
    if seen is not None and seen.values and type_.is_text and not (is_id or made.lookup or public_already):
        kept = [fact for fact in facts if not fact.startswith(("min", "max", "bounds"))]
        listed = ", ".join([*kept, f"values = [{', '.join(_value(v) for v in seen.values)}]"])
        yield from _ask(
            f"Would anybody know these {len(seen.values)} values of {name} without the data? Then, in place of what is "
            f"said of {name} above (every value is a public key, and needs no δ):"
        )
        yield f"# {_key(name)} = {{ {listed} }}"


def _range(name: str, type_: Type, seen: ColumnSeen | None) -> list[str]:
    """What is said of a column's range: as seen, rounded outwards; to be found privately where nobody looked."""
    if seen is None:
        return ['bounds = "auto"'] if type_.is_numeric else []
    if seen.low is None or seen.high is None:
        return []
    low, high = outwards(seen.low, seen.high, type_, name)
    return [f"min = {_value(low)}", f"max = {_value(high)}"]


# ---------------------------------------------------------------- TOML


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
