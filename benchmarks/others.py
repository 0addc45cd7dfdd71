"""Which other systems are there to be measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from benchmarks.speed import Peer
from benchmarks.turns import ROOT

SYSTEMS = {
    "OpenDP": ("opendp_polars", "opendp"),
    "SmartNoise": ("smartnoise", "smartnoise-sql"),
    "Qrlew": ("qrlew", "pyqrlew"),
}
"""By name: the adapter, and the package whose version is told."""


def installed(pythons: Sequence[str]) -> tuple[list[Peer], dict[str, str]]:
    """The systems that can be imported by this Python or one of these, and why others can't."""
    found, absent = [], {}
    for name, (module, package) in SYSTEMS.items():
        text = (
            f"import importlib.metadata as m, benchmarks.peers.{module} as a; a.ready(); print(m.version('{package}'))"
        )
        for python in (sys.executable, *pythons):
            done = subprocess.run([python, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found.append(Peer(name, module, done.stdout.split()[-1], python))
                break
            absent[name] = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "can't be imported"
        else:
            continue
        absent.pop(name, None)
    return found, absent
