"""What the keys of a policy must keep together: those of one section, and those of several tables.

Each check gets a section whose keys were read, and notes every contradiction at the key that should give way.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.core.errors import nearest
from dpsql.policy.model import LIMITS, LinkedUnit, RowUnit, Table, is_catalog_name, source_kind
from dpsql.policy.reader import Section, is_number, key_path, show, sort_of
from dpsql.policy.settings import BackendSettings

# ---------------------------------------------------------------- one section


def budget(section: Section) -> None:
    """A query's ε within the total, a ledger that lasts, and δ for zcdp."""
    values = section.values
    query = values.get("query_epsilon")
    for key in ("epsilon", "max_query_epsilon"):
        if query is not None and key in values and query > values[key]:
            section.wrong("query_epsilon", f"is more than {section.at(key)}", hint=f"lower it, or raise {key}")
    if values.get("ledger") == ":memory:":
        hint = 'write ledger = "x.sqlite"'
        section.wrong("ledger", "must be a file: in memory, spending would be forgotten", hint=hint)
    is_pure = "delta" not in section.entries or values.get("delta") == 0
    if values.get("accountant") == "zcdp" and is_pure:
        section.wrong("accountant", "zcdp needs delta > 0: ρ means an ε only at some δ", hint="write delta = 1e-6")


def backend(section: Section) -> None:
    """Spark's keys with Spark, and with nothing else."""
    if section.values.get("kind") == "spark":
        if "url" not in section.entries:
            section.missing("url", hint='where Spark is: url = "sc://host:15002", or "local[4]" for one of its own')
        return
    for key in ("url", "skewed"):
        if key in section.entries:
            section.wrong(key, "is only for spark", hint='leave it out, or write kind = "spark"')


def column(section: Section) -> None:
    """A range that holds the values, and keys or a private range, not both."""
    _check_range(section)
    if isinstance(section.entries.get("references"), str) and "values" in section.entries:
        section.wrong("references", "the public keys come from values already", hint="leave out one of the two")
    if "bounds" not in section.entries:
        if "share" in section.entries:
            section.wrong("share", "is for automatic bounds", hint='write bounds = "auto" beside it, or leave it out')
        return
    for key in ("min", "max"):
        if key in section.entries:
            section.wrong("bounds", f"the range is automatic, or it has a {key}", hint="leave out one of the two")
    for key in ("values", "references"):
        if key in section.entries:
            section.wrong("bounds", f"a range can't be found for keys, and {key} makes keys", hint="leave bounds out")
    type = section.values.get("type")
    if type is not None and not is_number(type):
        section.wrong("bounds", f"{type} is no number: only numbers get automatic bounds", hint="write min and max")


def _check_range(section: Section) -> None:
    low, high, values = (section.values.get(key) for key in ("min", "max", "values"))
    # The values are of one sort already, so the first speaks for all.
    sorts = {sort_of(value) for value in (low, high, *(values or ())[:1]) if value is not None}
    if len(sorts) > 1:
        what = f"min, max and values mix {' and '.join(sorted(sorts))}"
        section.wrong("values" if values else "max", what, hint="write all of them in one type")
        return
    if low is not None and high is not None and low > high:
        section.wrong("min", f"{show(low)} is more than max, {show(high)}", hint="swap them")
        return
    for value in values or ():
        if (low is not None and value < low) or (high is not None and value > high):
            hint = "widen the range or drop the value"
            section.wrong("values", f"{show(value)} is outside of min and max", hint=hint)
            return


def table(section: Section) -> None:
    """A source, who is protected, and nothing that such a table can't have."""
    values = section.values
    source, public, unit = values.get("source"), values.get("public", False), values.get("unit")
    kind = source_kind(source) if source else None
    if kind == "duckdb" and "table" not in section.entries:
        section.missing("table", hint='which table of the DuckDB file: table = "main.orders"')
    if kind != "duckdb" and "table" in values:
        section.wrong("table", "is only for a .duckdb source", hint="leave it out")
    if kind != "csv" and "separator" in values:
        section.wrong("separator", "is only for CSV files", hint="leave it out")
    if public:
        _check_public(section)
    elif "unit" not in section.entries:
        hint = 'whom to protect: unit = "person_id", unit = "row", or public = true if nobody is in it'
        section.missing("unit", hint=hint)
    if "rows_per_unit" in values and isinstance(unit, RowUnit):
        section.wrong("rows_per_unit", "makes no sense where each row is its own unit", hint="leave it out")
    if kind == "csv" and not public:
        _check_typed(section)


def _check_public(section: Section) -> None:
    """Note what only a private table can have."""
    for key in ("unit", "rows_per_unit"):
        if key in section.entries:
            section.wrong(key, "a public table has no unit", hint=f"leave {key} out, or leave out public = true")
    for column in section.values.get("columns", {}).values():
        if column.private:
            what = "the table is public, so this protects nothing"
            section.note(section.at("columns", column.name, "private"), what, hint="leave out one of the two")
        if column.share is not None:
            what = "a public table needs no private range"
            section.note(section.at("columns", column.name, "bounds"), what, hint="leave it out")
    for key in LIMITS:
        if key in section.values:
            hint = f"leave {key} out, or leave out public = true"
            section.wrong(key, "a public table has no unit to limit", hint=hint)


