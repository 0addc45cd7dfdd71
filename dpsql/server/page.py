"""The page's files: wheels carry them, a checkout builds them where npm is there. Needs nothing but Python itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

WEB = Path(__file__).parent / "web"
PAGE = WEB / "dist"
COMMANDS = ("ci --no-audit --no-fund --silent", "run build --silent")  # of npm
NOT_BUILT = "the page isn't built: run `npm ci && npm run build` in dpsql/server/web; the API works without it"
NOT_THERE = "this dpsql was installed without its page: build the wheel where npm is there; the API works without it"


def is_built() -> bool:
    """Is there a page, made of the sources that lie beside it, if any do?"""
    index = PAGE / "index.html"
    if not index.is_file():
        return False
    made = index.stat().st_mtime
    return all(one.stat().st_mtime <= made for one in (WEB / "package-lock.json", *WEB.glob("src/*")) if one.exists())


def ensure_built(tell: Callable[[str], None] = lambda _: None) -> str | None:
    """Build the page if it isn't. None, or in one line why it couldn't be built, and what to do.

    tell: is told in a line that a build begins; it takes some seconds.
    """
    if is_built():
        return None
    if not (WEB / "package.json").is_file():
        return NOT_THERE
    npm = shutil.which("npm")
    if npm is None:
        return NOT_BUILT
    tell("building the page, once")
    for command in COMMANDS:
        try:
            subprocess.run([npm, *command.split()], cwd=WEB, check=True, capture_output=True, timeout=600)
        except (subprocess.SubprocessError, OSError):
            return NOT_BUILT
    return None
