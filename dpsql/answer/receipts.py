"""Receipts that travel with a file: what its numbers cost and how they were made, bound to its very bytes, and signed.

`x.csv` has its receipt in `x.csv.receipt.json`. Whoever has both and the public key can tell that neither was changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.accounting.signing import LONGEST, Signed, Signer, read_keys, signed_by
from dpsql.answer.about import FORMAT, About
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

ENDING = ".receipt.json"


@dataclass(frozen=True, slots=True)
class Verified:
    """A file that is what its receipt says, and a receipt that one of the given keys signed."""

    file: Path
    statement: Mapping[str, Any]
    key: str
    name: str
    """What the list of keys calls the key; "" where it has no name."""


def receipt_path(path: Path) -> Path:
    """Where a file's receipt lies."""
    return path.with_name(path.name + ENDING)


def signed_receipt(said: About, name: str, content: bytes, signer: Signer) -> bytes:
    """The receipt of a file with this name and content."""
    file = {"name": name, "bytes": len(content), "sha256": sha256(content).hexdigest()}
    return signer.sign({"dpsql": FORMAT, **said, "file": file})


def verify(path: str | Path, *, key: str | Path | Mapping[str, str], receipt: str | Path | None = None) -> Verified:
    """Check that a file and its receipt are as they were signed; DataError says what isn't.

    key: the public key of whoever made them (`dpsql key` prints it), or the path of a file with several. Get it some
    other way than with the file. receipt: where it lies, if not beside the file.
    """
    file = Path(path)
    if file.name.endswith(ENDING) and receipt is None:
        receipt, file = file, file.with_name(file.name.removesuffix(ENDING))
    beside = receipt_path(file) if receipt is None else Path(receipt)
    keys = key if isinstance(key, Mapping) else read_keys(str(key))
    signed = signed_by(_content(beside, "the receipt", LONGEST), keys, str(beside))
    _check_file(signed, file, beside)
    return Verified(file, signed.statement, signed.key, signed.name)


def _check_file(signed: Signed, file: Path, receipt: Path) -> None:
    said = signed.statement
    if said.get("dpsql") != FORMAT:
        raise DataError(
            f"{receipt} has a format that this dpsql doesn't know", code="receipt-format", hint="use a newer dpsql"
        )
    about = said.get("file")
    if not isinstance(about, dict):
        raise DataError(f"{receipt} is about no file", code="receipt-damaged", hint="ask for both once more")
    digest = _digest(file)
    if digest != (about.get("bytes"), about.get("sha256")):
        name = str(about.get("name", ""))
        other = "" if name == file.name else f" (it was made for a file {name!r})"
        raise DataError(
            f"{file} is not the file that its receipt was made for, or was changed since{other}",
            code="file-changed",
            hint="the receipt is genuine; ask whoever made it for the file once more",
        )


def _digest(file: Path) -> tuple[int, str]:
    whole, size = sha256(), 0
    try:
        with file.open("rb") as handle:
            while piece := handle.read(1 << 20):
                whole.update(piece)
                size += len(piece)
    except OSError as error:
        raise _unreadable(file, "the file", error) from None
    return size, whole.hexdigest()


def _content(file: Path, what: str, most: int) -> bytes:
    try:
        with file.open("rb") as handle:
            return handle.read(most + 1)
    except OSError as error:
        raise _unreadable(file, what, error) from None


def _unreadable(file: Path, what: str, error: OSError) -> DataError:
    return DataError(
        f"{what} {file} can't be read: {error.strerror}",
        code="no-receipt" if what == "the receipt" else "no-file",
        hint=f"a file x.csv has its receipt in x.csv{ENDING}: it is written with --receipt",
    )