def _check_typed(section: Section) -> None:
    """One mistake for all columns of a private CSV table that have no type."""
    written = section.entries.get("columns")
    names = [column.name for column in section.values.get("columns", {}).values()]
    columns = {name: written[name] for name in names} if isinstance(written, Mapping) else {}
    bare = [name for name, keys in columns.items() if isinstance(keys, Mapping) and keys.get("type") is None]
    if not bare:
        return
    where, what = section.at("columns", bare[0], "type"), "is missing"
    if len(bare) > 1:
        more = f" and {len(bare) - 12} more" if len(bare) > 12 else ""
        where, what = section.at("columns"), f"the types of {', '.join(bare[:12])}{more} are missing"
    hint = (
        'a CSV file has no types, and guessing depends on the rows: write type = "INTEGER" (or VARCHAR, DOUBLE, DATE, '
        f"…), or let `dpsql init {section.entries.get('source')} --steward` read the rows and propose them"
    )
    section.note(where, what, hint=hint, code="missing-key")


# ---------------------------------------------------------------- tables


def tables(top: Section, lent: Mapping[str, str] | None) -> None:
    """Note what contradicts other tables, the backend, and the objects from Python (lent: by lower-cased name)."""
    tables: Mapping[str, Table] = top.values.get("tables", {})
    backend = top.values.get("backend", BackendSettings())
    for lower, table in tables.items():
        _check_source(top, table, is_lent=lent is None or lower in lent, on_spark=backend.kind == "spark")
        _check_references(top, table, tables)
        _check_link(top, table, tables)
    for lower, name in (lent or {}).items():
        if lower not in tables:
            close = nearest(name, [table.name for table in tables.values()])
            hint = f"did you mean {close}?" if close else f"describe it in the policy: [{key_path('tables', name)}]"
            top.note(key_path("sources", name), "the policy has no such table", hint=hint)


def _check_source(top: Section, table: Table, *, is_lent: bool, on_spark: bool) -> None:
    tables = top.entries["tables"]
    written = tables[table.name] if isinstance(tables, Mapping) else None
    path = top.at("tables", table.name, "source")
    if isinstance(written, Mapping) and written.get("source") is None and not is_lent:
        hint = 'a file: source = "x.parquet"; or pass the table from Python: sources={...}'
        top.note(path, "is missing", hint=hint, code="missing-key")
    if table.source is None or source_kind(table.source) is not None:
        return
    if not is_catalog_name(table.source):
        hint = "end it in .parquet, .csv, .tsv or .duckdb"
    elif not on_spark:
        hint = 'end it in .parquet, .csv, .tsv or .duckdb; a table of Spark\'s catalog needs [backend] kind = "spark"'
    else:
        return
    top.note(path, f"{show(table.source)} is of no known kind", hint=hint)


def _find(name: str, tables: Mapping[str, Table]) -> tuple[Table | None, str]:
    """The table of this name, or the hint for when there is none."""
    close = nearest(name, [table.name for table in tables.values()])
    return tables.get(name.lower()), f"did you mean {close}?" if close else f"add [{key_path('tables', name)}]"


def _check_references(top: Section, table: Table, tables: Mapping[str, Table]) -> None:
    for column in table.columns.values():
        if (target := column.references) is None:
            continue
        path = top.at("tables", table.name, "columns", column.name, "references")
        there, hint = _find(target.table, tables)
        if there is None:
            top.note(path, f"there is no table {show(target.table)}", hint=hint)
        elif not there.public:
            hint = "keys come from public tables: give it public = true, or list the keys as values"
            top.note(path, f"{show(there.name)} is not a public table", hint=hint)


def _check_link(top: Section, table: Table, tables: Mapping[str, Table]) -> None:
    link = table.unit
    if not isinstance(link, LinkedUnit):
        return
    path = top.at("tables", table.name, "unit", "through")
    there, hint = _find(link.through, tables)
    if there is None:
        top.note(path, f"there is no table {show(link.through)}", hint=hint)
    elif there.public:
        top.note(path, f"{show(there.name)} is public: nobody owns its rows", hint="link to a table with a unit")
    elif isinstance(there.unit, RowUnit):
        hint = f"give {there.name} a unit column; links need one"
        top.note(path, f"each row of {show(there.name)} is its own unit", hint=hint)
    elif _in_a_cycle(table, tables):
        top.note(path, "the links go round in a circle", hint="one table of them needs a unit column")
    elif there.key is None:
        hint = f"name its unique columns: key = ... in [{key_path('tables', there.name)}]"
        top.note(path, f"{show(there.name)} has no key", hint=hint)
    elif sorted(far.lower() for _, far in link.on) != sorted(name.lower() for name in there.key):
        what = f"must point to the whole key of {show(there.name)}"
        top.note(top.at("tables", table.name, "unit", "on"), what, hint=f"each key column once: {', '.join(there.key)}")


def _in_a_cycle(table: Table, tables: Mapping[str, Table]) -> bool:
    step: Table | None = table
    for _ in tables:
        if step is None or not isinstance(step.unit, LinkedUnit):
            return False
        step = tables.get(step.unit.through.lower())
        if step is table:
            return True
    return False  # it leads into a circle of others, which is reported there
