"""The core: who + text + options -> answer. Every protocol goes through it, so that every rule exists once.

It is the only caller of sessions. Its methods block; they raise dpsql's errors and nothing else: what isn't one of
them, and what would name a file, is told by the id of an incident (failures.py).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from dpsql.accounting.account import Entry
from dpsql.accounting.opening import quota
from dpsql.answer.model import Answer
from dpsql.core.concurrency import ReleaseTime
from dpsql.core.cost import Cost
from dpsql.core.errors import DataError, ServerError
from dpsql.explain.explanation import Explanation
from dpsql.server.audit import Audit, Metrics, hash_of
from dpsql.server.idempotency import Flights
from dpsql.server.limits import Buckets, Budget, Kind, Outlook, Slots, warning_of
from dpsql.server.options import Options, checked_options
from dpsql.server.replies import for_the_log, new_incident, outward
from dpsql.server.settings import Settings
from dpsql.server.tokens import Who
from dpsql.session import Engine, Session

__all__ = ["Budget", "Core", "Outlook", "Who"]

T = TypeVar("T")
LARGEST_KEPT = 1 << 20  # bytes


class Core:
    """An engine, answered for everybody who is known. Thread-safe."""

    def __init__(self, engine: Engine, settings: Settings, audit: Audit | None = None) -> None:
        self.engine = engine
        self.metrics = Metrics()
        self._changing = threading.Lock()
        self._users: Counter[Engine] = Counter()
        self._retired: set[Engine] = set()
        self._renewing = threading.Lock()
        self.settings = settings
        self.audit = audit or Audit(settings.audit)
        engine.ledger.watch(self.audit.witness)
        self._slots = Slots(settings.max_running, settings.max_running_each)
        self._buckets = Buckets(settings.rate)
        self._flights = Flights()

    def query(self, who: Who, sql: str, options: Options, key: str | None = None) -> Answer:
        """Answer a query. What it costs is on disk before a row is read. key: of a request that may come twice."""

        def ask() -> Answer:
            return self._asked("query", who, sql, options, lambda session, asked: session.query(sql, **asked))

        return self._once("query", who, sql, options, key, ask)

    def batch(self, who: Who, sql: str, options: Options, key: str | None = None) -> list[Answer]:
        """Answer several statements with one price for all. key: as for a query."""

        def ask() -> list[Answer]:
            return self._asked("batch", who, sql, options, lambda session, asked: session.batch(sql, **asked))

        return self._once("batch", who, sql, options, key, ask)

    def explain(self, who: Who, sql: str, options: Options) -> Explanation:
        """Everything about a query's noise and price; spends nothing."""
        return self._asked("explain", who, sql, options, lambda session, asked: session.explain(sql, **asked))

    def prices(self, who: Who, sql: str, options: Options) -> list[Explanation]:
        """Quotes for a query at several ε; spends nothing."""
        return self._asked("prices", who, sql, options, lambda session, asked: session.prices(sql, **asked))

    def free(self, who: Who, sql: str, options: Options) -> Answer | None:
        """The answer where it costs nothing; None where it would cost."""
        return self._asked("free", who, sql, options, lambda session, asked: session.free(sql, **asked))

    def outlook(self, who: Who, explained: Explanation, *, fresh: bool = False) -> Outlook:
        """What an explained query would do to this analyst's budget."""

        def look(session: Session) -> Outlook:
            left, mine = self._left(who), quota(self.engine.policy, who.name)
            stored = not fresh and session.is_stored(explained)
            fits = stored or explained.fits is None or explained.fits.more != 0
            after = left if stored else self.engine.ledger.left(mine, explained.price)
            return Outlook(stored, left, after if fits else None)

        return self._told("outlook", who, look)

    def schema(self, who: Who) -> list[dict[str, Any]]:
        """The policy's tables and columns: what there is to ask."""

        def tables(session: Session) -> list[dict[str, Any]]:
            found = _records(session.query("SHOW TABLES"))
            for table in found:
                quoted = '"' + str(table["name"]).replace('"', '""') + '"'
                described = _records(session.query(f"DESCRIBE {quoted}"))
                table["columns"] = [
                    {"name": c.pop("column_name"), "type": c.pop("column_type"), **c} for c in described
                ]
            return found

        return self._told("schema", who, tables)

    def catalog(self, who: Who, sql: str, look: Callable[[], T]) -> T:
        """What a query of catalogs finds, which another engine answers: it counts, and is logged, like any other."""
        with self._audited("catalog", who, sql=hash_of(sql)):
            self._buckets.take(who.name)
            return look()

    def functions(self) -> list[dict[str, str]]:
        """Every aggregate and scalar function that is understood."""
        from dpsql.explain.schema import listed

        return listed()

    def budget(self, who: Who) -> Budget:
        """What this analyst has spent and may still spend."""

        def look(_: Session) -> Budget:
            ledger = self.engine.ledger
            balance, own = ledger.balance, quota(self.engine.policy, who.name)
            spent = balance.analysts.get(who.name, ledger.account.filter.shown(ledger.account.filter.nothing))
            limit = None if own is None else own.epsilon
            return Budget(balance.total, spent, self._left(who), limit, balance.period, self.warning(who))

        return self._told("budget", who, look)

    def warning(self, who: Who) -> str | None:
        """What to say when four fifths of what this analyst may spend are gone."""
        own = quota(self.engine.policy, who.name)
        return warning_of(self.engine.ledger.account.total, own, self._left(who))

    def metrics_text(self, who: Who) -> str:
        """For stewards: what monitoring reads."""
        self._require_steward(who)
        balance = self.engine.ledger.balance
        spent, total = (
            float(cost.epsilon if cost.rho is None else cost.rho) for cost in (balance.spent, balance.total)
        )
        return self.metrics.text(spent, total, self._slots.running)

    def history(self, who: Who) -> list[Entry]:
        """The spends of this analyst, oldest first; a steward sees all."""

        def look(_: Session) -> list[Entry]:
            return [e for e in self.engine.ledger.history() if who.role == "steward" or e.analyst == who.name]

        return self._told("history", who, look)

    def replay(self, who: Who, receipt_id: str) -> list[Answer]:
        """The answers that left under a receipt of this analyst's own (a steward: of anybody's), once more."""

        def again(session: Session) -> list[Answer]:
            owner = self.engine.ledger.owner(receipt_id) if who.role == "steward" else None
            if owner is None or owner == who.name:
                return session.replays(receipt_id)
            with self.engine.session(owner or None) as his:
                return his.replays(receipt_id)

        return self._told("replay", who, again)

    def spending(self, who: Who) -> list[tuple[str, str, Cost, int]]:
        """For stewards: day, analyst, what was spent and by how many releases; the oldest first."""
        self._require_steward(who)

        def look(_: Session) -> list[tuple[str, str, Cost, int]]:
            filter_ = self.engine.ledger.account.filter
            found: dict[tuple[str, str], tuple[Cost, int]] = {}
            for entry in self.engine.ledger.history():
                before, count = found.get((entry.time[:10], entry.analyst), (filter_.nothing, 0))
                found[entry.time[:10], entry.analyst] = before + entry.cost, count + 1
            return [(day, name, filter_.shown(cost), n) for (day, name), (cost, n) in found.items()]

        return self._told("spending", who, look)

    def policy_text(self, who: Who) -> str:
        """For stewards: the policy as it is written."""
        self._require_steward(who)

        def read(_: Session) -> str:
            path = self.engine.policy.path
            return "" if path is None else path.read_text(encoding="utf-8")

        return self._told("policy", who, read)

    def is_ready(self) -> bool:
        """Does the ledger open, and is the data the version that it records?"""
        try:
            self.engine.ledger.left(None)
            if _is_over(self.engine):
                return self.renew()
            return not self.engine.is_behind() or self.engine.policy.data.on_change == "accept" or self.renew()
        except Exception:
            return False

    def close(self) -> None:
        """End it; nothing is under way any more. The engine is closed with it."""
        for engine in {self.engine, *self._retired}:
            engine.close()
        self.audit.close()

    def _require_steward(self, who: Who) -> None:
        if who.role != "steward":
            raise ServerError("this is for stewards", code="forbidden", hint="ask the steward")

    # ---------------------------------------------------------------- the rules, each once

    def _once(self, event: str, who: Who, sql: str, options: Options, key: str | None, ask: Callable[[], T]) -> T:
        """Do it once for each key; without one, whenever it is asked for."""
        if key is None:
            return ask()
        request = hash_of(repr((event, sql, sorted(options.items(), key=lambda one: one[0]))))

        @contextmanager
        def waiting() -> Iterator[float]:
            self._buckets.take(who.name)
            with self._slots.taken(who.name, "again"):
                yield 2 * self.settings.seconds

        found: T = self._flights.once(who.name, key, request, ask, waiting, _is_small)
        return found

    def _asked(self, event: str, who: Who, sql: str, options: Options, ask: Callable[[Session, Options], T]) -> T:
        """Ask about a query: a slot, options that were checked, an error that may leave, and a line in the log."""
        kind: Kind = "query" if event in ("query", "batch") else "explain"
        with self._audited(event, who, sql=hash_of(sql)) as told:
            self._buckets.take(who.name)
            asked = checked_options(options)
            hold = ReleaseTime(self.settings.seconds, self.settings.reply_after.text)  # it counts from here
            with self._slots.taken(who.name, kind):
                try:
                    return self._in_session(who, hold, told, lambda session: ask(session, asked))
                except DataError as error:
                    # Nothing was paid: where the steward has accepted other data, they are what is asked about; and an
                    # engine that somebody's query has ended is replaced by another.
                    renews = error.code in ("data-changed", "engine-failed") and "receipt" not in told
                    if not renews or not self.renew():
                        raise
                    return self._in_session(who, hold, told, lambda session: ask(session, asked))

    def _in_session(self, who: Who, hold: ReleaseTime, told: dict[str, object], ask: Callable[[Session], T]) -> T:
        """Ask in a session; `told` gets the receipt of what was paid for, and a warning where little is left."""
        with self._session(who, hold) as session:
            try:
                return ask(session)
            finally:
                if session.charged is not None:
                    told |= {"receipt": session.charged.id}
                    if (warning := self.warning(who)) is not None:
                        told |= {"warning": warning}

    def _told(self, event: str, who: Who, ask: Callable[[Session], T]) -> T:
        """Tell what is there already: no slot, nothing is paid."""
        with self._audited(event, who):
            self._buckets.take(who.name)
            with self._session(who) as session:
                return ask(session)

    @contextmanager
    def _session(self, who: Who, hold: ReleaseTime | None = None) -> Iterator[Session]:
        """A session that keeps analysts from each other's releases, and from the time that a query takes."""
        with self._changing:
            engine = self.engine
            self._users[engine] += 1
        try:
            with engine.session(who.name, share=self.settings.share, hold=hold) as session:
                yield session
        finally:
            with self._changing:
                self._users[engine] -= 1
                done = not self._users[engine] and engine in self._retired
                self._retired -= {engine} if done else set()
            if done:
                engine.close()

    def renew(self) -> bool:
        """Go on with data that the steward has accepted since, or after an engine that failed; whether there is a way.

        Sessions of the engine before end in their own time, and it is closed after the last of them.
        """
        path = self.engine.policy.path
        with self._renewing:
            if path is None or not (_is_over(self.engine) or self.engine.is_behind()):
                return path is not None
            fresh = Engine.open(path)
            if fresh.stale is not None:
                fresh.close()
                return False
            fresh.failed_readings = self.engine.failed_readings  # one that failed may be what ended the engine
            fresh.ledger.watch(self.audit.witness)
            with self._changing:
                before, self.engine = self.engine, fresh
                unused = not self._users[before]
                self._retired |= set() if unused else {before}
        if unused:
            before.close()
        self.audit.write("renewed", {})
        return True

    @contextmanager
    def _audited(self, event: str, who: Who, **facts: object) -> Iterator[dict[str, object]]:
        """A line in the log at the end, however it ends; and errors as they may leave."""
        begun, told = monotonic(), dict(facts)
        try:
            yield told
        except BaseException as error:
            incident = new_incident()
            outside = outward(error, incident)
            told |= {"outcome": outside.code, "error": for_the_log(error)}
            if isinstance(outside, ServerError) and outside.incident:
                told |= {"incident": incident}
            self._log(event, who, begun, told)
            if not isinstance(error, Exception):
                raise
            raise outside from None
        self._log(event, who, begun, {"outcome": "done", **told})

    def _log(self, event: str, who: Who, begun: float, told: Mapping[str, object]) -> None:
        seconds = round(monotonic() - begun, 6)
        self.metrics.add(event, str(told["outcome"]), seconds)
        with suppress(OSError):  # of a full disk the ledger's own lines tell, before anything is answered
            self.audit.write(event, {"analyst": who.name, "role": who.role, **told, "seconds": seconds})

    def _left(self, who: Who) -> Cost:
        return self.engine.ledger.left(quota(self.engine.policy, who.name))


def _is_over(engine: Engine) -> bool:
    """Did an engine fail, so that it measures nothing any more?"""
    try:
        engine.backend.check_running()
    except DataError:
        return True
    return False


def _is_small(found: Any) -> bool:
    """Is an answer, or are answers, small enough to be kept in memory for an hour?"""
    answers: list[Answer] = found if isinstance(found, list) else [found]
    return sum(int(answer.table.nbytes) for answer in answers) <= LARGEST_KEPT


def _records(answer: Answer) -> list[dict[str, Any]]:
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
