"""check: is the policy right for these schemas and, for the steward, do the rows keep its promises?

Without `steward` no row is read. With it, each promise is verified on the private engine and the finding is recorded in
the ledger for exactly this version of the data. What rows show besides is counted, too: it is not private.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_never

from sqlglot import exp

from dpsql.accounting.backup import others
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.opening import account, anchor
from dpsql.analyze.ownership import key_promise, nullable_promise, rows_promise
from dpsql.core.arrays import to_python
from dpsql.core.cost import show_rounded
from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.engine import Shared
from dpsql.policy.model import Column, ColumnUnit, LinkedUnit, Policy, RowUnit, Table
from dpsql.policy.reader import Bound
from dpsql.refresh.promises import Finding, column_node, counts, rows
from dpsql.refresh.refresh import check_promises
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.base import call
from dpsql.steward.advice import ROWS, Advice, from_rows, from_schema, public_keys
from dpsql.steward.unit_guess import is_code, meaning

Line = tuple[str, str]  # a label and what there is to say


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: a heading, then for each table its lines; the promises that were found broken; and advice."""

    heading: tuple[Line, ...]
    tables: tuple[tuple[str, str, tuple[Line, ...]], ...]  # a table's name, its title, its lines
    broken: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()

    def __str__(self) -> str:
        lines = [f"{label:<9} {text}" for label, text in self.heading]
        lines += [f"advice    {one.text}" for one in self.advice if one.table is None]
        for name, title, found in self.tables:
            lines += ["", title, *(f"  {label:<8} {text}" for label, text in found)]
            told = [one for one in self.advice if one.table == name]
            lines += [f"  {ROWS if one.about == ROWS else 'advice':<8} {one.text}" for one in told]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same for programs."""

        def told(lines: tuple[Line, ...]) -> list[dict[str, str]]:
            return [{"about": label, "text": text} for label, text in lines]

        return {
            "policy": told(self.heading),
            "tables": {name: {"title": title, "found": told(lines)} for name, title, lines in self.tables},
            "advice": [{"table": one.table, "about": one.about, "text": one.text} for one in self.advice],
            "broken": list(self.broken),
        }


def check(policy_path: str | Path, steward: bool, strict: bool = False) -> Report:
    """Open the policy's sources and compare; a mistake is a PolicyError, a missing file a DataError."""
    policy = Policy.load(policy_path)
    followed = tuple(_follow(policy)) if steward else ()
    engine = Shared(policy, {}, None, strict=strict)
    try:
        for table in policy.tables.values():
            _check_values(engine, table)
        if engine.stale is not None and (steward or policy.data.on_change == "refuse"):
            raise engine.stale
        broken: list[str] = []
        findings: dict[str, tuple[Finding, ...]] = {}
        if steward:
            findings = check_promises(engine, by="steward")
            broken = [
                f"{policy.tables[n].name}: {f.text}" for n, found in findings.items() for f in found if not f.holds
            ]
        verified = engine.promises() if engine.stale is None else {}
        tables = tuple(
            (
                table.name,
                _title(table),
                tuple(_lines(engine, table, verified.get(name, frozenset()), findings.get(name))),
            )
            for name, table in policy.tables.items()
        )
        advice = [*from_schema(policy, engine.schema), *_from_rows(engine, findings)]
        heading = (*_heading(policy), *followed, *_written(engine), *_untested(engine), *_other_accounts(engine))
        return Report(heading, tables, tuple(broken), tuple(advice))
    finally:
        engine.close()


def _follow(policy: Policy) -> Iterator[Line]:
    """A ledger that nothing was spent on takes a changed policy as it is: a steward still edits it."""
    path = policy.ledger_path
    if path.is_file():
        changes = Ledger.accept_policy_change(path, account(policy), anchor=anchor(policy), unspent=True)
        if changes:
            yield "recorded", f"nothing was spent so far, so the ledger follows the policy: {'; '.join(changes)}"


def _from_rows(engine: Shared, findings: Mapping[str, object]) -> Iterator[Advice]:
    """What rows show of the tables that were looked at, and nothing where none was."""
    for name in findings:
        table = engine.policy.tables[name]
        if table.kind == "catalog":
            text = "promises were verified by Spark; what else rows could show wasn't looked at"
            yield Advice(ROWS, text, table.name)
        else:
            yield from from_rows(engine, table)


def _check_values(engine: Shared, table: Table) -> None:
    """Listed values as the column's own type: each must fit it, and no two may become one."""
    types = {name.lower(): text for name, text in engine.schema[table.name.lower()]}
    for column in table.columns.values():
        if column.values is not None:
            problem = values_problem(engine, table, column, Type.parse(types[column.name.lower()]))
            if problem is not None:
                raise problem


