"""SELECT RANDOMIZED_RESPONSE(x): rows that leave one by one, each value randomised by itself (Theorem RR-1).

What stands below is a table whose rows are their own units, and nothing else: whether a row is there, or how often,
must not depend on what it holds. What stands above is post-processing like over any release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.core.errors import PrivacyError
from dpsql.plan.nodes import Expr, Release, Responses, Scan, scanned
from dpsql.plan.refusals import only_counted
from dpsql.plan.rows import Rows
from dpsql.policy.model import RowUnit
from dpsql.sql.nodes import holds_aggregate, is_privacy_unit, is_randomized
from dpsql.sql.refuse import Place, offsets, refuse, shown
from dpsql.sql.trees import rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder

CODE = "randomized-response"
_PLACES = ("expressions", "order")  # the parts of a SELECT in which it may stand; ORDER BY by an output's name
_AROUND = "SELECT … FROM (SELECT RANDOMIZED_RESPONSE(x) AS x FROM t)"


def holds_response(node: exp.Select) -> bool:
    """Does a SELECT randomise values itself?"""
    return any(_calls(output) for output in node.selects)


def _calls(node: Expr) -> list[Expr]:
    return [e for e in _own(node) if is_randomized(e)]


def _own(node: Expr) -> Iterator[Expr]:
    """A node and its descendants, without those in queries of their own."""
    if not isinstance(node, exp.Query):
        yield node
        for child in node.iter_expressions():
            yield from _own(child)


def check_places(node: exp.Select) -> None:
    """RANDOMIZED_RESPONSE stands in the list of a SELECT, and nowhere else."""
    for part, value in node.args.items():
        if part in _PLACES:
            continue
        for one in value if isinstance(value, list) else [value]:
            for call in _calls(one) if isinstance(one, exp.Expr) else []:
                raise _refuse(
                    "RANDOMIZED_RESPONSE can only stand in the SELECT list",
                    call,
                    f"randomise in a subquery, and look at its results: {_AROUND} WHERE …",
                )


def no_private_rows(node: exp.Select) -> PrivacyError:
    """RANDOMIZED_RESPONSE of results or of public rows."""
    call = next(c for output in node.selects for c in _calls(output))
    return _refuse(
        "RANDOMIZED_RESPONSE randomises a column of a private table, and there is none here",
        call,
        "leave it out: results and public tables may be shown as they are",
    )


def check_alone(releases: tuple[Release, ...], responses: tuple[tuple[str, Responses], ...]) -> None:
    """A query releases randomised rows, or aggregates."""
    if releases and responses:
        raise _refuse(
            "a query with RANDOMIZED_RESPONSE has no other aggregates of private rows",
            responses[0][1].calls,
            "ask for them in a query of their own; both are charged to the same account",
        )


def responses(builder: Builder, node: exp.Select, rows: Rows) -> exp.Select:
    """A noisy table of randomised rows, and the rest of the SELECT over it."""
    first = next(c for output in node.selects for c in _calls(output))
    scan = _table(builder, node, rows, first)
    _check_parts(node, first)
    names: list[str] = []
    calls: list[Expr] = []
    places: list[exp.Column] = []

    def rewrite(e: Expr) -> Expr:
        if is_randomized(e):
            name = _column(builder, e, rows)
            if name not in names:
                names.append(name)
                calls.append(e)
            place = exp.Column(this=exp.to_identifier(f"a{names.index(name)}", quoted=True))
            places.append(place)
            return place
        if isinstance(e, exp.Column):
            raise _refuse(
                f"{shown(e)} can't leave as it is beside RANDOMIZED_RESPONSE: it tells whose row it is",
                e,
                f"randomise it, too: RANDOMIZED_RESPONSE({shown(e)}); or leave it out",
            )
        if is_privacy_unit(e):
            raise only_counted(e)
        if isinstance(e, exp.Query | exp.Window) or holds_aggregate(e):
            if isinstance(e, exp.Alias | exp.Paren | exp.Ordered | exp.Order):
                return rebuilt(e, rewrite)
            raise _refuse(
                "aggregates, windows and subqueries can't stand beside RANDOMIZED_RESPONSE",
                e,
                f"put them into a query around it: {_AROUND}",
            )
        return rebuilt(e, rewrite)

    post = exp.Select()
    post.set("expressions", [rewrite(o) for o in node.selects])
    if order := node.args.get("order"):
        post.set("order", rewrite(order))
    for part in ("limit", "offset"):
        if clause := node.args.get(part):
            post.set(part, clause.copy())
    used = dict(scan.columns)
    narrow = Scan(scan.table, tuple((name, used[name]) for name in names), None, node=scan.node)
    table = exp.to_identifier(builder.add(Responses(narrow, tuple(names), tuple(calls))), quoted=True)
    for place in places:
        place.set("table", table.copy())
    post.set("from_", exp.From(this=exp.Table(this=table)))
    return post


def _table(builder: Builder, node: exp.Select, rows: Rows, call: Expr) -> Scan:
    """The table that is randomised. Under replace_one neighbours have the same number of rows, each its own unit."""
    scan = scanned(rows.relation)
    table = builder.policy.tables[scan.table]
    if not isinstance(table.unit, RowUnit):
        raise _refuse(
            f"RANDOMIZED_RESPONSE shows row by row, and in {table.name} a unit is not a row",
            call,
            'it needs a table with unit = "row"; here, aggregate: SELECT x, COUNT(*) … GROUP BY x',
        )
    if builder.policy.privacy.adjacency != "replace_one":
        raise _refuse(
            'RANDOMIZED_RESPONSE shows how many rows there are, which adjacency = "add_remove" protects',
            call,
            'it needs [privacy] adjacency = "replace_one"; here, aggregate: SELECT x, COUNT(*) … GROUP BY x',
        )
    if node.args.get("where"):
        raise _refuse(
            "WHERE below RANDOMIZED_RESPONSE: whether a row is there would depend on what it holds",
            node.args["where"].this,
            f"filter by randomised values in a query around it: {_AROUND} WHERE …",
        )
    if node.args.get("joins"):
        raise _refuse(
            "a join below RANDOMIZED_RESPONSE: how often a row is there would depend on what it holds",
            [j.this for j in node.args["joins"]],
            f"join randomised values in a query around it: {_AROUND} AS r JOIN …",
        )
    if not isinstance(rows.relation, Scan):
        raise _refuse(
            f"RANDOMIZED_RESPONSE needs the rows of {table.name} as they are: all of them, and each once",
            call,
            f"filter, join, group and combine results instead: {_AROUND}",
        )
    return rows.relation


def _check_parts(node: exp.Select, call: Expr) -> None:
    for part, word in (("group", "GROUP BY"), ("having", "HAVING"), ("qualify", "QUALIFY"), ("distinct", "DISTINCT")):
        if clause := node.args.get(part):
            raise _refuse(
                f"{word} can't stand beside RANDOMIZED_RESPONSE",
                clause if list(clause.iter_expressions()) else call,
                f"put it into a query around it: {_AROUND}",
            )


def _column(builder: Builder, call: Expr, rows: Rows) -> str:
    """The plan column that a call randomises."""
    argument = call.expressions[0]
    found = builder.column(argument, rows) if isinstance(argument, exp.Column) else None
    if not isinstance(found, exp.Column):
        raise _refuse(
            "RANDOMIZED_RESPONSE takes a column of the table as it stands, not an expression",
            argument if offsets(argument) else call,
            "randomise the column, and compute with the result: NOT RANDOMIZED_RESPONSE(x)",
        )
    return found.name


def _refuse(message: str, place: Place, hint: str) -> PrivacyError:
    return refuse(PrivacyError, message, place, code=CODE, hint=hint)
