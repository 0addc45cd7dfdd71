"""Functions that clients call in queries of catalogs, as macros of the twin."""

from __future__ import annotations

from dpsql.server.postgres.types import NUMERIC

SYSTEM_OIDS = {
    "pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615,
    "pg_constraint": 2606, "pg_database": 1262, "pg_authid": 1260, "pg_description": 2609, "pg_index": 2610,
    "pg_attrdef": 2604, "pg_trigger": 2620, "pg_rewrite": 2618, "pg_tablespace": 1213, "pg_roles": 1260,
    "pg_extension": 3079, "pg_collation": 3456, "pg_language": 2612, "pg_foreign_server": 1417,
}  # fmt: skip
"""The numbers of catalogs that others refer to."""


def _words(text: str) -> list[str]:
    return text.split()


_NOTHING = _words("""
    pg_get_viewdef pg_get_functiondef pg_get_function_result pg_get_function_arguments pg_get_triggerdef
    pg_get_function_identity_arguments pg_get_ruledef pg_get_partkeydef pg_get_statisticsobjdef_columns
    pg_get_serial_sequence pg_get_function_arg_default pg_tablespace_location pg_get_function_sqlbody
    pg_sequence_last_value shobj_description inet_server_addr inet_client_addr pg_get_expr
""")
_TRUE = _words("""
    pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_operator_is_visible pg_opclass_is_visible
    pg_collation_is_visible pg_statistics_obj_is_visible pg_conversion_is_visible pg_ts_config_is_visible
    pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_opfamily_is_visible
    pg_advisory_unlock pg_try_advisory_lock
    has_table_privilege has_schema_privilege has_database_privilege has_any_column_privilege has_column_privilege
    pg_has_role
""")
_FALSE = _words("""
    has_function_privilege has_sequence_privilege has_tablespace_privilege has_language_privilege
    has_foreign_data_wrapper_privilege has_server_privilege has_type_privilege pg_is_other_temp_schema
    pg_column_is_updatable pg_relation_is_publishable
""")
_ZERO = _words("""
    pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size pg_tablespace_size
    pg_relation_is_updatable
""")


def _each(count: int, body: str) -> str:
    """The same for one to so many arguments."""
    return ", ".join(f"({', '.join('abcdef'[:n])}) AS {body}" for n in range(1, count + 1))


def _found(column: str, relation: str, condition: str) -> str:
    return f"(SELECT {column} FROM pg.{relation} WHERE {condition} LIMIT 1)"


_CLASS = _found("oid", "pg_class", "relname = pg_bare(a)")
_TYPE = _found("oid", "pg_type", "typname = pg_bare(a)")
_NAMED = _found("relname", "pg_class", "oid = CAST(a AS UINTEGER)")
_COMMENT = _found("description", "pg_description", "objoid = a AND objsubid = 0")
_DEFINITION = _found("shown", "dpsql_definitions", "oid = a")
_SYSTEM = " ".join(f"WHEN '{name}' THEN CAST({oid} AS UINTEGER)" for name, oid in SYSTEM_OIDS.items())
_DIGITS = "(CAST(b AS INTEGER) - 4)"  # of numeric(digits, after the point)
_SHOWN = (
    f"CASE WHEN oid = {NUMERIC} AND b > 4 "
    f"THEN shown || '(' || ({_DIGITS} >> 16) || ',' || ({_DIGITS} & 65535) || ')' ELSE shown END"
)
_LONG_AGO = "CAST('2000-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)"
_IN_QUOTES = "'\"' || replace(a, '\"', '\"\"') || '\"'"
_ESCAPED = "replace(replace(CAST(a AS VARCHAR), '\\', '\\\\'), '\"', '\\\"')"

FIRST_MACROS: dict[str, str] = {
    "pg_bare": "(a) AS lower(regexp_replace(replace(a, '\"', ''), '^(public|pg_catalog)\\.', ''))",
    "format_type": f"(a, b) AS {_found(_SHOWN, 'dpsql_types', 'oid = a')}",
}
"""What others call, and so is made before them."""

