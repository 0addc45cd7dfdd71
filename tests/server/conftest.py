"""Fixtures: one server for all tests that leave no trace but spending."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from servers import Server, make_policy


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that leave no trace but spending."""
    found = Server(make_policy(tmp_path_factory.mktemp("server")))
    yield found
    found.close()


@pytest.fixture(scope="session")
def ann(server: Server) -> Iterator[httpx.Client]:
    with server.client("ann") as client:
        yield client
