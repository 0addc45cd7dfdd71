"""The allow-list: one entry per scalar function, with its rule, how it is made total, and how its range follows."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.core.errors import SQLError, nearest
from dpsql.sql.as_sql import as_sql
from dpsql.sql.functions import arithmetic, clock, conditional, dates, integers, letters, numeric, text, trigonometry
from dpsql.sql.functions.base import Function, Scalar, Scope
from dpsql.sql.refuse import refuse, shown

FUNCTIONS: tuple[Function, ...] = (
    *arithmetic.FUNCTIONS,
    *numeric.FUNCTIONS,
    *integers.FUNCTIONS,
    *trigonometry.FUNCTIONS,
    *conditional.FUNCTIONS,
    *text.FUNCTIONS,
    *letters.FUNCTIONS,
    *dates.FUNCTIONS,
    *clock.FUNCTIONS,
)

_BY_NODE: dict[type[exp.Expr], Function] = {node: f for f in FUNCTIONS for node in f.nodes}
_BY_NAME: dict[str, Function] = {name.lower(): f for f in FUNCTIONS for name in f.names}

_VOLATILE = {
    "random", "rand", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "setseed", "txid_current",
    "now", "get_current_timestamp", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp",
    "today", "transaction_timestamp", "current_localtime", "current_localtimestamp",
}  # fmt: skip
_LISTED = "`dpsql functions` lists what can be used"
_UNSAFE: dict[str, tuple[str, str]] = {  # name: why not, and what instead
    **dict.fromkeys(
        ("error", "try"),
        ("it makes a query fail, or hides that it did, depending on single rows",
         "CASE, COALESCE and TRY_CAST give NULL where there is no value"),
    ),
    **dict.fromkeys(("sleep", "sleep_ms"), ("how long a query takes would depend on single rows", "leave it out")),
    **dict.fromkeys(
        ("repeat", "format", "printf", "bar"),
        ("one row could make it arbitrarily long", "CONCAT, SUBSTRING, LEFT, RIGHT and REPLACE make texts"),
    ),
    **dict.fromkeys(
        ("range", "generate_series", "array_fill", "list_resize", "levenshtein", "editdist3", "damerau_levenshtein",
         "jaccard", "factorial"),
        ("one row could make it arbitrarily slow", _LISTED),
    ),
    "nfc_normalize": (
        "one row could make it arbitrarily slow: its time grows with the square of a text's combining marks",
        "compare without accents: STRIP_ACCENTS(x) = STRIP_ACCENTS('é'); or normalise the data once, in their source",
    ),
    **dict.fromkeys(
        ("getenv", "current_setting", "getvariable", "current_user", "current_database", "current_schema",
         "current_schemas", "current_catalog", "version", "pg_typeof", "typeof", "stats", "write_log", "in_search_path",
         "current_query", "current_connection_id", "current_query_id", "current_transaction_id", "user",
         "session_user"),
        ("it reads the server, not the row", "leave it out, or write its value as a constant"),
    ),
    **dict.fromkeys(
        ("read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema", "read_json",
         "read_json_auto", "read_text", "read_blob", "read_ndjson", "glob", "query", "query_table", "sniff_csv",
         "iceberg_scan",
         "json_execute_serialized_sql", "json_serialize_sql", "sql_auto_complete", "which_secret", "duckdb_secrets"),
        ("it reads files or runs text as SQL", "name a table of the policy in FROM"),
    ),
    **dict.fromkeys(
        ("make_time", "make_timestamp", "make_timestamptz"),
        ("it fails on rows whose numbers are no date",
         "use MAKE_DATE(year, month, day), which is NULL where there is no such day"),
    ),
    **dict.fromkeys(
        ("hash", "md5", "sha1", "sha256", "md5_number"),
        ("it makes an identifier that reveals its value", "compare or group by the column itself"),
    ),
}  # fmt: skip
_UNSUPPORTED: dict[type[exp.Expr], tuple[str, str]] = {  # what it is called, and what instead
    exp.Collate: ("COLLATE isn't supported", "compare in lower case: LOWER(x) = 'a'"),
    exp.Glob: ("GLOB isn't supported", "use LIKE, with % for any text: x LIKE 'a%'"),
    exp.Columns: ("COLUMNS(…) stands in the SELECT list only", "name each column here"),
    **dict.fromkeys(
        (exp.Array, exp.Struct, exp.ToMap, exp.Map, exp.VarMap, exp.Bracket, exp.Unnest, exp.Explode, exp.Lambda,
         exp.Dot),
        ("lists, structs and maps can't be built or opened in a query",
         f"use columns that are numbers, texts, dates or booleans; {_LISTED}"),
    ),
}  # fmt: skip


def function_name(node: exp.Expr) -> str:
    """The name a call goes by in DuckDB."""
    written = re.match(r"(\w+)\(", as_sql(node))
    if written:
        return written[1]
    return str(node.sql_names()[0]) if isinstance(node, exp.Func) else type(node).__name__


def lookup(node: exp.Expr) -> Function | None:
    """The entry for a node, by its class, or by name where sqlglot has no class for it."""
    if isinstance(node, exp.Anonymous):
        found = _BY_NAME.get(str(node.this).lower())
        operator = found is not None and found.nodes and not any(issubclass(n, exp.Func) for n in found.nodes)
        return None if operator else found  # NEG(x) is no way to write -x
    return _BY_NODE.get(type(node))


def refusal(node: exp.Expr) -> SQLError:
    """Why a call isn't understood, with the nearest name that is."""
    name = function_name(node)
    lowered = name.lower()
    if type(node) in _UNSUPPORTED:
        message, hint = _UNSUPPORTED[type(node)]
        return refuse(SQLError, message, node, code="unsupported-expression", hint=hint)
    if lowered in _VOLATILE or isinstance(node, exp.Rand | exp.Uuid):
        message = f"{name}() gives another value each time"
        return refuse(SQLError, message, node, code="volatile-function", hint="use columns and constants only")
    if lowered in _UNSAFE:
        why, hint = _UNSAFE[lowered]
        return refuse(SQLError, f"{name}() isn't allowed: {why}", node, code="unsafe-function", hint=hint)
    if isinstance(node, exp.ToChar):  # which DuckDB's dialect writes as a CAST
        hint = "use STRFTIME: STRFTIME(ts, '%Y-%m')"
        return refuse(SQLError, "unknown function TO_CHAR", node, code="unknown-function", hint=hint)
    if isinstance(node, exp.AggFunc):
        message = f"{name} can't stand inside a row's expression"
        return refuse(SQLError, message, node, code="misplaced-aggregate", hint="aggregate in the SELECT list")
    if isinstance(node, exp.Func):
        close = nearest(name, [n for f in FUNCTIONS for n in f.names if n[0].isalpha()], cutoff=0.75)
        hint = f"did you mean {close}?" if close else _LISTED
        return refuse(SQLError, f"unknown function {name}", node, code="unknown-function", hint=hint)
    message = f"{shown(node)}: this isn't supported here"
    return refuse(SQLError, message, node, code="unsupported-expression", hint=_LISTED)


__all__ = ["FUNCTIONS", "Function", "Scalar", "Scope", "function_name", "lookup", "refusal"]
