"""Where tests are started: from a terminal, in the background, as a service. Each hands other things down.

    with started("nohup", [sys.executable, "-m", "pytest"], {}) as process:
        ...

`nohup`: in the background of a shell without job control, as `nohup python -m tests &` in a script: SIGINT, SIGQUIT and
SIGHUP are ignored. `service`: no terminal, no HOME, a source tree that can't be written, umask 077, another locale and
time zone; `ROOT` is then a copy.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL
from pathlib import Path
from typing import Literal

Name = Literal["here", "nohup", "service"]
ROOT = Path(__file__).parent.parent
TIME_ZONE = "Pacific/Chatham"  # 12:45 before Greenwich, 13:45 in summer
LANGUAGE = "tr_TR"  # commas in numbers, and another capital of i
OF_A_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "DISPLAY", "COLUMNS", "LINES")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "node_modules", "build", "data", ".*_cache", ".hypothesis")
DROP_CAPABILITY, WRITE_ANYWHERE = 24, 1  # PR_CAPBSET_DROP and CAP_DAC_OVERRIDE of Linux


@contextmanager
def started(place: Name, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The command, started there, its standard output a pipe. Nothing of it is left running at the end."""
    match place:
        case "here":
            with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
                yield process
        case "nohup":
            background = ["sh", "-c", 'nohup "$@" & wait $!', "sh", *command]
            with _group(background, ROOT, environment) as process:
                yield process
        case "service":
            with _read_only() as (tree, folder), _group(command, tree, _bare(environment, tree, folder)) as process:
                yield process


@contextmanager
def _group(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process with a session of its own, without a terminal; all that it started ends with it."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
        umask=0o077 if folder != ROOT else -1,
        preexec_fn=_bound if folder != ROOT else None,
    ) as process:
        try:
            yield process
            process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _bound() -> None:
    """Root writes where it may not, unless it gives that up: then files bind it as they bind everybody."""
    if os.geteuid() == 0:
        with suppress(OSError, AttributeError):
            CDLL(None).prctl(DROP_CAPABILITY, WRITE_ANYWHERE, 0, 0, 0)


@contextmanager
def _read_only() -> Iterator[tuple[Path, Path]]:
    """A copy of the source tree that can't be written, and a folder that can; both go at the end."""
    with tempfile.TemporaryDirectory(prefix="dpsql-tests-") as name:
        folder = Path(name)
        tree = folder / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED, symlinks=True)
        _may_be_written(tree, False)
        try:
            yield tree, folder
        finally:
            _may_be_written(tree, True)


def _may_be_written(tree: Path, yes: bool) -> None:
    for folder, _, names in os.walk(tree):
        for path in [Path(folder), *(Path(folder, name) for name in names)]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | 0o200 if yes else mode & ~0o222)


def _bare(environment: Mapping[str, str], tree: Path, folder: Path) -> dict[str, str]:
    """What a service has of an environment."""
    gone = (*OF_A_LOGIN, "PYTHONPATH")
    kept = {k: v for k, v in environment.items() if k not in gone and not k.startswith(("LC_", "XDG_", "SSH_"))}
    own = {"TZ": TIME_ZONE, "PYTHONPATH": str(tree), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    return {**kept, **own, **_locale(folder)}


def _locale(folder: Path) -> dict[str, str]:
    """Another language's, made here where the machine can; else that of C, which a service without settings has."""
    made = folder / f"{LANGUAGE}.UTF-8"
    command = ["localedef", "-i", LANGUAGE, "-f", "UTF-8", str(made)]
    with suppress(OSError):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    whole = (made / "LC_CTYPE").is_file()  # without the sources of locales the folder alone is made
    return {"LC_ALL": made.name, "LOCPATH": str(folder)} if whole else {"LC_ALL": "C"}
