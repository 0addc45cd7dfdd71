"""Whatever code, tests and documents cite is there: theorems, attacks, facts, tests, sections, files.

A theorem is defined in dpsql/THEORY.md, an attack in docs/attacks.md, a fact about an engine in docs/engine-facts.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("dpsql", "tests", "docs", "benchmarks", "examples")
KINDS = {".py", ".md", ".sql", ".toml"}

NAME = r"[A-Z]+-\d+"
THEOREM = re.compile(rf"^(?:\*\*|### )({NAME})[.:]", re.MULTILINE)
ATTACK = re.compile(r"^### (\d+)\. ", re.MULTILINE)
FACT = re.compile(r"^### (FACT-[A-Z]+-\d+)\. ", re.MULTILINE)
BREAK = r"\s+(?:#\s+)?"  # a space, or the end of a line of a comment
AND = rf"(?:,{BREAK}and|,|{BREAK}and){BREAK}"
THEOREMS = re.compile(rf"Theorems?{BREAK}([A-Z][\w-]*(?:\([a-z]\))?(?:{AND}{NAME}(?:\([a-z]\))?)*)")
ATTACKS = re.compile(rf"\battacks?{BREAK}(\d+(?:(?:{AND}|{BREAK}to{BREAK})\d+)*)", re.IGNORECASE)
TEST = re.compile(r"\b(tests/[\w/]+\.(?:py|sql))::([^`\"]+)")
SECTION = re.compile(r"\b(docs/[\w-]+\.md), \"([^\"]+)\"")
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*\w+\.py)\b")


@cache
def texts() -> dict[str, str]:
    """Every file that may cite something, by its name from the root; not this one, which cites what isn't there."""
    inside = (p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in KINDS)
    ours = (p for p in [*ROOT.glob("*.md"), *inside] if "node_modules" not in p.parts)
    found = [p for p in ours if p.resolve() != Path(__file__).resolve()]
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sorted(found)}


def documents() -> dict[str, str]:
    """The documents. A list of changes tells of files as they were."""
    return {name: text for name, text in texts().items() if name.endswith(".md") and name != "CHANGELOG.md"}


@cache
def defined(kind: re.Pattern[str], file: str) -> tuple[str, ...]:
    return tuple(kind.findall(texts()[file]))


def theorems() -> tuple[str, ...]:
    return defined(THEOREM, "dpsql/THEORY.md")


def attacks() -> tuple[str, ...]:
    return defined(ATTACK, "docs/attacks.md")


def facts() -> tuple[str, ...]:
    return defined(FACT, "docs/engine-facts.md")


def unknown_theorems(text: str) -> Iterator[str]:
    """What is called a theorem and isn't one, and names of a family of theorems that no theorem has."""
    for cited in THEOREMS.findall(text):
        names = re.findall(NAME, cited)
        yield from ([cited] if not names else (n for n in names if n not in theorems()))
    families = {name.rpartition("-")[0] for name in theorems()}
    for name in re.findall(rf"(?<![\w-]){NAME}(?![\w-])", text):
        if name.rpartition("-")[0] in families and name not in theorems():
            yield name


def unknown_attacks(text: str) -> Iterator[str]:
    for cited in ATTACKS.findall(text):
        yield from (n for n in re.findall(r"\d+", cited) if str(int(n)) not in attacks())


def unknown_facts(text: str) -> Iterator[str]:
    yield from (name for name in re.findall(r"FACT-\w+(?:-\w+)?", text) if name not in facts())


def unknown_tests(text: str) -> Iterator[str]:
    """Pointers to a test (file.py::name) or a golden case (file.sql::title) that isn't there."""
    for file, name in TEST.findall(text):
        there = texts().get(file, "")
        mark = rf"^def {re.escape(name)}\(" if file.endswith(".py") else rf"^-- {re.escape(name)}$"
        if not re.search(mark, there, re.MULTILINE):
            yield f"{file}::{name}"


def unknown_sections(text: str) -> Iterator[str]:
    for file, heading in SECTION.findall(text):
        if not re.search(rf"^#+ {re.escape(heading)}$", texts().get(file, ""), re.MULTILINE):
            yield f'{file}, "{heading}"'


def unknown_modules(text: str) -> Iterator[str]:
    """Python files that a document names, by their name or the end of their path."""
    files = [f"/{name}" for name in [*texts(), "tests/test_citations.py"]]
    for name in MODULE.findall(text):
        if not any(file.endswith(f"/{name}") for file in files):
            yield name


