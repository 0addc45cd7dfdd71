"""Columns that are randomised: their public values, in the policy's order, and what estimates ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from dpsql.analyze.catalog import Catalog
from dpsql.analyze.domains import PublicEngine
from dpsql.core.arrays import to_python
from dpsql.core.errors import PolicyError, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.estimates import CODE, SOURCE, ResponseColumn, estimates
from dpsql.plan.nodes import Expr, Plan, Responses
from dpsql.policy.model import Column, Table
from dpsql.sql.dialect import data_type
from dpsql.sql.refuse import Place, offsets, refuse, shown
from dpsql.sql.scalar import post

Arrow = Any  # pyarrow has no types of its own
MOST = 100_000  # values


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """A column that is randomised: its name in the table, its type, and its public values (booleans: FALSE, TRUE)."""

    column: str
    type: str
    values: Arrow  # distinct; what isn't among them counts as the first
    call: Expr  # as written

    @property
    def identity(self) -> str:
        """What tells it apart from every other column of the same table, its values included."""
        return json.dumps([self.column.lower(), self.type, [str(v) for v in to_python(self.values)]])


@dataclass(frozen=True, slots=True, eq=False)
class CheckedResponses:
    """A table's rows that leave one by one, and the public values of each column."""

    name: str
    responses: Responses
    table: str  # as the policy writes it
    columns: tuple[Response, ...]


def check_responses(plan: Plan, catalog: Catalog) -> tuple[CheckedResponses, ...]:
    """Find the values of all columns that are randomised. Whatever has none is refused."""
    checked = tuple(_checked(name, one, catalog) for name, one in plan.responses)
    columns = {ResponseColumn(one.name, i): column for one in checked for i, column in enumerate(one.columns)}
    for call in estimates(plan.post):
        _check_value(call, columns, catalog.public)
    return checked


def _checked(name: str, responses: Responses, catalog: Catalog) -> CheckedResponses:
    scan = responses.input
    table = catalog.policy.tables[scan.table]
    types = {column.lower(): Type.parse(text) for column, text in catalog.schema[scan.table]}
    columns = tuple(
        _response(table, column, types[column.lower()], call, catalog.public)
        for (_, column), call in zip(scan.columns, responses.calls, strict=True)
    )
    return CheckedResponses(name, responses, table.name, columns)


def _response(table: Table, column: str, kind: Type, call: Expr, public: PublicEngine) -> Response:
    import pyarrow as pa

    said = table.column(column)
    if said is not None and said.private:
        raise _refuse(
            f"the policy says that {column} may not be a group key, and randomised values could be one",
            call.expressions,
            "randomise another column, or aggregate without it",
        )
    if kind.is_boolean:
        return Response(column, kind.sql, pa.array([False, True]), call)
    if said is None or said.values is None or not kind.is_key:
        raise _refuse(
            f"nothing says which values {column} can have, and a value is randomised within a public list",
            call.expressions,
            f'list them in the policy: [tables.{table.name}.columns] {column} = {{ values = ["a", "b"] }}'
            "\nor randomise a BOOLEAN column",
        )
    type_ = "VARCHAR" if kind.is_text else kind.sql
    values = _values(said, type_, public)
    if not 2 <= len(values) <= MOST:
        raise _refuse(
            f"{column} has {len(values):,} listed value{'s' if len(values) != 1 else ''}, and can't be randomised",
            call.expressions,
            f"list 2 to {MOST:,} values in the policy",
        )
    return Response(column, type_, values, call)


def _values(said: Column, kind: str, public: PublicEngine) -> Arrow:
    """The listed values as the column's type, in the policy's order; one that doesn't fit is the policy's mistake."""
    import pyarrow as pa

    assert said.values is not None
    listed = [str(v) for v in said.values]
    place, value = exp.column(exp.to_identifier("i", quoted=True)), exp.column(exp.to_identifier("k", quoted=True))
    typed = exp.alias_(exp.TryCast(this=value, to=data_type(kind)), "k")
    first = exp.alias_(exp.Min(this=place.copy()), "i")
    query = exp.select(typed, first).from_("listed").group_by(typed.this.copy()).order_by(exp.Min(this=place))
    table = pa.table({"k": pa.array(listed), "i": pa.array(range(len(listed)), pa.int64())})
    found = public.table(query, {"listed": table}).column("k").combine_chunks()
    if found.null_count:
        raise PolicyError(
            f"a value listed for {said.name} is no {kind}", code="values", hint=f"list values of type {kind}"
        )
    return found


def _check_value(call: exp.Anonymous, columns: Mapping[ResponseColumn, Response], public: PublicEngine) -> None:
    """The value that an estimate counts must be one of the column's; TRUE where it names none."""
    column = columns[call.meta[SOURCE]]
    name, values = call.name.upper(), to_python(column.values)
    if len(call.expressions) == 1:
        if column.type != "BOOLEAN":
            raise refuse(
                SQLError,
                f"{name} of {column.column} must say which value it counts",
                call,
                code=CODE,
                hint=f"write {name}(x, {_example(values)})",
            )
        return
    given = call.expressions[1]
    typed = exp.TryCast(this=given.copy(), to=data_type(column.type))
    found = to_python(public.table(post(exp.select(exp.alias_(typed, "v"))), {}).column("v"))[0]
    if found is None or found not in values:
        shortened = ", ".join(_literal(v) for v in values[:5]) + (", …" if len(values) > 5 else "")
        raise refuse(
            SQLError,
            f"{shown(given)} is none of the values of {column.column}",
            given if offsets(given) else call,
            code=CODE,
            hint=f"its values are {shortened}",
        )


def _example(values: list[Any]) -> str:
    return _literal(values[-1])


def _literal(value: Any) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value) if isinstance(value, int) else f"'{value}'"


def _refuse(message: str, place: Place, hint: str) -> PrivacyError:
    return refuse(PrivacyError, message, place, code=CODE, hint=hint)
