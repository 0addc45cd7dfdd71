"""What each extra declares is all that its commands need; what another one needs is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from installed.cells import Cell, ask, ask_a_server, counted
from installed.venvs import Installed, declared, installed

Record = Callable[[str, object], None]
EXTRAS = [extra for extra in declared() if extra not in ("dev", "docs")]
POLICY = """
[budget]
epsilon = 100
delta = 1e-6
query_epsilon = 1
[tables.t]
source = "t.parquet"
unit = "person"
columns = { k = { values = ["a", "b"] } }
"""
GROUPS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
JOB = "-- output = 'out.csv'\n" + GROUPS
COMMANDS: dict[str, tuple[str, ...]] = {  # those that work on the small table, each with the extra that it needs
    "version": ("--version",), "help": ("--help",), "check": ("check", "--steward"), "query": ("query", GROUPS),
    "json": ("query", GROUPS, "--format", "json"), "intervals": ("query", GROUPS, "--intervals"),
    "parquet": ("query", GROUPS, "-o", "out.parquet"), "arrow": ("query", GROUPS, "-o", "out.arrow"),
    "explain": ("explain", GROUPS), "price": ("price", GROUPS), "index": ("index", "--steward"),
    "learn": ("learn", "--steward"), "refresh": ("refresh", "--steward"), "functions": ("functions",),
    "budget": ("budget",), "shell": ("shell",), "plot": ("query", GROUPS, "--plot"),
    "init": ("init", "t.parquet", "-o", "-"),
    "html": ("query", GROUPS, "-o", "out.html"), "png": ("query", GROUPS, "-o", "out.png"), "key": ("key",),
    "receipt": ("query", GROUPS, "-o", "signed.csv", "--receipt"), "run": ("run", "job"),
    "verify": ("verify", "signed.csv"), "token": ("token", "add", "ann"),
    "server": ("query", GROUPS, "--server", "http://127.0.0.1:9"),
    "delta": ("init", "delta:t"), "iceberg": ("init", "iceberg:a.b.c"), "demo": ("demo",),
}  # fmt: skip
NEEDS = {"plot": {"plot"}, "html": {"plot"}, "png": {"plot"}, "receipt": {"sign", "server"}, "run": {"sign", "server"},
         "key": {"sign", "server"}, "serve": {"server"}, "served": {"server"}}  # fmt: skip
"""Commands that answer only where one of these extras is installed, and refuse with its name elsewhere."""
REFUSED = {"server", "delta", "iceberg", "verify", "token"}
"""Commands that are asked for what isn't there (a server, a table), whatever is installed."""


def place(folder: Path) -> None:
    pq.write_table(pa.table({"person": [i % 30 for i in range(300)], "k": ["a", "b"] * 150}), folder / "t.parquet")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    (folder / "job").mkdir()
    (folder / "job" / "q.sql").write_text(JOB, encoding="utf-8")


def all_commands(here: Installed, folder: Path) -> dict[str, Cell]:
    place(folder)
    cells = {name: ask(here.script, folder, *words, stdin=f"{GROUPS};\n") for name, words in COMMANDS.items()}
    token = cells["token"].stdout.strip()
    cells["serve"], cells["served"] = ask_a_server(here.script, folder, token, "query", GROUPS)
    return cells


def judge(cells: dict[str, Cell], extra: str, record: Record) -> None:
    record("cells", counted(list(cells.values())))
    assert not [str(cell) for cell in cells.values() if cell.kind == "failure"]
    for name, cell in cells.items():
        lacking = name in NEEDS and extra not in NEEDS[name]
        assert name in REFUSED or (cell.kind == "refusal") is lacking, str(cell)
        assert not lacking or "pip install 'dpsql[" in cell.stderr, str(cell)


@pytest.mark.sample(7)
@pytest.mark.parametrize("extra", EXTRAS)
def test_every_command_works_or_names_the_extra_that_it_needs(
    extra: str, tmp_path: Path, record_property: Record
) -> None:
    judge(all_commands(installed(extra), tmp_path), extra, record_property)


@pytest.mark.long
@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra != "spark"])
def test_so_does_each_with_the_lowest_versions(extra: str, tmp_path: Path, record_property: Record) -> None:
    judge(all_commands(installed(extra, least=True), tmp_path), extra, record_property)


OLD = ("duckdb==1.5.6", "duckdb==1.4.5", "sqlglot==30.29.0", "numpy==1.26.4", "pyarrow==16.1.0", "click==8.1.7")


@pytest.mark.sample(6)
@pytest.mark.parametrize("old", OLD)
def test_a_version_below_the_floor_is_too_old_before_anything_is_read(
    old: str, tmp_path: Path, record_property: Record
) -> None:
    place(tmp_path)
    package = old.partition("==")[0]
    cells = [ask(installed(later=old).script, tmp_path, *COMMANDS[name]) for name in ("query", "explain", "parquet")]
    record_property("cells", counted(cells))
    for cell in cells:
        assert cell.kind == "refusal" and "is too old" in cell.stderr, str(cell)
        assert f"pip install -U '{package}>=" in cell.stderr
    paid = ask(installed().script, tmp_path, "budget")  # where an older one is seen after the policy is opened
    assert paid.kind == "refusal" or paid.stdout.startswith("nothing") or "0 releases" in paid.stderr, str(paid)
