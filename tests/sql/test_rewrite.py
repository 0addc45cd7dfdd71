"""Passes: each alone on the cases of its golden file, and what all of them promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_files import FOLDER, Case, golden, read
from sqlglot import exp

from dpsql.sql.parse import parse
from dpsql.sql.rewrite import PASSES, rewrite

BY_NAME = {one.__name__: one for one in PASSES}
CASES = [case.sql for _, case in read("rewrite")]


UNSEEN = ("any_value", "fetch_first")  # in DuckDB's SQL sqlglot writes no IGNORE NULLS, and FETCH as LIMIT


def places(tree: exp.Query) -> dict[int, str]:
    """The names of a tree that know where they stand, by that place."""
    return {i.meta["start"]: i.name for i in tree.find_all(exp.Identifier) if "start" in i.meta}


@golden("rewrite")
def test_a_pass_rewrites_what_it_is_for_and_nothing_else(file: str, case: Case, agree: Any) -> None:
    tree = BY_NAME[file](parse(case.sql).root)
    agree("rewrite", file, case, tree.sql(dialect=None if file in UNSEEN else "duckdb"))


@golden("rewrite")
def test_a_pass_has_nothing_to_do_after_itself(file: str, case: Case) -> None:
    once = BY_NAME[file](parse(case.sql).root)
    assert BY_NAME[file](once) is once


@pytest.mark.parametrize("sql", CASES)
def test_a_tree_that_is_rewritten_stays_as_it_was(sql: str) -> None:
    root = parse(sql).root
    before, linked = repr(root), [(id(n), id(n.parent)) for n in root.walk()]
    rewrite(root)
    assert repr(root) == before
    assert [(id(n), id(n.parent)) for n in root.walk()] == linked


@pytest.mark.parametrize("sql", CASES)
def test_every_name_that_was_written_still_knows_where(sql: str) -> None:
    written, found = places(parse(sql).root), places(rewrite(parse(sql).root))
    assert found.items() <= written.items()
    assert set(found.values()) == set(written.values())  # of QUANTILE_CONT(x, 0.3 ORDER BY x) one x is left
    assert all(sql[start:].removeprefix('"').startswith(name) for start, name in found.items())


def test_each_pass_has_a_file_and_a_golden_file_of_its_name() -> None:
    assert {one.__module__.rpartition(".")[2] for one in PASSES} == set(BY_NAME)
    assert {file.stem for file in (FOLDER / "rewrite").glob("*.sql")} == set(BY_NAME)
    assert len(BY_NAME) == len(PASSES)
    code = Path(rewrite.__code__.co_filename).parent
    assert {file.stem for file in code.glob("*.py")} == {"__init__", *BY_NAME}
