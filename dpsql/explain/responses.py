"""What `explain` says of rows that leave one by one: as plain values, and as lines."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dpsql.backends.base import Backend
from dpsql.core.cost import Cost, pure_rho
from dpsql.mechanisms.response import ONE_ROW, RandomizedResponse
from dpsql.quote.model import ResponseStep
from dpsql.sql.refuse import shown

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