def broken_links(name: str, text: str) -> Iterator[str]:
    for link in LINK.findall(text):
        file, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", file):
            continue  # another site
        target = (ROOT / name).parent / file if file else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            yield link


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def listed(found: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    return [f"{file}: {one}" for file, many in found for one in many]


# ---------------------------------------------------------------- everything that is cited is there


def test_every_theorem_that_is_cited_is_in_theory() -> None:
    assert listed((file, unknown_theorems(text)) for file, text in texts().items()) == []


def test_every_attack_that_is_cited_is_listed() -> None:
    assert listed((file, unknown_attacks(text)) for file, text in texts().items()) == []


def test_every_fact_that_is_cited_is_listed() -> None:
    assert listed((file, unknown_facts(text)) for file, text in texts().items()) == []


def test_every_test_that_is_pointed_to_exists() -> None:
    assert listed((file, unknown_tests(text)) for file, text in texts().items()) == []


def test_every_section_that_is_cited_exists() -> None:
    assert listed((file, unknown_sections(text)) for file, text in texts().items()) == []


def test_every_python_file_that_a_document_names_exists() -> None:
    assert listed((file, unknown_modules(text)) for file, text in documents().items()) == []


def test_every_relative_link_leads_somewhere() -> None:
    pages = {name: text for name, text in texts().items() if name.endswith(".md")}
    assert listed((file, broken_links(file, text)) for file, text in pages.items()) == []


# ---------------------------------------------------------------- what is defined


def test_nothing_is_defined_twice_and_attacks_are_numbered_without_a_gap() -> None:
    for names in (theorems(), attacks(), facts()):
        assert sorted(names) == sorted(set(names))
    assert [int(n) for n in attacks()] == list(range(1, len(attacks()) + 1))


def test_every_attack_has_a_test_or_is_said_to_be_of_a_later_version() -> None:
    entries = re.split(r"^### ", texts()["docs/attacks.md"], flags=re.MULTILINE)[1:]
    assert len(entries) == len(attacks())
    assert [e.splitlines()[0] for e in entries if not (TEST.search(e) or "ot in this version" in e)] == []


def test_every_test_of_a_fact_is_named_by_its_entry() -> None:
    there = re.findall(r"^def (test_\w+)\(", texts()["tests/test_engine_facts.py"], re.MULTILINE)
    named = {name for _, name in TEST.findall(texts()["docs/engine-facts.md"])}
    assert there and [name for name in there if name not in named] == []


# ---------------------------------------------------------------- the checks themselves


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("# Theorem NONE-1", ["NONE-1"]),
        ("Theorems LAP-1, NONE-1 and COMP-1", ["NONE-1"]),
        ("Theorems LAP-1, CHOOSE-1, and NONE-2", ["NONE-2"]),
        ("# a long line (Theorem\n    # NONE-1)", ["NONE-1"]),
        ("Theorem LAP1", ["LAP1"]),
        ("as in (TOTAL-99)", ["TOTAL-99"]),
        ("Theorems LAP-1 and COMP-1; UTF-8; Theorem 2.2 of others; Theorem SAMPLE-1(c)", []),
    ],
)
def test_a_theorem_that_is_not_there_is_found(text: str, missing: list[str]) -> None:
    assert sorted(set(unknown_theorems(text))) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("(attack 99)", ["99"]),
        ("Attacks 28 to 34, 40 and 98", ["98"]),
        ("attacks 9, 10, and 97", ["97"]),
        ("ATTACKS 9, 96: so", ["96"]),
        ("attack 12; an attack of 99 people", []),
    ],
)
def test_an_attack_that_is_not_there_is_found(text: str, missing: list[str]) -> None:
    assert list(unknown_attacks(text)) == missing


def test_a_fact_test_section_file_or_link_that_is_not_there_is_found() -> None:
    assert list(unknown_facts("FACT-NAN-1 and FACT-NONE-1 and FACT-NAN")) == ["FACT-NONE-1", "FACT-NAN"]
    pointers = "`tests/test_engine_facts.py::test_none`, `tests/golden/refuse/units.sql::no such case`"
    assert len(list(unknown_tests(pointers))) == 2
    assert list(unknown_tests("`tests/golden/refuse/units.sql::shifted join`")) == []
    assert list(unknown_sections('docs/attacks.md, "Numbers"; docs/attacks.md, "None"')) == ['docs/attacks.md, "None"']
    assert list(unknown_modules("`none.py` and `release.py`, dpsql/none/release.py")) == [
        "none.py",
        "dpsql/none/release.py",
    ]
    links = "[a](docs/attacks.md#numbers) [b](docs/attacks.md#none) [c](none.md) [d](https://example.org/none)"
    assert list(broken_links("README.md", links)) == ["docs/attacks.md#none", "none.md"]
