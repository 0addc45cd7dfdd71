"""One ledger file is one account: renaming, copying, editing and second policies never refresh it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.accounting import fingerprint
from dpsql.cli.main import cli
from dpsql.core.errors import BudgetError, LedgerError

POLICY = """
[budget]
epsilon = 1
delta = 1e-6
ledger = "one.sqlite"
[privacy]
limits_share = 0
max_rows = 3
[tables.people]
source = "people.parquet"
unit = "id"
[tables.people.columns]
v = { min = 0, max = 100 }
"""
COUNT = "SELECT COUNT(*) FROM people"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": list(range(100)), "v": list(range(100))}), tmp_path / "people.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    with dpsql.connect(tmp_path / "policy.toml") as session:
        session.query(COUNT, epsilon="0.9")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def left(policy: Path) -> float:
    with dpsql.connect(policy) as session:
        return float(session.budget.remaining.epsilon)


def edited(folder: Path, *changes: tuple[str, str], name: str = "policy.toml") -> Path:
    text = POLICY
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    "change",
    [
        ("max = 100", "max = 50"),
        ("max_rows = 3", "max_rows = 9"),
        ("[privacy]", "[budget.analysts]\nann = 0.5\n[privacy]"),
        ("delta = 1e-6", "delta = 1e-6\nquery_epsilon = 0.1"),
    ],
)
def test_an_edit_that_is_not_of_the_account_keeps_the_spend(folder: Path, change: tuple[str, str]) -> None:
    assert left(edited(folder, change)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("change", "says", "way"),
    [
        (("epsilon = 1", "epsilon = 5"), "epsilon: 1 -> 5", "--accept-policy-change"),
        (("delta = 1e-6", "delta = 1e-5"), "delta: 0.000001 -> 0.00001", "--accept-policy-change"),
        (("delta = 1e-6", 'delta = 1e-6\nrenew = "monthly"'), "renew: never -> monthly", "--accept-policy-change"),
        (("delta = 1e-6", 'delta = 1e-6\naccountant = "zcdp"'), "accountant: basic -> zcdp", "new ledger file"),
        (('unit = "id"', 'unit = "row"'), '"column" -> "row"', "new ledger file"),
        (("max_rows = 3", 'max_rows = 3\nadjacency = "replace_one"'), '-> "replace_one"', "new ledger file"),
    ],
)
@pytest.mark.sample(2)
def test_an_edit_of_the_account_is_refused_with_the_reason_and_the_way(
    folder: Path, change: tuple[str, str], says: str, way: str
) -> None:
    policy = edited(folder, change)
    with pytest.raises(LedgerError) as refused:
        dpsql.connect(policy)
    assert refused.value.code == "policy-changed" and refused.value.exit_code == 5
    assert says in refused.value.message and way in (refused.value.hint or "")
    (folder / "policy.toml").write_text(POLICY)
    assert left(folder / "policy.toml") == pytest.approx(0.1)


def test_a_renamed_table_is_refused_or_the_same_account(folder: Path) -> None:
    policy = edited(folder, ("tables.people", "tables.persons"))
    with pytest.raises(LedgerError):
        dpsql.connect(policy)
    done = run("budget", "--accept-policy-change", "--steward", "--policy", str(policy))
    assert done.exit_code == 5


def test_a_copied_file_under_the_same_account_has_the_same_budget(folder: Path) -> None:
    assert run("check", "--steward", "--policy", str(folder / "policy.toml")).exit_code == 0  # notes the rows
    shutil.copy(folder / "people.parquet", folder / "copy.parquet")
    policy = edited(folder, ("people.parquet", "copy.parquet"))
    with pytest.raises(LedgerError) as refused:
        dpsql.connect(policy)
    assert refused.value.code == "data-changed"  # that it holds the same is the steward's to say
    assert run("refresh", "--steward", "--policy", str(policy)).exit_code == 0
    with dpsql.connect(policy) as session:
        assert float(session.budget.remaining.epsilon) == pytest.approx(0.1)
        assert session.query(COUNT, epsilon="0.9").receipt.reused  # the same contents are the same version
        with pytest.raises(BudgetError):
            session.query("SELECT SUM(v) FROM people", epsilon="0.2")


def test_other_contents_under_the_same_name_are_refused_until_the_steward_accepts(folder: Path) -> None:
    pq.write_table(pa.table({"id": list(range(99)), "v": list(range(99))}), folder / "people.parquet")
    policy = str(folder / "policy.toml")
    refused = run("query", COUNT, "--epsilon", "0.05", "--policy", policy)
    assert refused.exit_code == 5 and "dpsql refresh --steward" in refused.stderr
    assert run("budget", "--accept-data-change", "--policy", policy).exit_code == 2  # not without --steward
    assert run("budget", "--accept-data-change", "--steward", "--policy", policy).exit_code == 0
    done = run("query", COUNT, "--epsilon", "0.05", "--policy", policy)
    assert done.exit_code == 0 and "left ε = 0.05" in done.stderr


def test_two_policies_on_one_ledger_share_its_total(folder: Path) -> None:
    second = edited(folder, ("max = 100", "max = 70"), name="second.toml")
    with dpsql.connect(folder / "policy.toml") as one, dpsql.connect(second) as two:
        two.query(COUNT, epsilon="0.05", fresh=True)
        assert one.budget.remaining.epsilon == two.budget.remaining.epsilon
        with pytest.raises(BudgetError):
            one.query(COUNT, epsilon="0.06", fresh=True)


def test_two_policies_that_disagree_cannot_use_one_ledger(folder: Path) -> None:
    second = edited(folder, ("epsilon = 1", "epsilon = 100"), name="second.toml")
    with pytest.raises(LedgerError):
        dpsql.connect(second)
    assert run("budget", "--accept-policy-change", "--steward", "--policy", str(second)).exit_code == 0
    assert left(second) == pytest.approx(99.1)
    with pytest.raises(LedgerError):  # and now the first policy is the one that isn't on record
        dpsql.connect(folder / "policy.toml")


@pytest.mark.parametrize(
    ("name", "ledger"), [("people", "two.sqlite"), ("persons", "two.sqlite"), ("people", "two.db")]
)
def test_check_warns_of_another_account_of_the_same_data(
    folder: Path, name: str, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table's name, or by the file, whatever the table and the ledger are called."""
    monkeypatch.setattr(fingerprint, "SETTLED_NS", -(10**18))  # files are remembered at once, not after two seconds
    assert "WARNING" not in run("check", "--policy", str(folder / "policy.toml")).stdout
    changes = ("one.sqlite", ledger), ("tables.people", f"tables.{name}")
    second = edited(folder, *changes, name="second.toml")
    with dpsql.connect(second) as session:
        session.query(f"SELECT COUNT(*) FROM {name}", epsilon="0.1")
    for policy, beside in ((folder / "policy.toml", ledger), (second, "one.sqlite")):
        done = run("check", "--policy", str(policy))
        assert done.exit_code == 0 and "WARNING" in done.stdout
        assert beside in done.stdout and "(1 release)" in done.stdout
    assert not [*folder.glob("*-wal"), *folder.glob("*-shm")]  # nothing is left behind that its owner can't write


