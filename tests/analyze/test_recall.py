"""Public tables are asked once for as long as they stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import dpsql
from dpsql.analyze.recall import LARGEST, Recall
from dpsql.backends.duckdb.public import PublicDatabase


class Counter:
    """A public engine that answers how often it was asked, in tables of a given size."""

    def __init__(self, rows: int = 1) -> None:
        self.asked, self.rows, self.state = 0, rows, 0
        self.memo: dict[object, Any] = {}
        self.meanwhile = 0  # what is added to the state while it answers

    def table(self, query: exp.Query, tables: Mapping[str, Any]) -> Any:
        self.asked += 1
        self.state += self.meanwhile
        return pa.table({"n": [self.asked] * self.rows})

    def run(self, query: exp.Query, tables: Mapping[str, Any]) -> tuple[Any, list[str]]:
        raise NotImplementedError

    def apart(self, query: exp.Query, tables: Mapping[str, Any], seconds: float) -> Any:
        raise NotImplementedError


def told(recall: Recall, text: str, **tables: Any) -> int:
    found: int = recall.table(exp.select(text), tables).column("n")[0].as_py()
    return found


def test_the_same_question_over_equal_tables_is_asked_once() -> None:
    engine = Counter()
    recall = Recall(engine, lambda: engine.state)
    one, equal, other = pa.table({"k": [1]}), pa.table({"k": [1]}), pa.table({"k": [2]})
    assert [told(recall, "1", a=one), told(recall, "1", a=equal), told(recall, "1", a=other)] == [1, 1, 2]
    assert [told(recall, "2", a=one), told(recall, "1", b=one), told(recall, "1", a=one)] == [3, 4, 1]


def test_an_answer_during_which_something_was_written_is_not_kept() -> None:
    engine = Counter()
    recall = Recall(engine, lambda: engine.state)
    engine.meanwhile = 1
    assert told(recall, "1") == 1
    engine.meanwhile, engine.state = 0, 0
    assert [told(recall, "1"), told(recall, "1")] == [2, 2]
    assert not recall.is_of(engine, 1) and recall.is_of(engine, 0) and not recall.is_of(Counter(), 0)


def test_large_answers_are_not_kept() -> None:
    engine = Counter(LARGEST // 8 + 1)
    recall = Recall(engine, lambda: engine.state)
    assert [told(recall, "1"), told(recall, "1")] == [1, 2]


@pytest.mark.parametrize("limits", [{}, {"max_rows": 5}])
def test_a_second_query_asks_public_tables_nothing_until_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    asked: list[str] = []
    plain = PublicDatabase.table

    def table(self: PublicDatabase, query: exp.Query, tables: Mapping[str, Any]) -> Any:
        asked.append(query.sql())
        return plain(self, query, tables)

    monkeypatch.setattr(PublicDatabase, "table", table)
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "places.parquet")
    rows = pa.table({"person": [1, 1, 2], "place": [1, 2, 2]})
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10},
            "privacy": limits,
            "tables": {
                "visits": {"unit": "person"},
                "places": {"public": True, "source": str(tmp_path / "places.parquet")},
            },
        }
    )
    sql = "SELECT name, COUNT(*) AS n FROM visits JOIN places ON place = id GROUP BY name"
    with dpsql.connect(policy, sources={"visits": rows}, ledger=":memory:") as session:
        first = session.explain(sql, epsilon=1)
        about = [text for text in asked if "places" in text]
        assert about and len(about) == len(set(about))
        asked.clear()
        session.explain(sql + " ", epsilon=1)
        assert not [text for text in asked if "places" in text]
        pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), tmp_path / "places.parquet")
        again = session.explain(sql, epsilon=1)
        assert [text for text in asked if "places" in text]
    assert str(first) != str(again)  # three places now
