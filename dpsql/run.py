"""run: Quote -> answers. The loop that everything goes through, and the only place where anything is paid or recorded.

reserve -> for each stage: measure, check that the data is unchanged, record -> finish each part

What is measured is stored before it is processed any further, so that whatever fails later costs nothing to retry: the
stored release answers. What fails before that is lost, and paid again (Theorem LEDGER-1).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from dpsql.accounting.account import Receipt, Spend
from dpsql.accounting.claims import Overtaken
from dpsql.accounting.opening import quota
from dpsql.accounting.view import Share, View, own_claim
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.answer.about import about
from dpsql.answer.finish import answer_from, finish, publish
from dpsql.answer.model import Answer
from dpsql.backends.base import Deadline, timed_out
from dpsql.core.concurrency import ReleaseTime, TooLate, stoppable
from dpsql.core.errors import BudgetError, LedgerError
from dpsql.engine import Asked, Data, Shared
from dpsql.quote.model import Known, Quote, Released, ResponseStep, Stage
from dpsql.quote.spare import counted_units, with_spare_rows
from dpsql.release import release, respond
from dpsql.store.archive import pack_answer
from dpsql.store.claim_key import claim_of
from dpsql.store.reuse import keep, look
from dpsql.store.unit_index import Indexing


def run(quote: Quote, data: Data, payer: Payer, *, fresh: bool = False) -> list[Answer]:
    """Pay for what isn't stored yet, measure it, and answer each part.

    data: that the quote was made for. fresh: stored releases answer nothing but ranges.
    """
    late: list[Stage] = []
    try:
        return _flight(quote, data, payer, fresh, late)
    except Overtaken:
        # Theorem FLIGHT-1: others took over when it was late, and nothing that was drawn here is shown. Their release
        # answers, or it is paid for once more.
        lost = quote.cost_of(late)
        try:
            return [replace(a, cost=lost + a.cost) for a in _flight(quote, data, payer, fresh, [])]
        except Overtaken:
            raise _overtaken() from None


def measure(quote: Quote, data: Data, payer: Payer) -> list[Receipt]:
    """Pay for what isn't stored yet of a quote without parts, measure and record it: the receipts of what was paid."""
    for _ in range(2):
        paid: list[Stage] = []
        with suppress(Overtaken):
            known = _released(quote, data, payer, False, paid)
            return [known[stage].receipt for stage in paid]
    raise _overtaken()


def _overtaken() -> LedgerError:
    return LedgerError(
        "others took this release over twice: it was measured too late, and nothing of it was shown",
        code="release-busy",
        hint="it stays charged; ask again when the machine has less to do: what they record is free",
    )


def stored(quote: Quote, data: Data, payer: Payer) -> list[Answer] | None:
    """Answer each part from stored releases alone (Theorem FREE-1); None where one is missing. Nothing can be paid."""
    known = look(quote.stages, data.versions, payer.view)
    return None if len(known) < len(quote.stages) else _answers(quote, known, [], payer.engine, payer.view)


def _flight(quote: Quote, data: Data, payer: Payer, fresh: bool, paid: list[Stage]) -> list[Answer]:
    """Answer each part of a quote; `paid` is told what was paid for."""
    known = _released(quote, data, payer, fresh, paid)
    answers = _answers(quote, known, paid, payer.engine, payer.view)
    for stage in paid:
        _store_answers(quote, known[stage], answers, payer)
    return answers


def _released(quote: Quote, data: Data, payer: Payer, fresh: bool, paid: list[Stage]) -> dict[Stage, Released]:
    """What each stage of a quote released, now or earlier; `paid` is told what was paid for."""
    ledger = payer.engine.ledger
    asked = Asked(payer.analyst, lambda: payer.require_admitted(quote, data, fresh))
    payer.engine.read_named([step for stage in quote.stages for step in stage.steps], asked)
    known, receipts = payer.reserve(quote, data, fresh)
    paid += [stage for stage in quote.stages if stage not in known]
    with ledger.working(receipts):
        measured = _measured(quote, list(zip(paid, receipts, strict=True)), known, data, payer)
        for stage, one in zip(paid, payer.in_time(measured) if paid else (), strict=True):
            kept = keep(one.stage, data.versions, one.noisy)
            known[stage] = replace(one, receipt=ledger.record(one.receipt, kept))
    return known


