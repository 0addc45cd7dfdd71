"""Keys whose hashes were made equal: no cap lets more of them through, in whichever way it is written (CAP-1 to CAP-3).

The engine's hash is public and can be inverted: whoever writes rows can give one person a thousand keys of one hash,
under every secret (FACT-HASH-3).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from source_kinds import KINDS
from support import cursor_of, sampled

import dpsql
from dpsql.backends.duckdb import many_rows, run
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.many_rows import Sizes
from dpsql.backends.duckdb.run import execute
from dpsql.backends.statements.ranked import fits
from dpsql.backends.statements.render import render
from dpsql.plan.nodes import Group
from dpsql.quote.model import Step

Row = tuple[int | None, int | None, int | None, float | None]
Vector = dict[Any, int]
ALL, ODD = 2**64 - 1, 0xD6E8FEB86659FD93
EVIL = 77
CROWD: list[Row] = [(i, (i + j) % 5, j % 3, float(i % 7)) for i in range(30) for j in range(1 + i % 9)]
QUERIES = [
    "SELECT a, b, COUNT(*), SUM(x) FROM t GROUP BY a, b",
    "SELECT a, b, COUNT(x), COUNT(*) FILTER (WHERE x > 1), AVG(x) FROM t GROUP BY a, b",
    "SELECT DISTINCT a, b FROM t",
    "SELECT a, b, COUNT(DISTINCT id) FROM t GROUP BY a, b",
]
LIMITS: list[dict[str, Any]] = [
    {"max_groups": 1, "max_rows": 3, "mechanism": "laplace"},
    {"max_groups": 3, "max_rows": 7, "mechanism": "gaussian"},
    {"max_groups": 3, "max_rows": 2, "mechanism": "gaussian"},
    {"max_groups": 4, "max_rows": 2**31, "mechanism": "gaussian"},
]
WAYS: dict[str, bool | Sizes] = {
    "by unit and key": False,
    "sorted": True,
    "uncut apart": Sizes(few=-1, shares=0),
    "uncut apart, in parts": Sizes(few=-1, capped=40, shares=0),
    "sorted in parts": Sizes(few=-1, capped=40, shares=10**9),
    "as many as there are": Sizes(few=-1, capped=100),
}
"""How a cap is written: as one statement, by a sort or not; or as several, whatever the number of rows."""


def unhashed(y: int) -> int:
    """The integer with this hash."""
    inverse = pow(ODD, -1, 2**64)
    y ^= y >> 32
    for _ in range(2):
        y = y * inverse & ALL
        y ^= y >> 32
    return y - 2**64 if y >= 2**63 else y


def clashing(count: int, unit: int = EVIL) -> list[tuple[int, int]]:
    """So many pairs of keys that have one hash for this unit: the last column's is only xored in (FACT-HASH-1)."""
    engine = duckdb.connect()
    rows = engine.execute(
        f"SELECT a, xor(hash({unit}::BIGINT, a, 0::BIGINT), hash(0::BIGINT)) FROM range({count}) AS r(a) ORDER BY a"
    ).fetchall()
    target = rows[0][1]
    pairs = [(a, unhashed(target ^ others)) for a, others in rows]
    made = ", ".join(f"({a}, {b})" for a, b in pairs)
    found = engine.execute(
        f"SELECT DISTINCT hash({unit}::BIGINT, a::BIGINT, b::BIGINT) FROM (VALUES {made}) AS v(a, b)"
    )
    assert len(found.fetchall()) == 1 and len(set(pairs)) == count
    return pairs


