"""What rows are, as numbers: sums of keyed hashes, over each column and over whole rows; and tables of database files.

Two lists of rows with the same sums are the same rows in some order, but for chance (DuckDB's hash has 64 bits). The
sums are for the ledger, which keys them once more, and for the steward; no analyst sees what they decide.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import duckdb

from dpsql.backends.duckdb.csv_files import header_of, read_csv
from dpsql.backends.duckdb.names import literal, quoted
from dpsql.backends.duckdb.scan import Column, Runs, read_parquet
from dpsql.backends.duckdb.sources import CONFIG, raw_columns, reading
from dpsql.backends.located import Located
from dpsql.core.errors import DataError


def digests(connection: Runs, one: Located, file: Path | None, key: bytes) -> dict[str, str]:
    """Sums over each column of one file of a source (None: of an object), by its name; "" is for whole rows."""
    if one.object is not None or file is None or one.table.kind == "duckdb":
        with reading(connection, one) as rows:
            return _sums(connection, rows, _described(connection, rows), key)
    if one.table.kind == "csv":
        header = header_of(one.table, (file,))
        rows = read_csv(one.table, (file,), frozenset(name.lower() for name in header), unquoted=False)
    else:
        rows = f"SELECT * FROM {read_parquet((file,))}"
    return _sums(connection, rows, _described(connection, rows), key)


def types(connection: Runs, one: Located) -> tuple[tuple[str, str], ...]:
    """The columns of a source and their types, as it holds them: also those that the policy doesn't list."""
    if one.object is None and one.table.kind == "csv":
        return tuple((name, "VARCHAR") for name in header_of(one.table, one.files))
    if one.object is None and one.table.kind == "parquet":
        return tuple((c.name, c.kind) for c in _described(connection, f"SELECT * FROM {read_parquet(one.files)}"))
    return tuple((c.name, c.kind) for c in raw_columns(connection, one))


def look_inside(one: Located, secret: bytes) -> bytes:
    """What the rows of one table of a database file are; where they lie doesn't count (Theorem VERSION-1)."""
    key = blake2b(key=secret, digest_size=16, person=b"dpsql.rows").digest()
    try:
        with closing(duckdb.connect(":memory:", config=CONFIG)) as connection:
            connection.execute(f"ATTACH {literal(str(one.files[0]))} AS dpsql_file (READ_ONLY)")
            name = ".".join(quoted(part) for part in (one.table.table or "").split("."))
            rows = f"SELECT * FROM dpsql_file.{name}"
            sums = _sums(connection, rows, _described(connection, rows), key)
    except duckdb.Error:  # its text may speak of rows
        raise DataError(
            f"tables.{one.table.name}: {one.table.source} can't be read",
            code="unreadable",
            hint="check the file, and that nobody else has it open for writing",
        ) from None
    return repr(sorted(sums.items())).encode()


def _described(connection: Runs, rows: str) -> list[Column]:
    return [Column(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {rows}").fetchall()]


def _sums(connection: Runs, rows: str, columns: list[Column], key: bytes) -> dict[str, str]:
    """Keyed hashes, added up, so that the order of rows doesn't count; two for each, with two keys."""
    keys = [int.from_bytes(key[place : place + 8], "big") for place in (0, 8)]
    names = [quoted(column.name) for column in columns]
    hashed = [*(f"hash({name})" for name in names), f"hash({', '.join(names)})"]
    sums = [f"SUM(hash(xor({h}, CAST({k} AS UBIGINT))))" for h in hashed for k in keys]
    number, *found = connection.execute(f"SELECT COUNT(*), {', '.join(sums)} FROM ({rows})").fetchall()[0]
    labels = [*(column.name for column in columns), ""]
    return {
        label: f"{columns[place].kind if label else ''} {number} {found[2 * place]} {found[2 * place + 1]}"
        for place, label in enumerate(labels)
    }
