"""The pages' code runs, and prints what they show (tests/pages.py says how). --update-golden rewrites the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, Runner, blocks, difference, widened
from sqlalchemy.dialects import registry

from dpsql.jobs.job import KINDS, ONCE_PER
from dpsql.jobs.read import FORMATS, JOB, QUERY

registry.register("dpsql", "dpsql.dbapi.dialect", "Dialect")  # as the entry point does in an installation

ELSEWHERE = {"architecture.md", "attacks.md", "engine-facts.md", "style.md", "postgres.md"}
"""Pages about the code, and one that needs a server: tests of their own look at what they say."""

PAGES = ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in ELSEWHERE)]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(read(page)))])
def test_the_code_of_a_page_runs_and_prints_what_it_shows(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    update = bool(request.config.getoption("--update-golden"))
    written = Runner(folder, update).run(read(page))
    if update:
        (ROOT / page).write_text(written, encoding="utf-8")


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/recipes.md", "docs/concepts.md", "docs/choosing.md"])
def test_what_is_shown_alone_is_the_exception(page: str) -> None:
    found = [block for block in blocks(read(page)) if block.language != "data"]
    assert len(found) >= 1 and len([block for block in found if block.mark == "shown"]) <= 1


# ---------------------------------------------------------------- the comparison itself

TABLE = """\
plan    riders   ± 95%     age   ± 95%
──────────────────────────────────────
day        989       9   38.15    0.36
month    1,828      10   37.81    0.20
cost ε = 0.5 · left ε = 3
"""


@pytest.mark.parametrize(
    "found",
    [
        TABLE,
        TABLE.replace("1,828", "1,851"),  # other noise
        TABLE.replace("   10   37.81", "   11   37.81").replace("0.36", "0.41"),
    ],
)
def test_other_noise_is_no_difference(found: str) -> None:
    assert difference(TABLE, found) is None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("1,828", "1,899"), ("month", "week "), ("riders", "people"), ("  10", "  25"), ("left ε = 3", "left ε = 2"),
     ("0.20", "0.70"), ("cost", "price"), ("day        989       9   38.15    0.36\n", "")],
)  # fmt: skip
def test_another_key_column_error_price_or_value_far_away_is_one(was: str, becomes: str) -> None:
    assert was in TABLE
    assert difference(TABLE, TABLE.replace(was, becomes)) is not None


BOUNDS = """\
plan                n     95% interval       age   ± 95%
────────────────────────────────────────────────────────
pro    at least 1,900                      38.15    0.36
free            1,828   1,700 to 2,100   too few
cost ε = 0.5
"""


def test_a_row_of_a_table_may_have_empty_cells() -> None:
    assert difference(BOUNDS, BOUNDS.replace("1,828", "1,851")) is None
    assert difference(BOUNDS, BOUNDS.replace("38.15", "42.15")) is not None
    assert difference(BOUNDS, BOUNDS.replace("1,700 to 2,100", "4,700 to 5,100")) is not None


def test_which_heading_errors_have_is_the_noises_choice_but_two_ends_stand_under_their_own() -> None:
    ranges = TABLE.replace("  ± 95%     age", "95% interval     age").replace("       9", "  980 to 998")
    assert difference(TABLE.replace("± 95%     age", "95% interval     age"), TABLE) is None
    assert ranges != TABLE and difference(TABLE.replace("      9 ", " 9 to 12 "), TABLE) is not None


def test_dots_stand_for_lines_that_are_left_out_and_for_no_others() -> None:
    assert difference("a\n…\nc\n", "a\nb\nc\n") is None and difference("a\n…\n", "a\nb\nc\n") is None
    assert difference("a\n…\nd\n", "a\nb\nc\n") is not None and difference("a\n", "a\nb\n") is not None
    short = re.sub(r"^month.*$", "…", TABLE, flags=re.MULTILINE)
    assert difference(short, TABLE) is None and difference(short, TABLE.replace("day ", "hour")) is not None


def test_an_interval_of_two_ends_is_widened_as_one_of_a_half() -> None:
    assert widened("5", "0 to 10") == widened("5", "5")
    assert widened("too few", "1.000 to 99.000")[0] < 1


def test_every_key_type_and_format_of_a_job_is_on_its_page() -> None:
    told = set(re.findall(r"`([^`]*)`", read("docs/jobs.md")))
    words = {word for text in told for word in re.findall(r"\w+", text)}
    assert {*JOB, *QUERY, *KINDS, *ONCE_PER, *FORMATS} - {"queries"} <= words and "[queries.x]" in told
