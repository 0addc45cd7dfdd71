"""Attacks 28 to 34, 40 and 41, through whole sessions; tests/accounting has the account's own proofs.

29 (kill -9 at each step) is tests/accounting/test_crash.py, 31, 33 and 34 are in test_attacks.py.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsql
from dpsql.accounting.store import Store
from dpsql.core.errors import BudgetError, LedgerError

TABLE = pa.table({"id": list(range(60)), "name": [f"n{i}" for i in range(60)], "v": [i % 10 for i in range(60)]})
COUNT = "SELECT COUNT(*) FROM t"


def policy(unit: str = "row", adjacency: str = "add_remove", **budget: Any) -> dpsql.Policy:
    return dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1, "delta": 1e-6, **budget},
            "privacy": {"limits_share": 0, "adjacency": adjacency, "max_rows": 1, "max_groups": 1},
            "tables": {"t": {"unit": unit, "columns": {"v": {"min": 0, "max": 10}}}},
        }
    )


def connect(ledger: Path | str, loaded: dpsql.Policy | None = None) -> dpsql.Session:
    return dpsql.connect(loaded or policy(), sources={"t": TABLE}, ledger=ledger)


def test_28_sessions_that_race_for_the_last_epsilon_spend_it_once(tmp_path: Path) -> None:
    sessions = [connect(tmp_path / "l.sqlite") for _ in range(4)]
    start, outcomes = threading.Barrier(8), []

    def ask(session: dpsql.Session, number: int) -> None:
        start.wait()
        try:
            session.query(f"SELECT COUNT(*) FROM t WHERE v > {number}", epsilon=1)
            outcomes.append("paid")
        except BudgetError:
            outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(sessions[i % 4], i)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["paid"] + ["refused"] * 7
    assert sessions[0].budget.spent.epsilon == 1
    for session in sessions:
        session.close()


def test_30_averaging_a_thousand_repeats_gets_one_answer_and_one_charge() -> None:
    with connect(":memory:") as session:
        answers = {tuple(session.query(COUNT, epsilon="0.5").rows) for _ in range(1000)}
        assert len(answers) == 1 and session.budget.spent.epsilon == Fraction(1, 2)


def test_30_other_words_for_the_same_release_are_no_second_draw() -> None:
    with connect(":memory:") as session:
        (n,) = session.query(COUNT, epsilon="0.5").rows[0]
        for sql in ("SELECT COUNT(*) + 0 FROM t", "SELECT c FROM (SELECT COUNT(*) AS c FROM t) ORDER BY c LIMIT 1"):
            assert session.query(sql, epsilon="0.5").rows == [(n,)]
        assert session.budget.spent.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("name", ["t2", "T_copy"])
def test_32_a_renamed_table_has_no_new_budget(tmp_path: Path, name: str) -> None:
    with connect(tmp_path / "l.sqlite") as session:
        session.query(COUNT, epsilon=1)
    renamed = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1, "delta": 1e-6},
            "privacy": {"limits_share": 0, "max_rows": 1, "max_groups": 1},
            "tables": {name: {"unit": "row"}},
        }
    )
    with pytest.raises(LedgerError) as refused:
        dpsql.connect(renamed, sources={name: TABLE}, ledger=tmp_path / "l.sqlite")
    assert refused.value.code == "policy-changed"


def test_32_a_deleted_or_replaced_ledger_is_noticed_while_it_is_in_use(tmp_path: Path) -> None:
    with connect(tmp_path / "l.sqlite") as session:
        session.query(COUNT, epsilon="0.5")
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"l.sqlite{suffix}").unlink(missing_ok=True)
        with pytest.raises(LedgerError) as refused:
            session.query(COUNT, epsilon="0.4", fresh=True)
        assert refused.value.code == "ledger-moved" and not (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize(
    "other",
    [policy("id"), policy(adjacency="replace_one"), policy(accountant="zcdp")],
    ids=["per customer", "replace_one", "zcdp"],
)
def test_40_a_spend_under_one_relation_or_accountant_is_none_under_another(tmp_path: Path, other: dpsql.Policy) -> None:
    with connect(tmp_path / "l.sqlite") as session:
        session.query(COUNT, epsilon="0.1")
    with pytest.raises(LedgerError) as refused:
        connect(tmp_path / "l.sqlite", other)
    assert refused.value.code == "policy-changed" and "new ledger file" in (refused.value.hint or "")


def test_41_what_a_threshold_withheld_cannot_be_had_from_the_store() -> None:
    """Keys that did not pass are not stored: a later query can't show them for free."""
    with connect(":memory:", policy("id", epsilon=100)) as session:
        answer = session.query("SELECT name, COUNT(*) FROM t GROUP BY name", epsilon=5)
        assert answer.rows == []  # each name is one person's
        raw = session._engine.ledger._store._connection.execute("SELECT facts, data FROM stored").fetchall()
        text = b"".join(bytes(data) + facts.encode() for facts, data in raw)
        assert raw and not any(f"n{i}".encode() in text for i in range(10, 60))


