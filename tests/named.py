"""Failures are named when they happen, and not only in the summary: who waits for the rest can look already."""

from __future__ import annotations

import pytest


class Named:
    """Writes a line for each failure, as soon as its report is there; pytest repeats them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(crash.message if crash is not None else report.longrepr).strip().partition("\n")[0]
        title = "ERROR" if report.when in ("setup", "teardown") else "FAILED"
        terminal.write_line(f"\n{title} {report.nodeid}{f' - {said}' if said else ''}", red=True)
        terminal.flush()
