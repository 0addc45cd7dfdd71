"""The same statements on two engines: whatever a session measures with DuckDB is measured with Spark as well.

Exact integers are compared, never noisy answers. Caps choose groups by a keyed hash, which each engine has of its own:
here it is constant, and groups are chosen by their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import dpsql
from dpsql.backends.base import Codes, Exact
from dpsql.backends.choose import file_kind
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb.codes import encode
from dpsql.backends.duckdb.run import execute
from dpsql.backends.spark.backend import Spark, SparkKind
from dpsql.backends.statements.bounding import Form
from dpsql.backends.statements.named import columns_named
from dpsql.backends.statements.render import render
from dpsql.policy.settings import EngineSettings
from dpsql.sql.gridded import cast, number


def same_hash(unit: str | None, keys: tuple[str, ...]) -> exp.Expr:
    """In the place of a keyed hash."""
    return cast(number(0), "BIGINT")


def shown(exact: Exact) -> tuple[Any, ...]:
    """Exact integers as values that can be compared."""
    tallies = {tally: [int(n) for n in values] for tally, values in exact.tallies.items()}
    cells = None if exact.cells is None else (exact.cells.schema.types, exact.cells.to_pylist())
    spectra = {
        spectrum: [[int(n) for n in column] for column in (found.cells, found.values, found.counts)]
        for spectrum, found in exact.spectra.items()
    }
    return tallies, repr(cells), spectra  # NaN equals itself in its text


@dataclass
class Engines:
    """A DuckDB session that has everything it measures measured by Spark, too."""

    session: dpsql.Session
    spark: Spark
    statements: int = 0
    kinds: set[str] = field(default_factory=set)  # of plan nodes that were in them

    def query(self, sql: str, *, adaptive: bool = True, **asked: Any) -> int:
        """Ask, and compare; gives how many statements were the same. An SQLError where Spark refuses one.

        adaptive: with plans that Spark changes while they run, by how many rows there are.
        """
        before = self.statements
        self.spark._connection._session.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
        with pytest.MonkeyPatch.context() as patch:
            for module in ("bounding", "distinct", "once", "ranked"):
                patch.setattr(f"dpsql.backends.statements.{module}.keyed_hash", same_hash)
            patch.setattr(duckdb_backend, "execute", self._executed)
            patch.setattr(duckdb_backend, "encode", self._encoded)
            self.session.query(sql, **{**asked, "fresh": True})  # an answer that is known measures nothing
        return self.statements - before

    def _executed(self, step: Any, cursor: Any, given: Any, heavy: Any, again: Any) -> Exact:
        exact = execute(step, cursor, given, heavy, again)
        self.execute(step, given, exact)
        return exact

    def _encoded(self, step: Any, cursor: Any) -> Codes:
        codes = encode(step, cursor)
        self.encode(step, codes)
        return codes

    def execute(self, step: Any, given: Mapping[str, Any], exact: Exact) -> None:
        self.spark.written(step)
        with self.spark.measuring(None) as rows:
            assert shown(rows.execute(step, given, 7)) == shown(exact)
        self._names_the_same(step)
        self._seen(step.statement, *step.histograms, *step.matchings)

    def encode(self, step: Any, codes: Codes) -> None:
        self.spark.written(step)
        with self.spark.measuring(None) as rows:
            found = rows.encode(step)
        assert [sorted(c.tolist()) for c in found.columns] == [sorted(c.tolist()) for c in codes.columns]
        self._names_the_same(step)
        self._seen(step.statement)

    def _names_the_same(self, step: Any) -> None:
        """Each form of a statement reads the same columns: which is chosen may rest on how many rows there are."""
        known = {name: files.columns.keys() for name, files in self.spark._files.items()}
        trees = [render(step.statement, form) for form in Form] if getattr(step, "tallies", ()) else []
        named = [columns_named(tree) for tree in trees]
        read = [{table: form[table] & known[table] for table in form.keys() & known} for form in named]
        assert all(form == read[0] for form in read)
        theirs, ours = self.spark.named([step]), self.session.backend.named([step])
        assert theirs == {table: names & known[table] for table, names in ours.items()}

    def _seen(self, *nodes: Any) -> None:
        self.statements += len(nodes)
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, tuple):
                waiting += node
            elif type(node).__module__ == "dpsql.plan.nodes":
                self.kinds.add(type(node).__name__)
                waiting += [getattr(node, name) for name in node.__dataclass_fields__]


@contextmanager
def engines(policy: Mapping[str, Any], tables: Mapping[str, pa.Table], folder: Path, url: str) -> Iterator[Engines]:
    """Both engines over parquet files of these tables."""
    import pyarrow.parquet as pq

    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    described = {name: {"source": f"{name}.parquet", **policy["tables"][name]} for name in policy["tables"]}
    with opened(dpsql.Policy.from_dict({**policy, "tables": described}, folder=folder), url) as both:
        yield both


@contextmanager
def opened(policy: dpsql.Policy, url: str) -> Iterator[Engines]:
    """Both engines over the sources of a policy."""
    with dpsql.connect(policy, ledger=":memory:") as session, beside(session, url) as both:
        yield both


@contextmanager
def beside(session: dpsql.Session, url: str) -> Iterator[Engines]:
    """Spark over the sources that a session has open."""
    kind, engine = SparkKind(url, file_kind()), session._engine
    spark = kind.open_backend(engine.located, EngineSettings(), engine.policy.folder)
    try:
        for one in engine.guarded:
            found = spark.examine(one, sorted(spark.apart(one)))
            known = {part: facts for part, facts in found.items() if facts is not None}
            assert len(known) == len(found)
            spark.trust(one, known)
        yield Engines(session, spark)
    finally:
        spark.close()
