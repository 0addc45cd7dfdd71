"""How often 95% intervals of computed columns hold the exact value: python -m benchmarks.coverage_expressions [runs]

The data are made so that nothing is cut: what is measured is the noise, and what expressions do to it.
"""

from __future__ import annotations

import sys

import duckdb
import numpy as np
import pyarrow as pa

import dpsql

ROWS = 20_000
REGIONS = ("north", "south", "east", "west", "far", "farther")
BY_MONTH = "SELECT month, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY month"
QUERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ratio in a cell": ("SELECT region, COUNT(*) FILTER (WHERE flag) * 100.0 / COUNT(*) AS x FROM t", ("region",)),
    "ratio of a sum and a count": ("SELECT region, ROUND(SUM(v) / COUNT(*), 3) AS x FROM t", ("region",)),
    "difference of averages": ("SELECT region, AVG(v) - AVG(w) AS x FROM t", ("region",)),
    "difference": (
        "SELECT region, COUNT(*) FILTER (WHERE flag) - COUNT(*) FILTER (WHERE NOT flag) AS x FROM t", ("region",),
    ),
    "no less than 0": ("SELECT region, GREATEST(COUNT(*) FILTER (WHERE v > 95 AND flag), 0) AS x FROM t", ("region",)),
    "share of the total": ("SELECT region, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS x FROM t", ("region",)),
    "growth": (f"SELECT month, n * 1.0 / LAG(n) OVER (ORDER BY month) - 1 AS x FROM ({BY_MONTH})", ()),
    "moving average": (f"SELECT month, AVG(n) OVER (ORDER BY month ROWS 2 PRECEDING) AS x FROM ({BY_MONTH})", ()),
    "running total": (f"SELECT month, SUM(n) OVER (ORDER BY month) AS x FROM ({BY_MONTH})", ()),
    "ratio of two releases": (
        f"SELECT a.month, b.n * 1.0 / a.n AS x FROM ({BY_MONTH}) a JOIN (SELECT month, COUNT(*) AS n FROM t WHERE flag "
        "GROUP BY month) b ON a.month = b.month", (),
    ),
    "standard deviation of months": (f"SELECT STDDEV_SAMP(n) AS x FROM ({BY_MONTH})", ()),
    "largest month less the smallest": (f"SELECT MAX(n) - MIN(n) AS x FROM ({BY_MONTH})", ()),
}  # fmt: skip
NAMED = tuple(QUERIES)[:10]
"""Those of which coverage is claimed; the last two are off to one side whatever the noise."""


def data() -> pa.Table:
    """20,000 rows: regions of very different sizes, 24 months that grow, two values and a flag."""
    made = np.random.default_rng(7)
    region = made.choice(len(REGIONS), ROWS, p=[0.5, 0.25, 0.15, 0.07, 0.025, 0.005])
    month = made.choice(24, ROWS, p=np.linspace(1, 3, 24) / np.linspace(1, 3, 24).sum())
    return pa.table(
        {
            "region": [REGIONS[i] for i in region],
            "month": pa.array(month, pa.int32()),
            "v": pa.array(np.clip(made.normal(40 + 5 * region, 15), 0, 100).round().astype(np.int32)),
            "w": made.uniform(0, 10, ROWS),
            "flag": made.random(ROWS) < 0.3,
        }
    )


POLICY = {
    "budget": {"epsilon": 10**6, "delta": 0},
    "tables": {
        "t": {
            "unit": "row",
            "columns": {
                "region": {"values": list(REGIONS)},
                "month": {"min": 0, "max": 23},
                "v": {"min": 0, "max": 100},
                "w": {"min": 0, "max": 10},
            },
        }
    },
}


def sql_of(name: str) -> str:
    """The whole query; keys that can't be there are left out, so that each row has an exact value."""
    text, keys = QUERIES[name]
    whole = f"{text} GROUP BY {', '.join(keys)}" if keys else text
    return whole.replace("FROM t", "FROM t WHERE region IS NOT NULL AND month IS NOT NULL").replace(
        "NOT NULL WHERE flag", "NOT NULL AND flag"
    )


def counted(session: dpsql.Session, name: str, epsilon: str, runs: int) -> tuple[int, int, int, float]:
    """How many intervals hold the exact value, of how many; how many cells had none; and their median half-width."""
    sql = sql_of(name)
    with duckdb.connect() as plain:
        plain.register("t", data())
        cursor = plain.execute(sql)
        exact = {row[:-1]: row[-1] for row in cursor.fetchall()}
    held = shown = without = 0
    halves: list[float] = []
    for _ in range(runs):
        answer = session.query(sql, epsilon=epsilon, fresh=True)
        found = answer.intervals()["x"] or [None] * len(answer.rows)
        for row, interval in zip(answer.rows, found, strict=True):
            true = exact.get(row[:-1])
            if true is None:
                continue
            if interval is None:
                without += 1
                continue
            shown += 1
            held += interval[0] - 1e-9 <= float(true) <= interval[1] + 1e-9
            halves.append((interval[1] - interval[0]) / 2)
    return held, shown, without, float(np.median(halves)) if halves else float("nan")


def main(runs: int) -> None:
    policy = dpsql.Policy.from_dict(POLICY, sources={"t": data()})
    pooled = {epsilon: [0, 0] for epsilon in ("1", "0.1")}
    with dpsql.connect(policy, sources={"t": data()}, ledger=":memory:") as session:
        print(f"{'column':<34}{'ε':>5}{'cells':>8}{'none':>7}{'held':>8}{'median ±':>12}")
        for name in QUERIES:
            for epsilon, both in pooled.items():
                held, shown, without, half = counted(session, name, epsilon, runs)
                if name in NAMED:
                    both[0], both[1] = both[0] + held, both[1] + shown
                share = f"{held / shown:.1%}" if shown else "-"
                print(f"{name:<34}{epsilon:>5}{shown:>8}{without:>7}{share:>8}{half:>12.4g}", flush=True)
    for epsilon, (held, shown) in pooled.items():
        print(f"{'the first ten, pooled':<34}{epsilon:>5}{shown:>8}{'':>7}{held / shown:>8.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
