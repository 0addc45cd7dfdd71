"""Released counts of units as plain numbers, and that nothing else is what limits and intervals are made of."""

from __future__ import annotations

import ast
import inspect
import typing
from importlib import import_module
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.aggregates.noisy import Noisy
from dpsql.bounds.tails import ROWS
from dpsql.bounds.unit_counts import FALSE_ALARM, UnitCounts, counts_of, is_histogram, noise_in
from dpsql.quote.limits import OF_ONE

PURE = ("tails", "clipping", "unit_counts", "bias", "promised")
NO_PART = ("backends", "engine", "session", "run", "release", "store", "quote", "accounting", "server", "cli")
"""Packages of dpsql through which rows, or what is computed from rows without noise, may be had."""
FROM_OUTSIDE = {"__future__", "collections.abc", "dataclasses", "functools", "math", "numpy", "numpy.typing"}


@pytest.mark.parametrize("name", PURE)
def test_what_chooses_and_widens_imports_no_backend_and_no_engine(name: str) -> None:
    """The layers of test_layers.py see to what these import in turn."""
    module = import_module(f"dpsql.bounds.{name}")
    assert module.__file__ is not None
    imported: set[str] = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    inner = {found for found in imported if found.startswith("dpsql.")}
    assert not {found for found in inner if found.split(".")[1] in NO_PART}
    assert {found if "numpy" not in found else "numpy" for found in imported - inner} <= FROM_OUTSIDE


@pytest.mark.parametrize("name", PURE)
def test_no_argument_is_a_connection_or_an_exact_number(name: str) -> None:
    module = import_module(f"dpsql.bounds.{name}")
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    assert functions
    for function in functions:
        for argument, kind in hints(function, module).items():
            text = str(kind).lower()
            for word in ("connection", "cursor", "engine", "session", "exact", "tallies", "arrow", "backend"):
                assert word not in text, f"{function.__name__}({argument}: {kind})"


def hints(function: Any, module: ModuleType) -> dict[str, Any]:
    found = typing.get_type_hints(function, vars(module))
    arguments = inspect.signature(function).parameters
    assert set(arguments) <= set(found), f"{function.__name__} has arguments without a type"
    return {argument: found[argument] for argument in arguments}


# ---------------------------------------------------------------- counts of a released table


UNITS = 3_000
EACH = 1 + np.arange(UNITS) % 3
TABLE = pa.table({"id": np.repeat(np.arange(UNITS), EACH), "x": np.repeat(np.arange(UNITS) % 200, EACH)})
POLICY: dict[str, Any] = {"tables": {"t": {"unit": "id", "columns": {"x": {"min": 0, "max": 150}}}}}
SQL = "SELECT COUNT(*), SUM(x) FROM t"


def stored(session: dpsql.Session) -> list[Noisy]:
    """The tables of counts of units that are stored of a query."""
    quote = session.explain(SQL, epsilon=8, max_rows=2)
    (stage,) = [stage for stage in quote.stages if stage.kind == "limits"]
    session.query(SQL, epsilon=8, max_rows=2)
    look = session._quoting._stored()
    return [found for step in stage.releases for _, found in look(step)]


@pytest.fixture
def tables(connect: Connect) -> list[Noisy]:
    found = stored(connect({"t": TABLE}, POLICY, epsilon=100))
    assert len(found) == 2
    return found


def test_a_histogram_has_a_count_for_each_bucket_and_the_noise_that_was_drawn(tables: list[Noisy]) -> None:
    (histogram,) = [noisy for noisy in tables if noisy.cells is not None]
    counts = counts_of(histogram)
    assert len(counts.counts) == ROWS.buckets and is_histogram(histogram)
    assert counts.counts[:3] == pytest.approx([1000, 1000, 1000], abs=15 * counts.noise)
    assert max(map(abs, counts.counts[3:])) < 15 * counts.noise
    assert counts.noise == noise_in(histogram.step)
    share = float(1 / (1 + OF_ONE))  # of the share for limits: the other part is the single count's
    assert counts.noise == pytest.approx(1 / (8 * 0.1 * share), rel=0.02)


