"""python -m tests: everything, and what must run alone (signals) at the end, by itself.

Then a sample of about a minute twice more: in the background, and as a service would run it (tests/places.py). Options
of pytest may follow (-x, --whole). The last line adds all runs up; before it stands what was left out for want of a
program (tests/services.py).
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # as pytest finds what tests share

from places import Name, started

WORKERS = str((os.cpu_count() or 1) + 1)  # one more than cores: some wait for a browser, a server or Spark
SAMPLE = ["-m", "not alone", "-n", WORKERS, "--one-in", "30"]
PARTS: tuple[tuple[Name, list[str]], ...] = (
    ("here", ["-m", "not alone", "-n", WORKERS]),
    ("here", ["-m", "alone", "-n", "0"]),
    ("nohup", SAMPLE),
    ("service", [*SAMPLE, "-p", "no:cacheprovider"]),
)
TITLES = {"nohup": "a sample under nohup", "service": "a sample as a service"}
NOTHING = 5  # pytest's code where no test was selected
WANTING = "left out for want of "  # as tests/services.py begins such lines
_SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|error)")


def run(place: Name, options: list[str]) -> tuple[int, Counter[str], list[str]]:
    """One run of pytest: its exit code, what its summary counts, and its lines about what was left out."""
    command = [sys.executable, "-m", "pytest", *options]
    counted: Counter[str] = Counter()
    wanting = []
    # Tests start hundreds of processes: what each would compile again is kept, whatever the machine's habit.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with started(place, command, environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(WANTING):
                wanting.append(line)
            if re.search(r" in [\d.]+s", line):  # the last such line
                counted = Counter({word: int(number) for number, word in _SUMMARY.findall(line)})
    if process.returncode in (0, NOTHING):
        return 0, counted, wanting
    if not counted["failed"] + counted["error"]:  # it was ended, or could not begin
        counted["error"] += 1
    return max(process.returncode, 1), counted, wanting


def main(arguments: list[str]) -> int:
    """Run the tests; 0 if all of them pass."""
    codes, total, left_out = [], Counter[str](), list[str]()
    for place, options in PARTS:
        if place in TITLES:
            print(f"\n{TITLES[place]}", flush=True)
        code, counted, wanting = run(place, [*options, *arguments])
        codes.append(code)
        total += counted
        left_out += wanting
    print(*dict.fromkeys(left_out), sep="", end="")
    print(f"tests: {total['passed']} passed, {total['failed'] + total['error']} failed, {total['skipped']} skipped")
    return max(codes) if total else NOTHING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
