"""Statements (backends/statements) -> Spark's SQL. What a column is, is known at every place: types are never guessed.

A statement of ours is made of few kinds of clauses; one that isn't listed here is refused. Texts of the query become
parameters, so that none of them is ever parsed by Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent

from sqlglot import exp

from dpsql.backends.base import SECRET
from dpsql.backends.spark.aggregates import aggregate, window
from dpsql.backends.spark.expressions import Expressions
from dpsql.backends.spark.moments import MOMENTS
from dpsql.backends.spark.numbers import NUMBERS
from dpsql.backends.spark.texts import TEXTS
from dpsql.backends.spark.values import Value, common, lacks, name_of, value
from dpsql.backends.statements.bounding import HEAVY, VOTERS
from dpsql.backends.statements.rows import CELLS
from dpsql.core.types import BIGINT, BOOLEAN, NULL, VARCHAR
from dpsql.quote.refined import LISTED

SPELLINGS = {**NUMBERS, **TEXTS, **MOMENTS}
ROW = "dpsql row"  # where a row is: its file and its place there
HASH, XOR = "hash", "xor"
ONE_EACH = (HEAVY, VOTERS, CELLS, LISTED)  # a row has at most one match in these: each value is there once

CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "distinct", "kind", "hint",
    "distribute",
}  # fmt: skip
Columns = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Table:
    """A view that statements read: what Spark calls it, its columns, and how many rows it has where that is known.

    bucketed: rows of a unit are in one place already (Theorem BUCKET-1). skewed: some units have very many groups.
    """

    view: str
    columns: Columns
    rows: int | None = None
    bucketed: bool = False
    skewed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A statement's text, the texts of the query that it takes as parameters, and what its columns are."""

    sql: str
    parameters: Mapping[str, str]
    columns: Columns


def write(query: exp.Query, tables: Mapping[str, Table]) -> Text:
    """A statement over these tables. Refuses what Spark can't compute, with an SQLError."""
    parameters: dict[str, str] = {}
    sql, columns = _Writer(tables, parameters).query(query)
    return Text(sql, {name: said for said, name in parameters.items()}, columns)


@dataclass(slots=True)
class _Source:
    alias: str
    columns: Columns
    is_scan: bool = False  # is it a table itself?


