"""What tests/places.py hands down is what it says: else a sample that passes there says nothing."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from places import LANGUAGE, ROOT, Name, started

if sys.platform == "win32":
    pytest.skip("there is no nohup here", allow_module_level=True)

LOOK = """
import json, locale, os, pathlib, signal, sys, tempfile, time
import dpsql
tree = pathlib.Path.cwd()
hung_up = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
try:
    os.open("/dev/tty", os.O_RDWR)
    terminal = True
except OSError:
    terminal = False
locale.setlocale(locale.LC_ALL, "")
mine = pathlib.Path(tempfile.mkdtemp(), "x")
mine.touch()
print(json.dumps({
    "ignored": [n.name for n in hung_up if signal.getsignal(n) == signal.SIG_IGN],
    "terminal": terminal, "home": "HOME" in os.environ, "tree": str(tree), "dpsql": dpsql.__file__,
    "writes": [os.access(path, os.W_OK) for path in (tree, tree / "dpsql", tree / "README.md")],
    "mode": mine.stat().st_mode & 0o777, "zone": time.tzname, "point": locale.localeconv()["decimal_point"],
}))
"""


def look(place: Name) -> dict[str, Any]:
    """What a program sees there."""
    with started(place, [sys.executable, "-c", LOOK], os.environ) as process:
        assert process.stdout is not None
        found: dict[str, Any] = json.loads(process.stdout.read())
    assert process.returncode == 0
    return found


def test_under_nohup_signals_are_ignored() -> None:
    seen = look("nohup")
    assert seen["ignored"] == ["SIGINT", "SIGQUIT", "SIGHUP"] and not seen["terminal"]
    assert seen["tree"] == str(ROOT)


def test_a_service_has_no_terminal_no_home_and_a_tree_that_it_cannot_write() -> None:
    seen = look("service")
    assert not seen["terminal"] and not seen["home"]
    assert seen["writes"] == [False, False, False]
    assert seen["tree"] != str(ROOT) and Path(seen["dpsql"]).is_relative_to(seen["tree"])
    assert seen["mode"] == 0o600 and seen["zone"][0] == "+1245"
    assert not Path(seen["tree"]).exists(), "it goes at the end"


@pytest.mark.skipif(
    shutil.which("localedef") is None or not Path(f"/usr/share/i18n/locales/{LANGUAGE}").exists(),
    reason="locales are made by localedef",
)
def test_a_service_has_another_languages_locale() -> None:
    assert look("service")["point"] == ","


def test_a_run_that_is_ended_counts_as_a_failure() -> None:
    """pytest itself was killed, or could not begin: there is no summary to be read."""
    names = runpy.run_path(str(Path(__file__).with_name("__main__.py")))
    code, counted, _ = names["run"]("here", ["--no-such-option"])
    assert code != 0 and sum(counted.values()) == counted["error"] == 1
