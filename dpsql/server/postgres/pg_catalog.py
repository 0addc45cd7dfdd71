"""Rows of pg_catalog, where what a row doesn't say is 0, false or NULL, and of information_schema, where it is NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.server.postgres import types
from dpsql.server.postgres.relations import SYSTEM_OIDS
from dpsql.server.postgres.tables import DATABASE, KINDS, OWNER, SCHEMA, Column, Table, Tables, names_of, quoted

Row = Mapping[str, object]

_OWNER, _PG_CATALOG, _PUBLIC, _INFORMATION, _DATABASE, _COLLATION = 10, 11, 2200, 13000, 5, 100
_HEAP, _BTREE = 2, 403
_PREFERRED = ("text", "float8", "timestamptz", "bool", "interval", "oid")


def pg_catalog(known: Tables, settings: Mapping[str, str]) -> dict[str, list[Row]]:
    """Rows by relation."""
    return {
        **_fixed(),
        "pg_settings": [{"name": n, "setting": v, "context": "user"} for n, v in settings.items()],
        "pg_type": list(_types()),
        "pg_class": [*_classes(known), *_indexes(known)],
        "pg_attribute": list(_attributes(known)),
        "pg_description": list(_descriptions(known)),
        "pg_constraint": list(_constraints(known)),
        "pg_index": list(_index_facts(known)),
        "pg_tables": [{"schemaname": SCHEMA, "tablename": t.name, "tableowner": OWNER} for t in known.tables],
        "pg_indexes": [
            {"schemaname": SCHEMA, "tablename": key.table.name, "indexname": key.name, "indexdef": shown}
            for key in known.keys
            for shown in (_index_text(key.name, key.table.name, key.shown),)
        ],
    }


def definitions(known: Tables) -> Iterator[tuple[int, str]]:
    """What pg_get_constraintdef and pg_get_indexdef say, by number."""
    for key in known.keys:
        yield key.oid, f"PRIMARY KEY ({key.shown})"
        yield key.index, _index_text(key.name, key.table.name, key.shown)
    for link in known.links:
        yield link.oid, link.shown


def shown_types() -> Iterator[tuple[int, str]]:
    """What format_type says, by number."""
    for kind in KINDS:
        yield kind.oid, kind.shown
        if kind.array:
            yield kind.array, f"{kind.shown}[]"


def _index_text(name: str, table: str, columns: str) -> str:
    return f"CREATE UNIQUE INDEX {quoted(name)} ON {SCHEMA}.{quoted(table)} USING btree ({columns})"


def _fixed() -> dict[str, list[Row]]:
    """What is the same for every policy. Nobody but the owner is a role: analysts don't learn of each other."""
    database = {
        "oid": _DATABASE, "datname": DATABASE, "datdba": _OWNER, "encoding": 6, "datlocprovider": "c",
        "datallowconn": True, "datconnlimit": -1, "dattablespace": 1663, "datcollate": "C", "datctype": "C",
    }  # fmt: skip
    collation = {
        "oid": _COLLATION, "collname": "default", "collnamespace": _PG_CATALOG, "collowner": _OWNER,
        "collprovider": "d", "collisdeterministic": True, "collencoding": -1,
    }  # fmt: skip
    role = {"rolname": OWNER, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1, "oid": _OWNER}
    names = ((_PG_CATALOG, "pg_catalog"), (_PUBLIC, SCHEMA), (_INFORMATION, "information_schema"))
    return {
        "pg_namespace": [{"oid": oid, "nspname": name, "nspowner": _OWNER} for oid, name in names],
        "pg_database": [database],
        "pg_roles": [role],
        "pg_user": [{"usename": OWNER, "usesysid": _OWNER}],
        "pg_am": [
            {"oid": _HEAP, "amname": "heap", "amtype": "t"},
            {"oid": _BTREE, "amname": "btree", "amtype": "i"},
        ],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": _OWNER}],
        "pg_language": [{"oid": 14, "lanname": "sql", "lanowner": _OWNER, "lanpltrusted": True}],
        "pg_collation": [collation],
        "pg_timezone_names": [{"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00"}],
    }


def _classes(known: Tables) -> Iterator[Row]:
    keyed = {key.table.oid for key in known.keys}
    linked = {one.oid for link in known.links for one in (link.table, link.other)}
    for table in known.tables:
        row = {
            "oid": table.oid, "relname": table.name, "relnamespace": _PUBLIC, "relowner": _OWNER, "relam": _HEAP,
            "reltuples": -1.0, "relpersistence": "p", "relkind": "r", "relnatts": len(table.columns),
            "relhasindex": table.oid in keyed, "relhastriggers": table.oid in linked, "relreplident": "d",
            "relispopulated": True,
        }  # fmt: skip
        yield row


