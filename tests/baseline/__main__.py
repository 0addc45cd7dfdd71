"""python -m tests.baseline: compare cases with the baseline; --update writes it anew, --dump FOLDER whole texts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parents[1]))  # as pytest finds what tests share

from baseline.cases import SUITES
from baseline.compare import digest_of, line_of, read, write
from baseline.record import recorded


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--update", action="store_true")
    options.add_argument("--dump", type=Path)
    options.add_argument("--one-in", type=int, default=1)
    options.add_argument("--suite")
    options.add_argument("--case")
    asked = options.parse_args()
    before = {} if asked.update else read()
    lines, different = [], []
    for suite in SUITES:
        if asked.suite not in (None, suite.name):
            continue
        with TemporaryDirectory() as folder, suite.opened(Path(folder)) as session:
            for title, (sql, given) in list(suite.queries.items())[:: asked.one_in]:
                if asked.case not in (None, title):
                    continue
                name = f"{suite.name}: {title}"
                texts = recorded(session, name, sql, given)
                lines.append(line_of(name, texts))
                if asked.dump is not None:
                    asked.dump.mkdir(parents=True, exist_ok=True)
                    whole = "\n\n".join([sql, *(f"== {time}\n{text}" for time, text in texts.items())])
                    (asked.dump / f"{digest_of(name)}.txt").write_text(f"{name}\n{whole}\n", encoding="utf-8")
                if not asked.update and before.get(name) != tuple(map(digest_of, texts.values())):
                    different.append(name)
                    print("different:", name, digest_of(name), flush=True)
    if asked.update:
        write(lines)
    print(f"{len(lines)} cases, {len(different)} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
