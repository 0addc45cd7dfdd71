"""What there is to ask: the policy's tables, their columns, and those of a query, as tables for people and programs.

All of it follows from the policy, the schemas, verified promises and public tables: neighbours have the same. And every
aggregate and scalar function that is understood: for `dpsql functions`, the server and docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, assert_never

from dpsql.analyze.catalog import Catalog, column_of
from dpsql.analyze.domains import MAX_CELLS, Domain, declared
from dpsql.analyze.variables import KeyColumn
from dpsql.core.arrays import to_python
from dpsql.core.frozen import dataclass
from dpsql.explain.facts import Facts, as_dict
from dpsql.policy.model import ColumnUnit, LinkedUnit, RowUnit, Table
from dpsql.quote.model import Quote
from dpsql.sql.nested import parts

Arrow = Any

LONGEST = 16  # characters of public keys that are listed
ANYTHING = "anything: public"


def tables(catalog: Catalog) -> Arrow:
    """The tables, in the policy's order: who is protected in each, and the limits that it has of its own."""
    rows = []
    for name, table in catalog.policy.tables.items():
        limits = [f"{key} = {limit}" for key, limit in table.limits.items()]
        kind = "public" if table.public else "private"
        rows.append((table.name, kind, unit_text(table), len(catalog.schema[name]), ", ".join(limits)))
    return _arrow(("name", "kind", "unit", "columns", "limits"), rows)


def unit_text(table: Table) -> str:
    """Who is protected in a table; nothing for a public one."""
    match table.unit:
        case None:
            return ""
        case RowUnit():
            return "each row"
        case ColumnUnit(column, _):
            return column
        case LinkedUnit(through, on):
            return f"{', '.join(here for here, _ in on)} through {through}"
        case _:
            assert_never(table.unit)


# ---------------------------------------------------------------- a table's columns


def columns(name: str, catalog: Catalog) -> Arrow:
    """The columns of a table, parts of nested ones included: types, ranges or public keys, and what may be asked."""
    table = catalog.policy.tables[name]
    rows: list[tuple[str, ...]] = []
    for column, text in catalog.schema[name]:
        inner = parts(column, text)
        rows.append((column, _outside(text, bool(inner)), *_facts(table, column, text, catalog)))
        ask = ANYTHING if table.public else "nothing: nested"
        rows += [(path, _outside(kind, bool(parts(path, kind))), "YES", "", ask) for path, kind in inner]
    return _arrow(("column_name", "column_type", "null", "values", "ask"), rows)


def _outside(text: str, nested: bool) -> str:
    """A type; of a nested one the outside alone, as its parts are listed below it."""
    head, bracket, _ = text.partition("(")
    return f"{head}(…){text[text.rindex(')') + 1 :]}" if nested and bracket else text


def _facts(table: Table, name: str, text: str, catalog: Catalog) -> tuple[str, str, str]:
    """Whether a column can be NULL, which values are public of it, and what may be asked."""
    if table.public:
        return "YES", "", ANYTHING
    column = column_of(catalog, table, name, text, name)
    null = "YES" if column.scalar.range.nullable else "NO"
    if isinstance(table.unit, ColumnUnit) and table.unit.column.lower() == name.lower():
        return null, range_text(column), "unit: COUNT DISTINCT"
    found = None if _automatic(column) or not column.scalar.type.is_key else declared(column, catalog.public)
    shown = range_text(column) or ("" if found is None else keys_text(found))
    return null, shown, _asked(column, found, catalog)


def _automatic(column: KeyColumn) -> bool:
    """Has it automatic bounds? Then its range is that of a seed, which is no public fact of its values."""
    return column.policy is not None and column.policy.share is not None


def _asked(column: KeyColumn, found: Domain | None, catalog: Catalog) -> str:
    """Whether a query may group by it, and the aggregates that it is good for; COUNT is always one of them."""
    kind, known = column.scalar.type, column.scalar.range
    asked = []
    if not column.never_keys and found is not None and len(found.values) <= MAX_CELLS:
        asked.append("key")
    elif not column.never_keys and kind.is_key and catalog.policy.budget.delta:
        asked.append("key (selected)")  # privately, which takes some of δ
    if kind.is_numeric:
        asked.append("SUM, AVG, …" if known.is_finite else "SUM(CLIP(x, a, b))")
    elif kind.is_boolean:
        asked.append("COUNT_IF")
    elif (kind.is_date or kind.is_timestamp) and known.is_finite:
        asked.append("MIN, MAX, …")
    asked = asked or ["COUNT"]
    return ", ".join([*asked, "no key"] if column.never_keys else asked)


def keys_text(found: Domain) -> str:
    """Public keys: the first of a list, or how many there are of a public column."""
    values = [_written(value) for value in to_python(found.values) if value is not None]
    if not found.why.startswith(("values of ", "booleans")):
        return f"{found.why} ({len(values):,})"
    whole = ", ".join(values)
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 2].rstrip(', ')}… ({len(values):,})"


