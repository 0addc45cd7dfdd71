"""The demo: complete, within its budget, and nothing of it stays."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.cli.demo import REFUSED, SCENES, made
from dpsql.cli.main import cli


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What it prints, in an empty folder, with temporary files in another."""
    work, temporary = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setattr(tempfile, "tempdir", str(temporary))
        done = CliRunner().invoke(cli, ["demo"])
    assert list(work.iterdir()) == [] and list(temporary.iterdir()) == []
    return done


def test_it_shows_five_answers_with_errors_a_plot_a_refusal_and_the_budget(shown: Result) -> None:
    assert shown.exit_code == 0 and shown.stderr == ""
    text = shown.stdout
    assert len(SCENES) == 5 and all(scene.title in text for scene in SCENES)
    assert text.count("± 95%") + text.count("95% interval") >= 5 and text.count("▒") > 20
    assert REFUSED in text and "error: the query returns rows of a private table, riders" in text
    assert "spent  3" in text and "left   1" in text


def test_it_fits_a_terminal_of_80_columns(shown: Result) -> None:
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


def test_its_first_answer_is_near_the_number_that_it_tells(shown: Result) -> None:
    exact = made()[1].num_rows
    assert f"may tell: {exact:,}." in shown.stdout
    found = re.search(r"trips +(?:± 95%|95% interval)\n\W+\n *([\d,]+) +([\d,]+)(?: to ([\d,]+))?", shown.stdout)
    assert found is not None
    answer, off, *end = (int(text.replace(",", "")) for text in found.groups() if text is not None)
    low, high = (off, *end) if end else (answer - off, answer + off)
    assert answer - 4 * (answer - low) < exact < answer + 4 * (high - answer)


def test_its_data_are_the_same_each_time() -> None:
    assert made()[1].equals(made()[1])


def test_kept_data_can_be_asked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.cli.demo.SCENES", SCENES[:1])
    kept = tmp_path / "bikes"
    assert CliRunner().invoke(cli, ["demo", "--keep", str(kept)]).exit_code == 0
    with dpsql.connect(kept / "policy.toml") as session:
        assert session.budget.remaining.epsilon == 3.5
    again = CliRunner().invoke(cli, ["demo", "--keep", str(kept)])
    assert again.exit_code == 2 and "something in it already" in again.stderr
