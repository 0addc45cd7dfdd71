"""What the catalogs are made of: the policy's tables under numbers, their columns, keys and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import LinkedUnit, Policy
from dpsql.policy.model import Table as PolicyTable
from dpsql.server.postgres import types

DATABASE, SCHEMA, OWNER = "dpsql", "public", "dpsql"
_FIRST_TABLE, _FIRST_KEY = 16_384, 32_768  # numbers; those of Postgres' own are below

Schema = Sequence[Mapping[str, Any]]
"""What the core tells of the tables: their name, and of each column name, type, null, values and ask."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: its name and number, bytes of a value, category, as format_type shows it, and the number of its array."""

    name: str
    oid: int
    size: int
    category: str
    shown: str
    array: int


KINDS = (
    Kind("bool", types.BOOL, 1, "B", "boolean", 1000),
    Kind("bytea", types.BYTEA, -1, "U", "bytea", 1001),
    Kind("char", 18, 1, "Z", '"char"', 1002),
    Kind("name", 19, 64, "S", "name", 1003),
    Kind("int8", types.INT8, 8, "N", "bigint", 1016),
    Kind("int2", types.INT2, 2, "N", "smallint", 1005),
    Kind("int4", types.INT4, 4, "N", "integer", 1007),
    Kind("regproc", 24, 4, "N", "regproc", 1008),
    Kind("text", types.TEXT, -1, "S", "text", 1009),
    Kind("oid", types.OID, 4, "N", "oid", 1028),
    Kind("json", 114, -1, "U", "json", 199),
    Kind("float4", types.FLOAT4, 4, "N", "real", 1021),
    Kind("float8", types.FLOAT8, 8, "N", "double precision", 1022),
    Kind("unknown", types.UNKNOWN, -2, "X", "unknown", 0),
    Kind("bpchar", 1042, -1, "S", "character", 1014),
    Kind("varchar", types.VARCHAR, -1, "S", "character varying", 1015),
    Kind("date", types.DATE, 4, "D", "date", 1182),
    Kind("time", types.TIME, 8, "D", "time without time zone", 1183),
    Kind("timestamp", types.TIMESTAMP, 8, "D", "timestamp without time zone", 1115),
    Kind("timestamptz", types.TIMESTAMPTZ, 8, "D", "timestamp with time zone", 1185),
    Kind("interval", types.INTERVAL, 16, "T", "interval", 1187),
    Kind("numeric", types.NUMERIC, -1, "N", "numeric", 1231),
    Kind("uuid", types.UUID, 16, "U", "uuid", 2951),
    Kind("jsonb", 3802, -1, "U", "jsonb", 3807),
)
_BY_OID = {kind.oid: kind for kind in KINDS}
_OIDS = {
    "BOOLEAN": types.BOOL, "TINYINT": types.INT2, "UTINYINT": types.INT2, "SMALLINT": types.INT2,
    "USMALLINT": types.INT4, "INTEGER": types.INT4, "UINTEGER": types.INT8, "BIGINT": types.INT8,
    "UBIGINT": types.NUMERIC, "HUGEINT": types.NUMERIC, "DECIMAL": types.NUMERIC, "FLOAT": types.FLOAT4,
    "DOUBLE": types.FLOAT8, "DATE": types.DATE, "TIME": types.TIME, "INTERVAL": types.INTERVAL, "BLOB": types.BYTEA,
    "TIMESTAMP WITH TIME ZONE": types.TIMESTAMPTZ,
}  # fmt: skip


def oid_of(kind: str) -> tuple[int, int]:
    """The number and modifier under which a column of this SQL type is announced."""
    known = Type.parse(kind)
    if known.is_decimal:
        assert known.width is not None and known.scale is not None
        return types.NUMERIC, (known.width << 16 | known.scale) + 4
    if known.is_timestamp and not known.has_zone:
        return types.TIMESTAMP, -1
    return _OIDS.get(known.name, types.TEXT), -1


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its place from 1, what it is, and what the policy says of it."""

    number: int
    name: str
    kind: Kind
    modifier: int
    nullable: bool
    comment: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table under its number."""

    oid: int
    name: str
    comment: str
    columns: tuple[Column, ...]

    def numbers(self, names: Sequence[str]) -> list[int] | None:
        """The places of columns by name; None where one isn't there."""
        places = {column.name.lower(): column.number for column in self.columns}
        return [places[name.lower()] for name in names] if all(n.lower() in places for n in names) else None


