"""Runs the code of a page of documentation, in order, and compares what is printed with what the page shows.

What a block is follows from its language, and from a comment above it that readers of the page don't see:

    <!-- data: examples/adult -->   a new folder begins with a copy of that one; . has examples/, demo the demo's data
    <!-- file: x.toml -->           the block is a file of the folder; if the example has it, the same
    <!-- shown: why -->             the block isn't run

    python                          is executed; names stay for later blocks
    text                            right below Python is what it printed
    console                         commands behind $ (> goes on), each with what it prints on a terminal
    sql                             a query that the folder's policy lets be asked; it is explained, not paid for

Everything must be equal but what noise decides: a noisy value may be another one as long as the 99.99% intervals of
both overlap, the ± of an average, which depends on noisy counts, may be up to twice the other, and rows may be in
another order. What limits and ranges cut is estimated from noisy counts: remarks on it, and a ± that it is a part of,
aren't compared. A line with … alone stands for any lines.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any

import click.testing
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.cli.demo import write as write_demo
from dpsql.cli.main import cli
from dpsql.steward.check import check

ROOT = Path(__file__).parents[1]
COLUMNS = 100  # of the terminal that pages show
TERMINAL = {"COLUMNS": str(COLUMNS), "LINES": "200", "TERM": "dumb", "NO_COLOR": "1"}
NEAR = 0.1  # of itself is how far a value that was chosen by its rank, and has no ±, may be from another such choice
PLACE = "/home/me/data"
"""What pages show in the place of the folder they were run in."""
WIDER = log(10_000) / log(20)
"""How much wider than its 95% interval the 99.99% interval of Laplace noise is; that of other noise is less."""

_PART = re.compile(r"^<!-- data: (?P<data>[\w/.-]+) -->$|^(?:<!-- (?P<mark>\w+): (?P<about>.*?) -->\n)?"
                   r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)  # fmt: skip
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")
_RELEASE = re.compile(r"\b(release|--replay) [0-9a-f]{8}\b")
_CUT = re.compile(r" cuts | is cut\b|outside of the range|is low by about")
_CHOSEN = re.compile(r"^(\w+): at most [\d,]+ rows from the exact one", re.MULTILINE)
_LOW = re.compile(r" \(low by about [^)]*\)")
_GAP = re.compile(r" {2,}")
_CELL = re.compile(r"\S+(?: \S+)*")
_HALVES, _RANGES = "± 95%", "95% interval"
"""Headings of errors. Which of them a column has may be the noise's choice: they are compared as one."""
_PICTURE = re.compile(r"[┌█▒▇\u2801-\u28ff]")


@dataclass(frozen=True)
class Block:
    """A block of a page: where it begins and ends there, and what is to be done with it."""

    language: str
    text: str
    start: int
    end: int
    mark: str = ""
    about: str = ""


def blocks(page: str) -> Iterator[Block]:
    """The code of a page, and where its folders begin (language "data")."""
    for found in _PART.finditer(page):
        if found["data"]:
            yield Block("data", found["data"], *found.span())
        else:
            yield Block(
                found["language"], found["text"], *found.span("text"), found["mark"] or "", found["about"] or ""
            )


