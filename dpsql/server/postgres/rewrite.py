"""Queries of catalogs, in Postgres' SQL, as SQL for the twin that holds what the catalogs hold.

Only what is known goes there: relations of the catalogs, functions that are listed here, and constants. Everything else
isn't a query of the catalogs, and is the core's to answer or to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.frozen import dataclass
from dpsql.server.postgres.relations import FUNCTIONS, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_OIDS
from dpsql.sql.dialect import DIALECT

MAX_LENGTH = 30_000  # characters of a query; those of clients have up to 10,000
PG, INFO = "pg", "info"  # what the twin calls the schemas
_POSTGRES = Dialect.get_or_raise("postgres")
_OID = exp.DataType(this=exp.DType.UINT)
_FORBIDDEN = (
    exp.DML,
    exp.DDL,
    exp.Into,
    exp.Command,
    exp.Set,
    exp.Use,
    exp.Attach,
    exp.Pragma,
    exp.ReadCSV,
    exp.ReadParquet,
)

_KNOWN = (
    exp.Abs, exp.And, exp.Anonymous, exp.Array, exp.ArrayAgg, exp.ArrayConcat, exp.ArrayContains, exp.ArrayContainsAll,
    exp.ArrayOverlaps, exp.ArraySize, exp.ArrayToString, exp.Ascii, exp.Avg, exp.Case, exp.Cast, exp.Ceil, exp.Chr,
    exp.Coalesce, exp.Concat, exp.ConcatWs, exp.Count, exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentDate,
    exp.CurrentSchema, exp.CurrentSchemas, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentUser, exp.CurrentVersion,
    exp.DateTrunc, exp.DenseRank, exp.Exists, exp.Explode, exp.ExplodingGenerateSeries, exp.Extract, exp.FirstValue,
    exp.Floor, exp.Format, exp.GenerateSeries, exp.Greatest, exp.GroupConcat, exp.If, exp.Lag, exp.LastValue, exp.Lead,
    exp.Least, exp.Left, exp.Length, exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.MD5, exp.Max, exp.Min, exp.Nullif,
    exp.Or, exp.Posexplode, exp.Rank, exp.RegexpILike, exp.RegexpLike, exp.RegexpReplace, exp.Replace, exp.Reverse,
    exp.Right, exp.Round, exp.RowNumber, exp.SessionUser, exp.Sign, exp.SplitPart, exp.StartsWith, exp.StrPosition,
    exp.Substring, exp.Sum, exp.TimestampTrunc, exp.ToChar, exp.Trim, exp.Unnest, exp.Upper,
)  # fmt: skip
"""Functions that the parser knows by a node of their own, and that make nothing large of something small."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a query can ask about its own connection."""

    user: str
    database: str
    version: str
    settings: Mapping[str, str]


class NotOurs(Exception):
    """This isn't a query of the catalogs."""


@lru_cache(maxsize=500)
def parsed(sql: str, tables: frozenset[str]) -> exp.Query | None:
    """The tree of a query that only asks catalogs or constants; None for anything else.

    tables: the policy's, in lower case. A table of theirs is never looked for in the catalogs.
    """
    if len(sql) > MAX_LENGTH:
        return None
    try:
        tokens = _POSTGRES.tokenize(sql)
        found = _POSTGRES.parse(_simplified(sql, tokens))
        if len(found) != 1 or not isinstance(found[0], exp.Query):
            return None
        _require_ours(found[0], tables)
    except (ParseError, TokenError, NotOurs, RecursionError):
        return None
    return found[0]


