"""A Spark of one machine: writes a table of orders, asks one question of it, and shows the statement that Spark ran.

python query.py            starts Spark by itself (Java 17)
python query.py sc://host:15002
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import dpsql

SQL = "SELECT shop, COUNT(*) AS orders, AVG(amount) AS amount FROM orders GROUP BY shop ORDER BY shop"


def main(url: str = "local[2]", folder: str = ".") -> dpsql.Answer:
    """Write, open, ask."""
    pick = random.Random(1)
    orders = [(pick.randrange(5_000), pick.choice("abc"), pick.randrange(100)) for _ in range(20_000)]
    person, shop, amount = (list(column) for column in zip(*orders, strict=True))
    pq.write_table(pa.table({"person": person, "shop": shop, "amount": amount}), Path(folder, "orders.parquet"))
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10, "delta": 1e-6},
            "privacy": {"max_rows": 8},
            "backend": {"kind": "spark", "url": url},
            "tables": {
                "orders": {
                    "source": "orders.parquet",
                    "unit": "person",
                    "columns": {"shop": {"values": ["a", "b", "c"]}, "amount": {"min": 0, "max": 100}},
                }
            },
        },
        folder=folder,
    )
    with dpsql.connect(policy, ledger=":memory:") as session:
        (*_, step) = session.explain(SQL, epsilon=1).steps
        print(session.backend.written(step)[0])
        answer = session.query(SQL, epsilon=1)
        print(answer)
        return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
