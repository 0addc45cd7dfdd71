"""What limits and ranges cut, on the command line: named below each answer, and estimated on request."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

Run = Callable[..., Result]


def test_an_answer_names_what_its_error_bars_leave_out(dpsql: Run) -> None:
    done = dpsql("query", "SELECT SUM(income) FROM people")
    assert "± is the noise alone; not in it is what these cut: the range of SUM(people.income) [0, 1000]" in done.stderr
    assert "noise alone" not in dpsql("query", "SELECT COUNT(*) FROM people").stderr


def test_clipping_estimates_it_on_stderr_and_in_json(dpsql: Run) -> None:
    done = dpsql("query", "SELECT SUM(income) FROM people", "--clipping", "--format", "json", "--epsilon", "50")
    assert done.exit_code == 0 and "of units have a value outside of the range of SUM(people.income)" in done.stderr
    (cut,) = json.loads(done.stdout)["clipping"]
    assert cut["what"] == "range" and cut["share"] < 0.2
    explained = dpsql("explain", "SELECT SUM(income) FROM people", "--json")
    assert json.loads(explained.stdout)["cuts"] == [cut]
