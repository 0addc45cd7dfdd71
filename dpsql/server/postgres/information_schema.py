"""Rows of information_schema. What a row doesn't say is NULL."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.server.postgres import types
from dpsql.server.postgres.tables import DATABASE, OWNER, SCHEMA, Column, Table, Tables, names_of

Row = Mapping[str, object]

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
        **_constraints(known),
    }


def _constraints(known: Tables) -> dict[str, list[Row]]:
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
