"""What one statement asks, and its answer: from the connection's settings, from the catalogs, or from the core.

No ε is assumed here, not even the policy's query_epsilon: a query is paid for only where the connection or its own text
names a price (attack 53). Without one, what is free or stored is answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from dpsql.answer.model import Answer
from dpsql.core.errors import EngineError, Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.parameters import Parameters
from dpsql.dbapi.settings import keywords, said_in
from dpsql.server.core import Core, Who
from dpsql.server.postgres import rewrite, types
from dpsql.server.postgres.results import Field, Refused, Result, answered, fields_of, texts, wire_of_type
from dpsql.server.postgres.settings import VERSION_TEXT, Settings
from dpsql.server.postgres.twin import Twin
from dpsql.server.postgres.types import wire_of
from dpsql.server.postgres.values import parameter_types
from dpsql.sql.dialect import DIALECT

T = TypeVar("T")
Arrow = Any

_DIALECT = Dialect.get_or_raise(DIALECT)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
_TRANSACTIONS = {
    "BEGIN": "BEGIN", "START": "START TRANSACTION", "COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK", "SAVEPOINT": "SAVEPOINT", "RELEASE": "RELEASE",
}  # fmt: skip
_NOTHING = {"DEALLOCATE": "DEALLOCATE", "CLOSE": "CLOSE CURSOR", "UNLISTEN": "UNLISTEN"}
_UNSERVED = {
    "COPY": "answers are fetched by SELECT; psql writes one to a file with \\g FILE",
    "DECLARE": "there are no cursors by name; a client that fetches by portals (fetch size) works",
    "FETCH": "there are no cursors by name; a client that fetches by portals (fetch size) works",
    "LISTEN": "nothing is ever notified",
    "PREPARE": "prepare by your driver: it does so in the protocol",
    "EXECUTE": "prepare by your driver: it does so in the protocol",
}
HOW_TO_NAME_EPSILON = (
    "name one for what follows: SET dpsql.epsilon = 0.1\n"
    "or for the connection: options=-c dpsql.epsilon=0.1\n"
    "or in the query: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) …\n"
    "EXPLAIN shows what a query would cost, and is free"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. verb: its first word. catalog: its tree, where it only asks catalogs or constants."""

    sql: str
    verb: str
    parameters: tuple[int, ...] = ()
    catalog: exp.Query | None = None


class Waiting(Protocol):
    """Does something that may take long, and is given up where the client asks for that.

    The work is told how to find out whether it is still wanted, before it pays for anything.
    """

    def __call__(self, work: Callable[[Callable[[], bool]], T]) -> T: ...


