"""What some tests need beside Python: a browser, npm, Java, a Postgres client.

    @pytest.fixture(scope="module")
    def browser(): ...
        chromium = needs("chromium")     # the path of the program

Where a program isn't there, the tests that need it are left out, and the summary says which and for want of what. With
CI=true they fail instead: there, everything is installed, and nothing may be left out unseen.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

WANTING = "left out for want of "
JARS = Path("/usr/share/java")  # where Debian keeps them


class Service(NamedTuple):
    """A program by what people call it, the commands that it may have, and Debian's package of it.

    A command that ends in .jar is a library of Java's.
    """

    title: str
    commands: tuple[str, ...]
    package: str


SERVICES = {
    "chromium": Service("Chromium", ("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "npm": Service("npm", ("npm",), "npm"),
    "node": Service("Node.js", ("node",), "nodejs"),
    "java": Service("Java 17", ("java",), "openjdk-17-jre-headless"),
    "jdk": Service("Java's compiler", ("javac",), "default-jdk-headless"),
    "pgjdbc": Service("Postgres' JDBC driver", ("postgresql.jar",), "libpostgresql-jdbc-java"),
    "postgres": Service("the Postgres client", ("psql",), "postgresql-client"),
}


def needs(name: str) -> str:
    """The path of a program; where there is none, the test is left out with a reason that the summary repeats."""
    service = SERVICES[name]
    for command in service.commands:
        if command.endswith(".jar") and (JARS / command).is_file():
            return str(JARS / command)
        if path := shutil.which(command):
            return path
    wanted = f"{service.title} (Debian: apt-get install {service.package})"
    if os.environ.get("CI") == "true":
        pytest.fail(f"not to be left out under CI=true: {wanted}", pytrace=False)
    pytest.skip(WANTING + wanted, allow_module_level=True)


def left_out(skipped: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """A line for each program that wasn't there, with the test files that needed it."""
    groups: dict[str, set[str]] = defaultdict(set)
    for report in skipped:
        if isinstance(report.longrepr, tuple) and WANTING in report.longrepr[2]:
            title = report.longrepr[2].partition(WANTING)[2].partition(" (")[0]
            file = PurePosixPath(report.nodeid.partition("::")[0])
            groups[title].add(file.stem.removeprefix("test_"))
    return [f"{WANTING}{title}: {', '.join(sorted(files))}" for title, files in sorted(groups.items())]
