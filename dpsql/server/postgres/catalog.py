"""The catalogs that clients ask about tables and columns: what the policy says, in the shape of Postgres' own.

They are rows of an engine of its own that holds no row of any table, so that whatever is asked there is free and tells
nothing of the data. Rows are the same for all analysts: nobody's name, query or connection is among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsql.backends.choose import small_database
from dpsql.backends.small import Relation, SmallDatabase
from dpsql.core.types import Type
from dpsql.policy.model import LinkedUnit, Policy, Table
from dpsql.server.postgres import types
from dpsql.server.postgres.functions import FIRST_MACROS, MACROS, SYSTEM_OIDS
from dpsql.server.postgres.relations import INFORMATION_SCHEMA, PG_CATALOG
from dpsql.server.postgres.rewrite import INFO, PG

DATABASE, SCHEMA, OWNER = "dpsql", "public", "dpsql"
_OWNER, _PG_CATALOG, _PUBLIC, _INFORMATION, _DATABASE = 10, 11, 2200, 13000, 5
_FIRST = 16_384  # the number of the first table; those of Postgres' own are below
_HEAP, _BTREE = 2, 403
_KINDS = (
    # name, number, size, category, as format_type shows it
    ("bool", types.BOOL, 1, "B", "boolean"),
    ("bytea", types.BYTEA, -1, "U", "bytea"),
    ("char", 18, 1, "Z", '"char"'),
    ("name", 19, 64, "S", "name"),
    ("int8", types.INT8, 8, "N", "bigint"),
    ("int2", types.INT2, 2, "N", "smallint"),
    ("int4", types.INT4, 4, "N", "integer"),
    ("regproc", 24, 4, "N", "regproc"),
    ("text", types.TEXT, -1, "S", "text"),
    ("oid", types.OID, 4, "N", "oid"),
    ("json", 114, -1, "U", "json"),
    ("float4", types.FLOAT4, 4, "N", "real"),
    ("float8", types.FLOAT8, 8, "N", "double precision"),
    ("unknown", types.UNKNOWN, -2, "X", "unknown"),
    ("bpchar", 1042, -1, "S", "character"),
    ("varchar", types.VARCHAR, -1, "S", "character varying"),
    ("date", types.DATE, 4, "D", "date"),
    ("time", types.TIME, 8, "D", "time without time zone"),
    ("timestamp", types.TIMESTAMP, 8, "D", "timestamp without time zone"),
    ("timestamptz", types.TIMESTAMPTZ, 8, "D", "timestamp with time zone"),
    ("interval", types.INTERVAL, 16, "T", "interval"),
    ("numeric", types.NUMERIC, -1, "N", "numeric"),
    ("uuid", types.UUID, 16, "U", "uuid"),
    ("jsonb", 3802, -1, "U", "jsonb"),
)
_OIDS = {
    "BOOLEAN": types.BOOL, "TINYINT": types.INT2, "UTINYINT": types.INT2, "SMALLINT": types.INT2,
    "USMALLINT": types.INT4, "INTEGER": types.INT4, "UINTEGER": types.INT8, "BIGINT": types.INT8,
    "UBIGINT": types.NUMERIC, "HUGEINT": types.NUMERIC, "DECIMAL": types.NUMERIC, "FLOAT": types.FLOAT4,
    "DOUBLE": types.FLOAT8, "DATE": types.DATE, "TIME": types.TIME, "INTERVAL": types.INTERVAL, "BLOB": types.BYTEA,
    "TIMESTAMP WITH TIME ZONE": types.TIMESTAMPTZ,
}  # fmt: skip
_ARRAY_NAMES = {18: 1002, 19: 1003, 24: 1008, 114: 199, 1042: 1014, types.VARCHAR: 1015, types.UUID: 2951, 3802: 3807}

Row = Mapping[str, object]
Schema = Sequence[Mapping[str, Any]]
"""What the core tells of the tables: their name, and of each column name, type, null, values and ask."""


def oid_of(kind: str) -> tuple[int, int]:
    """The number and modifier under which a column of this type is announced."""
    known = Type.parse(kind)
    if known.is_decimal:
        assert known.width is not None and known.scale is not None
        return types.NUMERIC, (known.width << 16 | known.scale) + 4
    if known.is_timestamp and not known.has_zone:
        return types.TIMESTAMP, -1
    return _OIDS.get(known.name, types.TEXT), -1


def catalogs(schema: Schema, policy: Policy, settings: Mapping[str, str]) -> SmallDatabase:
    """An engine that holds the catalogs."""
    made = _Catalogs(schema, policy, settings)
    return small_database(
        [
            *_relations(PG, PG_CATALOG, made.pg(), _ZEROS),
            *_relations(INFO, INFORMATION_SCHEMA, made.information(), {}),
            Relation(PG, "dpsql_types", (("oid", "UINTEGER"), ("shown", "VARCHAR")), list(_shown_types())),
            Relation(PG, "dpsql_definitions", (("oid", "UINTEGER"), ("definition", "VARCHAR")), made.definitions),
        ],
        {**FIRST_MACROS, **MACROS},
    )


_ZEROS: Mapping[str, object] = {
    "BOOLEAN": False, "UINTEGER": 0, "SMALLINT": 0, "INTEGER": 0, "BIGINT": 0, "FLOAT": 0.0
}  # fmt: skip


def _relations(
    schema: str,
    known: Mapping[str, tuple[tuple[str, str], ...]],
    rows: Mapping[str, Sequence[Row]],
    empty: Mapping[str, object],
) -> Iterator[Relation]:
    """Each relation with its rows: what a row doesn't say is `empty` by its type, or NULL."""
    for name, columns in known.items():
        found = [[row.get(column, empty.get(kind)) for column, kind in columns] for row in rows.get(name, ())]
        assert all(row.keys() <= {column for column, _ in columns} for row in rows.get(name, ())), name
        yield Relation(schema, name, columns, found)


