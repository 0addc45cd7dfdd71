"""What becomes of one query, as text: its stages with prices, noise, canonical texts and statements, and the exact
integers that its statements return; explained, asked, and asked again.

Words for people are no part of it. Noise comes from a generator of the case's own, and the secret of caps is a
constant, so that all of it is repeatable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from two_engines import shown

import dpsql
from dpsql import run
from dpsql.backends.base import Exact
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb.run import execute
from dpsql.mechanisms import sampler
from dpsql.plan.nodes import Given, parts_of
from dpsql.quote.model import Quote, Stage, Step
from dpsql.sql.as_sql import as_sql
from dpsql.store import reuse
from dpsql.store.canonical import UnknownNode, named

SECRET = 7_777_777_777_777
TIMES = ("explain", "first", "second")


def recorded(session: dpsql.Session, title: str, sql: str, options: Mapping[str, Any]) -> dict[str, str]:
    """What explaining and asking twice makes of a query, for an analyst who sees no others' releases."""
    engine: Any = session._engine
    own = engine.session(blake2b(title.encode(), digest_size=8).hexdigest(), share="own")
    found = {}
    with _repeatable(title), _measured() as exact:
        for time in TIMES:
            exact.clear()
            try:
                found[time] = _text(own, time, sql, options, exact)
            except dpsql.Error as error:
                found[time] = f"{type(error).__name__} {error.code} {error.span}"
    return found


def _text(session: Any, time: str, sql: str, options: Mapping[str, Any], exact: list[Any]) -> str:
    if time == "explain":
        return "\n".join(_of_quote(session.explain(sql, **options)))
    answer = session.query(sql, **options)
    cost = [str(answer.cost.epsilon), str(answer.cost.delta), str(answer.cost.rho)]
    return "\n".join([*map(repr, exact), repr(answer.rows), repr(answer.intervals()), *cost])


@contextmanager
def _repeatable(title: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "_random_bytes", Random(title).randbytes)
        constant = SimpleNamespace(randbits=lambda bits: SECRET)
        patch.setattr(run, "secrets", constant)
        yield


@contextmanager
def _measured() -> Iterator[list[Any]]:
    """The exact integers of every step that is run meanwhile, in their order."""
    exact: list[Any] = []

    def noted(step: Any, *others: Any) -> Exact:
        found = execute(step, *others)
        exact.append((step.name, *shown(found)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_backend, "execute", noted)
        yield exact


def _of_quote(quote: Quote) -> Iterator[str]:
    for stage in quote.stages:
        yield from _of_stage(stage)
    for part in quote.parts:
        yield f"post {as_sql(part.plan.post)} {part.result}"


def _of_stage(stage: Stage) -> Iterator[str]:
    price = [str(n) for cost in (stage.cost, stage.own) for n in (cost.epsilon, cost.delta, cost.rho)]
    yield f"stage {stage.kind} {stage.text!r} {price} {stage.split.name} {stage.other} {stage.note}"
    for step in stage.steps:
        if isinstance(step, Step):
            yield from _of_step(step)
        else:
            yield f"rows {step.name} {step.mechanisms}"


class _Versions(dict[str, str]):
    def __missing__(self, table: str) -> str:
        return "version"


def _of_step(step: Step) -> Iterator[str]:
    earlier = {t.name: "earlier" for g in _givens(step) for t in _tables(g)}
    yield f"step {step.name} {reuse.release_key(step, _Versions(), earlier).hex()} cells {step.count}"
    try:
        names, rows = named(step.checked, earlier)
        yield json.dumps([rows, [names.argument(a) for a in step.checked.arguments]])
    except (UnknownNode, KeyError) as error:
        yield f"no canonical text: {error!r}"
    for call, one in zip(step.calls, step.checked.arguments, strict=True):
        ranges = [(str(v.range.low), str(v.range.high), v.range.nullable, v.range.why) for v in one.values]
        yield f"call {call} {ranges}"
    for m in step.measurements:
        yield f"measured {m.statistic.title} {m.sensitivity} {m.noise}"
    yield f"estimates {sorted((str(q), str(linear)) for q, linear in step.estimates.items())}"
    yield f"{step.selection} {_shown(step.checked.bounding)} {_shown(step.checked.owner)}"
    for text in duckdb_backend.DuckDB.written(None, step):  # type: ignore[arg-type]  # it needs no open engine
        yield text.replace("$dpsql_secret", "secret")


def _shown(value: Any) -> str:
    """A value as text; sets in an order of their own, which is another one in each process."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_shown, value)))}}}"
    if hasattr(value, "__dataclass_fields__"):
        return str({name: _shown(getattr(value, name)) for name in value.__dataclass_fields__})
    return str(value)


def _givens(step: Step) -> Iterator[Given]:
    return (p for p in parts_of(step.checked.relation) if isinstance(p, Given))


def _tables(given: Given) -> Iterator[Any]:
    from sqlglot import exp

    return given.query.find_all(exp.Table)
