"""What Tab offers where."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsql
from dpsql.cli.shell.terminal import Vocabulary, completions

WORDS = Vocabulary(
    {"people": "private table", "regions": "public table", "odd name": "public table"},
    {
        "people": {"region": "VARCHAR, key", "income": "DOUBLE, SUM", "age": "BIGINT"},
        "regions": {"region": "VARCHAR", "label": "VARCHAR"},
        "odd name": {"a column": "BIGINT"},
    },
    {"region": ("east", "north", "o'land"), "label": ()},
    {"AVG": "aggregate", "ABS": "function"},
)


def offered(text: str) -> list[str]:
    """The text before | with each completion in place."""
    before, _, after = text.partition("|")
    return [before[: len(before) - one.replaces] + one.text for one in completions(before, after, WORDS)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT COUNT(*) FROM p|", ["SELECT COUNT(*) FROM people"]),
        ("SELECT COUNT(*) FROM people JOIN r|", ["SELECT COUNT(*) FROM people JOIN regions"]),
        ("SELECT COUNT(*) FROM people p, r|", ["SELECT COUNT(*) FROM people p, regions"]),
        ("DESCRIBE o|", ['DESCRIBE "odd name"']),
        ("\\d re|", ["\\d regions"]),
    ],
)
def test_tables_follow_from(text: str, found: list[str]) -> None:
    assert offered(text) == found


def test_columns_are_those_of_the_tables_in_the_statement() -> None:
    assert "SELECT label" in offered("SELECT la| FROM regions")
    assert "SELECT label" not in offered("SELECT la| FROM people")
    assert "SELECT label" in offered("SELECT la|")


@pytest.mark.parametrize("text", ["SELECT p.i| FROM people AS p", "SELECT p.i| FROM regions r JOIN people p ON 1 = 1"])
def test_columns_follow_an_alias(text: str) -> None:
    assert offered(text) == ["SELECT p.income"]


def test_what_follows_an_unknown_alias_is_not_guessed() -> None:
    assert offered("SELECT x.i| FROM people p") == []


def test_names_that_need_quotes_get_them() -> None:
    assert 'SELECT "a column"' in offered('SELECT a| FROM "odd name"')


def test_words_keep_their_case() -> None:
    assert "SELECT AVG(" in offered("SELECT A| FROM people")
    assert "select avg(" in offered("select a| from people")


def test_public_values_complete_a_text() -> None:
    assert offered("SELECT COUNT(*) FROM people WHERE region = 'n|") == [
        "SELECT COUNT(*) FROM people WHERE region = 'north'"
    ]
    assert offered("… WHERE region IN ('east', 'o|')") == ["… WHERE region IN ('east', 'o''land"]
    assert offered("… WHERE label = 'n|") == []
    assert offered("… WHERE f('n|") == []


def test_commands_and_their_settings_complete() -> None:
    assert offered("\\ex|") == ["\\explain"]
    assert {"\\max_rows", "\\mechanism"} <= set(offered("\\m|"))
    assert offered("\\mechanism lap|") == ["\\mechanism laplace"]
    assert offered("\\explain SELECT COUNT(*) FROM peo|") == ["\\explain SELECT COUNT(*) FROM people"]


def test_nothing_is_offered_where_nothing_was_begun() -> None:
    assert offered("SELECT |") == []


def test_the_vocabulary_is_the_policys(folder: Path) -> None:
    with dpsql.connect() as session:
        words = Vocabulary.of(session)
        assert session.charged is None
    assert words.tables == {"people": "private table", "regions": "public table"}
    assert words.columns["people"]["income"] == "DOUBLE, SUM, AVG, …"
    assert words.values["region"] == ("east", "north", "south")
    assert words.functions["MEDIAN"] == "aggregate" and words.functions["ABS"] == "function"