def _shown_types() -> Iterator[tuple[int, str]]:
    for _, oid, _, _, shown in _KINDS:
        yield oid, shown
        yield types.ARRAYS.get(oid) or _ARRAY_NAMES.get(oid, 0), f"{shown}[]"


class _Catalogs:
    """The rows. Numbers are given out in the policy's order: tables first, then keys and links."""

    def __init__(self, schema: Schema, policy: Policy, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._policy = policy
        self._tables = [(_FIRST + i, table, _columns(table)) for i, table in enumerate(schema)]
        self._oids = {str(table["name"]).lower(): oid for oid, table, _ in self._tables}
        self._places = {
            str(table["name"]).lower(): {str(c["name"]).lower(): n for n, c in enumerate(columns, 1)}
            for _, table, columns in self._tables
        }
        self.definitions: list[tuple[int, str]] = []
        self._next = _FIRST + 10_000
        self._keys = list(self._primary_keys())
        self._links = list(self._foreign_keys())

    def _number(self) -> int:
        self._next += 1
        return self._next

    # ------------------------------------------------------------ keys

    def _primary_keys(self) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
        """Of each table with a key: numbers of constraint and index, the table, the columns."""
        for _, table, columns in self._tables:
            name = str(table["name"])
            key = self._policy.tables[name.lower()].key or ()
            listed = {str(c["name"]).lower(): str(c["name"]) for c in columns}
            if key and all(one.lower() in listed for one in key):
                constraint, index = self._number(), self._number()
                named = tuple(listed[one.lower()] for one in key)
                shown = ", ".join(map(quoted, named))
                self.definitions.append((constraint, f"PRIMARY KEY ({shown})"))
                self.definitions.append(
                    (index, f"CREATE UNIQUE INDEX {quoted(name + '_pkey')} ON {SCHEMA}.{quoted(name)} USING btree ({shown})")
                )
                yield constraint, index, name, named

    def _foreign_keys(self) -> Iterator[tuple[int, str, tuple[str, ...], str, tuple[str, ...]]]:
        """Links by which units are found, and columns that hold public keys of another table."""
        for _, table, _ in self._tables:
            name = str(table["name"]).lower()
            for here, there, others in _links(self._policy.tables[name]):
                known = all(c.lower() in self._places[name] for c in here) and there.lower() in self._places
                if known and all(c.lower() in self._places[there.lower()] for c in others):
                    number = self._number()
                    shown = f"FOREIGN KEY ({', '.join(map(quoted, here))}) REFERENCES {quoted(there)}"
                    self.definitions.append((number, f"{shown}({', '.join(map(quoted, others))})"))
                    yield number, name, here, there.lower(), others

    def _numbers(self, table: str, columns: Sequence[str]) -> list[int]:
        return [self._places[table.lower()][column.lower()] for column in columns]

    # ------------------------------------------------------------ pg_catalog

    def pg(self) -> dict[str, list[Row]]:
        """Rows of pg_catalog, by relation."""
        settings = [
            {"name": n, "setting": v, "context": "user", "vartype": "string"} for n, v in self._settings.items()
        ]
        role = {"rolname": OWNER, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1, "oid": _OWNER}
        namespaces = ((_PG_CATALOG, "pg_catalog"), (_PUBLIC, SCHEMA), (_INFORMATION, "information_schema"))
        return {
            "pg_namespace": [{"oid": o, "nspname": n, "nspowner": _OWNER} for o, n in namespaces],
            "pg_database": [
                {
                    "oid": _DATABASE,
                    "datname": DATABASE,
                    "datdba": _OWNER,
                    "encoding": 6,
                    "datlocprovider": "c",
                    "datallowconn": True,
                    "datconnlimit": -1,
                    "dattablespace": 1663,
                    "datcollate": "C",
                    "datctype": "C",
                }
            ],  # fmt: skip
            "pg_roles": [role],
            "pg_user": [{"usename": OWNER, "usesysid": _OWNER}],
            "pg_am": [
                {"oid": _HEAP, "amname": "heap", "amtype": "t"},
                {"oid": _BTREE, "amname": "btree", "amtype": "i"},
            ],
            "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": _OWNER}],
            "pg_language": [{"oid": 14, "lanname": "sql", "lanowner": _OWNER, "lanpltrusted": True}],
            "pg_collation": [
                {
                    "oid": 100,
                    "collname": "default",
                    "collnamespace": _PG_CATALOG,
                    "collowner": _OWNER,
                    "collprovider": "d",
                    "collisdeterministic": True,
                    "collencoding": -1,
                }
            ],  # fmt: skip
            "pg_settings": settings,
            "pg_type": list(_types()),
            "pg_class": [*self._classes(), *self._indexes()],
            "pg_attribute": list(self._attributes()),
            "pg_description": list(self._descriptions()),
            "pg_constraint": list(self._constraints()),
            "pg_index": [
                {
                    "indexrelid": index,
                    "indrelid": self._oids[table.lower()],
                    "indnatts": len(columns),
                    "indnkeyatts": len(columns),
                    "indisunique": True,
                    "indisprimary": True,
                    "indimmediate": True,
                    "indisvalid": True,
                    "indisready": True,
                    "indislive": True,
                    "indkey": self._numbers(table, columns),
                    "indcollation": [0] * len(columns),
                    "indclass": [0] * len(columns),
                    "indoption": [0] * len(columns),
                }
                for _, index, table, columns in self._keys
            ],  # fmt: skip
            "pg_indexes": [
                {
                    "schemaname": SCHEMA,
                    "tablename": table,
                    "indexname": f"{table}_pkey",
                    "indexdef": dict(self.definitions)[index],
                }
                for _, index, table, _ in self._keys
            ],  # fmt: skip
            "pg_tables": [
                {"schemaname": SCHEMA, "tablename": table["name"], "tableowner": OWNER} for _, table, _ in self._tables
            ],
            "pg_timezone_names": [{"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00"}],
        }

    def _classes(self) -> Iterator[Row]:
        keyed = {table.lower() for _, _, table, _ in self._keys}
        linked = {table for _, table, *_ in self._links} | {there for _, _, _, there, _ in self._links}
        for oid, table, columns in self._tables:
            yield {
                "oid": oid, "relname": table["name"], "relnamespace": _PUBLIC, "relowner": _OWNER, "relam": _HEAP,
                "reltuples": -1.0, "relpersistence": "p", "relkind": "r", "relnatts": len(columns),
                "relhasindex": str(table["name"]).lower() in keyed, "relhastriggers": str(table["name"]).lower() in linked, "relreplident": "d", "relispopulated": True,
            }  # fmt: skip

    def _indexes(self) -> Iterator[Row]:
        for _, index, table, columns in self._keys:
            yield {
                "oid": index, "relname": f"{table}_pkey", "relnamespace": _PUBLIC, "relowner": _OWNER, "relam": _BTREE,
                "relpersistence": "p", "relkind": "i", "relnatts": len(columns), "relreplident": "n",
                "relispopulated": True,
            }  # fmt: skip

    def _attributes(self) -> Iterator[Row]:
        for oid, _, columns in self._tables:
            for number, column in enumerate(columns, 1):
                yield _attribute(oid, number, column)
        for _, index, table, named in self._keys:
            columns = next(c for _, t, c in self._tables if t["name"] == table)
            for number, place in enumerate(self._numbers(table, named), 1):
                yield _attribute(index, number, columns[place - 1])

    def _descriptions(self) -> Iterator[Row]:
        for oid, table, columns in self._tables:
            texts = [_about_table(table), *(_about_column(c) for c in columns)]
            for number, said in enumerate(texts):
                if said:
                    about = SYSTEM_OIDS["pg_class"]
                    yield {"objoid": oid, "classoid": about, "objsubid": number, "description": said}

    def _constraints(self) -> Iterator[Row]:
        same = {"connamespace": _PUBLIC, "convalidated": True, "conislocal": True, "connoinherit": True,
                "confupdtype": " ", "confdeltype": " ", "confmatchtype": " "}  # fmt: skip
        for constraint, index, table, columns in self._keys:
            yield {
                **same, "oid": constraint, "conname": f"{table}_pkey", "contype": "p", "conindid": index,
                "conrelid": self._oids[table.lower()], "conkey": self._numbers(table, columns),
            }  # fmt: skip
        for constraint, table, here, there, others in self._links:
            yield {
                **same, "oid": constraint, "conname": _link_name(table, here), "contype": "f",
                "conrelid": self._oids[table], "confrelid": self._oids[there], "confupdtype": "a", "confdeltype": "a",
                "confmatchtype": "s", "conkey": self._numbers(table, here), "confkey": self._numbers(there, others),
            }  # fmt: skip

    # ------------------------------------------------------------ information_schema

    def information(self) -> dict[str, list[Row]]:
        """Rows of information_schema, by relation."""
        place = {"table_catalog": DATABASE, "table_schema": SCHEMA}
        held = {"constraint_catalog": DATABASE, "constraint_schema": SCHEMA}
        names = ("pg_catalog", SCHEMA, "information_schema")
        told = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
        keys = [(f"{table}_pkey", table, columns) for _, _, table, columns in self._keys]
        links = [(_link_name(t, h), t, h, there, others) for _, t, h, there, others in self._links]
        usage = [
            {
                **held,
                **place,
                "constraint_name": name,
                "table_name": table,
                "column_name": column,
                "ordinal_position": n,
            }
            for name, table, columns in [*keys, *((name, t, h) for name, t, h, _, _ in links)]
            for n, column in enumerate(columns, 1)
        ]
        return {
            "schemata": [{"catalog_name": DATABASE, "schema_name": n, "schema_owner": OWNER} for n in names],
            "information_schema_catalog_name": [{"catalog_name": DATABASE}],
            "tables": [
                {
                    **place,
                    "table_name": table["name"],
                    "table_type": "BASE TABLE",
                    "is_insertable_into": "NO",
                    "is_typed": "NO",
                }
                for _, table, _ in self._tables
            ],  # fmt: skip
            "columns": [_told(place, table, n, c) for _, table, cs in self._tables for n, c in enumerate(cs, 1)],
            "table_constraints": [
                {**held, **place, **told, "constraint_name": name, "table_name": table, "constraint_type": kind}
                for name, table, kind in [
                    *((name, table, "PRIMARY KEY") for name, table, _ in keys),
                    *((name, table, "FOREIGN KEY") for name, table, *_ in links),
                ]
            ],
            "key_column_usage": [
                {**one, "position_in_unique_constraint": one["ordinal_position"] if i >= _width(keys) else None}
                for i, one in enumerate(usage)
            ],
            "constraint_column_usage": [
                {**held, **place, "constraint_name": name, "table_name": table, "column_name": column}
                for name, table, columns in [*keys, *((name, there, o) for name, _, _, there, o in links)]
                for column in columns
            ],
            "referential_constraints": [
                {
                    **held,
                    "constraint_name": name,
                    "unique_constraint_catalog": DATABASE,
                    "unique_constraint_schema": SCHEMA,
                    "unique_constraint_name": f"{there}_pkey",
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "NO ACTION",
                }
                for name, _, _, there, _ in links
            ],  # fmt: skip
            "table_privileges": [
                {
                    **place,
                    "grantor": OWNER,
                    "grantee": "PUBLIC",
                    "table_name": table["name"],
                    "privilege_type": "SELECT",
                    "is_grantable": "NO",
                    "with_hierarchy": "YES",
                }
                for _, table, _ in self._tables
            ],  # fmt: skip
        }


