"""What Spark is told to read: the files of a list, all of them and no others, in whichever way it finds them."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import Any
from urllib.parse import unquote, urlsplit

from dpsql.backends.spark.values import name_of
from dpsql.core.frozen import dataclass

_BUCKET = "^.*_([0-9]+)(?:[.].*)?$"
"""Where Spark has the number of a bucket: at the end of a file's name. The same pattern for Java and for Python."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Rows are dealt out to so many files (or sets of files) by a hash of these columns, says the catalog."""

    columns: tuple[str, ...]
    number: int

    @property
    def test(self) -> str:
        """That a row is in a file of its bucket (Theorem BUCKET-1)."""
        said = f"CAST(regexp_extract(_metadata.file_name, '{_BUCKET}', 1) AS INT)"
        return f"(pmod(hash({', '.join(map(name_of, self.columns))}), {self.number}) <=> {said})"

    def has(self, address: str) -> bool:
        """Is a file one of a bucket? Spark fails on names without a number, and passes over one that is too large."""
        found = re.match(_BUCKET, address.rpartition("/")[2])
        return found is not None and int(found[1]) < self.number


@dataclass(frozen=True, slots=True)
class Reading:
    """Files by their addresses, as Spark writes paths (file:/data/x.parquet).

    columns: names and Spark's types; None is as the files say. table: the table of a catalog that has these files;
    buckets: how it says that they are divided.
    """

    addresses: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None = None
    table: str | None = None
    buckets: Buckets | None = None

    def rows(self, session: Any, *, bucketed: bool = False) -> Any:
        """The rows; bucketed: Spark may rely on buckets. A RuntimeError where it would read other files.

        Which files a DataFrame reads is settled when it is made, and stays so in views over it.
        """
        reader = own_reader(session)
        if bucketed:
            assert self.table is not None
            rows = reader.table(self.table)
        else:
            if self.columns is not None:
                reader = reader.schema(", ".join(f"{name_of(name)} {kind}" for name, kind in self.columns))
            rows = reader.parquet(*self.addresses)
        if sorted(map(address_of, rows.inputFiles())) != sorted(self.addresses):
            raise RuntimeError("other files are read than were named")
        return rows


def own_reader(session: Any) -> Any:
    """A reader of files as they are now, with an option that no format knows and whose value nobody else has.

    What another client of the server keeps (CACHE TABLE) is given to whoever reads the same files with the same
    options: rows as they were when they were kept, some passed over by statistics. Theorem SCAN-1 has neither.
    """
    return session.read.option("dpsql", token_hex(8))


def address_of(uri: str) -> str:
    """A file's address as Spark writes paths, of the URI that it lists."""
    parts = urlsplit(uri)
    host = f"//{parts.netloc}" if parts.netloc else ""
    return f"{parts.scheme}:{host}{unquote(parts.path, errors='surrogateescape')}"
