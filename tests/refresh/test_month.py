"""A month of nightly jobs: what was paid, what was answered, what the steward had to do.

Each night a new file comes, and a job counts all of them. Besides, one night the job dies after it has paid, one day it
is run again, one night the new file has a column more, and one day a file is written anew with the rows it had.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import WHOLE

import dpsql
from dpsql import run as loop
from dpsql.policy.model import Policy

CRASH, AGAIN, COLUMN, REWRITTEN = 2, 4, 5, 7  # nights
COUNT = "SELECT COUNT(*) FROM visits"
EXACT = 10**5  # ε of a query whose noise rounds to nothing


class Month:
    """A folder, an account, and a note of all that happened."""

    def __init__(self, folder: Path, on_change: str) -> None:
        self.folder = folder
        table = {
            "source": "visits/*.parquet",
            "unit": "id",
            "rows_per_unit": 1,
            "columns": {"v": {"min": 0, "max": 9, "nullable": False}},
        }
        whole = {"budget": {"epsilon": 10**9}, "data": {"on_change": on_change}, "tables": {"visits": table}}
        self.policy = Policy.from_dict(whole, folder=folder)
        self.answers: list[tuple[int, int, bool]] = []  # night, what was answered, whether it was free
        self.refused: list[tuple[int, str]] = []
        self.steward: list[tuple[int, str]] = []
        (folder / "visits").mkdir()

    def write(self, night: int, *, wide: bool = False, **how: Any) -> None:
        """That night's file: two people."""
        file = self.folder / "visits" / f"{night:02}.parquet"
        before = file.stat().st_mtime_ns if file.exists() else 0
        columns: dict[str, Any] = {"id": [2 * night, 2 * night + 1], "v": [night % 9, 1]}
        pq.write_table(pa.table(columns | ({"w": [0.5, 1.5]} if wide else {})), file, **how)
        os.utime(file, ns=(before + 10**9, max(before + 10**9, file.stat().st_mtime_ns)))

    def job(self, night: int) -> bool:
        """One run of the job, a process of its own; was it answered?"""
        try:
            with dpsql.connect(self.policy, ledger=self.folder / "l.sqlite") as session:
                answer = session.query(COUNT, epsilon=EXACT)
        except dpsql.Error as error:
            self.refused.append((night, error.code))
            return False
        self.answers.append((night, answer.rows[0][0], answer.receipt.reused))
        return True

    def refresh(self, night: int) -> str:
        """What the steward does when a job waits; what came of it."""
        with dpsql.Engine.open(self.policy, ledger=self.folder / "l.sqlite") as engine:
            (change,) = engine.refresh(steward=True).tables
        self.steward.append((night, change.version))
        return change.version

    @property
    def paid(self) -> float:
        with dpsql.Engine.open(self.policy, ledger=self.folder / "l.sqlite") as engine:
            return float(engine.ledger.balance.spent.epsilon / EXACT)


def month(folder: Path, on_change: str, nights: int, monkeypatch: pytest.MonkeyPatch) -> Month:
    """All that happens; where a job is refused for its data, the steward refreshes and it is run again."""
    it = Month(folder, on_change)

    def insist(night: int) -> None:
        if not it.job(night) and it.refused[-1][1] != "schemas":
            it.refresh(night)
            assert it.job(night)

    for night in range(nights):
        it.write(night, wide=night >= COLUMN)
        if night == 0 and on_change == "refuse":
            it.refresh(night)  # as after `dpsql init`
        if night == CRASH:
            if on_change == "refuse":
                it.job(night)
                it.refresh(night)

            def dies(*_: object) -> Any:
                raise KeyboardInterrupt

            monkeypatch.setattr(loop, "_measure", dies)
            with pytest.raises(KeyboardInterrupt):
                it.job(night)
            monkeypatch.undo()
        insist(night)
        if night == AGAIN:
            insist(night)
        if night == COLUMN:
            for earlier in range(night):  # whoever writes the files gives all of them the column
                it.write(earlier, wide=True)
            insist(night)
        if night == REWRITTEN:
            it.write(3, wide=True, compression="zstd")
            insist(night)
    return it


def test_a_month_that_goes_on_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = 30 if os.environ.get(WHOLE) else 12
    it = month(tmp_path, "accept", nights, monkeypatch)
    # Answered: each night, with all that had come by then; the second run of one day is free.
    assert [(night, count) for night, count, _ in it.answers] == sorted(
        [(night, 2 * (night + 1)) for night in range(nights)] + [(n, 2 * (n + 1)) for n in (AGAIN, REWRITTEN)]
    )
    assert [night for night, _, free in it.answers if free] == [AGAIN]
    # Paid: each night; once more for the run that died, and for the file that was written anew, equal rows or not.
    assert it.paid == nights + 2
    # Refused, at no cost: files of two schemas. The steward had nothing to do.
    assert it.refused == [(COLUMN, "schemas")] and it.steward == []


@pytest.mark.long
def test_a_month_in_which_the_steward_looks_at_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = 30 if os.environ.get(WHOLE) else 9  # a night is two jobs here, and a refresh
    it = month(tmp_path, "refuse", nights, monkeypatch)
    assert [(night, count) for night, count, _ in it.answers] == sorted(
        [(night, 2 * (night + 1)) for night in range(nights)] + [(n, 2 * (n + 1)) for n in (AGAIN, REWRITTEN)]
    )
    # The file that was written anew keeps its version by the steward's word, so that its answers stay free.
    assert [night for night, _, free in it.answers if free] == [AGAIN, REWRITTEN]
    assert it.paid == nights + 1
    # One command a night, and one for the file. The policy was checked before the first job.
    assert (COLUMN, "schemas") in it.refused and {code for _, code in it.refused} == {"schemas", "data-changed"}
    assert it.steward == sorted(
        [(0, "unchanged"), *((night, "new") for night in range(1, nights)), (REWRITTEN, "kept")],
        key=lambda act: (act[0], act[1] == "kept"),
    )
