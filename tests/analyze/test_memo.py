"""What planning has analyzed is kept: whoever asks gets what belongs to his key, whatever else is going on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from sqlglot import exp
from support import Connect

from dpsql.analyze import catalog as module
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Memo
from dpsql.analyze.relations import counted_relation
from dpsql.plan.nodes import Filter
from dpsql.sql.parse import parse

TABLE = pa.table({"u": [1, 2, 3], "v": pa.array([1, 2, 3], pa.int32())})


@pytest.fixture
def often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_memo_that_begins_anew_in_one_thread_fails_in_no_other(
    monkeypatch: pytest.MonkeyPatch, often_switched: None
) -> None:
    """Stages are settled when they are paid for, by several threads at once."""
    monkeypatch.setattr(module, "MAX_MEMO_VALUES", 1)
    memo = Memo()

    def asked(thread: int) -> bool:
        for n in range(5_000):
            key = Limits(max_rows=n, max_groups=thread)
            if memo.kept(key, lambda key=key: key) != key:  # type: ignore[misc]
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(asked, range(4)))


def test_rows_that_are_kept_keep_their_id(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memo that began anew while they were analyzed held them by the id of rows that nobody kept."""
    session = connect({"t": TABLE}, {"tables": {"t": {"unit": "u", "columns": {"v": {"min": 0, "max": 9}}}}})
    catalog = session._engine.catalog()
    statement = session._quoting._statement(parse("SELECT COUNT(*) FROM t WHERE v > 1"), Limits(max_rows=1), catalog)
    rows = statement.plan.releases[0].input
    assert isinstance(rows, Filter)

    def narrowed(least: int) -> Filter:
        more = exp.GT(this=exp.column("v", quoted=True), expression=exp.Literal.number(least))
        return Filter(rows.input, more)

    monkeypatch.setattr(module, "MAX_MEMO_VALUES", 1)
    base = narrowed(2)
    catalog.memo.add_base(base)
    counted_relation(base, {"u", "v"}, catalog)
    before = id(base)
    del base
    gc.collect()
    assert before not in {id(one) for one in [narrowed(n) for n in range(1_000)]}
