"""OpenDP's Polars interface. It wants one version of Polars exactly; joins of private tables it doesn't have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import opendp.prelude
import polars as pl

dp: Any = opendp.prelude  # its names aren't those that a type checker sees

ROWS = 50
Table = tuple[list[str], Sequence[Sequence[Any]]]


def ready() -> None:
    """Fails where the installed Polars isn't the one that OpenDP was built for."""
    few = pl.LazyFrame({"x": [1, 2, 3]})
    _context(few, dp.unit_of(contributions=1), dp.polars.Margin(max_length=3)).query().select(dp.len()).release()


def _context(rows: Any, unit: Any, margin: Any) -> Any:
    dp.enable_features("contrib")
    warnings.simplefilter("ignore", FutureWarning)
    loss = dp.loss_of(epsilon=1.0, delta=1e-7)
    return dp.Context.compositor(data=rows, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1, margins=[margin])


def prepare(files: Mapping[str, str], case: str, most: int = ROWS) -> Callable[[], Table]:
    """How a query of the events is asked: rows of a user are sampled, so many of them, as limits go there."""
    rows = pl.scan_parquet(files["events"])
    many = pl.scan_parquet(files["events"]).select(pl.len()).collect().item()
    categories = pl.LazyFrame({"category": [f"cat{i:02}" for i in range(20)]})
    amount: Any = pl.col("amount").fill_null(0.0).fill_nan(0.0)
    count, total = dp.len().alias("COUNT"), amount.dp.sum((0.0, 500.0)).alias("SUM")
    user = dp.unit_of(contributions=1, identifier=pl.col("user_id"))
    by_category = dp.polars.Margin(by=["category"], max_length=many, max_groups=20)

    def asked(made: Callable[[Any], Any], margin: Any, unit: Any = user, keep: int | None = most) -> Table:
        query = _context(rows, unit, margin).query()
        found = made(query if keep is None else query.truncate_per_group(keep)).release().collect()
        return found.columns, found.rows()

    def grouped(query: Any, *columns: Any) -> Any:
        return query.group_by("category").agg(*columns).with_keys(categories)

    def averaged() -> Table:
        columns, found = asked(lambda query: grouped(query, count, total), by_category)
        return [*columns, "AVG"], [(k, n, s, s / n if n else None) for k, n, s in found]

    whole = dp.polars.Margin(max_length=many)
    keys = dp.polars.Margin(by=["country", "day"], max_length=many, max_groups=73_000)
    middle = amount.dp.median(candidates=[float(x) for x in range(501)]).alias("MEDIAN")
    asks: dict[str, Callable[[], Table]] = {
        "Q1": lambda: asked(lambda query: query.select(count), whole),
        "Q2": lambda: asked(lambda query: query.select(count), whole, keep=1),
        "Q3": averaged,
        "Q4": lambda: asked(lambda query: query.group_by("country", "day").agg(count, total), keys),
        "Q5": lambda: asked(lambda query: grouped(query, middle), by_category),
        "Q6": lambda: asked(
            lambda query: grouped(query, count, total), by_category, unit=dp.unit_of(contributions=1), keep=None
        ),
    }
    if case not in asks:
        raise NotImplementedError("has no joins")
    return asks[case]
