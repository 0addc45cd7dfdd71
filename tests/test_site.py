"""The site is built from the repository without a warning and needs no other site; what is generated is up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import dpsql
from dpsql.cli.main import cli
from dpsql.cli.reference import JOINS, JoinKind, command_reference, sql_reference

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?([^"'\s>]+)|<link\b[^>]*\bhref=["']?([^"'\s>]+)""")
STYLED = re.compile(r"""(?:url\(|@import )["']?([^"')]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors: links that lead nowhere, pages that are in no menu."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_it_has_a_page_for_every_document(site: Path) -> None:
    elsewhere = {"theory", "security", "contributing", "changelog", "benchmarks"}
    written = {page.stem for page in (ROOT / "docs").glob("*.md")} | elsewhere
    built = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    assert {"." if name == "index" else name for name in written} == built
    assert "Theorem" in (site / "theory" / "index.html").read_text(encoding="utf-8")


def test_it_loads_nothing_from_another_site(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    loaded = {a or b for text in pages.values() for a, b in LOADED.findall(text)}
    styled = {url for style in site.rglob("*.css") for url in STYLED.findall(style.read_text(encoding="utf-8"))}
    assert len(loaded) > 5
    assert [url for url in loaded | styled if re.match(r"(?:https?:)?//", url)] == []


def test_it_shows_every_picture_that_is_made(site: Path) -> None:
    made = {picture.name for picture in (ROOT / "docs" / "pictures").iterdir()}
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"pictures/([\w.-]+)", pages + (ROOT / "README.md").read_text(encoding="utf-8")))
    assert made == shown
    assert all((site / "pictures" / name).stat().st_size < 100_000 for name in made)


# ---------------------------------------------------------------- what is generated


@pytest.mark.parametrize(("page", "made"), [("sql", sql_reference), ("commands", command_reference)])
def test_a_reference_is_up_to_date(page: str, made: object, request: pytest.FixtureRequest) -> None:
    assert callable(made)
    place = ROOT / "docs" / f"{page}.md"
    if request.config.getoption("--update-golden"):
        place.write_text(made(), encoding="utf-8")
    assert place.read_text(encoding="utf-8") == made(), f"python -m dpsql.cli.reference {page} > docs/{page}.md"


def test_every_command_and_option_is_in_the_reference() -> None:
    text = command_reference()
    for name, command in cli.commands.items():
        if not command.hidden:
            shown = [one for one in command.params if not (isinstance(one, click.Option) and one.hidden)]
            longest = [form for one in shown for form in one.opts if form.startswith("--")]
            assert f"\n## dpsql {name}\n" in text and [form for form in longest if form not in text] == []


POLICY = {
    "budget": {"epsilon": 10, "query_epsilon": 1},
    "privacy": {"max_rows": 5},
    "tables": {
        "people": {"unit": "person", "columns": {"age": {"min": 0, "max": 99}}},
        "visits": {
            "unit": "person",
            "columns": {"city": {"references": "cities.city"}, "minutes": {"min": 0, "max": 60}},
        },
        "cities": {"public": True},
    },
}


@pytest.mark.parametrize("kind", JOINS, ids=[one.form for one in JOINS])
@pytest.mark.sample(3)
def test_joins_are_answered_and_refused_as_the_reference_says(kind: JoinKind) -> None:
    import pyarrow as pa

    tables = {
        "people": pa.table({"person": [1, 2], "age": [20, 40]}),
        "visits": pa.table({"person": [1, 1], "city": ["Bern", "Oslo"], "minutes": [5, 50]}),
        "cities": pa.table({"city": ["Bern", "Oslo"], "country": ["CH", "NO"]}),
    }
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=tables, ledger=":memory:") as session:
        if kind.answered:
            assert session.query(kind.example).cost.epsilon == 1
        else:
            with pytest.raises(dpsql.PrivacyError):
                session.query(kind.example)
