"""MEDIAN, QUANTILE_CONT, QUANTILE_DISC, APPROX_QUANTILE; MIN and MAX as about the least and the greatest value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Rational, Recipe, Spread, decimals, saturated
from dpsql.aggregates.form import Takes
from dpsql.core.arrays import column, to_python
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.statistics.base import Quantity

_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Chosen(Recipe):
    """A value that was chosen near the exact one, and the ends of an interval around it (Theorem QUANTILE-2)."""

    name: str
    about: str
    nodes: tuple[type[exp.Expr], ...]
    words: tuple[str, ...] = ()
    takes_shares: bool = True
    at: tuple[Fraction, ...] = ()
    third_lost: tuple[str, ...] = ()
    between: bool = False  # does DuckDB interpolate between two values, so that its type is a continuous one?
    takes: Takes = "number or boolean"
    takes_dates: bool = True

    ranked = True

    @property
    def description(self) -> str:
        return self.about

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        extremes = {Fraction(0): "least", Fraction(1): "greatest"}
        return tuple(
            Quantity(extremes[q], call.value, call.where)
            if q in extremes
            else Quantity("quantile", call.value, call.where, at=q)
            for q in call.at
        )

    def interval_needs(self, call: Call) -> tuple[Quantity, ...]:
        """The ends that are chosen beside it, and how many cut rows they hold; of MIN and MAX one end is the range's.

        A list of values has no interval, nor has one of two truth values.
        """
        if call.listed or call.type is None or call.type.is_boolean:
            return ()
        wanted = {"least": ("upper",), "greatest": ("lower",), "quantile": ("lower", "upper", "spare")}
        at = {"least": Fraction(0), "greatest": Fraction(1)}
        return tuple(
            Quantity(kind, call.value, call.where, at=at.get(need.kind, need.at))
            for need in self.needs(call)
            for kind in wanted.get(need.kind, ())
        )

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        # In ranks: that is what the noise of a choice is counted in.
        assert call.value is not None
        return [{need: 1 / call.value.grid.step} for need in self.needs(call)]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        import pyarrow as pa

        assert call.type is not None
        columns = [_typed(noisy[need], call.type, self.between) for need in self.needs(call)]
        if not call.listed:
            return columns[0]
        rows = zip(*(to_python(c) for c in columns), strict=True)
        return pa.array([list(row) for row in rows], pa.list_(columns[0].type))

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        need = self.needs(call)[0]
        unknown = np.full_like(noisy[need].floats, np.nan)
        return Spread(unknown, [(need, unknown)])


@dataclass(frozen=True, slots=True)
class Extreme(Chosen):
    """About the least or the greatest value."""

    greatest: bool = False
    takes_shares: bool = False
    takes_largest: bool = False

    same_of_distinct = True
    note = "approximate, a value that a few rows lie beyond"

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (Quantity("greatest" if self.greatest else "least", call.value, call.where),)


def _typed(value: Rational, type_: Type, between: bool) -> Arrow:
    """The chosen values in the type that DuckDB would answer with; dates and times were counted from 1970 on."""
    import pyarrow as pa

    if type_.is_date or type_.is_timestamp:
        whole = [int(n) for n in value.rounded()]
        if type_.is_date and not between:
            return pa.array([date(1970, 1, 1) + timedelta(days=n) for n in whole], pa.date32())
        unit = _DAY if type_.is_date else 1
        zone = "UTC" if type_.has_zone else None
        times = [datetime(1970, 1, 1) + timedelta(microseconds=n * unit) for n in whole]
        typed = pa.array(times, pa.timestamp("us"))  # also where there is none: DuckDB couldn't tell what NULL is
        return typed.cast(pa.timestamp("us", zone)) if zone else typed
    if type_.is_boolean:
        return pa.array([n > 0 for n in value.rounded()], pa.bool_())
    if type_.is_integer and not between:
        return saturated(value.rounded())
    if type_.is_decimal:
        return decimals(value.rounded(type_.scale or 0), type_.scale or 0, type_.width or 38)
    return column(value.floats)


_NEAR = "x's values near that share of the rows; x needs a range"
AGGREGATES = (
    Chosen("MEDIAN", f"MEDIAN(x): {_NEAR}", (exp.Median,), takes_shares=False, at=(Fraction(1, 2),), between=True),
    Chosen(
        "QUANTILE_CONT", f"QUANTILE_CONT(x, q), also PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x): {_NEAR}",
        (exp.PercentileCont,), ("QUANTILE_CONT",), third_lost=("QUANTILE_CONT",), between=True,
    ),
    Chosen(
        "QUANTILE_DISC", f"QUANTILE_DISC(x, q), also QUANTILE and PERCENTILE_DISC: {_NEAR}",
        (exp.PercentileDisc, exp.Quantile), ("QUANTILE_DISC",), third_lost=("QUANTILE_DISC", "QUANTILE"),
    ),
    Chosen("APPROX_QUANTILE", f"APPROX_QUANTILE(x, q): {_NEAR}", (exp.ApproxQuantile,)),
    Extreme("MIN", "MIN(x): approximate, a small value within x's range that a few rows are below", (exp.Min,)),
    Extreme(
        "MAX", "MAX(x): approximate, a large value within x's range that a few rows are above", (exp.Max,),
        greatest=True, takes_largest=True,
    ),
)  # fmt: skip
