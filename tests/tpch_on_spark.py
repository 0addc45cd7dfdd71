"""python -m tests.tpch_on_spark [--scale 1] [q01 q03 …]: TPC-H on DuckDB and on a Spark of two workers.

Exact integers are compared, before noise, and nothing may differ. The cluster is started and stopped; Java 17, and at
scale 1 about 8 GB of memory. Says of each query how many statements were the same, and what Spark took by the clock.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.append(str(Path(__file__).parent))  # as pytest finds what tests share

import test_tpch
from spark_cluster import example
from two_engines import Engines, beside

import dpsql


def compared(both: Engines, name: str) -> str:
    """What came of one query; an AssertionError where an integer differs."""
    start = perf_counter()
    same = both.query((test_tpch.HERE / f"{name}.sql").read_text(encoding="utf-8"), epsilon=10**6, delta="1e-6")
    return f"{name}: {same} statements, the same integers; {perf_counter() - start:.0f} s on both"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="1", help="of TPC-H (1)")
    parser.add_argument("names", nargs="*", default=test_tpch.QUERIES, help="queries, instead of all")
    asked = parser.parse_args(given)
    with TemporaryDirectory(prefix="dpsql-tpch-") as name, example("cluster") as module:
        folder = test_tpch.generated(Path(name), asked.scale)
        with (
            module.cluster(memory="2g") as started,
            dpsql.connect(folder / "policy.toml") as session,
            beside(session, started.url) as both,
        ):
            for query in asked.names:
                print(compared(both, query), flush=True)


if __name__ == "__main__":
    main()
