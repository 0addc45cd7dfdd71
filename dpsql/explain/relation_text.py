"""What leaves from which rows, in words: a relation, a line for each step from the tables on; rows leaving singly."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, assert_never

from dpsql.backends.base import Backend
from dpsql.core.cost import Cost, pure_rho
from dpsql.mechanisms.response import ONE_ROW, RandomizedResponse
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Named,
    Project,
    PublicTable,
    Relation,
    Scan,
    Union,
    Windows,
)
from dpsql.quote.model import ResponseStep
from dpsql.sql.as_sql import as_sql
from dpsql.sql.refuse import shown


def described(node: Relation | PublicTable | Given) -> list[str]:
    """What is done to get these rows; what another side does is indented."""
    match node:
        case Scan():
            return [f"scan {node.table}, unit {node.unit or 'row'}{_renamed(node.columns)}"]
        case PublicTable():
            return [f"public {node.table}{_renamed(node.columns)}"]
        case Given():
            source = "from earlier releases" if node.noisy else "public"
            return [f"given {', '.join(plan for plan, _ in node.columns)}: {source}, {_sql(node.query)}"]
        case Filter():
            return [*described(node.input), f"filter {_sql(node.condition)}"]
        case Project():
            return [*described(node.input), f"columns {_named(node.columns)}"]
        case Join():
            return [*described(node.left), f"{node.kind} join{_on(node)}", *_indented(node.right)]
        case Mark():
            test = _on(node)
            if node.member is not None:
                test = f" {_sql(node.member[0])} in {_sql(node.member[1])}"
            return [*described(node.input), f"mark {node.column}:{test}", *_indented(node.other)]
        case Union():
            return ["union all", *(line for one in node.inputs for line in _indented(one))]
        case GroupUnits():
            parts = ", ".join([node.unit, *([_named(node.keys)] if node.keys else [])])
            values = f": {_named(node.columns)}" if node.columns else ""
            return [*described(node.input), f"group by unit {parts}{values}"]
        case Windows():
            return [*described(node.input), f"window {node.column} = {_sql(node.window)}"]
        case _:
            assert_never(node)


def _on(node: Join | Mark) -> str:
    conditions = [] if node.units is None else [f"{node.units[0]} = {node.units[1]} (units)"]
    if node.condition is not None:
        conditions.append(_sql(node.condition))
    return f" on {' and '.join(conditions)}" if conditions else ""


def _indented(node: Relation | PublicTable | Given) -> list[str]:
    return [f"  {line}" for line in described(node)]


def _renamed(columns: tuple[tuple[str, str], ...]) -> str:
    new = [f"{plan} = {column}" for plan, column in columns if plan != column.lower()]
    return f" ({', '.join(new)})" if new else ""


def _named(columns: tuple[Named, ...]) -> str:
    return ", ".join(name if _sql(e) == name else f"{name} = {_sql(e)}" for name, e in columns)


def _sql(node: Expr) -> str:
    return as_sql(node).replace('"', "")


EXAMPLE_ROWS = 10_000  # a frequency's error depends on how many rows there are
Facts = dict[str, Any]


def response_facts(step: ResponseStep, price: Cost, before: int, backend: Backend | None) -> Facts:
    """A table whose rows leave: which columns, and how each is randomised. before: columns of earlier tables."""
    columns = [
        _column(shown(column.call), mechanism, number, price)
        for number, (column, mechanism) in enumerate(
            zip(step.checked.columns, step.mechanisms, strict=True), before + 1
        )
    ]
    facts: Facts = {
        "name": step.name,
        "table": step.checked.responses.input.table,
        "unit": "row",
        "keys": [],
        "aggregates": columns,
    }
    if backend is not None:
        (facts["statement"],) = backend.written(step, pretty=True)
    return facts


def _column(text: str, mechanism: RandomizedResponse, number: int, price: Cost) -> Facts:
    epsilon = mechanism.cost(ONE_ROW).epsilon
    share = Fraction(epsilon, price.epsilon) if price.rho is None else Fraction(pure_rho(epsilon), price.rho)
    return {
        "aggregate": text,
        "number": number,
        "mechanism": mechanism.name,
        "epsilon": float(epsilon),
        "share": float(share),
        "values": mechanism.size,
        "keep": mechanism.keep,
        "other": mechanism.other,
        "standard_error": {"rows": EXAMPLE_ROWS, "frequency": mechanism.standard_error(EXAMPLE_ROWS)},
    }


def response_rows(release: Facts) -> list[tuple[str, ...]]:
    """A table of the columns, its head included."""
    rows: list[tuple[str, ...]] = [("", "column", "ε", "share", "noise", "values", "kept", "each other")]
    for c in release["aggregates"]:
        numbers = (f"{c['epsilon']:.3g}", f"{c['share']:.0%}", c["mechanism"], f"{c['values']:,}")
        rows.append((f"[{c['number']}]", c["aggregate"], *numbers, f"{c['keep']:.3%}", f"{c['other']:.3g}"))
    return rows


def response_head(release: Facts, several: bool) -> Iterable[str]:
    """Who is protected, and what is public."""
    if several:
        yield f"rows {release['name']}"
    yield f"unit      each row of {release['table']}: each row is its own unit"
    yield "rows      all of them leave, shuffled, each value randomised by itself; how many there are is public"


def response_lines(column: Facts) -> list[str]:
    """An output column of randomised values."""
    error = column["standard_error"]
    return [
        f"{column['aggregate']}, [{column['number']}]: a value is kept with probability {column['keep']:.3%}",
        f"RR_FREQUENCY of it has a standard error of at most {error['frequency']:.3g} among {error['rows']:,} rows, "
        "RR_COUNT that times the rows",
        "the error shrinks as 1/√n: four times the rows, half of it",
    ]
