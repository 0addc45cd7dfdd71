"""Delta and Iceberg tables are lists of files, or they are refused: no deleted row comes back, none is missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import dpsql
from dpsql.backends.duckdb import backend
from dpsql.backends.lakes import resolve
from dpsql.backends.located import list_again, locate

TEN = pa.table({"person": pa.array(range(10), pa.int64()), "k": ["a", "b"] * 5})
MORE = pa.table({"person": pa.array(range(10, 17), pa.int64()), "k": ["a"] * 7})
COUNT = "SELECT COUNT(*) AS n FROM t"


def policy(folder: Path, source: str) -> dpsql.Policy:
    table = {"source": source, "unit": "person"}
    return dpsql.Policy.from_dict({"budget": {"epsilon": 10**6, "delta": 1e-6}, "tables": {"t": table}}, folder=folder)


def count(folder: Path, source: str) -> list[Any]:
    with dpsql.connect(policy(folder, source), ledger=":memory:") as session:
        return session.query(COUNT, epsilon=10**5).rows


def refused(ask: Callable[[], object], words: str) -> None:
    with pytest.raises(dpsql.Error) as error:
        ask()
    assert words in str(error.value) and error.value.hint


# ---------------------------------------------------------------- Delta


@pytest.mark.parametrize("name", ["t", "a b", "é"])
def test_a_delta_table_is_the_files_of_its_present_version(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    deltalake.write_deltalake(path, TEN)
    deltalake.write_deltalake(path, MORE, mode="append")
    assert count(tmp_path, f"delta:{name}") == [(17,)]
    deltalake.DeltaTable(path).delete("person < 3")  # written anew: the old files are still there
    deltalake.write_deltalake(path, MORE, mode="append")
    assert len(list(path.glob("*.parquet"))) == 4 and count(tmp_path, f"delta:{path}") == [(21,)]


def test_delta_tables_that_are_more_than_their_files_are_refused(tmp_path: Path) -> None:
    write = deltalake.write_deltalake
    write(tmp_path / "parted", TEN, partition_by=["k"])
    write(tmp_path / "mapped", TEN, configuration={"delta.columnMapping.mode": "name"})
    write(tmp_path / "grown", TEN)
    write(tmp_path / "grown", MORE.append_column("x", MORE["k"]), mode="append", schema_mode="merge")
    write(tmp_path / "cut", TEN, configuration={"delta.enableDeletionVectors": "true"})
    if hasattr(deltalake.DeltaTable, "deletion_vectors"):
        assert count(tmp_path, "delta:cut") == [(10,)]  # there could be some
    (added,) = pa.table(deltalake.DeltaTable(tmp_path / "cut").get_add_actions()).to_pylist()
    vector = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
              "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    same = {"path": added["path"], "dataChange": True}
    again = {**same, "partitionValues": {}, "size": added["size_bytes"], "modificationTime": 1}
    lines = [{"remove": {**same, "deletionTimestamp": 1}}, {"add": {**again, "deletionVector": vector}}]
    log = tmp_path / "cut" / "_delta_log" / f"{1:020}.json"
    log.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for name, words in {
        "parted": "partitioned by k",
        "mapped": "maps columns",
        "grown": "different columns",
        "cut": "deletion vectors",
        "nowhere": "can't be opened",
        "c%75t": "percent sign",  # which would be opened as "cut"
    }.items():
        refused(partial(count, tmp_path, f"delta:{name}"), words)


def test_a_version_that_lists_no_deletion_vectors_reads_no_table_that_may_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.write_deltalake(tmp_path / "t", TEN, configuration={"delta.enableDeletionVectors": "true"})
    monkeypatch.delattr(deltalake.DeltaTable, "deletion_vectors", raising=False)
    refused(partial(count, tmp_path, "delta:t"), "may have deletion vectors, which deltalake")


def test_each_version_of_a_listed_table_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Spark: by the table's own version and the listing; also where the files stay the same."""

    def listed(policy: Any, objects: Any) -> Any:
        found = locate(policy, objects)
        return tuple(replace(one, listing=partial(list_again, policy, one.table, one.files)) for one in found)

    monkeypatch.setattr(backend, "locate", listed)
    path = tmp_path / "t"
    deltalake.write_deltalake(path, TEN)
    with dpsql.connect(policy(tmp_path, "delta:t"), ledger=":memory:") as session:
        assert session.query(COUNT, epsilon=10**5).rows == [(10,)]
        deltalake.DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
        refused(partial(session.query, COUNT, epsilon=1), "changed")
    with dpsql.connect(policy(tmp_path, "delta:t"), ledger=":memory:") as session:
        session.query(COUNT, epsilon=10)
        deltalake.write_deltalake(path, MORE, mode="append")
        refused(partial(session.query, COUNT, epsilon=1), "other files")
        assert session.budget.spent.epsilon == 10


# ---------------------------------------------------------------- Iceberg


SOURCE = "iceberg:here.shop.visits"


def test_an_iceberg_table_is_the_files_of_its_present_snapshot(iceberg: Any, tmp_path: Path) -> None:
    table = iceberg.create_table("shop.visits", schema=TEN.schema)
    refused(partial(count, tmp_path, SOURCE), "no files")
    table.append(TEN)
    table.append(MORE)
    assert count(tmp_path, SOURCE) == [(17,)]
    states = {resolve(policy(tmp_path, SOURCE).tables["t"], SOURCE, tmp_path).state}
    table.delete("person < 3")  # written anew
    states.add(resolve(policy(tmp_path, SOURCE).tables["t"], SOURCE, tmp_path).state)
    assert count(tmp_path, SOURCE) == [(14,)] and len(states) == 2
    refused(partial(count, tmp_path, "iceberg:here.shop.other"), "can't be opened")
    refused(partial(count, tmp_path, "iceberg:elsewhere.shop.visits"), "can't be opened")


def test_an_iceberg_table_whose_columns_were_renamed_is_refused_until_it_is_rewritten(
    iceberg: Any, tmp_path: Path
) -> None:
    from pyiceberg.types import StringType

    table = iceberg.create_table("shop.visits", schema=TEN.schema)
    table.append(TEN)
    with table.update_schema() as change:
        change.rename_column("k", "kind")
    refused(partial(count, tmp_path, SOURCE), "renamed columns")
    table = iceberg.load_table("shop.visits")
    table.overwrite(TEN.rename_columns(["person", "kind"]))
    assert count(tmp_path, SOURCE) == [(10,)]
    with table.update_schema(allow_incompatible_changes=True) as change:  # a name that is another column's by now
        change.delete_column("kind")
    with iceberg.load_table("shop.visits").update_schema() as change:
        change.add_column("kind", StringType())
    refused(partial(count, tmp_path, SOURCE), "renamed columns")


def test_iceberg_delete_files_are_refused(iceberg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg writes none: a manifest of deletes is one that says so."""
    from pyiceberg.manifest import ManifestContent, ManifestFile

    table = iceberg.create_table("shop.visits", schema=TEN.schema)
    table.append(TEN)
    assert count(tmp_path, SOURCE) == [(10,)]
    monkeypatch.setattr(ManifestFile, "content", property(lambda self: ManifestContent.DELETES))
    refused(partial(count, tmp_path, SOURCE), "delete files")
