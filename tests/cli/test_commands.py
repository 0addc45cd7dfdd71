"""Commands, usage, exit codes, error messages; the budget."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import dpsql as package
from dpsql.cli.main import cli

Run = Callable[..., Result]
COUNT = "SELECT COUNT(*) FROM people"
COMMANDS = [name for name, command in cli.commands.items() if not command.hidden]
HEAVY = ("duckdb", "sqlglot", "numpy", "pyarrow", "rich", "pandas", "polars")


def script(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    code = "from dpsql.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, **more)  # type: ignore[call-overload,no-any-return]  # keywords of run()


def spent(run: Run) -> str:
    return run("budget", "--json").stdout.split('"spent"')[1].split("}")[0]


def test_help_lists_every_command(dpsql: Run) -> None:
    shown = dpsql("--help")
    assert shown.exit_code == 0
    for name in ("query", "explain", "check", "budget", "functions"):
        assert name in COMMANDS and f"\n  {name} " in shown.stdout


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])  # which brings its own
def test_every_command_takes_a_policy_and_explains_itself(dpsql: Run, name: str) -> None:
    shown = dpsql(name, "--help")
    assert shown.exit_code == 0 and "--policy PATH" in shown.stdout and "DPSQL_POLICY" in shown.stdout
    assert cli.commands[name].help


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["query", "--help"], ["budget", "--help"]])
def test_help_and_version_load_no_engine(arguments: list[str]) -> None:
    code = f"""
import sys
from dpsql.cli.main import cli
try:
    cli({arguments!r}, prog_name="dpsql")
except SystemExit as stop:
    assert not stop.code
print("LOADED", sorted({{m.split(".")[0] for m in sys.modules}} & set({HEAVY!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_version_is_the_packages(dpsql: Run) -> None:
    assert dpsql("--version").stdout == f"dpsql {package.__version__}\n"


def test_an_answer_exits_with_0_and_goes_to_stdout_alone(dpsql: Run) -> None:
    done = dpsql("query", COUNT)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "count_star()" and len(done.stdout.splitlines()) == 2
    assert done.stderr == "cost ε = 1 · left ε = 99 of ε = 100\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["query"],
        ["query", COUNT, "-f", "q.sql"],
        ["query", "-f", "missing.sql"],
        ["query", COUNT, "--nonsense"],
        ["query", COUNT, "--format", "xml"],
        ["query", COUNT, "--max-rows", "0"],
        ["query", COUNT, "--mechanism", "none"],
        ["explain"],
        ["budget", "--accept-data-change"],
        ["budget", "--accept-policy-change"],
        ["budget", "--steward"],
        ["init", "data.parquet"],
        ["audit", COUNT, "--anything"],
    ],
)
def test_wrong_usage_exits_with_2_and_costs_nothing(dpsql: Run, arguments: list[str]) -> None:
    done = dpsql(*arguments)
    assert done.exit_code == 2 and done.stdout == "" and "Error: " in done.stderr
    assert '"epsilon": 0.0' in spent(dpsql)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC COUNT(*) FROM people", ""),
        ("SELECT COUNT(*) FROM nowhere", "nowhere"),
        ("SELECT SUM(nothing) FROM people", "nothing"),
        ("SELECT name FROM people", "rows of a private table"),
        ("SELECT name, COUNT(*) FROM people GROUP BY name", "not public"),
    ],
)
def test_a_refused_query_exits_with_3_and_costs_nothing(dpsql: Run, sql: str, says: str) -> None:
    done = dpsql("query", sql)
    assert done.exit_code == 3 and done.stdout == ""
    assert done.stderr.startswith("error: ") and says in done.stderr
    assert '"epsilon": 0.0' in spent(dpsql)


def test_an_error_points_at_its_place_in_the_text(dpsql: Run) -> None:
    done = dpsql("query", "SELECT region,\n       SUM(nothing)\nFROM people GROUP BY 1")
    assert "   2 |        SUM(nothing)\n     |            ^^^^^^^\nhelp: " in done.stderr


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e-300", "1e400", "much"])
def test_an_epsilon_that_is_none_is_refused(dpsql: Run, epsilon: str) -> None:
    done = dpsql("query", COUNT, "--epsilon", epsilon)
    assert done.exit_code == 3 and "ε must be a number" in done.stderr


def test_the_budgets_end_exits_with_4(dpsql: Run) -> None:
    done = dpsql("query", COUNT, "--epsilon", "100.01")
    assert done.exit_code == 4 and done.stdout == "" and "100" in done.stderr


