"""The temporary folder: one's own, gone with the session, and swept up after processes that were killed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import dpsql
from dpsql.backends.duckdb.spill import LOCK, PREFIX, Spill, sweep

ROOT = Path(__file__).parents[1]
ROWS = pa.table({"x": [1, 2, 3]})


def connect(folder: Path, **engine: object) -> dpsql.Session:
    tables = {"t": {"unit": "row"}}
    whole = {
        "budget": {"epsilon": 10, "delta": 0},
        "engine": {"folder": str(folder), **engine},
        "tables": tables,
    }
    return dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": ROWS}, ledger=":memory:")


def dead(base: Path) -> Path:
    """The folder of a process that was killed."""
    code = "import os, sys; from pathlib import Path; from dpsql.backends.duckdb.spill import Spill\n"
    code += "made = Spill(Path(sys.argv[1])); (made.path / 'rows').write_text('x'); print(made.path, flush=True)\n"
    code += "os.kill(os.getpid(), 9)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, base], env=environment, capture_output=True, text=True)
    found = Path(done.stdout.strip())
    assert found.is_dir()
    return found


def test_the_folder_is_the_owners_alone_and_goes_with_the_session(tmp_path: Path) -> None:
    with connect(tmp_path):
        (made,) = tmp_path.iterdir()
        assert made.name.startswith(PREFIX) and stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_is_dropped_leaves_no_folder(tmp_path: Path) -> None:
    session = connect(tmp_path)
    del session
    import gc

    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_is_refused_while_it_is_opened_leaves_no_folder(tmp_path: Path) -> None:
    whole = {
        "budget": {"epsilon": 10, "delta": 0},
        "engine": {"folder": str(tmp_path)},
        "tables": {"t": {"unit": "nobody"}},
    }
    with pytest.raises(dpsql.PolicyError):
        dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": ROWS}, ledger=":memory:")
    assert list(tmp_path.iterdir()) == []


def test_folders_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    killed = [dead(tmp_path), dead(tmp_path)]
    alive = Spill(tmp_path)
    sweep(tmp_path)
    assert not any(folder.exists() for folder in killed)
    assert (alive.path / LOCK).exists()
    with connect(tmp_path):
        assert alive.path.exists()
    alive.remove()
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_ever_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(precious)  # a link, with the name of a folder of ours
    bare = tmp_path / f"{PREFIX}being-made"  # a folder whose lock isn't there yet
    bare.mkdir()
    linked = tmp_path / f"{PREFIX}linked-lock"
    linked.mkdir()
    (linked / LOCK).symlink_to(precious / LOCK)
    (tmp_path / f"{PREFIX}file").touch()
    other = tmp_path / "dpsql-other"
    other.mkdir()
    (other / LOCK).touch()
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_inside_of_a_dead_folder_are_not_followed(tmp_path: Path) -> None:
    killed = dead(tmp_path)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (killed / "link").symlink_to(precious)
    sweep(tmp_path)
    assert not killed.exists() and (precious / "file").exists()


def test_a_forked_process_leaves_its_parents_folder_alone(tmp_path: Path) -> None:
    made = Spill(tmp_path)
    if (child := os.fork()) == 0:
        made.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert made.path.exists()
    made.remove()


def test_a_folder_that_does_not_exist_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(dpsql.PolicyError) as refused:
        connect(tmp_path / "nowhere")
    error = refused.value
    assert error.code == "no-folder" and str(tmp_path / "nowhere") in error.message
    assert error.hint is not None and "DPSQL_ENGINE_FOLDER" in error.hint and error.__cause__ is None


def test_no_temporary_folder_at_all_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("dpsql.backends.duckdb.spill.gettempdir", nowhere)
    whole = {"budget": {"epsilon": 10, "delta": 0}, "tables": {"t": {"unit": "row"}}}
    with pytest.raises(dpsql.PolicyError) as refused:
        dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": ROWS}, ledger=":memory:")
    assert refused.value.code == "no-folder"


def test_without_spilling_no_folder_is_needed(tmp_path: Path) -> None:
    with connect(tmp_path / "nowhere", spill="0GB") as session:
        assert session.query("SELECT COUNT(*) FROM t", epsilon=1).rows
    assert list(tmp_path.iterdir()) == []


def test_the_systems_temporary_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("DPSQL_ENGINE_FOLDER", raising=False)
    whole = {"budget": {"epsilon": 10, "delta": 0}, "tables": {"t": {"unit": "row"}}}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": ROWS}, ledger=":memory:"):
        assert [p.name.startswith(PREFIX) for p in tmp_path.iterdir()] == [True]
