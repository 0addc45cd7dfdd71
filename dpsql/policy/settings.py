"""[engine] and [backend] of a policy: which engine reads private rows, and what it may take of the machine.

Times, sizes and numbers are read as people write them, in the policy or in the environment.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

from dpsql.core.frozen import dataclass
from dpsql.policy.reader import Unfit, exact_decimal, show

Untested: TypeAlias = Literal["warn", "refuse"]
BackendKind: TypeAlias = Literal["duckdb", "spark"]


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Which engine reads private rows, and where it is; DuckDB is in this process.

    skewed: whether some units have so many groups that one task had better not see all of them.
    """

    kind: BackendKind = "duckdb"
    url: str | None = None
    skewed: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    """A time limit, and how it was written."""

    seconds: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The limits of the engine that reads private rows. A query past one of them fails and stays charged.

    timeout: for all statements of a query together. memory, spill: as DuckDB writes sizes. threads: None is one for
    each processor. folder: for what doesn't fit into memory; None is the system's temporary folder.
    """

    timeout: Duration = Duration(Fraction(1800), "30m")
    memory: str = "75%"
    threads: int | None = None
    spill: str = "64GB"
    folder: Path | None = None
    untested: Untested = "warn"

    @property
    def spills(self) -> bool:
        """May anything be written to disk?"""
        return re.match(r"[0.]+\D", self.spill) is None


# ---------------------------------------------------------------- as they are written

MAX_THREADS = 1024
MAX_SECONDS = 30 * 86400  # of a timeout

_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600), "d": Fraction(86400)}
_UNITS = {unit.lower(): unit for unit in ("KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")}


def read_url(written: object) -> str:
    """A Spark Connect server, or how many threads of this machine."""
    if not isinstance(written, str) or not re.fullmatch(r"sc://[^\s/].*|local\[(?:[1-9]\d{0,3}|\*)\]", written):
        raise Unfit(f"must be sc://host:port or local[n], not {show(written)}", 'write url = "sc://host:15002"')
    return written


def read_timeout(written: object) -> Duration:
    """Seconds, or a text like 90s, 10m, 2h."""
    match = re.fullmatch(r"\s*([\d.]+)\s*(ms|s|m|h|d)?\s*", written) if isinstance(written, str) else None
    number = exact_decimal(match[1] if match else None if isinstance(written, str) else written)
    unit = (match and match[2]) or "s"
    seconds = None if number is None else Fraction(number) * _SECONDS[unit]
    if number is None or seconds is None or not Fraction(1, 1000) <= seconds <= MAX_SECONDS:
        raise Unfit(f"must be a time from 1ms to 30d, not {show(written)}", 'write timeout = "10m", or seconds')
    return Duration(seconds, f"{_plain(number)}{unit}")


def read_memory(written: object) -> str:
    """A share of the machine's memory, or a size."""
    share = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", written) if isinstance(written, str) else None
    if share and 0 < Decimal(share[1]) <= 100:
        return f"{share[1]}%"
    size = _size(written)
    if share or size is None or not size[0]:
        raise Unfit(f"must be a size or a share of the memory, not {show(written)}", 'write memory = "4GB", or "75%"')
    return f"{_plain(size[0])}{size[1]}"


def read_spill(written: object) -> str:
    """A size; 0GB: nothing is written to disk."""
    size = _size(written)
    if size is None:
        raise Unfit(f"must be a size, not {show(written)}", 'write spill = "64GB"; "0GB" writes nothing to disk')
    return f"{_plain(size[0])}{size[1]}"


def read_threads(written: object) -> int:
    """How many threads a statement may use."""
    plain = isinstance(written, str) and re.fullmatch(r"\s*\d{1,6}\s*", written, re.ASCII)
    number = int(written) if plain and isinstance(written, str) else written
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_THREADS:
        raise Unfit(f"must be a whole number from 1 to {MAX_THREADS:,}, not {show(written)}", "write threads = 4")
    return number


def read_folder(written: object) -> Path:
    """A folder's path."""
    if not isinstance(written, str) or not written or "\0" in written:
        raise Unfit(f"must be a non-empty text, not {show(written)}", 'write folder = "/var/tmp"')
    return Path(written)


def _size(written: object) -> tuple[Decimal, str] | None:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", written, re.I) if isinstance(written, str) else None
    number = exact_decimal(match[1]) if match else None
    return None if match is None or number is None or number > 10**6 else (number, _UNITS[match[2].lower()])


def _plain(number: Decimal) -> str:
    """1500 and 0.5: neither exponents nor zeros at the end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
