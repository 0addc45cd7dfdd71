"""Attacks by values of Python objects (attack 37): one person's value must decide no type, no refusal and no schema.

The neighbours are frames with and without one value of one person, n77; what an analyst sees of each is compared.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import Connect

import dpsql

VALUES: list[Any] = [
    "n77", b"n77", b"\xff", True, 7, -(2**70), 10**5000, 1.5, float("inf"), Decimal("1.25"), Decimal("sNaN"),
    np.int8(3), np.float32(2.5), np.datetime64("2020-02-02"), date(2020, 2, 2), datetime(2020, 2, 2, tzinfo=UTC),
    datetime(2020, 2, 2), time(1, 2), timedelta(1), pd.NaT, pd.NA, pd.Timestamp("1700-01-01"), {"n77": 1}, [1, 2],
    ("a", 1), {1}, uuid.UUID(int=7), 1 + 2j, object(), "\ud800", "1e400",
]  # fmt: skip
TYPES = ("VARCHAR", "DATE", "BIGINT", "BOOLEAN", "DOUBLE", "TIMESTAMP", "DECIMAL(9,2)")


def frame(*values: Any, dtype: Any = object) -> pd.DataFrame:
    made = pd.Series([None] * len(values), dtype=object)
    for place, value in enumerate(values):
        made.iat[place] = value
    return pd.DataFrame({"id": range(len(values)), "x": made.astype(dtype)})


def seen(connect: Connect, data: pd.DataFrame, **columns: Any) -> tuple[object, ...]:
    """What an analyst sees: the schema, or why there is none, and what an answer costs and is called."""
    policy = {"tables": {"t": {"unit": "row", "columns": columns}}}
    try:
        session = connect({"t": data}, policy)
    except dpsql.Error as error:
        return (type(error), str(error))
    answer = session.query(f'SELECT COUNT(*), COUNT("{data.columns[-1]}") FROM t', epsilon=1)
    return tuple(session.query("DESCRIBE t").rows), answer.cost, tuple(answer.columns)


def test_no_value_of_a_pinned_column_of_objects_changes_what_is_seen(connect: Connect) -> None:
    def pinned(value: Any) -> tuple[object, ...]:
        one = frame(value, "a")["x"]
        data = pd.DataFrame({type_.lower(): one for type_ in TYPES})
        return seen(connect, data, **{type_.lower(): {"type": type_} for type_ in TYPES})

    without = pinned(None)
    assert all(type_ in str(without[0]) for type_ in TYPES)
    for value in VALUES:
        assert pinned(value) == without, repr(value)[:50]


def test_a_column_of_objects_is_text_or_refused_whoever_is_in_it(connect: Connect) -> None:
    """Whether a source can be opened at all is a public fact; that, and nothing else, is seen of another value."""
    text = seen(connect, frame(None, None))
    refused = set()
    for value in VALUES:
        found = seen(connect, frame(value, None))
        if found != text:
            refused.add(found)
    assert seen(connect, frame("n77", None)) == text and "VARCHAR" in str(text)
    assert {kind for kind, _ in refused} <= {dpsql.PolicyError, dpsql.DataError}
    said = {str(words) for kind, words in refused if kind is dpsql.PolicyError}
    assert len(said) == 1 and "n77" not in said.pop()


def test_a_refusal_names_every_column_of_objects_and_not_the_one_that_differs(connect: Connect) -> None:
    said = set()
    for first, second in [("a", 7), (7, "a"), (7, date(2020, 1, 1))]:
        data = frame("a", first).assign(y=frame("b", second)["x"])
        kind, words = seen(connect, data)
        said.add(words)
        assert kind is dpsql.PolicyError and "x, y" in str(words) and "type" in str(words)
    assert len(said) == 1


@pytest.mark.parametrize("value", ["n77", date(2020, 2, 2), 7])
def test_categories_that_one_person_brings_make_no_type(value: Any, connect: Connect) -> None:
    without = seen(connect, frame(None, None, dtype=pd.CategoricalDtype(pd.Index([], dtype=object))))
    brought = pd.CategoricalDtype(pd.Index([value], dtype=object))
    found = seen(connect, frame(value, None, dtype=brought))
    assert found == without if value == "n77" else found[0] is dpsql.PolicyError


MISSING_ONE = {
    "BIGINT": ([1, 2], [1, None]),
    "BOOLEAN": ([True, False], [True, None]),
    "VARCHAR": ([1, 2], [1, None]),
    "DECIMAL(9,2)": ([1, 2], [1, None]),
    "": ([1, 2], [1, None]),
    "no type of booleans": ([True, False], [True, None]),
}


@pytest.mark.parametrize("case", MISSING_ONE)
@pytest.mark.parametrize("category", [False, True])
def test_a_missing_value_makes_no_type_of_what_pandas_types_by_its_rows(
    case: str, category: bool, connect: Connect
) -> None:
    """Integers are floats as soon as one of them is missing, and booleans objects."""
    frames = [pd.DataFrame({"id": [1, 2], "x": values}) for values in MISSING_ONE[case]]
    assert frames[0].dtypes["x"] != frames[1].dtypes["x"]
    if category:
        frames = [one.assign(x=one["x"].astype("category")) for one in frames]
    columns = {"x": {"type": case}} if case in TYPES else {}
    one, other = (seen(connect, frame, **columns) for frame in frames)
    assert one == other
    assert (one[0] is dpsql.PolicyError) == (case == "no type of booleans")
    if case in ("VARCHAR", ""):
        text = [
            connect({"t": frame}, {"tables": {"t": {"unit": "row", "columns": columns}}})
            .query("SELECT COUNT(*) FILTER (CAST(x AS VARCHAR) = '1.0') FROM t", epsilon=10**4)
            .rows
            for frame in frames
        ]
        assert text == [[(1,)], [(1,)]]


@pytest.mark.parametrize("kind", ["BIGINT", "HUGEINT", "DECIMAL(20,0)"])
@pytest.mark.parametrize("value", [2**53 - 1, 1 - 2**53, 2**53, 2**53 + 1, -(2**53) - 1, 2**62])
def test_a_missing_value_changes_no_number_of_others(value: int, kind: str, connect: Connect) -> None:
    """Numpy's floats, which pandas makes of whole numbers where one is missing, hold one of these for two."""
    policy = {"budget": {"epsilon": 10**9}, "tables": {"t": {"unit": "row", "columns": {"x": {"type": kind}}}}}
    count, seen = f"SELECT COUNT(*) FROM t WHERE x = {value}", list[object]()
    for last in (7, None):
        data = pd.DataFrame({"id": range(41), "x": [value] * 40 + [last]})
        assert data["x"].dtype == ("int64" if last else "float64")
        try:
            seen.append(connect({"t": data}, policy).query(count, epsilon=10**6).rows)
        except dpsql.DataError as refused:
            seen.append(refused.code)
    assert seen == ([[(40,)]] * 2 if abs(value) < 2**53 else ["bad-source"] * 2)
    whole = pd.DataFrame({"id": range(41), "x": pd.array([value] * 40 + [None], dtype="Int64")})
    assert connect({"t": whole}, policy).query(count, epsilon=10**6).rows == [(40,)]


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "int64[pyarrow]", "string"])
def test_a_dtype_that_knows_missing_values_keeps_its_type(dtype: str, connect: Connect) -> None:
    values = [True, False] if dtype == "boolean" else ["a", "b"] if dtype == "string" else [1, 2]
    one, other = (pd.DataFrame({"id": [1, 2], "x": pd.array(v, dtype=dtype)}) for v in (values, [values[0], None]))
    assert seen(connect, one) == seen(connect, other)
    types = {"Int64": "BIGINT", "boolean": "BOOLEAN", "string": "VARCHAR", "int64[pyarrow]": "BIGINT"}
    assert types[dtype] in str(seen(connect, one))