def table(rows: Sequence[Row]) -> pa.Table:
    kinds = {"id": pa.int64(), "a": pa.int64(), "b": pa.int64(), "x": pa.float64()}
    return pa.table({name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def policy(adjacency: str, **source: Any) -> dpsql.Policy:
    types = {"id": "BIGINT", "a": "BIGINT", "b": "BIGINT", "x": "DOUBLE"} if source else {}  # a CSV file has none
    columns: dict[str, dict[str, Any]] = {name: {"type": kind} for name, kind in types.items()}
    columns["x"] = {**columns.get("x", {}), "min": 0, "max": 10}
    entry = {"unit": "id", "columns": columns, **source}
    privacy = {"adjacency": adjacency, "limits_share": 0}
    return dpsql.Policy.from_dict(
        {"budget": {"epsilon": 1000, "delta": 1e-4}, "privacy": privacy, "tables": {"t": entry}}
    )


def opened(adjacency: str = "add_remove", rows: Sequence[Row] = CROWD) -> dpsql.Session:
    return dpsql.connect(policy(adjacency), sources={"t": table(rows)}, ledger=":memory:")


def capped(session: dpsql.Session, sql: str, limits: dict[str, Any]) -> Step:
    (step,) = session.explain(sql, epsilon=1, delta="1e-6", **limits).steps
    assert isinstance(step.statement, Group) and fits(step.statement)
    return step


def integers(session: dpsql.Session, step: Step, rows: Sequence[Row] | None, way: str) -> dict[Any, Any]:
    """What the statement finds for each key, written in one way or another; None: of the session's own rows."""
    cursor, how = cursor_of(session), WAYS[way]
    if rows is not None:
        cursor.register("t", table(rows))
    if isinstance(how, Sizes):
        result = many_rows.capped(step.statement, {"t"}, cursor, how)
        found = [tuple(int(v) if isinstance(v, Decimal) else v for v in row.values()) for row in result.to_pylist()]
    else:
        _, found = cursor.rows(text_of(render(step.statement, ranks=how)))
    cursor.close()
    keys = len(step.checked.keys)
    return {row[:keys]: row[keys:] for row in found}


def person(keys: Sequence[tuple[int | None, int | None]], rows: int = 2) -> list[Row]:
    return [(EVIL, a, b, float(i)) for a, b in keys for i in range(rows)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.sample(6)
def test_a_thousand_keys_of_one_hash_are_cut_like_any_others(limits: dict[str, Any], way: str) -> None:
    with opened() as session:
        step = capped(session, QUERIES[0], limits)
        others = integers(session, step, CROWD, way)
        for keys in (clashing(1000), [*clashing(40), *((a, 0) for a in range(10**6, 10**6 + 40))]):
            found = integers(session, step, [*CROWD, *person(keys)], way)
            mine = [key for key in found if key not in others or found[key] != others[key]]
            assert len(mine) == limits["max_groups"]
            assert set(others) <= set(found)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.sample(2)
def test_all_ways_to_write_a_cap_find_the_same_integers(sql: str, limits: dict[str, Any]) -> None:
    dice = Random(8)
    some = [None, 0, 1, 2, 3]
    odd: list[Row] = [
        (
            dice.choice([*range(6), None]),
            dice.choice(some),
            dice.choice(some),
            dice.choice([None, 1.0, 5.0, float("nan")]),
        )
        for _ in range(400)
    ]
    odd += [(50, 1, 1, 5.0), (50, 1, 1, 1.0), (51, None, 2, 1.0), (51, 2, 2, None), (51, None, 2, 5.0)]  # few rows
    clash = clashing(12)
    people = [[], person(clash), person([*clash, (3, None), (None, None), (1, 2)], rows=3), person([(5, 5)], rows=90)]
    with opened() as session:
        step = capped(session, sql, limits)
        for rows in ([], CROWD, *([*odd, *rows] for rows in people)):
            expected, *others = (integers(session, step, rows, way) for way in WAYS)
            assert all(found == expected for found in others)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", sampled(KINDS, 4))
@pytest.mark.parametrize("sizes", [None, Sizes(few=-1, shares=0), Sizes(few=-1, capped=40, shares=0)])
@pytest.mark.sample(4)
def test_nobody_moves_what_gets_noise_by_more_than_is_claimed(
    kind: str, adjacency: str, sizes: Sizes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, for each source, with people whose keys clash."""
    if sizes is not None:
        monkeypatch.setattr(run, "capped", partial(many_rows.capped, sizes=sizes))
    people = [person(clashing(30)), person([(a, 0) for a in range(100, 140)]), person([(1, 1)])]
    step: Step | None = None
    found: list[list[Vector]] = []
    for n, rows in enumerate(([], *people)):
        (tmp_path / str(n)).mkdir()
        placed = KINDS[kind](table([*CROWD, *rows]), tmp_path / str(n))
        lent = None if placed.object is None else {"t": placed.object}
        with dpsql.connect(policy(adjacency, **placed.entry), sources=lent, ledger=":memory:") as session:
            step = step or capped(session, QUERIES[0], LIMITS[1])  # one secret for all of them
            found.append(vectors(session, step))
    assert step is not None and step.selection is not None
    pairs = [(a, b) for a in found[1:] for b in (found[:1] if adjacency == "add_remove" else found[1:])]
    for i, m in enumerate(step.measurements):
        l1, l2 = zip(*(moved(a[i], b[i]) for a, b in pairs), strict=True)
        assert max(l1) <= m.sensitivity.l1 and max(l2) <= m.sensitivity.l2_squared
        if i == step.selection.measurement:  # attained: a claim a tenth smaller would be false
            assert max(l2) > Fraction(9, 10) * m.sensitivity.l2_squared


def vectors(session: dpsql.Session, step: Step) -> list[Vector]:
    """What gets noise, for each measurement of a step: by column and key."""
    cursor = cursor_of(session)
    exact = execute(step, cursor, again={"t"})
    cursor.close()
    keys = [tuple(row.values()) for row in exact.cells.to_pylist()]
    made = [m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies]) for m in step.measurements]
    return [{(i, k): int(n) for i, c in enumerate(cs) for k, n in zip(keys, c, strict=True)} for cs in made]


def moved(one: Vector, other: Vector) -> tuple[int, int]:
    """How far two vectors are apart: ℓ₁ and ℓ₂²."""
    apart = [one.get(key, 0) - other.get(key, 0) for key in {*one, *other}]
    return sum(map(abs, apart)), sum(d * d for d in apart)
