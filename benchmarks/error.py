"""Error and coverage on the peers' own events, no limit named anywhere.

    python benchmarks/error.py [rows] [runs]      default 1,000,000 and 20

ε = 1, δ = 1e-7 for each query, unit = user (Q6: row). For each column: the relative root mean square error, the noise
in it (standard deviation over runs) and the bias (mean over runs), each the median over groups; and how many of the
nominal 95% intervals held the truth. Q4's keys are private: how many were shown, and the error over those.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from events import make

import dpsql

QUERIES = {
    "Q1": "SELECT 'all' AS k, COUNT(*) AS COUNT FROM events",
    "Q3": "SELECT category AS k, COUNT(*) AS COUNT, SUM(amount) AS SUM, AVG(amount) AS AVG FROM events GROUP BY 1",
    "Q3 COUNT alone": "SELECT category AS k, COUNT(*) AS COUNT FROM events GROUP BY 1",
    "Q3 SUM alone": "SELECT category AS k, SUM(amount) AS SUM FROM events GROUP BY 1",
    "Q4 COUNT alone": "SELECT country, day, COUNT(*) AS COUNT FROM events GROUP BY 1, 2",
    "Q4": "SELECT country, day, COUNT(*) AS COUNT, SUM(amount) AS SUM FROM events GROUP BY 1, 2",
    "Q5": "SELECT category AS k, MEDIAN(amount) AS MEDIAN FROM events GROUP BY 1",
    "Q6": "SELECT category AS k, COUNT(*) AS COUNT, SUM(amount) AS SUM FROM events GROUP BY 1",
    "Q7": "SELECT segment AS k, SUM(amount) AS SUM FROM events JOIN users USING (user_id) GROUP BY 1",
}
Row = dict[str, Any]


def policy(events: Path, users: Path, unit: str) -> dpsql.Policy:
    """What a steward writes who knows the values that there can be, and nothing of how many rows people have."""
    columns = {
        "category": {"values": [f"cat{i:02}" for i in range(20)]},
        "amount": {"min": 0, "max": 500},
        "qty": {"min": 0, "max": 10},
    }
    segments = {"segment": {"values": [f"seg{i}" for i in range(8)]}}
    tables = {
        "events": {"source": str(events), "unit": unit, "columns": columns},
        "users": {"source": str(users), "unit": unit, "columns": segments},
    }
    return dpsql.Policy.from_dict({"budget": {"epsilon": 10**6, "delta": 1e-4}, "tables": tables})


def ask(events: Path, users: Path, sql: str, unit: str) -> tuple[list[Row], list[Row]]:
    """The rows of an answer and their intervals; a ledger of its own, so that nothing is known from the run before."""
    with dpsql.connect(policy(events, users, unit), ledger=":memory:") as session:
        answer = session.query(sql, epsilon=1, delta="1e-7")
        intervals = answer.intervals()
        return answer.table.to_pylist(), [{c: i[n] for c, i in intervals.items() if i} for n in range(len(answer.rows))]


def measure(name: str, events: Path, users: Path, runs: int) -> None:
    """Prints a line for each column of a query."""
    sql = QUERIES[name]
    plain = duckdb.connect()
    for table, path in (("events", events), ("users", users)):
        plain.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'")
    result = plain.sql(sql).to_arrow_table().to_pylist()
    columns = [c for c in result[0] if c.isupper()]
    keys = [c for c in result[0] if c not in columns]
    truth = {tuple(row[k] for k in keys): row for row in result}
    answers = [ask(events, users, sql, "row" if name == "Q6" else "user_id") for _ in range(runs)]
    for column in columns:
        errors: dict[tuple[Any, ...], list[float]] = {}
        held = of = 0
        for rows, intervals in answers:
            for row, interval in zip(rows, intervals, strict=True):
                key = tuple(row[k] for k in keys)
                if key not in truth:
                    continue  # the cell of NULL keys, which no row has
                true = float(truth[key][column])
                if row[column] is not None:
                    errors.setdefault(key, []).append(float(row[column]) / true - 1)
                span = interval.get(column)
                if span is not None:
                    of += 1
                    held += span[0] <= true <= span[1]
        shown = np.mean([len(rows) for rows, _ in answers])
        if len(errors) > 1000 or any(len(e) < runs for e in errors.values()):  # private keys: over those that are shown
            pooled = np.concatenate([np.array(e) for e in errors.values()])
            rmse, noise, bias = np.sqrt((pooled**2).mean()), pooled.std(), pooled.mean()
        else:
            found = np.array(list(errors.values()))
            rmse = np.median(np.sqrt((found**2).mean(axis=1)))
            noise, bias = np.median(found.std(axis=1)), np.median(found.mean(axis=1))
        coverage = f"{held / of:7.1%} of {of:,}" if of else "      –"
        print(f"{name:<15} {column:<7} {shown:8,.0f} {rmse:9.3%} {noise:9.3%} {bias:+9.3%} {coverage}", flush=True)


def main() -> None:
    rows, runs = ([int(a) for a in sys.argv[1:3]] + [1_000_000, 20][len(sys.argv) - 1 :])[:2]
    events, users = make(rows)
    print(f"{rows:,} rows, ε = 1, no limits named, {runs} runs")
    print(f"{'query':<15} {'column':<7} {'cells':>8} {'RMSE':>9} {'noise':>9} {'bias':>9} coverage")
    for name in QUERIES:
        measure(name, events, users, runs)


if __name__ == "__main__":
    main()