MACROS: dict[str, str] = {
    **{name: _each(4, "NULL") for name in _NOTHING},
    **{name: _each(4, "true") for name in _TRUE},
    **{name: _each(3, "false") for name in _FALSE},
    **{name: _each(2, "CAST(0 AS BIGINT)") for name in _ZERO},
    "pg_get_userbyid": "(a) AS CASE WHEN a = 10 THEN 'dpsql' ELSE 'unknown (OID=' || a || ')' END",
    "pg_encoding_to_char": "(a) AS 'UTF8'",
    "pg_char_to_encoding": "(a) AS 6",
    "pg_size_pretty": "(a) AS a || ' bytes'",
    "pg_is_in_recovery": "() AS false",
    "pg_jit_available": "() AS false",
    "pg_my_temp_schema": "() AS CAST(0 AS UINTEGER)",
    "pg_backend_pid": "() AS 0",
    "pg_advisory_unlock_all": "() AS NULL",
    "pg_postmaster_start_time": f"() AS {_LONG_AGO}",
    "pg_conf_load_time": f"() AS {_LONG_AGO}",
    "txid_current": "() AS CAST(1 AS BIGINT)",
    "pg_partition_ancestors": "(a) AS CAST(a AS UINTEGER)",
    "pg_partition_root": "(a) AS CAST(a AS UINTEGER)",
    "current_schemas": "(a) AS CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "quote_ident": f"(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE {_IN_QUOTES} END",
    "quote_literal": "(a) AS '''' || replace(a, '''', '''''') || ''''",
    "pg_json": "(a) AS CASE WHEN a IS NULL THEN 'null' "
    f"WHEN typeof(a) = 'VARCHAR' THEN '\"' || {_ESCAPED} || '\"' ELSE CAST(a AS VARCHAR) END",
    "pg_expanded": "(a) AS list_transform(range(1, len(a) + 1), lambda i: {'x': a[i], 'n': i})",
    "pg_array": "(a) AS CASE WHEN a = '{}' THEN CAST([] AS VARCHAR[]) "
    "ELSE string_split(replace(trim(a, '{}'), '\"', ''), ',') END",
    "array_upper": "(a, b) AS len(a)",
    "array_lower": "(a, b) AS CASE WHEN len(a) > 0 THEN 1 END",
    "pg_class_named": f"(a) AS COALESCE({_CLASS}, CASE pg_bare(a) {_SYSTEM} END)",
    "pg_class_name": f"(a) AS COALESCE({_NAMED}, CAST(a AS VARCHAR))",
    "pg_type_named": f"(a) AS {_TYPE}",
    "pg_type_name": "(a) AS format_type(CAST(a AS UINTEGER), NULL)",
    "pg_namespace_named": f"(a) AS {_found('oid', 'pg_namespace', 'nspname = pg_bare(a)')}",
    "pg_namespace_name": f"(a) AS {_found('nspname', 'pg_namespace', 'oid = CAST(a AS UINTEGER)')}",
    "to_regclass": f"(a) AS {_CLASS}",
    "to_regtype": f"(a) AS {_TYPE}",
    "obj_description": f"(a) AS {_COMMENT}, (a, b) AS {_COMMENT}",
    "col_description": f"(a, b) AS {_found('description', 'pg_description', 'objoid = a AND objsubid = b')}",
    "pg_get_constraintdef": _each(2, _DEFINITION),
    "pg_get_indexdef": f"(a) AS {_DEFINITION}, (a, b, c) AS CASE WHEN b = 0 THEN {_DEFINITION} "
    f"ELSE {_found('attname', 'pg_attribute', 'attrelid = a AND attnum = b')} END",
}
"""What follows the name in CREATE MACRO, by name."""

BUILT_IN = frozenset(
    _words("""
    array_to_string btrim ltrim rtrim position array_length array_position array_append cardinality
    generate_subscripts every date_part mod row
""")
)
"""Functions of the twin's own engine that read nothing but their arguments."""

FUNCTIONS = (
    frozenset(MACROS)
    | {"format_type"}
    | BUILT_IN
    | {"current_setting", "set_config", "_pg_expandarray", "json_build_object", "all", "getpgusername"}
)
"""Every function that a query of catalogs may call by name."""
