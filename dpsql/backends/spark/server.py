"""Spark Connect: reaching a server, or starting one in this process; sessions, settings, statements.

What a statement fails with may quote a cell, and so may what is logged of it: nothing of either leaves this file.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, TypeVar

from dpsql.backends.base import Deadline, engine_failed, timed_out
from dpsql.backends.spark.alive import ANSWER, Heir, be_impatient, beating
from dpsql.backends.spark.reading import Reading, own_reader
from dpsql.backends.spark.settings import PINNED, UNLIMITED
from dpsql.core.concurrency import TimeUp, stoppable
from dpsql.core.errors import DataError
from dpsql.core.extras import extra
from dpsql.policy.settings import Duration, EngineSettings

T = TypeVar("T")
_QUIET = "rootLogger.level = off\n"
_OF_OTHER_SPARKS = re.compile(r"(SPARK|PYSPARK)_(?!USER$|LOCAL_IP$)\w+")
"""Variables that tell a process of another Spark: its address, its gateway, its home. By them none can be started."""
_started: dict[str, str] = {}  # servers of this process, by what was asked for
_lock = threading.Lock()
_USUAL = EngineSettings().timeout
GRACE = 20.0  # seconds in which a statement that was interrupted must have ended
BUILDS = (
    "version() AS spark",
    *(
        f"java_method('java.lang.System', 'getProperty', 'java.{name}') AS `{name}`"
        for name in ("version", "vm.version", "vm.vendor")
    ),
)
"""Expressions by which a server states its build, with the hash of what it was built of, and its driver's Java."""
GONE = "Spark is gone: its driver doesn't answer any more"
"""For the steward's log."""


def connect_module() -> Any:
    """Spark Connect's sessions; an ExtraError where pyspark isn't installed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        module = extra("pyspark.sql.connect.session", "spark", 'a policy with [backend] kind = "spark"')
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)  # what failed is said by whoever waits
    for name in (
        "pyspark",
        "pyspark.sql.connect.logging",
        "SQLQueryContextLogger",
        "DataFrameQueryContextLogger",
        "py4j",
    ):
        logging.getLogger(name).disabled = True
    return module


def reach(url: str, seconds: float | None = None) -> Any:
    """A session of one's own. What fails here is about the server, and no row was read yet.

    seconds: what it may take; a Spark of this process is started before that.
    """
    module = connect_module()
    made, given_up = list[Any](), list[bool]()

    def connect() -> str:
        # Not by its builder: that asks the server something before anybody could make the client impatient or close it
        session = module.SparkSession(connection=where)
        made.append(session)
        be_impatient(session.client)
        if given_up:  # nobody waits for it any more
            abandon()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The SQL config", UserWarning)  # some may go: then setting them fails
            for key, value in PINNED.items():
                session.conf.set(key, value)
        return str(session.conf.get(UNLIMITED))

    def abandon() -> None:  # without a word to the server
        given_up.append(True)
        for session in made:
            session.client.close()

    try:
        where = address(url)
        unlimited = stoppable(connect, abandon, seconds)
    except Exception as error:
        abandon()
        raise DataError(
            f"no Spark answers at {_shown(url)} ({_cause(error)})",
            code="no-spark",
            hint='start a Spark Connect server there, or write url = "local[4]", which needs Java 17',
        ) from None
    (session,) = made
    if unlimited not in ("0", "0b"):
        session.stop()
        raise DataError(
            f"the Spark at {_shown(url)} limits results ({UNLIMITED} is {unlimited}): how many groups there are would "
            "decide whether a query fails",
            code="spark-settings",
            hint=f"start it with --conf {UNLIMITED}=0",
        )
    return session


def _cause(error: Exception) -> str:
    """What failed, in a word: Spark's own word for it, where there is one, says more than its kind."""
    if isinstance(error, TimeUp):
        return "nothing within [engine] timeout"
    named = getattr(error, "getCondition", None)
    return (named() if named is not None else None) or type(error).__name__


def _shown(url: str) -> str:
    """Without parameters, one of which may be a token."""
    return url.partition("/;")[0]


def address(url: str) -> str:
    """Where the server is; that of this process is started when it is first asked for."""
    if not url.startswith("local"):
        return url
    with _lock:
        if url not in _started:
            if _started:
                raise RuntimeError("one process starts one Spark")
            _started[url] = _start(url)
        return _started[url]