def for_twin(tree: exp.Query, session: Session, values: Sequence[exp.Expr]) -> str:
    """A parsed query in the twin's SQL, with values for its parameters."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        select.set("expressions", [_with_name(one) for one in select.expressions])
    hidden = frozenset(cte.alias_or_name.lower() for cte in copy.find_all(exp.CTE))
    root = exp.Paren(this=copy)  # so that every node has a parent
    _replace(copy, lambda node: _valued(node, values))
    _replace(root.this, lambda node: _changed(node, session, hidden))
    return str(root.this.sql(dialect=DIALECT))


def _replace(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> None:
    """Put what a change makes of each node in its place; what is inside first."""
    for node in reversed(list(tree.walk())):
        changed = change(node)
        if changed is not node:
            node.replace(changed)


# ---------------------------------------------------------------- words that the parser doesn't know


_LITERALS = (TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING)
_NUMBERED = ("oid", "regtype", "regclass", "name")  # types of lists that the parser doesn't know


def _simplified(sql: str, tokens: Sequence[Token]) -> str:
    """The text without pg_catalog before names, COLLATE, and OPERATOR() around operators; oid[] lists numbers."""
    pieces, last, i = [], 0, 0
    while i < len(tokens):
        size, put = _left_out(tokens, i)
        if size:
            end = tokens[min(i + size, len(tokens)) - 1].end + 1
            pieces += [sql[last : tokens[i].start], put]
            last = end
        i += max(1, size)
    return "".join([*pieces, sql[last:]])


def _left_out(tokens: Sequence[Token], i: int) -> tuple[int, str]:
    """How many tokens from here on are left out, and what stands in their place."""
    word, following = tokens[i].text.lower(), [t.text.lower() for t in tokens[i + 1 : i + 6]]
    if tokens[i].token_type in _LITERALS:
        return 0, ""
    if word == "pg_catalog" and following[:1] == ["."]:
        return 2, ""
    if word == "information_schema" and following[:1] == ["."] and following[1:2]:
        return (0 if following[1] in INFORMATION_SCHEMA else 2), ""
    if tokens[i].token_type is TokenType.IDENTIFIER:
        return 0, ""
    if word == "operator" and following[:3] == ["(", "pg_catalog", "."] and following[4:5] == [")"]:
        return 6, tokens[i + 4].text
    if word == "collate":
        return (4 if following[1:2] == ["."] else 2), ""
    if word in _NUMBERED and following[:2] == ["[", "]"] and i and tokens[i - 1].text in ("::", "."):
        return 1, "text" if word == "name" else "bigint"
    return 0, ""


# ---------------------------------------------------------------- what may be asked


def _require_ours(tree: exp.Query, tables: frozenset[str]) -> None:
    named = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        if not _is_ours(node, named, tables):
            raise NotOurs


def _is_ours(node: exp.Expr, named: set[str], tables: frozenset[str]) -> bool:
    """named: CTEs, which have other names in the twin. Its own relations can't be named: they aren't in the lists."""
    match node:
        case exp.Table(this=exp.Identifier()):
            schema, name = node.db.lower(), node.name.lower()
            if schema == "information_schema":
                return name in INFORMATION_SCHEMA and not node.catalog
            return not schema and (name in named or (name in PG_CATALOG and name not in tables))
        case exp.Table():
            return isinstance(node.this, exp.ExplodingGenerateSeries | exp.Anonymous)
        case exp.Anonymous():
            return node.name.lower() in FUNCTIONS
        case exp.Func():
            return isinstance(node, _KNOWN)
        case _:
            return not isinstance(node, _FORBIDDEN)


# ---------------------------------------------------------------- into the twin's SQL


def _with_name(node: exp.Expr) -> exp.Expr:
    """An output column under the name that Postgres gives it: a function's, or ?column?."""
    if isinstance(node, exp.Alias | exp.Aliases | exp.Star | exp.Column | exp.Dot):
        return node
    inner: Any = node
    while isinstance(inner, exp.Cast | exp.Paren | exp.Window | exp.Filter | exp.Bracket | exp.Collate):
        inner = inner.this
    name = _POSTGRES_NAMES.get(type(inner), "?column?")
    if isinstance(inner, exp.Column | exp.Anonymous):
        name = inner.name.lower()
    elif isinstance(inner, exp.Func) and name == "?column?":
        name = inner.sql_name().lower()
    return exp.alias_(node, name, quoted=True)


_POSTGRES_NAMES = {
    exp.CurrentVersion: "version",
    exp.CurrentDatabase: "current_database",
    exp.CurrentTimestamp: "now",
    exp.GroupConcat: "string_agg",
    exp.Boolean: "bool",
    exp.And: "?column?",
    exp.Or: "?column?",
    exp.If: "case",
}


