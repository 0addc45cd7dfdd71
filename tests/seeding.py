"""Noise that is the same whenever a test runs, so that what passed once doesn't fail by chance another time.

dpsql's noise can't be seeded; tests put a generator where it asks the operating system for bits. Each test has its own,
by its name, and so has each fixture that several tests share. `--seed fresh` leaves the operating system's, which is
how tolerances are tried; another `--seed` gives other noise. A test that is about the source itself is marked
`true_noise`, and processes that a test starts draw their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql import run
from dpsql.accounting import journal
from dpsql.mechanisms import sampler

FRESH = "fresh"
_TAKEN = ((sampler, "_random_bytes"), (run, "secrets"), (journal, "secrets"))
_TRUE = [getattr(module, name) for module, name in _TAKEN]


def _put(sources: list[Any]) -> None:
    for (module, name), source in zip(_TAKEN, sources, strict=True):
        setattr(module, name, source)


@contextmanager
def seeded(text: str) -> Iterator[None]:
    """Noise, secrets of caps and of ledgers from a generator of this seed; ids and names of files stay unique."""
    draw = Random(text)
    before = [getattr(module, name) for module, name in _TAKEN]
    own = SimpleNamespace(randbits=draw.getrandbits, token_bytes=draw.randbytes, token_hex=secrets.token_hex)
    _put([draw.randbytes, own, own])
    try:
        yield
    finally:
        _put(before)


class Seeding:
    """A plugin of pytest: seeds what a test draws, and what a shared fixture draws."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if item.get_closest_marker("true_noise"):
            return (yield)
        with seeded(f"{self._seed} {item.nodeid}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
        if request.scope == "function":
            return (yield)
        with seeded(f"{self._seed} {request.node.nodeid} {fixturedef.argname} {getattr(request, 'param', '')}"):
            return (yield)
