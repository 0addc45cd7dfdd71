"""The events that peers were measured on, made by their own recipe: each value is a function of its row's number alone.

`events`: user_id (rows/20 users, a few with hundreds of rows), country (200, Zipf), category (20), day (365 days of
2023), amount 0..500 (log-normal, mean 33), qty 0..10. `users`: user_id, age, segment (8).
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.data import FOLDER, Data, opened

SEED = 20240607
COUNTRIES = 200
POLICY = """# What a steward writes who knows which values there can be, and nothing of how many rows people have.
[budget]
epsilon = 1e12
delta = 9e-4

[tables.events]
source = "{events}"
unit = "{unit}"

[tables.events.columns]
category = {{ values = [{categories}] }}
day = {{ min = 2023-01-01, max = 2023-12-31 }}
amount = {{ min = 0, max = 500 }}
qty = {{ min = 0, max = 10 }}

[tables.users]
source = "{users}"
unit = "{unit}"

[tables.users.columns]
segment = {{ values = [{segments}] }}
"""


def _uniform(draw: int) -> str:
    """The draw-th number of row i, uniform on [0, 1)."""
    return f"((hash(i * 1000003 + {SEED} * 31 + {draw} * 7919) >> 11)::DOUBLE / 9007199254740992.0)"


def files(rows: int, folder: Path = FOLDER) -> dict[str, Path]:
    """Where the events and the users are, made on first use."""
    events, users = folder / f"events_{rows}.parquet", folder / f"users_{rows}.parquet"
    if events.exists() and users.exists():
        return {"events": events, "users": users}
    folder.mkdir(parents=True, exist_ok=True)
    people, unfinished = max(1, rows // 20), events.with_suffix(".unfinished")
    database = duckdb.connect()
    # Zipf's law in 100,000 steps: which country is at each hundredth of a thousandth.
    database.execute(
        f"""
        CREATE TABLE shares AS
        SELECT k, sum(1.0 / k) OVER (ORDER BY k) / (SELECT sum(1.0 / j) FROM range(1, {COUNTRIES + 1}) t(j)) AS upto
        FROM range(1, {COUNTRIES + 1}) t(k);
        CREATE TABLE countries AS
        SELECT b::INT AS step, (SELECT min(k) FROM shares WHERE upto >= (b + 0.5) / 100000.0)::INT AS k
        FROM range(100000) t(b)
        """
    )
    normal = f"sqrt(-2 * ln(greatest({_uniform(5)}, 1e-12))) * cos(2 * pi() * {_uniform(6)})"
    database.execute(
        f"""
        COPY (
            SELECT user_id, 'C' || lpad(k::VARCHAR, 3, '0') AS country, 'cat' || lpad(c::VARCHAR, 2, '0') AS category,
                   (DATE '2023-01-01' + d)::DATE AS day, amount, qty
            FROM (
                SELECT floor({people} * pow({_uniform(1)}, 1.6))::BIGINT AS user_id,
                       floor({_uniform(2)} * 100000)::INT AS step,
                       floor(20 * pow({_uniform(3)}, 1.3))::INT AS c,
                       floor(365 * {_uniform(4)})::INT AS d,
                       least(500.0, round(exp(3.0 + {normal}), 2)) AS amount,
                       floor(11 * {_uniform(7)})::INT AS qty
                FROM range({rows}) t(i)
            ) JOIN countries USING (step)
        ) TO '{unfinished}' (FORMAT parquet)
        """
    )
    database.execute(
        f"""
        COPY (
            SELECT i AS user_id, (18 + floor(70 * {_uniform(8)}))::INT AS age,
                   'seg' || floor(8 * pow({_uniform(9)}, 1.5))::INT AS segment
            FROM range({people}) t(i)
        ) TO '{users}' (FORMAT parquet)
        """
    )
    unfinished.rename(events)  # so that what is there is whole
    return {"events": events, "users": users}


def made(rows: int, unit: str, folder: Path = FOLDER) -> Data:
    """The events with a policy: unit is "user_id" or "row"."""
    where = files(rows, folder)
    lists = {
        "categories": ", ".join(f'"cat{i:02}"' for i in range(20)),
        "segments": ", ".join(f'"seg{i}"' for i in range(8)),
    }
    text = POLICY.format(events=where["events"].name, users=where["users"].name, unit=unit, **lists)
    return opened("events", rows, where, folder / f"policy_{unit}_{rows}.toml", text)
