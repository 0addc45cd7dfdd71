"""Packages beside dpsql: the least versions that it works with, and those that only some people need.

The least versions are those of pyproject.toml: pip heeds it where dpsql is installed, and nobody where something else
is installed beside it later. With older ones dpsql says so, and does nothing.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

from dpsql.core.errors import ExtraError

FLOORS = {
    "sqlglot": "30.30", "duckdb": "2.0", "numpy": "2.0", "pyarrow": "17", "click": "8.1.8",
    "pandas": "2.2.2", "polars": "1.3", "sqlalchemy": "2.0", "prompt_toolkit": "3.0.36", "pygments": "2.14",
    "cryptography": "42.0.4", "starlette": "0.49.1", "uvicorn": "0.23.2", "httpx": "0.25", "joserfc": "1.3.5",
    "pyspark": "4.3", "deltalake": "0.22.3", "pyiceberg": "0.8.1", "plotext": "5.2.8", "altair": "5.4",
    "vl_convert": "1.6",
}  # fmt: skip
"""By module."""
BEFORE = {"sqlglot": "31"}
"""Versions that are known to be of another kind: with them dpsql is tried where [engine] untested lets it."""
NEEDED = ("sqlglot", "duckdb", "numpy", "pyarrow", "click")
"""Modules that are there with every extra, and with none."""


def too_old(module: str, version: str) -> ExtraError | None:
    """The error for a module of this version; None where the version is new enough."""
    least = FLOORS.get(module)
    if least is None or _numbers(version) >= _numbers(least):
        return None
    package = {"vl_convert": "vl-convert-python"}.get(module, module)
    return ExtraError(
        f"{package} {version} is too old: dpsql needs {least} or a later one",
        code="too-old",
        hint=f"pip install -U '{package}>={least}'",
    )


def is_after(module: str, version: str) -> bool:
    """Is this version later than all that dpsql was tested with?"""
    return module in BEFORE and _numbers(version) >= _numbers(BEFORE[module])


def require(*modules: str) -> None:
    """Refuse what is loaded and too old."""
    for module in modules:
        loaded = sys.modules.get(module)
        version = None if loaded is None else vars(loaded).get("__version__")  # click warns whoever asks it
        if isinstance(version, str) and (refusal := too_old(module, version)) is not None:
            raise refusal


def blamed() -> ExtraError | None:
    """The error for a needed package that is missing, too old or too new; None if all fit."""
    from importlib.metadata import PackageNotFoundError, version

    for module in NEEDED:
        hint = f"pip install '{module}>={FLOORS[module]}'"
        try:
            installed = version(module)
        except PackageNotFoundError:
            return ExtraError(f"{module}, which dpsql needs, is not installed", code="extra-missing", hint=hint)
        if (refusal := too_old(module, installed)) is not None:
            return refusal
        if is_after(module, installed):
            hint = f"{hint[:-1]},<{BEFORE[module]}'"
            return ExtraError(f"{module} {installed} is newer than what dpsql knows", code="too-old", hint=hint)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release's numbers, without zeros at its end: 2.0 is 2."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# ---------------------------------------------------------------- packages that only some people need


def extra(module: str, name: str, what: str) -> Any:
    """A module of the extra `name`; ExtraError where it, or what it needs in turn, isn't installed. what: needs it."""
    try:
        loaded = import_module(module)
    except ImportError as error:
        root = module.split(".")[0]
        lacking = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == root
        why = "which is not installed" if lacking else "which can't be loaded: something that it needs is missing"
        raise ExtraError(
            f"{what} needs {root}, {why}", code="extra-missing", hint=f"pip install 'dpsql[{name}]'"
        ) from None
    require(module.split(".")[0])
    return loaded