def range_text(column: KeyColumn) -> str:
    """A declared range, or that it is found privately."""
    low, high = column.scalar.range.low, column.scalar.range.high
    if _automatic(column):
        return "automatic range"
    if column.scalar.type.is_boolean or (low is None and high is None):
        return ""
    if low is None:
        return f"to {_written(high)}"
    return f"from {_written(low)}" if high is None else f"{_written(low)} to {_written(high)}"


def _written(value: object) -> str:
    """A public value, as short as it can be."""
    match value:
        case bool():
            return str(value).upper()
        case Fraction():
            return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
        case datetime():
            return value.isoformat(" ").removesuffix(" 00:00:00")
        case _:
            return str(value)


# ---------------------------------------------------------------- a query's columns


def outputs(quote: Quote) -> Arrow:
    """The columns that a query would have: types, where each comes from, and which values keys have."""
    facts = as_dict(quote)
    releases = {one["name"]: one for one in (*facts["releases"], *facts["responses"])}
    rows = [
        (one["name"], one["type"], _KINDS[one["kind"]], ", ".join(one["of"]), _values(one, releases))
        for one in facts["columns"]
    ]
    return _arrow(("column_name", "column_type", "kind", "made_of", "values"), rows)


_KINDS = {
    "public": "public",
    "key": "key",
    "aggregate": "noisy",
    "interval": "interval",
    "response": "randomised",
    "expression": "computed",
}


def _values(one: Facts, releases: Mapping[str, Facts]) -> str:
    if one["kind"] not in ("key", "aggregate"):
        return ""
    release, place = one["from"][0].split(".")
    if one["kind"] == "key":
        key = releases[release]["keys"][int(place[1:])]
        return "selected privately" if key["values"] is None else f"{key['values']:,}: {key['from']}"
    known = releases[release]["aggregates"][int(place[1:])].get("range")
    return "" if known is None else f"of {_number(known['low'])} to {_number(known['high'])}"


def _number(end: object) -> str:
    return f"{end:g}" if isinstance(end, float) else str(end)


def _arrow(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Arrow:
    import pyarrow as pa

    kinds = [pa.int64() if name == "columns" else pa.string() for name in names]
    return pa.table([pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)], names=list(names))


CHOSEN = (
    ("ORDER BY COUNT(*) DESC LIMIT k", "where only public keys leave, the winners are chosen, by SUM(x), too"),
    ("ARG_MAX(key, n), ARG_MIN(key, n)", "over SELECT key, COUNT(*) AS n … GROUP BY key: the same"),
)
GOOGLE_FORMS = (
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)", "options of the whole query, in its SQL"),
    ("SUM(x, contribution_bounds_per_row => (0, 100))", "each row's value is clipped; AVG, VAR… and STDDEV…, too"),
    ("SUM(x, contribution_bounds_per_group => (0, 500))", "what a unit adds to a group is clipped; COUNT, too"),
    (
        "DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)",
        "the 95% interval of COUNT(*) AS n, or of another aggregate; NULL is an end that isn't known",
    ),
)
ROWS = (
    ("RANDOMIZED_RESPONSE(x)", "x, or another of its public values; for BOOLEAN and columns with values"),
    ("RR_COUNT(r [, value])", "how many rows have the value, from randomised ones, without bias"),
    ("RR_FREQUENCY(r [, value])", "the share of rows that have it"),
)


@dataclass(frozen=True, slots=True)
class ScalarFacts:
    """What people are told of a scalar function: its names, and how it never fails."""

    spelled: str
    about: str
    total: str
    range: str

    def __str__(self) -> str:
        return f"{self.about} · {self.total} · range: {self.range}"


def aggregates() -> list[tuple[str, str]]:
    """How each aggregate of private rows is written, and what it is."""
    from dpsql.aggregates import FORMS, RECIPES

    known = [*RECIPES.values(), *(form for name, form in FORMS.items() if name not in RECIPES)]
    told = (form.description.partition(": ") for form in known if form.description)
    return [(forms, about) for forms, _, about in told]


def scalars() -> dict[str, list[ScalarFacts]]:
    """The scalar functions by their kinds."""
    from dpsql.sql.functions import FUNCTIONS

    kinds: dict[str, list[ScalarFacts]] = {}
    for one in FUNCTIONS:
        kinds.setdefault(one.kind, []).append(ScalarFacts(", ".join(one.names), one.about, one.total, one.range))
    return kinds


def listed() -> list[dict[str, str]]:
    """All of them, one after another: kind, form, about."""
    found = [("aggregate", *one) for one in (*aggregates(), *CHOSEN)]
    found += [("rows that leave one by one", *one) for one in ROWS]
    found += [("as Google and Snowflake write it", *one) for one in GOOGLE_FORMS]
    found += [(f"scalar: {kind}", one.spelled, str(one)) for kind, facts in scalars().items() for one in facts]
    return [{"kind": kind, "form": form, "about": about} for kind, form, about in found]
