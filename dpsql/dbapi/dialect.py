"""The dialect of SQLAlchemy: create_engine("dpsql:///policy.toml?epsilon=0.5"). Tables and columns are the policy's."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import event, exc, types
from sqlalchemy.engine import Engine, default, reflection
from sqlalchemy.engine.url import URL
from sqlalchemy.sql import compiler

from dpsql.core.types import Type

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn

    from dpsql.dbapi.connection import Connection
    from dpsql.policy.model import Column, Table

SCHEMA = "main"
MOST_SHOWN = 20  # values in a comment

_TYPES: dict[str, types.TypeEngine[Any]] = {
    "BOOLEAN": types.Boolean(),
    "TINYINT": types.SmallInteger(),
    "UTINYINT": types.SmallInteger(),
    "SMALLINT": types.SmallInteger(),
    "USMALLINT": types.Integer(),
    "INTEGER": types.Integer(),
    "UINTEGER": types.BigInteger(),
    "BIGINT": types.BigInteger(),
    "UBIGINT": types.BigInteger(),
    "HUGEINT": types.Numeric(38, 0),
    "FLOAT": types.Float(),
    "DOUBLE": types.Double(),
    "VARCHAR": types.String(),
    "DATE": types.Date(),
    "TIME": types.Time(),
    "UUID": types.String(),
    "BLOB": types.LargeBinary(),
    "INTERVAL": types.Interval(),
}


class Compiler(compiler.SQLCompiler):
    """Queries as DuckDB reads them."""

    def limit_clause(self, select: Any, **named: Any) -> str:
        """LIMIT and OFFSET, each where it is asked for."""
        parts = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))
        return "".join(f"\n {word} {self.process(part, **named)}" for word, part in parts if part is not None)


class TypeCompiler(compiler.GenericTypeCompiler):
    """Types as DuckDB reads them: its FLOAT has 32 bits."""

    def visit_FLOAT(self, type_: types.Float[Any], **_: Any) -> str:
        return "DOUBLE"


class Dialect(default.DefaultDialect):
    """What SQLAlchemy needs to know."""

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_alter = False
    supports_sane_rowcount = False
    statement_compiler = Compiler
    type_compiler_cls = TypeCompiler

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """dpsql.dbapi."""
        import dpsql.dbapi

        return dpsql.dbapi

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Who gets a connection from a pool finds no ε on it that somebody else has set."""
        event.listen(engine, "checkin", _reset)

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """The policy's path and the options: dpsql:///relative/policy.toml, dpsql:////absolute/policy.toml?epsilon=1"""
        if url.host or url.username or url.port:
            raise exc.ArgumentError(f"{url}: write three slashes before the path: dpsql:///policy.toml")
        several = [name for name, value in url.query.items() if not isinstance(value, str)]
        if several:
            raise exc.ArgumentError(f"{several[0]} stands twice in {url}")
        return [url.database or "policy.toml"], dict(url.query)

    # ---------------------------------------------------------------- transactions: there are none

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[Any]:
        """One: what was paid stays paid."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """See above."""
        return "AUTOCOMMIT"

    get_default_isolation_level = get_isolation_level

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """There is one alone."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """It is there until it is closed; a query would be noted in the ledger."""
        dbapi_connection.require_open()
        return True

    def _get_server_version_info(self, connection: Any) -> Any:
        return None

    def _get_default_schema_name(self, connection: Any) -> str:
        return SCHEMA

    # ---------------------------------------------------------------- what there is, from the policy

    @reflection.cache
    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """One."""
        return [SCHEMA]

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The policy's tables."""
        return [table.name for table in _tables(connection, schema).values()]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Is it one of the policy's?"""
        return table_name.lower() in _tables(connection, schema)

    @reflection.cache
    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """Its columns that can be asked about, with their types, and what the policy says of them as a comment."""
        table = _table(connection, table_name, schema)
        engine = _opened(connection).engine
        listed = table.name.lower() in engine.unlisted
        return [
            _column(name, kind, table)
            for name, kind in engine.schema[table.name.lower()]
            if not listed or name.lower() in table.columns
        ]

    @reflection.cache
    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """Whether it is public."""
        public = _table(connection, table_name, schema).public
        return {"text": "public" if public else "private: answers are aggregates with noise"}

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """None."""
        return []

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """None is told."""
        _table(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _none(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """None are told."""
        _table(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none


def _reset(dbapi_connection: Any, _: Any) -> None:
    if dbapi_connection is not None:
        dbapi_connection.reset()


def _opened(connection: Any) -> Connection:
    opened: Connection = connection.connection.dbapi_connection
    return opened


def _tables(connection: Any, schema: str | None) -> dict[str, Table]:
    if schema not in (None, SCHEMA):
        return {}
    return dict(_opened(connection).engine.policy.tables)


def _table(connection: Any, name: str, schema: str | None) -> Table:
    found = _tables(connection, schema).get(name.lower())
    if found is None:
        raise exc.NoSuchTableError(name)
    return found


def _column(name: str, kind: str, table: Table) -> ReflectedColumn:
    known, listed = Type.parse(kind), table.columns.get(name.lower())
    found: ReflectedColumn = {
        "name": name,
        "type": _type(known),
        "nullable": listed is None or listed.nullable is not False,
        "default": None,
    }
    if listed is not None and (said := "; ".join(_said(listed))):
        found["comment"] = said
    return found


def _type(known: Type) -> types.TypeEngine[Any]:
    if known.is_decimal:
        return types.Numeric(known.width, known.scale)
    if known.is_timestamp:
        return types.DateTime(timezone=known.has_zone)
    if known.is_text:
        return types.String()
    return _TYPES.get(known.name, types.NULLTYPE)


def _said(column: Column) -> Iterable[str]:
    """What the policy says of a column's values, for people."""
    if column.min is not None and column.max is not None:
        yield f"from {_plain(column.min)} to {_plain(column.max)}"
    if column.values is not None:
        shown = ", ".join(str(value) for value in column.values[:MOST_SHOWN])
        yield f"one of {shown}{', …' if len(column.values) > MOST_SHOWN else ''}"
    if column.references is not None:
        yield f"one of {column.references.table}.{column.references.column}"


def _plain(bound: object) -> str:
    return f"{float(bound):g}" if isinstance(bound, Fraction) else str(bound)