def _heading(policy: Policy) -> Iterator[Line]:
    budget = policy.budget
    yield "policy", f"{policy.path} is valid"
    each = "a query must name its ε"
    if budget.query_epsilon is not None:
        each = f"a query spends ε = {show_rounded(budget.query_epsilon, up=True)} unless it names another"
    total = f"ε = {show_rounded(budget.epsilon, up=False)}, δ = {show_rounded(budget.delta, up=False)} in all"
    if budget.renew != "never":
        total += f", each month (renew = {budget.renew}: the steward's decision, and no theorem)"
    yield "budget", f"{total}; {each}"
    if budget.accountant == "zcdp":
        yield "by zcdp", f"ρ = {show_rounded(account(policy).total.rho or Fraction(0), up=False)} in all"
    if budget.analysts:
        quotas = [
            f"{'everybody else' if n == '*' else n} {show_rounded(q, up=False)}" for n, q in budget.analysts.items()
        ]
        yield "quotas", f"{_listed(quotas)} (of ε; the total is what protects, as analysts can talk)"
    yield "ledger", str(policy.ledger_path)


def _written(engine: Shared) -> Iterator[Line]:
    if engine.stale is not None:
        yield "note", f"{engine.stale.message}: the next query accepts it and verifies its promises"


def _untested(engine: Shared) -> Iterator[Line]:
    versions = engine.backend.versions
    if versions.untested:
        yield "WARNING", f"{versions.warning}: that its statements mean what the proofs assume was not tried"


def _other_accounts(engine: Shared) -> Iterator[Line]:
    """Another ledger that serves the same data spends on the same people, and neither knows of the other."""
    private = [one for one in engine.located if not one.table.public]
    files = [file for one in private for file in one.files]
    for ledger, releases in others(engine.policy.ledger_path, [one.table.name for one in private], files):
        plural = "" if releases == 1 else "s"
        yield (
            "WARNING",
            f"{ledger} is another account of the same data ({releases:,} release{plural}): what both release adds up, "
            "and neither counts the other's. Let both policies name one ledger",
        )


def _title(table: Table) -> str:
    where = f"{table.source}" + (f", table {table.table}" if table.table else "")
    if table.kind == "catalog":
        where += " in Spark's catalog"
    return f"{table.name}: {'public' if table.public else 'private'}, from {where}"


def _lines(
    engine: Shared, table: Table, verified: frozenset[str], findings: tuple[Finding, ...] | None
) -> Iterator[Line]:
    schema = [(name, Type.parse(text)) for name, text in engine.schema[table.name.lower()]]
    if table.public:
        yield "columns", _listed([name for name, _ in schema])
        return
    yield "unit", _unit(table, verified)
    if table.key is not None:
        yield "key", f"{', '.join(table.key)} ({_state(key_promise(table) in verified)})"
    ranges = [_range(c) for c in table.columns.values() if c.min is not None or c.max is not None]
    if ranges:
        yield "ranges", _listed(ranges)
    automatic = [f"{c.name} ({float(c.share):.0%})" for c in table.columns.values() if c.share is not None]
    if automatic:
        yield "auto", f"{_listed(automatic)}: found privately, once, for that share of the first query that needs it"
    keys = [text for name, type_ in schema if (text := public_keys(name, type_, table.column(name)))]
    if keys:
        yield "keys", _listed(keys)
    full = [c.name for c in table.columns.values() if not c.nullable]
    if full:
        yield "not NULL", _listed([f"{c} ({_state(nullable_promise(table, c) in verified)})" for c in full])
    yield from _notes(table, schema)
    told = {nullable_promise(table, column) for column in full}  # above, unless they are broken
    for finding in findings or ():
        if finding.holds and finding.promise in told:
            continue
        yield ("holds" if finding.holds else "BROKEN"), finding.text
    if findings is not None:
        for text in outside(engine, table, dict(schema)):
            yield "rows", text


def _rows_per_unit(table: Table, verified: frozenset[str]) -> str:
    if table.rows_per_unit is None:
        return ""
    promise = rows_promise(table)
    state = "enforced" if promise is None else _state(promise in verified)
    return f", rows_per_unit = {table.rows_per_unit} ({state})"


def _unit(table: Table, verified: frozenset[str]) -> str:
    match table.unit:
        case RowUnit():
            return "each row"
        case ColumnUnit(column=column):
            return column + _rows_per_unit(table, verified)
        case LinkedUnit(through=through):
            return f"through {through}" + _rows_per_unit(table, verified)
        case None:
            return "none"
        case _:
            assert_never(table.unit)


def _state(verified: bool) -> str:
    return "verified" if verified else "not verified: dpsql check --steward"


def _range(column: Column) -> str:
    if column.min is None:
        return f"{column.name} up to {_bound(column.max)}"
    if column.max is None:
        return f"{column.name} from {_bound(column.min)}"
    return f"{column.name} {_bound(column.min)} to {_bound(column.max)}"


def _bound(bound: Bound | None) -> str:
    return "" if bound is None else str(bound)


