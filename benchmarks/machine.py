"""What a reader has to know of the machine before comparing figures."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("dpsql", "duckdb", "sqlglot", "numpy", "pyarrow", "tpchgen-cli")


def facts() -> dict[str, Any]:
    """Processor, memory, and the versions of what is measured and of what it rests on."""
    return {
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "revision": _revision(),
    }


def load() -> list[float]:
    """The load averages of the last 1, 5 and 15 minutes."""
    return [round(one, 2) for one in os.getloadavg()]


def version(package: str) -> str | None:
    """The installed version; None where it isn't."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _line(file: str, name: str) -> str | None:
    path = Path(file)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)


def _revision() -> str | None:
    """The commit that is checked out, with a mark where files differ from it; None outside of a clone."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
