"""The wheel, installed in environments that hold what an extra declares and nothing else.

They lie outside of the checkout, in a cache: the wheel by a hash of what it is built of, the environments by a hash of
pyproject.toml. The first use builds them, by pip and by npm; later ones take no time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support import PYTHON

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpsql-tests"
PROJECT = ROOT / "pyproject.toml"
BUILT_OF = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")
LEAST = "least"
"""An environment with the lowest version that each dependency may have."""


@dataclass(frozen=True)
class Installed:
    """The console script of one environment."""

    name: str
    script: Path

    @property
    def python(self) -> Path:
        return self.script.with_name("python")


def declared() -> Mapping[str, list[str]]:
    """What pyproject.toml declares, by extra; "" is what everybody has."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def lowest(requirement: str) -> str:
    """A requirement with its lower bound as the version."""
    found = re.fullmatch(r"([\w.\-]+)(\[[\w,]+\])?>=([\d.]+).*", requirement)
    assert found is not None, requirement
    return f"{found[1]}{found[2] or ''}=={found[3]}"


def installed(extra: str = "", *, least: bool = False, pins: tuple[str, ...] = (), later: str = "") -> Installed:
    """The environment of one extra ("": of none).

    least: with the lowest versions; pins: with these, too; later: put there afterwards, whatever dpsql needs.
    """
    more = (re.sub(r"\W+", "_", word) for word in (*pins, later))
    name = "-".join(filter(None, (extra or "none", LEAST if least else "", *more)))
    with locked():
        wheel = _wheel()
        key = _digest([PROJECT], _version(_python()))
        place = CACHE / key / name
        if not (place / "made").is_file():
            _make(place, wheel, extra, least, pins, later)
        if (place / "made").read_text(encoding="utf-8") != wheel.parent.name:
            _pip(place, "install", "--force-reinstall", "--no-deps", str(wheel))
            (place / "made").write_text(wheel.parent.name, encoding="utf-8")
    return Installed(name, place / "bin" / "dpsql")


def _python() -> str:
    """The Python of the environments: that of the tests, unless --python names another one."""
    return os.environ.get(PYTHON) or sys.executable


@cache
def _version(python: str) -> str:
    command = [python, "-c", "import sys; print(sys.version_info[:2])"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _make(place: Path, wheel: Path, extra: str, least: bool, pins: tuple[str, ...], later: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([_python(), "-m", "venv", str(place)], check=True)
    wanted = [f"{wheel}[{extra}]" if extra else str(wheel), *pins]
    if least:
        wanted += map(lowest, [*declared()[""], *(declared()[extra] if extra else [])])
    _pip(place, "install", *wanted)
    if later:
        _pip(place, "install", "--no-deps", later)
    (place / "made").write_text(wheel.parent.name, encoding="utf-8")


def _pip(place: Path, *words: str) -> None:
    command = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _wheel() -> Path:
    """The wheel of this checkout, with its page."""
    files = [ROOT / name for name in BUILT_OF]
    files += [f for f in sorted((ROOT / "dpsql").rglob("*")) if f.is_file() and not _is_made(f)]
    folder = CACHE / "wheels" / _digest(files)
    if not (built := sorted(folder.glob("dpsql-*.whl"))):
        source = folder / "source"
        shutil.rmtree(folder, ignore_errors=True)
        for file in files:
            (source / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, source / file.relative_to(ROOT))
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
        subprocess.run([*command, str(folder), str(source)], check=True, capture_output=True)
        shutil.rmtree(source)
        built = sorted(folder.glob("dpsql-*.whl"))
    return built[0]


def _is_made(file: Path) -> bool:
    return bool({"__pycache__", "node_modules", "dist"} & set(file.parts))


def _digest(files: list[Path], more: str = "") -> str:
    found = hashlib.sha256(more.encode())
    for file in files:
        found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


@contextmanager
def locked() -> Iterator[None]:
    """Processes of one test run build one thing once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
