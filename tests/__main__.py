"""python -m tests: everything, and what must run alone (signals) at the end, by itself.

Options of pytest may follow (-x, --whole). The last line adds both runs up; before it stands what was left out for want
of a program (tests/services.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKERS = str((os.cpu_count() or 1) + 1)  # one more than cores: some wait for a browser, a server or Spark
PARTS = (["-m", "not alone", "-n", WORKERS], ["-m", "alone", "-n", "0"])
NOTHING = 5  # pytest's code where no test was selected
WANTING = "left out for want of "  # as tests/services.py begins such lines
_SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|error)")


def run(options: list[str]) -> tuple[int, Counter[str], list[str]]:
    """One run of pytest: its exit code, what its summary counts, and its lines about what was left out."""
    command = [sys.executable, "-m", "pytest", *options]
    counted: Counter[str] = Counter()
    wanting = []
    # Tests start hundreds of processes: what each would compile again is kept, whatever the machine's habit.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(WANTING):
                wanting.append(line)
            if re.search(r" in [\d.]+s", line):  # the last such line
                counted = Counter({word: int(number) for number, word in _SUMMARY.findall(line)})
    return process.returncode, counted, wanting


def main(arguments: list[str]) -> int:
    """Run the tests; 0 if all of them pass."""
    codes, total, left_out = [], Counter[str](), list[str]()
    for part in PARTS:
        code, counted, wanting = run([*part, *arguments])
        codes.append(0 if code == NOTHING else code)
        total += counted
        left_out += wanting
    print(*dict.fromkeys(left_out), sep="", end="")
    print(f"tests: {total['passed']} passed, {total['failed'] + total['error']} failed, {total['skipped']} skipped")
    return max(codes) if total else NOTHING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
