"""docs/architecture.md says what the code does: names that exist, the layers in force, an example that is run again.

--update-golden rewrites the example's blocks that follow from the others; what was drawn stays.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from test_golden import plan_text
from test_layers import LAYERS

import dpsql
from dpsql.analyze.checked import CheckedRelease
from dpsql.backends.base import Exact
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.options import Request
from dpsql.quote.model import Quote, Stage, Step
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"<!-- (example|source): ([\w/.]+) -->\n```\w*\n(.*?)\n```\n", re.DOTALL)
POINTER = re.compile(r"`([\w/]+\.py)::([A-Za-z_][\w.]*)`")
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|sql|toml|csv)|(?:[\w-]+/)+)`")
WIDTH = 110  # of a line of a statement


def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def section(heading: str) -> str:
    """What stands under a heading, up to the next one of its level."""
    level = heading.split(" ")[0]
    found = re.search(rf"^{re.escape(heading)}.*?\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text(), re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def table_rows(part: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def place(file: str) -> Path:
    """A file or folder that the document names: from the root, or from the package."""
    return ROOT / file if (ROOT / file).exists() else ROOT / "dpsql" / file


# ---------------------------------------------------------------- names


@cache
def names(path: Path) -> frozenset[str]:
    """What a module defines: functions, classes and constants, and Class.member."""
    return frozenset(_defined(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _defined(body: Sequence[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


def missing(pointers: str) -> list[str]:
    found = [(file, name) for file, name in POINTER.findall(pointers)]
    return [f"{f}::{n}" for f, n in found if not place(f).is_file() or n not in names(place(f))]


def test_every_function_class_and_constant_that_is_named_exists() -> None:
    assert len(POINTER.findall(text())) > 100
    assert missing(text()) == []


def test_a_name_that_is_not_there_is_found() -> None:
    said = "`run.py::run` `run.py::Payer.reserve` `run.py::walk` `none.py::run` `tests/test_layers.py::edges`"
    assert missing(said) == ["run.py::walk", "none.py::run"]


def test_every_file_and_folder_that_is_named_exists() -> None:
    assert [file for file in FILE.findall(text()) if not place(file).exists()] == []


def test_the_layers_are_those_in_force() -> None:
    assert [row[0].strip("`") for row in table_rows(section("## The layers"))] == list(LAYERS)


def test_every_word_of_the_glossary_has_its_place_and_they_are_in_order() -> None:
    rows = table_rows(section("## The house's words"))
    words = [row[0] for row in rows]
    assert len(rows) > 40 and words == sorted(words, key=str.lower) and len(set(words)) == len(words)
    assert [row[0] for row in rows if not POINTER.search(row[-1])] == []


@pytest.mark.parametrize(
    "what",
    ["aggregate", "scalar function", "statistic", "mechanism", "SQL rewrite pass", "plan node", "backend",
     "source kind", "command", "policy key", "option of a query"],
)  # fmt: skip
def test_each_how_to_lists_as_many_files_as_it_says(what: str) -> None:
    heading = re.search(rf"^### A new {what}: (\d+) files$", text(), re.MULTILINE)
    assert heading is not None, what
    assert len(table_rows(section(heading[0]))) == int(heading[1])


def test_what_is_shown_of_a_file_stands_there() -> None:
    shown = [(name, code) for kind, name, code in BLOCK.findall(text()) if kind == "source"]
    assert shown and [name for name, code in shown if code not in (ROOT / name).read_text(encoding="utf-8")] == []


# ---------------------------------------------------------------- the example


@dataclass(frozen=True)
class Walk:
    """The example of the document, run up to what its statement gives."""

    session: dpsql.Session
    sql: str
    quote: Quote
    exact: Exact

    @property
    def stage(self) -> Stage:
        return self.quote.main

    @property
    def step(self) -> Step:
        (step,) = self.quote.steps
        return step

    @property
    def columns(self) -> list[np.ndarray[Any, Any]]:
        """The integers that get noise."""
        (measurement,) = self.step.measurements
        return measurement.statistic.columns([self.exact.tallies[t] for t in measurement.statistic.tallies])


def blocks() -> dict[str, str]:
    return {name: block for kind, name, block in BLOCK.findall(text()) if kind == "example"}


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    given = blocks()
    made: dict[str, Any] = {}
    exec(given["rows"], made)
    person, city, minutes = (list(column) for column in zip(*made["rows"], strict=True))
    table = pa.table({"person": person, "city": city, "minutes": pa.array(minutes, pa.int32())})
    policy = dpsql.Policy.from_dict(tomllib.loads(given["policy"], parse_float=Decimal))
    with dpsql.connect(policy, sources={"visits": table}, ledger=":memory:") as session:
        quote = session._quoting.quote(given["sql"], Request(epsilon=1))
        with session.backend.measuring(None) as rows:
            exact = rows.execute(quote.steps[0], {}, 7)
        yield Walk(session, given["sql"], quote, exact)


def bound(walk: Walk) -> str:
    engine = walk.session._engine
    return bind(parse(walk.sql), engine.columns, engine.unlisted).root.sql(dialect="duckdb", pretty=True)


def checked(walk: Walk) -> str:
    one: CheckedRelease = walk.step.checked
    assert one.listed is not None
    (key,), (domain,), (argument,) = one.keys, one.listed.domains, one.arguments
    assert argument.value is not None and isinstance(key.sql, exp.Column)
    values = ", ".join("NULL" if v is None else v for v in domain.values.to_pylist())
    return aligned(
        [
            ("owner", f"unit {one.owner.unit}, rows {one.owner.rows}: {one.owner.why}"),
            ("key", f"{key.sql.name} {key.type.sql}: {values} ({domain.why})"),
            ("argument", f"{argument.call.function} of {argument.value.type.sql}, range [{argument.value.range.low}, "
             f"{argument.value.range.high}] ({'; '.join(argument.value.range.why)})"),
            ("bounding", f"mass {one.bounding.mass}, peak {one.bounding.peak}, cap {one.bounding.cap}"),
        ]
    )  # fmt: skip


def quoted(walk: Walk) -> str:
    step, stage = walk.step, walk.stage
    (measurement,), (view,), (call,) = step.measurements, stage.views, step.calls
    size = measurement.sensitivity
    tallies = ", ".join(f"t{i} {t.kind} of {t.value}" for i, t in enumerate(step.tallies))
    assert call.value is not None
    grid = call.value.grid
    return aligned(
        [
            ("stage", f"{stage.kind}, cost ε = {stage.cost.epsilon}, δ = {stage.cost.delta}"),
            ("step", f"{step.name}, weights of {step.bits} bits, {step.count} cells"),
            ("call", f"{call.function} of {call.value.column}, on the grid {grid.step} · [{grid.low}, {grid.high}]"),
            ("statistic", f"{measurement.statistic.title}, from {tallies}"),
            ("sensitivity", f"l1 = {size.l1} = {size.l1 / 2**step.bits} · 2^{step.bits}"),
            ("noise", f"{measurement.noise.name} of scale {_scale(measurement.noise)}"),
            *(("estimate", f"{q.kind} = {_linear(linear.terms)}") for q, linear in step.estimates.items()),
            ("view", f"part {view.part} reads step {view.step} as {view.name}, aggregates {view.aggregates}"),
            ("part", ", ".join(f"{name} {kind}" for name, kind in walk.quote.parts[0].result)),
        ]
    )


def _scale(noise: object) -> Fraction:
    assert isinstance(noise, DiscreteLaplace)
    return noise.scale


def _linear(terms: Sequence[tuple[tuple[int, int], Fraction]]) -> str:
    return " + ".join(f"{weight} · c{column}" for (_, column), weight in terms)


def statement(walk: Walk) -> str:
    (written,) = walk.session.backend.written(walk.step, pretty=True)
    return "\n".join(folded(written.split("\n")))


def exact(walk: Walk) -> str:
    keys = walk.step.cells.column("k0").to_pylist()
    tallies = [walk.exact.tallies[t] for t in walk.step.tallies]
    head = ["k0", *(f"t{i}" for i in range(len(tallies))), *(f"c{i}" for i in range(len(walk.columns)))]
    return aligned([head, *zip(keys, *tallies, *walk.columns, strict=True)])


def noisy(walk: Walk) -> str:
    keys = walk.step.cells.column("k0").to_pylist()
    columns = [c + n for c, n in zip(walk.columns, draws(), strict=True)]
    return aligned([["k0", *(f"c{i}" for i in range(len(columns)))], *zip(keys, *columns, strict=True)])


def draws() -> list[np.ndarray[Any, Any]]:
    """What was drawn when the example was written down, for each column."""
    rows = [[int(word) for word in line.split()[1:]] for line in blocks()["noise"].splitlines()[1:]]
    return [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]


def answered(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> dpsql.Answer:
    left = iter(draws())
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda self, n: next(left))
    return walk.session.query(walk.sql, epsilon=1)


def aligned(rows: Sequence[Sequence[object]]) -> str:
    texts = [["NULL" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*texts, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts]
    return "\n".join(line.rstrip() for line in lines)


def folded(lines: Sequence[str]) -> Iterator[str]:
    """A statement with each part on one line that fits there."""
    start = 0
    while start < len(lines):
        indent = len(lines[start]) - len(lines[start].lstrip())
        end = start + 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > indent:
            end += 1
        closes = end < len(lines) and lines[start].endswith("(") and lines[end].lstrip().startswith(")")
        last = end + 1 if closes else end
        one = " ".join(line.strip() for line in lines[start:last]).replace("( ", "(").replace(" )", ")")
        if indent + len(one) <= WIDTH and not lines[last - 1].endswith("("):
            yield " " * indent + one
        else:
            yield lines[start]
            yield from folded(lines[start + 1 : end])
            if closes and lines[end].endswith("("):
                last = end
            elif closes:
                yield lines[end]
        start = last


SHOWN = {
    "bound": bound,
    "plan": lambda walk: plan_text(walk.quote.plan),
    "checked": checked,
    "quote": quoted,
    "statement": statement,
    "exact": exact,
    "noisy": noisy,
}


def agree(request: pytest.FixtureRequest, name: str, found: str) -> None:
    """Compare with a block of the document, or rewrite it."""
    if request.config.getoption("--update-golden"):
        mark = re.compile(rf"(<!-- example: {name} -->\n```\w*\n).*?(\n```\n)", re.DOTALL)
        DOCUMENT.write_text(mark.sub(lambda m: m[1] + found + m[2], text()), encoding="utf-8")
    assert found == blocks()[name]


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_shows_what_each_stage_makes(walk: Walk, request: pytest.FixtureRequest, name: str) -> None:
    agree(request, name, SHOWN[name](walk))


def test_the_example_is_answered_and_paid_as_it_says(
    walk: Walk, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    answer = answered(walk, monkeypatch)
    agree(request, "answer", f"{answer}, left ε = {left(walk)}")
    agree(request, "ledger", aligned(events(walk)))
    again = walk.session.query(walk.sql, epsilon=1)  # nothing is left to draw: it would fail
    assert again.rows == answer.rows and again.receipt.id == answer.receipt.id and again.cost.epsilon == 0


def left(walk: Walk) -> Fraction:
    return walk.session.budget.remaining.epsilon


def events(walk: Walk) -> list[tuple[int, str, str]]:
    """What the ledger holds: place, kind, and what was noted."""
    with walk.session._engine.ledger._journal.reading() as db:
        found = db.execute("SELECT seq, kind, note FROM event ORDER BY seq").fetchall()
    return [(seq, kind, note or "") for seq, kind, note in found]
