"""Shared by the tests of backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting import fingerprint


@pytest.fixture(autouse=True, scope="module")  # a folder without __init__.py is no package: it would last for ever
def clocks_are_fine() -> Iterator[None]:
    """Files are written and asked at once here, on file systems whose clocks tick many times a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "SETTLED_NS", 50_000_000)
        yield


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A catalog that a source can name."""
    from pyiceberg.catalog import load_catalog  # which takes a second: not of every process that lists the tests
    from pyiceberg.utils.config import Config

    settings = {"TYPE": "sql", "URI": f"sqlite:///{tmp_path}/catalog.sqlite", "WAREHOUSE": f"file://{tmp_path}/lake"}
    for key, said in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__HERE__{key}", said)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which it reads when it is imported
    catalog = load_catalog("here")
    catalog.create_namespace("shop")
    yield catalog
    catalog.engine.dispose()
