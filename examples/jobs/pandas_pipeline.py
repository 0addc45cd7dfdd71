"""A step of a pandas pipeline: release, read what was released, and go on with it."""

import pandas as pd

from dpsql.jobs import run


def visits(day: str) -> pd.DataFrame:
    """The day's private visits by city, with each city's share; running it again costs nothing."""
    run("release.toml", params={"date": day})
    frame = pd.read_parquet(f"out/{day}/visits.parquet")
    return frame.assign(share=frame["visits"] / frame["visits"].sum())


table = visits("2026-11-15")
print(table)
