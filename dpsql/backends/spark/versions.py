"""Which Spark the proofs were tried with. The engine is an assumption of theirs, and its behaviour changes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from dpsql.backends.base import Versions
from dpsql.backends.parser import parser_versions

TESTED_SPARK = ("4.3.0",)
"""The versions that the suite passed with."""


def versions() -> Versions:
    """The Spark client that is installed, and the versions that were tested."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        installed = "none"
    return Versions("Spark", installed, TESTED_SPARK, "pyspark", (parser_versions(),))
