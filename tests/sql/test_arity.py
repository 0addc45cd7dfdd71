"""Too few arguments, too many, or of the wrong kind: always an error of ours, never a crash."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from sqlglot import exp

import dpsql
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.functions import FUNCTIONS
from dpsql.sql.parse import parse
from dpsql.sql.scalar import Scalar, scalar

AGGREGATES = [
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "VARIANCE",
    "STDDEV_POP",
    "COUNT_IF",
    "BOOL_AND",
    "ARG_MAX",
    "FIRST",
    "ANY_VALUE",
    "MODE",
    "MEDIAN",
    "QUANTILE",
    "LIST",
    "STRING_AGG",
    "PRIVACY_UNIT",
    "DP_INTERVAL_LOW",
    "LAG",
    "LEAD",
    "ROW_NUMBER",
    "RANK",
    "NTILE",
    "FIRST_VALUE",
    "PERCENT_RANK",
]
SCALARS = sorted({n for f in FUNCTIONS for n in f.names if re.fullmatch(r"\w+", n)})
LISTS = (["i"] * 5, ["s", "'a'", "1", "2", "3"], ["'day'", "d", "d", "d", "d"], ["NULL"] * 5)
COLUMNS = {
    name: Scalar(exp.column(name), Type(kind), Range())
    for name, kind in {"i": "BIGINT", "s": "VARCHAR", "d": "DATE"}.items()
}


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    table = {"unit": "u", "columns": {"i": {"min": 0, "max": 9}}}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 1, "delta": 0}, "tables": {"t": table}})
    rows = pa.table({"u": [1], "i": [1], "s": ["a"], "d": pa.array([0], pa.date32())})
    with dpsql.connect(policy, sources={"t": rows}, ledger=":memory:") as opened:
        yield opened


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)  # the parser's own word on IGNORE NULLS
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", SCALARS)
def test_no_number_of_arguments_crashes_a_function(name: str) -> None:
    for arguments in LISTS:
        for count in range(6):
            try:
                root = parse(f"SELECT {name}({', '.join(arguments[:count])})").root
                scalar(root.selects[0].unalias(), COLUMNS)
            except dpsql.Error:
                pass


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.sample(6)
def test_no_number_of_arguments_crashes_an_aggregate(session: dpsql.Session, name: str) -> None:
    for count in range(4):
        call = f"{name}({', '.join(['i'] * count)})"
        for sql in (
            f"SELECT {call} FROM t",
            f"SELECT COUNT(*) FROM (SELECT u, {call} AS z FROM t GROUP BY u) WHERE z IS NULL",
            f"SELECT COUNT(*) FROM (SELECT {call} OVER (PARTITION BY u ORDER BY i) AS z FROM t) WHERE z IS NULL",
        ):
            with contextlib.suppress(dpsql.Error):
                session.explain(sql, epsilon=1, max_rows=2, max_groups=2)


@pytest.mark.parametrize("call", ["CEIL()", "FLOOR()", "DATE()", "NEG()", "ILIKE(s)", "SPLIT_PART(s)"])
@pytest.mark.parametrize("sql", ["SELECT {} FROM t", "SELECT COUNT(*) FROM t WHERE {} IS NULL"])
def test_a_call_without_its_arguments_is_refused(session: dpsql.Session, sql: str, call: str) -> None:
    with pytest.raises(dpsql.Error):
        session.explain(sql.format(call), epsilon=1, max_rows=2)
