"""A refresh accepts what is there, verifies its promises, and says by names what is other than before."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.cli.main import cli
from dpsql.core.concurrency import ReadWriteLock
from dpsql.policy.model import Policy
from dpsql.refresh import refresh

COUNT = "SELECT COUNT(*) FROM t"
TABLE: dict[str, Any] = {"unit": "id", "rows_per_unit": 1, "columns": {"v": {"min": 0, "max": 9, "nullable": False}}}


def rows(*ids: int, v: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "v": [(i + v) % 9 for i in ids], "s": [f"n{i}" for i in ids]})


def put(path: Path, table: pa.Table, **how: Any) -> None:
    """Write a file at a time that no earlier one of its name had."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, **how)
    os.utime(path, ns=(before + 10**9, max(before + 10**9, path.stat().st_mtime_ns)))


def policy(folder: Path, on_change: str = "refuse", **more: Any) -> Policy:
    table = {**TABLE, "source": "t/*.parquet", **more}
    whole = {"budget": {"epsilon": 1000}, "data": {"on_change": on_change}, "tables": {"t": table}}
    return Policy.from_dict(whole, folder=folder)


Open = Callable[..., dpsql.Engine]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """opened(**policy): an engine over the files in t/, on one account; closed at the end."""
    engines: list[dpsql.Engine] = []

    def make(*given: str, **more: Any) -> dpsql.Engine:
        engines.append(dpsql.Engine.open(policy(tmp_path, *given, **more), ledger=tmp_path / "l.sqlite"))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def told(report: refresh.Refreshed) -> tuple[str, tuple[str, ...]]:
    (change,) = report.tables
    return change.version, change.lines


# ---------------------------------------------------------------- what the steward is told


def test_the_steward_is_told_which_files_and_columns_differ_by_their_names(opened: Open, tmp_path: Path) -> None:
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    engine = opened()
    assert told(engine.refresh(steward=True)) == ("unchanged", ())
    put(tmp_path / "t" / "2.parquet", rows(4, 5))
    assert told(engine.refresh(steward=True)) == ("new", ("file added: 2.parquet",))
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3, v=2))
    assert told(engine.refresh(steward=True)) == ("new", ("1.parquet holds other rows: column v",))
    swapped = pa.table({"id": [2, 1, 3], "v": [2, 3, 4], "s": ["n1", "n2", "n3"]})
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    engine.refresh(steward=True)
    put(tmp_path / "t" / "1.parquet", swapped)
    version, lines = told(engine.refresh(steward=True))
    assert (version, lines) == (
        "new",
        ("1.parquet holds other rows: each column has the values that it had, in other combinations",),
    )
    (tmp_path / "t" / "2.parquet").unlink()
    assert told(engine.refresh(steward=True)) == ("new", ("file removed: 2.parquet",))
    put(tmp_path / "t" / "1.parquet", rows(1, 2).drop_columns(["s"]).append_column("w", pa.array([1.5, 2.5])))
    assert told(engine.refresh(steward=True))[1][:2] == ("column added: w", "column removed: s")
    put(tmp_path / "t" / "1.parquet", rows(1, 2).set_column(1, "v", pa.array([1, 2], pa.int16())))
    assert "column v: BIGINT before, SMALLINT now" in told(engine.refresh(steward=True))[1]


def test_no_row_and_no_number_of_rows_is_in_what_is_told_or_kept(opened: Open, tmp_path: Path) -> None:
    put(tmp_path / "t" / "1.parquet", rows(*range(12345)))
    engine = opened()
    engine.refresh(steward=True)
    kept = engine.ledger.manifest("t", engine.versions()["t"])
    assert kept is not None and "12345" not in kept and "n77" not in kept
    put(tmp_path / "t" / "1.parquet", rows(*range(12346)))
    assert "1234" not in str(engine.refresh(steward=True)).split("  holds")[0]


