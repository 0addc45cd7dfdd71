"""A ledger's copy, and the way back: no spend is forgotten, or it is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from servers import POLICY, make_policy

import dpsql
from dpsql.accounting import backup
from dpsql.cli.main import cli
from dpsql.server.audit import Audit

COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"


def budget(policy: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["budget", "--policy", str(policy), *arguments])


def spent(policy: Path) -> float:
    return float(json.loads(budget(policy, "--json").stdout)["spent"]["epsilon"])


def asked(policy: Path, log: Path, *queries: str) -> None:
    """Ask with a witness, as a server does."""
    audit = Audit(log)
    with dpsql.Engine.open(policy) as engine:
        engine.ledger.watch(audit.witness)
        with engine.session("ann") as session:
            for sql in queries:
                session.query(sql, epsilon=1)
    audit.close()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    found = make_policy(tmp_path)
    found.write_text(POLICY.replace("delta = 1e-6", 'delta = 1e-6\nanchor = "anchor.txt"'))
    return found


def test_an_older_copy_gets_its_spends_back_from_the_log_and_agrees_with_the_anchor(policy: Path) -> None:
    log, copy = policy.with_name("audit.jsonl"), policy.with_name("copy.sqlite")
    asked(policy, log, COUNT)
    assert budget(policy, "--backup", str(copy)).exit_code == 0
    assert copy.stat().st_mode & 0o077 == 0
    with dpsql.connect(policy) as beside:  # without a witness: what it spends is told by the next one who has one
        beside.query("SELECT COUNT(*) AS n FROM visits WHERE minutes > 3", epsilon=1)
    asked(policy, log, "SELECT AVG(minutes) AS m FROM visits")
    assert spent(policy) == 3
    ledger = next(policy.parent.glob("*.ledger.sqlite"))
    shutil.copy(copy, ledger)
    assert "older copy" in budget(policy).stderr  # what the anchor is for
    done = budget(policy, "--restore", str(copy), "--audit", str(log), "--steward")
    assert done.exit_code == 0, done.stderr
    assert spent(policy) == 3 and "got" in done.stderr
    with dpsql.connect(policy) as session:
        assert session.query(COUNT, epsilon=1).cost.epsilon == 0  # stored in the copy
        assert session.query("SELECT AVG(minutes) AS m FROM visits", epsilon=1).cost.epsilon == 1  # its table is lost


def test_a_log_that_lacks_an_event_or_has_another_one_is_refused_and_nothing_is_changed(policy: Path) -> None:
    log, copy = policy.with_name("audit.jsonl"), policy.with_name("copy.sqlite")
    asked(policy, log, COUNT)
    budget(policy, "--backup", str(copy))
    asked(policy, log, "SELECT AVG(minutes) AS m FROM visits", "SELECT SUM(minutes) AS m FROM visits WHERE minutes > 5")
    lines = log.read_text().splitlines(keepends=True)
    cheaper = [line.replace('\\"epsilon\\":\\"1\\"', '\\"epsilon\\":\\"1/2\\"') for line in lines]
    assert cheaper != lines
    for bad in (lines[:-3], lines[:-6] + lines[-5:], cheaper, [*lines[:-1], "{}\n"], []):
        log.write_text("".join(bad))
        refused = budget(policy, "--restore", str(copy), "--audit", str(log), "--steward")
        assert refused.exit_code == 5 and "can't take the ledger's place" in refused.stderr
        assert spent(policy) == 3
    log.write_text("".join(lines))
    assert budget(policy, "--restore", str(copy), "--audit", str(log)).exit_code == 2  # the steward's act
    assert (
        budget(policy, "--restore", str(copy), "--audit", str(log), "--steward").exit_code == 0 and spent(policy) == 3
    )


def test_nobody_opens_a_copy_before_it_has_its_spends_back(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever spent from it then would be answered, and the copy that has the spend be thrown away."""
    log, copy = policy.with_name("audit.jsonl"), policy.with_name("copy.sqlite")
    asked(policy, log, COUNT)
    budget(policy, "--backup", str(copy))
    asked(policy, log, "SELECT AVG(minutes) AS m FROM visits")
    real, seen = vars(backup)["_completed"], list[float]()

    def spied(*arguments: object) -> object:
        seen.append(spent(policy))
        found = real(*arguments)
        seen.append(spent(policy))
        return found

    monkeypatch.setattr(backup, "_completed", spied)
    done = budget(policy, "--restore", str(copy), "--audit", str(log), "--steward")
    assert done.exit_code == 0 and seen == [2, 2] and spent(policy) == 2
    assert not list(policy.parent.glob(".*"))


def test_what_is_spent_while_a_copy_is_completed_is_not_lost(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, copy = policy.with_name("audit.jsonl"), policy.with_name("copy.sqlite")
    asked(policy, log, COUNT)
    budget(policy, "--backup", str(copy))
    real = vars(backup)["_completed"]

    def spending(*arguments: object) -> object:
        found = real(*arguments)
        asked(policy, log, "SELECT AVG(minutes) AS m FROM visits")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(backup, "_completed", spending)
        refused = budget(policy, "--restore", str(copy), "--audit", str(log), "--steward")
    assert refused.exit_code == 5 and "can't take the ledger's place" in refused.stderr and spent(policy) == 2
    assert budget(policy, "--restore", str(copy), "--audit", str(log), "--steward").exit_code == 0
    assert spent(policy) == 2 and not list(policy.parent.glob(".*"))


def test_a_ledger_that_others_make_meanwhile_is_left_there(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the key is in the environment, no file says that there was a ledger. It holds what they spent."""
    log, copy = policy.with_name("audit.jsonl"), policy.with_name("copy.sqlite")
    asked(policy, log, COUNT)
    budget(policy, "--backup", str(copy))
    ledger = next(policy.parent.glob("*.ledger.sqlite"))
    content, real = ledger.read_bytes(), vars(backup)["_aside"]

    def others(path: Path) -> object:
        found = real(path)
        path.write_bytes(b"theirs")
        return found

    monkeypatch.setattr(backup, "_aside", others)
    refused = budget(policy, "--restore", str(copy), "--audit", str(log), "--steward")
    assert refused.exit_code == 5 and ledger.read_bytes() == b"theirs"
    (before,) = policy.parent.glob("*.before-*")
    assert before.read_bytes() == content and before.name in refused.stderr


def test_what_is_paid_is_in_the_log_before_a_row_is_read(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql import run as loop

    log = policy.with_name("audit.jsonl")
    seen: list[str] = []

    def measure(*_: object) -> object:
        seen.append(log.read_text())
        raise RuntimeError

    monkeypatch.setattr(loop, "_measure", measure)
    with pytest.raises(RuntimeError):
        asked(policy, log, COUNT)
    last = json.loads(seen[0].splitlines()[-1])
    assert last["event"] == "ledger" and last["kind"] == "spend" and json.loads(last["body"])["epsilon"] == "1"


def test_a_log_that_cannot_be_written_answers_nothing(policy: Path) -> None:
    log = policy.with_name("audit.jsonl")
    audit = Audit(log)
    with dpsql.Engine.open(policy) as engine:
        engine.ledger.watch(audit.witness)
        audit.close()
        with engine.session("ann") as session, pytest.raises(dpsql.LedgerError) as failed:
            session.query(COUNT, epsilon=1)
    assert failed.value.code == "audit" and spent(policy) == 1
