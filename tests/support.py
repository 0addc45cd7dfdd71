"""What several test files share."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import dpsql
from dpsql.accounting.ledger import Ledger, Receipt, Spend
from dpsql.backends.duckdb.backend import DuckDB
from dpsql.backends.duckdb.cursor import Cursor
from dpsql.core.cost import Cost
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote.model import Measurement

Connect = Callable[..., dpsql.Session]
T = TypeVar("T")
WHOLE = "DPSQL_WHOLE"  # set where long randomised suites run whole (--whole)
SPARK = "DPSQL_SPARK"  # set where the suites that Spark shares with DuckDB run, too (--spark)
PYTHON = "DPSQL_TEST_PYTHON"  # of the environments of tests/installed (--python)


def charge(ledger: Ledger, price: Cost, note: Mapping[str, object], **named: Any) -> Receipt:
    """Spend this, for a release that is shared with nobody."""
    _, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(price, note)], **named)
    return receipt


def duckdb_of(session: dpsql.Session) -> DuckDB:
    """The engine under a session, which is DuckDB."""
    backend = session._engine.backend
    assert isinstance(backend, DuckDB)
    return backend


def cursor_of(session: dpsql.Session) -> Cursor:
    """A cursor on the database that holds private rows, with all of their columns."""
    engine = session._engine
    for one in engine.guarded:
        if columns := engine.backend.apart(one):
            engine._read(one, sorted(columns), engine.versions()[one.name])
    cursor = duckdb_of(session).cursor()
    cursor.secret = 7  # the same for all statements of a test
    return cursor


def own_processes() -> ForkServerContext:
    """Makes processes of their own from one that has imported the modules: in each of eight that takes two seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpsql.session", "pytest", "hypothesis", "support"])
    return context


def examples(sample: int) -> int:
    """How many random examples a test takes: a sample, or twenty times as many with --whole."""
    return sample * (20 if os.environ.get(WHOLE) else 1)


def sampled(cases: Iterable[T], one_in: int) -> list[T]:
    """One in so many of the cases; all of them with --whole."""
    return list(cases)[:: 1 if os.environ.get(WHOLE) else one_in]


def added_to(measurement: Measurement) -> Any:
    """The noise of a measurement whose numbers leave: one that is added to them."""
    assert not isinstance(measurement.noise, NoisyMax)
    return measurement.noise


def scale_of(measurement: Measurement) -> Fraction:
    """The scale of a measurement's noise, which is of the Laplace family."""
    assert isinstance(measurement.noise, DiscreteLaplace | NoisyMax)
    return measurement.noise.scale
