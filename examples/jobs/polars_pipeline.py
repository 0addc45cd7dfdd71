"""A step of a polars pipeline: two files of one release, joined."""

import polars as pl

from dpsql.jobs import run


def day(date: str) -> pl.DataFrame:
    """The day's private visits and minutes by city, the ends of the minutes' intervals included."""
    run("release.toml", params={"date": date})
    visits = pl.read_parquet(f"out/{date}/visits.parquet")
    return visits.join(pl.read_csv(f"out/{date}/minutes.csv"), on="city")


table = day("2026-11-16")
print(table)
