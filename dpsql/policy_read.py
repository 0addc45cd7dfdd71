"""Reading a policy: each key has one place here; every mistake is noted, and all are reported at once.

First the sections of the file and their keys, then column types and what a written value means in one.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from dpsql.errors import PolicyError, nearest
from dpsql.policy import (
    Accountant,
    Adjacency,
    Bound,
    Budget,
    Column,
    ColumnUnit,
    LinkedUnit,
    Mechanism,
    Policy,
    Privacy,
    Reference,
    RowUnit,
    Table,
    Unit,
    Value,
    exact_decimal,
    parse_delta,
    parse_epsilon,
    show,
    source_kind,
)

ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "zcdp")
MECHANISMS: tuple[Mechanism, ...] = ("auto", "laplace", "gaussian")
LARGEST_LIMIT = 2**40  # rows that the grid's overflow bound allows for

Choice = TypeVar("Choice", bound=str)
Parsed = TypeVar("Parsed")


def key_path(*keys: str) -> str:
    """The keys as TOML would join them, on one line."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)


class Section:
    """One table of the file: hands out values of the right type and notes what is wrong with the others."""

    def __init__(
        self,
        path: str,
        value: object,
        mistakes: list[PolicyError],
        known: tuple[str, ...] | None = None,
        later: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.mistakes = mistakes
        self.entries: dict[str, object] = {}
        self.readable = isinstance(value, Mapping)
        if not isinstance(value, Mapping):
            self.note(
                path or "the policy", f"must be a table, not {show(value)}", hint="put its keys in a section of its own"
            )
            return
        for key, entry in value.items():
            if not isinstance(key, str) or not key or "\0" in key:
                self.note(
                    path or "the policy", f"{show(key)} can't be a name", hint="use a text without NUL characters"
                )
            elif entry is None:
                self.wrong(key, "must not be None", hint="leave it out")
            elif key in later:
                self.wrong(key, "is not supported by this version", hint="leave it out", code="not-yet")
            elif known is not None and key not in known:
                close = nearest(key, known)
                hint = f"did you mean {close}?" if close else f"known keys: {', '.join(known)}"
                self.wrong(key, "unknown key", hint=hint, code="unknown-key")
            else:
                self.entries[key] = entry

    def at(self, *keys: str) -> str:
        """The key path of something in this section."""
        return f"{self.path}.{key_path(*keys)}" if self.path else key_path(*keys)

    def note(self, path: str, what: str, *, hint: str | None, code: str = "bad-value") -> None:
        self.mistakes.append(PolicyError(f"{path}: {what}", code=code, hint=hint))

    def wrong(self, key: str, what: str, *, hint: str | None = None, code: str = "bad-value") -> None:
        self.note(self.at(key), what, hint=hint, code=code)

    def missing(self, key: str, *, hint: str) -> None:
        if self.readable:
            self.wrong(key, "is missing", hint=hint, code="missing-key")

    def section(self, key: str, known: tuple[str, ...] | None = None, later: tuple[str, ...] = ()) -> Section:
        """A table in this one; empty if it isn't there."""
        return Section(self.at(key), self.entries.get(key, {}), self.mistakes, known, later)

    def text(self, key: str) -> str | None:
        value = self.entries.get(key)
        if value is None or self._is_name(key, value):
            return value if isinstance(value, str) else None
        return None

    def _is_name(self, key: str, value: object) -> bool:
        if isinstance(value, str) and value and "\0" not in value:
            return True
        self.wrong(key, f"must be a non-empty text, not {show(value)}", hint=f'write {key} = "..."')
        return False

    def names(self, key: str) -> tuple[str, ...] | None:
        """One name or a list of different ones."""
        value = self.entries.get(key)
        if value is None:
            return None
        names = list(value) if isinstance(value, list | tuple) else [value]
        if not names:
            self.wrong(key, "must not be empty", hint=f'name a column, or several: {key} = ["a", "b"]')
        found = tuple(name for name in names if self._is_name(key, name) and isinstance(name, str))
        if len({name.lower() for name in found}) < len(found):
            self.wrong(key, "names a column twice", hint="names are case-insensitive; name each column once")
        return found

    def flag(self, key: str, default: bool) -> bool:
        value = self.entries.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong(key, f"must be true or false, not {show(value)}", hint=f"write {key} = {str(not default).lower()}")
        return default

    def count(self, key: str) -> int | None:
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_LIMIT:
            return value
        self.wrong(key, f"must be a whole number from 1 to 2^40, not {show(value)}", hint=f"write {key} = 1 or more")
        return None

    def choice(self, key: str, options: tuple[Choice, ...]) -> Choice:
        """One of the options; the first if nothing is said."""
        value = self.entries.get(key, options[0])
        for option in options:
            if isinstance(value, str) and value == option:
                return option
        close = nearest(value, options) if isinstance(value, str) else None
        hint = f'did you mean "{close}"?' if close else f"write one of: {', '.join(map(show, options))}"
        self.wrong(key, f"must be one of {', '.join(map(show, options))}, not {show(value)}", hint=hint)
        return options[0]

    def parsed(self, key: str, parse: Callable[..., Fraction]) -> Fraction | None:
        """ε or δ."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            self.wrong(key, f"must be a number, not the text {show(value)}", hint="write the number without quotes")
            return None
        try:
            return parse(value, where=self.at(key))
        except PolicyError as mistake:
            self.mistakes.append(mistake)
            return None

    def attempt(self, key: str, parse: Callable[[object], Parsed]) -> Parsed | None:
        """What `parse` makes of the value; a value that it finds unfit is noted."""
        if key not in self.entries:
            return None
        try:
            return parse(self.entries[key])
        except Unfit as unfit:
            self.wrong(key, unfit.what, hint=unfit.hint)
            return None

    def sections(self, known: tuple[str, ...], later: tuple[str, ...]) -> dict[str, tuple[str, Section]]:
        """The tables in this one by lower-cased name, each with its spelling."""
        found: dict[str, tuple[str, Section]] = {}
        for name in self.entries:
            if name.lower() in found:
                first = found[name.lower()][0]
                self.wrong(
                    name, f"differs from {show(first)} only in case", hint="names are case-insensitive; keep one"
                )
            else:
                found[name.lower()] = name, self.section(name, known, later)
        return found


def read(policy: object, *, path: Path | None, base: Path | None, sources: Iterable[str] | None) -> Policy:
    """The policy, or one PolicyError with all its mistakes."""
    mistakes: list[PolicyError] = []
    top = Section("", policy, mistakes, ("budget", "privacy", "tables"))
    if not top.readable:
        raise _all(mistakes)
    budget = _budget(top)
    privacy = _privacy(top)
    lent = None if sources is None else {name.lower(): name for name in sources}
    tables = _tables(top, lent)
    for lower, name in (lent or {}).items():
        if lower not in tables:
            close = nearest(name, [table.name for table in tables.values()])
            hint = f"did you mean {close}?" if close else f"describe it in the policy: [{key_path('tables', name)}]"
            top.note(key_path("sources", name), "the policy has no such table", hint=hint)
    if mistakes:
        raise _all(mistakes)
    return Policy(budget, privacy, MappingProxyType(tables), path, base)


def _all(mistakes: list[PolicyError]) -> PolicyError:
    if len(mistakes) == 1:
        return mistakes[0]
    hints = [f"{mistake.message.split(': ')[0]}: {mistake.hint}" for mistake in mistakes if mistake.hint]
    return PolicyError(
        "\n".join(mistake.message for mistake in mistakes), code=mistakes[0].code, hint="\n".join(hints) or None
    )


def _budget(top: Section) -> Budget:
    keys = ("epsilon", "delta", "query_epsilon", "max_query_epsilon", "accountant", "ledger")
    section = top.section("budget", keys, later=("analysts", "renew", "share"))
    for key, hint in (
        ("epsilon", "the total that may ever be spent: [budget] epsilon = 3"),
        ("delta", "[budget] delta = 1e-6, or 0 for pure DP"),
    ):
        if key not in section.entries:
            section.missing(key, hint=hint)
    epsilon = section.parsed("epsilon", parse_epsilon)
    query, most = section.parsed("query_epsilon", parse_epsilon), section.parsed("max_query_epsilon", parse_epsilon)
    for key, limit in (("epsilon", epsilon), ("max_query_epsilon", most)):
        if query is not None and limit is not None and query > limit:
            section.wrong("query_epsilon", f"is more than {section.at(key)}", hint=f"lower it, or raise {key}")
    ledger = section.text("ledger")
    if ledger == ":memory:":
        section.wrong(
            "ledger", "must be a file: in memory, spending would be forgotten", hint='write ledger = "x.sqlite"'
        )
    return Budget(
        epsilon=epsilon or Fraction(0),
        delta=section.parsed("delta", parse_delta) or Fraction(0),
        query_epsilon=query,
        max_query_epsilon=most,
        accountant=section.choice("accountant", ACCOUNTANTS),
        ledger=ledger,
    )


def _privacy(top: Section) -> Privacy:
    limits = ("max_rows", "max_rows_per_group", "max_groups", "min_units")
    section = top.section("privacy", ("adjacency", *limits, "mechanism"))
    return Privacy(
        adjacency=section.choice("adjacency", ADJACENCIES),
        max_rows=section.count("max_rows"),
        max_rows_per_group=section.count("max_rows_per_group"),
        max_groups=section.count("max_groups"),
        min_units=section.count("min_units"),
        mechanism=section.choice("mechanism", MECHANISMS),
    )


def _tables(top: Section, lent: Mapping[str, str] | None) -> dict[str, Table]:
    section = top.section("tables")
    if section.readable and not section.entries:
        top.missing("tables", hint='name the data: [tables.people] source = "people.parquet", unit = "person_id"')
    keys = ("source", "table", "public", "unit", "rows_per_unit", "key", "columns")
    found = section.sections(keys, later=("share",))
    tables = {lower: _table(name, part, lent is None or lower in lent) for lower, (name, part) in found.items()}
    for lower, (_, part) in found.items():
        _check_references(part, tables[lower], tables)
        _check_link(part, tables[lower], tables)
    return tables


def _table(name: str, section: Section, lent: bool) -> Table:
    source, inner, public = section.text("source"), section.text("table"), section.flag("public", False)
    if "source" not in section.entries and not lent:
        section.missing("source", hint='a file: source = "x.parquet"; or pass the table from Python: sources={...}')
    kind = source_kind(source) if source else None
    if source and kind is None:
        section.wrong("source", f"{show(source)} is of no known kind", hint="end it in .parquet, .csv, .tsv or .duckdb")
    if kind == "duckdb" and "table" not in section.entries:
        section.missing("table", hint='which table of the DuckDB file: table = "main.orders"')
    if kind != "duckdb" and inner:
        section.wrong("table", "is only for a .duckdb source", hint="leave it out")
    unit = _unit(section, public)
    rows = section.count("rows_per_unit")
    if rows is not None and isinstance(unit, RowUnit):
        section.wrong("rows_per_unit", "makes no sense where each row is its own unit", hint="leave it out")
    columns = _columns(section, public=public, csv=kind == "csv")
    return Table(name, source, inner, public, unit, rows, section.names("key"), MappingProxyType(columns))


def _unit(section: Section, public: bool) -> Unit | None:
    if public:
        for key in ("unit", "rows_per_unit"):
            if key in section.entries:
                section.wrong(key, "a public table has no unit", hint=f"leave {key} out, or leave out public = true")
        return None
    written = section.entries.get("unit")
    if written is None:
        hint = 'whom to protect: unit = "person_id", unit = "row", or public = true if nobody is in it'
        section.missing("unit", hint=hint)
        return None
    if isinstance(written, str):
        name = section.text("unit")
        if name is not None and name != "row" and name.lower() == "row":
            hint = 'unit = "row" if each row is a unit, unit = { column = "row" } for a column of that name'
            section.wrong("unit", f"{show(name)} could mean two things", hint=hint)
        return None if name is None else RowUnit() if name == "row" else ColumnUnit(name)
    if not isinstance(written, Mapping):
        section.wrong("unit", f"must be a column's name, not {show(written)}", hint='unit = "person_id"')
        return None
    if "through" not in written:
        part = section.section("unit", ("column", "domain", "through", "on"))
        if "on" in part.entries:
            part.missing("through", hint='the table that knows the owner: through = "orders"')
        elif "column" not in part.entries:
            part.missing("column", hint='unit = { column = "person_id" }')
        column, domain = part.text("column"), part.text("domain")
        return None if column is None else ColumnUnit(column, (domain or "").lower())
    part = section.section("unit", ("through", "on"))
    through, on = part.text("through"), part.section("on")
    if on.readable and not on.entries:
        part.missing("on", hint='columns here = columns of its key: on = { order_id = "id" }')
    pairs = [(here, there) for here in on.entries if (there := on.text(here)) is not None]
    if len({here.lower() for here in on.entries}) < len(on.entries):
        part.wrong("on", "names a column twice", hint="names are case-insensitive; name each column once")
    return None if through is None or not pairs or len(pairs) < len(on.entries) else LinkedUnit(through, tuple(pairs))


def _columns(section: Section, *, public: bool, csv: bool) -> dict[str, Column]:
    keys = ("type", "min", "max", "values", "references", "private", "nullable")
    parts = section.section("columns").sections(keys, later=("bounds", "share"))
    columns = {lower: _column(name, part) for lower, (name, part) in parts.items()}
    for lower, (_, part) in parts.items():
        if csv and not public and "type" not in part.entries:
            part.missing("type", hint='a CSV file has no types, and guessing depends on the rows: type = "INTEGER"')
        if public and columns[lower].private:
            part.wrong("private", "the table is public, so this protects nothing", hint="leave out one of the two")
    return columns


def _column(name: str, section: Section) -> Column:
    written = section.text("type")
    type = None if written is None else section.attempt("type", lambda _: column_type(written))
    if type is None and "type" in section.entries:
        return Column(name)  # what the other keys mean hangs on the type
    low = section.attempt("min", lambda value: read_bound(value, type))
    high = section.attempt("max", lambda value: read_bound(value, type))
    values = section.attempt("values", lambda value: read_values(value, type))
    _check_range(section, low, high, values)
    references = None
    if (target := section.text("references")) is not None:
        table, _, column = target.rpartition(".")
        references = Reference(table, column)
        if not table or not column:
            section.wrong("references", f"{show(target)} is not table.column", hint='references = "nation.n_nationkey"')
        if "values" in section.entries:
            section.wrong("references", "the public keys come from values already", hint="leave out one of the two")
    private, nullable = section.flag("private", False), section.flag("nullable", True)
    return Column(name, type, low, high, values, references, private, nullable)


def _check_range(section: Section, low: Bound | None, high: Bound | None, values: tuple[Value, ...] | None) -> None:
    # The values are of one sort already, so the first speaks for all.
    sorts = {sort_of(value) for value in (low, high, *(values or ())[:1]) if value is not None}
    if len(sorts) > 1:
        key = "values" if values else "max"
        section.wrong(
            key, f"min, max and values mix {' and '.join(sorted(sorts))}", hint="write all of them in one type"
        )
        return
    if low is not None and high is not None and low > high:  # type: ignore[operator]  # of one sort, as just checked
        section.wrong("min", f"{show(low)} is more than max, {show(high)}", hint="swap them")
        return
    for value in values or ():
        below = low is not None and value < low  # type: ignore[operator]  # of one sort
        above = high is not None and value > high  # type: ignore[operator]  # of one sort
        if below or above:
            section.wrong(
                "values", f"{show(value)} is outside of min and max", hint="widen the range or drop the value"
            )
            return


def _find(name: str, tables: Mapping[str, Table]) -> tuple[Table | None, str]:
    """The table of this name, or the hint for when there is none."""
    close = nearest(name, [table.name for table in tables.values()])
    return tables.get(name.lower()), f"did you mean {close}?" if close else f"add [{key_path('tables', name)}]"


def _check_references(section: Section, table: Table, tables: Mapping[str, Table]) -> None:
    for column in table.columns.values():
        target = column.references
        if target is None or not target.table:
            continue
        path = section.at("columns", column.name, "references")
        there, hint = _find(target.table, tables)
        if there is None:
            section.note(path, f"there is no table {show(target.table)}", hint=hint)
        elif not there.public:
            hint = "keys come from public tables: give it public = true, or list the keys as values"
            section.note(path, f"{show(there.name)} is not a public table", hint=hint)


def _check_link(section: Section, table: Table, tables: Mapping[str, Table]) -> None:
    link = table.unit
    if not isinstance(link, LinkedUnit):
        return
    path = section.at("unit", "through")
    there, hint = _find(link.through, tables)
    if there is None:
        section.note(path, f"there is no table {show(link.through)}", hint=hint)
    elif there.public:
        section.note(path, f"{show(there.name)} is public: nobody owns its rows", hint="link to a table with a unit")
    elif isinstance(there.unit, RowUnit):
        hint = f"give {there.name} a unit column; links need one"
        section.note(path, f"each row of {show(there.name)} is its own unit", hint=hint)
    elif _in_a_cycle(table, tables):
        section.note(path, "the links go round in a circle", hint="one table of them needs a unit column")
    elif there.key is None:
        hint = f"name its unique columns: key = ... in [{key_path('tables', there.name)}]"
        section.note(path, f"{show(there.name)} has no key", hint=hint)
    elif sorted(far.lower() for _, far in link.on) != sorted(name.lower() for name in there.key):
        hint = f"each key column once: {', '.join(there.key)}"
        section.note(section.at("unit", "on"), f"must point to the whole key of {show(there.name)}", hint=hint)


def _in_a_cycle(table: Table, tables: Mapping[str, Table]) -> bool:
    step: Table | None = table
    for _ in tables:
        if step is None or not isinstance(step.unit, LinkedUnit):
            return False
        step = tables.get(step.unit.through.lower())
        if step is table:
            return True
    return False  # it leads into a circle of others, which is reported there


MOST_VALUES = 1_000_000

_ALIASES = {  # DuckDB's own name of each type, and the other names that it takes
    "BOOLEAN": ("BOOL", "LOGICAL"),
    "TINYINT": ("INT1",),
    "SMALLINT": ("INT2", "INT16", "SHORT"),
    "INTEGER": ("INT", "INT4", "INT32", "SIGNED"),
    "BIGINT": ("INT8", "INT64", "LONG"),
    "HUGEINT": ("INT128",),
    "UTINYINT": ("UINT8",),
    "USMALLINT": ("UINT16",),
    "UINTEGER": ("UINT32",),
    "UBIGINT": ("UINT64",),
    "UHUGEINT": ("UINT128",),
    "FLOAT": ("FLOAT4", "REAL"),
    "DOUBLE": ("FLOAT8", "DOUBLE PRECISION"),
    "VARCHAR": ("CHAR", "BPCHAR", "STRING", "TEXT", "NVARCHAR", "CHARACTER VARYING"),
    "UUID": ("GUID",),
    "DATE": (),
    "TIME": (),
    "TIME WITH TIME ZONE": ("TIMETZ",),
    "TIMESTAMP": ("DATETIME", "TIMESTAMP_US", "TIMESTAMP WITHOUT TIME ZONE"),
    "TIMESTAMP_S": (),
    "TIMESTAMP_MS": (),
    "TIMESTAMP_NS": (),
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMPTZ",),
    "INTERVAL": (),
}
TYPES = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}
INTEGERS = {  # the smallest and the largest value of each integer type
    **{t: (-(2 ** (b - 1)), 2 ** (b - 1) - 1)
       for t, b in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))},
    **{t: (0, 2**b - 1)
       for t, b in (("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64), ("UHUGEINT", 128))},
}  # fmt: skip
_TICKS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}  # microseconds


class Unfit(Exception):
    """A type or value that can't be used: what is wrong, and what to write instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def column_type(written: str) -> str:
    """DuckDB's own name of a scalar type."""
    text = re.sub(r"\s*([(),])\s*", r"\1", " ".join(written.upper().split()))
    if decimal := re.fullmatch(r"(?:DECIMAL|NUMERIC|DEC)(?:\((\d{1,2})(?:,(\d{1,2}))?\))?", text):
        width, scale = (int(decimal[1]), int(decimal[2] or 0)) if decimal[1] else (18, 3)
        if not (1 <= width <= 38 and scale <= width):
            raise Unfit(f"{show(written)} is no DECIMAL", "DECIMAL(width, scale): width 1 to 38, scale 0 to width")
        return f"DECIMAL({width},{scale})"
    word = re.sub(r"^(VARCHAR|CHAR|TEXT|STRING)\(\d+\)$", r"\1", text)
    if word in TYPES:
        return TYPES[word]
    if text.endswith("]") or re.match(r"(STRUCT|ROW|MAP|UNION|LIST|ARRAY|VARIANT)\b", text):
        raise Unfit(
            f"{show(written)} is a nested type, which has no range and no keys", "give the parts their own columns"
        )
    if re.match(r"(BLOB|BYTEA|BINARY|VARBINARY|BIT|BITSTRING|GEOMETRY)\b", text):
        raise Unfit(f"{show(written)} holds bytes, which have no range and no keys", "leave the column out")
    if re.match(r"(ENUM|JSON)\b", text):
        raise Unfit(f"{show(written)} can't be pinned", 'use type = "VARCHAR", with values = [...] for its keys')
    close = nearest(text, list(TYPES))
    raise Unfit(
        f"{show(written)} is no type", f"did you mean {close}?" if close else "say, INTEGER, DOUBLE, VARCHAR, DATE"
    )


def sort_of(value: Value | Bound) -> str:
    """Values of one sort can be compared with each other."""
    match value:
        case bool():
            return "true or false"
        case int() | Decimal():
            return "a number"
        case str():
            return "a text"
        case datetime():
            return "a timestamp"
        case date():
            return "a date"


def _sort_of_type(type: str) -> str | None:
    if type in INTEGERS or type in ("FLOAT", "DOUBLE") or type.startswith("DECIMAL"):
        return "a number"
    if type.startswith("TIMESTAMP"):
        return "a timestamp"
    return {"BOOLEAN": "true or false", "VARCHAR": "a text", "UUID": "a text", "DATE": "a date"}.get(type)


def read_bound(written: object, type: str | None) -> Bound:
    """A min or max: a number, a date or a timestamp."""
    value = _read(written, type)
    if isinstance(value, bool | str):
        hint = "write numbers, dates (2024-01-31) and timestamps (2024-01-31T12:00:00) without quotes"
        raise Unfit(f"must be a number, a date or a timestamp, not {show(written)}", hint)
    return Decimal(value) if isinstance(value, int) else value


def read_values(written: object, type: str | None) -> tuple[Value, ...]:
    """The public values of a column: of one sort, all different once they are stored in the column's type."""
    if not isinstance(written, list | tuple) or not written:
        raise Unfit(f"must be a list of at least one value, not {show(written)}", 'values = ["a", "b"]')
    if len(written) > MOST_VALUES:
        raise Unfit(f"has {len(written):,} values; at most 1,000,000 can be public keys", "leave values out")
    values = tuple(_fitted(_read(value, type), type) for value in written)
    sorts = sorted({sort_of(value) for value in values})
    if len(sorts) > 1:
        raise Unfit(f"mixes {' and '.join(sorts)}", "all values of a column are of one type")
    # Two equal keys would count one unit twice, and 0.1 equals 0.1000000001 once both are FLOATs.
    seen: set[Value | float] = set()
    for value in values:
        held = _rounded(value, type) if isinstance(value, int | Decimal) else value
        if held in seen:
            raise Unfit(f"has {show(value)} twice", "name each value once")
        seen.add(held)
    return values


def _rounded(value: int | Decimal, type: str | None) -> int | Decimal | float:
    if type not in ("FLOAT", "DOUBLE"):
        return value
    code = "<f" if type == "FLOAT" else "<d"
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        raise Unfit(f"{show(value)} doesn't fit in {type}", "correct the value or the type") from None


def _read(written: object, type: str | None) -> Value:
    """The value in the Python type that stands for its sort; texts are dates where the column's type says so."""
    value: Value
    wanted = None if type is None else _sort_of_type(type)
    if type is not None and wanted is None:
        raise Unfit(f"a column of type {type} can't have this", "leave it out")
    match written:
        case bool():
            value = written
        case str():
            value = _from_iso(written, wanted)
        case int() | float() | Decimal():
            number = exact_decimal(written)
            if number is None:
                raise Unfit(
                    f"{show(written)} is not a finite number that DuckDB can hold", "use one between -1e308 and 1e308"
                )
            value = int(written) if isinstance(written, int) else number
        case datetime():
            value = _in_utc(written)
        case date() if wanted == "a timestamp":
            value = datetime.combine(written, time())
        case date():
            value = written
        case _:
            raise Unfit(
                f"must be a number, a text, true or false, a date or a timestamp, not {show(written)}",
                "write a plain value",
            )
    if wanted is not None and sort_of(value) != wanted:
        raise Unfit(f"{show(written)} is {sort_of(value)}, and the column's type is {type}", f"write {wanted}")
    return value


def _from_iso(written: str, wanted: str | None) -> Value:
    try:
        if wanted == "a date":
            return date.fromisoformat(written)
        if wanted == "a timestamp":
            return _in_utc(datetime.fromisoformat(written))
    except ValueError:
        raise Unfit(f"{show(written)} is not {wanted}", "write 2024-01-31, or 2024-01-31T12:00:00") from None
    return written


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise Unfit(f"{show(moment)} is no timestamp in UTC", "use a year from 1 to 9999") from None


def _fitted(value: Value, type: str | None) -> Value:
    """The value as a column of this type holds it; one that it can't hold would be a key that no row ever has."""
    unfit = Unfit(f"{show(value)} doesn't fit in {type}", "correct the value or the type")
    if type in INTEGERS and isinstance(value, int | Decimal):
        low, high = INTEGERS[type]
        if value != int(value) or not low <= value <= high:
            raise unfit
        return int(value)
    if type is not None and type.startswith("DECIMAL") and isinstance(value, int | Decimal):
        width, scale = map(int, re.findall(r"\d+", type))
        scaled = Fraction(value) * 10**scale
        if scaled.denominator != 1 or abs(scaled) >= 10**width:
            raise unfit
    if isinstance(value, datetime) and value.microsecond % _TICKS.get(type or "", 1):
        raise unfit
    if type == "UUID" and isinstance(value, str):
        try:
            return str(UUID(value))
        except ValueError:
            raise unfit from None
    return value