@dataclass
class Runner:
    """Runs a page's blocks in folders of its own."""

    folder: Path
    update: bool = False
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    started: int = 0
    given: str = "empty"

    def run(self, page: str) -> str:
        """The page with what its commands printed, where that isn't what it shows; AssertionError unless `update`."""
        pieces, end = [], 0
        for block in blocks(page):
            text = self._block(block)
            pieces += [page[end : block.start], text]
            end = block.end
        return "".join([*pieces, page[end:]])

    def _block(self, block: Block) -> str:
        if block.language == "data":
            self._begin(block.text)
            return f"<!-- data: {block.text} -->"
        if block.mark == "shown":
            return block.text
        if block.mark == "file":
            given = ROOT / self.given / block.about
            assert not given.is_file() or given.read_text(encoding="utf-8") == block.text, f"{given} says otherwise"
            place = self.folder / block.about
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
            return block.text
        with chdir(self.folder):
            match block.language:
                case "python":
                    self._python(block.text)
                case "sql":
                    explained(block.text)
                case "text":
                    return self._agreed("what Python prints", block.text, self.printed)
                case "console":
                    return "".join(self._step(*step) for step in steps(block.text))
                case other:
                    raise AssertionError(
                        f"a block of {other or 'no language'} says neither file nor shown:\n{block.text}"
                    )
        return block.text

    def _begin(self, what: str) -> None:
        self.started += 1
        self.names = {}
        self.given = what
        self.folder = self.folder.parent / f"{self.started}"
        if what in ("empty", "demo"):
            self.folder.mkdir()
        else:
            left = shutil.ignore_patterns("*ledger*", "__pycache__", "out")
            inside = what if what.startswith("examples/") else "examples"
            shutil.copytree(ROOT / inside, self.folder / ("" if inside == what else "examples"), ignore=left)
        if what == "demo":
            write_demo(self.folder)
            check(self.folder / "policy.toml", steward=True)

    def _python(self, code: str) -> None:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "page", "exec"), self.names)
        self.printed = printed.getvalue()

    def _step(self, command: str, shown: str) -> str:
        ran = command.removeprefix("$ ").replace("\n> ", "\n")
        prompt = "$ " + ran.rstrip("\n").replace("\n", "\n> ") + "\n"
        words = shlex.split(ran)
        match words:
            case ["dpsql", *arguments]:
                found = printed(arguments)
            case ["cd", place]:
                self.folder = self.folder / place
                found = ""
            case ["cat", name]:
                found = Path(name).read_text(encoding="utf-8")
            case ["ls"]:
                found = "".join(f"{p.name}\n" for p in sorted(Path().iterdir()))
            case ["python", script, *arguments]:
                found = ran_script(script, arguments)
            case _:
                raise AssertionError(f"nothing runs {ran!r}: mark the block as shown, with the reason")
        return prompt + self._agreed(ran, shown, found.replace(str(self.folder), PLACE))

    def _agreed(self, what: str, shown: str, found: str) -> str:
        wrong = difference(shown, found)
        if wrong is None:
            return shown
        assert self.update, f"{what}\n{wrong}\n--- shown\n{shown}\n--- found\n{found}"
        return found


def explained(sql: str) -> None:
    """Refuses what the policy of the folder wouldn't let be asked."""
    with dpsql.connect("policy.toml") as session:
        session.explain(sql)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console, each with what it shows."""
    found = re.findall(r"^(\$ .*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    assert "".join(a + b for a, b in found) == text, f"a console begins with $: {text!r}"
    yield from found


def printed(arguments: Sequence[str]) -> str:
    """What a command prints on a terminal, errors and notes included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: self.name == "<stdout>", raising=False)
        for name in [name for name in os.environ if name.startswith("DPSQL_")]:
            patch.delenv(name)
        for name, value in TERMINAL.items():
            patch.setenv(name, value)
        done = CliRunner().invoke(cli, list(arguments))
    assert done.exit_code != 1, done.output
    assert (done.exit_code != 0) == ("error:" in done.output.lower()), done.output
    return done.output