def _notes(table: Table, schema: list[tuple[str, Type]]) -> Iterator[Line]:
    """What analysts can't do yet, and what would let them."""
    bare = []
    ungrouped = []
    for name, type_ in schema:
        said = table.column(name)
        if isinstance(table.unit, ColumnUnit) and name.lower() == table.unit.column.lower():
            continue
        bounded = said is not None and (said.share is not None or (said.min is not None and said.max is not None))
        if type_.is_numeric and not bounded and not (is_code(name) or meaning(name, table.name).is_id):
            bare.append(name)
        elif type_.is_text and public_keys(name, type_, said) is None and not (said is not None and said.private):
            ungrouped.append(name)
        if said is not None and (said.min is not None or said.max is not None) and type_.is_text:
            yield "note", f"{name} is text: its min and max have no effect"
    if bare:
        yield "note", f"no SUM or AVG of {_listed(bare)}: no min and max (a query may still clip: CLIP(x, low, high))"
    if ungrouped:
        yield (
            "note",
            f"GROUP BY {_listed(ungrouped)}: not public, so keys are selected privately (δ > 0)",
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def outside(engine: Shared, table: Table, types: Mapping[str, Type]) -> Iterator[str]:
    """Rows without a unit, and values outside a range (clipped) or a list of keys (dropped from GROUP BY)."""
    known = {name.lower(): type_ for name, type_ in types.items()}
    said: list[tuple[exp.Expr | None, str]] = []
    if isinstance(table.unit, ColumnUnit):
        nobody = exp.Is(this=column_node(table.unit.column), expression=exp.Null())
        said.append((nobody, f"no {table.unit.column}: they belong to nobody and are left out"))
    for column in table.columns.values():
        name, type_ = column.name, known[column.name.lower()]
        infinite = exp.Not(this=_finite(column)) if type_.is_float else None
        said += [
            (_beyond(column, type_), f"{name} outside its min and max: those values are clipped"),
            (infinite, f"{name} not finite: it counts as NULL"),
            (_unlisted(column, type_), f"{name} not among its values: GROUP BY {name} drops them"),
        ]
    asked = [(condition, text) for condition, text in said if condition is not None]
    found = counts(engine, table, [condition for condition, _ in asked])
    yield from (f"{rows(count)} with {text}" for count, (_, text) in zip(found, asked, strict=True) if count)
    yield from _misread(engine, table)


def _misread(engine: Shared, table: Table) -> Iterator[str]:
    """Records that aren't rows, and fields that don't fit their type: queries pass over both in silence."""
    found = engine.backend.misread(next(one for one in engine.located if one.table is table))
    if found.records:
        yield f"{rows(found.records)} of {table.source} malformed: they are left out"
    for name, count in found.fields:
        if count:
            yield f"{rows(count)} with {name} not of type {table.columns[name.lower()].type}: it counts as NULL"


def _beyond(column: Column, type_: Type) -> exp.Expr | None:
    if not (type_.is_numeric or type_.is_date or type_.is_timestamp):
        return None
    tests: list[exp.Expr] = []
    for bound, compare in ((column.min, exp.LT), (column.max, exp.GT)):
        if bound is not None:
            tests.append(compare(this=column_node(column.name), expression=_literal(bound)))
    if not tests:
        return None
    # NaN sorts above every number, and it counts as NULL, not as a value to clip.
    return exp.and_(_finite(column), exp.or_(*tests)) if type_.is_float else exp.or_(*tests)


def _finite(column: Column) -> exp.Expr:
    return call("isfinite", column_node(column.name))


def _unlisted(column: Column, type_: Type) -> exp.Expr | None:
    if column.values is None:
        return None
    listed = [exp.cast(_literal(v), data_type(_kind(type_))) for v in column.values]
    return exp.Not(this=exp.In(this=column_node(column.name), expressions=listed))


def values_problem(engine: Shared, table: Table, column: Column, type_: Type) -> PolicyError | None:
    """Listed values must fit the column's type, and stay different in it; found without reading a row."""
    path = f"tables.{table.name}.columns.{column.name}.values"
    seen: dict[Any, object] = {}
    for value in column.values or ():
        cast = exp.TryCast(this=_literal(value), to=data_type(_kind(type_)))
        (found,) = to_python(engine.public.table(exp.select(exp.alias_(cast, "k")), {}).column("k"))
        if found is None:
            return PolicyError(f"{path}: {value} is no {type_}", code="values", hint=f"list values of type {type_}")
        if found in seen:
            return PolicyError(
                f"{path}: {seen[found]} and {value} are the same {type_}", code="values", hint="list each value once"
            )
        seen[found] = value
    return None


# ---------------------------------------------------------------- trees


def _kind(type_: Type) -> str:
    return "VARCHAR" if type_.is_text else type_.sql


def _literal(value: object) -> exp.Expr:
    match value:
        case bool():
            return exp.Boolean(this=value)
        case datetime():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case str():
            return exp.Literal.string(value)
        case _:
            return exp.Literal.number(str(value))
