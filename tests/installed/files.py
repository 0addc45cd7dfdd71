"""Other people's files: one column of each type, written by every library that writes such files.

A writer that has no such type writes nothing: that cell isn't there.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from installed.spark_files import spark_files

ROWS = 120
TYPES: Mapping[str, str] = {  # as DuckDB computes it of a row's number i
    "BIGINT": "i % 7",
    "DOUBLE": "(i % 9) / 4",
    "BOOLEAN": "i % 3 = 0",
    "VARCHAR": "'w' || i % 5",
    "DATE": "DATE '2024-01-01' + CAST(i AS INTEGER)",
    "TIMESTAMP": "TIMESTAMP '2024-01-01' + to_hours(i * 13)",
    "TIMESTAMPTZ": "TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours(i * 13)",
    "TIME": "TIME '01:00:00' + to_minutes(i)",
    "DECIMAL(38,2)": "CAST(i AS DECIMAL(38,2)) / 3",
    "HUGEINT": "CAST(i AS HUGEINT) * 100000000000000000000000000000",
    "UUID": "CAST('00000000-0000-0000-0000-' || lpad(CAST(i % 4 AS VARCHAR), 12, '0') AS UUID)",
    "ENUM": "CAST('w' || i % 3 AS ENUM('w0', 'w1', 'w2'))",
    "BLOB": "CAST('b' || i % 4 AS BLOB)",
    "LIST": "[i, i + 1]",
    "STRUCT": "{'a': i, 'b': 'x'}",
    "MAP": "MAP {'k': i}",
    "JSON": "CAST('{\"a\": ' || i || '}' AS JSON)",
    "INTERVAL": "to_days(CAST(i AS INTEGER))",
    "DICTIONARY": "'w' || i % 5",
}
OF_CSV = dict.fromkeys(
    ("ENUM", "LIST", "STRUCT", "MAP", "DICTIONARY", "BLOB", "JSON", "UUID", "INTERVAL", "TIME"), "VARCHAR"
)
"""What a policy calls the columns of a CSV file: their types are in the policy alone."""


class Written(NamedTuple):
    """What a policy says of a table, and what `init` is given."""

    entry: dict[str, str]
    given: str
    types: str = ""  # of v, where the file has none

    @property
    def policy(self) -> str:
        """The lines of a policy about the table's source and its columns."""
        lines = [f"{key} = '{value}'" for key, value in self.entry.items()]
        if self.types:
            lines.append(f'columns = {{ person = {{ type = "BIGINT" }}, v = {{ type = "{self.types}" }} }}')
        return "\n".join([*lines, ""])


Writer = Callable[[str, Path], Written | None]


def rows(kind: str) -> str:
    return f"SELECT CAST(i % 40 AS BIGINT) AS person, {TYPES[kind]} AS v FROM range({ROWS}) AS r(i)"