@dataclass(frozen=True, slots=True)
class Key:
    """The columns by which the policy says rows differ; numbers of the constraint and of its index."""

    oid: int
    index: int
    table: Table
    numbers: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.table.name}_pkey"

    @property
    def shown(self) -> str:
        """The columns, as SQL writes them."""
        return ", ".join(map(quoted, names_of(self.table, self.numbers)))


@dataclass(frozen=True, slots=True)
class Link:
    """Columns that hold another table's: units are found through them, or their public keys are there."""

    oid: int
    table: Table
    numbers: tuple[int, ...]
    other: Table
    others: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.table.name}_{'_'.join(names_of(self.table, self.numbers))}_fkey"

    @property
    def shown(self) -> str:
        """As SQL writes it."""
        here = ", ".join(map(quoted, names_of(self.table, self.numbers)))
        there = ", ".join(map(quoted, names_of(self.other, self.others)))
        return f"FOREIGN KEY ({here}) REFERENCES {quoted(self.other.name)}({there})"


@dataclass(frozen=True, slots=True)
class Tables:
    """All of it, in the policy's order."""

    tables: tuple[Table, ...]
    keys: tuple[Key, ...]
    links: tuple[Link, ...]


def tables_of(schema: Schema, policy: Policy) -> Tables:
    """The policy's tables with what the core tells of them."""
    tables = tuple(_table(_FIRST_TABLE + i, one) for i, one in enumerate(schema))
    named = {table.name.lower(): table for table in tables}
    keys: list[Key] = []
    links: list[Link] = []
    for name, table in named.items():
        said = policy.tables[name]
        places = table.numbers(said.key or ())
        if places:
            keys.append(Key(_FIRST_KEY + 2 * len(keys), _FIRST_KEY + 2 * len(keys) + 1, table, tuple(places)))
        for here, there, others in _links(said):
            other = named.get(there.lower())
            ours, theirs = table.numbers(here), None if other is None else other.numbers(others)
            if other is not None and ours and theirs:
                links.append(Link(2 * _FIRST_KEY + len(links), table, tuple(ours), other, tuple(theirs)))
    return Tables(tables, tuple(keys), tuple(links))


def _table(oid: int, told: Mapping[str, Any]) -> Table:
    own: list[Mapping[str, Any]] = []
    for column in told["columns"]:  # parts of a nested one follow it, and aren't columns
        if not (own and str(column["name"]).startswith((f"{own[-1]['name']}.", f"{own[-1]['name']}["))):
            own.append(column)
    said = "public: ask anything, it is free"
    if told["kind"] != "public":
        said = f"private: answers are aggregates with noise; protected is {told['unit']}"
    return Table(oid, str(told["name"]), said, tuple(_column(n, column) for n, column in enumerate(own, 1)))


def _column(number: int, told: Mapping[str, Any]) -> Column:
    oid, modifier = oid_of(str(told["type"]))
    said = [str(told.get(fact) or "") for fact in ("values", "ask")]
    comment = "; ".join(one for one in said if one)
    return Column(number, str(told["name"]), _BY_OID[oid], modifier, told.get("null") != "NO", comment)


def _links(table: PolicyTable) -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """Columns here, the table there, its columns."""
    if isinstance(table.unit, LinkedUnit):
        yield tuple(h for h, _ in table.unit.on), table.unit.through, tuple(t for _, t in table.unit.on)
    for name, column in table.columns.items():
        if column.references is not None:
            yield (name,), column.references.table, (column.references.column,)


def names_of(table: Table, numbers: Sequence[int]) -> list[str]:
    """The names of columns by place."""
    return [table.columns[number - 1].name for number in numbers]


def quoted(name: str) -> str:
    """A name as Postgres shows it: in quotes where it needs them."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
