"""A process that runs one query in one way whenever it is told to, and says what that took.

Ways have processes of their own so that each has its own peak of memory, and one way's caches and threads aren't
another's; the parent (turns.py) runs them in turns. A line of JSON comes in for each run, and one goes out. Other
systems may be run by another Python than dpsql's: nothing of dpsql is imported here before it is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
"""Keys as texts, one list for each row; for each aggregate its values and, where there are any, its intervals."""

Way = Callable[[], Callable[[], Answer]]
"""Runs the query, up to its rows in Python. What makes an `Answer` of them is left for after the clock was stopped."""


def answer(columns: Sequence[str], rows: Iterable[Sequence[Any]], intervals: Any = None) -> Answer:
    """Aggregates are the columns with names in capitals."""
    values = {i: name for i, name in enumerate(columns) if name.isupper()}
    kept = list(rows)
    return {
        "keys": [[str(v) for i, v in enumerate(row) if i not in values] for row in kept],
        "values": {name: [None if row[i] is None else float(row[i]) for row in kept] for i, name in values.items()},
        "intervals": {
            name: [span and [float(span[0]), float(span[1])] for span in intervals[name]]
            for name in values.values()
            if intervals and intervals[name] is not None
        },
    }


def plain(task: dict[str, Any]) -> dict[str, Way]:
    """DuckDB itself, as it comes: the query, and the one GROUP BY unit that an answer about people needs besides."""
    import duckdb

    database = duckdb.connect()
    for name, file in task["files"].items():
        database.execute(f"CREATE VIEW {name} AS FROM '{file}'")

    def asked(sql: str) -> Callable[[], Answer]:
        result = database.execute(sql)
        rows, columns = result.fetchall(), [d[0] for d in result.description]
        return lambda: answer(columns, rows)

    return {"plain": lambda: asked(task["sql"]), "by unit": lambda: asked(task["floor"])}


def ours(task: dict[str, Any]) -> dict[str, Way]:
    """dpsql: opened and asked for the first time, a new text, the same again with new noise, and what is stored."""
    sessions: list[Any] = []
    options = {"epsilon": task["epsilon"], "delta": task["delta"], **task["limits"]}
    texts = iter(range(10**9))

    def asked(sql: str, fresh: bool = True) -> Callable[[], Answer]:
        found = sessions[-1].query(sql, **options, fresh=fresh)
        rows = found.rows
        return lambda: answer(found.columns, rows, found.intervals())

    def opened(indexed: bool = False) -> Callable[[], Answer]:
        import dpsql

        engine = dpsql.Engine.open(task["policy"], ledger=task["ledger"])
        if indexed:
            from benchmarks import unit_index

            unit_index.build(engine)
        sessions.append(engine.session())
        return lambda: answer((), ())

    def cold() -> Callable[[], Answer]:
        opened()
        return asked(task["sql"], fresh=False)

    return {
        "cold": cold,
        "index": lambda: opened(indexed=True),
        "new": lambda: asked(f"{task['sql']} -- {next(texts)}"),
        "again": lambda: asked(task["sql"]),
        "stored": lambda: asked(task["sql"], fresh=False),
    }


def peer(task: dict[str, Any]) -> dict[str, Way]:
    """Another system, by its adapter in benchmarks/peers."""
    adapter = import_module(f"benchmarks.peers.{task['peer']}")
    run = adapter.prepare(task["files"], task["name"], *([task["rows"]] if "rows" in task else []))

    def asked() -> Callable[[], Answer]:
        columns, rows = run()
        return lambda: answer(columns, rows)

    return {"peer": asked}


KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Way]]] = {"plain": plain, "ours": ours, "peer": peer}


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # not ru_maxrss: where there is fork, a child starts with its parent's
        return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes, as macOS counts


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints isn't a reply

    def reply(said: dict[str, Any]) -> None:
        replies.write(json.dumps(said) + "\n")
        replies.flush()

    ways: dict[str, Way] = {}
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "kind" in order:
                ways = KINDS[order["kind"]](order)
                reply({})
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            found = ways[order["way"]]()
            taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak()}
            reply({**taken, "answer": found() if order["answer"] else None})
        except NotImplementedError as error:
            reply({"error": str(error)})
        except Exception as error:  # whatever a system fails with is its result
            reply({"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"})


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
