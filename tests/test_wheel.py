"""A wheel has all that the package needs: installed in a fresh environment, it answers the README's first command.

What it depends on isn't downloaded again: the environment sees the packages of this one, but not this package.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DPSQL_", "PYTHON"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it: its folder."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "dpsql", source / "dpsql", ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("dpsql-*.whl")
    place = folder / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    run(*pip, "--python", place / "bin" / "python", "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "beside.pth").write_text("\n".join(here) + "\n")
    return place


def test_the_package_that_runs_is_the_one_of_the_wheel(installed: Path) -> None:
    code = "import dpsql; print(dpsql.__file__)"
    assert run(installed / "bin" / "python", "-c", code, cwd=installed).startswith(str(installed))


def test_the_demo_runs_from_the_wheel(installed: Path) -> None:
    shown = run(installed / "bin" / "dpsql", "demo", cwd=installed)
    assert "What was spent" in shown and shown.count("± 95%") + shown.count("95% interval") >= 5


def test_the_first_command_of_the_readme_answers(installed: Path, tmp_path: Path) -> None:
    (first,) = re.findall(
        r"^python3 -m venv \.venv && \.venv/bin/pip install -q \. && \.venv/bin/dpsql (.*)$", README, re.M
    )
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*ledger*"))
    shown = run(installed / "bin" / "dpsql", *shlex.split(first), cwd=tmp_path)
    assert shown.startswith("education,people,hours\n") and len(shown.splitlines()) == 18


def test_the_second_command_of_the_readme_is_what_the_tests_are_run_by() -> None:
    (second,) = re.findall(r"^python3 -m venv \.venv && (.*-m tests)$", README, re.M)
    ran = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for part in ("-e '.[dev", ".venv/bin/python -m tests"):  # there with Spark, which is half a GB
        assert part in second and part.replace("'", '"') in ran.replace("'", '"')
