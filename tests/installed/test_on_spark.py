"""An installed dpsql with the extra `spark`, and nothing else: its commands on a cluster of two workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed.cells import ask, counted
from installed.files import write
from installed.venvs import installed
from services import needs
from spark_cluster import spark

Record = Callable[[str, object], None]
POLICY = """
[budget]
epsilon = 1000
delta = 1e-6
query_epsilon = 1
[backend]
kind = "spark"
url = "{url}"
[tables.t]
source = "t.parquet"
unit = "person"
"""
COUNT = "SELECT COUNT(*) AS n FROM t"
COMMANDS = {
    "check": ("check",),
    "check --steward": ("check", "--steward"),
    "explain": ("explain", COUNT),
    "price": ("price", COUNT),
    "query": ("query", COUNT, "--format", "csv"),
    "again": ("query", COUNT, "--format", "json"),
    "groups": ("query", "SELECT v, COUNT(*) AS n FROM t GROUP BY v ORDER BY n DESC LIMIT 2"),
    "index": ("index", "--steward"),
    "refresh": ("refresh", "--steward"),
    "budget": ("budget",),
    "shell": ("shell",),
}
CERTAIN = ("check", "check --steward", "explain", "price", "query", "again", "index", "refresh", "budget", "shell")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with spark() as (address, _):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where servers are remembered: for all commands, so that this one is asked everything once."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "writer", ["parquet of pandas", "parquet of DuckDB", "parquet of pyarrow", "parquet of polars"]
)
@pytest.mark.parametrize("kind", ["TIMESTAMPTZ", "BIGINT", "DICTIONARY", "TIME", "STRUCT", "DECIMAL(38,2)"])
def test_every_command_answers_or_refuses_clearly(
    url: str, cache: str, writer: str, kind: str, tmp_path: Path, record_property: Record
) -> None:
    assert write(writer, kind, tmp_path) is not None
    (tmp_path / "policy.toml").write_text(POLICY.format(url=url), encoding="utf-8")
    here, home = installed("spark"), str(Path(needs("java")).resolve().parents[1])
    said = {"JAVA_HOME": home, "XDG_CACHE_HOME": cache}
    cells = {name: ask(here.script, tmp_path, *words, stdin=f"{COUNT};\n", **said) for name, words in COMMANDS.items()}
    record_property("cells", counted(list(cells.values())))
    assert not [str(cell) for cell in cells.values() if cell.kind == "failure"]
    if kind in ("TIMESTAMPTZ", "BIGINT", "DICTIONARY"):
        assert not [str(cells[name]) for name in CERTAIN if cells[name].kind != "answer"]