def _start(master: str) -> str:
    """A Spark of this process, which nobody else can reach: its port takes a token that nobody else knows."""
    core = extra("pyspark", "spark", "Spark")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token, folder = token_hex(32), TemporaryDirectory(prefix="dpsql-spark-")
    log = Path(folder.name, "log4j2.properties")
    log.write_text(_QUIET, encoding="utf-8")
    settings = {
        "spark.master": master,
        "spark.app.name": "dpsql",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}",
        "spark.local.dir": folder.name,
        "spark.sql.warehouse.dir": folder.name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(8 * _threads(master)),
        UNLIMITED: "0",
    }
    try:
        with _no_other_spark(), _no_fork():
            context = core.SparkContext(conf=core.SparkConf(loadDefaults=False).setAll(list(settings.items())))
    except BaseException:
        folder.cleanup()
        raise

    def stop() -> None:
        with suppress(Exception):
            context.stop()
        folder.cleanup()

    atexit.register(stop)
    return f"sc://localhost:{port}/;token={token}"


@contextmanager
def _no_other_spark() -> Iterator[None]:
    """Without what the environment says of another Spark. Threads that read the environment meanwhile miss it."""
    said = {name: value for name, value in os.environ.items() if _OF_OTHER_SPARKS.fullmatch(name)}
    for name in said:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(said)


@contextmanager
def _no_fork() -> Iterator[None]:
    """Let pyspark start Java without a copy of this process.

    It would fork, to run a line of Python that keeps Ctrl-C from Java. Where a session of gRPC is open, the copy may
    end before it becomes Java (JAVA_GATEWAY_EXITED). A group of processes of its own keeps Ctrl-C away as well.
    """
    from pyspark import java_gateway

    popen = java_gateway.Popen

    def start(command: Sequence[str], **named: Any) -> Any:
        if os.name == "posix":
            named = {**named, "preexec_fn": None, "process_group": 0}
        return popen(command, **named)

    java_gateway.Popen = start
    try:
        yield
    finally:
        java_gateway.Popen = popen


def _threads(master: str) -> int:
    """How many tasks run at a time; for local[*] Spark's own default, 200 partitions, is left."""
    listed = master.removeprefix("local").strip("[]").partition(",")[0] or "1"
    return int(listed) if listed.isdigit() else 25


def _one_row(table: Any) -> Any:
    """A row of NULLs in the place of none, of which Spark would not read the types."""
    import pyarrow as pa

    return pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})


