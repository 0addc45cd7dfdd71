"""dpsql budget: what the steward does for the ledger's file, its key and its anchor."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
COUNT = "SELECT COUNT(*) FROM people"


def amend(folder: Path, line: str) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace("[budget]\n", f"[budget]\n{line}\n", 1))


def ledger(folder: Path) -> Path:
    return folder / "policy.ledger.sqlite"


@pytest.mark.parametrize("flag", ["--create", "--rotate-key"])
def test_only_the_steward_may(dpsql: Run, folder: Path, flag: str) -> None:
    done = dpsql("budget", flag)
    assert done.exit_code == 2 and "add --steward" in done.stderr and not ledger(folder).exists()


def test_a_ledger_that_must_exist_is_refused_until_it_is_created(dpsql: Run, folder: Path) -> None:
    amend(folder, "must_exist = true")
    for command in (["query", COUNT], ["explain", COUNT], ["budget"]):
        done = dpsql(*command)
        assert done.exit_code == 5 and "dpsql budget --create --steward" in done.stderr
    assert not ledger(folder).exists()
    assert dpsql("budget", "--create", "--steward").exit_code == 0
    assert dpsql("query", COUNT).exit_code == 0
    again = dpsql("budget", "--create", "--steward")
    assert again.exit_code == 5 and "never made anew" in again.stderr
    for file in folder.glob("*.sqlite"):
        file.unlink()
    assert dpsql("query", COUNT).exit_code == 5


def test_an_older_copy_is_refused_by_the_policys_anchor(dpsql: Run, folder: Path) -> None:
    amend(folder, 'anchor = "note"')
    assert dpsql("budget").exit_code == 0 and not (folder / "note").exists()
    dpsql("query", COUNT)
    shutil.copy(ledger(folder), folder / "copy")
    dpsql("query", COUNT, "--fresh")
    assert dpsql("budget").exit_code == 0
    shutil.copy(folder / "copy", ledger(folder))
    for command in (["query", COUNT], ["budget"], ["budget", "--history"], ["budget", "--rotate-key", "--steward"]):
        done = dpsql(*command)
        assert done.exit_code == 5 and "older copy" in done.stderr
    ledger(folder).unlink()
    done = dpsql("budget")
    assert done.exit_code == 5 and "gone" in done.stderr


def test_an_anchor_may_be_a_command(dpsql: Run, folder: Path) -> None:
    (folder / "keep.py").write_text(
        "import sys, pathlib\n"
        "n, what = pathlib.Path('kept'), sys.argv[1]\n"
        "print(n.read_text() if n.exists() else '') if what == 'read' else n.write_text(' '.join(sys.argv[2:4]))"
    )
    amend(folder, f'anchor = {{ command = ["{sys.executable}", "keep.py"] }}')
    assert dpsql("query", COUNT).exit_code == 0
    count, link = (folder / "kept").read_text().split()
    with sqlite3.connect(ledger(folder)) as database:
        assert database.execute("SELECT count, hex(link) FROM head").fetchone() == (int(count), link.upper())
    database.close()


def test_a_key_is_changed_and_everything_stays(dpsql: Run, folder: Path) -> None:
    dpsql("query", COUNT)
    key = Path(f"{ledger(folder)}.key")
    before, shown = key.read_bytes(), dpsql("budget", "--history").stdout
    done = dpsql("budget", "--rotate-key", "--steward", "--history")
    assert done.exit_code == 0 and "a new key" in done.stderr and done.stdout == shown
    assert key.read_bytes() != before
    assert "cost nothing" in dpsql("query", COUNT).stderr


def test_a_key_in_the_environment_is_changed_for_the_one_beside_it(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_LEDGER_KEY", "ab" * 32)
    dpsql("query", COUNT)
    done = dpsql("budget", "--rotate-key", "--steward")
    assert done.exit_code == 5 and "DPSQL_LEDGER_KEY_NEW" in done.stderr
    monkeypatch.setenv("DPSQL_LEDGER_KEY_NEW", "cd" * 32)
    assert dpsql("budget", "--rotate-key", "--steward").exit_code == 0
    assert dpsql("budget").exit_code == 5
    monkeypatch.setenv("DPSQL_LEDGER_KEY", "cd" * 32)
    assert dpsql("budget").exit_code == 0


def test_a_deleted_ledger_is_no_new_account(dpsql: Run, folder: Path) -> None:
    dpsql("query", COUNT)
    ledger(folder).unlink()
    for command in (["query", COUNT], ["explain", COUNT], ["budget"], ["check"], ["budget", "--history"]):
        done = dpsql(*command)
        assert done.exit_code == 5 and "`dpsql budget --create --steward`" in done.stderr, done.stderr
    assert not ledger(folder).exists()
    assert dpsql("budget", "--create", "--steward").exit_code == 0
    assert dpsql("query", COUNT).exit_code == 0


def test_a_unit_that_is_edited_before_anything_was_spent_takes_one_command(dpsql: Run, folder: Path) -> None:
    assert dpsql("check").exit_code == 0
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text().replace('unit = "row"', 'unit = "age"', 1))
    refused = dpsql("query", COUNT)
    assert refused.exit_code == 5
    assert refused.stderr.splitlines()[1:] == [
        "help: let the ledger follow the policy: `dpsql budget --accept-policy-change --steward`"
    ]
    assert "nothing was spent yet" in refused.stderr
    assert dpsql("budget", "--accept-policy-change", "--steward").exit_code == 0
    assert dpsql("query", COUNT, "--max-rows", "1").exit_code == 0
    policy.write_text(policy.read_text().replace('unit = "age"', 'unit = "row"', 1))
    refused = dpsql("query", COUNT)  # now it would need group privacy
    assert refused.exit_code == 5 and "group privacy" in refused.stderr and "--accept" not in refused.stderr
