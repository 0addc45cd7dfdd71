"""Shared by the tests of backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.accounting import listing


@pytest.fixture(autouse=True, scope="session")
def clocks_are_fine() -> Iterator[None]:
    """Files are written and asked at once here, on file systems whose clocks tick many times a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "SETTLED_NS", 50_000_000)
        yield
