"""Attacks on versions of the data (Theorem VERSION-1): what a query tells of what was written, and when.

The neighbours here differ in one person who is in the data from the second night on: without him, that night's file
holds what it held before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.core.cost import Cost
from dpsql.policy.model import Policy
from dpsql.refresh import manifest, promises, refresh

COUNT = "SELECT COUNT(*) FROM t"
Ids = list[int]


def _table(ids: Ids) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([i % 9 for i in ids], pa.int64())})


def _parquet(file: Path, ids: Ids) -> None:
    pq.write_table(_table(ids), file)


def _csv(file: Path, ids: Ids) -> None:
    file.write_text("id,v\n" + "".join(f"{i},{i % 9}\n" for i in ids))


def _duckdb(file: Path, ids: Ids) -> None:
    with duckdb.connect(str(file)) as db:
        db.execute(f"CREATE OR REPLACE TABLE t AS SELECT unnest({ids}) AS id, 1 AS v")


WRITERS: dict[str, Callable[[Path, Ids], None]] = {"parquet": _parquet, "csv": _csv, "duckdb": _duckdb}


def write(file: Path, ids: Ids) -> None:
    """Write the file, at a time of its own."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    WRITERS[file.suffix[1:]](file, ids)
    os.utime(file, ns=(before + 10**9, max(before + 10**9, file.stat().st_mtime_ns)))


def policy(file: Path, on_change: str, **more: Any) -> Policy:
    columns = {"id": {"type": "INTEGER"}, "v": {"type": "INTEGER"}} if file.suffix == ".csv" else {}
    table = {"source": file.name, "unit": "id", "columns": columns, **more}
    if file.suffix == ".duckdb":
        table["table"] = "main.t"
    whole = {"budget": {"epsilon": 5}, "privacy": {"max_rows": 1}, "data": {"on_change": on_change}}
    return Policy.from_dict({**whole, "tables": {"t": table}}, folder=file.parent)


def seen(loaded: Policy, sql: str = COUNT) -> tuple[object, ...]:
    """All that an analyst sees of one query but its noise."""
    try:
        with dpsql.connect(loaded, ledger=loaded.folder / "l.sqlite") as session:
            answer = session.query(sql, epsilon=1)
            left = session.budget.remaining
        return answer.columns, len(answer.rows), answer.cost, answer.receipt.reused, left
    except dpsql.Error as error:
        return type(error), str(error)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("on_change", ["refuse", "accept"])
def test_no_query_tells_whether_a_file_was_written_anew_with_the_same_rows(
    tmp_path: Path, kind: str, on_change: str
) -> None:
    transcripts = []
    for name, tonight in (("with", [1, 2, 3, 77]), ("without", [1, 2, 3])):
        (tmp_path / name).mkdir()
        file = tmp_path / name / f"t.{kind}"
        write(file, [1, 2, 3])
        loaded = policy(file, on_change)
        transcript = [seen(loaded), seen(loaded)]
        write(file, tonight)
        transcripts.append([*transcript, seen(loaded), seen(loaded), seen(loaded, COUNT + " WHERE v = 1")])
    assert transcripts[0] == transcripts[1]
    first, again, after, *_ = transcripts[0]
    assert (first[3], again[3]) == (False, True)
    assert after[3] is False if on_change == "accept" else after[0] is dpsql.LedgerError


Night = Callable[[Path, int, Ids], dict[str, Any]]  # write one night's rows; what is passed as `sources` then


def _glob_night(folder: Path, night: int, ids: Ids) -> dict[str, Any]:
    (folder / "t").mkdir(exist_ok=True)
    write(folder / "t" / f"{night}.parquet", ids)
    return {}


def _partition_night(folder: Path, night: int, ids: Ids) -> dict[str, Any]:
    (folder / "t" / f"night={night}").mkdir(parents=True, exist_ok=True)
    write(folder / "t" / f"night={night}" / "part.parquet", ids)
    return {}


def _object_night(folder: Path, night: int, ids: Ids) -> dict[str, Any]:
    return {"t": _table(ids)}


@pytest.mark.parametrize(
    ("night", "table"),
    [
        (_glob_night, {"source": "t/*.parquet"}),
        (_partition_night, {"source": "t/*/*.parquet", "columns": {"night": {"type": "INTEGER"}}}),
        (_object_night, {}),
    ],
)
def test_neighbouring_histories_cost_the_same_each_night_and_are_free_alike(
    tmp_path: Path, night: Night, table: dict[str, Any]
) -> None:
    """Promises are verified by themselves. With one person on some nights, who is on no other."""
    histories: dict[str, list[Ids]] = {
        "without": [[1], [2], [2], []],
        "with": [[1], [2, 77], [2], [77]],
    }
    transcripts = []
    for name, nights in histories.items():
        folder = tmp_path / name
        folder.mkdir()
        whole = {"t": {"unit": "id", "rows_per_unit": 5, "max_rows": 5, **table}}
        made = {"budget": {"epsilon": 9}, "data": {"on_change": "accept"}, "tables": whole}
        loaded = Policy.from_dict(made, folder=folder)
        transcript = []
        for number, ids in enumerate(nights):
            given = night(folder, number % 3, ids)
            with dpsql.connect(loaded, sources=given, ledger=folder / "l.sqlite") as session:
                for _ in range(2):
                    answer = session.query(COUNT, epsilon=1)
                    told = (session.query("DESCRIBE t").rows, session.budget.remaining, session.unverified)
                    transcript.append((answer.cost, answer.receipt.reused, *told))
        transcripts.append(transcript)
    assert transcripts[0] == transcripts[1]
    assert [reused for _, reused, *_ in transcripts[0]] == [False, True] * 4


