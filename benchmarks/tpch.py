"""Error on TPC-H with customers as units, no limit named anywhere.

    python benchmarks/tpch.py [scale] [runs]      default 1 and 10

Needs `tpchgen-cli`. ε = 0.8 for each query, in an account of its own. The relative root mean square error, median over
groups, and how many of the nominal 95% intervals held the truth. Exact statistics are read once and kept, noise is
drawn anew.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
from common import DATA
from coverage import keep_exact

import dpsql
from dpsql.steward.check import check

QUERIES = Path(__file__).parent.parent / "tests" / "tpch"
BEST = {"q03": 0.00065, "q05": 0.017, "q06": 0.00074, "q12": 0.0028, "q14": 0.0045}  # fixed limits, in hindsight
KEYS = {"q05": 1, "q12": 1}  # how many of the first columns are keys
TABLES = ("customer", "orders", "lineitem", "nation", "region", "supplier", "part", "partsupp")


def made(scale: str) -> Path:
    """The tables, and the policy without its limits, verified."""
    folder = DATA / f"tpch_{scale}"
    if not (folder / "lineitem.parquet").exists():
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "parquet", "-s", scale, "--output-dir", folder], check=True, capture_output=True)
    text = (QUERIES / "policy.toml").read_text(encoding="utf-8")
    text = re.sub(r"^(max_rows|max_groups) = .*\n", "", text, flags=re.MULTILINE)
    (folder / "policy.toml").write_text(text, encoding="utf-8")
    if not (folder / "policy.ledger.sqlite").exists():
        assert not check(folder / "policy.toml", steward=True).broken
    return folder


def ask(folder: Path, sql: str) -> dpsql.Answer:
    """An answer from an account in which nothing was asked before, and promises are verified."""
    with TemporaryDirectory() as new:
        for file in folder.glob("policy.ledger*"):
            shutil.copy(file, new)
        with dpsql.connect(folder / "policy.toml", ledger=Path(new) / "policy.ledger.sqlite") as session:
            return session.query(sql, epsilon="0.8")


def main() -> None:
    scale, runs = (sys.argv[1:3] + ["1", "10"][len(sys.argv) - 1 :])[:2]
    folder = made(scale)
    keep_exact()
    plain = duckdb.connect()
    for name in TABLES:
        plain.execute(f"CREATE VIEW {name} AS FROM '{folder / name}.parquet'")
    print("| query | RMSE | bias | best fixed limit | times | held |\n|---|---|---|---|---|---|")
    for name, best in BEST.items():
        sql, keys = (QUERIES / f"{name}.sql").read_text(encoding="utf-8"), KEYS.get(name, 0)
        truth = {row[:keys]: [float(v) for v in row[keys:]] for row in plain.execute(sql).fetchall()}
        errors: dict[tuple[object, ...], list[list[float]]] = {}
        held = of = 0
        for _ in range(int(runs)):
            answer = ask(folder, sql)
            intervals = [answer.intervals()[c] for c in answer.columns[keys:]]
            for line, row in enumerate(answer.rows):
                exact = truth.get(row[:keys])
                if exact is None:
                    continue  # the cell of NULL keys, which no row has
                off = [float(v) / t - 1 for v, t in zip(row[keys:], exact, strict=True)]
                errors.setdefault(row[:keys], []).append(off)
                spans = [(one[line], t) for one, t in zip(intervals, exact, strict=True) if one is not None]
                of += len(spans)
                held += sum(span is not None and span[0] <= t <= span[1] for span, t in spans)
        found = np.array(list(errors.values()))
        rmse, bias = np.median(np.sqrt((found**2).mean(axis=1))), np.median(found.mean(axis=1))
        shown = f"{rmse:.3%} | {bias:+.3%} | {best:.3%} | {rmse / best:.1f} | {held} of {of}"
        print(f"| {name.upper()} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
