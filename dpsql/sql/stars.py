"""Outputs that stand for several columns: *, t.*, EXCLUDE, REPLACE, RENAME, and COLUMNS(…).

No pass of rewrite: which columns those are is known once the sources of a SELECT are resolved.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.dialect import constants
from dpsql.sql.functions.constants import constant_text
from dpsql.sql.names import Scope, column
from dpsql.sql.refuse import refuse, shown

Named = tuple[str, exp.Expr]


def is_star(item: exp.Expr) -> bool:
    """Is it * or t.*?"""
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def star(item: exp.Expr, scope: Scope, resolve: Callable[[exp.Expr], exp.Expr]) -> list[Named]:
    """The columns that * stands for, by name."""
    found = item if isinstance(item, exp.Star) else item.this
    table = item.table.lower() if isinstance(item, exp.Column) and item.table else None
    excluded = {e.name.lower() for e in found.args.get("except_") or []}
    renamed = {e.this.name.lower(): e.alias for e in found.args.get("rename") or []}
    replaced = {e.alias.lower(): e.this for e in found.args.get("replace") or []}
    outputs: list[Named] = []
    for source in scope.sources:
        if table is not None and source.name.lower() != table:
            continue
        for name in source.columns:
            lower = name.lower()
            if lower in excluded or scope.merged.get(lower, source.alias) != source.alias:
                continue
            value = replaced.get(lower)
            if value is not None:
                outputs.append((name, resolve(value)))
                continue
            expanded = column(source.alias, name)
            expanded.this.meta.update(found.meta, star=True)
            outputs.append((renamed.get(lower, name), expanded))
    if not outputs:
        sources = ", ".join(s.name for s in scope.sources)
        hint = f"sources here: {sources}" if sources else "add a FROM"
        raise refuse(SQLError, "* stands for no column here", item, code="unknown-column", hint=hint)
    return outputs


def expand_columns(item: exp.Expr, scope: Scope) -> list[exp.Expr] | None:
    """An output with COLUMNS(…) once for each column that it stands for; None where it has none."""
    calls = list(item.find_all(exp.Columns))
    if not calls:
        return None
    first = calls[0]
    if first.args.get("unpack") or any(c != first for c in calls):
        hint = "write the columns one by one"
        raise refuse(SQLError, f"this use of {shown(first)} is not supported", item, code="unsupported", hint=hint)
    outputs: list[exp.Expr] = []
    for name, source in _chosen(first, scope):
        place = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(source, quoted=True))
        place.this.meta.update({k: v for n in first.walk() for k, v in n.meta.items() if k in ("start", "end")})
        value = item.transform(lambda n, place=place: place.copy() if isinstance(n, exp.Columns) else n)
        named = isinstance(item, exp.Alias)
        outputs.append(value if named else exp.alias_(value, name, quoted=True))
    return outputs


def _chosen(call: exp.Expr, scope: Scope) -> list[tuple[str, str]]:
    """The columns of COLUMNS(*), COLUMNS('regex') or COLUMNS(['a', 'b']), each with its source's name."""
    inner = call.this
    if is_star(inner):
        if (inner if isinstance(inner, exp.Star) else inner.this).args.get("replace"):
            hint = "write SELECT * REPLACE (…), or the columns one by one"
            raise refuse(SQLError, "COLUMNS(* REPLACE …) is not supported", call, code="unsupported", hint=hint)
        found = [(e.name, e.table) for _, e in star(inner, scope, lambda e: e) if isinstance(e, exp.Column)]
        sources = {s.alias: s.name for s in scope.sources}
        return [(name, sources[alias]) for name, alias in found]
    every = [
        (name, s.name)
        for s in scope.sources
        for name in s.columns
        if scope.merged.get(name.lower(), s.alias) == s.alias  # USING shows a column once
    ]
    if isinstance(inner, exp.Array):
        wanted = {constant_text(e, "a name in COLUMNS").lower() for e in inner.expressions}
        chosen = [c for c in every if c[0].lower() in wanted]
        missing = wanted - {name.lower() for name, _ in chosen}
    else:
        pattern = constant_text(inner, "the pattern of COLUMNS")
        chosen = [c for c in every if constants().matches(c[0], pattern)]
        missing = set() if chosen else {f"like '{pattern}'"}
    if missing:
        hint = f"columns here: {', '.join(name for name, _ in every[:20]) or 'none'}"
        raise refuse(SQLError, f"no column is called {min(missing)}", call, code="unknown-column", hint=hint)
    return chosen
