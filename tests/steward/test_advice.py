"""check advises: what a valid policy refuses, wastes or forgets; with rows, what they show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dpsql.cli.main import cli


class Folder:
    """A policy with one table, and checks of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(
        self,
        columns: Mapping[str, object],
        table: str = 'unit = "row"',
        said: str = "",
        budget: str = "",
        privacy: str = "",
    ) -> None:
        for ledger in self.path.glob("policy.ledger*"):
            ledger.unlink()
        pq.write_table(pa.table(columns), self.path / "t.parquet")
        text = f"[budget]\n{budget or 'epsilon = 1'}\n[privacy]\n{privacy}\n"
        text += f'[tables.t]\nsource = "t.parquet"\n{table}\n[tables.t.columns]\n{said}\n'
        (self.path / "policy.toml").write_text(text)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--policy", str(self.path / "policy.toml")])

    def advice(self, *arguments: str) -> list[str]:
        done = self.run("check", *arguments)
        assert done.exit_code == 0, done.output
        return [
            line.split("advice", 1)[1].strip() for line in done.stdout.splitlines() if line.strip().startswith("advice")
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_policy_that_needs_no_advice_gets_none(folder: Folder) -> None:
    folder.write({"x": [1, 2]}, said="x = { min = 0, max = 9, nullable = false }")
    assert folder.advice() == [] and folder.advice("--steward") == []


@pytest.mark.parametrize(("source", "said"), [("t.parquet", False), ("*.parquet", True)])
@pytest.mark.parametrize("on_change", ["refuse", "accept"])
def test_files_that_stop_a_nightly_job_are_told_before_they_come(
    folder: Folder, source: str, said: bool, on_change: str
) -> None:
    folder.write({"x": [1, 2]}, said="x = { min = 0, max = 9, nullable = false }")
    policy = folder.path / "policy.toml"
    policy.write_text(policy.read_text().replace("t.parquet", source) + f'[data]\non_change = "{on_change}"\n')
    advice = folder.advice()
    assert advice == folder.advice("--steward") and bool(advice) == (said and on_change == "refuse")
    if advice:
        assert "refresh --steward" in advice[0] and 'on_change = "accept"' in advice[0] and "*.parquet" in advice[0]


def test_an_epsilon_above_ten_is_said_to_protect_little(folder: Folder) -> None:
    folder.write({"x": [1]}, budget="epsilon = 10")
    assert folder.advice() == []
    folder.write({"x": [1]}, budget="epsilon = 10.5")
    (said,) = folder.advice()
    assert "ε = 10.5" in said and "protects little" in said


@pytest.mark.parametrize("budget", ["epsilon = 1", "epsilon = 1\ndelta = 0"])
def test_a_delta_of_zero_or_none_says_what_it_refuses(folder: Folder, budget: str) -> None:
    folder.write({"ward": ["a"], "kind": ["x"]}, said='kind = { values = ["x"] }', budget=budget)
    (said,) = folder.advice()
    assert "δ = 0 refuses GROUP BY t.ward, whose keys aren't public" in said and "kind" not in said
    refused = folder.run("query", "SELECT ward, COUNT(*) FROM t GROUP BY ward", "--epsilon", "1")
    assert refused.exit_code == 3


def test_a_delta_is_compared_with_the_number_of_units(folder: Folder) -> None:
    columns = {"id": [n // 2 for n in range(4000)]}
    for delta, warned in (("0.00005", False), ("0.00006", True)):
        folder.write(columns, 'unit = "id"', budget=f"epsilon = 1\ndelta = {delta}", privacy="max_rows = 2")
        said = folder.advice("--steward")
        assert any("1 / (10 × 2,000 units)" in one for one in said) is warned, said


def test_row_units_beside_an_id_are_asked_about_by_name_and_by_repetition(folder: Folder) -> None:
    folder.write({"user_id": [1, 1], "x": [1, 2]})
    (said,) = folder.advice()
    assert 'unit = "row" protects one row, and user_id looks like an id' in said
    folder.write({"zper": [n // 3 for n in range(900)], "product_id": [n // 3 for n in range(900)], "n": [1] * 900})
    assert folder.advice() == []
    (said,) = folder.advice("--steward")
    assert "zper repeats like an id" in said


def test_limits_that_queries_choose_for_themselves_are_no_fault_of_a_policy(folder: Folder) -> None:
    folder.write({"id": [1], "ward": ["a"]}, 'unit = "id"', budget="epsilon = 1\ndelta = 1e-6")
    assert folder.advice() == []


def test_columns_that_nobody_can_use_are_said_with_the_reason(folder: Folder) -> None:
    folder.write({"tags": [["a"]], "place": [{"x": 1}], "raw": [b"x"], "n": [1]})
    nested, opaque = folder.advice()
    assert "nobody can use tags (VARCHAR[]), place (STRUCT" in nested and "nested" in nested
    assert "raw (BLOB)" in opaque


def test_columns_of_a_csv_file_that_are_not_listed_are_named_to_the_steward_alone(folder: Folder) -> None:
    folder.write({"x": [1]}, said='a = { type = "INTEGER", nullable = false }')
    policy = folder.path / "policy.toml"
    policy.write_text(policy.read_text().replace("t.parquet", "t.csv"))
    (folder.path / "t.csv").write_text("a,b,c\n1,2,3\n")
    assert folder.advice() == []
    (said,) = folder.advice("--steward")
    assert said == "nobody can use b, c: a column of a CSV file has to be listed, with its type"


def test_null_free_columns_that_are_not_declared_so_are_named(folder: Folder) -> None:
    columns: dict[str, object] = {"a": [1, 2], "b": [1, None], "c": [1, 2]}
    folder.write(columns, said="a = { min = 0 }\nb = { min = 0 }\nc = { min = 0, nullable = false }")
    assert folder.advice() == []
    assert folder.advice("--steward") == ["never NULL, and not declared so (nullable = false): a"]


def test_rows_per_unit_and_limits_that_cut_more_than_a_hundredth_are_said(folder: Folder) -> None:
    columns = {"id": [0] * 200 + list(range(1, 801))}
    folder.write(columns, 'unit = "id"\nmax_rows = 10')
    assert folder.advice() == []
    (said,) = folder.advice("--steward")
    assert said == "max_rows = 10 cuts 19.0% of the rows: 190 of 1,000"
    shown = folder.run("check", "--steward").stdout
    assert "rows     of one unit: 50% have at most 1, 90% 1, 99% 1, all of them 200 (801 in all)" in shown
    folder.write(columns, 'unit = "id"\nmax_rows = 191')
    assert folder.advice("--steward") == []


def test_a_reference_to_a_column_that_is_not_there_is_a_mistake(folder: Folder) -> None:
    folder.write({"k": [1]}, said='k = { references = "n.kez" }')
    pq.write_table(pa.table({"key": [1]}), folder.path / "n.parquet")
    policy = folder.path / "policy.toml"
    policy.write_text(policy.read_text() + '[tables.n]\nsource = "n.parquet"\npublic = true\n')
    done = folder.run("check")
    assert done.exit_code == 5 and "did you mean n.key?" in done.stderr


def test_the_report_is_there_as_json(folder: Folder) -> None:
    folder.write({"id": [1, 1], "ward": ["a", None]}, 'unit = "id"\nrows_per_unit = 1', "ward = { nullable = false }")
    found = json.loads(folder.run("check", "--json").stdout)
    assert set(found) == {"policy", "tables", "advice", "broken"} and found["broken"] == []
    assert {"about": "unit", "text": "id, rows_per_unit = 1 (not verified: dpsql check --steward)"} in (
        found["tables"]["t"]["found"]
    )
    assert [(one["table"], one["about"]) for one in found["advice"]] == [(None, "delta")]
    done = folder.run("check", "--json", "--steward")
    assert done.exit_code == 6 and len(json.loads(done.stdout)["broken"]) == 2


def test_until_something_is_spent_the_stewards_check_lets_the_ledger_follow_the_policy(folder: Folder) -> None:
    folder.write({"id": [1, 2], "x": [1, 2]}, said="x = { min = 0, max = 9 }")
    policy = folder.path / "policy.toml"
    assert folder.run("check", "--steward").exit_code == 0
    policy.write_text(policy.read_text().replace("epsilon = 1", "epsilon = 2").replace('"row"', '"id"\nmax_rows = 2'))
    assert folder.run("check").exit_code == 5
    done = folder.run("check", "--steward")
    assert done.exit_code == 0 and "nothing was spent so far, so the ledger follows the policy" in done.stdout
    assert folder.run("query", "SELECT COUNT(*) FROM t", "--epsilon", "1").exit_code == 0
    policy.write_text(policy.read_text().replace("epsilon = 2", "epsilon = 3"))
    assert folder.run("check", "--steward").exit_code == 5
