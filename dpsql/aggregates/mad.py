"""MAD(x): the median absolute deviation."""

from __future__ import annotations

from dpsql.aggregates.base import Call
from dpsql.aggregates.quantile import Chosen
from dpsql.statistics.base import Quantity


class MedianDeviation(Chosen):
    """The median of |x − m|, where m is a median of x that is chosen first and doesn't leave (Theorem MAD-1)."""

    nearness = "distances are from a median that is chosen first, and as near to the exact one"

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (Quantity("deviation", call.value, call.where),)


AGGREGATES = (
    MedianDeviation(
        "MAD", "MAD(x): about the median of |x - MEDIAN(x)|; x needs a range", (), ("MAD",),
        takes_shares=False, between=True, takes="number", takes_dates=False,
    ),  # as in DuckDB; of dates and times it would be an interval, which can't be chosen here
)  # fmt: skip