def _measured(
    quote: Quote, paid: Sequence[tuple[Stage, Receipt]], known: Known, data: Data, payer: Payer
) -> Iterator[Released]:
    """Measure what was paid for, one stage after another, while the data stay the same."""
    engine, found = payer.engine, dict(known)
    until, indexing = payer.deadline(), engine.indexing(data)
    for stage, receipt in paid:
        settled = with_spare_rows(stage.settled(found), {**quote.counts, **counted_units(found)})
        noisy = _measure(settled, engine, until, indexing)
        engine.check_unchanged(data)
        indexing.keep()
        found[stage] = Released(settled, noisy, receipt)
        yield found[stage]


def _answers(quote: Quote, known: Known, paid: Sequence[Stage], engine: Shared, view: View) -> list[Answer]:
    """The answer to each part, from what its stages released; with what was paid for now, and what is said of it."""
    receipt = known[quote.main].receipt
    cost = quote.cost_of(paid) if paid else receipt.cost
    said = about(quote, known, view, engine.policy.digest, engine.versions_used)
    finished = [finish(i, quote, known, receipt, engine.public) for i in range(len(quote.parts))]
    return [replace(answer, cost=cost, about=said, signer=engine.signer) for answer in finished]


def _measure(stage: Stage, engine: Shared, until: Deadline, indexing: Indexing) -> tuple[Noisy | Responded, ...]:
    """Execute and release, step by step. The only way to a private row; the price is on disk by now.

    What is found of heavy units on the way never leaves the engine, and changes no integer (Theorem INDEX-1).
    """
    noisy: list[Noisy | Responded] = []
    engine.read_named(
        stage.steps, Asked(charged=until)
    )  # what it names now that limits and ranges are known: nothing else
    with engine.backend.measuring(until) as rows:
        indexing.count_units(stage.steps, rows)
        for step in stage.steps:
            if isinstance(step, ResponseStep):
                noisy.append(respond(step, rows.encode(step)))
            else:
                tables = [one for one in noisy if isinstance(one, Noisy)]
                given = publish(step, tables, engine.public)
                secret = secrets.randbits(64)  # Theorem CAP-1: of this run alone
                noisy.append(release(step, rows.execute(step, given, secret, indexing.of(step, rows))))
    return tuple(noisy)


def _store_answers(quote: Quote, released: Released, answers: Sequence[Answer], payer: Payer) -> None:
    """Keep what was answered, so that it can be shown again as it was; what counts of units tell is part of it."""
    stage, tables = released.stage, [one for one in released.noisy if isinstance(one, Noisy)]
    shown = list(answers) if stage.kind == quote.main.kind else []
    if stage.shown is not None:
        shown = [answer_from(stage.shown, tables, released.receipt, payer.engine.public)]
    if shown:
        payer.engine.ledger.answered(released.receipt, [pack_answer(answer, tables) for answer in shown])


_UNPAID = ("release-busy", "ledger-busy", "ledger-no-locks")
"""Errors of a reservation that come before anything is recorded."""


