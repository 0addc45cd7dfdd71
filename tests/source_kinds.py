"""Every kind of source that a table may come from, written by whoever writes such files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

GROUP = 7  # rows of a row group: neighbours share some row groups, and one person's row is decisive in others


@dataclass(frozen=True)
class Placed:
    """What a policy says of a table, and the object to pass to connect(), if it is one."""

    entry: dict[str, Any]
    object: Any = None


def _parquet(folder: Path, write: Callable[[Path], object]) -> Placed:
    write(folder / "t.parquet")
    return Placed({"source": str(folder / "t.parquet")})


def _pyarrow(**options: Any) -> Callable[[pa.Table, Path], Placed]:
    def place(table: pa.Table, folder: Path) -> Placed:
        return _parquet(folder, lambda path: pq.write_table(table, path, row_group_size=GROUP, **options))

    return place


def _bloomed(table: pa.Table, folder: Path) -> Placed:
    options = {c: {"ndv": 100, "fpp": 0.01} for c in table.column_names if not pa.types.is_boolean(table[c].type)}
    return _pyarrow(bloom_filter_options=options, write_page_index=True)(table, folder)


def _polars_file(table: pa.Table, folder: Path) -> Placed:
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return _parquet(folder, lambda path: frame.write_parquet(path, row_group_size=GROUP, statistics="full"))


def _pandas_file(table: pa.Table, folder: Path) -> Placed:
    frame = table.to_pandas(types_mapper=_arrow_backed)
    return _parquet(folder, lambda path: frame.to_parquet(path, row_group_size=GROUP))


def _duckdb_parquet(table: pa.Table, folder: Path) -> Placed:
    def write(path: Path) -> None:
        with duckdb.connect() as connection:
            connection.register("given", table)
            connection.execute(f"COPY given TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")

    return _parquet(folder, write)


def _glob(table: pa.Table, folder: Path) -> Placed:
    """Files of a few rows each; the last may be empty."""
    for i, start in enumerate(range(0, table.num_rows + 1, 2 * GROUP)):
        pq.write_table(table.slice(start, 2 * GROUP), folder / f"part{i:03d}.parquet", row_group_size=GROUP)
    return Placed({"source": str(folder / "part*.parquet")})


def _duckdb_file(table: pa.Table, folder: Path) -> Placed:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return Placed({"source": str(folder / "t.duckdb"), "table": "t"})


def _csv(compressed: bool) -> Callable[[pa.Table, Path], Placed]:
    def place(table: pa.Table, folder: Path) -> Placed:
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(table, sink)
        data, name = sink.getvalue().to_pybytes(), "t.csv.gz" if compressed else "t.csv"
        (folder / name).write_bytes(gzip.compress(data, 1) if compressed else data)
        return Placed({"source": str(folder / name)})

    return place


def _pandas(table: pa.Table, folder: Path) -> Placed:
    return Placed({}, table.to_pandas(types_mapper=_arrow_backed))


def _polars(table: pa.Table, folder: Path) -> Placed:
    import polars

    return Placed({}, polars.from_arrow(table))


def _arrow_backed(type_: pa.DataType) -> Any:
    import pandas

    return pandas.ArrowDtype(type_)


KINDS: dict[str, Callable[[pa.Table, Path], Placed]] = {
    "parquet by pyarrow": _pyarrow(),
    "parquet without statistics": _pyarrow(write_statistics=False, use_dictionary=False),
    "parquet without dictionaries": _pyarrow(use_dictionary=False, write_page_index=True, data_page_size=64),
    "parquet with bloom filters": _bloomed,
    "parquet by polars": _polars_file,
    "parquet by pandas": _pandas_file,
    "parquet by DuckDB": _duckdb_parquet,
    "parquet files of a glob": _glob,
    "CSV": _csv(compressed=False),
    "gzipped CSV": _csv(compressed=True),
    "DuckDB file": _duckdb_file,
    "Arrow": lambda table, folder: Placed({}, table),
    "pandas": _pandas,
    "polars": _polars,
}
if "bloom_filter_options" not in signature(pq.write_table).parameters:  # as in pyarrow 17
    del KINDS["parquet with bloom filters"]


def csv_type(type_: pa.DataType) -> str:
    """The type that a policy pins for a column of a CSV file."""
    with duckdb.connect() as connection:
        connection.register("given", pa.table({"x": pa.array([], type_)}))
        found = connection.execute("DESCRIBE given").fetchall()
    return str(found[0][1])