class Asker:
    """Answers the statements of one connection."""

    def __init__(self, core: Core, twin: Twin, who: Callable[[], Who], settings: Settings, waiting: Waiting) -> None:
        """who: asks again who this is, since a token may be revoked at any time."""
        self._core, self._twin, self._who = core, twin, who
        self.settings = settings
        self._waiting = waiting
        self.in_transaction = False

    # ---------------------------------------------------------------- before it is run

    def prepared(self, sql: str, said: Sequence[int] = ()) -> Statement:
        """What a text asks. said: types of its parameters, as far as the client says."""
        verb = _FIRST_WORD.match(sql)
        word = verb[1].upper() if verb else ""
        start = verb.start(1) if verb else 0
        sql = "".join(c if c == "\n" else " " for c in sql[:start]) + sql[start:]  # comments before it
        if word in ("SELECT", "WITH", "VALUES", "TABLE", ""):
            schema = self._twin.schema(self._who())
            tree = rewrite.parsed(sql, schema.tables)
            found = parameter_types(sql, said, schema.columns)
            return Statement(sql if tree is not None else unqualified(sql, schema.tables), word, found, tree)
        return Statement(sql, word, parameter_types(sql, said, {}))

    def described(self, statement: Statement, values: Sequence[Any] | None) -> tuple[Field, ...] | None:
        """The columns that a statement will have, at no price; None where it has none.

        values: of its parameters; None: they aren't known yet, and others of their types stand for them.
        """
        if statement.catalog is not None:
            return self._catalog(statement, values).fields
        match statement.verb:
            case "EXPLAIN":
                return (Field("QUERY PLAN", wire_of(texts("QUERY PLAN", []).schema.field(0).type)),)
            case "SHOW" if self.settings.is_shown(statement.sql):
                return self._show(statement.sql).fields
            case "SHOW" | "DESCRIBE" | "DESC":
                return self._free(statement.sql, {}).fields
            case "SELECT" | "WITH" | "VALUES" | "TABLE" | "FROM" | "":
                known = _stand_ins(statement.parameters) if values is None else values
                return self._columns(statement.sql, known)
            case _:
                return None

    def _columns(self, sql: str, values: Sequence[Any]) -> tuple[Field, ...]:
        word = "DESCRIBE "
        try:
            options = {n: v for n, v in self._options(sql, values).items() if n != "fresh"}
            answer = self._asked_free(word + sql, options)
        except Error as error:
            raise _moved(error, len(word)) from None
        assert answer is not None  # what there is to ask is free
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        return tuple(Field(str(row["column_name"]), wire_of_type(str(row["column_type"]))) for row in rows)

    # ---------------------------------------------------------------- running it

    def run(self, statement: Statement, values: Sequence[Any]) -> Result:
        """The answer to a statement."""
        if statement.catalog is not None:
            return self._catalog(statement, values)
        sql, verb = statement.sql, statement.verb
        if verb in _TRANSACTIONS:
            return self._transaction(sql, verb)
        if verb in _NOTHING:
            return Result(_NOTHING[verb])
        if verb in _UNSERVED:
            raise Refused("0A000", f"{verb} isn't served", _UNSERVED[verb])
        match verb:
            case "SET" | "RESET":
                return Result(verb, notices=tuple(self.settings.change(sql)))
            case "DISCARD":
                what = sql.upper().replace(";", " ").split()[-1]
                if what == "ALL":
                    self.settings.reset()
                return Result(f"DISCARD {what}")
            case "SHOW" if self.settings.is_shown(sql):
                return self._show(sql)
            case "SHOW" | "DESCRIBE" | "DESC":
                return self._free(sql, {})
            case "EXPLAIN":
                return self._explained(sql, values)
            case _:
                return self._query(sql, values)

    def _transaction(self, sql: str, verb: str) -> Result:
        """Nothing is ever rolled back: what was paid stays paid. So these only say where clients believe they are."""
        words = sql.upper().replace(";", " ").split()
        if verb in ("BEGIN", "START"):
            self.in_transaction = True
        elif verb in ("COMMIT", "END", "ABORT") or (verb == "ROLLBACK" and "TO" not in words):
            self.in_transaction = False
        return Result(_TRANSACTIONS[verb])

    def _show(self, sql: str) -> Result:
        names, rows = self.settings.show(sql)
        table = pa.table(
            [pa.array([row[i] for row in rows], pa.string()) for i in range(len(names))], names=list(names)
        )
        return Result("SHOW", fields_of(table), table)

    def _catalog(self, statement: Statement, values: Sequence[Any] | None) -> Result:
        who = self._who()
        session = rewrite.Session(who.name, "dpsql", VERSION_TEXT, self.settings.values)
        known = [_typed_null(oid) for oid in statement.parameters] if values is None else list(map(_literal, values))
        tree = statement.catalog
        assert tree is not None

        def look() -> Arrow:
            try:
                return self._twin.run(who, rewrite.for_twin(tree, session, known))
            except (EngineError, rewrite.NotOurs, RecursionError):
                raise SQLError(
                    "the catalogs can't answer this",
                    code="catalog",
                    hint="SHOW TABLES and DESCRIBE t tell what there is; the catalogs imitate Postgres' as far as "
                    "clients ask",
                ) from None

        table = self._core.catalog(who, statement.sql, look)
        return Result(f"SELECT {table.num_rows}", fields_of(table, oids=True), table)

    def _explained(self, sql: str, values: Sequence[Any]) -> Result:
        blank = re.compile(r"\bEXPLAIN\b(?:\s*\([^)]*\)|\s+(?:ANALYZE|VERBOSE)\b)*", re.IGNORECASE)
        found = blank.search(sql)
        assert found is not None
        rest = sql[: found.start()] + " " * (found.end() - found.start()) + sql[found.end() :]
        rest = unqualified(rest, self._twin.schema(self._who()).tables)
        options = self._options(rest, values)
        if not {"epsilon", "accuracy"} & {*options, *said_in(rest, _parameters(values))}:
            raise _no_epsilon()
        explained = self._waiting(
            lambda wanted: self._twin.turns.free(wanted, self._who(), self._core.explain, rest, options)
        )
        table = texts("QUERY PLAN", str(explained).splitlines())
        return Result("EXPLAIN", fields_of(table), table)

    def _options(self, sql: str, values: Sequence[Any]) -> dict[str, Any]:
        options = keywords(self.settings.request, said_in(sql, _parameters(values)))
        return {**options, "params": list(values)} if values else options

    def _query(self, sql: str, values: Sequence[Any]) -> Result:
        options = self._options(sql, values)
        named = {"epsilon", "accuracy"} & {*options, *said_in(sql, _parameters(values))}
        if named:
            answer = self._waiting(
                lambda wanted: self._twin.turns.paid(wanted, self._who(), self._core.query, sql, options)
            )
            return answered(answer, self._core.warning(self._who()))
        return self._free(sql, options)

    def _free(self, sql: str, options: Mapping[str, Any]) -> Result:
        fresh = options.get("fresh", False)
        bare = {name: value for name, value in options.items() if name != "fresh"}
        found = None if fresh else self._asked_free(sql, bare)
        if found is None:
            raise _no_epsilon()
        return answered(found)

    def _asked_free(self, sql: str, options: Mapping[str, Any]) -> Answer | None:
        return self._waiting(lambda wanted: self._twin.turns.free(wanted, self._who(), self._core.free, sql, options))