def test_ledgers_of_other_data_are_not_warned_of(folder: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), folder / "cats.parquet")
    text = POLICY.replace("people", "cats").replace("one.sqlite", "two.sqlite").split("[tables.cats.columns]")[0]
    (folder / "cats.toml").write_text(text)
    with dpsql.connect(folder / "cats.toml") as session:
        session.query("SELECT COUNT(*) FROM cats", epsilon="0.1")
    (folder / "not-ours.sqlite").write_bytes(b"nothing")
    assert "WARNING" not in run("check", "--policy", str(folder / "policy.toml")).stdout


Break = Callable[[Path], object]


@pytest.mark.parametrize(
    "broken",
    [
        lambda ledger: ledger.write_bytes(ledger.read_bytes()[:5000]),
        lambda ledger: ledger.write_bytes(b"\0" * 9000),
        lambda ledger: ledger.write_bytes(b""),
    ],
    ids=["truncated", "zeros", "empty"],
)
@pytest.mark.parametrize(
    "command", [["query", COUNT, "--epsilon", "0.01"], ["explain", COUNT, "--epsilon", "0.01"], ["budget"]]
)
@pytest.mark.sample(3)
def test_a_broken_ledger_answers_nothing_and_exits_with_5(folder: Path, broken: Break, command: list[str]) -> None:
    ledger = folder / "one.sqlite"
    broken(ledger)
    before = ledger.read_bytes()
    done = run(*command, "--policy", str(folder / "policy.toml"))
    assert done.exit_code == 5 and done.stdout == "" and done.stderr.startswith("error: ")
    assert ledger.read_bytes() == before


