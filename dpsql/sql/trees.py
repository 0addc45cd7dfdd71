"""Rewriting trees without changing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

Tree = TypeVar("Tree", bound=exp.Expr)
Node = TypeVar("Node", bound=exp.Expr)
Rewrite = Callable[[exp.Expr], exp.Expr]

_CHAINS = (exp.And, exp.Or, exp.Add, exp.Mul, exp.DPipe)  # (a + b) + c is written as a + b + c
_LOGIC = (exp.And, exp.Or)
_OPERATORS = (
    *_CHAINS, exp.Sub, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.Not, exp.Is, exp.Between, exp.In,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.Collate, exp.AtTimeZone,
    exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift,
)  # fmt: skip
_KINDS: dict[type, bool] = {}  # which are operators: to look through the list takes its time


def _is_operator(node: object) -> bool:
    kind = type(node)
    if kind not in _KINDS:
        _KINDS[kind] = isinstance(node, _OPERATORS)
    return _KINDS[kind]


def nodes(tree: exp.Expr) -> list[exp.Expr]:
    """All nodes of a tree in the order of `walk`, parents before their children: as they are now, and much sooner."""
    found = [tree]
    for node in found:
        if node.is_primitive:  # a name or a literal, as every other node is: it holds no others
            continue
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                found.append(value)
            elif value.__class__ is list:
                found += [one for one in value if isinstance(one, exp.Expr)]
    return found


def nodes_of(tree: exp.Expr, *kinds: type[Node]) -> list[Node]:
    """The nodes of these kinds in a tree, in the order of `find_all`."""
    return [node for node in nodes(tree) if isinstance(node, kinds)]


def holds(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Is a node of these kinds in a tree? Much sooner than `find` knows it."""
    return any(isinstance(node, kinds) for node in nodes(tree))


def copied(tree: Tree) -> Tree:
    """A tree of one's own, as `copy` makes it, but places and types are not copied deeply: that takes most of it."""
    root = _bare(tree, None, None, None)
    waiting: list[exp.Expr] = [root]
    while waiting:
        copy = waiting.pop()
        args = copy.args
        for key, value in args.items():
            if isinstance(value, exp.Expr):
                args[key] = child = _bare(value, copy, key, None)
                if not child.is_primitive:
                    waiting.append(child)
            elif value.__class__ is list:
                args[key] = listed = list(value)
                for index, one in enumerate(value):
                    if isinstance(one, exp.Expr):
                        listed[index] = child = _bare(one, copy, key, index)
                        waiting.append(child)
    return root


def _bare(node: Tree, parent: exp.Expr | None, key: str | None, index: int | None) -> Tree:
    """A node of the same kind at this place, with what is known of it; what it holds is still the other's."""
    made = node.__class__.__new__(node.__class__)
    made.args = dict(node.args)
    made.parent, made.arg_key, made.index = parent, key, index
    made.comments = None if node.comments is None else list(node.comments)
    made._type, made._hash = node._type, None
    made._meta = dict(node._meta) if node._meta else None
    return made


def rebuilt(node: exp.Expr, rewrite: Rewrite) -> exp.Expr:
    """A new node of the same kind, with each child replaced by what `rewrite` gives for it."""
    copy = type(node)()
    copy.meta.update(node.meta)
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, rewrite(value))
        elif isinstance(value, list):
            copy.set(key, [rewrite(v) if isinstance(v, exp.Expr) else v for v in value])
        else:
            copy.set(key, value)
    return copy


def replaced(tree: exp.Query, kinds: tuple[type[exp.Expr], ...], rewrite: Rewrite) -> exp.Query:
    """The query with each node of these kinds replaced by what `rewrite` gives for it, the inner ones first.

    `rewrite` gives a node as it is, or a new one that shares nothing with it. The query itself is never changed.
    """
    if all(rewrite(node) is node for node in nodes_of(tree, *kinds)):
        return tree
    copy = copied(tree)
    for node in reversed(nodes_of(copy, *kinds)):  # parents come before their children there
        new = rewrite(node)
        if node is copy:
            assert isinstance(new, exp.Query)
            copy = new
        elif new is not node:
            node.replace(new)
    return copy


def as_written(node: exp.Expr) -> exp.Expr:
    """BOOL_AND and BOOL_OR without the casts that sqlglot adds to them, which would show in the names of columns."""

    def plain(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.LogicalAnd | exp.LogicalOr) and isinstance(e.this, exp.Expr):
            name = "bool_and" if isinstance(e, exp.LogicalAnd) else "bool_or"
            return exp.Anonymous(this=name, expressions=[e.this.copy()])
        return e

    return node.transform(plain) if node.find(exp.LogicalAnd, exp.LogicalOr) else node


def explicit(tree: Tree, *, copy: bool = True, calls: Callable[[exp.Anonymous], None] | None = None) -> Tree:
    """A tree with parentheses around each operand that is an operation itself.

    calls is shown each call of a function by name, and may replace it.

    A tree that was put together from parts is not always what its text says: (a − b) times c would be a − b * c.
    """
    tree = copied(tree) if copy else tree
    for node in nodes(tree):
        if _is_operator(node):
            for key in ("this", "expression", "low", "high"):
                operand = node.args.get(key)
                chained = type(operand) is type(node) and isinstance(node, _LOGIC if key == "expression" else _CHAINS)
                if _is_operator(operand) and not chained:
                    node.set(key, exp.Paren(this=operand))
        elif calls is not None and isinstance(node, exp.Anonymous):
            calls(node)
    return tree
