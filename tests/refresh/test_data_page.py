"""docs/data.md: its example is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import dpsql

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/data.md", "exec"), names)
    assert "rows_per_unit = 1" in capsys.readouterr().out
    sources = {"visits": names["tomorrow"]}
    with dpsql.Engine.open(names["policy"], sources=sources, ledger=tmp_path / "visits.sqlite") as engine:
        assert engine.stale is None and engine.ledger.balance.spent.epsilon == 2