def _indexes(known: Tables) -> Iterator[Row]:
    for key in known.keys:
        row = {
            "oid": key.index, "relname": key.name, "relnamespace": _PUBLIC, "relowner": _OWNER, "relam": _BTREE,
            "relpersistence": "p", "relkind": "i", "relnatts": len(key.numbers), "relreplident": "n",
            "relispopulated": True,
        }  # fmt: skip
        yield row


def _index_facts(known: Tables) -> Iterator[Row]:
    for key in known.keys:
        count, zeros = len(key.numbers), [0] * len(key.numbers)
        row = {
            "indexrelid": key.index, "indrelid": key.table.oid, "indnatts": count, "indnkeyatts": count,
            "indisunique": True, "indisprimary": True, "indimmediate": True, "indisvalid": True, "indisready": True,
            "indislive": True, "indkey": list(key.numbers), "indcollation": zeros, "indclass": zeros,
            "indoption": zeros,
        }  # fmt: skip
        yield row


def _attributes(known: Tables) -> Iterator[Row]:
    for table in known.tables:
        yield from (_attribute(table.oid, column.number, column) for column in table.columns)
    for key in known.keys:
        for number, place in enumerate(key.numbers, 1):
            yield _attribute(key.index, number, key.table.columns[place - 1])


def _attribute(relation: int, number: int, column: Column) -> Row:
    size = column.kind.size
    return {
        "attrelid": relation, "attname": column.name, "atttypid": column.kind.oid, "attlen": size, "attnum": number,
        "atttypmod": column.modifier, "attstattarget": -1, "attcacheoff": -1, "attbyval": 0 < size <= 8,
        "attalign": "i", "attstorage": "p" if size > 0 else "x", "attcompression": "",
        "attnotnull": not column.nullable, "attidentity": "", "attgenerated": "", "attislocal": True,
        "attcollation": _COLLATION if column.kind.oid == types.TEXT else 0,
    }  # fmt: skip


def _descriptions(known: Tables) -> Iterator[Row]:
    for table in known.tables:
        for number, said in enumerate([table.comment, *(column.comment for column in table.columns)]):
            if said:
                about = SYSTEM_OIDS["pg_class"]
                yield {"objoid": table.oid, "classoid": about, "objsubid": number, "description": said}


def _constraints(known: Tables) -> Iterator[Row]:
    same = {"connamespace": _PUBLIC, "convalidated": True, "conislocal": True, "connoinherit": True}
    none = {"confupdtype": " ", "confdeltype": " ", "confmatchtype": " "}
    for key in known.keys:
        row = {
            **same, **none, "oid": key.oid, "conname": key.name, "contype": "p", "conindid": key.index,
            "conrelid": key.table.oid, "conkey": list(key.numbers),
        }  # fmt: skip
        yield row
    indexes = {key.table.oid: key.index for key in known.keys}
    for link in known.links:
        row = {
            **same, "oid": link.oid, "conname": link.name, "contype": "f", "conrelid": link.table.oid,
            "confrelid": link.other.oid, "conindid": indexes.get(link.other.oid, 0), "confupdtype": "a",
            "confdeltype": "a", "confmatchtype": "s", "conkey": list(link.numbers), "confkey": list(link.others),
        }  # fmt: skip
        yield row


def _types() -> Iterator[Row]:
    same = {
        "typnamespace": _PG_CATALOG, "typowner": _OWNER, "typtype": "b", "typisdefined": True, "typdelim": ",",
        "typmodin": "-", "typmodout": "-", "typanalyze": "-", "typalign": "i", "typtypmod": -1,
    }  # fmt: skip
    for kind in KINDS:
        row = {
            **same, "oid": kind.oid, "typname": kind.name, "typlen": kind.size, "typbyval": 0 < kind.size <= 8,
            "typcategory": kind.category, "typarray": kind.array, "typinput": f"{kind.name}in",
            "typoutput": f"{kind.name}out", "typreceive": f"{kind.name}recv", "typsend": f"{kind.name}send",
            "typstorage": "p" if kind.size > 0 else "x", "typsubscript": "-", "typispreferred": kind.name in _PREFERRED,
            "typcollation": _COLLATION if kind.category == "S" else 0,
        }  # fmt: skip
        yield row
        if kind.array:
            row = {
                **same, "oid": kind.array, "typname": f"_{kind.name}", "typlen": -1, "typcategory": "A",
                "typelem": kind.oid, "typinput": "array_in", "typoutput": "array_out", "typreceive": "array_recv",
                "typsend": "array_send", "typstorage": "x", "typsubscript": "array_subscript_handler",
            }  # fmt: skip
            yield row


