"""DuckDB's aggregates that work over results, which are public, and not over private rows."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates.form import Form
from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ResultsOnly(Form):
    """An aggregate without an answer for private rows."""

    name: str
    nodes: tuple[type[exp.Expr], ...] = ()
    words: tuple[str, ...] = ()
    shows_rows: bool = False
    takes_largest: bool = False
    by_second: bool = False
    instead: str | None = None


AGGREGATES = (
    ResultsOnly("FIRST", (exp.First,), shows_rows=True),
    ResultsOnly("LAST", (exp.Last,), shows_rows=True),
    ResultsOnly("ARG_MAX", (exp.ArgMax,), ("MAX_BY",), shows_rows=True, takes_largest=True, by_second=True),
    ResultsOnly("ARG_MIN", (exp.ArgMin,), ("MIN_BY",), shows_rows=True),
    ResultsOnly("LIST", (exp.ArrayAgg,), shows_rows=True),
    ResultsOnly("STRING_AGG", (exp.GroupConcat,), ("LISTAGG",), shows_rows=True),
    ResultsOnly("HISTOGRAM", (), ("HISTOGRAM",), instead="count by value: SELECT x, COUNT(*) … GROUP BY x"),
    ResultsOnly("PRODUCT", (), ("PRODUCT",)),
    ResultsOnly("RESERVOIR_QUANTILE", (), ("RESERVOIR_QUANTILE",)),
    ResultsOnly("BIT_AND", (), ("BIT_AND",)),
    ResultsOnly("BIT_OR", (), ("BIT_OR",)),
    ResultsOnly("BIT_XOR", (), ("BIT_XOR",)),
    ResultsOnly("RR_COUNT", (), ("RR_COUNT",)),  # over randomised values alone (plan/estimates.py)
    ResultsOnly("RR_FREQUENCY", (), ("RR_FREQUENCY",)),
)
