"""docs/drivers.md: its Python is run, its command too, and its refusal is the one that is raised."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy.dialects import registry

from dpsql import dbapi
from dpsql.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "drivers.md").read_text(encoding="utf-8")
registry.register("dpsql", "dpsql.dbapi.dialect", "Dialect")  # as the entry point does in an installation


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adult")
    for name in ("adult.parquet", "education.csv", "policy.toml"):
        shutil.copy(ROOT / "examples" / "adult" / name, folder)
    return folder


def test_the_python_of_the_page_runs_in_order(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/drivers.md", "exec"), names)
    assert len(blocks) == 3
    assert len(names["rows"]) == 3 and len(names["frame"]) == 17 and len(names["older"]) == 1
    names["engine"].dispose()


def test_the_command_of_the_page_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example)
    (command,) = re.findall(r"^```\n(dpsql query .*)\n```", PAGE, re.MULTILINE)
    done = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--epsilon", "0.1"])
    assert done.exit_code == 0 and done.stdout.startswith("n\n")


def test_the_refusal_of_the_page_is_the_one_that_is_raised(example: Path) -> None:
    (shown,) = re.findall(r"<!-- refusal -->\n```\n(.*?)\n```", PAGE, re.DOTALL)
    text = (example / "policy.toml").read_text()
    (example / "plain.toml").write_text(re.sub(r"^query_epsilon.*\n", 'ledger = "plain.ledger"\n', text, flags=re.M))
    with dbapi.connect(example / "plain.toml") as connection, pytest.raises(dbapi.ProgrammingError) as refused:
        connection.cursor().execute("SELECT COUNT(*) FROM people")
    assert str(refused.value) == shown
