"""run: do what isn't finished yet, and see that every file is there.

look for records -> price everything -> for each piece of work: pay, measure (Session) -> record -> write its files

Everything that can be refused is refused before the first piece is paid for. The logger `dpsql` is told of each piece:
names, prices and ids of releases, and never anything computed from rows.

What a run did, or would do: a line for each piece of work. Nothing of it is computed from rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

from dpsql.accounting.opening import open_ledger
from dpsql.answer.files import beside, write_whole
from dpsql.answer.model import Answer
from dpsql.answer.receipts import receipt_path, signed_receipt
from dpsql.answer.render import CONFIDENCE, encode, guarantee
from dpsql.core.cost import ZERO, Cost
from dpsql.core.errors import BudgetError, DataError, Error, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.jobs.job import Job, told, typed
from dpsql.jobs.read import read_job
from dpsql.jobs.work import Content, File, Record, Records, Work, works_of
from dpsql.policy.model import Policy
from dpsql.session import Session, connect

LOG = logging.getLogger("dpsql")
LOG.addHandler(logging.NullHandler())

Opening = Callable[[], AbstractContextManager[Session]]


def run(
    job: Job | str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    policy: str | Path | None = None,
    folder: str | Path | None = None,
    session: Session | None = None,
    opening: Opening | None = None,
    dry_run: bool = False,
    again: bool = False,
) -> Report:
    """Run a job, and say what it did. What an earlier run finished costs nothing, and its files get the same bytes.

    params: values of its parameters. policy: in the place of the job's (by default policy.toml in the working folder).
    folder: what output names are relative to, in the place of the job's. session: to ask in, instead of one that is
        opened here; opening: what opens one.
    dry_run: only say what it would cost. again: ask once more what an earlier run finished: that is free where the
        ledger has it for these data, and paid for where the data are another version.
    """
    found = job if isinstance(job, Job) else read_job(job)
    values = typed(found.parameters, params or {})
    works = works_of(found, values, None if folder is None else Path(folder).absolute())
    named = policy or found.policy or "policy.toml"
    early = session is None and not again and found.once_per == "parameters"
    done = dict(_recorded(works, named)) if early else {}
    lines: dict[int, Line] = {}
    left = [i for i in range(len(works)) if i not in done]
    fits, more = True, None
    if not dry_run:
        _check_places([file for work in works for file in work.files])
    for i, record in done.items():
        lines[i] = _finished(works[i], record, dry=dry_run)
    if left:
        opened = _open(session, opening or (lambda: connect(named, analyst=found.analyst)))
        with opened as asking:
            fits, more = _perform(found, works, left, asking, lines, dry=dry_run, again=again)
    shown = {name: told(value) for name, value in values.items()}
    return Report(found.name, shown, tuple(lines[i] for i in range(len(works))), dry_run, fits, more)


@contextmanager
def _open(session: Session | None, opening: Opening) -> Iterator[Session]:
    """The given session, which stays open; or one of its own."""
    if session is not None:
        yield session
        return
    with opening() as one:
        yield one


def _recorded(works: Sequence[Work], policy: str | Path) -> Iterator[tuple[int, Record]]:
    """What is finished, by its place. No source is opened for this: it is finished, whatever became of the data."""
    loaded = Policy.load(policy)
    if loaded.ledger_path.exists():
        with open_ledger(loaded) as ledger:
            records = Records.beside(ledger.path)
            for i, work in enumerate(works):
                if (record := records.find(work.digest(), ledger.knows)) is not None:
                    yield i, record


def _perform(
    job: Job,
    works: Sequence[Work],
    left: Sequence[int],
    session: Session,
    lines: dict[int, Line],
    *,
    dry: bool,
    again: bool,
) -> tuple[bool, int | None]:
    """Do what is left, in its order; returns whether the account can pay for all of it, and for how many more such
    runs after this one (None where it costs nothing).
    """
    records = Records.beside(session.ledger_path)
    versions = session.versions if job.once_per == "data" else None
    digests = {i: works[i].digest(versions) for i in left}
    waiting = []
    for i in left:
        record = None if again else records.find(digests[i], session.knows)
        if record is None:
            waiting.append(i)
        else:
            lines[i] = _finished(works[i], record, dry=dry)
    if any(file.receipt for i in waiting for file in works[i].files):
        session.signer.check()
    prices = {i: _priced(works[i], session) for i in waiting}
    paid = [price for price in prices.values() if price is not None]
    if dry:
        lines.update(
            {i: _line(works[i], "priced" if price else "stored", price or ZERO) for i, price in prices.items()}
        )
    # Theorem COMP-1: sequential composition adds.
    whole = sum(paid[1:], paid[0]) if paid else ZERO
    before = session.pays(whole) if paid else None
    fits = before is None or before >= 1
    if dry:
        return fits, None if before is None else max(0, before - 1)
    if not fits:
        raise BudgetError(
            f"{job.name} would cost {guarantee(whole, up=True)}, which is more than is left",
            code="budget-exhausted",
            hint="nothing was paid; lower what its queries spend, or give all of them one total",
        )
    for i in waiting:
        lines[i] = _done(works[i], digests[i], session, records, again=again)
    return fits, session.pays(whole) if paid else None


def _priced(work: Work, session: Session) -> Cost | None:
    """What a piece of work would cost now; None where it is free: the ledger has its answer, or no row is needed."""
    try:
        quote = (session.explain_batch if work.batch else session.explain)(work.sql, **work.asks)
    except Error as error:
        raise work.blame(error) from None
    return None if session.is_stored(quote) or not any(stage.steps for stage in quote.stages) else quote.price


def _done(work: Work, digest: str, session: Session, records: Records, *, again: bool) -> Line:
    """Pay for a piece of work, record what it became, and write its files."""
    try:
        answers = session.batch(work.sql, **work.asks) if work.batch else [session.query(work.sql, **work.asks)]
    except Error as error:
        raise work.blame(error) from None
    contents = [_content(f, a) for one, a in zip(work.queries, answers, strict=True) for f in one.files]
    ids = tuple(dict.fromkeys(a.receipt.id for a in answers if a.receipt.id))
    record = records.keep(digest, Record(ids, tuple(contents)), replace=again)
    _write(work, record)
    cost = answers[0].cost  # the same for all of a batch
    state = "released" if cost.epsilon or cost.delta or cost.rho else "stored"
    line = _line(work, state, cost, record.releases)
    LOG.info("%s", line, extra={"event": {"event": state, **line.as_dict()}})
    return line


def _content(file: File, answer: Answer) -> Content:
    """The bytes of one file and of its receipt."""
    whole = answer.simulated() if file.intervals else answer
    data = encode(whole, file.format, CONFIDENCE if file.intervals else None)
    if not file.receipt or answer.signer is None:
        return Content(data, None)
    return Content(data, signed_receipt(answer.about, file.path.name, data, answer.signer))


def _finished(work: Work, record: Record, *, dry: bool) -> Line:
    """What an earlier run finished: its files get the bytes that they had."""
    if not dry:
        _write(work, record)
    line = _line(work, "finished", ZERO, record.releases)
    LOG.info("%s", line, extra={"event": {"event": "finished", **line.as_dict()}})
    return line


def _line(work: Work, state: Any, cost: Cost, releases: Sequence[str] = ()) -> Line:
    names = tuple(one.name for one in work.queries)
    return Line(names, state, cost, tuple(releases), tuple(file.name for file in work.files))


# ---------------------------------------------------------------- files


def _check_places(files: Sequence[File]) -> None:
    """Refuse now, before anything is paid, a place that can't be written to."""
    for file in files:
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            if file.path.is_dir():
                raise PolicyError(f"{file.path} is a folder", code="job", hint="give the output another name")
            for path in (file.path, *([receipt_path(file.path)] if file.receipt else [])):
                handle, temporary = beside(path)
                handle.close()
                temporary.unlink()
        except OSError as error:
            raise DataError(
                f"{file.path} can't be written: {error.strerror}", code="output", hint="nothing was paid"
            ) from None