def _no_epsilon() -> PrivacyError:
    return PrivacyError("this costs something, and no ε was named", code="no-epsilon", hint=HOW_TO_NAME_EPSILON)


def _parameters(values: Sequence[Any]) -> Parameters | None:
    return Parameters.of(list(values)) if values else None


def _stand_ins(parameters: Sequence[int]) -> list[Any]:
    """Values that stand for parameters which aren't known yet: growing ones, as ranges have a low and a high end."""
    found: list[Any] = []
    for n, oid in enumerate(parameters, 1):
        match oid:
            case types.BOOL:
                found.append(True)
            case types.DATE:
                found.append(date(2000, 1, 1) + timedelta(days=n))
            case types.TIMESTAMP | types.TIMESTAMPTZ:
                found.append(datetime(2000, 1, 1) + timedelta(days=n))
            case types.INT2 | types.INT4 | types.INT8 | types.NUMERIC | types.FLOAT4 | types.FLOAT8:
                found.append(n)
            case _:
                found.append(str(n))
    return found


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, list):
        return exp.Array(expressions=[_literal(one) for one in value])
    return exp.convert(value)


_SQL_TYPES = {
    types.BOOL: "boolean", types.INT2: "smallint", types.INT4: "int", types.INT8: "bigint", types.OID: "bigint",
    types.FLOAT4: "real", types.FLOAT8: "double", types.NUMERIC: "decimal(38, 10)", types.DATE: "date",
    types.TIMESTAMP: "timestamp", types.TIMESTAMPTZ: "timestamptz",
}  # fmt: skip


def _typed_null(oid: int) -> exp.Expr:
    element = next((one for one, array in types.ARRAYS.items() if array == oid), None)
    if element is not None:
        return exp.cast(exp.Array(expressions=[]), f"{_SQL_TYPES.get(element, 'text')}[]")
    return exp.cast(exp.Null(), _SQL_TYPES.get(oid, "text"))


def _moved(error: Error, by: int) -> Error:
    """An error that points into a text with so many characters before it, as one that points into the text itself."""
    if error.span is not None and error.span.line == 1:
        error.span = replace(error.span, column=max(1, error.span.column - by))
    error.source = None if error.source is None else error.source[by:]
    return error


def unqualified(sql: str, tables: frozenset[str]) -> str:
    """The text without `public.` before names, as BI tools write them; blanks keep every character in its place.

    Left alone where `public` is a name of the query's own.
    """
    try:
        tokens = _DIALECT.tokenize(sql)
    except TokenError:
        return sql
    words = [t.text.lower() for t in tokens]
    places = [i for i, word in enumerate(words[:-1]) if word == "public" and words[i + 1] == "."]
    alone = any(word == "public" and words[i + 1 : i + 2] != ["."] for i, word in enumerate(words))
    if alone or "public" in tables:
        return sql
    for i in reversed(places):
        first = tokens[i - 2] if i >= 2 and words[i - 2 : i] == ["dpsql", "."] else tokens[i]
        start, end = first.start, tokens[i + 1].end + 1
        sql = sql[:start] + " " * (end - start) + sql[end:]
    return sql
