"""A Spark cluster on one machine, without docker: a master, two workers and a Connect server, each a process.

python cluster.py          starts it, asks one question of it (query.py), and stops it (Java 17, half a minute)

A cluster of several machines is the same processes, one worker on each of them, over a file system that all of them
see. Here all addresses are 127.0.0.1, the processes share a secret, and the Connect server takes a token, so that
nobody else on the machine reaches them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import monotonic, sleep

HERE = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
DRIVER = "2g"  # plans of many sessions are kept there: with half a GB it does little but collect garbage
PATIENCE = 120.0  # seconds until a process must listen


@dataclass
class Cluster:
    """The processes of a cluster, which may be more than these names say: whoever adds a worker, names it."""

    folder: Path  # of settings, logs and shuffles: they may quote rows, and go with the cluster
    memory: str  # of each worker and its executor
    gate: int  # where the master listens
    url: str = ""  # for [backend] url
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """Its address."""
        return f"spark://{HERE}:{self.gate}"

    def start(self, name: str, *command: str, **environment: str) -> None:
        """Start a class of Spark's in a group of processes of its own, under a name."""
        import pyspark

        script = Path(pyspark.__file__).parent / "bin" / "spark-class"
        said = {"SPARK_LOCAL_IP": HERE, "SPARK_CONF_DIR": str(self.folder), **environment}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(script), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, **said},
                cwd=self.folder,
                start_new_session=True,
            )

    def start_worker(self, name: str) -> None:
        """A worker with one core. Its executors are in its group of processes; what they shuffle, in its folder."""
        own = self.folder / name
        own.mkdir(exist_ok=True)
        listening = ("--host", HERE, "--webui-port", "0", "--cores", "1", "--memory", self.memory)
        command = (f"{DEPLOY}.worker.Worker", *listening, "--work-dir", str(own), self.master)
        self.start(name, *command, SPARK_LOCAL_DIRS=str(own))

    def wait_for(self, name: str, port: int) -> None:
        """Wait until a process listens; an error with what it said, where it ended instead."""
        until, process = monotonic() + PATIENCE, self.processes[name]
        while monotonic() < until and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HERE, port)) == 0:
                    return
            sleep(0.1)
        raise RuntimeError((self.folder / f"{name}.log").read_text(errors="replace"))

    def kill(self, name: str) -> None:
        """End a process, and those that it started."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind((HERE, 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


@contextmanager
def cluster(workers: int = 2, memory: str = "1g", more: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster of workers with one core each, for as long as the context lasts. more: settings of Spark's."""
    gate, port = free_ports(2)
    with TemporaryDirectory(prefix="dpsql-cluster-", ignore_cleanup_errors=True) as name:
        started = Cluster(Path(name), memory, gate)
        settings = {
            "spark.master": started.master,
            "spark.authenticate": "true",
            "spark.authenticate.secret": token_hex(32),
            "spark.local.dir": name,
            "spark.sql.warehouse.dir": name,
            "spark.driver.host": HERE,
            "spark.driver.bindAddress": HERE,
            "spark.driver.memory": DRIVER,
            "spark.driver.maxResultSize": "0",
            "spark.executor.memory": memory,
            "spark.sql.shuffle.partitions": str(2 * workers),
            "spark.connect.grpc.binding.address": HERE,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            **(more or {}),
        }
        lines = [f"{key} {value}" for key, value in settings.items()]
        (started.folder / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
        token = token_hex(32)
        try:
            listening = ("--host", HERE, "--webui-port", "0", "--port", str(gate))
            started.start("master", f"{DEPLOY}.master.Master", *listening)
            started.wait_for("master", gate)
            for number in range(workers):
                started.start_worker(f"worker{number}")
            submit = (f"{DEPLOY}.SparkSubmit", "--class", CONNECT, "spark-internal")
            started.start("server", *submit, SPARK_CONNECT_AUTHENTICATE_TOKEN=token)
            started.wait_for("server", port)
            started.url = f"sc://localhost:{port}/;token={token}"
            yield started
        finally:
            for process in tuple(started.processes):
                started.kill(process)


def main(folder: str = ".") -> None:
    """Start, ask, stop."""
    from query import main as ask

    with cluster() as started:
        ask(started.url, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