def _valued(node: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    if isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and node.this.name.isdigit():
        place = int(node.this.name)
        if not 1 <= place <= len(values):
            raise NotOurs
        return values[place - 1].copy()
    return node


def _changed(node: exp.Expr, session: Session, hidden: frozenset[str]) -> exp.Expr:
    """hidden: names of CTEs."""
    if isinstance(node, exp.Table):
        return _table(node, hidden)
    if isinstance(node, exp.CTE):
        node.args["alias"].set("this", exp.to_identifier(_called(node.alias_or_name.lower()), quoted=True))
        return node
    change = _CHANGES.get(type(node))
    return node if change is None else change(node, session)


def _table(node: exp.Table, hidden: frozenset[str]) -> exp.Expr:
    """A relation of a catalog, where the twin has it. A CTE of the same name hides it."""
    if not isinstance(node.this, exp.Identifier):
        return _function_as_table(node)
    name = node.name.lower()
    if node.db:
        node.set("db", exp.to_identifier(INFO))
    elif name not in hidden:
        node.set("db", exp.to_identifier(PG))
    elif not node.alias:
        node.set("alias", exp.TableAlias(this=node.this.copy()))
    node.set("this", exp.to_identifier(name if name not in hidden or node.db else _called(name), quoted=True))
    return node


def _called(name: str) -> str:
    """A CTE under a name that nothing else in the twin has. Outside of its scope it names nothing, and no relation of
    the engine's own."""
    return f"cte {name}"


def _function_as_table(node: exp.Table) -> exp.Expr:
    """FROM generate_series(…) AS g: the column is called like the table. A table's only ancestor is itself."""
    alias = node.args.get("alias")
    if isinstance(node.this, exp.Anonymous):
        if node.this.name.lower() != "pg_partition_ancestors" or len(node.this.expressions) != 1:
            raise NotOurs
        itself = exp.select(exp.cast(node.this.expressions[0], _OID), exp.Literal.number(1))
        return exp.Subquery(this=itself, alias=alias)
    if alias is not None and not alias.args.get("columns"):
        alias.set("columns", [alias.this.copy()])
    return node


def _text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def _named(node: exp.Anonymous, session: Session) -> exp.Expr:
    """Functions by name: those that ask about the connection, and those that are written otherwise in the twin."""
    name = node.name.lower()
    first = node.expressions[0] if node.expressions else None
    if name == "current_setting":
        asked = first.name.lower() if isinstance(first, exp.Literal) else ""
        return _text(session.settings[asked]) if asked in session.settings else exp.Null()
    if name == "set_config":
        asked = first.name.lower() if isinstance(first, exp.Literal) else "dpsql."
        if asked.startswith("dpsql."):
            raise NotOurs  # SET says it, and nothing else
        return node.expressions[1] if len(node.expressions) > 1 else exp.Null()
    if name in ("getpgusername", "current_role"):
        return _text(session.user)
    if name == "_pg_expandarray":
        return exp.Explode(this=exp.Anonymous(this="pg_expanded", expressions=node.expressions))
    if name == "json_build_object":
        return _json(node.expressions)
    if name == "all" and first is not None:
        return exp.All(this=exp.Paren(this=first))
    return exp.Anonymous(this=name, expressions=node.expressions)


def _formatted(node: exp.Format, _: Session) -> exp.Expr:
    """format('%I.%I', a, b) as a text that is put together; names are taken as they are."""
    if not isinstance(node.this, exp.Literal):
        raise NotOurs
    texts = re.split("%[IsL]", node.this.name)
    if len(texts) != len(node.expressions) + 1:
        raise NotOurs
    found: exp.Expr = _text(texts[0])
    for value, after in zip(node.expressions, texts[1:], strict=True):
        found = exp.DPipe(this=exp.DPipe(this=found, expression=value.copy()), expression=_text(after))
    return exp.Paren(this=found)


def _json(pairs: Sequence[exp.Expr]) -> exp.Expr:
    """The text of an object of these names and values."""
    pieces = [exp.Anonymous(this="pg_json", expressions=[one]) for one in pairs]
    found: exp.Expr = _text("{")
    for i, piece in enumerate(pieces):
        before = "" if i == 0 else ", " if i % 2 == 0 else ": "
        found = exp.DPipe(this=exp.DPipe(this=found, expression=_text(before)), expression=piece)
    return exp.Paren(this=exp.DPipe(this=found, expression=_text("}")))


def _column(node: exp.Column, session: Session) -> exp.Expr:
    name = node.name.lower()
    if name in ("user", "current_role") and not node.table and not node.this.quoted:
        return _text(session.user)
    if name in ("tableoid", "xmin", "ctid"):
        relation = _relation_of(node)
        return exp.Literal.number(SYSTEM_OIDS.get(relation, 0) if name == "tableoid" else 1)
    return node


def _relation_of(node: exp.Column) -> str:
    """The relation that a qualified column belongs to, by its alias in the same query."""
    scope = node.find_ancestor(exp.Select)
    for table in scope.find_all(exp.Table) if scope is not None else ():
        if table.alias_or_name.lower() == node.table.lower():
            return str(table.name.lower())
    return ""


def _cast(node: exp.Cast, _: Session) -> exp.Expr:
    """A cast to a type that the twin lacks: names and one-letter texts are texts, numbers of the catalog's are such."""
    to = node.to
    if isinstance(to, exp.ObjectIdentifier):
        return _object(node, to.name.upper())
    kind = to.sql(dialect="postgres").lower().strip('"')
    if kind in ("name", "char", "bpchar", "text", "varchar", "inet", "cstring") or to.this == exp.DType.USERDEFINED:
        node.set("to", exp.DataType.build("text"))
        if kind in ("xid", "cid"):
            node.set("to", exp.DataType.build("bigint"))
    elif to.this == exp.DType.ARRAY and isinstance(node.this, exp.Literal) and node.this.is_string:
        return exp.Anonymous(this="pg_array", expressions=[node.this]) if kind.startswith(("text", "varchar")) else node
    return node


def _object(node: exp.Cast, kind: str) -> exp.Expr:
    """Casts of names to numbers of the catalog's and back: 't'::regclass is a number, c.oid::regclass a name."""
    value = node.this
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    if kind == "OID":
        return exp.cast(value, _OID) if not isinstance(inner, exp.Subquery | exp.Anonymous) else value
    if kind in ("REGPROC", "REGPROCEDURE", "REGOPER", "REGOPERATOR", "REGROLE", "REGCONFIG"):
        return exp.cast(value, "text")
    finder = {"REGCLASS": "pg_class_named", "REGTYPE": "pg_type_named", "REGNAMESPACE": "pg_namespace_named"}.get(kind)
    if finder is None:
        raise NotOurs
    if isinstance(inner, exp.Literal) and inner.name.isdigit():
        return exp.cast(value, _OID)
    is_text = isinstance(inner, exp.Literal) and inner.is_string
    is_text = is_text or isinstance(inner, exp.DPipe | exp.Concat)
    if isinstance(inner, exp.Cast) and inner.to.this in exp.DataType.TEXT_TYPES:
        is_text = True
    name = finder if is_text else finder.replace("_named", "_name")
    return exp.Anonymous(this=name, expressions=[value])


def _any(node: exp.Any, _: Session) -> exp.Expr:
    """= ANY('{a,b}'): the text is an array."""
    inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if isinstance(inner, exp.Literal) and inner.is_string:
        node.set("this", exp.Paren(this=exp.Anonymous(this="pg_array", expressions=[inner])))
    return node


_CHANGES: dict[type, Callable[[Any, Session], exp.Expr]] = {
    exp.Anonymous: _named,
    exp.Column: _column,
    exp.Cast: _cast,
    exp.Any: _any,
    exp.Format: _formatted,
    exp.CurrentDatabase: lambda _, s: _text(s.database),
    exp.CurrentCatalog: lambda _, s: _text(s.database),
    exp.CurrentUser: lambda _, s: _text(s.user),
    exp.SessionUser: lambda _, s: _text(s.user),
    exp.CurrentVersion: lambda _, s: _text(s.version),
    exp.CurrentSchema: lambda _, s: _text("public"),
}