def test_ten_times_a_tenth_is_one_on_the_command_line(dpsql: Run, folder: Path) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("epsilon = 100", "epsilon = 1"))
    for _ in range(10):
        assert dpsql("query", COUNT, "--epsilon", "0.1", "--fresh").exit_code == 0
    assert dpsql("query", COUNT, "--epsilon", "0.000001", "--fresh").exit_code == 4
    free = dpsql("query", COUNT, "--epsilon", "0.000001")
    assert free.exit_code == 0 and "cost nothing" in free.stderr


def test_a_missing_policy_exits_with_5(dpsql: Run) -> None:
    done = dpsql("query", COUNT, "--policy", "other.toml")
    assert done.exit_code == 5 and "other.toml" in done.stderr


def test_a_wrong_policy_exits_with_5_and_names_the_key(dpsql: Run, folder: Path) -> None:
    (folder / "policy.toml").write_text("[budget]\nepsilon = 0\ndelta = 0\n")
    done = dpsql("check")
    assert done.exit_code == 5 and "budget.epsilon" in done.stderr


def test_a_file_that_is_no_ledger_exits_with_5(dpsql: Run, folder: Path) -> None:
    (folder / "policy.ledger.sqlite").write_text("not a ledger")
    assert dpsql("query", COUNT).exit_code == 5