def test_each_version_is_paid_from_the_one_account(tmp_path: Path) -> None:
    """Equal rows or not: five nights of ε = 1 are all that ε = 5 allows, over all versions (Theorem VERSION-1)."""
    file = tmp_path / "t.parquet"
    loaded = policy(file, "accept")
    for night in range(5):
        write(file, [1, 2, 3])
        assert seen(loaded)[2:4] == (Cost(Fraction(1)), False), night
    write(file, [1, 2, 3])
    assert seen(loaded)[0] is dpsql.BudgetError


# ---------------------------------------------------------------- swapped between check and query


def promised(file: Path, on_change: str) -> Policy:
    return policy(file, on_change, rows_per_unit=1)


def weighted(session: dpsql.Session) -> bool:
    return session.explain(COUNT, epsilon=1).steps[0].checked.bounding.weighted


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_a_version_that_is_swapped_in_after_the_check_is_not_read_under_its_promises(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"t.{kind}"
    write(file, [1, 2, 3])
    with dpsql.Engine.open(promised(file, "refuse"), ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
    write(file, [1, 1, 1])
    assert seen(promised(file, "refuse"))[0] is dpsql.LedgerError
    assert seen(promised(file, "accept")) == seen(promised(file, "accept"))
    found = seen(promised(file, "accept"))
    assert found[0] is dpsql.DataError and "a promise of the policy doesn't hold" in str(found[1])


@pytest.mark.parametrize("by", ["steward", "policy"])
@pytest.mark.parametrize("back", [False, True])
def test_what_is_swapped_in_while_promises_are_verified_is_recorded_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: refresh.By, back: bool
) -> None:
    """Good rows are shown to the check, bad ones lie there before and perhaps afterwards; or the other way round."""
    file = tmp_path / "t.parquet"
    write(file, [1, 1, 1])
    verify = promises.verify

    def swapped(*given: Any) -> Any:
        write(file, [1, 2, 3])
        yield from verify(*given)
        if back:
            write(file, [1, 1, 1])

    monkeypatch.setattr(refresh, "verify", swapped)
    with dpsql.Engine.open(promised(file, "accept"), ledger=tmp_path / "l.sqlite") as engine:
        with pytest.raises(dpsql.Error) as refused:
            refresh.refresh(engine, by=by)
        assert refused.value.code in ("data-changed", "source-busy")
        for known in engine.ledger._journal._state.versions["t"]:
            assert not any("rows_per_unit" in promise for promise in engine.ledger.findings("t", known))


def test_a_file_that_is_swapped_while_it_is_compared_is_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steward's word "the same rows" must be about what is accepted."""
    file = tmp_path / "t.parquet"
    write(file, [1, 2, 3])
    with dpsql.Engine.open(promised(file, "refuse"), ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
        before = engine.versions()
        write(file, [1, 2, 3])
        compare = manifest.same_rows

        def swapped(*given: Any) -> bool:
            same = compare(*given)
            write(file, [1, 1, 1])
            return same

        monkeypatch.setattr("dpsql.refresh.refresh.same_rows", swapped)
        with pytest.raises(dpsql.DataError) as refused:
            engine.refresh(steward=True)
        assert refused.value.code == "source-busy"
        monkeypatch.undo()
        report = engine.refresh(steward=True)
        assert report.broken and engine.versions() != before


# ---------------------------------------------------------------- a check that ran by itself


def test_a_check_that_failed_by_itself_says_one_constant_sentence_until_a_steward_has_looked(tmp_path: Path) -> None:
    said = set()
    cases: list[tuple[Ids, dict[str, Any]]] = [
        ([1, 1, 2], {"rows_per_unit": 1}),
        ([1, 1, 1, 1, 1], {"rows_per_unit": 2}),
        ([1, 1, 2], {"key": "id"}),
        ([7, 7], {"key": ["id", "v"], "rows_per_unit": 5}),
    ]
    for number, (ids, promise) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        file = tmp_path / str(number) / "t.parquet"
        write(file, ids)
        loaded = policy(file, "accept", **promise)
        said |= {seen(loaded), seen(loaded), seen(loaded, "SELECT MAX(id) FROM t")}
    assert len(said) == 1
    ((kind, text),) = said
    assert kind is dpsql.DataError and "nothing was charged" in str(text)
    with dpsql.Engine.open(loaded, ledger=file.parent / "l.sqlite") as engine:
        assert engine.ledger.balance.spent.epsilon == 0
        assert engine.refresh(steward=True).broken == ("t: key = id, v: 1 occurring more than once",)
        assert weighted(engine.session())  # the steward knows, and the promise isn't relied on
        assert engine.session().query(COUNT, epsilon=1).cost.epsilon == 1


def test_the_engines_words_in_a_check_that_ran_by_itself_are_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.parquet"
    write(file, [1, 2])

    def fails(*_: Any) -> Any:
        raise dpsql.DataError("the data can't be read: row n77", code="engine")

    monkeypatch.setattr(refresh, "verify", fails)
    kind, text = seen(promised(file, "accept"))
    assert kind is dpsql.DataError and "n77" not in str(text) and "a promise of the policy doesn't hold" in str(text)