def _write(work: Work, record: Record) -> None:
    """Write the files that aren't there with these bytes; each with its receipt, whole or not at all."""
    for file, content in zip(work.files, record.contents, strict=True):
        wanted = [(file.path, content.file)]
        if content.receipt is not None:
            wanted.append((receipt_path(file.path), content.receipt))
        if all(_has(path, data) for path, data in wanted):
            continue
        try:
            write_whole(wanted)
        except OSError as error:
            raise DataError(
                f"{file.path} can't be written: {error.strerror}",
                code="output",
                hint="what was paid for is kept: run the job again, which costs nothing for it",
            ) from None


def _has(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


SOON = 5
"""Runs that what is left must still pay for; with fewer, a run says so."""

State = Literal["released", "stored", "finished", "priced"]
"""released: paid for now; stored: the ledger had its answer; finished: an earlier run did it; priced: a dry run."""


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of work: its queries, what became of it, what it cost, its releases and its files."""

    queries: tuple[str, ...]
    state: State
    cost: Cost
    releases: tuple[str, ...]
    files: tuple[str, ...]
    fits: bool = True

    def __str__(self) -> str:
        files = ", ".join(self.files)
        match self.state:
            case "finished":
                said = f"finished before, cost nothing: {files}"
            case "stored":
                said = f"cost nothing, the ledger has its answer: {files}"
            case "priced":
                said = f"will cost {guarantee(self.cost, up=True)}: {files}"
            case "released":
                said = f"cost {guarantee(self.cost, up=True)}: {files}"
        return f"{', '.join(self.queries)}: {said}"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "queries": list(self.queries),
            "state": self.state,
            "cost": cost_dict(self.cost),
            "releases": list(self.releases),
            "files": list(self.files),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did; print it."""

    job: str
    params: Mapping[str, str]
    lines: tuple[Line, ...]
    dry: bool
    fits: bool = True
    """Of a dry run: could all of it be paid now?"""
    runs_left: int | None = None
    """How many more runs of this price what is left pays for, after this one; None where it cost nothing."""

    @property
    def cost(self) -> Cost:
        """What all of it cost together."""
        # Theorem COMP-1: sequential composition adds.
        paid = [line.cost for line in self.lines if line.state in ("released", "priced")]
        return sum(paid[1:], paid[0]) if paid else ZERO

    def __str__(self) -> str:
        cost = self.cost
        whole = "nothing" if not cost.epsilon and not cost.delta else guarantee(cost, up=True)
        last = f"{self.job}: {'would cost' if self.dry else 'cost'} {whole}"
        last += "" if self.fits else ", which is more than is left"
        if self.warning:
            last += f"\n{self.warning}"
        return "\n".join([*map(str, self.lines), last])

    @property
    def warning(self) -> str:
        """That its next runs can't be paid; nothing where they can."""
        if not self.fits or self.runs_left is None or self.runs_left >= SOON:
            return ""
        left = "no more run" if not self.runs_left else f"{self.runs_left} more run{'s' * (self.runs_left > 1)}"
        then = "then " if self.dry else ""
        return f"{self.job}: what is {then}left pays for {left} of this price; ask the steward in good time"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        told = {"job": self.job, "params": dict(self.params), "dry_run": self.dry, "cost": cost_dict(self.cost)}
        return {
            **told,
            "fits": self.fits,
            "runs_left": self.runs_left,
            "queries": [line.as_dict() for line in self.lines],
        }


def cost_dict(cost: Cost) -> dict[str, float | None]:
    """A price as numbers, with the names that answers have for them."""
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
