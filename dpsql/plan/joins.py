"""FROM and WHERE over private rows: which sources are joined in which order, and whether owners stay apart.

Inner joins, commas and WHERE say the same thing, so they are one pool of conditions; LEFT JOINs stay in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Expr, Filter, Join, Mark, columns_of, scanned, unit_of
from dpsql.plan.owners import one_owner, without_units
from dpsql.plan.rows import (
    PublicRows,
    Rows,
    all_of,
    apart,
    computed,
    conjuncts,
    factored,
    fresh,
    plan_column,
    renamed,
    renamed_public,
)
from dpsql.plan.unmatched import rows_without_match
from dpsql.policy.model import Policy
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import nodes_of

Expression = Callable[[Expr, Rows], Expr]  # a condition over the columns of these rows, as an expression of the plan


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """One source of a FROM and how it is joined to those before it."""

    node: Expr
    rows: Rows | PublicRows
    side: str
    on: Expr | None

    @property
    def aliases(self) -> set[str]:
        return {alias for alias, _ in self.rows.columns} | {self.node.alias_or_name}


def joined(sources: Sequence[JoinedSource], where: list[Expr], policy: Policy, expression: Expression) -> Rows:
    """All sources joined and filtered. Refuses what would match rows of two owners, or invent rows for somebody."""
    return _Joiner(policy, expression, factored(where) if len(sources) > 1 else list(where)).run(sources)


class _Joiner:
    def __init__(self, policy: Policy, expression: Expression, where: list[Expr]) -> None:
        self.policy = policy
        self.expression = expression
        self.where = where
        self.rows: Rows | None = None
        self.waiting: list[JoinedSource] = []
        self.pool: list[Expr] = []
        self.unmatched: Expr | None = None
        self.optional: list[Expr] = []  # conditions that a public row may fail and still be a group

    def run(self, sources: Sequence[JoinedSource]) -> Rows:
        for source in sources:
            match source.side:
                case "":
                    self.waiting.append(source)
                    self.pool += factored(conjuncts(source.on))
                case "LEFT" if self.is_public() and isinstance(source.rows, Rows):
                    self.preserved(source, source.node)
                case "LEFT":
                    self.flush(source)
                    self.outer(source, source.on)
                case "SEMI" | "ANTI":
                    self.flush(source)
                    self.semi(source, keep=source.side == "SEMI")
                case "RIGHT" if not self.is_public() and self.rows is None and isinstance(source.rows, PublicRows):
                    self.preserved(source, self.waiting[0].node)
                case "RIGHT":
                    self.right(source)
                case _:
                    raise refuse(
                        PrivacyError,
                        f"a {source.side} JOIN makes rows for people who have none",
                        source.node,
                        code="outer-join",
                        hint="use JOIN, or LEFT JOIN with the private table on the left",
                    )
        rows = self.flush(None)
        # A subquery in a condition adds a column to the rows that are filtered then.
        for narrows in (False, True):
            chosen = [c for c in [*self.pool, *self.where] if (c not in self.optional) is narrows]
            condition = all_of([_as_filter(self.expression(c, rows)) for c in chosen])
            if condition is not None:
                rows.relation = Filter(rows.relation, condition, narrows)
        if self.unmatched is not None:
            rows.unmatched = self.unmatched
            private = (s.aliases for s in sources if isinstance(s.rows, Rows))
            rows.private_aliases = frozenset().union(*private)
        return rows

    def is_public(self) -> bool:
        """Is there nothing private yet?"""
        return self.rows is None and not any(isinstance(s.rows, Rows) for s in self.waiting)

    def preserved(self, source: JoinedSource, private: Expr) -> None:
        """public LEFT JOIN private, without the public rows that nobody matches: whoever takes it must not miss them.

        What is left is an inner join (Theorem OWN-3).
        """
        self.unmatched = private
        self.waiting.append(source)
        self.optional += factored(conjuncts(source.on))
        self.pool += factored(conjuncts(source.on))

    def right(self, source: JoinedSource) -> None:
        """a RIGHT JOIN b is b LEFT JOIN a, where a is one source."""
        if self.rows is not None or len(self.waiting) != 1 or not isinstance(source.rows, Rows):
            raise refuse(
                PrivacyError,
                "this RIGHT JOIN can't be turned into a LEFT JOIN with the private table on the left",
                source.node,
                code="outer-join",
                hint="write it so: private LEFT JOIN other ON …",
            )
        first = self.waiting.pop()
        self.waiting.append(source)
        self.flush(None)
        self.outer(JoinedSource(first.node, first.rows, "LEFT", source.on), source.on)

    # ---------------------------------------------------------------- inner joins

    def flush(self, before: JoinedSource | None) -> Rows:
        """Join everything that waits."""
        known = self.aliases().union(*(s.aliases for s in self.waiting))
        for conjunct in list(self.where):
            if not _holds_query(conjunct) and len(_aliases(conjunct)) > 1 and _aliases(conjunct) <= known:
                self.where.remove(conjunct)
                self.pool.append(conjunct)
        if self.rows is None:
            first = next((s for s in self.waiting if isinstance(s.rows, Rows)), None)
            if first is None:
                assert before is not None
                raise rows_without_match(before.node)
            assert isinstance(first.rows, Rows)
            self.rows = first.rows
            self.waiting.remove(first)
        while self.waiting:
            self.inner(self.next_source())
        return self.rows

    def next_source(self) -> JoinedSource:
        """A private source with the same owners, else a public one that a condition connects, else any public one."""
        for source in self.waiting:
            if isinstance(source.rows, Rows) and self.owned(source):
                return source
        public = [s for s in self.waiting if isinstance(s.rows, PublicRows)]
        if len(public) < len(self.waiting):
            connected = [s for s in public if any(s.aliases & _aliases(c) for c in self.conditions(s))]
            if not connected:
                raise self.strangers(next(s for s in self.waiting if isinstance(s.rows, Rows)))
            return connected[0]
        return next((s for s in public if self.conditions(s)), public[0])

    def conditions(self, source: JoinedSource) -> list[Expr]:
        """The pool's conditions that connect a source with what is joined already."""
        known = self.aliases() | source.aliases
        return [c for c in self.pool if _aliases(c) <= known and _aliases(c) & source.aliases and not _holds_query(c)]

    def owned(self, source: JoinedSource) -> bool:
        both, added = self.beside(source)
        found = [self.expression(c, both) for c in self.conditions(source)]
        return isinstance(added, Rows) and one_owner(found, both.relation, added.relation, self.policy)

    def inner(self, source: JoinedSource) -> None:
        used = self.conditions(source)
        both, added = self.beside(source)
        conditions = [self.expression(c, both) for c in used]
        self.pool = [c for c in self.pool if c not in used]
        self.waiting.remove(source)
        self.join(both, added, "inner", conditions, source, narrows=not any(c in self.optional for c in used))

    def beside(self, source: JoinedSource) -> tuple[Rows, Rows | PublicRows]:
        """The columns of both sides, those of the source under names of their own."""
        assert self.rows is not None
        right = source.rows
        new, columns = apart(right.columns, right.relation, columns_of(self.rows.relation))
        added: Rows | PublicRows
        if isinstance(right, PublicRows):
            added = PublicRows(renamed_public(right.relation, new), columns)
        else:
            added = Rows(renamed(right.relation, new), columns)
        return Rows(self.rows.relation, {**self.rows.columns, **columns}), added

    def join(
        self,
        both: Rows,
        added: Rows | PublicRows,
        kind: str,
        conditions: list[Expr],
        source: JoinedSource,
        *,
        narrows: bool = True,
    ) -> None:
        units = self.units(both, added)
        condition = all_of(without_units(conditions, units))
        both.relation = Join(both.relation, added.relation, kind, condition, units, source.node, narrows)
        self.rows = both

    def units(self, both: Rows, added: Rows | PublicRows) -> tuple[str, str] | None:
        if isinstance(added, PublicRows):
            return None
        mine, theirs = unit_of(both.relation), unit_of(added.relation)
        assert mine is not None and theirs is not None
        return mine, theirs

    # ---------------------------------------------------------------- joins that stay in their place

    def outer(self, source: JoinedSource, on: Expr | None) -> None:
        if isinstance(
            source.rows, Rows
        ):  # a computed column is NULL without a match, whatever its expression makes of it
            source = replace(source, rows=computed(source.rows))
        both, added = self.beside(source)
        self.join(both, added, "left", self.matching(source, on, both, added), source)

    def semi(self, source: JoinedSource, *, keep: bool) -> None:
        """The rows that have a match, or have none; the source's columns are no part of the result (OWN-4)."""
        assert self.rows is not None
        both, added = self.beside(source)
        conditions = self.matching(source, source.on, both, added)
        units = self.units(both, added)
        name = fresh("mark", (*columns_of(both.relation), *columns_of(added.relation)))
        marked = Mark(both.relation, added.relation, name, all_of(without_units(conditions, units)), units)
        mark = plan_column(name)
        self.rows.relation = Filter(marked, mark if keep else exp.Not(this=mark))

    def matching(self, source: JoinedSource, on: Expr | None, both: Rows, added: Rows | PublicRows) -> list[Expr]:
        """The conditions of a join that stays in its place, with owners checked."""
        found = conjuncts(on)
        for conjunct in found:
            if _holds_query(conjunct):
                raise refuse(
                    PrivacyError,
                    f"a subquery in the condition of a {source.side} JOIN is not supported",
                    conjunct,
                    code="unsupported",
                    hint="join a derived table that is filtered already: JOIN (SELECT … WHERE …) AS q ON …",
                )
        conditions = [self.expression(c, both) for c in found]
        if isinstance(added, Rows) and not one_owner(conditions, both.relation, added.relation, self.policy):
            raise self.strangers(source)
        return conditions

    # ---------------------------------------------------------------- words

    def aliases(self) -> set[str]:
        return set() if self.rows is None else self.rows.aliases

    def strangers(self, source: JoinedSource) -> PrivacyError:
        assert self.rows is not None and isinstance(source.rows, Rows)
        left, right = scanned(self.rows.relation), scanned(source.rows.relation)
        names = f"{left.table} and {right.table}"
        if unit_of(self.rows.relation) is None or unit_of(source.rows.relation) is None:
            message = "each row is a unit of its own there, so it can't be joined to another private table"
            hint = "aggregate each private table in a CTE of its own, then join the results"
        else:
            message = f"nothing says that joined rows of {names} belong to the same unit, so one could match anybody's"
            if left.links or right.links:
                hint = "join along the links of the policy, or on columns that hold the unit on both sides"
            else:
                hint = f"join on the unit of both: {left.table}.{left.owner} = {right.table}.{right.owner}"
        return refuse(PrivacyError, message, source.on or source.node, code="join-owners", hint=hint)


def _holds_query(node: Expr) -> bool:
    return node.find(exp.Query) is not None


def _aliases(node: Expr) -> set[str]:
    return {c.table for c in nodes_of(node, exp.Column)}


def _as_filter(condition: Expr) -> Expr:
    """A condition that keeps the same rows: NULL and FALSE are one here, so `x IN (…)` is its mark and no more."""
    negated = isinstance(condition, exp.Not)
    node = condition.this.unnest() if negated else condition.unnest()
    if not node.meta.get("member"):
        return condition
    tests: list[Expr] = node.args["ifs"]
    mark: Expr = node.args["default"]
    if not negated:
        return mark.copy()  # where a value is NULL nothing equals it
    return exp.and_(exp.Not(this=mark.copy()), *(exp.Not(this=t.this.copy()) for t in tests), copy=False)
