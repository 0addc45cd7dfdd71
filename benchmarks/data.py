"""A data set as a benchmark finds it: files, a policy beside them, and a ledger that has read them once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Data:
    """Files by the table's name, and the policy that a steward wrote for them. The ledger lies beside the policy."""

    name: str
    rows: int
    files: Mapping[str, Path]
    policy: Path
    opened: float
    """Seconds of wall time that the first opening took: it reads everything once, and verifies promises."""

    @property
    def ledger(self) -> Path:
        return self.policy.with_suffix(".ledger.sqlite")

    @contextmanager
    def account(self) -> Iterator[Path]:
        """A ledger in which nothing was asked yet, in a folder of its own: a copy, so that nothing is read twice."""
        with TemporaryDirectory(prefix="dpsql-benchmark-") as folder:
            for file in self.policy.parent.glob(f"{self.policy.stem}.ledger*"):
                shutil.copy(file, folder)
            yield Path(folder) / self.ledger.name


def opened(name: str, rows: int, files: Mapping[str, Path], policy: Path, text: str) -> Data:
    """Write the policy and check it, as its steward would; what was checked already isn't again."""
    from dpsql.steward.check import check

    kept = policy.with_suffix(".opened.json")
    said = {"policy": text, "files": {n: [f.stat().st_mtime_ns, f.stat().st_size] for n, f in files.items()}}
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    seconds = known.pop("seconds", 0.0)
    if known != said:
        for old in policy.parent.glob(f"{policy.stem}.ledger*"):
            old.unlink()
        policy.write_text(text, encoding="utf-8")
        start = time.perf_counter()
        assert not check(policy, steward=True).broken
        seconds = time.perf_counter() - start
        kept.write_text(json.dumps({**said, "seconds": seconds}), encoding="utf-8")
    return Data(name, rows, files, policy, seconds)
