"""An installed dpsql with the extra `spark`, and nothing else: its commands on a cluster of two workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed.cells import Cell, ask, counted
from installed.files import write
from installed.spark_files import SPARK_TYPES
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
OF_TYPES = ("check", "check --steward", "query", "groups")
"""Commands in which types may matter: all of them are asked of some types, and these of the others."""
CERTAIN = ("check", "check --steward", "explain", "price", "query", "again", "index", "refresh", "budget", "shell")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with spark() as (address, _):
        yield address


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where servers are remembered: for all commands, so that this one is asked everything once."""
    return str(tmp_path_factory.mktemp("cache"))


CELLS = [
    *((f"parquet of {writer}", kind)
      for writer in ("pandas", "DuckDB", "pyarrow", "polars")
      for kind in ("TIMESTAMPTZ", "BIGINT", "DICTIONARY", "TIME", "STRUCT", "DECIMAL(38,2)")),
    *(("parquet of Spark", kind) for kind in SPARK_TYPES),
]  # fmt: skip
ASKED_ALL = ("BIGINT", "TIMESTAMPTZ")
"""Types of files that Spark wrote of which every command is asked."""
SIMPLE = ("BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "DICTIONARY")
"""Types that both engines have, whoever wrote the file."""
ELSEWHERE = {  # sources that are no parquet files, with what a refusal names
    "CSV of DuckDB": "parquet",
    "CSV of Spark": "parquet",
    "gzip of Spark": "parquet",
    "database of DuckDB": "parquet",
    "Delta": "pip install 'dpsql[delta]'",
    "Iceberg": "pip install 'dpsql[iceberg]'",
}


def asked(url: str, cache: str, writer: str, kind: str, folder: Path) -> dict[str, Cell]:
    """Commands over one source, by their names."""
    written = write(writer, kind, folder)
    assert written is not None
    (folder / "policy.toml").write_text(POLICY.format(url=url) + written.policy, encoding="utf-8")
    here, home = installed("spark"), str(Path(needs("java")).resolve().parents[1])
    said = {"JAVA_HOME": home, "XDG_CACHE_HOME": cache}
    names = OF_TYPES if writer == "parquet of Spark" and kind not in ASKED_ALL else COMMANDS
    return {name: ask(here.script, folder, *COMMANDS[name], stdin=f"{COUNT};\n", **said) for name in names}


@pytest.mark.sample(14)
@pytest.mark.parametrize(("writer", "kind"), CELLS)
def test_every_command_answers_or_refuses_clearly(
    url: str, cache: str, writer: str, kind: str, tmp_path: Path, record_property: Record
) -> None:
    cells = asked(url, cache, writer, kind, tmp_path)
    record_property("cells", counted(list(cells.values())))
    assert not [str(cell) for cell in cells.values() if cell.kind == "failure"]
    if kind in SIMPLE:
        wanted = [*(name for name in CERTAIN if name in cells), *(["groups"] if writer == "parquet of Spark" else [])]
        assert not [str(cells[name]) for name in wanted if cells[name].kind != "answer"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("writer", ELSEWHERE)
def test_a_source_that_spark_does_not_read_is_refused_with_what_to_do(
    url: str, cache: str, writer: str, tmp_path: Path, record_property: Record
) -> None:
    """With the extra `spark` and nothing else: lakes need their own."""
    cells = asked(url, cache, writer, "BIGINT", tmp_path)
    record_property("cells", counted(list(cells.values())))
    budget, *others = [cells.pop("budget"), *cells.values()]
    assert budget.kind != "failure", str(budget)
    assert not [str(cell) for cell in others if cell.kind != "refusal" or ELSEWHERE[writer] not in cell.stderr]
