"""dpsql budget: a bank statement."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result

from dpsql.accounting import filters
from dpsql.accounting.filters import Zcdp
from dpsql.cli.budget import json_text
from dpsql.core.cost import Cost

Run = Callable[..., Result]
COUNT = "SELECT COUNT(*) FROM people"


@pytest.fixture
def shared(folder: Path) -> None:
    """A policy with δ and quotas."""
    policy = folder / "policy.toml"
    text = policy.read_text().replace("delta = 0", "delta = 1e-6")
    policy.write_text(text.replace("[tables.people]", "[budget.analysts]\nada = 10\nbob = 5\n[tables.people]", 1))


def statement(run: Run, *flags: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("budget", "--json", *flags).stdout)
    return found


@pytest.mark.usefixtures("shared")
def test_a_statement_says_who_spent_on_what(dpsql: Run) -> None:
    dpsql("query", COUNT, "--epsilon", "2", "--analyst", "ada", "--mechanism", "laplace")
    dpsql("query", COUNT, "--epsilon", "1", "--analyst", "ada", "--fresh", "--mechanism", "laplace")
    dpsql("query", "SELECT SUM(age) FROM people", "--epsilon", "4", "--mechanism", "laplace")
    found = statement(dpsql)
    assert found["spent"] == {"epsilon": 7.0, "delta": 0.0, "rho": None}
    by_name = {line["analyst"]: (line["spent"]["epsilon"], line["quota"]) for line in found["analysts"]}  # type: ignore[attr-defined]
    assert by_name == {"ada": (3.0, 10.0), "bob": (0.0, 5.0), None: (4.0, None)}
    queries = [(line["sql"], line["spent"]["epsilon"], line["releases"]) for line in found["queries"]]  # type: ignore[attr-defined]
    assert queries == [("SELECT SUM(age) FROM people", 4.0, 1), (COUNT, 3.0, 2)]
    shown = dpsql("budget").stdout
    for piece in ("by analyst", "ada", "bob", "(no name)", "by query", "SELECT SUM(age) FROM people"):
        assert piece in shown


@pytest.mark.usefixtures("shared")
def test_an_analysts_quota_ends_with_exit_4(dpsql: Run) -> None:
    assert dpsql("query", COUNT, "--epsilon", "5", "--analyst", "bob").exit_code == 0
    refused = dpsql("query", COUNT, "--epsilon", "1", "--analyst", "bob", "--fresh")
    assert refused.exit_code == 4 and "quota of bob" in refused.stderr
    assert dpsql("query", COUNT, "--epsilon", "1", "--analyst", "ada", "--fresh").exit_code == 0


def test_groups_of_units_are_protected_less(dpsql: Run) -> None:
    dpsql("query", COUNT, "--epsilon", "0.5")
    groups = statement(dpsql)["groups"]
    assert [groups[k]["epsilon"] for k in "125"] == [0.5, 1.0, 2.5]  # type: ignore[index]
    assert "5 units together with ε = 2.5" in dpsql("budget").stdout


def test_groups_under_zcdp_cost_the_square_in_rho(dpsql: Run, folder: Path) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("delta = 0", 'delta = 1e-6\naccountant = "zcdp"'))
    dpsql("query", COUNT, "--epsilon", "0.5")
    found = statement(dpsql)
    groups, spent = found["groups"], found["spent"]
    assert spent["epsilon"] == pytest.approx(0.5, rel=1e-6)  # type: ignore[index]
    assert groups["5"]["rho"] == pytest.approx(25 * spent["rho"])  # type: ignore[index]
    assert "ρ" in dpsql("budget").stdout


@pytest.mark.usefixtures("shared")
def test_the_delta_of_a_group_grows_with_e_to_the_epsilon(dpsql: Run) -> None:
    dpsql("query", COUNT, "--epsilon", "0.5", "--mechanism", "gaussian")
    found = statement(dpsql)
    delta = found["spent"]["delta"]  # type: ignore[index]
    assert found["groups"]["2"]["delta"] == pytest.approx(2 * math.exp(0.5) * delta)  # type: ignore[index]


@pytest.mark.usefixtures("shared")
def test_a_missing_package_is_a_clear_line_and_nothing_else(dpsql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dpsql("query", COUNT, "--epsilon", "0.5")
    monkeypatch.setattr(filters, "find_spec", lambda name: None)
    assert "install dpsql[accounting]" in dpsql("budget").stdout
    assert statement(dpsql)["pld"] is None
    assert dpsql("budget").exit_code == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("shared")
@pytest.mark.long
def test_the_pld_figure_is_tighter_than_the_sum_where_it_can_be_computed(dpsql: Run) -> None:
    for i in range(40):
        dpsql("query", f"SELECT COUNT(*) FROM people WHERE age > {i}", "--epsilon", "0.1", "--mechanism", "laplace")
    found, shown = statement(dpsql), dpsql("budget").stdout
    if find_spec("dp_accounting") is None:
        assert found["pld"] is None and "install dpsql[accounting]" in shown
    else:
        assert 1.5 < found["pld"] < 3.5  # type: ignore[operator]  # 4 by the sum; √(2·40·ln 10⁶)·0.1 is about 3.3
        assert "for display" in shown and found["spent"]["epsilon"] == pytest.approx(4)  # type: ignore[index]


def test_nothing_imports_the_package_before_it_is_asked_for(dpsql: Run) -> None:
    import subprocess

    code = "import sys, dpsql.session, dpsql.accounting.account_statement; print('dp_accounting' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_monthly_account_says_its_month(dpsql: Run, folder: Path) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("delta = 0", 'delta = 0\nrenew = "monthly"'))
    dpsql("query", COUNT)
    period = statement(dpsql)["period"]
    assert isinstance(period, str) and len(period) == 7
    assert f"in {period}:" in dpsql("budget").stdout


def test_a_price_of_very_many_queries_is_worked_out_once(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("delta = 0", 'delta = 1e-6\naccountant = "zcdp"'))
    for i in range(4):
        dpsql("query", f"SELECT COUNT(*) FROM people WHERE age > {i} AND region <> '\"\n'", "--epsilon", "0.5")
    asked: list[Cost] = []
    real = Zcdp.shown

    def spied(self: Zcdp, spent: Cost) -> Cost:
        asked.append(spent)
        return real(self, spent)

    monkeypatch.setattr(Zcdp, "shown", spied)
    found = statement(dpsql, "--history")
    queries, history = found["queries"], found["history"]
    assert isinstance(queries, list) and isinstance(history, list) and len(queries) == len(history) == 4
    price = history[0]["cost"]["rho"]
    assert [line["spent"]["rho"] for line in queries] == [entry["cost"]["rho"] for entry in history] == 4 * [price]
    assert sum(1 for cost in asked if float(cost.rho or 0) == price) == 1


def test_a_statement_as_json_is_what_the_encoder_would_write() -> None:
    shown: dict[str, object] = {
        "a": 'x"\né',
        "none": None,
        "empty": [],
        "lines": [{"sql": 'a\n"b"', "n": 1.5}, {"n": None}],
        "d": {"1": {}},
    }
    assert json.loads(json_text(shown)) == shown and json.loads(json_text({})) == {}


def test_price_shows_what_accuracy_costs_and_spends_nothing(dpsql: Run) -> None:
    sql = "SELECT region, COUNT(*) AS n, AVG(income) AS mean, COUNT(*) * 2 AS twice FROM people GROUP BY region"
    done = dpsql("price", sql, "--epsilon", "0.7")
    assert done.exit_code == 0
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["ε", "±", "n", "±", "mean", "±", "twice", "fits"]
    assert [row[0] for row in rows] == ["0.01", "0.03", "0.1", "0.3", "0.7", "1", "3", "10"]
    assert rows[0][-2:] == ["10,000", "times"] and rows[0][3:6] == ["with", "the", "answer"]
    found = json.loads(dpsql("price", sql, "--json").stdout)
    assert found[0]["errors"]["n"] > found[-1]["errors"]["n"] and found[0]["cost"]["epsilon"] == 0.01
    assert json.loads(dpsql("budget", "--json").stdout)["spent"]["epsilon"] == 0


def test_accuracy_on_the_command_line(dpsql: Run) -> None:
    done = dpsql("query", COUNT, "--accuracy", "10", "--confidence", "0.9", "--format", "json")
    told = json.loads(done.stdout)
    assert 0.1 < told["cost"]["epsilon"] < 0.4
    assert dpsql("query", "SELECT AVG(age) FROM people", "--accuracy", "1").exit_code == 3
