"""Libraries that only some people need: loaded when they are asked for, or missed with what installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpsql.core.errors import ExtraError
from dpsql.core.floors import require


def extra(module: str, name: str, what: str) -> Any:
    """A module of the extra `name`; ExtraError where it, or what it needs in turn, isn't installed. what: needs it."""
    try:
        found = import_module(module)
    except ImportError as error:
        root = module.split(".")[0]
        lacking = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == root
        why = "which is not installed" if lacking else "which can't be loaded: something that it needs is missing"
        raise ExtraError(
            f"{what} needs {root}, {why}", code="extra-missing", hint=f"pip install 'dpsql[{name}]'"
        ) from None
    require(module.split(".")[0])
    return found