# ---------------------------------------------------------------- disks


def test_a_disk_that_fills_up_before_the_answer_is_stored_answers_nothing_and_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpsql.run as pipeline
    from dpsql.release import release

    path = tmp_path / "l.sqlite"
    with connect(path) as session:
        store: Store = session._engine.ledger._store

        def fill_the_disk(*arguments: Any) -> Any:
            (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
            store._connection.execute(f"PRAGMA max_page_count = {pages}")
            return release(*arguments)

        monkeypatch.setattr(pipeline, "release", fill_the_disk)
        with pytest.raises(LedgerError) as refused:
            session.query("SELECT v, v % 7, v % 5, COUNT(*) FROM t GROUP BY CUBE (1, 2, 3)", epsilon="0.5")
        assert refused.value.code == "ledger-disk" and refused.value.exit_code == 5
    monkeypatch.undo()
    with connect(path) as session:
        assert session.budget.spent.epsilon == Fraction(1, 2)
        (entry,) = session._engine.ledger.history()
        assert entry.state == "reserved"
        session.query(COUNT, epsilon="0.5")


def test_a_ledger_without_room_for_a_price_reads_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpsql.backends.duckdb.backend as pipeline

    def never(*_: Any) -> Any:
        raise AssertionError("a row was read")

    path = tmp_path / "l.sqlite"
    with connect(path) as session:
        session.explain(COUNT, epsilon=1)
        connection = session._engine.ledger._store._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        monkeypatch.setattr(pipeline, "execute", never)
        with pytest.raises(LedgerError) as refused:
            session.query(f"{COUNT} -- {'x' * 20_000}", epsilon="0.5")  # the text is noted with the price
        assert refused.value.code == "ledger-disk"
    with connect(path) as session:
        assert session.budget.spent.epsilon == 0


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_ledger_that_cannot_be_written_answers_nothing(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "ledgers"
    folder.mkdir()
    if what == "file":
        connect(folder / "l.sqlite").close()
        (folder / "l.sqlite").chmod(0o400)
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):  # whoever may do everything (root) is stopped by a read-only connection instead
            opened = sqlite3.connect
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    sqlite3, "connect", lambda where, **o: opened(str(where).replace("mode=rw", "mode=ro"), **o)
                )
                with pytest.raises(LedgerError) as refused:
                    _spend(folder / "l.sqlite")
        else:
            with pytest.raises(LedgerError) as refused:
                _spend(folder / "l.sqlite")
        assert refused.value.code in ("ledger-unwritable", "ledger-missing") and refused.value.exit_code == 5
    finally:
        folder.chmod(0o700)


def _spend(ledger: Path) -> None:
    with connect(ledger) as session:
        session.query(COUNT, epsilon="0.5")