def test_rows_in_another_order_or_another_compression_are_the_same_rows(opened: Open, tmp_path: Path) -> None:
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    engine = opened()
    engine.refresh(steward=True)
    first = engine.session().query(COUNT, epsilon=1)
    for table, how in (
        (rows(1, 2, 3), {"compression": "zstd"}),
        (rows(3, 1, 2), {}),
        (rows(1, 2, 3), {"row_group_size": 1}),
    ):
        put(tmp_path / "t" / "1.parquet", table, **how)
        with pytest.raises(dpsql.Error):
            engine.session().query(COUNT, epsilon=1)
        assert told(engine.refresh(steward=True)) == ("kept", ("file written anew with the same rows: 1.parquet",))
        again = engine.session().query(COUNT, epsilon=1)
        assert again.receipt.reused and again.rows == first.rows
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3, 3).slice(0, 4))
    assert told(engine.refresh(steward=True))[0] == "new"


def test_a_row_that_is_there_twice_is_another_row(opened: Open, tmp_path: Path) -> None:
    """Sums, and not exclusive or: two equal rows don't cancel."""
    put(tmp_path / "t" / "1.parquet", rows(1, 1, 2))
    engine = opened(rows_per_unit=2)
    engine.refresh(steward=True)
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 2))
    assert told(engine.refresh(steward=True))[0] == "new"


def test_what_was_kept_is_read_and_verified_anew(opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a file's statistics are true is a fact of the file: one that is written anew is read in full once more."""
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    engine = opened()
    engine.refresh(steward=True)
    looked: list[str] = []
    examine = type(engine.backend).examine

    def spied(self: Any, one: Any, *given: Any) -> Any:
        looked.append(one.name)
        return examine(self, one, *given)

    monkeypatch.setattr(type(engine.backend), "examine", spied)
    assert told(engine.refresh(steward=True))[0] == "unchanged" and looked == []
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3), compression="zstd")
    report = engine.refresh(steward=True)
    assert told(report)[0] == "kept" and looked == ["t"]
    assert [finding.holds for finding in report.tables[0].findings] == [True, True]


