"""Libraries that only some people need: loaded when they are asked for, or missed with what installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpsql.core.errors import ExtraError


def extra(module: str, name: str, what: str) -> Any:
    """A module of the extra `name`; ExtraError where it isn't installed. what: needs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        root = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != root:
            raise  # it is there, and something of its own is not
        raise ExtraError(
            f"{what} needs {root}, which is not installed",
            code="extra-missing",
            hint=f"pip install 'dpsql[{name}]'",
        ) from None
