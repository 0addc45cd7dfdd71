"""Which parser reads what analysts write. What it makes of a text is an assumption of the proofs, like the engine."""

from __future__ import annotations

from importlib import import_module

from dpsql.backends.base import Versions
from dpsql.core.extras import is_after

TESTED_SQLGLOT = "30.30.0"


def parser_versions() -> Versions:
    """The sqlglot that is installed; those before the next major version count as tested."""
    installed = str(import_module("sqlglot").__version__)
    tested = TESTED_SQLGLOT if is_after("sqlglot", installed) else installed
    return Versions("sqlglot", installed, (tested,), "sqlglot")
