"""The data of `dpsql demo`: bicycles that are lent in a town that doesn't exist. Made, the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SEED, RIDERS = 2013, 4_000
STATIONS = ("Harbour", "Market", "Museum", "Old Mill", "Park", "Station")
DISTRICTS = ("North", "Centre", "Centre", "South", "South", "Centre")
PLANS = ("day", "month", "year")

POLICY = """\
[budget]
epsilon = 4              # for all answers together, for ever
query_epsilon = 0.5      # what a query spends when it names nothing

[tables.riders]
source = "riders.parquet"
unit = "rider"           # who is protected: all that is known of one rider
rows_per_unit = 1
columns.plan = { values = ["day", "month", "year"], nullable = false }
columns.age = { min = 15, max = 90, nullable = false }

[tables.trips]
source = "trips.parquet"
unit = "rider"
max_rows = 20            # a rider counts for at most so many trips
columns.hour = { min = 0, max = 23, nullable = false }
columns.minutes = { min = 0, max = 120 }
columns.price = { min = 0, max = 10 }
columns.station = { references = "stations.station" }

[tables.stations]
source = "stations.csv"
public = true
"""


def write(folder: Path) -> None:
    """Put the data and their policy into a folder."""
    import pyarrow.parquet as pq

    riders, trips = made()
    pq.write_table(riders, folder / "riders.parquet")
    pq.write_table(trips, folder / "trips.parquet")
    lines = ["station,district", *(f"{s},{d}" for s, d in zip(STATIONS, DISTRICTS, strict=True))]
    (folder / "stations.csv").write_text("\n".join(lines) + "\n")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")


def made() -> tuple[Any, Any]:
    """The riders, and their trips: most in the morning and in the evening, longer ones by those who rarely ride."""
    import numpy as np
    import pyarrow as pa

    draw = np.random.default_rng(SEED)
    plan = draw.choice(3, RIDERS, p=(0.25, 0.45, 0.3))
    age = np.clip(draw.normal(38, 13, RIDERS), 15, 90).astype(int)
    times = 1 + draw.poisson(np.array((1, 4, 8))[plan])
    rider = np.repeat(np.arange(RIDERS), times)
    hour = np.clip(draw.normal(np.where(draw.random(len(rider)) < 0.45, 8, 17), 2.5), 0, 23).astype(int)
    minutes = np.round(draw.gamma(3, np.array((14, 8, 5))[plan][rider]), 1)
    price = np.round(1 + minutes * np.array((0.15, 0.05, 0.02))[plan][rider], 2)
    station = np.array(STATIONS)[draw.choice(len(STATIONS), len(rider), p=(0.1, 0.2, 0.1, 0.1, 0.15, 0.35))]
    riders = {"rider": np.arange(RIDERS), "plan": np.array(PLANS)[plan], "age": age}
    trips = {"rider": rider, "hour": hour, "minutes": minutes, "price": price, "station": station}
    return pa.table(riders), pa.table(trips)