def _width(keys: Sequence[tuple[str, str, Sequence[str]]]) -> int:
    return sum(len(columns) for _, _, columns in keys)


def quoted(name: str) -> str:
    """A name as Postgres shows it: in quotes where it needs them."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _columns(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The columns themselves: parts of nested ones, which follow them, are told in the comment alone."""
    found: list[Mapping[str, Any]] = []
    for column in table["columns"]:
        inside = found and str(column["name"]).startswith((f"{found[-1]['name']}.", f"{found[-1]['name']}["))
        if not inside:
            found.append(column)
    return found


def _links(table: Table) -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """Columns here, the table there, its columns."""
    if isinstance(table.unit, LinkedUnit):
        yield tuple(h for h, _ in table.unit.on), table.unit.through, tuple(t for _, t in table.unit.on)
    for name, column in table.columns.items():
        if column.references is not None:
            yield (name,), column.references.table, (column.references.column,)


def _link_name(table: str, columns: Sequence[str]) -> str:
    return f"{table}_{'_'.join(columns)}_fkey"


def _about_table(table: Mapping[str, Any]) -> str:
    if table["kind"] == "public":
        return "public: ask anything, it is free"
    return f"private: answers are aggregates with noise; protected is {table['unit']}"


def _about_column(column: Mapping[str, Any]) -> str:
    said = [str(column.get("values") or ""), str(column.get("ask") or "")]
    return "; ".join(one for one in said if one)