def test_missing_data_exits_with_6(dpsql: Run, folder: Path) -> None:
    (folder / "people.parquet").unlink()
    done = dpsql("query", COUNT)
    assert done.exit_code == 6 and "people.parquet" in done.stderr


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_bug_exits_with_1_and_shows_nothing_of_the_exception_but_its_type(
    dpsql: Run, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        secret = f"n{70 + 7}"
        try:
            raise ValueError(secret)
        except ValueError as error:
            raise KeyError(secret) from error

    monkeypatch.setattr("dpsql.session.connect", broken)
    monkeypatch.setenv("DPSQL_DEBUG", debug)
    done = dpsql("query", COUNT)
    assert done.exit_code == 1
    assert "this is a bug in dpsql (KeyError)" in done.stderr and "n77" not in done.output
    assert ("in broken" in done.stderr) == bool(debug)


def test_ctrl_c_exits_with_130(dpsql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsql.session.connect", interrupted)
    done = dpsql("query", COUNT)
    assert done.exit_code == 130 and done.stderr == "stopped; nothing was charged\n" and not done.stdout


def test_sql_comes_from_an_argument_a_file_or_stdin(dpsql: Run, folder: Path) -> None:
    (folder / "q.sql").write_text("-- everybody\nSELECT COUNT(*) AS everybody\nFROM people")
    assert dpsql("query", "-f", "q.sql").stdout.startswith("everybody\n")
    assert dpsql("query", "-f", "-", stdin="SELECT COUNT(*) AS n FROM people").stdout.startswith("n\n")


def test_the_policy_may_come_from_the_environment(dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "policy.toml").rename(folder / "elsewhere.toml")
    assert dpsql("query", COUNT).exit_code == 5
    monkeypatch.setenv("DPSQL_POLICY", "elsewhere.toml")
    assert dpsql("query", COUNT).exit_code == 0


def test_functions_lists_aggregates_and_scalars(dpsql: Run) -> None:
    shown = dpsql("functions").stdout
    for name in (
        "COUNT(*)",
        "SUM(x)",
        "AVG(x)",
        "ABS",
        "CASE",
        "COALESCE",
        "DP_INTERVAL_LOW",
        "RANDOMIZED_RESPONSE(x)",
        "RR_COUNT",
        "RR_FREQUENCY",
        "contribution_bounds_per",
    ):
        assert name in shown


def test_a_reader_that_goes_away_is_no_error_message(folder: Path) -> None:
    code = "import sys; from dpsql.cli.main import main; sys.argv[1:] = ['functions']; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141 and complaint == ""


def test_the_console_script_has_the_exit_code(folder: Path) -> None:
    assert script("query", COUNT, cwd=folder).returncode == 0
    refused = script("query", "SELECT name FROM people", cwd=folder)
    assert refused.returncode == 3 and refused.stdout == "" and "Traceback" not in refused.stderr


def test_budget_shows_total_spent_and_left_exactly(dpsql: Run) -> None:
    dpsql("query", COUNT, "--epsilon", "0.1")
    dpsql("query", COUNT, "--epsilon", "0.2")
    lines = [line.split() for line in dpsql("budget").stdout.splitlines()]
    assert lines[:5] == [["ε"], ["total", "100"], ["spent", "0.3"], ["left", "99.7"], []]


def test_looking_at_the_budget_creates_no_ledger(dpsql: Run, folder: Path) -> None:
    assert dpsql("budget").exit_code == 0
    assert not list(folder.glob("*.sqlite*"))


def test_history_shows_each_release(dpsql: Run) -> None:
    dpsql("query", "SELECT COUNT(*)\n  FROM people", "--epsilon", "0.5")
    shown = dpsql("budget", "--history").stdout
    assert "ε = 0.5  SELECT COUNT(*) FROM people\n" in shown and "no answer" not in shown
    found = json.loads(dpsql("budget", "--history", "--json").stdout)
    assert found["spent"] == {"epsilon": 0.5, "delta": 0.0, "rho": None}
    assert found["history"][0]["sql"] == "SELECT COUNT(*)\n  FROM people"
    assert found["history"][0]["state"] == "released"


def test_changed_data_is_refused_until_the_steward_accepts_it_and_the_budget_stays(dpsql: Run, folder: Path) -> None:
    assert dpsql("query", COUNT).exit_code == 0
    table = pq.read_table(folder / "people.parquet")
    pq.write_table(pa.concat_tables([table, table]), folder / "people.parquet")
    refused = dpsql("query", COUNT)
    assert refused.exit_code == 5 and "dpsql refresh --steward" in refused.stderr
    assert dpsql("check").exit_code == 5
    accepted = dpsql("budget", "--accept-data-change", "--steward")
    assert accepted.exit_code == 0 and "people: new version recorded" in accepted.stderr
    done = dpsql("query", COUNT)
    assert done.exit_code == 0 and "left ε = 98" in done.stderr
    assert "people: unchanged" in dpsql("budget", "--accept-data-change", "--steward").stderr


def test_a_changed_budget_is_refused_until_the_steward_accepts_it(dpsql: Run, folder: Path) -> None:
    assert dpsql("query", COUNT).exit_code == 0
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("epsilon = 100", "epsilon = 200"))
    assert dpsql("query", COUNT).exit_code == 5
    accepted = dpsql("budget", "--accept-policy-change", "--steward")
    assert accepted.exit_code == 0 and "epsilon: 100 -> 200" in accepted.stderr
    assert "left ε = 198 of ε = 200" in dpsql("query", COUNT, "--fresh").stderr


def test_a_repeat_costs_nothing_and_says_so(dpsql: Run) -> None:
    first = dpsql("query", COUNT)
    again = dpsql("query", COUNT)
    assert again.stdout == first.stdout and "cost nothing: the stored release" in again.stderr
    assert "left ε = 99 of ε = 100" in again.stderr
    assert "a stored release answers it" in dpsql("explain", COUNT).stderr
    assert "a stored release" not in dpsql("explain", COUNT, "--fresh").stderr
    told = json.loads(dpsql("query", COUNT, "--format", "json").stdout)
    assert told["receipt"]["reused"] is True and told["cost"]["epsilon"] == 0
    fresh = json.loads(dpsql("query", COUNT, "--format", "json", "--fresh").stdout)
    assert fresh["receipt"]["reused"] is False and fresh["cost"]["epsilon"] == 1


def test_a_lost_reply_is_shown_again_without_looking_at_the_data(dpsql: Run, folder: Path) -> None:
    sql = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
    first = dpsql("query", sql)
    (line,) = dpsql("budget", "--history").stdout.splitlines()[-1:]
    id = line.split()[0]
    (folder / "people.parquet").unlink()
    again = dpsql("budget", "--replay", id)
    assert again.exit_code == 0 and again.stdout == first.stdout and "cost nothing" in again.stderr
    as_json = json.loads(dpsql("budget", "--replay", id, "--format", "json").stdout)
    assert as_json["receipt"]["id"].startswith(id) and as_json["intervals"]["n"]
    assert dpsql("budget", "--replay", id, "-o", "again.csv").exit_code == 0
    assert (folder / "again.csv").read_text() == first.stdout
    assert dpsql("budget", "--replay", "ffffffff").exit_code == 5
    assert dpsql("budget", "--format", "json").exit_code == 2


def test_functions_says_how_long_a_text_can_get() -> None:
    from click.testing import CliRunner

    from dpsql.cli.main import cli
    from dpsql.sql.functions.lengths import LONGEST

    shown = CliRunner().invoke(cli, ["functions"])
    assert f"at most {LONGEST:,} characters" in shown.output
    assert "NFC_NORMALIZE" not in shown.output
