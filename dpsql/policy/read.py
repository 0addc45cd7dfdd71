"""Reading a policy: each key has one place here; every mistake is noted, and all are reported at once.

section.py hands out the keys of a section; values.py says what a written type or value means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpsql.core import STEWARD
from dpsql.core.errors import PolicyError, nearest
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.policy.keys import (
    ACCOUNTANTS,
    ADJACENCIES,
    ANCHOR,
    BACKEND,
    BACKENDS,
    BUDGET,
    COLUMN,
    DATA,
    ENGINE,
    LIMITS,
    ON_CHANGE,
    POLICY,
    PRIVACY,
    RENEWALS,
    TABLE,
    UNIT_COLUMN,
    UNIT_LINK,
    UNTESTED,
)
from dpsql.policy.model import (
    SEPARATORS,
    Budget,
    Column,
    ColumnUnit,
    LinkedUnit,
    Policy,
    Privacy,
    Reference,
    RowUnit,
    Table,
    Unit,
    is_catalog_name,
    source_kind,
)
from dpsql.policy.reader import (
    Bound,
    Section,
    Unfit,
    Value,
    column_type,
    is_number,
    key_path,
    parse_delta,
    parse_epsilon,
    read_bound,
    read_keys_share,
    read_share,
    read_share_or_none,
    read_values,
    show,
    sort_of,
)
from dpsql.policy.settings import READERS, BackendKind, BackendSettings, EngineSettings, read_url

DEFAULT_SHARE = Fraction(1, 10)


def read(policy: object, *, path: Path | None, base: Path | None, sources: Iterable[str] | None) -> Policy:
    """The policy, or one PolicyError with all its mistakes."""
    mistakes: list[PolicyError] = []
    top = Section("", policy, mistakes, POLICY.names)
    if not top.readable:
        raise _all(mistakes)
    budget = _budget(top)
    privacy = _privacy(top)
    engine, backend = read_engine(top), read_backend(top)
    on_change = top.section("data", DATA.names).choice("on_change", ON_CHANGE)
    lent = None if sources is None else {name.lower(): name for name in sources}
    tables = _tables(top, lent, backend.kind)
    for lower, name in (lent or {}).items():
        if lower not in tables:
            close = nearest(name, [table.name for table in tables.values()])
            hint = f"did you mean {close}?" if close else f"describe it in the policy: [{key_path('tables', name)}]"
            top.note(key_path("sources", name), "the policy has no such table", hint=hint)
    if mistakes:
        raise _all(mistakes)
    return Policy(budget, privacy, MappingProxyType(tables), path, base, engine, backend, on_change)


def _all(mistakes: list[PolicyError]) -> PolicyError:
    if len(mistakes) == 1:
        return mistakes[0]
    hints = [f"{mistake.message.split(': ')[0]}: {mistake.hint}" for mistake in mistakes if mistake.hint]
    return PolicyError(
        "\n".join(mistake.message for mistake in mistakes), code=mistakes[0].code, hint="\n".join(hints) or None
    )


def _budget(top: Section) -> Budget:
    section = top.section("budget", BUDGET.names, later=("share",))
    if "epsilon" not in section.entries:
        section.missing("epsilon", hint="the total that may ever be spent: [budget] epsilon = 3")
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
    delta = section.parsed("delta", parse_delta) if "delta" in section.entries else Fraction(0)
    accountant = section.choice("accountant", ACCOUNTANTS)
    if accountant == "zcdp" and delta == 0:
        section.wrong("accountant", "zcdp needs delta > 0: ρ means an ε only at some δ", hint="write delta = 1e-6")
    return Budget(
        epsilon=epsilon or Fraction(0),
        delta=delta or Fraction(0),
        query_epsilon=query,
        max_query_epsilon=most,
        accountant=accountant,
        ledger=ledger,
        analysts=_analysts(section, epsilon),
        renew=section.choice("renew", RENEWALS),
        anchor=_anchor(section),
        must_exist=section.flag("must_exist", False),
    )


def _anchor(budget: Section) -> str | tuple[str, ...] | None:
    """A file's path, or a program with its arguments; None where there is no anchor."""
    written = budget.entries.get("anchor")
    if not isinstance(written, Mapping):
        return budget.text("anchor")
    section = budget.section("anchor", ANCHOR.names)
    command = section.entries.get("command")
    words = command if isinstance(command, list | tuple) else []
    if words and words[0] and all(isinstance(word, str) and "\0" not in word for word in words):
        return tuple(words)
    if command is not None or not written:  # otherwise an unknown key was noted
        hint = 'anchor = "path", or anchor = { command = ["program", "argument"] }'
        section.wrong("command", "must be a list of texts: a program and its arguments", hint=hint)
    return None


