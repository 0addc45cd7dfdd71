"""A small folder to work in: a private parquet table of people, a public CSV table, a policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dpsql.cli.main import cli

POLICY = """
[budget]
epsilon = 100
delta = 0
query_epsilon = 1

[privacy]
limits_share = 0

[tables.people]
source = "people.parquet"
unit = "row"

[tables.people.columns]
region = { values = ["east", "north", "south"] }
income = { min = 0, max = 1000 }
age = { min = 0, max = 120 }

[tables.regions]
source = "regions.csv"
public = true
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    people = {
        "region": ["east", "north", "north", "south"] * 25,
        "income": [10.5, 20.0, 700.25, 999.0] * 25,
        "age": list(range(100)),
        "name": [f"n{i}" for i in range(100)],
    }
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    (tmp_path / "regions.csv").write_text("region,label\neast,East\nnorth,North\n")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    monkeypatch.delenv("DPSQL_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def dpsql(folder: Path) -> Callable[..., Result]:
    """Run a command in the folder."""
    assert Path.cwd().samefile(folder)

    def run(*arguments: str | os.PathLike[str], stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, [os.fspath(a) for a in arguments], input=stdin)

    return run
