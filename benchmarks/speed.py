"""What a query takes: plain DuckDB, the floor, and dpsql, in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks import accuracy, machine, unit_index
from benchmarks.cases import DELTA, EPSILON, Case
from benchmarks.data import Data
from benchmarks.turns import Failed, Taken, Worker, in_turns, spread, summary

OURS = ("new", "again", "stored")


@dataclass(slots=True)
class Peer:
    """Another system that is installed, and the Python that runs it."""

    name: str
    module: str
    version: str
    python: str
    patience: float = 60.0


@dataclass(slots=True)
class _Measured:
    """The runs of each way of one case, and why others have none."""

    runs: dict[str, list[Taken]] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    errors: dict[str, accuracy.Errors] = field(default_factory=dict)

    def add(self, way: str, taken: Taken) -> None:
        self.runs.setdefault(way, []).append(taken)
        if taken.answer is not None and way in self.errors:
            self.errors[way].add(taken.answer)

    def cold(self, worker: Worker) -> None:
        taken = worker.run("cold")
        self.add("cold", taken)
        self.peaks["dpsql"] = max(taken.peak, self.peaks.get("dpsql", 0.0))


def measure(case: Case, data: Data, turns: int, colds: int, peers: Sequence[Peer] = ()) -> dict[str, Any]:
    """Everything about one case at one size, as JSON has it."""
    before = machine.load()
    found = _Measured()
    files = {name: str(path) for name, path in data.files.items()}
    exact = {"kind": "plain", "files": files, "sql": case.sql, "floor": case.floor or "SELECT 1"}
    with ExitStack() as stack:
        workers: dict[str, tuple[Worker, str]] = {}
        base = stack.enter_context(Worker(exact))
        truth = base.run("plain", answer=True)
        found.peaks["plain"] = truth.peak
        if case.floor:
            base.run("by unit")
        for _ in range(colds - 1):
            with data.account() as account, Worker(task(case, data, str(account))) as once:
                found.cold(once)
        ours = stack.enter_context(Worker(task(case, data, str(stack.enter_context(data.account())))))
        found.cold(ours)
        workers |= {way: (ours, way) for way in OURS}
        if (why := unit_index.missing()) is None and case.floor:
            indexed = stack.enter_context(Worker(task(case, data, str(stack.enter_context(data.account())))))
            found.add("building the index", indexed.run("index"))
            indexed.run("again")
            workers["index"] = (indexed, "again")
        elif case.floor:
            found.without["index"] = str(why)
        for peer in peers if case.peers else ():
            try:
                other = stack.enter_context(
                    Worker(
                        {"kind": "peer", "peer": peer.module, "files": files, "name": case.name},
                        python=peer.python,
                        patience=peer.patience,
                    )
                )
                found.peaks[peer.name] = other.run("peer").peak
                workers[peer.name] = (other, "peer")
            except Failed as failed:
                found.without[peer.name] = str(failed)
        assert truth.answer is not None
        for way in ("again", "index", *(p.name for p in peers)):
            found.errors[way] = accuracy.Errors(truth.answer)
        for _, way in in_turns(turns, ["plain", "by unit", *workers] if case.floor else ["plain", *workers]):
            if way in ("plain", "by unit"):
                found.add(way, base.run(way))
            elif way not in found.without:
                worker, run = workers[way]
                try:
                    found.add(way, worker.run(run, answer=way in found.errors))
                except Failed as failed:
                    if worker is ours:
                        raise
                    found.without[way] = str(failed)
    return _as_json(case, data, found, before)


def task(case: Case, data: Data, ledger: str) -> dict[str, Any]:
    """What a worker has to know to ask dpsql."""
    return {
        "kind": "ours",
        "policy": str(data.policy),
        "ledger": ledger,
        "sql": case.sql,
        "limits": dict(case.limits),
        "epsilon": EPSILON,
        "delta": DELTA,
    }


def _as_json(case: Case, data: Data, found: _Measured, before: list[float]) -> dict[str, Any]:
    ways = {way: summary(runs) for way, runs in found.runs.items()}
    plain = found.runs["plain"]
    floor = [
        Taken(p.wall + u.wall, p.cpu + u.cpu, 0, None)
        for p, u in zip(plain, found.runs.get("by unit", ()), strict=False)
    ]
    if floor:
        ways["floor"] = summary(floor)
    return {
        "case": case.name,
        "title": case.title,
        "sql": case.sql,
        "data": data.name,
        "rows": data.rows,
        "unit": case.unit,
        "limits": dict(case.limits),
        "load": {"before": before, "after": machine.load()},
        "ways": ways,
        "to_plain": dict(_ratios(found.runs, plain)),
        "to_floor": dict(_ratios(found.runs, floor)) if floor else {},
        "peak_mb": found.peaks,
        "error": {way: errors.columns() for way, errors in found.errors.items() if errors.runs},
        "not_measured": found.without,
    }


def _ratios(runs: Mapping[str, Sequence[Taken]], base: Sequence[Taken]) -> Iterator[tuple[str, dict[str, float]]]:
    """Of CPU time: turn by turn where a way was run in turns, else (cold) to the median."""
    middle = spread([b.cpu for b in base])["median"]
    for way, taken in runs.items():
        if way in ("plain", "by unit", "building the index"):
            continue
        beside = [b.cpu for b in base] if len(taken) == len(base) and way != "cold" else [middle] * len(taken)
        yield way, spread([t.cpu / b for t, b in zip(taken, beside, strict=True)])
