"""The allow-list: one entry per scalar function, with its rule, how it is made total, and how its range follows."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.errors import SQLError, nearest
from dpsql.sql.functions import arithmetic, conditional, dates, numeric, text
from dpsql.sql.functions.base import Function, Scalar, Scope, offsets, refuse

FUNCTIONS: tuple[Function, ...] = (
    *arithmetic.FUNCTIONS,
    *numeric.FUNCTIONS,
    *conditional.FUNCTIONS,
    *text.FUNCTIONS,
    *dates.FUNCTIONS,
)

_BY_NODE: dict[type[exp.Expr], Function] = {node: f for f in FUNCTIONS for node in f.nodes}
_BY_NAME: dict[str, Function] = {name.lower(): f for f in FUNCTIONS for name in f.names}

_VOLATILE = {
    "random", "rand", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "setseed", "txid_current",
    "now", "get_current_timestamp", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp",
    "today", "transaction_timestamp", "current_localtime", "current_localtimestamp",
}  # fmt: skip
_UNSAFE = {
    **dict.fromkeys(("error", "try"), "it makes a query fail, or hides that it did, depending on single rows"),
    **dict.fromkeys(("sleep", "sleep_ms"), "how long a query takes would depend on single rows"),
    **dict.fromkeys(
        ("repeat", "lpad", "rpad", "range", "generate_series", "array_fill", "list_resize", "levenshtein", "editdist3",
         "damerau_levenshtein", "jaccard", "factorial", "format", "printf", "bar"),
        "one row could make it arbitrarily long or slow",
    ),
    **dict.fromkeys(
        ("getenv", "current_setting", "getvariable", "current_user", "current_database", "current_schema",
         "current_schemas", "current_catalog", "version", "pg_typeof", "typeof", "stats", "write_log", "in_search_path",
         "current_query", "current_connection_id", "current_query_id", "current_transaction_id", "user",
         "session_user"),
        "it reads the server, not the row",
    ),
    **dict.fromkeys(
        ("read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema", "read_json",
         "read_json_auto", "read_text", "read_blob", "read_ndjson", "glob", "query", "query_table", "sniff_csv",
         "iceberg_scan",
         "json_execute_serialized_sql", "json_serialize_sql", "sql_auto_complete", "which_secret", "duckdb_secrets"),
        "it reads files or runs text as SQL",
    ),
    **dict.fromkeys(
        ("make_date", "make_time", "make_timestamp", "make_timestamptz"),
        "it fails on rows that aren't a date: build one with STRPTIME from text",
    ),
    **dict.fromkeys(("hash", "md5", "sha1", "sha256", "md5_number"), "it makes an identifier that reveals its value"),
}  # fmt: skip


def function_name(node: exp.Expr) -> str:
    """The name a call goes by in DuckDB."""
    written = re.match(r"(\w+)\(", node.sql(dialect="duckdb"))
    if written:
        return written[1]
    return str(node.sql_names()[0]) if isinstance(node, exp.Func) else type(node).__name__


def lookup(node: exp.Expr) -> Function | None:
    """The entry for a node, by its class, or by name where sqlglot has no class for it."""
    if isinstance(node, exp.Anonymous):
        return _BY_NAME.get(str(node.this).lower())
    return _BY_NODE.get(type(node))


def refusal(node: exp.Expr, more: tuple[str, ...] = ()) -> SQLError:
    """Why a call isn't understood, with the nearest name that is. `more`: other names that would be understood."""
    name = function_name(node)
    lowered = name.lower()
    if lowered in _VOLATILE or isinstance(node, exp.Rand | exp.Uuid):
        return refuse(
            SQLError,
            f"{name}() gives another value each time",
            node,
            "volatile-function",
            "use columns and constants only",
        )
    if lowered in _UNSAFE:
        return refuse(SQLError, f"{name}() isn't allowed: {_UNSAFE[lowered]}", node, "unsafe-function", None)
    if isinstance(node, exp.AggFunc):
        return refuse(
            SQLError,
            f"{name} can't stand inside a row's expression",
            node,
            "misplaced-aggregate",
            "aggregate in the SELECT list",
        )
    if isinstance(node, exp.Func):
        known = [n for f in FUNCTIONS for n in f.names if n[0].isalpha()] + list(more)
        close = nearest(name, known)
        hint = f"did you mean {close}?" if close else "`dpsql functions` lists every function"
        return refuse(SQLError, f"unknown function {name}", node, "unknown-function", hint)
    return refuse(
        SQLError,
        f"{name} expressions aren't supported here",
        node,
        "unsupported-expression",
        "`dpsql functions` lists what is",
    )


__all__ = ["FUNCTIONS", "Function", "Scalar", "Scope", "function_name", "lookup", "offsets", "refusal", "refuse"]