def ran_script(script: str, arguments: Sequence[str]) -> str:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as shown:
        patch.setattr("sys.argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
    return shown.getvalue()


# ---------------------------------------------------------------- what is shown, and what is found


@dataclass(frozen=True)
class Table:
    """A table of an answer: names of columns, and rows of cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    cut: bool = False
    """Does ± depend on what is cut, or on ends that were chosen?"""
    chosen: frozenset[str] = frozenset()
    """Columns whose values were chosen by their ranks."""

    def cells(self) -> dict[tuple[str, ...], list[tuple[str, str]]]:
        """By the keys of each row, its noisy values with their ±."""
        noisy = [i for i, name in enumerate(self.head[1:]) if name.startswith("±")]
        near = [i for i, name in enumerate(self.head) if name in self.chosen and i + 1 not in noisy]
        plain = [i for i in range(len(self.head)) if i not in noisy and i - 1 not in noisy and i not in near]
        return {
            (*(row[i] for i in plain), *(() if plain else (str(n),))): [
                *((row[i], row[i + 1]) for i in noisy),
                *((row[i], f"{NEAR * float(row[i].replace(',', ''))}") for i in near),
            ]
            for n, row in enumerate(self.rows)
        }


def parts(text: str) -> Iterator[str | Table]:
    """Lines, tables, and charts (which are the line below them)."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if at + 1 < len(lines) and re.fullmatch("─+", lines[at + 1]) and line.strip():
            table, at = _table(lines, at)
            chosen = frozenset(_CHOSEN.findall(text))
            yield replace(table, chosen=chosen, cut=bool(_CUT.search(text) or chosen) or "(low by" in text)
        elif _PICTURE.search(line):
            while at < len(lines) and "error bars" not in lines[at] and (_PICTURE.search(line) or lines[at][:1] == " "):
                at += 1
        elif _CUT.search(line):
            at += 1
        else:
            yield _RELEASE.sub(r"\1 ID", line.rstrip())
            at += 1


def _table(lines: Sequence[str], at: int) -> tuple[Table, int]:
    names = _GAP.split(_LOW.sub("", lines[at]).strip())
    found = Table(tuple(_HALVES if name == _RANGES else name for name in names))
    head = lines[at]
    at += 2
    while at < len(lines):
        cells = _cells(lines[at], head)
        if cells is None and lines[at] != "…":
            break
        cells = cells or ("…",)
        found = replace(found, rows=(*found.rows, cells))
        if any(name == _HALVES and " to " in cell for name, cell in zip(names, cells, strict=False)):
            found = replace(found, head=(*found.head, f"two ends under {_HALVES}"))  # like no table that is printed
        at += 1
    return found, at


def _cells(line: str, head: str) -> tuple[str, ...] | None:
    """The cells of a row, each of which begins or ends where its heading does; some are empty. None: it is no row."""
    names = list(_CELL.finditer(head))
    cells = list(_CELL.finditer(line))
    if len(cells) == len(names):
        return tuple(cell[0] for cell in cells)
    at = {}
    for cell in cells:
        below = [i for i, name in enumerate(names) if cell.start() == name.start() or cell.end() == name.end()]
        if len(below) != 1 or below[0] in at:
            return None
        at[below[0]] = cell[0]
    return tuple(at.get(i, "") for i in range(len(names))) if len(at) > 1 else None


def difference(shown: str, found: str) -> str | None:
    """What is shown that isn't found, but for noise; None if nothing."""
    left, right = list(parts(shown)), list(parts(found))
    while left:
        part = left.pop(0)
        if part == "…":
            if not left:
                return None
            while right and _unlike(left[0], right[0]):
                right.pop(0)
            continue
        if not right:
            return f"isn't printed: {part}"
        if wrong := _unlike(part, right.pop(0)):
            return wrong
    return f"is printed, and not shown: {right[0]}" if right else None


def _unlike(shown: str | Table, found: str | Table) -> str | None:
    if isinstance(shown, Table) and isinstance(found, Table):
        return _other_table(shown, found)
    return None if shown == found else f"shown: {shown}\nfound: {found}"


def _other_table(shown: Table, found: Table) -> str | None:
    if shown.head != found.head:
        return f"columns: {shown.head}, not {found.head}"
    whole = ("…",) not in shown.rows
    left = replace(shown, rows=tuple(row for row in shown.rows if row != ("…",))).cells()
    right: Mapping[tuple[str, ...], list[tuple[str, str]]] = found.cells()
    if set(left) - set(right) or (whole and set(right) - set(left)):
        return f"keys: {sorted(set(left) ^ set(right))}"
    for key, values in left.items():
        for (a, off_a), (b, off_b) in zip(values, right[key], strict=True):
            one, other = widened(a, off_a), widened(b, off_b)
            if one[0] > other[1] or other[0] > one[1]:
                return f"{key}: {a} ± {off_a} isn't {b} ± {off_b}"
            if not (shown.cut or found.cut or _similar(off_a, off_b)):
                return f"{key}: ± {off_a} isn't ± {off_b}"
    return None


def widened(value: str, off: str) -> tuple[float, float]:
    """About the 99.99% interval of a value, by its ± at 95%: a half, or both ends."""
    ends = [float(n.replace(",", "")) for n in _NUMBER.findall(off)]
    if not ends:
        return float("-inf"), float("inf")
    if len(ends) == 1:
        (middle,) = (float(n.replace(",", "")) for n in _NUMBER.findall(value)[:1])
        ends = [middle - ends[0], middle + ends[0]]
    middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2 * WIDER
    return middle - half, middle + half


def _similar(one: str, other: str) -> bool:
    """Is a ± the same, but for its rounding, or (where it depends on what is noisy itself) about the same?"""
    a, b = ([float(n.replace(",", "")) for n in _NUMBER.findall(text)] for text in (one, other))
    if len(a) != 1 or len(b) != 1:
        return True  # two ends: they were compared as an interval
    if one.isdigit() and other.isdigit():
        return abs(a[0] - b[0]) <= max(1, 0.02 * a[0])
    return max(a[0], b[0]) <= 2 * min(a[0], b[0]) + 0.01
