"""How many cells a run of the matrix asked, in its last lines."""

from __future__ import annotations

from collections import Counter

import pytest

KINDS = ("answers", "refusals", "failures")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, found in getattr(report, "user_properties", ()):
                if name == "cells" and getattr(report, "when", "") == "call":
                    total.update(dict(zip(KINDS, map(int, found.split()), strict=True)))
    if total:
        told = ", ".join(f"{total[kind]:,} {kind}" for kind in KINDS)
        terminalreporter.write_line(f"installed: {sum(total.values()):,} cells: {told}")