def _lazily(session: Any, sql: str, parameters: Mapping[str, str]) -> Any:
    """A query that a server sees once, when its rows are asked for: session.sql() has it analysed before that."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.functions import lit
    from pyspark.sql.connect.plan import SQL

    return DataFrame(SQL(sql, [], {name: lit(value) for name, value in parameters.items()}, []), session)


class Connection:
    """A session that runs statements, each under the settings that the proofs assume. Threads may share it.

    limit: how long each wait for the server may last, connecting included, where no deadline says it.
    """

    def __init__(self, url: str, limit: Duration = _USUAL) -> None:
        self._limit = limit
        self._session = reach(url, float(limit.seconds))
        self._heir = None if url.startswith("local") else Heir(url, self._session.client)
        self.failed = False
        self._lock = threading.Lock()
        self._views = 0

    @property
    def life(self) -> str:
        """What tells this run of a server from others at the same address; "" where it doesn't say."""
        return self._stoppable(lambda: str(self._session.conf.get("spark.app.id", "")))

    @property
    def version(self) -> str:
        """Which Spark answers."""
        return self._stoppable(lambda: str(self._session.version))

    @property
    def builds(self) -> tuple[str, ...] | None:
        """The build of the Spark that answers and of the Java that it runs on; None where it doesn't state them all."""
        try:
            found = self.arrow(f"SELECT {', '.join(BUILDS)}", {})
        except DataError:  # a server may forbid such functions
            if self.failed:
                raise
            return None
        texts = tuple(str(column[0].as_py() or "") for column in found.columns)
        return None if {"", "null"}.intersection(texts) else texts  # null: Java has no such property

    @property
    def settings(self) -> Mapping[str, str]:
        """All settings that the server tells of."""
        return self._stoppable(lambda: dict(self._session.conf.getAll))

    def arrow(self, sql: str, parameters: Mapping[str, str], until: Deadline | None = None) -> Any:
        """A statement's result as an Arrow table."""

        def run() -> Any:
            self._check_settings()
            return _lazily(self._session, sql, parameters).toArrow()

        return self._stoppable(run, until)

    def _check_settings(self) -> None:
        """Theorem TOTAL-1, On Spark: a session can be reached by its id, and its settings changed, by others."""
        held = self._session.conf.getAll
        if any(held.get(key) != value for key, value in PINNED.items()):
            raise RuntimeError("settings were changed")

    def view(
        self, table: Any, columns: Mapping[str, str], *, dealt_out: bool = False, until: Deadline | None = None
    ) -> str:
        """Let statements read an Arrow table: each column as an expression of Spark's; gives the view's name.

        dealt_out: its rows pass a shuffle, so that what is computed of them is computed where rows of files are.
        """
        with self._lock:
            self._views += 1
            name = f"dpsql_view_{self._views}"
        listed = [f"{expression} AS `{column}`" for column, expression in columns.items()]

        def send() -> None:
            rows = self._session.createDataFrame(table if table.num_rows else _one_row(table))
            rows = rows.repartition(3) if dealt_out else rows
            rows = rows if table.num_rows else rows.where("FALSE")
            rows.selectExpr(*listed).createOrReplaceTempView(name)

        self._stoppable(send, until)
        return name

    def read(
        self,
        reading: Reading,
        listed: list[str],
        name: str,
        *,
        bucketed: bool = False,
        until: Deadline | None = None,
    ) -> None:
        """Let statements read these files, by these expressions, under a name."""

        def name_it() -> None:
            reading.rows(self._session, bucketed=bucketed).selectExpr(*listed).createOrReplaceTempView(name)

        self._stoppable(name_it, until)

    def drop(self, name: str) -> None:
        """Take a view back. Never fails."""
        if not self.failed:
            with suppress(Exception):
                self._stoppable(lambda: self._session.catalog.dropTempView(name))

    def types(self, reading: Reading) -> dict[str, str]:
        """The columns of files and their types, as Spark reads them; a DataError where it reads other files."""
        fields = self._stoppable(lambda: list(reading.rows(self._session).schema))
        return {field.name: field.dataType.simpleString() for field in fields}

    def columns(self, table: str) -> list[tuple[str, str, tuple[str, ...]]]:
        """The columns of a catalog's table: name, type, and of what else the catalog says something."""
        fields = self._stoppable(lambda: list(self._session.table(table).schema))
        return [(field.name, field.dataType.simpleString(), tuple(field.metadata or ())) for field in fields]

    def folder(self, location: str) -> list[tuple[str, int, int]]:
        """The files of a folder, as Spark lists them now: address, size, milliseconds of the last change."""

        def asked() -> Any:
            files = own_reader(self._session).format("binaryFile").load(location)
            return files.selectExpr("path", "length", "unix_millis(modificationTime) AS changed").toArrow()

        rows = self._stoppable(asked).to_pylist()
        return [(row["path"], row["length"], row["changed"]) for row in rows]

    def close(self) -> None:
        """Close the session. Never fails."""
        with suppress(Exception):
            if not self.failed:  # else nobody is there who could be told
                self._session.stop()
        with suppress(Exception):
            self._session.client.close()  # also where the server is gone since
        if self._heir is not None:
            self._heir.leave()

    def _stoppable(self, work: Callable[[], T], until: Deadline | None = None) -> T:
        """What `work` returns. It is stopped when its time is up, and given up where the server is gone meanwhile."""
        limit = self._limit
        until = Deadline(monotonic() + float(limit.seconds), limit.text) if until is None else until
        tag = f"dpsql-{token_hex(8)}"
        watch = threading.Timer(GRACE, self._abandon)
        watch.daemon = True
        begun = list[bool]()

        def tagged() -> T:
            self._session.addTag(tag)  # of this thread alone
            return work()

        def interrupt() -> None:
            if not begun:
                begun.append(True)
                watch.start()
            self._interrupt(tag)

        with self._one_message():
            try:
                with beating(self._beat, self._abandon):
                    return stoppable(tagged, interrupt, until.at - monotonic())
            except TimeUp:
                raise timed_out(until.limit) from None
            finally:
                watch.cancel()

    def _beat(self) -> None:
        """Ask the server for a word; it fails in less than a minute where none comes."""
        self._session.conf.get("spark.app.id", "")

    def _abandon(self) -> None:
        """Leave what runs to the server: whoever waits for it is told so, and the session ends.

        A server may be gone; and one that is there interrupts a statement once, and the thread that plans it may pass
        over that.
        """
        self.failed = True
        with suppress(Exception):
            self._session.client.close()

    def _interrupt(self, tag: str) -> None:
        with suppress(Exception):
            self._session.interruptTag(tag)

    @contextmanager
    def _one_message(self) -> Iterator[None]:
        """Whatever fails, fails with one and the same message (ATTACKS 9)."""
        try:
            yield
        except DataError:
            raise
        except Exception as error:
            self._look()
            raise engine_failed(GONE if self.failed else type(error).__name__) from None

    def _look(self) -> None:
        """Note whether anything can be asked any more."""
        if self.failed:
            return
        try:
            stoppable(lambda: self._session.sql("SELECT 1").toArrow(), self._abandon, ANSWER)
        except Exception:
            self._abandon()