# ---------------------------------------------------------------- further tables (Theorem EXTEND-1)

VISITS = """
[tables.visits]
source = "visits.parquet"
unit = "id"
"""


def with_visits(folder: Path, *changes: tuple[str, str], unit: str = "id") -> Path:
    pq.write_table(pa.table({"id": [1, 1, 2]}), folder / "visits.parquet")
    policy = edited(folder, *changes)
    policy.write_text(policy.read_text() + VISITS.replace('"id"', f'"{unit}"'))
    return policy


@pytest.mark.parametrize("unit", ["id", "row"])
def test_a_further_table_is_accepted_by_the_steward_and_shares_the_budget(folder: Path, unit: str) -> None:
    policy = with_visits(folder, unit=unit)
    with pytest.raises(LedgerError) as refused:
        dpsql.connect(policy)
    assert "new table visits" in refused.value.message
    assert "--accept-policy-change --steward" in (refused.value.hint or "")
    done = run("budget", "--accept-policy-change", "--steward", "--policy", str(policy))
    assert done.exit_code == 0 and "new table visits" in done.stderr
    with dpsql.connect(policy) as session:
        assert float(session.budget.remaining.epsilon) == pytest.approx(0.1)
        assert session.query(COUNT, epsilon="0.9").receipt.reused
        session.query("SELECT COUNT(*) FROM visits", epsilon="0.1")
        with pytest.raises(BudgetError):
            session.query("SELECT COUNT(*) FROM visits", epsilon="0.1", fresh=True)


@pytest.mark.parametrize(
    "change",
    [
        ('unit = "id"', 'unit = "row"'),
        ("delta = 1e-6", 'delta = 1e-6\naccountant = "zcdp"'),
        ("max_rows = 3", 'max_rows = 3\nadjacency = "replace_one"'),
        ("tables.people", "tables.persons"),
    ],
)
def test_a_further_table_brings_no_other_change_along(folder: Path, change: tuple[str, str]) -> None:
    policy = with_visits(folder, change)
    done = run("budget", "--accept-policy-change", "--steward", "--policy", str(policy))
    assert done.exit_code == 5
    (folder / "policy.toml").write_text(POLICY)
    assert left(folder / "policy.toml") == pytest.approx(0.1)


def test_a_table_that_leaves_is_refused(folder: Path) -> None:
    policy = with_visits(folder)
    assert run("budget", "--accept-policy-change", "--steward", "--policy", str(policy)).exit_code == 0
    policy.write_text(POLICY)
    assert run("budget", "--accept-policy-change", "--steward", "--policy", str(policy)).exit_code == 5
    with pytest.raises(LedgerError):
        dpsql.connect(policy)


def test_a_further_table_under_replace_one_is_refused(folder: Path) -> None:
    first = edited(folder, ("max_rows = 3", 'max_rows = 3\nadjacency = "replace_one"'), ("one.sqlite", "r.sqlite"))
    with dpsql.connect(first) as session:
        session.query(COUNT, epsilon="0.9")
    first.write_text(first.read_text() + VISITS)
    pq.write_table(pa.table({"id": [1, 1, 2]}), folder / "visits.parquet")
    assert run("budget", "--accept-policy-change", "--steward", "--policy", str(first)).exit_code == 5
