"""What writes trees as text: sqlglot's own generator, with a shorter way for nodes in their plainest form.

sqlglot asks of every node for all that any dialect may hang on it: of the time that it takes to write a statement that
is more than half. Here a node that has nothing but what its form needs is written at once, as sqlglot writes it; every
other one, and whatever is to be laid out for people or has comments, is left to sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlglot import Dialect, exp
from sqlglot.generator import Generator

from dpsql.sql.dialect import DIALECT

Write = Callable[[Any], str]
Quick = Callable[[dict[str, Any], Write], str | None]
"""A node's text, by what it holds and by what writes a node in it; None: it isn't in its plainest form."""

MOST_TYPES = 1_000  # whose names are kept: lengths and precisions are the analyst's to choose
NAMES: dict[object, str] = {}  # of types, by dialect and kind: to write them is a third of all that is written


@cache
def writer(name: str) -> tuple[Dialect, type[Generator]]:
    """A dialect, and what writes trees in it."""
    dialect = Dialect.get_or_raise(name)
    plain: type[Generator] = dialect.generator_class
    quick = QUICK if name == DIALECT else {}

    class Writer(plain):  # type: ignore[valid-type, misc]  # each dialect has a class of its own
        def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
            if key and expression and not isinstance(expression, str):
                expression, comment = expression.args.get(key), True
            write = quick.get(expression.__class__)
            if write is not None and not self.pretty and not expression.comments:
                text = write(expression.args, self.sql)
                if text is not None:
                    return text
            return str(plain.sql(self, expression, comment=comment))

        def datatype_sql(self, expression: exp.DataType) -> str:
            kind = kind_of(expression.args)
            text = NAMES.get((name, kind))
            if text is None:
                text = str(plain.datatype_sql(self, expression))
                if kind is not None and len(NAMES) < MOST_TYPES:
                    NAMES[name, kind] = text
            return text

    try:
        Writer(dialect=dialect)
    except TypeError:  # sqlglot's compiled form (sqlglot[c]) can't be extended, and needs it less
        return dialect, plain
    return dialect, Writer


def kind_of(args: dict[str, Any]) -> object | None:
    """What the name of a type is made of: its kind and numbers; None of one that is made of other types."""
    if _more(args, "this", "expressions"):
        return None
    parameters = args.get("expressions")
    if not parameters:
        return (args["this"],)
    if not all(isinstance(p, exp.DataTypeParam) and isinstance(p.this, exp.Literal) for p in parameters):
        return None
    return (args["this"], *((p.this.this, p.args.get("expression")) for p in parameters))


# ---------------------------------------------------------------- the plainest forms


def _more(args: dict[str, Any], *usual: str) -> bool:
    """Does a node hold anything besides this?"""
    return not {key for key, value in args.items() if value}.issubset(usual)


def _list(nodes: list[Any], write: Write) -> str | None:
    if any(node.__class__ is str or node.comments for node in nodes):
        return None
    return ", ".join(text for text in map(write, nodes) if text)


def _identifier(args: dict[str, Any], write: Write) -> str | None:
    return '"' + args["this"].replace('"', '""') + '"' if args.get("quoted") else None


def _column(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "this", "table"):
        return None
    table = args.get("table")
    return f"{write(table)}.{write(args['this'])}" if table else write(args["this"])


def _literal(args: dict[str, Any], write: Write) -> str | None:
    return None if args["is_string"] else args["this"] or ""


def _star(args: dict[str, Any], write: Write) -> str | None:
    return None if _more(args) else "*"


def _alias(args: dict[str, Any], write: Write) -> str | None:
    alias = write(args.get("alias"))
    return f"{write(args.get('this'))} AS {alias}" if alias else None


def _type(args: dict[str, Any], write: Write) -> str | None:
    return NAMES.get((DIALECT, kind_of(args)))


def _either(name: str) -> Quick:
    """BOOL_AND and BOOL_OR, of whose arguments sqlglot makes booleans; one that is a cast may be one already."""

    def quick(args: dict[str, Any], write: Write) -> str | None:
        this = args.get("this")
        if this is None or isinstance(this, exp.Cast) or this.type is not None or _more(args, "this"):
            return None
        return f"{name}(CAST({write(this)} AS BOOLEAN))"

    return quick


def _null(args: dict[str, Any], write: Write) -> str | None:
    return "NULL"


def _paren(args: dict[str, Any], write: Write) -> str | None:
    return f"({write(args.get('this'))})"


def _not(args: dict[str, Any], write: Write) -> str | None:
    return f"NOT {write(args.get('this'))}"


def _cast(args: dict[str, Any], write: Write) -> str | None:
    return None if _more(args, "this", "to") else f"CAST({write(args['this'])} AS {write(args['to'])})"


def _case(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "ifs", "default"):
        return None
    whens = " ".join(f"WHEN {write(e.args.get('this'))} THEN {write(e.args.get('true'))}" for e in args["ifs"])
    default = write(args.get("default"))
    return f"CASE {whens} ELSE {default} END" if default else f"CASE {whens} END"


def _between(kind: type[exp.Expr], word: str) -> Quick:
    """An operator between two operands, which aren't operations of the same kind: sqlglot writes chains at once."""

    def quick(args: dict[str, Any], write: Write) -> str | None:
        left, right = args.get("this"), args.get("expression")
        if left.__class__ is kind or right.__class__ is kind or _more(args, "this", "expression"):
            return None
        return f"{write(left)} {word} {write(right)}"

    return quick


