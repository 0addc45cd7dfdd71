"""The shell: from a pipe, at a terminal, its commands; nothing is spent that wasn't agreed to."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

import dpsql as package
from dpsql.cli import stop
from dpsql.cli.demo import bars
from dpsql.cli.main import cli
from dpsql.cli.output import Target
from dpsql.cli.shell import terminal
from dpsql.cli.shell.shell import Shell, is_whole, leaves, pieces
from dpsql.core.errors import ExtraError

Run = Callable[..., Result]
COUNT = "SELECT COUNT(*) AS n FROM people"


def spent(run: Run) -> float:
    found: float = json.loads(run("budget", "--json").stdout)["spent"]["epsilon"]
    return found


# ---------------------------------------------------------------- where statements end


@pytest.mark.parametrize("text", ["SELECT 1;", "SELECT ';' ; ", "\\d", "  \\price SELECT 1", "-- nothing", ""])
def test_a_whole_text_is_known(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", "SELECT 1 /* ; ", "SELECT 1; SELECT 2"])
def test_a_text_that_goes_on_is_known(text: str) -> None:
    assert not is_whole(text)


def test_statements_of_a_pipe_come_with_their_lines() -> None:
    lines = [b"\xef\xbb\xbf\\d\n", b"\n", b"SELECT 1,\n", b" ';'\n", b"; SELECT 2;\n", b"  \\q\n", b"SELECT 3"]
    assert list(pieces(lines)) == [(1, "\\d"), (3, "SELECT 1,\n ';'\n; SELECT 2;"), (6, "\\q"), (7, "SELECT 3")]


@pytest.mark.parametrize("text", ["SELECT 1\n\\q", "SELECT 1,\n  \\QUIT \n", "SELECT (\n\\exit"])
def test_q_on_a_line_of_its_own_ends_a_statement_that_has_no_end(text: str) -> None:
    assert is_whole(text) and leaves(text)


@pytest.mark.parametrize("text", ["SELECT '\n\\q", "SELECT 1 /*\n\\q", "SELECT 1 \\q", "SELECT 1\n\\d", "\\q"])
def test_q_in_a_quote_or_behind_something_does_not(text: str) -> None:
    assert not leaves(text)


# ---------------------------------------------------------------- from a pipe


def test_a_pipe_gets_answers_on_stdout_and_everything_else_on_stderr(dpsql: Run) -> None:
    done = dpsql("shell", stdin=f"\\epsilon 0.5\n{COUNT};\nDESCRIBE regions")
    assert done.exit_code == 0
    first, second = done.stdout.split("\n\n")
    assert first.splitlines()[0] == "n" and second.splitlines()[0] == "column_name,column_type,null,values,ask"
    assert done.stderr == "epsilon is 0.5\ncost ε = 0.5 · left ε = 99.5 of ε = 100\n"


def test_json_from_a_pipe_is_one_line_for_each_answer(dpsql: Run) -> None:
    done = dpsql("shell", "--format", "json", "--epsilon", "1", stdin=f"{COUNT}; SHOW TABLES;")
    assert [json.loads(line)["columns"][0] for line in done.stdout.splitlines()] == ["n", "name"]


@pytest.mark.parametrize(
    "arguments, stdin",
    [
        (["--epsilon", "2"], COUNT),
        ([], f"\\epsilon 2\n{COUNT};"),
        ([], "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2) COUNT(*) FROM people;"),
    ],
)
def test_a_query_from_a_pipe_costs_what_it_names(dpsql: Run, arguments: list[str], stdin: str) -> None:
    assert dpsql("shell", *arguments, stdin=stdin).exit_code == 0
    assert spent(dpsql) == 2


def test_an_accuracy_is_a_name_for_a_price_too(dpsql: Run) -> None:
    assert dpsql("shell", stdin=f"\\accuracy 10\n{COUNT}").exit_code == 0
    assert 0 < spent(dpsql) < 1


def test_from_a_pipe_no_price_is_assumed_not_even_the_policys(dpsql: Run) -> None:
    done = dpsql("shell", stdin=COUNT)
    assert done.exit_code == 3 and done.stdout == ""
    assert "must name what it may cost" in done.stderr and "--epsilon" in done.stderr
    assert spent(dpsql) == 0


def test_a_repeat_from_a_pipe_needs_no_price(dpsql: Run) -> None:
    first = dpsql("shell", "--epsilon", "1", stdin=COUNT)
    again = dpsql("shell", stdin=COUNT)
    assert again.exit_code == 0 and again.stdout == first.stdout and "cost nothing" in again.stderr
    assert dpsql("shell", "--fresh", stdin=COUNT).exit_code == 3 and spent(dpsql) == 1


def test_what_is_free_needs_no_price(dpsql: Run) -> None:
    done = dpsql("shell", stdin=f"\\d\n\\d people\n\\d {COUNT}\n\\explain {COUNT}\n\\price\n\\budget\n\\help\n\\set\n")
    assert done.exit_code == 0, done.stderr
    for words in (
        "people,private,each row",
        "income,DOUBLE",
        "n,BIGINT,noisy",
        "discrete Laplace",
        "100 times",
        "total",
    ):
        assert words in done.stdout
    assert spent(dpsql) == 0


def test_an_error_from_a_pipe_ends_it_before_more_is_paid(dpsql: Run) -> None:
    done = dpsql("shell", "--epsilon", "1", stdin=f"{COUNT};\n\nSELECT\n nothing FROM people;\n{COUNT} WHERE age > 3;")
    assert done.exit_code == 3 and "in the statement of line 3" in done.stderr and "nothing" in done.stderr
    assert done.stdout.count("n\n") == 1 and spent(dpsql) == 1


def test_q_behind_a_statement_without_an_end_leaves_and_asks_nothing(dpsql: Run) -> None:
    done = dpsql("shell", "--epsilon", "1", stdin=f"{COUNT}\n\\q\n{COUNT};")
    assert done.exit_code == 0 and done.stdout == "" and "has no end: it was not asked" in done.stderr
    assert spent(dpsql) == 0


def test_what_follows_q_is_not_asked(dpsql: Run) -> None:
    assert dpsql("shell", "--epsilon", "1", stdin=f"\\q\n{COUNT};").exit_code == 0
    assert spent(dpsql) == 0


def test_a_pipe_that_is_not_text_is_refused(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["shell", "--epsilon", "1"], input=b"SELECT '\xff';")
    assert done.exit_code == 2 and "line 1 is not UTF-8" in done.stderr


def test_a_pipe_needs_no_prompt_toolkit(dpsql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert dpsql("shell", stdin="SHOW TABLES;").exit_code == 0


def test_a_terminal_without_prompt_toolkit_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    with pytest.raises(package.ExtraError) as refused:
        terminal.require()
    assert "pip install 'dpsql[shell]'" in str(refused.value) and refused.value.exit_code == 2


# ---------------------------------------------------------------- asked before it is paid


class Answers:
    """Somebody who presses keys, and remembers what they were asked."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)
        self.asked = 0

    def __call__(self, question: str) -> str:
        self.asked += 1
        return self.keys.pop(0)


