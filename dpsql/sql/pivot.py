"""PIVOT and UNPIVOT, written as what they stand for: aggregates with FILTER, and a UNION ALL of one SELECT a column.

DuckDB compares the values of a PIVOT as text, so the same is done here. No pass of rewrite: what a PIVOT stands for
depends on the columns of its source, which are known once that is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.names import output_name
from dpsql.sql.nodes import is_aggregate
from dpsql.sql.refuse import Place, offsets, refuse, shown

MAX_COLUMNS = 500

_Value = tuple[str, exp.Expr]  # what a value adds to a column's name, and the condition it stands for


def statement(root: exp.Pivot) -> exp.Select:
    """PIVOT t ON … as a query: SELECT * FROM (PIVOT t ON …)."""
    inner = root.copy()
    query = exp.select("*").from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("pivot"))))
    if (clause := inner.args.get("with_")) is not None:
        inner.set("with_", None)
        query.set("with_", clause)
    return query


def pivot_query(pivot: exp.Pivot, source: exp.Expr, columns: Callable[[], Sequence[str]]) -> exp.Query:
    """The query that a PIVOT or UNPIVOT of this source stands for; `columns` finds those of the source."""
    return _unpivoted(pivot, source, columns()) if pivot.args.get("unpivot") else _pivoted(pivot, source, columns)


# ---------------------------------------------------------------- PIVOT


def _pivoted(pivot: exp.Pivot, source: exp.Expr, columns: Callable[[], Sequence[str]]) -> exp.Select:
    apart = pivot.args.get("fields")  # FROM t PIVOT (… FOR x IN …); else PIVOT t ON x IN … USING …
    fields = (apart or pivot.expressions) or []
    calls = (pivot.expressions if apart else pivot.args.get("using")) or [exp.Count(this=exp.Star())]
    if not fields:
        raise _refused("PIVOT needs a column and its values", pivot, "write PIVOT t ON x IN ('a', 'b') USING SUM(y)")
    values = [_values(f) for f in fields]
    if prod(len(v) for v in values) * len(calls) > MAX_COLUMNS:
        raise _refused(f"PIVOT makes more than {MAX_COLUMNS} columns", fields, "list fewer values")
    clause = pivot.args.get("group")
    used = {c.name.lower() for e in (*fields, *calls) for c in e.find_all(exp.Column)}
    if clause is not None:
        named = clause.expressions
    else:
        named = [_name(c, source) for c in columns() if c.lower() not in used]
    outputs: list[exp.Expr] = [k.copy() for k in named]
    for cell in product(*values):
        condition = exp.and_(*(c.copy() for _, c in cell), copy=False)
        for call in calls:
            parts = [text for text, _ in cell]
            if isinstance(call, exp.Alias) or len(calls) > 1:
                parts.append(output_name(call))
            outputs.append(exp.alias_(_filtered(call.unalias(), condition), "_".join(parts), quoted=True))
    query = exp.Select(expressions=outputs, from_=exp.From(this=source))
    if named:
        query.set("group", exp.Group(expressions=[k.copy() for k in named]))
    return query


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An expression around one aggregate, which then looks at the condition's rows only."""
    found = [n for n in call.walk() if is_aggregate(n)]
    if len(found) != 1 or call.find(exp.Filter, exp.Window, exp.Query):
        hint = "write each aggregate by itself: USING SUM(y), COUNT(*)"
        raise _refused(f"PIVOT takes one plain aggregate in each expression, not {shown(call)}", call, hint)

    def narrowed(node: exp.Expr) -> exp.Expr:
        if not is_aggregate(node):
            return node
        return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))

    if is_aggregate(call):
        return narrowed(call)
    copy = call.copy()
    place = next(n for n in copy.walk() if is_aggregate(n))
    place.replace(narrowed(place))
    return copy


def _values(field: exp.Expr) -> list[_Value]:
    """x IN ('a', 'b'): a condition for each of its values."""
    listed = field.expressions if isinstance(field, exp.In) else []
    if not listed or any(isinstance(v, exp.PivotAny) for v in listed):
        column = shown(field.this if isinstance(field, exp.In) else field)
        hint = f"list them: {column} IN ('a', 'b')"
        raise _refused("without a list of values, the columns of a PIVOT would depend on the data", field, hint)
    columns = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
    for column in columns:
        if not isinstance(column, exp.Column):
            hint = f"compute it in a subquery: PIVOT (SELECT {shown(column)} AS v, … FROM t) ON v IN (…)"
            raise _refused(f"PIVOT takes a column here, not {shown(column)}", column, hint)
    values = [_value(columns, item) for item in listed]
    for i, item in enumerate(listed):
        if values[i][0] in [name for name, _ in values[:i]]:
            hint = "leave it out, or name it: IN ('a', 'b' AS c)"
            raise _refused(f"two values of the PIVOT make a column {values[i][0]}", item, hint)
    return values


