"""parse: text -> Tree. sqlglot, DuckDB dialect, exactly one query statement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dpsql.errors import Span, SQLError

DIALECT = "duckdb"
MAX_LENGTH = 100_000

_NOW = {"now", "get_current_timestamp", "transaction_timestamp", "current_localtimestamp", "localtimestamp"}


@dataclass(frozen=True, slots=True)
class Tree:
    """One parsed query and the text it came from. The root is never changed: stages copy what they rewrite."""

    text: str
    root: exp.Query


def parse(text: str) -> Tree:
    """Parse exactly one query; everything else (DDL, PRAGMA, COPY, two statements …) is refused here."""
    if len(text) > MAX_LENGTH:
        raise SQLError(f"the query is longer than {MAX_LENGTH:,} characters", code="too-long", hint="shorten it")
    try:
        statements = [s for s in sqlglot.parse(text, dialect=DIALECT) if s is not None]
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except TokenError as error:
        raise SQLError(
            f"the SQL can't be read: {str(error).splitlines()[0]}", code="syntax", hint="check quotes and comments"
        ) from None
    except RecursionError:
        raise SQLError("the query is nested too deeply", code="too-deep", hint="split it into CTEs") from None
    statements = [s for s in statements if not isinstance(s, exp.Semicolon)]
    if not statements:
        raise SQLError("there is no query in the text", code="empty", hint='write a query: "SELECT COUNT(*) FROM t"')
    if len(statements) > 1:
        raise SQLError(
            f"{len(statements)} statements where one is allowed", code="one-statement", hint="send one query at a time"
        )
    root = statements[0]
    if not isinstance(root, exp.Query):
        raise SQLError(
            f"only queries are answered, not {type(root).__name__.upper()}",
            code="not-a-query",
            hint="write a SELECT with an aggregate: SELECT COUNT(*) FROM …",
        )
    return Tree(text, _freeze_now(root))


def _freeze_now(root: exp.Query) -> exp.Query:
    """Replace the clock by a constant, so that one query sees one time and the engine no clock at all."""
    now = datetime.now(UTC).replace(tzinfo=None)

    def constant(node: exp.Expr) -> exp.Expr:
        name = node.name.lower() if isinstance(node, exp.Anonymous) and not node.expressions else ""
        if isinstance(node, exp.CurrentDate) or name == "today":
            return exp.cast(exp.Literal.string(now.date().isoformat()), "DATE")
        if isinstance(node, exp.CurrentTimestamp | exp.Localtimestamp) or name in _NOW:
            return exp.cast(exp.Literal.string(now.isoformat(sep=" ")), "TIMESTAMP")
        return node

    frozen = root.transform(constant)
    assert isinstance(frozen, exp.Query)
    return frozen


def _syntax_error(text: str, error: ParseError) -> SQLError:
    if "DIFFERENTIAL_PRIVACY" in text.upper():
        return SQLError(
            "SELECT WITH DIFFERENTIAL_PRIVACY is not supported by this version",
            code="not-yet",
            hint="leave the clause out: every query here is private; give ε as --epsilon or epsilon=",
        )
    detail = error.errors[0] if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    span = None
    if isinstance(line, int) and isinstance(column, int):
        word = str(detail.get("highlight") or " ")
        span = Span(line, max(1, column - len(word) + 1), max(1, len(word)))
    message = str(detail.get("description") or "syntax error").rstrip(".")
    return SQLError(f"the SQL can't be parsed: {message}", code="syntax", hint="check it near the mark", span=span)