def test_a_single_count_has_a_sixteenth_of_a_histograms_weight(tables: list[Noisy]) -> None:
    (single,) = [noisy for noisy in tables if noisy.cells is None]
    (histogram,) = [noisy for noisy in tables if noisy.cells is not None]
    counts = counts_of(single)
    assert len(counts.counts) == 1
    assert counts.noise == pytest.approx(counts_of(histogram).noise / float(OF_ONE), rel=0.02)
    outside = sum(1 for x in np.arange(UNITS) % 200 if x > 150)
    assert counts.single == pytest.approx(outside, abs=15 * counts.noise)


# ---------------------------------------------------------------- a single count


def test_a_count_that_may_be_noise_alone_is_none() -> None:
    """One in a thousand of all such counts is a false alarm, however many are bought."""
    draws = np.random.default_rng(1).laplace(0, 20, 100_000)
    alarms = sum(UnitCounts((float(d),), 20.0).single > 0 for d in draws)
    assert 0.5 * FALSE_ALARM < alarms / 100_000 < 1.5 * FALSE_ALARM
    assert UnitCounts((200.0,), 20.0).single == 200 and UnitCounts((-200.0,), 20.0).single == 0


# ---------------------------------------------------------------- several histograms of the same rows


def test_histograms_of_the_same_rows_together_tell_more_than_each() -> None:
    random, truth = np.random.default_rng(2), np.array([500.0, 40, 3, 0, 0, 0])
    noises = (4.0, 4.0, 9.0)
    each = [UnitCounts(tuple(truth + random.laplace(0, noise, 6)), noise) for noise in noises]
    together = each[0].combined(each[1:])
    assert together.noise == pytest.approx(1 / sqrt(sum(n**-2 for n in noises)))
    assert together.noise < min(noises)
    weights = np.array(noises) ** -2.0
    expected = weights / weights.sum() @ np.array([c.counts for c in each])
    assert together.counts == pytest.approx(expected.tolist())
    assert each[0].combined([]) is each[0]


def test_the_noise_of_a_combination_is_what_is_drawn() -> None:
    """As the scale of a Laplace noise of the same variance."""
    random = np.random.default_rng(3)
    noises, drawn = (2.0, 3.0, 30.0), []
    for _ in range(3_000):
        first, *others = (UnitCounts((float(random.laplace(0, noise)),), noise) for noise in noises)
        together = first.combined(others)
        drawn.append(together.counts[0])
    assert np.std(drawn) == pytest.approx(sqrt(2) * together.noise, rel=0.08)


def test_a_much_noisier_one_changes_next_to_nothing_and_the_order_nothing() -> None:
    good, bad = UnitCounts((100.0, 10.0), 2.0), UnitCounts((900.0, -400.0), 2000.0)
    together = good.combined([bad])
    assert together.counts == pytest.approx(good.counts, abs=0.01) and together.noise == pytest.approx(2, rel=1e-5)
    assert bad.combined([good]).counts == pytest.approx(together.counts)


def test_the_tail_of_a_combination_is_clear_where_none_of_the_parts_is() -> None:
    part = UnitCounts((*(0.0,) * 8, 24.0, *(0.0,) * (ROWS.buckets - 9)), 5.0)
    assert not part.tail(ROWS).clear and part.combined([part] * 9).tail(ROWS).clear


@pytest.mark.parametrize("promise", [1, 2, 3, 5, 40])
def test_a_histogram_that_a_promise_makes_shorter_tells_as_much(connect: Connect, promise: int) -> None:
    """Nobody has more rows than are promised: those buckets aren't measured, and what is paid for is answered."""
    table = pa.table(
        {"id": np.repeat(np.arange(UNITS), min(promise, 3)), "x": np.arange(UNITS * min(promise, 3)) % 100}
    )
    tables = {"t": {**POLICY["tables"]["t"], "rows_per_unit": promise}}
    session = connect({"t": table}, {"tables": tables}, epsilon=100)
    for sql in ("SELECT COUNT(*) AS n FROM t", "SELECT SUM(x) AS s, COUNT(*) AS n FROM t"):
        answer = session.query(sql, epsilon=8)
        (interval,) = answer.intervals()["n"] or []
        assert interval is not None and interval[0] <= table.num_rows <= interval[1] < 1.5 * table.num_rows
