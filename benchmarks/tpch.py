"""TPC-H with customers as units, made by `tpchgen-cli`; the queries and the policy are those of the tests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

from benchmarks.cases import Case
from benchmarks.data import FOLDER, Data, opened

QUERIES = Path(__file__).parent.parent / "tests" / "tpch"
TABLES = ("customer", "orders", "lineitem", "nation", "region", "supplier", "part", "partsupp")
TITLES = {
    "q01": "eight aggregates of nearly all line items",
    "q03": "orders of one market, counted",
    "q05": "revenue by nation, six tables",
    "q06": "one sum, filtered",
    "q12": "two counts by ship mode",
    "q14": "a share of revenue",
    "q19": "one sum, three alternatives",
}
QUICK = ("q06",)
KEYS = {"q01": 2, "q05": 1, "q12": 1}  # how many of the first columns are keys
ALL = tuple(sorted(path.stem for path in QUERIES.glob("q*.sql")))
LIMITS: Mapping[str, Any] = {"max_rows": 500, "max_groups": 100}


def text_of(name: str) -> str:
    return (QUERIES / f"{name}.sql").read_text(encoding="utf-8")


def cases() -> tuple[Case, ...]:
    """The queries with limits that hardly cut, and again with none named."""
    named = [
        Case(name.upper(), title, named_columns(name), "customer", LIMITS, floor(name), quick=name in QUICK)
        for name, title in TITLES.items()
    ]
    auto = [
        replace(case, name=f"{case.name} auto", title=f"{case.title}; no limit named", limits={}, quick=False)
        for case in named
    ]
    return (*named, *auto)


def named_columns(name: str) -> str:
    """The query, its aggregates named in capitals as `Case` asks."""
    tree = sqlglot.parse_one(text_of(name), dialect="duckdb", into=exp.Select)
    for column in tree.selects[KEYS.get(name, 0) :]:
        column.set("alias", exp.to_identifier(column.alias.upper()))
    return tree.sql(dialect="duckdb")


def floor(name: str) -> str:
    """One GROUP BY customer over the rows that the query looks at."""
    tree = sqlglot.parse_one(text_of(name), dialect="duckdb")
    rows = list(tree.find_all(exp.Select))[-1]  # the innermost
    tables = {table.name for table in rows.find_all(exp.Table)}
    counted = exp.select("COUNT(*) AS n").group_by("o_custkey")
    for part in ("from_", "from", "joins", "where"):
        if found := rows.args.get(part):
            counted.set(part, found)
    if "orders" not in tables:
        counted = counted.join("orders", on="l_orderkey = o_orderkey")
    return f"SELECT MAX(n) FROM ({counted.sql(dialect='duckdb')})"


def made(scale: str, folder: Path = FOLDER) -> Data:
    """The tables, and the tests' policy without its limits, checked."""
    here = folder / f"tpch_{scale}"
    files = {name: here / f"{name}.parquet" for name in TABLES}
    if not all(file.exists() for file in files.values()):
        generator = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(generator), "parquet", "-s", scale, "--output-dir", str(here)]
        subprocess.run(command, check=True, capture_output=True)
    text = (QUERIES / "policy.toml").read_text(encoding="utf-8")
    text = re.sub(r"^(max_rows|max_groups) = .*\n", "", text, flags=re.MULTILINE)
    return opened("TPC-H", round(float(scale) * 6_000_000), files, here / "policy.toml", text)
