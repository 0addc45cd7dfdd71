"""Golden files: SQL, and what some stage makes of it. --update-golden rewrites them.

A file holds cases, separated by a line of four dashes. A case is a line `-- title`, perhaps a line
`-- options: {"epsilon": 0}` (JSON), the SQL, a blank line, and the expected text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "golden"
SEPARATOR = "\n----\n"
OPTIONS = "-- options: "


@dataclass(frozen=True)
class Case:
    """One case of a golden file."""

    title: str
    options: dict[str, Any]
    sql: str
    expected: str

    @classmethod
    def parse(cls, text: str) -> Case:
        head, _, expected = text.strip("\n").partition("\n\n")
        title, *lines = head.split("\n")
        assert title.startswith("-- "), f"a case starts with its title: {title}"
        options = {}
        if lines and lines[0].startswith(OPTIONS):
            options = json.loads(lines.pop(0).removeprefix(OPTIONS))
        return cls(title.removeprefix("-- "), options, "\n".join(lines), expected)

    def __str__(self) -> str:
        options = f"{OPTIONS}{json.dumps(self.options)}\n" if self.options else ""
        return f"-- {self.title}\n{options}{self.sql}\n\n{self.expected}"


def read(folder: str) -> list[tuple[str, Case]]:
    cases = []
    for file in sorted((FOLDER / folder).glob("*.sql")):
        cases += [(file.stem, Case.parse(text)) for text in file.read_text().split(SEPARATOR)]
    return cases


def golden(folder: str) -> pytest.MarkDecorator:
    cases = read(folder)
    return pytest.mark.parametrize(("file", "case"), cases, ids=[f"{file}: {case.title}" for file, case in cases])


def rewrite(folder: str, file: str, case: Case, found: str) -> None:
    """Put what was found into the file as what is expected of the case."""
    path = FOLDER / folder / f"{file}.sql"
    cases = [Case.parse(text) for text in path.read_text().split(SEPARATOR)]
    assert len({c.title for c in cases}) == len(cases), f"{path}: a title stands twice"
    cases = [replace(c, expected=found) if c.title == case.title else c for c in cases]
    path.write_text(SEPARATOR.join(map(str, cases)) + "\n")
