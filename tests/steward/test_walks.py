"""From an empty folder to an answer: no refusal, and at most two lines of the policy edited by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from walks import MOST_EDITS, WALKS, Done, Walk, walk

from dpsql.cli.main import cli


@pytest.mark.parametrize("one", WALKS, ids=lambda one: one.name)
def test_a_new_steward_gets_an_answer_with_at_most_two_edits(
    one: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)

    def run(*arguments: str) -> Done:
        done = CliRunner().invoke(cli, list(arguments))
        assert done.exit_code == 0, f"{arguments}: {done.output}"
        return Done(done.exit_code, done.stdout, done.stderr)

    assert walk(one, tmp_path, run, real=False) <= MOST_EDITS