def _analysts(budget: Section, epsilon: Fraction | None) -> Mapping[str, Fraction]:
    """Each analyst's quota; "*" is everybody's who isn't listed, together."""
    section = budget.section("analysts")
    quotas: dict[str, Fraction] = {}
    for name in section.entries:
        quota = section.parsed(name, parse_epsilon)
        if name.strip() == STEWARD:
            section.wrong(name, "is the steward's own name in the ledger", hint="no analyst has it: choose another one")
        if quota is not None and epsilon is not None and quota > epsilon:
            section.wrong(name, f"is more than {budget.at('epsilon')}", hint="a quota is a part of the total")
        if quota is not None:
            quotas[name] = quota
    return MappingProxyType(quotas)


def _privacy(top: Section) -> Privacy:
    section = top.section("privacy", PRIVACY.names)
    share = section.attempt("limits_share", read_share_or_none)
    return Privacy(
        adjacency=section.choice("adjacency", ADJACENCIES),
        max_rows=section.limit("max_rows"),
        max_rows_per_group=section.limit("max_rows_per_group"),
        max_groups=section.limit("max_groups"),
        min_units=section.count("min_units"),
        limits_share=share,
        keys_share=section.attempt("keys_share", read_keys_share),
        mechanism=section.choice("mechanism", ASKED_FOR),
    )


def read_engine(top: Section) -> EngineSettings:
    """The settings of a policy; what it doesn't name has its default."""
    section = top.section("engine", ENGINE.names)
    found = {key: section.attempt(key, parse) for key, (parse, _) in READERS.items() if key in section.entries}
    given: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    return EngineSettings(**given, untested=section.choice("untested", UNTESTED))


def read_backend(top: Section) -> BackendSettings:
    """Which engine reads private rows; DuckDB where the policy doesn't say."""
    section = top.section("backend", BACKEND.names)
    kind, url = section.choice("kind", BACKENDS), section.attempt("url", read_url)
    if kind == "spark" and "url" not in section.entries:
        section.missing("url", hint='where Spark is: url = "sc://host:15002", or "local[4]" for one of its own')
    if kind == "duckdb" and "url" in section.entries:
        section.wrong("url", "is only for spark", hint='leave it out, or write kind = "spark"')
    if kind == "duckdb" and "skewed" in section.entries:
        section.wrong("skewed", "is only for spark", hint='leave it out, or write kind = "spark"')
    return BackendSettings(kind, url, section.flag("skewed", False))


def from_environment(settings: EngineSettings, environment: Mapping[str, str]) -> EngineSettings:
    """The settings with those replaced that the environment names (DPSQL_ENGINE_…)."""
    found: dict[str, Any] = {}
    for key, (parse, example) in READERS.items():
        name = f"DPSQL_ENGINE_{key.upper()}"
        if not (text := environment.get(name)):
            continue
        try:
            found[key] = parse(text)
        except Unfit as unfit:
            hint = f"for instance {name}={example}, or unset it"
            raise PolicyError(f"{name}: {unfit.what}", code="bad-value", hint=hint) from None
    if "folder" in found:
        found["folder"] = found["folder"].absolute()
    return replace(settings, **found) if found else settings


def _tables(top: Section, lent: Mapping[str, str] | None, backend: BackendKind) -> dict[str, Table]:
    section = top.section("tables")
    if section.readable and not section.entries:
        top.missing("tables", hint='name the data: [tables.people] source = "people.parquet", unit = "person_id"')
    found = section.sections(TABLE.names, later=("share",))
    tables = {
        lower: _table(name, part, lent is None or lower in lent, backend) for lower, (name, part) in found.items()
    }
    for lower, (_, part) in found.items():
        _check_references(part, tables[lower], tables)
        _check_link(part, tables[lower], tables)
    return tables