def test_a_column_that_the_policy_does_not_list_counts_as_a_row_all_the_same(tmp_path: Path) -> None:
    """Else a policy that lists it later would find promises that were verified for other values."""
    file = tmp_path / "t.csv"
    whole = {
        "budget": {"epsilon": 9},
        "tables": {"t": {"unit": "id", "source": "t.csv", "columns": {"id": {"type": "INTEGER"}}}},
    }
    file.write_text("id,w\n1,5\n2,6\n")
    with dpsql.Engine.open(Policy.from_dict(whole, folder=tmp_path), ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
        for text, version in (("id,w\n2,6\n1,5\n", "kept"), ("id,w\n1,5\n2,7\n", "new")):
            file.write_text(text)
            os.utime(file, ns=(1, file.stat().st_mtime_ns + 10**9))
            assert told(engine.refresh(steward=True))[0] == version


def test_a_partition_folder_of_another_name_holds_other_rows(tmp_path: Path) -> None:
    table = {"unit": "id", "source": "*/1.parquet", "columns": {"year": {"type": "INTEGER"}}}
    loaded = Policy.from_dict({"budget": {"epsilon": 9}, "tables": {"t": table}}, folder=tmp_path)
    put(tmp_path / "year=2024" / "1.parquet", rows(1, 2))
    with dpsql.Engine.open(loaded, ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
        (tmp_path / "year=2024").rename(tmp_path / "year=2025")
        version, lines = told(engine.refresh(steward=True))
    assert version == "new"
    assert lines == ("file added: year=2025/1.parquet", "file removed: year=2024/1.parquet")


# ---------------------------------------------------------------- promises


def test_a_refresh_that_is_cut_off_after_the_version_lets_queries_wait_and_goes_on_the_next_time(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    opened().refresh(steward=True)
    put(tmp_path / "t" / "2.parquet", rows(4))

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(refresh, "check_promises", killed)
    with pytest.raises(KeyboardInterrupt):
        opened().refresh(steward=True)
    monkeypatch.undo()
    engine = opened()
    with pytest.raises(dpsql.DataError) as waits:
        engine.session().query(COUNT, epsilon=1)
    assert waits.value.code == "unverified-promise" and engine.ledger.balance.spent.epsilon == 0
    assert "(rows_per_unit, nullable)" in waits.value.message
    assert told(engine.refresh(steward=True))[0] == "unchanged"
    assert engine.session().query(COUNT, epsilon=1).cost.epsilon == 1


def test_the_order_of_query_and_check_does_not_change_what_they_cost(tmp_path: Path) -> None:
    """A promise that is verified changes the plan: what was released before the check answers all the same."""
    put(tmp_path / "t" / "1.parquet", rows(*range(50)))
    for number, order in enumerate(("query refresh query query", "refresh query query query")):
        with dpsql.Engine.open(policy(tmp_path), ledger=tmp_path / f"{number}.sqlite") as engine:
            answers = []
            for command in order.split():
                if command == "refresh":
                    engine.refresh(steward=True)
                else:
                    answers.append(engine.session().query(COUNT, epsilon=1))
            assert len({answer.rows[0] for answer in answers}) == 1
            assert str(engine.ledger.balance.spent.epsilon) == "1"
            better = engine.session().query(COUNT, epsilon=1, fresh=True)
            assert not better.receipt.reused
            assert not engine.session().explain(COUNT, epsilon="0.5", fresh=True).steps[0].checked.bounding.weighted


def test_once_a_steward_checks_no_version_is_asked_about_before_its_check(tmp_path: Path) -> None:
    """The other order, a query in between, waits: whichever comes first, it is one release of one plan."""
    put(tmp_path / "t" / "1.parquet", rows(*range(50)))
    with dpsql.Engine.open(policy(tmp_path), ledger=tmp_path / "l.sqlite") as engine:
        engine.refresh(steward=True)
        put(tmp_path / "t" / "1.parquet", rows(*range(51)))
        engine.ledger.accept(engine.ledger.sights([one.source for one in engine.guarded]))
    with dpsql.Engine.open(policy(tmp_path), ledger=tmp_path / "l.sqlite") as engine:
        with pytest.raises(dpsql.DataError) as waits:
            engine.session().query(COUNT, epsilon=1)
        assert waits.value.code == "unverified-promise" and waits.value.exit_code == 6
        engine.refresh(steward=True)
        assert engine.session().query(COUNT, epsilon=1).cost.epsilon == 1


def test_only_promises_of_the_tables_that_a_query_reads_make_it_wait(tmp_path: Path) -> None:
    tables = {
        "a": {"unit": "id", "key": "id"},
        "b": {"unit": {"through": "a", "on": {"id": "id"}}},
        "c": {"unit": "id", "columns": {"v": {"nullable": False}}},
        "d": {"unit": "id"},
    }
    loaded = Policy.from_dict({"budget": {"epsilon": 99}, "privacy": {"max_rows": 1}, "tables": tables})
    given: dict[str, Any] = {"ledger": tmp_path / "l.sqlite"}
    with dpsql.Engine.open(loaded, sources=dict.fromkeys(tables, rows(1, 2)), **given) as engine:
        engine.refresh(steward=True)
    with dpsql.Engine.open(loaded, sources=dict.fromkeys(tables, rows(1, 2, 3)), **given) as engine:
        engine.ledger.accept(engine.ledger.sights([one.source for one in engine.guarded]))
        engine.begin()
        session = engine.session()
        assert session.query("SELECT COUNT(*) FROM d", epsilon=1).cost.epsilon == 1
        for table in "abc":
            with pytest.raises(dpsql.Error) as waits:
                session.query(f"SELECT COUNT(*) FROM {table}", epsilon=1)
            assert waits.value.code == "unverified-promise"
        engine.refresh(steward=True)
        for table in "abc":
            assert session.query(f"SELECT COUNT(*) FROM {table}", epsilon=1).cost.epsilon == 1


def test_a_promise_that_is_written_into_the_policy_later_waits_too(opened: Open, tmp_path: Path) -> None:
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    opened().refresh(steward=True)
    engine = opened(rows_per_unit=2)
    with pytest.raises(dpsql.DataError) as waits:
        engine.session().query(COUNT, epsilon=1)
    assert waits.value.code == "unverified-promise"


# ---------------------------------------------------------------- objects from Python


def test_an_object_that_changed_has_a_way_that_works(tmp_path: Path) -> None:
    loaded = Policy.from_dict({"budget": {"epsilon": 9}, "tables": {"t": TABLE}})
    given: dict[str, Any] = {"ledger": tmp_path / "l.sqlite"}
    with dpsql.Engine.open(loaded, sources={"t": rows(1, 2)}, **given) as engine:
        engine.refresh(steward=True)
        engine.session().query(COUNT, epsilon=1)
    changed: dict[str, Any] = {"sources": {"t": rows(1, 2, 3)}, **given}
    with pytest.raises(dpsql.LedgerError) as refused:
        dpsql.connect(loaded, **changed)
    assert "dpsql.Engine.open(…, sources=…).refresh(steward=True)" in (refused.value.hint or "")
    with dpsql.Engine.open(loaded, **changed) as engine:
        assert told(engine.refresh(steward=True)) == ("new", ("the object holds other rows: columns id, v, s",))
    with dpsql.connect(loaded, **changed) as session:
        assert session.query(COUNT, epsilon=1).cost.epsilon == 1 and session.budget.spent.epsilon == 2


def test_an_open_engine_takes_other_objects(tmp_path: Path) -> None:
    loaded = Policy.from_dict({"budget": {"epsilon": 1e9}, "tables": {"t": TABLE}})
    with dpsql.Engine.open(loaded, sources={"t": rows(1, 2)}, ledger=":memory:") as engine:
        engine.refresh(steward=True)
        session = engine.session()
        assert session.query(COUNT, epsilon=1e5).rows == [(2,)]
        report = engine.refresh(steward=True, sources={"t": rows(1, 2, 3)})
        assert report.changed and session.query(COUNT, epsilon=1e5).rows == [(3,)]
        with pytest.raises(dpsql.PolicyError):
            engine.refresh(steward=True, sources={"u": rows(1)})
        assert session.query(COUNT, epsilon=1e5).rows == [(3,)]  # nothing was lost


@pytest.mark.parametrize("word", [False, None, 1, "yes"])
def test_a_refresh_needs_the_stewards_word(opened: Open, tmp_path: Path, word: Any) -> None:
    put(tmp_path / "t" / "1.parquet", rows(1))
    with pytest.raises(dpsql.PolicyError) as refused:
        opened().refresh(steward=word)
    assert refused.value.code == "steward" and "steward=True" in (refused.value.hint or "")


# ---------------------------------------------------------------- tables of .duckdb files


def write(file: Path, *statements: str) -> None:
    with duckdb.connect(str(file)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.duckdb"
    write(
        file, "CREATE TABLE t AS SELECT range AS id, range % 9 AS v FROM range(1000)", "CREATE TABLE u AS SELECT 1 AS a"
    )
    return file


def shopping(file: Path, on_change: str = "refuse") -> dpsql.Engine:
    tables = {"t": {"source": file.name, "table": "main.t", "unit": "id"}}
    whole = {"budget": {"epsilon": 99}, "privacy": {"max_rows": 1}, "data": {"on_change": on_change}, "tables": tables}
    return dpsql.Engine.open(Policy.from_dict(whole, folder=file.parent), ledger=file.parent / "l.sqlite")


def asked(file: Path, on_change: str = "refuse") -> str:
    """What becomes of a query: free, paid, or the code of its refusal."""
    with shopping(file, on_change) as engine:
        try:
            return "free" if engine.session().query(COUNT, epsilon=1).receipt.reused else "paid"
        except dpsql.Error as error:
            return error.code


def test_whichever_table_of_a_duckdb_file_was_written_all_are_of_another_version(shop: Path) -> None:
    """The steward's refresh is what keeps the versions of those that have the same rows."""
    with shopping(shop) as engine:
        engine.refresh(steward=True)  # which notes what rows there are
    assert [asked(shop), asked(shop)] == ["paid", "free"]
    write(shop, "CREATE TABLE other AS SELECT range AS i FROM range(5000)")
    assert asked(shop) == "data-changed"
    with shopping(shop) as engine:
        assert told(engine.refresh(steward=True)) == ("kept", ())
    assert asked(shop) == "free"
    write(shop, "DROP TABLE other", "INSERT INTO u VALUES (2)", "CREATE VIEW w AS SELECT * FROM t")
    assert asked(shop, "accept") == "paid"


@pytest.mark.sample(2)
@pytest.mark.parametrize("on_change", ["refuse", "accept"])
@pytest.mark.parametrize(
    ("rows", "job"),
    [
        # An engine drops what changes nothing: with a person 77 this writes t, without one it doesn't.
        ("id <> 77", "UPDATE t SET v = CASE WHEN id = 77 THEN 99 ELSE v END"),
        # A table without rows has no place in the file, nor has one whose columns have one value each.
        ("FALSE", "CREATE OR REPLACE TABLE t AS SELECT * FROM t"),
        ("id = 5", "CREATE OR REPLACE TABLE t AS SELECT * FROM t"),
    ],
)
def test_a_job_that_leaves_a_table_as_it_was_shows_in_no_price(shop: Path, on_change: str, rows: str, job: str) -> None:
    write(shop, f"DELETE FROM t WHERE NOT ({rows})")
    write(shop, "CREATE OR REPLACE TABLE t AS SELECT * FROM t")
    assert asked(shop, on_change) == "paid"
    write(shop, job, "INSERT INTO u VALUES (2)")
    assert asked(shop, on_change) == ("paid" if on_change == "accept" else "data-changed")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TABLE t AS SELECT * FROM t",  # the same rows
        "CREATE OR REPLACE TABLE t AS SELECT * FROM t WHERE id <> 77",
        "DELETE FROM t WHERE id = 77",
        "UPDATE t SET v = 8 WHERE id = 77",
        "INSERT INTO t VALUES (5000, 1)",
        "ALTER TABLE t ADD COLUMN w INTEGER",
    ],
)
def test_a_table_of_a_duckdb_file_that_was_written_is_a_change(shop: Path, statement: str) -> None:
    """Also where others were written with it."""
    assert asked(shop) == "paid"
    write(shop, statement, "INSERT INTO u VALUES (2)")
    assert asked(shop) == "data-changed"


def test_a_duckdb_file_that_is_written_from_scratch_is_a_change_whatever_it_holds(shop: Path) -> None:
    """Its tables lie where they lay, with the same rows: the file is another one by its own random name."""
    assert asked(shop) == "paid"
    shop.unlink()
    write(
        shop, "CREATE TABLE t AS SELECT range AS id, range % 9 AS v FROM range(1000)", "CREATE TABLE u AS SELECT 2 AS a"
    )
    assert asked(shop) == "data-changed"


def test_a_table_that_is_written_twice_and_lies_where_it_lay_is_a_change(shop: Path) -> None:
    again = "CREATE OR REPLACE TABLE t AS SELECT * FROM t"
    assert asked(shop) == "paid"
    write(shop, again)
    write(shop, again)
    assert asked(shop) == "data-changed"


def test_the_steward_says_whether_a_table_that_was_written_anew_is_the_same(shop: Path) -> None:
    with shopping(shop) as engine:
        engine.refresh(steward=True)  # which notes what rows there are
    assert asked(shop) == "paid"
    write(shop, "CREATE OR REPLACE TABLE t AS SELECT * FROM t")
    with shopping(shop) as engine:
        assert told(engine.refresh(steward=True)) == ("kept", ())
    assert asked(shop) == "free"
    write(shop, "UPDATE t SET v = 8 WHERE id = 77")
    with shopping(shop) as engine:
        assert told(engine.refresh(steward=True)) == ("new", ("main.t holds other rows: column v",))
    assert asked(shop) == "paid"


# ---------------------------------------------------------------- the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put(tmp_path / "t" / "1.parquet", rows(1, 2, 3))
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 9\nquery_epsilon = 1\n[tables.t]\nsource = "t/*.parquet"\nunit = "id"\nrows_per_unit = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_the_command_says_what_it_did_and_a_broken_promise_is_an_error(folder: Path) -> None:
    first = run("query", COUNT)
    assert first.exit_code == 0 and "promises of t aren't verified, and not relied on" in first.stderr
    assert run("refresh").exit_code == 2
    done = run("refresh", "--steward")
    assert done.exit_code == 0 and "not private" in done.stderr
    assert done.stdout == "t: unchanged\n  holds    rows_per_unit = 1: the most rows of one id are 1\n"
    put(folder / "t" / "2.parquet", rows(3, 4))
    assert run("query", COUNT).exit_code == 5
    done = run("refresh", "--steward", "--json")
    assert done.exit_code == 6 and "1 promise of the policy is broken" in done.stderr
    found = json.loads(done.stdout)
    assert found["tables"]["t"]["version"] == "new" and found["tables"]["t"]["changed"] == ["file added: 2.parquet"]
    assert len(found["broken"]) == 1
    assert run("query", COUNT).exit_code == 0  # the steward knows: the limit is enforced


def test_each_older_way_is_the_same_act(folder: Path) -> None:
    assert run("check", "--steward").exit_code == 0
    assert run("query", COUNT).exit_code == 0
    put(folder / "t" / "2.parquet", rows(4))
    assert run("check", "--steward").exit_code == 5  # a check looks at the version that is recorded
    done = run("budget", "--accept-data-change", "--steward")
    assert done.exit_code == 0 and "file added: 2.parquet" in done.stderr and "holds" in done.stderr
    assert run("query", COUNT).exit_code == 0  # nothing waits for a second command


def test_a_plain_check_tells_of_new_data_where_queries_accept_them(folder: Path) -> None:
    text = (folder / "policy.toml").read_text()
    (folder / "policy.toml").write_text(text + '[data]\non_change = "accept"\n')
    assert run("query", COUNT).exit_code == 0  # and verifies by itself
    put(folder / "t" / "2.parquet", rows(4))
    done = run("check")
    assert done.exit_code == 0 and "the next query accepts it and verifies its promises" in done.stdout
    assert run("query", COUNT).exit_code == 0


def test_whoever_is_alone_behind_a_gate_waits_for_all_others_and_they_for_him() -> None:
    gate = ReadWriteLock()
    seen: list[str] = []
    with gate.shared(), gate.shared():
        alone = Thread(target=lambda: _alone(gate, seen))
        alone.start()
        alone.join(0.05)
        assert alone.is_alive() and seen == []
    alone.join(5)
    assert seen == ["alone"]
    with gate.shared():
        seen.append("after")
    assert seen == ["alone", "after"]


def _alone(gate: ReadWriteLock, seen: list[str]) -> None:
    with gate.alone():
        seen.append("alone")


def test_what_is_free_after_a_check_is_free_without_an_epsilon_too(tmp_path: Path) -> None:
    """What was released before the first check answers drivers, which name no ε; and says what it is."""
    pq.write_table(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}), tmp_path / "t.parquet")
    table = {"source": str(tmp_path / "t.parquet"), "unit": "id", "rows_per_unit": 1, "max_rows": 2}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 9, "delta": 0}, "tables": {"t": table}})
    sql = "SELECT COUNT(*) AS n FROM t"
    with dpsql.Engine.open(policy, ledger=tmp_path / "l.sqlite") as engine:
        session = engine.session()
        paid = session.query(sql, epsilon=1)
        assert engine.refresh(steward=True)
        found = session.free(sql)
        assert found is not None and found.rows == paid.rows and session.budget.spent.epsilon == 1
        assert found.about["sql"] == sql and found.signer is not None
        named = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) AS n FROM t"
        again = session.free(named)
        assert again is not None and again.rows == paid.rows and session.budget.spent.epsilon == 1
