"""[engine]: read from the policy, replaced by the environment, and what the engine then runs with."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import cursor_of, duckdb_of

import dpsql
from dpsql.policy.settings import EngineSettings

TABLES = {"t": {"unit": "row"}}
ROWS = pa.table({"x": [1, 2, 3]})


def policy(**engine: object) -> dpsql.Policy:
    whole = {"budget": {"epsilon": 10, "delta": 0}, "engine": engine, "tables": TABLES}
    return dpsql.Policy.from_dict(whole)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIMEOUT", "MEMORY", "THREADS", "SPILL", "FOLDER"):
        monkeypatch.delenv(f"DPSQL_ENGINE_{name}", raising=False)


def running(loaded: dpsql.Policy) -> Iterator[dict[str, Any]]:
    """What the private engine says of itself."""
    with dpsql.connect(loaded, sources={"t": ROWS}, ledger=":memory:") as session:
        names = ("memory_limit", "threads", "temp_directory", "max_temp_directory_size")
        cursor = cursor_of(session)
        yield {n: cursor.rows(f"SELECT current_setting('{n}')")[1][0][0] for n in names}
        cursor.close()


def test_without_a_section_the_defaults_hold() -> None:
    assert dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0}, "tables": TABLES}).engine == EngineSettings()
    assert EngineSettings().timeout.seconds == 1800 and EngineSettings().untested == "warn"


@pytest.mark.parametrize(
    ("written", "seconds", "text"),
    [
        ("10m", 600, "10m"),
        ("90s", 90, "90s"),
        (45, 45, "45s"),
        (0.5, Fraction(1, 2), "0.5s"),
        ("1.5h", 5400, "1.5h"),
        ("250 ms", Fraction(1, 4), "250ms"),
        ("2d", 172_800, "2d"),
        ("30", 30, "30s"),
    ],
)
def test_a_time_limit_is_read_as_people_write_it(written: object, seconds: object, text: str) -> None:
    found = policy(timeout=written).engine.timeout
    assert (found.seconds, found.text) == (seconds, text)


@pytest.mark.parametrize(
    ("key", "written", "read"),
    [
        ("memory", "4GB", "4GB"),
        ("memory", "1.5 gib", "1.5GiB"),
        ("memory", "50%", "50%"),
        ("threads", 3, 3),
        ("spill", "100MB", "100MB"),
        ("spill", "0GB", "0GB"),
        ("folder", "scratch", Path("scratch")),
        ("untested", "refuse", "refuse"),
    ],
)
def test_the_other_settings_are_read(key: str, written: object, read: object) -> None:
    assert getattr(policy(**{key: written}).engine, key) == read


@pytest.mark.parametrize(
    ("key", "written"),
    [
        *(("timeout", t) for t in ("", "none", 0, "0s", -1, "-5m", "10 minutes", "1e9", "31d", True, "0.1ms", [1])),
        *(("memory", m) for m in ("", "0GB", "0%", "101%", "200%", "4", 4, "4 gigs", "'; DROP", True)),
        *(("threads", t) for t in (0, -1, 1.5, "many", True, 5000)),
        *(("spill", s) for s in ("", "64", 64, "90%", "-1GB", True)),
        *(("folder", f) for f in ("", 7, "a\0b")),
        *(("untested", u) for u in ("ignore", True, "")),
    ],
)
def test_a_setting_that_makes_no_sense_is_a_mistake_of_the_policy(key: str, written: object) -> None:
    with pytest.raises(dpsql.PolicyError) as mistake:
        policy(**{key: written})
    assert mistake.value.message.startswith(f"engine.{key}: ") and mistake.value.hint


def test_an_unknown_setting_is_a_mistake_with_a_suggestion() -> None:
    with pytest.raises(dpsql.PolicyError) as mistake:
        policy(time_out="10m")
    assert mistake.value.message == "engine.time_out: unknown key" and mistake.value.hint == "did you mean timeout?"


def test_the_engine_runs_within_the_policys_limits(tmp_path: Path) -> None:
    loaded = policy(memory="500MiB", threads=3, spill="1GiB", folder=str(tmp_path))
    (found,) = running(loaded)
    assert (found["memory_limit"], found["threads"], found["max_temp_directory_size"]) == ("500.0 MiB", 3, "1.0 GiB")
    assert Path(found["temp_directory"]).parent == tmp_path


def test_the_environment_replaces_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("TIMEOUT", "7s"),
        ("MEMORY", "300MiB"),
        ("THREADS", "2"),
        ("SPILL", "2GiB"),
        ("FOLDER", str(tmp_path)),
    ):
        monkeypatch.setenv(f"DPSQL_ENGINE_{name}", value)
    loaded = policy(memory="500MiB", threads=3, spill="1GiB", timeout="1h")
    (found,) = running(loaded)
    assert (found["memory_limit"], found["threads"], found["max_temp_directory_size"]) == ("300.0 MiB", 2, "2.0 GiB")
    assert Path(found["temp_directory"]).parent == tmp_path
    with dpsql.connect(loaded, sources={"t": ROWS}, ledger=":memory:") as session:
        assert session._engine.deadline().limit == "7s"


@pytest.mark.parametrize("name", ["TIMEOUT", "MEMORY", "THREADS", "SPILL"])
def test_nonsense_in_the_environment_is_an_error_that_names_the_variable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"DPSQL_ENGINE_{name}", "lots")
    with pytest.raises(dpsql.PolicyError) as mistake:
        dpsql.connect(policy(), sources={"t": ROWS}, ledger=":memory:")
    assert mistake.value.message.startswith(f"DPSQL_ENGINE_{name}: must be") and mistake.value.exit_code == 5


def test_post_processing_spills_into_the_same_folder_and_not_into_the_working_folder(tmp_path: Path) -> None:
    loaded = policy(folder=str(tmp_path))
    with dpsql.connect(loaded, sources={"t": ROWS}, ledger=":memory:") as session:
        found = duckdb_of(session).public.cursor().execute("SELECT current_setting('temp_directory')").fetchall()
    assert Path(found[0][0]).parent == tmp_path