@pytest.mark.parametrize(
    ("values", "column", "sql", "answer"),
    [
        (
            [date(2020, 1, 1), None, datetime(2021, 5, 5)],
            {"type": "DATE", "min": date(2020, 1, 1), "max": date(2021, 12, 31)},
            "SELECT COUNT(*), COUNT(x), COUNT(*) FILTER (x > DATE '2021-01-01') FROM t",
            (3, 2, 1),
        ),
        (
            [Decimal("1.25"), 7, float("nan"), "n77", {"n77": 1}],
            {"type": "DECIMAL(9, 2)", "min": 0, "max": 10},
            "SELECT COUNT(*), COUNT(x), SUM(x) FROM t",
            (5, 2, Decimal("8.25")),
        ),
    ],
)
def test_pinned_objects_are_read_value_by_value(
    values: list[Any], column: Mapping[str, Any], sql: str, answer: tuple[Any, ...], connect: Connect
) -> None:
    session = connect({"t": frame(*values)}, {"tables": {"t": {"unit": "row", "columns": {"x": column}}}})
    assert session.query(sql, epsilon=10**6).rows == [pytest.approx(answer)]


def test_pins_hold_for_public_objects_as_for_public_files(connect: Connect) -> None:
    labels = pd.DataFrame({"k": pd.Series([1, 2], dtype=object), "label": ["one", "two"]})
    tables = {
        "labels": {"public": True, "columns": {"k": {"type": "BIGINT"}}},
        "t": {"unit": "row", "columns": {"k": {"type": "BIGINT", "references": "labels.k"}}},
    }
    session = connect({"labels": labels, "t": pd.DataFrame({"k": [1, 1, 2]})}, {"tables": tables})
    sql = "SELECT label, COUNT(*) FROM t JOIN labels USING (k) GROUP BY label"
    assert session.query(sql, epsilon=10**6).rows == [("one", 2), ("two", 1)]


def test_units_of_a_numpy_column_need_a_type_and_the_refusal_says_which(connect: Connect) -> None:
    data = pd.DataFrame({"id": [1, 2], "x": [1, 2]})
    with pytest.raises(dpsql.PolicyError) as error:
        connect({"t": data}, {"tables": {"t": {"unit": "id"}}})
    assert error.value.code == "unit-type" and 'type = "BIGINT"' in str(error.value)
    with connect({"t": data}, {"tables": {"t": {"unit": "id", "columns": {"id": {"type": "BIGINT"}}}}}) as session:
        assert session.query("SELECT COUNT(DISTINCT id) FROM t", epsilon=10**6, max_rows=1).rows == [(2,)]