_PLACE = {"table_catalog": DATABASE, "table_schema": SCHEMA}
_HELD = {"constraint_catalog": DATABASE, "constraint_schema": SCHEMA}
_BITS = {types.INT2: 16, types.INT4: 32, types.INT8: 64, types.FLOAT4: 24, types.FLOAT8: 53}


def information_schema(known: Tables) -> dict[str, list[Row]]:
    """Rows by relation."""
    names = ("pg_catalog", SCHEMA, "information_schema")
    table_facts = {"table_type": "BASE TABLE", "is_insertable_into": "NO", "is_typed": "NO"}
    granted = {"grantor": OWNER, "grantee": "PUBLIC", "privilege_type": "SELECT", "is_grantable": "NO"}
    return {
        "schemata": [{"catalog_name": DATABASE, "schema_name": n, "schema_owner": OWNER} for n in names],
        "information_schema_catalog_name": [{"catalog_name": DATABASE}],
        "tables": [{**_PLACE, "table_name": t.name, **table_facts} for t in known.tables],
        "columns": [_column(t, c) for t in known.tables for c in t.columns],
        "table_privileges": [{**_PLACE, **granted, "table_name": t.name} for t in known.tables],
        **_constraint_views(known),
    }


def _constraint_views(known: Tables) -> dict[str, list[Row]]:
    told = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
    rules = {"match_option": "NONE", "update_rule": "NO ACTION", "delete_rule": "NO ACTION"}
    unique = {"unique_constraint_catalog": DATABASE, "unique_constraint_schema": SCHEMA}
    kinds = [
        *((key.name, key.table.name, "PRIMARY KEY") for key in known.keys),
        *((link.name, link.table.name, "FOREIGN KEY") for link in known.links),
    ]
    own = [(one.name, one.table, one.numbers) for one in known.keys]
    here = [*own, *((link.name, link.table, link.numbers) for link in known.links)]
    there = [*own, *((link.name, link.other, link.others) for link in known.links)]
    return {
        "table_constraints": [
            {**_HELD, **_PLACE, **told, "constraint_name": name, "table_name": table, "constraint_type": kind}
            for name, table, kind in kinds
        ],
        "key_column_usage": [
            {**_used(name, table.name, column), "ordinal_position": n}
            for name, table, numbers in here
            for n, column in enumerate(names_of(table, numbers), 1)
        ],
        "constraint_column_usage": [
            _used(name, table.name, column) for name, table, numbers in there for column in names_of(table, numbers)
        ],
        "referential_constraints": [
            {**_HELD, **unique, **rules, "constraint_name": k.name, "unique_constraint_name": f"{k.other.name}_pkey"}
            for k in known.links
        ],
    }


def _used(name: str, table: str, column: str) -> dict[str, object]:
    return {**_HELD, **_PLACE, "constraint_name": name, "table_name": table, "column_name": column}


def _column(table: Table, column: Column) -> Row:
    kind, bits = column.kind, _BITS.get(column.kind.oid)
    digits = column.modifier - 4 if kind.oid == types.NUMERIC and column.modifier > 0 else None
    whole = 0 if bits and kind.oid not in (types.FLOAT4, types.FLOAT8) else None
    return {
        **_PLACE, "table_name": table.name, "column_name": column.name, "ordinal_position": column.number,
        "is_nullable": "YES" if column.nullable else "NO", "data_type": kind.shown,
        "numeric_precision": bits if digits is None else digits >> 16,
        "numeric_precision_radix": (2 if bits else 10) if kind.category == "N" else None,
        "numeric_scale": whole if digits is None else digits & 65535,
        "datetime_precision": None if kind.category != "D" else 0 if kind.oid == types.DATE else 6,
        "udt_catalog": DATABASE, "udt_schema": "pg_catalog", "udt_name": kind.name,
        "dtd_identifier": str(column.number), "is_self_referencing": "NO", "is_identity": "NO",
        "is_generated": "NEVER", "is_updatable": "NO",
        "character_octet_length": 1 << 30 if kind.oid == types.TEXT else None,
    }  # fmt: skip