def _attribute(relation: int, number: int, column: Mapping[str, Any]) -> Row:
    oid, modifier = oid_of(str(column["type"]))
    _, _, size, _, _ = next(kind for kind in _KINDS if kind[1] == oid)
    return {
        "attrelid": relation, "attname": column["name"], "atttypid": oid, "attlen": size, "attnum": number,
        "atttypmod": modifier, "attstattarget": -1, "attcacheoff": -1, "attbyval": 0 < size <= 8, "attalign": "i",
        "attstorage": "p" if size > 0 else "x", "attcompression": "", "attnotnull": column.get("null") == "NO",
        "attidentity": "", "attgenerated": "", "attislocal": True,
        "attcollation": 100 if oid == types.TEXT else 0,
    }  # fmt: skip


def _types() -> Iterator[Row]:
    for name, oid, size, category, _ in _KINDS:
        array = types.ARRAYS.get(oid) or _ARRAY_NAMES.get(oid, 0)
        same = {"typnamespace": _PG_CATALOG, "typowner": _OWNER, "typtype": "b", "typisdefined": True, "typdelim": ",",
                "typmodin": "-", "typmodout": "-", "typanalyze": "-", "typalign": "i", "typtypmod": -1}  # fmt: skip
        yield {
            **same, "oid": oid, "typname": name, "typlen": size, "typbyval": 0 < size <= 8, "typcategory": category,
            "typarray": array, "typinput": f"{name}in", "typoutput": f"{name}out", "typreceive": f"{name}recv",
            "typsend": f"{name}send", "typstorage": "p" if size > 0 else "x", "typsubscript": "-",
            "typispreferred": name in ("text", "float8", "timestamptz", "bool", "interval", "oid"),
            "typcollation": 100 if category == "S" else 0,
        }  # fmt: skip
        if array:
            yield {
                **same, "oid": array, "typname": f"_{name}", "typlen": -1, "typcategory": "A", "typelem": oid,
                "typinput": "array_in", "typoutput": "array_out", "typreceive": "array_recv", "typsend": "array_send",
                "typstorage": "x", "typsubscript": "array_subscript_handler",
            }  # fmt: skip


