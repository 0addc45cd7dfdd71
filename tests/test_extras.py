"""The least versions: those of pyproject.toml are those that the code names, and an older one is told as such."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import dpsql
from dpsql.backends.base import Versions
from dpsql.backends.duckdb.versions import versions
from dpsql.backends.parser import TESTED_SQLGLOT
from dpsql.core.errors import ExtraError
from dpsql.core.extras import FLOORS, NEEDED, blamed, extra, is_after, too_old

ROOT = Path(__file__).parents[1]
USED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"vl-convert-python": "vl_convert"}  # by package
UNSEEN = ("dp-accounting", "mkdocs-material")
"""Packages of extras that are asked for nothing but what all their versions have, or that dpsql doesn't import."""


def bounds(requirements: list[str]) -> dict[str, str]:
    pairs = [re.match(r"([\w\-]+)(?:\[.*?\])?>=([\d.]+)", requirement) for requirement in requirements]
    return {MODULES.get(pair[1], pair[1]): pair[2] for pair in pairs if pair is not None}


def test_the_floors_are_those_of_the_project() -> None:
    optional = [one for extra, all_ in USED["optional-dependencies"].items() if extra != "dev" for one in all_]
    assert set(bounds(USED["dependencies"])) == set(NEEDED)
    declared = {**bounds(optional), **bounds(USED["dependencies"])}
    assert {name: least for name, least in declared.items() if name not in UNSEEN} == FLOORS


@pytest.mark.parametrize(
    ("version", "old"),
    [("1.26.4", True), ("2.0", False), ("2.0.0", False), ("2", False), ("2.10", False), ("1.9rc1", True)],
)
def test_versions_compare_by_their_numbers(version: str, old: bool) -> None:
    found = too_old("numpy", version)
    assert (found is not None) is old
    assert found is None or ("too old" in found.message and found.hint == "pip install -U 'numpy>=2.0'")


@pytest.mark.parametrize("module", [duckdb, np, pa, sqlglot])
def test_an_old_engine_or_library_is_refused_before_a_ledger_is_made(
    module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "__version__", "1.5.6")
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0}, "tables": {"t": {"unit": "row"}}})
    with pytest.raises(ExtraError, match=r"1\.5\.6 is too old") as refused:
        dpsql.connect(policy, sources={"t": pa.table({"x": [1]})}, ledger=tmp_path / "l.sqlite")
    assert refused.value.code == "too-old" and not list(tmp_path.iterdir())


def test_an_old_library_of_an_extra_is_told_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "polars.py").write_text("__version__ = '0.20.1'")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    with pytest.raises(ExtraError, match=r"polars 0\.20\.1 is too old"):
        extra("polars", "polars", "a DataFrame of polars")
    sys.modules.pop("polars", None)


def test_what_fails_for_an_old_library_is_no_bug(tmp_path: Path) -> None:
    """click before 8.1.8 can't even be imported as the command line wants it."""
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "__init__.py").write_text("class Group: pass")
    (tmp_path / "click-7.1.2.dist-info").mkdir()
    (tmp_path / "click-7.1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: click\nVersion: 7.1.2\n")
    done = subprocess.run(
        [sys.executable, "-m", "dpsql", "--version"],
        env={"PYTHONPATH": f"{tmp_path}:{Path(dpsql.__file__).parents[1]}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExtraError.exit_code
    assert (
        done.stderr
        == "error: click 7.1.2 is too old: dpsql needs 8.1.8 or a later one\nhelp: pip install -U 'click>=8.1.8'\n"
    )


def test_what_is_installed_here_is_to_blame_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blamed() is None
    monkeypatch.setattr(metadata, "version", lambda name: {"sqlglot": "31.0.0"}.get(name, "99"))
    newer = blamed()
    assert newer is not None and newer.hint == "pip install 'sqlglot>=30.30,<31'"


def test_a_parser_of_the_next_kind_is_an_untested_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not versions().untested and is_after("sqlglot", "31.0") and not is_after("sqlglot", "30.99.1")
    monkeypatch.setattr(sqlglot, "__version__", "31.2.0")
    found = versions()
    assert found.untested == "sqlglot 31.2.0"
    assert found.warning == f"dpsql was not tested with sqlglot 31.2.0, only with {TESTED_SQLGLOT}"
    with pytest.raises(dpsql.PolicyError) as refused:
        found.require()
    assert f'pip install "sqlglot=={TESTED_SQLGLOT}"' in (refused.value.hint or "")
    both = Versions("DuckDB", "9", ("2",), "duckdb", found.beside)
    assert both.untested == "DuckDB 9 and sqlglot 31.2.0" and ", and not with sqlglot" in both.warning
