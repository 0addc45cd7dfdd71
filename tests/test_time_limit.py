"""A test that doesn't end fails with all stacks, also in workers; failures are named at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no such signals here", allow_module_level=True)

TESTS = Path(__file__).parent
CONFTEST = """
import time_limit
from named import Named

def pytest_configure(config):
    time_limit.LATER = 2
    config.pluginmanager.register(time_limit)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Named(config))
"""

WAITS = """
import threading

def this_process_waits():
    threading.Event().wait()

this_process_waits()
"""


def write(folder: Path, tests: str) -> list[str]:
    """A suite of its own with these tests; the command that runs it."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(textwrap.dedent(tests))
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]


def environment() -> dict[str, str]:
    """Without what this run of pytest tells its own processes."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONFAULTHANDLER"))}
    return {**own, "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))}


def run(folder: Path, tests: str, *options: str) -> str:
    """What the suite says, standard error included; it doesn't pass."""
    command = [*write(folder, tests), *options]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_that_waits_for_ever_fails_with_all_stacks_and_the_next_one_runs(tmp_path: Path, workers: str) -> None:
    said = run(
        tmp_path,
        """
        import threading

        def another_thread_waits(event):
            event.wait()

        def the_test_itself_waits(thread):
            thread.join()

        def test_that_hangs():
            thread = threading.Thread(target=another_thread_waits, args=[threading.Event()], name="left", daemon=True)
            thread.start()
            the_test_itself_waits(thread)

        def test_after_it():
            pass
        """,
        "--timeout=1", "-n", workers,
    )  # fmt: skip
    assert "Failed: no end after 1 s" in said and "1 failed, 1 passed" in said
    stacks = said.partition("Captured stacks call")[2]
    assert re.search(r"thread MainThread\n(.*\n)+?.*in the_test_itself_waits", stacks)
    assert re.search(r"thread left\n(.*\n)+?.*in another_thread_waits", stacks)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_process_that_a_test_waits_for_says_where_it_is(tmp_path: Path, workers: str) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    said = run(
        tmp_path,
        """
        import subprocess, sys

        def test_that_hangs():
            subprocess.run([sys.executable, "waits.py"], capture_output=True)
        """,
        "--timeout=3", "-n", workers,
    )  # fmt: skip
    stacks = said.partition("Captured stacks call")[2]
    assert re.search(r"process \d+: .*python.* waits.py", stacks)
    assert "in this_process_waits" in stacks


def test_a_main_thread_that_sees_no_signals_is_ended_and_the_test_is_named(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        import signal, threading

        def deaf():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            threading.Event().wait()

        def test_that_hangs():
            deaf()

        def test_after_it():
            pass
        """,
        "--timeout=1", "-n", "1",
    )  # fmt: skip
    assert "in deaf" in said and re.search(r"crashed while running.*test_that_hangs", said)
    assert "1 failed, 1 passed" in said


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_is_named_while_others_still_run(tmp_path: Path, workers: str) -> None:
    """The second test ends when this one has read the name of the first."""
    command = write(
        tmp_path,
        """
        import time
        from pathlib import Path

        def test_that_fails():
            assert 1 == 2, "of this"

        def test_that_takes_long():
            while not Path("seen").exists():
                time.sleep(0.01)
        """,
    )
    command += ["-n", workers, "--timeout=60"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("FAILED test_it.py::test_that_fails - AssertionError: of this"):
                (tmp_path / "seen").touch()
                break
        said = process.stdout.read()
    assert "1 failed, 1 passed" in said


def test_the_limit_holds_for_every_test(request: pytest.FixtureRequest) -> None:
    """It is this suite's own setting; a mark or --timeout may change it."""
    config = request.config
    assert float(config.getini("timeout")) > 0 and config.pluginmanager.hasplugin("timeout")
