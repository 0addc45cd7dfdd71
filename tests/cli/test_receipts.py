"""Receipts that travel: what files say of themselves, and that nobody can change a file or its receipt unnoticed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import dpsql as package
from dpsql.accounting.signing import Signer

Run = Callable[..., Result]
REGIONS = "SELECT region, COUNT(*) AS n, AVG(income) AS mean FROM people GROUP BY region"
RECEIPT = "answer.csv.receipt.json"


def left(run: Run) -> float:
    return float(json.loads(run("budget", "--json").stdout)["remaining"]["epsilon"])


def schema(path: Path) -> pa.Schema:
    return pq.read_schema(path) if path.suffix == ".parquet" else pa.ipc.open_file(path.read_bytes()).schema


def said(path: Path) -> dict[str, Any]:
    """What a parquet or Arrow file says of itself."""
    found: dict[str, Any] = json.loads(schema(path).metadata[b"dpsql"])
    return found


VISITS = """
[budget]
epsilon = 100
query_epsilon = 1
[tables.visits]
source = "visits.parquet"
unit = "who"
[tables.visits.columns]
x = { min = 0, max = 100 }
"""


def test_a_receipt_says_what_was_charged_also_where_counts_of_units_chose_the_limits(tmp_path: Path) -> None:
    """Numbers that are shown once more, or computed from stored ones, rest on these counts as well."""
    rows = {"who": [i % 50 for i in range(500)], "x": [float(i % 100) for i in range(500)]}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    (tmp_path / "policy.toml").write_text(VISITS)
    both = "SELECT COUNT(*) AS n, SUM(x) AS s FROM visits"
    with package.connect(tmp_path / "policy.toml") as session:
        first = session.query(both)
        assert first.cost.epsilon == session.budget.spent.epsilon == 1
        again, mean = session.query(both), session.query("SELECT AVG(x) FROM visits")
        assert again.cost.epsilon == mean.cost.epsilon == 0
        paid = [one["id"] for one in first.about["releases"]]
        assert len(paid) > 1
        for answer in (first, again, mean):
            assert answer.about["cost"]["epsilon"] == "1"
            assert sorted(one["id"] for one in answer.about["releases"]) == sorted(paid)
        assert again.about == first.about
        fresh = session.query(both, fresh=True)
        counts = session.budget.spent.epsilon - 2
        assert counts == 0 and Fraction(fresh.about["cost"]["epsilon"]) > 1  # what chose its limits was paid before


@pytest.fixture
def made(dpsql: Run, folder: Path) -> Path:
    """A folder with answer.csv, its receipt, and the file of keys of a reader."""
    done = dpsql("query", REGIONS, "-o", "answer.csv", "--receipt")
    assert done.exit_code == 0, done.output
    (folder / "keys").write_text(dpsql("key").stdout)
    return folder


# ---------------------------------------------------------------- what files say of themselves


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_with_a_schema_always_says_what_it_cost_and_how_it_was_made(
    dpsql: Run, folder: Path, ending: str
) -> None:
    dpsql("query", REGIONS, "--epsilon", "0.5", "-o", f"a.{ending}")
    found = said(folder / f"a.{ending}")
    (entry,) = json.loads(dpsql("budget", "--history", "--json").stdout)["history"]
    assert found["sql"] == REGIONS and found["receipt"] == entry["id"]
    assert found["cost"] == {"epsilon": "1/2", "delta": "0", "rho": None}
    assert [one["id"] for one in found["releases"]] == [entry["id"]] and found["releases"][0]["time"] == entry["time"]
    assert found["mechanisms"] == ["laplace"]
    assert found["policy"] == f"sha256:{sha256((folder / 'policy.toml').read_bytes()).hexdigest()}"
    assert found["versions"]["dpsql"] == package.__version__ and "duckdb" in found["versions"]


def test_files_say_nothing_that_is_not_public_or_released(dpsql: Run, folder: Path) -> None:
    """The whole list: whatever is added to it has to be thought about. No count, no duration, no second time."""
    dpsql("query", REGIONS, "-o", "a.parquet", "--intervals")
    found = said(folder / "a.parquet")
    assert set(found) == {
        "dpsql", "receipt", "sql", "cost", "releases", "mechanisms", "policy", "versions", "intervals"
    }  # fmt: skip
    assert set(found["releases"][0]) == {"id", "time", "epsilon", "delta", "rho"}
    assert set(found["intervals"]) == {"confidence", "columns"} and set(found["versions"]) == {"dpsql", "duckdb"}


def test_the_only_time_in_a_receipt_is_that_of_the_reservation(made: Path, dpsql: Run) -> None:
    (entry,) = json.loads(dpsql("budget", "--history", "--json").stdout)["history"]
    statement = json.loads((made / RECEIPT).read_text())["statement"]
    texts = json.dumps(statement).replace(entry["time"], "")
    assert "202" not in texts.replace(statement["policy"], "").replace(statement["file"]["sha256"], "").replace(
        statement["receipt"], ""
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_intervals_are_low_and_high_columns_behind_their_own(dpsql: Run, folder: Path, ending: str) -> None:
    dpsql("query", REGIONS, "--intervals", "-o", f"a.{ending}")
    expected = ["region", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    bars = json.loads(dpsql("query", REGIONS, "--format", "json").stdout)["intervals"]
    if ending == "csv":
        header, *lines = (folder / "a.csv").read_text().splitlines()
        assert header.split(",") == expected
        assert [[float(x) for x in line.split(",")[2:4]] for line in lines] == bars["n"]
        return
    table = pq.read_table(folder / "a.parquet") if ending == "parquet" else None
    table = table or pa.ipc.open_file((folder / "a.arrow").read_bytes()).read_all()
    assert table.column_names == expected
    assert [list(pair) for pair in zip(*table.select(["n_low", "n_high"]).to_pydict().values(), strict=True)] == bars[
        "n"
    ]
    told = said(folder / f"a.{ending}")["intervals"]
    assert told == {"confidence": "0.95", "columns": {"n": ["n_low", "n_high"], "mean": ["mean_low", "mean_high"]}}


def test_a_column_that_is_called_like_an_end_keeps_its_name(dpsql: Run) -> None:
    sql = "SELECT COUNT(*) AS n, 1 AS N_LOW, 2 AS n_low_ FROM people"
    header = dpsql("query", sql, "--intervals", "--format", "csv").stdout.splitlines()[0]
    assert header == "n,n_low__,n_high,N_LOW,n_low_"


def test_without_intervals_files_have_the_columns_that_were_asked_for(dpsql: Run, folder: Path) -> None:
    dpsql("query", REGIONS, "-o", "a.parquet")
    assert schema(folder / "a.parquet").names == ["region", "n", "mean"] and "intervals" not in said(
        folder / "a.parquet"
    )


def test_an_answer_that_is_written_once_more_has_the_same_bytes_and_says_what_was_paid_then(
    dpsql: Run, folder: Path
) -> None:
    dpsql("query", REGIONS, "-o", "first.parquet")
    again = dpsql("query", REGIONS, "-o", "again.parquet")
    id = said(folder / "first.parquet")["receipt"]
    dpsql("budget", "--replay", id[:8], "-o", "replayed.parquet")
    assert "cost nothing" in again.stderr
    first, *others = [(folder / f"{name}.parquet").read_bytes() for name in ("first", "again", "replayed")]
    assert others == [first, first] and said(folder / "first.parquet")["cost"]["epsilon"] == "1"


def test_an_answer_from_several_stored_releases_names_them_all(dpsql: Run, folder: Path) -> None:
    dpsql("query", "SELECT COUNT(*) AS n FROM people", "--epsilon", "2", "-o", "n.parquet")
    dpsql("query", "SELECT SUM(age) AS s FROM people", "--epsilon", "3", "-o", "s.parquet")
    done = dpsql("query", "SELECT COUNT(*) AS n, SUM(age) AS s FROM people", "--epsilon", "0.5", "-o", "both.parquet")
    assert "cost nothing" in done.stderr
    ids = {said(folder / f"{name}.parquet")["receipt"] for name in "ns"}
    both = said(folder / "both.parquet")
    assert {one["id"] for one in both["releases"]} == ids and both["cost"]["epsilon"] == "5"


# ---------------------------------------------------------------- signed


def test_whoever_has_the_public_key_alone_can_verify_a_file(
    made: Path, dpsql: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("reader")
    for name in ("answer.csv", RECEIPT, "keys"):
        (elsewhere / name).write_bytes((made / name).read_bytes())
    monkeypatch.chdir(elsewhere)
    key = (made / "keys").read_text().split()[0]
    for given in (["--key", "keys"], ["--key", key]):
        done = dpsql("verify", "answer.csv", *given)
        assert done.exit_code == 0 and "cost      ε = 1\n" in done.stdout and REGIONS in done.stdout
    assert dpsql("verify", RECEIPT, "--key", key).exit_code == 0
    monkeypatch.setenv("DPSQL_KEYS", "keys")
    stated = json.loads(dpsql("verify", "answer.csv", "--json").stdout)
    assert stated["signer"] == "policy.ledger.sqlite" and stated["file"]["name"] == "answer.csv"
    assert package.verify("answer.csv", key=key).statement["sql"] == REGIONS


def test_a_file_may_be_renamed_with_its_receipt(made: Path, dpsql: Run) -> None:
    (made / "answer.csv").rename(made / "other.csv")
    (made / RECEIPT).rename(made / "other.csv.receipt.json")
    done = dpsql("verify", "other.csv", "--key", "keys")
    assert done.exit_code == 0 and "was called answer.csv" in done.stderr


def edited(made: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((made / RECEIPT).read_text())
    change(document)
    (made / RECEIPT).write_text(json.dumps(document))


def forged(made: Path) -> None:
    """Everything is consistent: another file, its own hash, the right key's name, and a signature of another key."""
    (made / "answer.csv").write_text("region,n,mean\nnorth,1,1\n")
    content = (made / "answer.csv").read_bytes()
    document = json.loads((made / RECEIPT).read_text())
    statement = document["statement"]
    statement["file"] |= {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    theirs = json.loads(Signer(made / "mine").sign(statement))
    document = {"statement": statement, "signature": {**theirs["signature"], "key": document["signature"]["key"]}}
    (made / RECEIPT).write_text(json.dumps(document))


def with_another_key(made: Path) -> None:
    statement = json.loads((made / RECEIPT).read_text())["statement"]
    (made / RECEIPT).write_bytes(Signer(made / "mine").sign(statement))


def of_another_file(made: Path) -> None:
    (made / "answer.csv").write_text("region,n,mean\nnorth,1,1\n")


def one_byte_off(made: Path) -> None:
    content = bytearray((made / "answer.csv").read_bytes())
    content[-2] ^= 1
    (made / "answer.csv").write_bytes(content)


def cut_off(made: Path) -> None:
    (made / "answer.csv").write_bytes((made / "answer.csv").read_bytes()[:-1])


def grown(made: Path) -> None:
    (made / "answer.csv").write_bytes((made / "answer.csv").read_bytes() + b"x\n")


def halved(made: Path) -> None:
    content = (made / RECEIPT).read_bytes()
    (made / RECEIPT).write_bytes(content[: len(content) // 2])


def repeated(made: Path) -> None:
    """The same name twice: readers that take the first and readers that take the last would see two prices."""
    text = (made / RECEIPT).read_text()
    (made / RECEIPT).write_text(text.replace('"sql":', '"sql": "SELECT 1", "sql":', 1))


ATTACKS: list[tuple[str, Callable[[Path], object], str]] = [
    ("a lower price", lambda f: edited(f, lambda d: d["statement"]["cost"].update(epsilon="1/10")), "receipt-forged"),
    ("other SQL", lambda f: edited(f, lambda d: d["statement"].update(sql="SELECT 1")), "receipt-forged"),
    ("another policy", lambda f: edited(f, lambda d: d["statement"].update(policy="sha256:0")), "receipt-forged"),
    ("something added", lambda f: edited(f, lambda d: d["statement"].update(audited=True)), "receipt-forged"),
    ("something left out", lambda f: edited(f, lambda d: d["statement"].pop("versions")), "receipt-forged"),
    ("another hash", lambda f: edited(f, lambda d: d["statement"]["file"].update(sha256="0")), "receipt-forged"),
    ("an unsigned remark", lambda f: edited(f, lambda d: d.update(remark="audited")), "receipt-damaged"),
    ("no signature", lambda f: edited(f, lambda d: d["signature"].update(value="")), "receipt-forged"),
    ("a signature that is none", lambda f: edited(f, lambda d: d["signature"].update(value="!")), "receipt-damaged"),
    ("a number in the signature's place", lambda f: edited(f, lambda d: d.update(signature=1)), "receipt-damaged"),
    ("forged from scratch", forged, "receipt-forged"),
    ("signed with another key", with_another_key, "receipt-key"),
    ("moved to another file", of_another_file, "file-changed"),
    ("one bit of the file", one_byte_off, "file-changed"),
    ("a file that was cut off", cut_off, "file-changed"),
    ("a file that grew", grown, "file-changed"),
    ("a receipt that was cut off", halved, "receipt-damaged"),
    ("an empty receipt", lambda f: (f / RECEIPT).write_text(""), "receipt-damaged"),
    ("a name that stands twice", repeated, "receipt-damaged"),
    ("no receipt", lambda f: (f / RECEIPT).unlink(), "no-receipt"),
    ("no file", lambda f: (f / "answer.csv").unlink(), "no-file"),
]  # fmt: skip


def test_a_changed_file_and_a_forged_receipt_are_found_out(made: Path, dpsql: Run) -> None:
    files = {name: (made / name).read_bytes() for name in ("answer.csv", RECEIPT)}
    for title, attack, code in ATTACKS:
        attack(made)
        with pytest.raises(package.DataError) as caught:
            package.verify(made / "answer.csv", key=made / "keys")
        assert caught.value.code == code, title
        done = dpsql("verify", "answer.csv", "--key", "keys")
        assert done.exit_code == 6 and "cost" not in done.stdout, title
        for name, content in files.items():
            (made / name).write_bytes(content)
    assert dpsql("verify", "answer.csv", "--key", "keys").exit_code == 0


def test_spaces_and_order_are_no_part_of_what_is_signed(made: Path, dpsql: Run) -> None:
    document = json.loads((made / RECEIPT).read_text())
    (made / RECEIPT).write_text(json.dumps(document, sort_keys=True, indent=7))
    assert dpsql("verify", "answer.csv", "--key", "keys").exit_code == 0


def test_a_policy_that_lies_beside_a_file_vouches_for_nothing_until_it_is_named(made: Path, dpsql: Run) -> None:
    done = dpsql("verify", "answer.csv")
    assert done.exit_code == 2 and "--key" in done.stderr
    assert dpsql("verify", "answer.csv", "--policy", "policy.toml").exit_code == 0


def test_the_key_that_a_receipt_names_is_not_believed_for_that(made: Path, dpsql: Run) -> None:
    (made / "keys").write_text(f"{Signer(made / 'other').public} another ledger\n")
    done = dpsql("verify", "answer.csv", "--key", "keys")
    assert done.exit_code == 6 and "a key that you don't name" in done.stderr


# ---------------------------------------------------------------- keys


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_the_signing_key_is_its_owners_alone_and_is_refused_where_others_can_read_it(made: Path, dpsql: Run) -> None:
    file = made / "policy.ledger.sqlite.sign"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    before = left(dpsql)
    done = dpsql("query", "SELECT COUNT(*) FROM people", "-o", "b.csv", "--receipt")
    assert done.exit_code == 5 and "chmod 600" in done.stderr and left(dpsql) == before
    assert not (made / "b.csv").exists() and not (made / "b.csv.receipt.json").exists()


def test_no_secret_is_printed_or_written_into_a_receipt(made: Path, dpsql: Run) -> None:
    secret = (made / "policy.ledger.sqlite.sign").read_text().strip()
    shown = dpsql("key").output + (made / RECEIPT).read_text()
    assert secret not in shown and bytes.fromhex(secret) not in shown.encode()


def test_after_a_new_key_old_receipts_verify_with_the_old_one_and_new_ones_with_the_new(made: Path, dpsql: Run) -> None:
    assert dpsql("key", "--rotate").exit_code == 2
    old = (made / "keys").read_text().split()[0]
    listed = dpsql("key", "--rotate", "--steward").stdout.splitlines()
    new = listed[0].split()[0]
    assert new != old and listed[1].startswith(f"# {old} replaced ")
    dpsql("query", REGIONS, "-o", "b.csv", "--receipt")
    assert [dpsql("verify", "answer.csv", "--key", key).exit_code for key in (old, new)] == [0, 6]
    assert [dpsql("verify", "b.csv", "--key", key).exit_code for key in (old, new)] == [6, 0]
    (made / "both").write_text(f"{old} as it was\n{new} as it is\n")
    assert "signed by as it was" in dpsql("verify", "answer.csv", "--key", "both").stdout
    id = json.loads(dpsql("verify", "answer.csv", "--key", old, "--json").stdout)["receipt"]
    dpsql("budget", "--replay", id, "-o", "answer.csv", "--receipt")
    assert dpsql("verify", "answer.csv", "--key", new).exit_code == 0


def test_each_ledger_signs_with_a_key_of_its_own(made: Path, dpsql: Run) -> None:
    policy = (made / "policy.toml").read_text()
    (made / "other.toml").write_text(policy.replace("[budget]", '[budget]\nledger = "other.sqlite"'))
    assert dpsql("key", "--policy", "other.toml").stdout.split()[0] != (made / "keys").read_text().split()[0]


def test_the_key_may_come_from_the_environment(dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_SIGNING_KEY", "1f" * 32)
    dpsql("query", REGIONS, "-o", "answer.csv", "--receipt")
    assert not (folder / "policy.ledger.sqlite.sign").exists()
    assert dpsql("verify", "answer.csv", "--key", dpsql("key").stdout.split()[0]).exit_code == 0
    monkeypatch.setenv("DPSQL_SIGNING_KEY", "1f")
    assert dpsql("key").exit_code == 5


@pytest.mark.parametrize("text", ["ed25519:", "ed25519:AAAA", "nowhere", "# nothing"])
def test_what_is_no_key_is_refused(made: Path, dpsql: Run, text: str) -> None:
    (made / "keys").write_text(text)
    for given in (text, "keys"):
        assert dpsql("verify", "answer.csv", "--key", given).exit_code == 6


# ---------------------------------------------------------------- before anything is paid


def test_a_receipt_without_a_file_is_refused_before_anything_is_paid(dpsql: Run) -> None:
    done = dpsql("query", REGIONS, "--receipt")
    assert done.exit_code == 2 and "add -o FILE" in done.stderr and left(dpsql) == 100


def test_a_missing_library_is_told_before_anything_is_paid(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for name in [name for name in sys.modules if name.startswith("cryptography.")]:
        monkeypatch.delitem(sys.modules, name)
    done = dpsql("query", REGIONS, "-o", "answer.csv", "--receipt")
    assert done.exit_code == 2 and "pip install 'dpsql[sign]'" in done.stderr and left(dpsql) == 100
    assert not (folder / "answer.csv").exists()


# ---------------------------------------------------------------- from Python


def test_an_answer_writes_itself_with_a_receipt(folder: Path) -> None:
    with package.connect(folder / "policy.toml") as session:
        answer = session.query(REGIONS, epsilon=1)
        key = session.signer.public
        replayed = session.replay(answer.receipt.id)
    answer.write(folder / "a.parquet", intervals=True, receipt=True)
    assert package.verify(folder / "a.parquet", key=key).statement["receipt"] == answer.receipt.id
    replayed.write(folder / "b.parquet", intervals=True, receipt=True)
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()
    names = ["region", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    assert schema(folder / "a.parquet").names == names == answer.to_arrow(intervals=True).column_names
    assert list(answer.to_pandas(intervals=True).columns) == answer.to_polars(intervals=True).columns == names
    with pytest.raises(ValueError, match="must end in"):
        answer.write(folder / "a.xlsx")
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_a_ledger_in_memory_signs_nothing(folder: Path) -> None:
    with package.connect(folder / "policy.toml", ledger=":memory:") as session:
        answer = session.query(REGIONS, epsilon=1)
    with pytest.raises(package.LedgerError) as caught:
        answer.write(folder / "a.csv", receipt=True)
    assert caught.value.code == "signing-key" and not (folder / "a.csv").exists()


def test_a_batch_has_one_receipt_for_its_file(dpsql: Run, folder: Path) -> None:
    (folder / "q.sql").write_text("SELECT COUNT(*) AS n FROM people; SELECT AVG(age) AS a FROM people")
    dpsql("query", "-f", "q.sql", "--intervals", "-o", "answer.csv", "--receipt")
    key = dpsql("key").stdout.split()[0]
    assert "AVG(age)" in dpsql("verify", "answer.csv", "--key", key).stdout
    assert (folder / "answer.csv").read_text().splitlines()[0] == "n,n_low,n_high"


def test_what_follows_from_the_policy_alone_is_signed_and_cost_nothing(dpsql: Run) -> None:
    assert dpsql("query", "DESCRIBE people", "-o", "answer.csv", "--receipt").exit_code == 0
    done = dpsql("verify", "answer.csv", "--policy", "policy.toml")
    assert done.exit_code == 0 and "cost      nothing" in done.stdout
