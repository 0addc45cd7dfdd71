"""The Spark that tests ask: the cluster of examples/scale/cluster.py, its processes with little compiling."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from services import WANTING, needs

import dpsql

EXAMPLES = Path(__file__).parents[1] / "examples" / "scale"
GIVEN = "DPSQL_TEST_SPARK"  # the address of another Spark, to be asked in its place
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "  # little compiling, and one thread that looks for garbage
    "-XX:+UnlockDiagnosticVMOptions -XX:+IgnoreUnrecognizedVMOptions -XX:-BytecodeVerificationRemote"
)
MORE = {
    "spark.sql.files.maxPartitionBytes": "1m",  # several tasks for several files
    "spark.log.level": "OFF",
}


@contextmanager
def example(name: str) -> Iterator[Any]:
    """A module of the example's folder, which finds its neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield import_module(name)


@contextmanager
def spark() -> Iterator[tuple[str, Any]]:
    """Where Spark is, and its cluster: None where the environment names another one."""
    needs("java")
    if find_spec("pyspark") is None:
        wanted = "pyspark (pip install 'dpsql[spark]')"
        if os.environ.get("CI") == "true":
            pytest.fail(f"not to be left out under CI=true: {wanted}", pytrace=False)
        pytest.skip(WANTING + wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", JAVA)
        if given := os.environ.get(GIVEN):
            yield given, None
        else:
            with example("cluster") as module, module.cluster(memory="512m", more=MORE) as started:
                yield started.url, started
        gc.collect()  # what nobody holds any more is closed when it goes
        left = [client for client in gc.get_objects() if isinstance(client, _client()) and not client.is_closed]
        assert not left, "sessions are open: a process that ends asks for their end, of a server that is gone"


def _client() -> Any:
    return import_module("pyspark.sql.connect.client").SparkConnectClient


@contextmanager
def mortal(cluster: Any, which: str) -> Iterator[list[str]]:
    """Kill a worker, or its executor alone, as soon as it has something that is shuffled; gives who was killed."""
    name, killed, over = "worker1", list[str](), threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            if not before.issuperset((cluster.folder / name).rglob("shuffle_*.data")):
                if which == "executor":
                    os.kill(_executor(cluster.processes[name].pid), signal.SIGKILL)
                else:
                    cluster.kill(name)
                killed.append(which)
                return

    before = set((cluster.folder / name).rglob("shuffle_*.data"))  # of other statements
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield killed
    finally:
        over.set()
        watching.join()
        if name not in cluster.processes:
            cluster.start_worker(name)


def _executor(worker: int) -> int:
    """The process of a worker's executor: it is in its group."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group == worker and b"ExecutorBackend" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise LookupError("no executor")


def policy(folder: Path, backend: dict[str, str], source: str = "t.parquet", **columns: Any) -> dpsql.Policy:
    """One private table t, whose units are persons."""
    table = {"source": source, "unit": "person", "columns": columns}
    described = {"budget": {"epsilon": 10**6, "delta": 1e-6}, "backend": backend, "tables": {"t": table}}
    return dpsql.Policy.from_dict(described, folder=folder)
