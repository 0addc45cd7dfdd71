"""MODE(x): the winner of GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates.form import ByValue


class Mode(ByValue):
    """The value with the largest noisy count; only the largest is looked at, so that it is chosen (plan/winners.py)."""

    name = "MODE"
    description = (
        "MODE(x): the most frequent value; chosen, so that no count is paid for; x needs public values or max_groups"
    )
    nodes = (exp.Mode,)
    instead = "count by value: SELECT x, COUNT(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 1"
    beside_groups = (
        "MODE is one value of all rows; beside GROUP BY it would be one for each group",
        "count, and keep the first of each group: SELECT g, {x} FROM t GROUP BY g, {x} "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY COUNT(*) DESC) = 1",
    )

    def over(self, value: exp.Expr, count: exp.Expr) -> exp.Select:
        query = exp.select(value)
        query.set("order", exp.Order(expressions=[exp.Ordered(this=count, desc=True)]))
        return query.limit(1)


AGGREGATES = (Mode(),)