def _table(name: str, section: Section, lent: bool, backend: BackendKind) -> Table:
    source, inner, public = section.text("source"), section.text("table"), section.flag("public", False)
    if "source" not in section.entries and not lent:
        section.missing("source", hint='a file: source = "x.parquet"; or pass the table from Python: sources={...}')
    kind = source_kind(source) if source else None
    if source and kind is None and not (backend == "spark" and is_catalog_name(source)):
        hint = "end it in .parquet, .csv, .tsv or .duckdb"
        if is_catalog_name(source):
            hint += '; a table of Spark\'s catalog needs [backend] kind = "spark"'
        section.wrong("source", f"{show(source)} is of no known kind", hint=hint)
    if kind == "duckdb" and "table" not in section.entries:
        section.missing("table", hint='which table of the DuckDB file: table = "main.orders"')
    if kind != "duckdb" and inner:
        section.wrong("table", "is only for a .duckdb source", hint="leave it out")
    separator = section.choice("separator", SEPARATORS) if "separator" in section.entries else None
    if separator is not None and kind != "csv":
        section.wrong("separator", "is only for CSV files", hint="leave it out")
    unit = _unit(section, public)
    rows = section.count("rows_per_unit")
    if rows is not None and isinstance(unit, RowUnit):
        section.wrong("rows_per_unit", "makes no sense where each row is its own unit", hint="leave it out")
    columns = _columns(section, public=public, csv=kind == "csv")
    limits = {key: limit for key in LIMITS if (limit := section.limit(key)) is not None}
    for key in limits if public else ():
        section.wrong(key, "a public table has no unit to limit", hint=f"leave {key} out, or leave out public = true")
    return Table(
        name,
        source,
        inner,
        public,
        unit,
        rows,
        section.names("key"),
        MappingProxyType(columns),
        MappingProxyType(limits),
        separator,
    )


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
        part = section.section("unit", (*UNIT_COLUMN.names, *UNIT_LINK.names))
        if "on" in part.entries:
            part.missing("through", hint='the table that knows the owner: through = "orders"')
        elif "column" not in part.entries:
            part.missing("column", hint='unit = { column = "person_id" }')
        column, domain = part.text("column"), part.text("domain")
        return None if column is None else ColumnUnit(column, (domain or "").lower())
    part = section.section("unit", UNIT_LINK.names)
    through, on = part.text("through"), part.section("on")
    if on.readable and not on.entries:
        part.missing("on", hint='columns here = columns of its key: on = { order_id = "id" }')
    pairs = [(here, there) for here in on.entries if (there := on.text(here)) is not None]
    if len({here.lower() for here in on.entries}) < len(on.entries):
        part.wrong("on", "names a column twice", hint="names are case-insensitive; name each column once")
    return None if through is None or not pairs or len(pairs) < len(on.entries) else LinkedUnit(through, tuple(pairs))


def _columns(section: Section, *, public: bool, csv: bool) -> dict[str, Column]:
    parts = section.section("columns").sections(COLUMN.names, later=())
    columns = {lower: _column(name, part) for lower, (name, part) in parts.items()}
    if csv and not public:
        _check_typed(section, parts)
    for lower, (_, part) in parts.items():
        if public and columns[lower].private:
            part.wrong("private", "the table is public, so this protects nothing", hint="leave out one of the two")
        if public and columns[lower].share is not None:
            part.wrong("bounds", "a public table needs no private range", hint="leave it out")
    return columns


def _check_typed(table: Section, columns: Mapping[str, tuple[str, Section]]) -> None:
    """One mistake for all columns of a private CSV table that have no type."""
    bare = [part for _, part in columns.values() if part.readable and "type" not in part.entries]
    if not bare:
        return
    source = table.entries.get("source")
    where, what = bare[0].at("type"), "is missing"
    if len(bare) > 1:
        more = f" and {len(bare) - 12} more" if len(bare) > 12 else ""
        names = ", ".join(name for name, part in columns.values() if part in bare[:12])
        where, what = table.at("columns"), f"the types of {names}{more} are missing"
    hint = (
        'a CSV file has no types, and guessing depends on the rows: write type = "INTEGER" (or VARCHAR, DOUBLE, DATE, '
        f"…), or let `dpsql init {source} --steward` read the rows and propose them"
    )
    table.note(where, what, hint=hint, code="missing-key")


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
    return Column(name, type, low, high, values, references, private, nullable, _share(section, type))


def _share(section: Section, type: str | None) -> Fraction | None:
    """What automatic bounds may take of a query; None where the column has none."""
    if "bounds" not in section.entries:
        if "share" in section.entries:
            section.wrong("share", "is for automatic bounds", hint='write bounds = "auto" beside it, or leave it out')
        return None
    section.choice("bounds", ("auto",))
    for key in ("min", "max"):
        if key in section.entries:
            section.wrong("bounds", f"the range is automatic, or it has a {key}", hint="leave out one of the two")
    for key in ("values", "references"):
        if key in section.entries:
            section.wrong("bounds", f"a range can't be found for keys, and {key} makes keys", hint="leave bounds out")
    if type is not None and not is_number(type):
        section.wrong("bounds", f"{type} is no number: only numbers get automatic bounds", hint="write min and max")
    share = section.attempt("share", read_share)
    return DEFAULT_SHARE if share is None else share


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
