"""Trees say in writing what they are."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from dpsql.sql.trees import copied, explicit

A, B, C = (exp.column(n, quoted=True) for n in "abc")


def made(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return kind(this=left.copy(), expression=right.copy())


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (made(exp.Mul, made(exp.Sub, A, B), C), '("a" - "b") * "c"'),
        (made(exp.Sub, A, made(exp.Sub, B, C)), '"a" - ("b" - "c")'),
        (made(exp.And, made(exp.Or, A, B), C), '("a" OR "b") AND "c"'),
        (made(exp.EQ, made(exp.EQ, A, B), C), '("a" = "b") = "c"'),
        (made(exp.Add, made(exp.Add, A, B), C), '"a" + "b" + "c"'),
        (made(exp.And, A, made(exp.And, B, C)), '"a" AND "b" AND "c"'),
        (exp.Not(this=exp.Is(this=exp.Not(this=A.copy()), expression=exp.Null())), 'NOT ((NOT "a") IS NULL)'),
        (exp.Between(this=made(exp.Add, A, B), low=C.copy(), high=made(exp.And, A, B)),
         '("a" + "b") BETWEEN "c" AND ("a" AND "b")'),
    ],
)  # fmt: skip
def test_an_operand_that_is_an_operation_gets_parentheses(tree: exp.Expr, text: str) -> None:
    assert explicit(tree).sql(dialect="duckdb") == text


def test_a_long_chain_stays_flat() -> None:
    chain = exp.and_(*(exp.column(f"c{i}") for i in range(3_000)), copy=False)
    assert "(" not in explicit(chain).sql(dialect="duckdb")


def test_a_pattern_keeps_its_escape() -> None:
    tree = exp.Escape(this=exp.Like(this=exp.Literal.string("a_b"), expression=exp.Literal.string("a!_b")),
                      expression=exp.Literal.string("!"))  # fmt: skip
    assert duckdb.execute(f"SELECT {explicit(tree).sql(dialect='duckdb')}").fetchall() == [(True,)]


def test_a_copied_tree_is_the_same_tree_and_shares_no_node() -> None:
    tree = sqlglot.parse_one(
        "SELECT a /* why */, CAST(b AS DECIMAL(9, 2)) + 1, COUNT(*) FILTER (WHERE c IN (1, 2)) FROM t GROUP BY ALL",
        dialect="duckdb",
    )
    tree.find(exp.Column).meta["start"] = 7  # type: ignore[union-attr]  # there is one
    copy, reference = copied(tree), tree.copy()
    assert copy == tree and copy.sql("duckdb") == reference.sql("duckdb")
    for mine, theirs in zip(copy.walk(), reference.walk(), strict=True):
        assert (type(mine), mine.arg_key, mine.index, mine.meta) == (
            type(theirs),
            theirs.arg_key,
            theirs.index,
            theirs.meta,
        )
        assert mine is copy or mine.parent is not None
        assert type(mine.parent) is type(theirs.parent) and mine.comments == theirs.comments
        assert mine.type == theirs.type
    assert not {id(node) for node in tree.walk()} & {id(node) for node in copy.walk()}
    copy.find(exp.Column).meta["start"] = 8  # type: ignore[union-attr]
    assert tree.find(exp.Column).meta["start"] == 7  # type: ignore[union-attr]