class Payer:
    """Who pays: an analyst, with a quota where the policy has one for him."""

    def __init__(
        self,
        engine: Shared,
        analyst: str,
        share: Share = "open",
        hold: ReleaseTime | None = None,
        note: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """share: whose releases answer him. hold: when he is answered; None: as soon as the answer is there.

        note: what the ledger notes beside each spend.
        """
        self.engine = engine
        self.analyst = analyst
        self.view = View(engine.ledger, analyst, share)
        self._hold = hold
        self._note = note
        self.charged: Receipt | None = None
        """The last spend: what was paid for, also where it was interrupted or failed afterwards."""
        self.paying = False
        """Is something being paid for, or was that interrupted, so that only the ledger knows?"""

    @property
    def _patience(self) -> float:
        """For how many seconds it waits for somebody who measures the same."""
        return float(self.engine.settings.timeout.seconds) if self._hold is None else 2 * self._hold.seconds

    def deadline(self) -> Deadline:
        """When the statements of what was just paid for must have ended."""
        return self.engine.deadline() if self._hold is None else Deadline(self._hold.until, self._hold.limit)

    def in_time(self, measured: Iterable[Released]) -> Iterator[Released]:
        """What was measured: as soon as it is there, or all of it at the moment when it may be seen.

        Until then nothing of it is recorded, so that no store, price, history, replay or claim tells when it was there
        (Assumption HOLD-1); and so are errors of measuring.
        """
        try:
            yield from measured if self._hold is None else self._hold.held(measured)
        except TooLate:
            assert self._hold is not None
            raise timed_out(self._hold.limit) from None

    def require_admitted(self, quote: Quote, data: Data, fresh: bool) -> None:
        """Refuse, as `reserve` would now, what can't be paid. Nothing is recorded, and nothing is promised of later."""
        known = look(_reusable(quote, fresh), data.versions, self.view)
        try:
            self.engine.ledger.require_admitted(
                self._spends(quote, data, fresh)(known), quota(self.engine.policy, self.analyst)
            )
        except BudgetError as error:
            _offer(quote, error)
            raise

    def _spends(self, quote: Quote, data: Data, fresh: bool) -> Callable[[Known], list[Spend]]:
        """What is to be paid of a quote, given what is stored of it."""
        engine, asked = self.engine, _reusable(quote, fresh)
        untested = engine.backend.versions.untested

        def spends(known: Known) -> list[Spend]:
            wanted = [stage for stage in quote.stages if stage not in known]
            if wanted:
                engine.backend.check_running()
            told = {**self._note, **({"untested": untested} if untested else {})}
            scope = self.view.scope
            claims = {s: own_claim(claim_of(s, data.versions), scope) if s in asked else b"" for s in wanted}
            return [Spend(s.cost, {**s.note, **told}, claims[s]) for s in wanted]

        return spends

    def reserve(self, quote: Quote, data: Data, fresh: bool) -> tuple[dict[Stage, Released], list[Receipt]]:
        """What is stored of a quote, and the receipts of the rest, which is paid for before a row is read.

        Whoever interrupts this finds all of it done, or nothing: `charged` tells.
        """
        engine, asked, spends = self.engine, _reusable(quote, fresh), self._spends(quote, data, fresh)
        untested = engine.backend.versions.untested
        given_up: list[bool] = []
        paid: list[Receipt] = []

        def pay() -> tuple[dict[Stage, Released], list[Receipt]]:
            self.paying = True
            try:
                known, receipts = engine.ledger.reserve(
                    lambda: look(asked, data.versions, self.view),
                    spends,
                    analyst=self.analyst,
                    quota=quota(engine.policy, self.analyst),
                    patience=self._patience,
                    given_up=lambda: bool(given_up),
                )
            except BudgetError:
                self.paying = False  # nothing was recorded
                raise
            except LedgerError as error:
                self.paying = error.code not in _UNPAID  # of other errors only the ledger knows
                raise
            self.paying = False
            if receipts:
                self.charged = receipts[-1]
                paid.extend(receipts)
            return known, [replace(receipt, untested=untested) for receipt in receipts]

        try:
            found = stoppable(pay, lambda: given_up.append(True))
            if self._hold is not None:
                self._hold.settle()
            return found
        except BudgetError as error:
            _offer(quote, error)
            raise
        except BaseException:
            if paid:  # interrupted when all was paid for: nobody goes to work on it
                engine.ledger.give_back(paid)
            raise


def _reusable(quote: Quote, fresh: bool) -> list[Stage]:
    """The stages that stored releases may answer."""
    return [stage for stage in quote.stages if not fresh or stage.kind == "range"]


def _offer(quote: Quote, error: BudgetError) -> None:
    """Say which accuracy could be paid, where a query asked for one."""
    if quote.offer is not None and error.fits is not None and (fits := quote.offer(error.fits)) is not None:
        error.hint = f"the accuracy that fits is {fits}\n{error.hint}"