def arrow(kind: str) -> pa.Table:
    """The rows as an Arrow table."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = connection.sql(rows(kind)).to_arrow_table()
    if kind == "DICTIONARY":
        table = table.set_column(1, "v", table.column("v").dictionary_encode())
    return table


def _duckdb_parquet(kind: str, folder: Path) -> Written:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY ({rows(kind)}) TO '{folder / 't.parquet'}' (FORMAT parquet)")
    return Written({"source": "t.parquet"}, "t.parquet")


def _pyarrow_parquet(kind: str, folder: Path) -> Written:
    pq.write_table(arrow(kind), folder / "t.parquet")
    return Written({"source": "t.parquet"}, "t.parquet")


def _pandas_parquet(kind: str, folder: Path) -> Written:
    arrow(kind).to_pandas().to_parquet(folder / "t.parquet")
    return Written({"source": "t.parquet"}, "t.parquet")


def _polars_parquet(kind: str, folder: Path) -> Written:
    import polars

    frame = polars.from_arrow(arrow(kind))
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(folder / "t.parquet")
    return Written({"source": "t.parquet"}, "t.parquet")


def _duckdb_csv(kind: str, folder: Path) -> Written:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY ({rows(kind)}) TO '{folder / 't.csv'}' (HEADER)")
    return Written({"source": "t.csv"}, "t.csv", OF_CSV.get(kind, kind))


def _pandas_csv(kind: str, folder: Path) -> Written:
    arrow(kind).to_pandas().to_csv(folder / "t.csv", index=False)
    return Written({"source": "t.csv"}, "t.csv", OF_CSV.get(kind, kind))


def _gzip(kind: str, folder: Path) -> Written:
    found = _pandas_csv(kind, folder)
    with gzip.open(folder / "t.csv.gz", "wb") as packed:
        packed.write((folder / "t.csv").read_bytes())
    (folder / "t.csv").unlink()
    return Written({"source": "t.csv.gz"}, "t.csv.gz", found.types)


def _database(kind: str, folder: Path) -> Written:
    with duckdb.connect(folder / "d.duckdb") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE t AS {rows(kind)}")
    return Written({"source": "d.duckdb", "table": "t"}, "d.duckdb")


def _delta(kind: str, folder: Path) -> Written:
    import deltalake

    deltalake.write_deltalake(folder / "t", arrow(kind))
    return Written({"source": "delta:t"}, "delta:t")


def _iceberg(kind: str, folder: Path) -> Written:
    from pyiceberg.catalog.sql import SqlCatalog

    place = {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}"}
    catalog = SqlCatalog("lake", **place)
    catalog.create_namespace("n")
    table = arrow(kind)
    catalog.create_table("n.t", schema=table.schema).append(table)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    lines = [f"    {key}: {value}" for key, value in {"type": "sql", **place}.items()]
    (home / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  lake:", *lines, ""]), encoding="utf-8")
    return Written({"source": "iceberg:lake.n.t"}, "iceberg:lake.n.t")


def _spark(ending: str) -> Writer:
    """Writes files as Spark does: a folder of parts."""

    def copied(kind: str, folder: Path) -> Written | None:
        found = spark_files(kind, ending, ROWS)
        if found is None:
            return None
        shutil.copytree(found, folder / "t")
        types = "" if ending == "parquet" else OF_CSV.get(kind, kind)
        return Written({"source": f"t/*.{ending}"}, f"t/*.{ending}", types)

    return copied


WRITERS: Mapping[str, tuple[Writer, str]] = {  # with the extra that reads such sources
    "parquet of DuckDB": (_duckdb_parquet, ""),
    "parquet of pyarrow": (_pyarrow_parquet, ""),
    "parquet of pandas": (_pandas_parquet, ""),
    "parquet of polars": (_polars_parquet, ""),
    "CSV of DuckDB": (_duckdb_csv, ""),
    "CSV of pandas": (_pandas_csv, ""),
    "gzip of pandas": (_gzip, ""),
    "parquet of Spark": (_spark("parquet"), ""),
    "CSV of Spark": (_spark("csv"), ""),
    "gzip of Spark": (_spark("csv.gz"), ""),
    "database of DuckDB": (_database, ""),
    "Delta": (_delta, "delta"),
    "Iceberg": (_iceberg, "iceberg"),
}
CANNOT: Any = (pa.ArrowException, duckdb.Error, ValueError, TypeError, NotImplementedError)


def write(writer: str, kind: str, folder: Path) -> Written | None:
    """A source with one column v of a type; None where the writer has no such type."""
    import polars
    from deltalake.exceptions import DeltaError
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

    nothing = (*CANNOT, polars.exceptions.PolarsError, DeltaError, ValidationError, UnsupportedPyArrowTypeException)
    try:
        return WRITERS[writer][0](kind, folder)
    except nothing:
        return None
    except BaseException as panic:  # polars ends so where it has no such type, and deltalake in a bare Exception
        if type(panic).__name__ == "PanicException" or (writer == "Delta" and type(panic) is Exception):
            return None
        raise