def _value(columns: Sequence[exp.Expr], item: exp.Expr) -> _Value:
    value = item.this if isinstance(item, exp.PivotAlias | exp.Alias) else item
    cells = value.expressions if isinstance(value, exp.Tuple) else [value]
    if len(cells) != len(columns):
        raise _refused(f"{shown(value)} is not one value for each column", item, "write (x, y) IN (('a', 1), ('b', 2))")
    texts = [_text(c) for c in cells]
    conditions = [_equals(c, t) for c, t in zip(columns, texts, strict=True)]
    name = item.alias if value is not item else "_".join("NULL" if t is None else t for t in texts)
    return name, exp.and_(*conditions, copy=False)


def _equals(column: exp.Expr, text: str | None) -> exp.Expr:
    if text is None:
        return exp.Is(this=column.copy(), expression=exp.Null())
    return exp.EQ(this=exp.cast(column.copy(), "VARCHAR"), expression=exp.Literal.string(text))


def _text(node: exp.Expr) -> str | None:
    """A constant as DuckDB writes it; None is NULL."""
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Literal() if node.is_string or re.fullmatch(r"\d+(\.\d+)?", node.name):
            return str(node.name)
        case exp.Neg(this=exp.Literal() as inner) if not inner.is_string:
            return f"-{_text(inner)}"
        case exp.Cast(this=exp.Literal() as inner) if node.is_type("date") and _is_date(inner.name):
            return str(inner.name)
    hint = "write texts and numbers: IN ('a', 'b'), IN (1, 2)"
    raise _refused(f"the values of a PIVOT are constants, not {shown(node)}", node, hint)


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None


# ---------------------------------------------------------------- UNPIVOT


def _unpivoted(pivot: exp.Pivot, source: exp.Expr, columns: Sequence[str]) -> exp.Query:
    """Each row once for every listed column: the column's name and its value; NULLs are left out unless asked for."""
    name, value, listed = _into(pivot)
    known = {c.lower(): c for c in columns}
    for item in listed:
        if not isinstance(item, exp.Column) or item.name.lower() not in known:
            hint = f"name columns: {', '.join(columns[:20])}"
            raise _refused(f"UNPIVOT takes columns of its source, and {shown(item)} is none", item, hint)
    used = {c.name.lower() for c in listed}
    kept = [c for c in columns if c.lower() not in used]
    branches = list(_branches(pivot, source, [known[c.name.lower()] for c in listed], kept, name, value))
    query: exp.Query = branches[0]
    for branch in branches[1:]:
        query = exp.Union(this=query, expression=branch, distinct=False)
    return query


def _into(pivot: exp.Pivot) -> tuple[str, str, list[exp.Expr]]:
    """The names of the two columns that it makes, and the columns they are made of."""
    fields = pivot.args.get("fields")
    if fields:  # UNPIVOT (value FOR name IN (a, b))
        simple = len(fields) == 1 and len(pivot.expressions) == 1 and isinstance(pivot.expressions[0], exp.Identifier)
        if simple and isinstance(fields[0], exp.In) and isinstance(fields[0].this, exp.Identifier):
            return fields[0].this.name, pivot.expressions[0].name, list(fields[0].expressions)
        raise _refused("this UNPIVOT is not supported", pivot, "write UNPIVOT (value FOR name IN (a, b))")
    into = pivot.args.get("into")
    if into is not None and len(into.expressions) != 1:
        raise _refused("UNPIVOT into several values is not supported", into, "write INTO NAME n VALUE v")
    name = "name" if into is None else into.this.name
    return name, "value" if into is None else into.expressions[0].name, list(pivot.expressions or [])


def _branches(
    pivot: exp.Pivot, source: exp.Expr, listed: Sequence[str], kept: Sequence[str], name: str, value: str
) -> Iterator[exp.Select]:
    for column in listed:
        outputs = [*(_name(c, source) for c in kept), exp.alias_(exp.Literal.string(column), name, quoted=True)]
        outputs.append(exp.alias_(_name(column, source), value, quoted=True))
        branch = exp.Select(expressions=outputs, from_=exp.From(this=source.copy()))
        if not pivot.args.get("include_nulls"):
            present = exp.Not(this=exp.Is(this=_name(column, source), expression=exp.Null()))
            branch.set("where", exp.Where(this=present))
        yield branch


def _name(column: str, source: exp.Expr) -> exp.Column:
    """A column that is not written out; messages point at its source."""
    identifier = exp.to_identifier(column, quoted=True)
    if (place := offsets(source)) is not None:
        identifier.meta.update(start=place[0], end=place[1] - 1)
    return exp.column(identifier)


def _refused(message: str, place: Place, hint: str) -> SQLError:
    return refuse(SQLError, message, place, code="pivot", hint=hint)
