"""How an error quotes the text: at most 200 characters of a line, with the caret under its place."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from sqlglot import parse_one

from dpsql.core.errors import LONGEST_LINE, Span, SQLError, quoted_line
from dpsql.sql.as_sql import as_sql, quiet


def shown(text: str, start: int, length: int) -> tuple[str, str]:
    error = SQLError("no", code="x", span=Span(1, start + 1, length)).locate(text)
    line, mark = str(error).splitlines()[1:3]
    return line[7:], mark[7:]


@pytest.mark.parametrize("place", [0, 5, 150, 199, 200, 5000, 9990, 9995])
def test_a_long_line_is_quoted_around_its_mark(place: int) -> None:
    text = "x" * place + "WRONG" + "y" * (9995 - place)
    line, mark = shown(text, place, 5)
    assert len(line) <= LONGEST_LINE
    assert line[mark.index("^") : mark.rindex("^") + 1] == "WRONG"
    assert line.startswith("…") == (place > 150) or place == 150


def test_a_mark_longer_than_the_line_ends_with_it() -> None:
    line, mark = shown("a" * 10_000, 3, 9_000)
    assert len(line) <= LONGEST_LINE and len(mark) <= LONGEST_LINE


def test_a_short_line_is_quoted_as_it_stands() -> None:
    assert shown("SELECT wrong FROM t", 7, 5) == ("SELECT wrong FROM t", "       ^^^^^")


def test_the_caret_stands_under_its_place_after_tabs_and_wide_characters() -> None:
    assert shown("\tSELECT wrong", 8, 5) == ("\tSELECT wrong", "\t       ^^^^^")
    assert shown("'日本' wrong", 5, 5) == ("'日本' wrong", "       ^^^^^")  # two columns each
    assert shown("'e\u0301' wrong", 5, 5)[1] == "    ^^^^^"  # a mark over the letter takes none


def test_no_control_character_of_a_query_reaches_the_terminal() -> None:
    error = SQLError("there is no table \x1b[31mred\x00", code="x", hint="\x07", span=Span(1, 1, 1)).locate("\x1b[2J")
    assert not {"\x1b", "\x00", "\x07"} & set(str(error))
    assert quoted_line("a\x00b", Span(1, 3, 1)) == ("a\ufffdb", "  ^")


def test_trees_are_written_in_one_place() -> None:
    package = Path(__file__).parents[1] / "dpsql"
    elsewhere = [
        path.name
        for path in package.rglob("*.py")
        if path.name != "as_sql.py"
        and ('.sql(dialect="duckdb"' in (text := path.read_text()) or ".sql(dialect='" in text)
    ]
    assert elsewhere == []


def test_sqlglot_says_nothing_of_our_queries_and_goes_on_to_speak_of_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        as_sql(parse_one("SELECT SOUNDEX(x)"))
        with quiet():
            logging.getLogger("sqlglot").warning("for nobody")
        assert caplog.records == []
        parse_one("SELECT SOUNDEX(x)").sql(dialect="duckdb")
        assert "SOUNDEX" in caplog.text


def test_a_library_user_sees_no_warning_of_sqlglot(tmp_path: Path) -> None:
    script = """
import dpsql, pyarrow as pa
from dpsql.policy.model import Policy
t = pa.table({"u": [1, 2], "s": ["a", "b"]})
p = Policy.from_dict({"budget": {"epsilon": 9, "delta": 0}, "privacy": {"max_rows": 1}, "tables": {"t": {"unit": "u"}}},
                     sources={"t": t})
with dpsql.connect(p, sources={"t": t}, ledger=":memory:") as session:
    for sql in ("SELECT soundex(s), COUNT(*) FROM t GROUP BY 1", "SELECT COUNT(*) FROM t WHERE s -> '$.[' = 1",
                "SELECT COUNT(*) FROM t WHERE parse_url(s) = 'a'", "SELECT compress(s), COUNT(*) FROM t GROUP BY ALL"):
        try:
            session.explain(sql, epsilon=1)
        except dpsql.Error:
            pass
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (found.stdout, found.stderr) == ("", "")


def test_a_notebook_shows_a_refusal_as_text_and_no_traceback() -> None:
    """As IPython does: it asks the exception, and shows the list of lines that it returns."""
    text = "SELECT nothing FROM t"
    error = SQLError("there is no column nothing", code="x", hint="columns here: a", span=Span(1, 8, 7)).locate(text)
    shown = "\n".join(error._render_traceback_())
    assert shown == str(error) and "Traceback" not in shown and "^^^^^^^" in shown
    error.add_note("of a batch")
    assert error._render_traceback_()[1:] == ["of a batch"]