def _connected(word: str) -> Quick:
    def quick(args: dict[str, Any], write: Write) -> str | None:
        left, right = args.get("this"), args.get("expression")
        if isinstance(left, exp.Connector) or isinstance(right, exp.Connector) or _more(args, "this", "expression"):
            return None
        return f"{write(left)} {word} {write(right)}"

    return quick


def _table(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "this", "alias"):
        return None
    alias = write(args.get("alias"))
    return f"{write(args['this'])} AS {alias}" if alias else write(args["this"])


def _subquery(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "this", "alias"):
        return None
    inner, alias = write(args.get("this")), write(args.get("alias"))
    return f"({inner}) AS {alias}" if alias else f"({inner})"


def _table_alias(args: dict[str, Any], write: Write) -> str | None:
    return write(args.get("this")) or None if not _more(args, "this") else None


def _clause(word: str) -> Quick:
    return lambda args, write: f" {word} {write(args.get('this'))}"


def _group(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "expressions") or args.get("all") is not None:
        return None
    keys = _list(args.get("expressions") or [], write)
    return f" GROUP BY {keys}" if keys else None


def _join(args: dict[str, Any], write: Write) -> str | None:
    side, kind, on = args.get("side") or "", args.get("kind") or "", args.get("on")
    if on is None or (side, kind) not in _JOINS or _more(args, "this", "on", "side", "kind"):
        return None
    return f"{_JOINS[side, kind]} {write(args['this'])} ON {write(on)}"


_JOINS = {("", "INNER"): " INNER JOIN", ("LEFT", ""): " LEFT JOIN", ("", "SEMI"): " SEMI JOIN", ("", ""): " JOIN"}
_CLAUSES = ("where", "group", "having")


def _select(args: dict[str, Any], write: Write) -> str | None:
    if _more(args, "expressions", "from_", "joins", *_CLAUSES):
        return None
    source = args.get("from_")
    if source is not None and (source.comments or not isinstance(source.this, exp.Table | exp.Subquery)):
        return None
    outputs = _list(args.get("expressions") or [], write)
    if not outputs:
        return None
    joins = "".join(map(write, args.get("joins") or ()))
    rest = "".join(write(args.get(clause)) for clause in _CLAUSES)
    return f"SELECT {outputs}{write(source)}{joins}{rest}"


_BETWEEN: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}
QUICK: dict[type, Quick] = {
    exp.Identifier: _identifier,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Star: _star,
    exp.Null: _null,
    exp.DataType: _type,
    exp.Alias: _alias,
    exp.Paren: _paren,
    exp.Not: _not,
    exp.Cast: _cast,
    exp.Case: _case,
    exp.And: _connected("AND"),
    exp.Or: _connected("OR"),
    exp.LogicalAnd: _either("BOOL_AND"),
    exp.LogicalOr: _either("BOOL_OR"),
    exp.Table: _table,
    exp.Subquery: _subquery,
    exp.TableAlias: _table_alias,
    exp.From: _clause("FROM"),
    exp.Where: _clause("WHERE"),
    exp.Having: _clause("HAVING"),
    exp.Group: _group,
    exp.Join: _join,
    exp.Select: _select,
    **{kind: _between(kind, word) for kind, word in _BETWEEN.items()},
}
"""How DuckDB's SQL is written where nothing unusual is."""