def _told(place: Row, table: Mapping[str, Any], number: int, column: Mapping[str, Any]) -> Row:
    oid, modifier = oid_of(str(column["type"]))
    name, _, _, category, shown = next(kind for kind in _KINDS if kind[1] == oid)
    whole = {types.INT2: 16, types.INT4: 32, types.INT8: 64, types.FLOAT4: 24, types.FLOAT8: 53}.get(oid)
    exact = modifier - 4 if oid == types.NUMERIC and modifier > 0 else None
    return {
        **place, "table_name": table["name"], "column_name": column["name"], "ordinal_position": number,
        "is_nullable": "NO" if column.get("null") == "NO" else "YES", "data_type": shown,
        "numeric_precision": whole if exact is None else exact >> 16,
        "numeric_precision_radix": (2 if whole else 10) if category == "N" else None,
        "numeric_scale": exact & 65535 if exact is not None else 0 if whole and oid not in (700, 701) else None,
        "datetime_precision": None if category != "D" else 0 if oid == types.DATE else 6,
        "udt_catalog": DATABASE, "udt_schema": "pg_catalog", "udt_name": name, "dtd_identifier": str(number),
        "is_self_referencing": "NO", "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO",
        "character_maximum_length": None, "character_octet_length": 1 << 30 if oid == types.TEXT else None,
    }  # fmt: skip
