"""Files with answers: each is written whole or not at all, with the permissions that it would have anyway."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".png": "png",
    ".svg": "svg",
    ".html": "html",  # charts
}


def beside(path: Path) -> tuple[BinaryIO, Path]:
    """A temporary file in the same folder, with the permissions that the file would have."""
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")
    number, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    mask = os.umask(0)
    os.umask(mask)
    Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
    return os.fdopen(number, "wb"), Path(name)


def write_whole(contents: Sequence[tuple[Path, bytes]]) -> None:
    """Write files: all of them are on the disk before the first one gets its name."""
    with ExitStack() as stack:
        made = []
        for path, content in contents:
            handle, temporary = beside(path)
            stack.callback(temporary.unlink, missing_ok=True)
            with handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            made.append((temporary, path))
        for temporary, path in made:
            temporary.replace(path)
