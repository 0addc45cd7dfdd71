"""Commands of an installed dpsql over other people's files: each an answer or a clear refusal, never a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed.cells import Ask, Cell, ask, ask_a_fork, counted
from installed.files import TYPES, WRITERS, Written, write
from installed.venvs import installed

POLICY = """
[budget]
epsilon = 1000
delta = 1e-6
query_epsilon = 1
[tables.t]
unit = "person"
"""
QUERIES = (
    "SELECT COUNT(*), COUNT(v) FROM t",
    "SELECT v, COUNT(*) AS n FROM t GROUP BY v ORDER BY n DESC LIMIT 3",
    "SELECT MIN(v), MAX(v) FROM t",
    "SELECT DATE_TRUNC('month', v) AS m, COUNT(*) FROM t GROUP BY m",
    "SELECT MEDIAN(CLIP(v, '2024-01-01', '2024-02-01')) FROM t",
    "SELECT COUNT(DISTINCT v), MODE(v) FROM t",
    "SELECT AVG(CLIP(v, 0, 9)) FROM t WHERE v IS NOT NULL",
    "SELECT CAST(v AS VARCHAR) AS w, COUNT(*) FROM t GROUP BY w LIMIT 2",
)
STARTED = ("TIMESTAMPTZ",)
"""Types whose commands are started as people start them; those of others are forks, which have imported the usual."""
Record = Callable[[str, object], None]


def asked(ask: Ask, script: Path, folder: Path, written: Written) -> Iterator[Cell]:
    """Every command over one source, in the order in which people come to them."""
    yield ask(script, folder, "init", written.given, "-o", "draft.toml")
    yield ask(script, folder, "init", written.given, "--steward", "-o", "drafted.toml")
    (folder / "policy.toml").write_text(POLICY + written.policy, encoding="utf-8")
    yield ask(script, folder, "check")
    yield ask(script, folder, "check", "--steward")
    for format_, query in zip(("csv", "json", "table") * 3, QUERIES, strict=False):
        yield ask(script, folder, "query", query, "--format", format_)
    yield ask(script, folder, "explain", QUERIES[1])
    yield ask(script, folder, "price", QUERIES[0])
    yield ask(script, folder, "query", QUERIES[1], "-o", "out.parquet")
    yield ask(script, folder, "index", "--steward")
    yield ask(script, folder, "learn", "--steward")
    yield ask(script, folder, "refresh", "--steward")
    yield ask(script, folder, "shell", stdin=f"\\d t\n{QUERIES[2]};\n")
    yield ask(script, folder, "budget")


@pytest.mark.sample(29)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("writer", WRITERS)
def test_every_command_answers_or_refuses_clearly(
    writer: str, kind: str, tmp_path: Path, record_property: Record
) -> None:
    written = write(writer, kind, tmp_path)
    if written is None:  # nobody has such a file
        return
    extra = WRITERS[writer][1]
    pins = ("sqlalchemy",) if extra == "iceberg" else ()  # for a catalog that is a file
    how = ask if kind in STARTED else ask_a_fork
    cells = list(asked(how, installed(extra, pins=pins).script, tmp_path, written))
    record_property("cells", counted(cells))
    assert not [str(cell) for cell in cells if cell.kind == "failure"]
    assert cells[2].kind != "answer" or cells[4].kind == "answer"  # what `check` lets pass can be counted


@pytest.mark.long
@pytest.mark.parametrize("writer", ["Delta", "Iceberg"])
def test_tables_of_lakes_are_read_by_the_lowest_versions(writer: str, tmp_path: Path, record_property: Record) -> None:
    written = write(writer, "BIGINT", tmp_path)
    assert written is not None
    pins = ("sqlalchemy",) if writer == "Iceberg" else ()
    cells = list(asked(ask, installed(WRITERS[writer][1], least=True, pins=pins).script, tmp_path, written))
    record_property("cells", counted(cells))
    assert not [str(cell) for cell in cells if cell.kind == "failure"]
    assert cells[2].kind == cells[4].kind == "answer", str(cells[4])


CLIPPED = "CLIP(v, '2024-01-01', '2024-02-01')"
ZONED = (
    f"SELECT MIN({CLIPPED}) FROM t",
    f"SELECT DATE_TRUNC('month', {CLIPPED}) AS m, COUNT(*) FROM t GROUP BY m",
    "SELECT DATE_TRUNC('month', v) AS m, COUNT(*) FROM t GROUP BY m",
)


@pytest.mark.parametrize("writer", ["parquet of pandas", "database of DuckDB", "CSV of DuckDB"])
def test_moments_with_a_zone_need_no_library_and_no_files_of_zones(
    writer: str, tmp_path: Path, record_property: Record
) -> None:
    """Neither pytz is there, nor the system's files of zones."""
    written = write(writer, "TIMESTAMPTZ", tmp_path)
    assert written is not None
    (tmp_path / "policy.toml").write_text(POLICY + written.policy, encoding="utf-8")
    script = installed().script
    cells = [ask(script, tmp_path, "init", written.given, "--steward", "-o", "drafted.toml", PYTHONTZPATH="")]
    cells += [ask(script, tmp_path, "query", query, "--epsilon", "100", PYTHONTZPATH="") for query in ZONED]
    record_property("cells", counted(cells))
    for cell in cells:
        assert cell.kind == "answer", str(cell)
    assert "+00:00" in cells[1].stdout and "2024-01-01T00:00:00+00:00" in cells[2].stdout
