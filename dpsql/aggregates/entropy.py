"""ENTROPY(k): how evenly the rows are spread over the values of a key, in bits."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates.count import Count
from dpsql.aggregates.form import ByValue, Clips


class Entropy(ByValue, Count):
    """−Σ p·log₂ p with p from noisy counts, those below 0 taken as 0; 0 where none is left (Theorem ENTROPY-1).

    Its values must be public: of those that a selection leaves out nobody could say how many there are.
    """

    name = "ENTROPY"
    description = (
        "ENTROPY(k): in bits, from noisy counts of k's values, which must be public; too large where these are few"
    )
    nodes = ()
    words = ("ENTROPY",)
    simulates = False  # too large, and with more noise larger still
    starred = False
    clips: Clips = "nothing"
    counts = name
    counts_distinct = False
    ranks_groups = False
    public = True
    note = "from noisy counts of each value, so too large where most of them are not much larger than their noise"

    def shown_as(self, call: exp.Expr) -> exp.Expr:
        rows = exp.Count(this=exp.Star())
        rows.meta.update(call.meta)
        return rows

    def over(self, value: exp.Expr, count: exp.Expr) -> exp.Select:
        zero = exp.Literal.number("0.0")
        rows = exp.cast(exp.Greatest(this=count, expressions=[exp.Literal.number(0)], ignore_nulls=True), "DOUBLE")
        total = exp.Sum(this=rows)
        # log₂ n − Σ c·log₂ c / n. Post-processing makes LN(0) NULL, which SUM passes over: 0·log 0 is 0.
        inner = exp.Div(
            this=exp.Sum(this=exp.Mul(this=rows.copy(), expression=exp.Ln(this=rows.copy()))), expression=total.copy()
        )
        nats = exp.Paren(this=exp.Sub(this=exp.Ln(this=total), expression=inner))
        bits = exp.Div(this=nats, expression=exp.Ln(this=exp.Literal.number(2)))
        there = exp.Not(this=exp.Paren(this=exp.Is(this=value, expression=exp.Null())))
        return exp.select(exp.func("greatest", exp.func("coalesce", bits, zero), zero.copy())).where(there)


AGGREGATES = (Entropy(),)