@pytest.fixture
def session(folder: Path) -> Iterator[package.Session]:
    with package.connect() as opened:
        yield opened


def at_terminal(session: package.Session, keys: str, **settings: Any) -> tuple[Shell, Answers]:
    somebody = Answers(keys)
    return Shell(session, Target("csv"), settings, somebody), somebody


def test_price_and_expected_error_come_before_the_question(
    session: package.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, somebody = at_terminal(session, "n")
    shell.do("SELECT region, COUNT(*) AS n, AVG(age) AS age, SUM(age) / COUNT(*) AS r FROM people GROUP BY region;")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "it costs ε = 1 of the ε = 100 that is left (fits 100 times)"
    assert shown[1].startswith("expected (95%, where a group has 1,000 rows): n ± ") and ", age ± " in shown[1]
    assert shown[2:] == ["the error of r comes with the answer", "nothing was spent"]
    assert somebody.asked == 1 and session.budget.spent.epsilon == 0


@pytest.mark.parametrize("key", ["n", "", "\r", "\x1b", "q", " "])
def test_every_key_but_y_spends_nothing(session: package.Session, key: str) -> None:
    somebody = Answers("")
    somebody.keys = [key]
    Shell(session, Target("csv"), {}, somebody).do(f"{COUNT};")
    assert somebody.asked == 1 and session.budget.spent.epsilon == 0


def test_y_spends_what_was_shown(session: package.Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = at_terminal(session, "y", epsilon="0.25")
    shell.do(f"{COUNT};")
    assert "it costs ε = 0.25 of the ε = 100" in capsys.readouterr().out
    assert session.budget.spent.epsilon == Fraction(1, 4)


def test_explanation_and_prices_are_shown_and_then_it_is_asked_again(
    session: package.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, somebody = at_terminal(session, "epn")
    shell.do(f"{COUNT};")
    shown = capsys.readouterr().out
    assert "measured" in shown and "100 times" in shown and somebody.asked == 3
    assert session.budget.spent.epsilon == 0


def test_each_of_several_statements_is_asked_about(session: package.Session) -> None:
    shell, somebody = at_terminal(session, "ny")
    shell.do(f"{COUNT}; {COUNT} WHERE age > 50;")
    assert somebody.asked == 2 and session.budget.spent.epsilon == 1


def test_what_is_stored_or_public_or_described_is_not_asked_about(session: package.Session) -> None:
    shell, somebody = at_terminal(session, "y")
    for text in (f"{COUNT};", f"{COUNT};", "SELECT COUNT(*) FROM regions;", "DESCRIBE people;", "\\d"):
        shell.do(text)
    assert somebody.asked == 1 and session.budget.spent.epsilon == 1


def test_fresh_noise_is_asked_about(session: package.Session) -> None:
    shell, somebody = at_terminal(session, "yy")
    for text in (f"{COUNT};", "\\fresh on", "\\g"):
        shell.do(text)
    assert somebody.asked == 2 and session.budget.spent.epsilon == 2


def test_more_than_is_left_is_told_and_not_asked_about(
    session: package.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, somebody = at_terminal(session, "y", epsilon="60")
    shell.do(f"{COUNT};")
    shell.do(f"{COUNT} WHERE age > 1;")
    assert "it would cost ε = 60, and ε = 40 is left" in capsys.readouterr().out
    assert somebody.asked == 1 and session.budget.spent.epsilon == 60


def test_without_any_epsilon_prices_are_shown_and_nothing_is_spent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("query_epsilon = 1\n", ""))
    with package.connect() as session:
        shell, somebody = at_terminal(session, "y")
        shell.do(f"{COUNT};")
        shown = capsys.readouterr().out
        assert "nobody has named an ε" in shown and "1,000 times" in shown and "\\epsilon 0.1" in shown
        assert somebody.asked == 0
        shell.do("\\epsilon 0.1")
        shell.do("\\g")
        assert session.budget.spent.epsilon == Fraction(1, 10)


# ---------------------------------------------------------------- commands


def test_settings_are_shown_kept_and_taken_back(session: package.Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = at_terminal(session, "")
    for line in (
        "\\epsilon 0.5",
        "\\max_rows 3",
        "\\max_groups auto",
        "\\accuracy 1% of range",
        "\\set",
        "\\set fresh on",
    ):
        shell.do(line)
    assert shell.settings == {"max_rows": 3, "max_groups": "auto", "accuracy": "1% of range", "fresh": True}
    assert "\\max_rows 3" in capsys.readouterr().out
    for line in ("\\fresh off", "\\accuracy off", "\\max_rows off", "\\max_groups off", "\\set"):
        shell.do(line)
    assert shell.settings == {} and "query_epsilon = 1 counts" in capsys.readouterr().out


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "line",
    [
        "\\epsilon much", "\\epsilon -1", "\\delta 2", "\\max_rows 0", "\\max_rows 1.5", "\\mechanism none",
        "\\confidence high", "\\accuracy never", "\\fresh maybe", "\\set colour red", "\\plt", "\\plot", "\\g",
        "\\explain", "\\d nowhere", "\\",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_and_sets_nothing(session: package.Session, line: str) -> None:
    shell, _ = at_terminal(session, "")
    with pytest.raises(package.Error) as refused:
        shell.do(line)
    assert refused.value.hint and shell.settings == {}


def test_a_misspelt_command_is_told_the_nearest(session: package.Session) -> None:
    shell, _ = at_terminal(session, "")
    with pytest.raises(package.SQLError) as refused:
        shell.do("\\explian")
    assert "did you mean \\explain?" in str(refused.value)


def test_help_names_every_command_and_setting(session: package.Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = at_terminal(session, "")
    shell.do("\\help")
    shown = capsys.readouterr().out
    named = ("d", "explain", "price", "g", "plot", "budget", "set", "help", "q", "epsilon", "accuracy", "max_rows")
    for name in named:
        assert f"\n  \\{name} " in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_last_answer_is_drawn_or_said_what_draws_it(
    session: package.Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, _ = at_terminal(session, "y")
    shell.do("SELECT region, COUNT(*) AS n FROM people GROUP BY region;")
    capsys.readouterr()
    shell.do("\\plot")
    drawn = capsys.readouterr().out
    assert all(word in drawn for word in ("east", "north", "south", "NULL", "95%"))
    monkeypatch.setitem(sys.modules, "plotext", None)
    with pytest.raises(ExtraError, match=r"pip install 'dpsql\[plot\]'"):
        shell.do("\\plot")


def test_bars_are_as_long_as_their_values(session: package.Session) -> None:
    answer = session.query("SELECT region, COUNT(*) AS n FROM people GROUP BY region", epsilon=50)
    title, east, north, *_ = bars(answer, 80).splitlines()
    assert title.startswith("n; ") and [line.split()[0] for line in (east, north)] == ["east", "north"]
    assert 1.5 * east.count("█") < north.count("█") and len(north) <= 80


def test_what_has_no_errors_has_no_bars(session: package.Session) -> None:
    with pytest.raises(package.DataError, match="nothing to draw"):
        bars(session.query("SHOW TABLES"))


def test_the_budget_is_the_accounts_statement(session: package.Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell, _ = at_terminal(session, "y")
    shell.do(f"{COUNT};")
    shell.do("\\budget history")
    shown = capsys.readouterr().out
    assert "spent    1" in shown and shown.count(COUNT) == 2


# ---------------------------------------------------------------- at a terminal


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    monkeypatch.setenv("DPSQL_HISTORY", "")
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def typed(session: package.Session, keyboard: PipeInput, text: str) -> Shell:
    """Type a text into the shell, and Ctrl-D behind it."""
    shell = Shell(session, Target("csv"), {})
    keyboard.send_text(text + "\x04")
    terminal.converse(shell)
    return shell


def test_enter_ends_a_statement_with_a_semicolon_or_an_empty_line(
    session: package.Session, keyboard: PipeInput, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(session, keyboard, "SHOW\rTABLES;\rDESCRIBE\rregions\r\r")
    shown = capsys.readouterr().out
    assert "people,private" in shown and "label,VARCHAR" in shown


def test_an_error_and_ctrl_c_leave_the_shell_open(
    session: package.Session, keyboard: PipeInput, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(session, keyboard, "\\nope\rSELECT half\x03DESCRIBE nowhere;\rSHOW TABLES;\r")
    shown = capsys.readouterr()
    assert "no command \\nope" in shown.err and "no table nowhere" in shown.err and "people,private" in shown.out


def test_q_leaves(session: package.Session, keyboard: PipeInput, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, keyboard, "\\q\rSHOW TABLES;\r")
    assert "people,private" not in capsys.readouterr().out


def test_q_on_a_continuation_line_leaves(
    session: package.Session, keyboard: PipeInput, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(session, keyboard, "SHOW\r\\q\rSHOW TABLES;\r")
    shown = capsys.readouterr()
    assert "people,private" not in shown.out and "has no end" in shown.err


def test_one_key_answers_and_those_pressed_before_do_not(
    session: package.Session, keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = iter("ny")
    answer = terminal._key

    def press(question: str) -> str:
        keyboard.send_text(next(keys))
        pressed = answer(question)
        keyboard.send_text("\x04")  # the one behind the text was pressed before the question, too
        return pressed

    monkeypatch.setattr(terminal, "_key", press)
    typed(session, keyboard, f"{COUNT};\ry\r")  # the y is there before the question
    assert session.budget.spent.epsilon == 0
    typed(session, keyboard, f"{COUNT};\r")
    assert session.budget.spent.epsilon == 1


@pytest.mark.parametrize(("keys", "key"), [("y", "y"), ("Y", "y"), ("\r", "\r"), ("\x03", "\x03"), ("é", "é")])
def test_a_key_is_what_was_pressed(keyboard: PipeInput, keys: str, key: str) -> None:
    keyboard.send_text(keys)
    assert terminal._key("? ") == key


def test_a_paste_answers_nothing(keyboard: PipeInput) -> None:
    keyboard.send_text("\x1b[200~y\x1b[201~")
    assert terminal._key("? ") != "y"


def test_ctrl_c_in_a_statement_tells_of_that_statement_alone(
    session: package.Session, keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session.query(COUNT, epsilon=1)  # an earlier spend, which isn't what was stopped

    def interrupted(self: Shell, sql: str) -> None:
        stop.watch(session)
        raise KeyboardInterrupt

    monkeypatch.setattr(Shell, "ask", interrupted)
    typed(session, keyboard, f"{COUNT};\rSHOW TABLES;\r")
    assert capsys.readouterr().err.splitlines() == ["stopped; nothing was charged"] * 2


def test_sigterm_ends_the_shell(session: package.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop._State, "received", signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        stop.go_on(session)


def test_statements_are_remembered_in_a_file_for_oneself_alone(
    session: package.Session, keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DPSQL_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    typed(session, keyboard, "SHOW TABLES;\r")
    file = tmp_path / "state" / "dpsql" / "history"
    assert "+SHOW TABLES;" in file.read_text() and file.stat().st_mode & 0o777 == 0o600


def test_a_history_that_cannot_be_written_is_done_without(
    session: package.Session, keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPSQL_HISTORY", str(tmp_path / "file" / "history"))
    typed(session, keyboard, "SHOW TABLES;\r")


def test_the_toolbar_says_what_is_left_and_what_a_query_costs(session: package.Session) -> None:
    shell = Shell(session, Target("csv"), {})
    assert "left ε = 100 · ε = 1 a query" in terminal._toolbar(shell)
    shell.settings = {"epsilon": "0.3"}
    assert "ε = 0.3 a query" in terminal._toolbar(shell)
    shell.settings = {"accuracy": "10"}
    assert "accuracy 10" in terminal._toolbar(shell)
