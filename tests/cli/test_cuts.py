"""What limits and ranges cut, on the command line: said below each answer, and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Run = Callable[..., Result]


def test_an_answer_says_what_its_ranges_cut(dpsql: Run, folder: Path) -> None:
    policy = folder / "policy.toml"
    assert "outside" not in dpsql("query", "SELECT SUM(income) FROM people").stderr  # nothing counts them
    narrow = policy.read_text().replace("limits_share = 0", "limits_share = 0.05").replace("max = 1000", "max = 500")
    policy.write_text(narrow)
    done = dpsql("query", "SELECT SUM(income) AS s FROM people", "--format", "json", "--epsilon", "60")
    assert done.exit_code == 0 and "have a value outside of the range of SUM(people.income) [0, 500]" in done.stderr
    told = json.loads(done.stdout)
    assert any("outside of the range" in note for note in told["receipt"]["cut"])
    assert "outside" not in dpsql("query", "SELECT COUNT(*) FROM people").stderr
    explained = json.loads(dpsql("explain", "SELECT SUM(income) FROM people", "--json").stdout)
    assert explained["cuts"] == [note for note in told["receipt"]["cut"] if "outside" in note]


def test_the_flag_that_asked_for_it_says_that_it_is_gone(dpsql: Run) -> None:
    done = dpsql("query", "SELECT SUM(income) FROM people", "--clipping")
    assert done.exit_code == 3 and "clipping= is gone" in done.stderr and "leave it out" in done.stderr
    assert "--clipping" not in dpsql("query", "--help").stdout