@dataclass(slots=True)
class _Writer:
    """Writes one query. Its FROM and JOINs say what names mean; an outer query's do where these don't."""

    tables: Mapping[str, Table]
    parameters: dict[str, str]
    outer: _Writer | None = None
    sources: list[_Source] = field(default_factory=list)
    grouped: bool = False

    # ---------------------------------------------------------------- clauses

    def query(self, query: exp.Expr) -> tuple[str, Columns]:
        if isinstance(query, exp.Subquery):
            return self.query(query.this)
        with_ = query.args.get("with_")
        if with_ is not None:
            return self._with(query, with_.expressions)
        if isinstance(query, exp.Union):
            return self._union(query)
        if not isinstance(query, exp.Select):
            raise lacks(query.key.upper())
        return _Writer(self.tables, self.parameters, self.outer)._select(query)

    def _with(self, query: exp.Expr, parts: Sequence[exp.CTE]) -> tuple[str, Columns]:
        known, texts = dict(self.tables), []
        for part in parts:
            sql, columns = _Writer(known, self.parameters, self.outer).query(part.this)
            texts.append(f"{name_of(part.alias)} AS (\n{indent(sql, '  ')}\n)")
            known[part.alias] = Table(part.alias, columns)
        bare = query.copy()
        bare.set("with_", None)
        sql, columns = _Writer(known, self.parameters, self.outer).query(bare)
        return f"WITH {', '.join(texts)}\n{sql}", columns

    def _union(self, query: exp.Union) -> tuple[str, Columns]:
        if query.args.get("distinct"):
            raise lacks("UNION")
        sides = [self.query(query.this), self.query(query.expression)]
        first, second = sides[0][1], sides[1][1]
        if list(first) != list(second):
            raise lacks("a UNION of several lists of columns")
        both = {n: _either(first[n], second[n]) for n in first}
        return "\nUNION ALL\n".join(f"(\n{indent(s, '  ')}\n)" for s, _ in sides), both

    def _select(self, query: exp.Select) -> tuple[str, Columns]:
        extra = [k for k, v in query.args.items() if v and k not in CLAUSES]
        if extra:
            raise lacks(extra[0].upper())
        lines = [f"FROM {self._source(query.args['from_'].this)}"]
        lines += [self._join(join) for join in query.args.get("joins") or ()]
        if where := query.args.get("where"):
            lines.append(f"WHERE {self._expressions()(where.this).text}")
        group = query.args.get("group")
        if group is not None:
            self.grouped = True
            lines.append("GROUP BY " + ", ".join(self._expressions()(e).text for e in group.expressions))
        if having := query.args.get("having"):
            lines.append(f"HAVING {self._expressions()(having.this).text}")
        outputs = dict(self._outputs(query.expressions))
        listed = ", ".join(f"{v.text} AS {name_of(name)}" for name, v in outputs.items())
        qualify = query.args.get("qualify")
        head = "SELECT DISTINCT" if query.args.get("distinct") else "SELECT"
        if hint := query.args.get("hint"):  # our own: a comment of an analyst's is in no tree
            (call,) = hint.expressions
            head += f" /*+ {call.this}({', '.join(name_of(e.name) for e in call.expressions)}) */"
        if qualify is not None:
            listed += f", {self._expressions()(qualify.this).text} AS `dpsql kept`"
        text = "\n".join([f"{head} {listed}", *lines])
        found = {name: v.named(name_of(name)) for name, v in outputs.items()}
        if qualify is not None:
            text = f"SELECT {', '.join(map(name_of, outputs))} FROM (\n{indent(text, '  ')}\n) AS q WHERE `dpsql kept`"
        if distribute := query.args.get("distribute"):
            by = ", ".join(name_of(e.name) for e in distribute.expressions)
            text += f"\nDISTRIBUTE BY {by}"
        if order := query.args.get("order"):
            text += "\nORDER BY " + ", ".join(self._ordered_output(o, outputs) for o in order.expressions)
        return text, found

    def _ordered_output(self, node: exp.Ordered, outputs: Columns) -> str:
        assert isinstance(node.this, exp.Column) and node.this.name in outputs and not node.args.get("desc")
        return f"{name_of(node.this.name)} ASC NULLS LAST"

    def _source(self, node: exp.Expr) -> str:
        alias = node.alias
        if isinstance(node, exp.Table):
            table = self.tables[node.name]
            called = alias or node.name
            self.sources.append(_Source(called, table.columns, is_scan=table.view != node.name))
            return f"{name_of(table.view)} AS {name_of(called)}"
        sql, columns = _Writer(self.tables, self.parameters, self.outer).query(node)
        self.sources.append(_Source(alias, columns))
        return f"(\n{indent(sql, '  ')}\n) AS {name_of(alias)}"

    def _join(self, join: exp.Join) -> str:
        kind = str(join.args.get("side") or join.args.get("kind") or "INNER").upper()
        words = {"SEMI": "LEFT SEMI", "ANTI": "LEFT ANTI"}
        other = self._source(join.this)
        on = join.args.get("on")
        text = f"{words.get(kind, kind)} JOIN {other}" + (
            f" ON {self._expressions()(on).text}" if on is not None else ""
        )
        if kind in ("SEMI", "ANTI"):
            self.sources.pop()
        elif join.this.alias_or_name not in ONE_EACH:  # rows are repeated, and with them what was summed before
            for source in self.sources:
                source.columns = {n: replace(v, each=None) for n, v in source.columns.items()}
        return text

    def _outputs(self, expressions: Sequence[exp.Expr]) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        for e in expressions:
            if isinstance(e, exp.Star) or (isinstance(e, exp.Column) and isinstance(e.this, exp.Star)):
                of = [s for s in self.sources if isinstance(e, exp.Star) or s.alias == e.table]
                found += [(n, v.named(f"{name_of(s.alias)}.{name_of(n)}")) for s in of for n, v in s.columns.items()]
            else:
                found.append((e.alias_or_name or "1", self._expressions()(e.this if isinstance(e, exp.Alias) else e)))
        return found

    # ---------------------------------------------------------------- names

    def _expressions(self) -> Expressions:
        return Expressions(self, SPELLINGS)

    def column(self, node: exp.Column) -> Value:
        """A column by its name, here or in the query around this one."""
        for source in self.sources:
            name = node.name.lower() if source.is_scan else node.name  # a table's own names are of any case
            if name in source.columns and node.table in ("", source.alias):
                return source.columns[name].named(f"{name_of(source.alias)}.{name_of(name)}")
        if self.outer is None:
            raise lacks(f"the column {node.name}", "write it in a type that Spark and DuckDB both read, once")
        return self.outer.column(node)

    def parameter(self, text: str) -> str:
        """A text of the query, by the name of its parameter."""
        return ":" + self.parameters.setdefault(text, f"p{len(self.parameters)}")

    def special(self, node: exp.Expr, writer: Expressions) -> Value | None:
        """What stands in statements beside total forms: aggregates, windows, hashes, questions about other rows."""
        match node:
            case exp.Window() if isinstance(node.this, exp.RowNumber) and not node.args.get("order"):
                return self._numbered(node)
            case exp.Window():
                return window(writer, node)
            case exp.Exists():
                return value(f"EXISTS (\n{indent(self._inner(node.this), '  ')}\n)", BOOLEAN)
            case exp.In() if node.args.get("query"):
                return self._member(writer, node)
            case exp.Anonymous() if str(node.this).lower() == HASH:
                return self._hashed(writer, node)
        return aggregate(writer, node, grouped=self.grouped)

    def _inner(self, query: exp.Expr) -> str:
        return _Writer(self.tables, self.parameters, self).query(query)[0]

    def _numbered(self, node: exp.Window) -> Value:
        """Rows that are only numbered: of a table, by their file and place; of other rows, in their own order.

        No number may change when a task is tried again, as that of any row by itself does.
        """
        (source,) = self.sources
        if source.is_scan:
            return Value(f"{name_of(source.alias)}.{name_of(ROW)}", VARCHAR)
        order = ", ".join(f"{name_of(source.alias)}.{name_of(n)} ASC NULLS LAST" for n in source.columns)
        return Value(f"CAST(ROW_NUMBER() OVER (ORDER BY {order}) AS BIGINT)", BIGINT, 1, 2**40)

    def _member(self, writer: Expressions, node: exp.In) -> Value:
        """x IN (SELECT …), NULL as SQL has it, of questions that never are: Spark's own is FALSE there."""
        listed = node.args["query"].this
        (theirs,) = listed.expressions
        equal = listed.copy().where(exp.EQ(this=theirs.copy(), expression=node.this.copy()))
        nothing = exp.Or(this=_null(theirs), expression=_null(node.this))
        maybe = listed.copy().where(nothing)
        true, unknown = (f"EXISTS (\n{indent(self._inner(q), '  ')}\n)" for q in (equal, maybe))
        return value(f"CASE WHEN {true} THEN TRUE WHEN {unknown} THEN NULL ELSE FALSE END", BOOLEAN)

    def _hashed(self, writer: Expressions, node: exp.Anonymous) -> Value:
        """The keyed hash of caps: the secret is mixed in before either round (Theorem CAP-1 holds for any).

        As a text: numbers stand in the code that Spark makes of a plan, which it would compile anew for each secret.
        It is a parameter, whose value `Steps` has.
        """
        (mixed,) = node.expressions
        inner, secret = mixed.expressions
        assert str(mixed.this).lower() == XOR and str(inner.this).lower() == HASH
        assert isinstance(secret.this, exp.Parameter)
        key = f":{SECRET}"
        hashed = ", ".join(writer(e).text for e in inner.expressions)
        return Value(f"XXHASH64({key}, XXHASH64({key}, {hashed}))", BIGINT)


def _null(e: exp.Expr) -> exp.Expr:
    return exp.Is(this=e.copy(), expression=exp.Null())


def _either(a: Value, b: Value) -> Value:
    """A column of one of two queries."""
    kind = common((a, b))
    if NULL in (a.type, b.type):
        return b if a.type == NULL else a
    if None in (a.low, a.high, b.low, b.high):
        return replace(a, type=kind, low=None, high=None, each=None)
    low, high = min(a.low or 0, b.low or 0), max(a.high or 0, b.high or 0)
    return replace(a, type=kind, low=low, high=high, each=(a.share or 0) + (b.share or 0))
