"""run: Quote -> answers. The loop that everything goes through, and the only place where anything is paid or recorded.

reserve -> for each stage: measure, check that the data is unchanged, record -> finish each part

What is measured is stored before it is processed any further, so that whatever fails later costs nothing to retry: the
stored release answers. What fails before that is lost, and paid again (Theorem LEDGER-1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.accounting.account import Receipt, Spend
from dpsql.accounting.claims import Overtaken
from dpsql.accounting.opening import quota
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.answer.about import about
from dpsql.answer.finish import answer_from, finish, publish
from dpsql.answer.model import Answer
from dpsql.backends.base import Deadline
from dpsql.core.errors import BudgetError, LedgerError
from dpsql.core.stoppable import stoppable
from dpsql.engine import Data, Shared
from dpsql.quote.model import Known, Quote, Released, ResponseStep, Stage
from dpsql.release import release, respond
from dpsql.store.archive import pack_answer
from dpsql.store.flight import claim_of
from dpsql.store.reuse import keep, look


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
            raise LedgerError(
                "others took this release over twice: it was measured too late, and nothing of it was shown",
                code="release-busy",
                hint="it stays charged; ask again when the machine has less to do: what they record is free",
            ) from None


def stored(quote: Quote, data: Data, engine: Shared) -> list[Answer] | None:
    """Answer each part from stored releases alone (Theorem FREE-1); None where one is missing. Nothing can be paid."""
    known = look(quote.stages, data.versions, engine.ledger)
    return None if len(known) < len(quote.stages) else _answers(quote, known, [], engine)


def _flight(quote: Quote, data: Data, payer: Payer, fresh: bool, paid: list[Stage]) -> list[Answer]:
    """Answer each part of a quote; `paid` is told what was paid for."""
    engine, ledger = payer.engine, payer.engine.ledger
    known, receipts = payer.reserve(quote, data, fresh)
    paid += [stage for stage in quote.stages if stage not in known]
    until = engine.deadline()
    with ledger.working(receipts):
        for stage, receipt in zip(paid, receipts, strict=True):
            settled = stage.settled(known)
            noisy = _measure(settled, engine, until)
            engine.check_unchanged(data)
            known[stage] = Released(settled, noisy, ledger.record(receipt, keep(settled, data.versions, noisy)))
    answers = _answers(quote, known, paid, engine)
    for stage in paid:
        _store_answers(quote, known[stage], answers, payer)
    return answers


def _answers(quote: Quote, known: Known, paid: Sequence[Stage], engine: Shared) -> list[Answer]:
    """The answer to each part, from what its stages released; with what was paid for now, and what is said of it."""
    receipt = known[quote.main].receipt
    cost = quote.cost_of(paid) if paid else receipt.cost
    said = about(quote, known, engine.ledger, engine.policy.digest, engine.versions_used)
    finished = [finish(i, quote, known, receipt, engine.public) for i in range(len(quote.parts))]
    return [replace(answer, cost=cost, about=said, signer=engine.signer) for answer in finished]


def _measure(stage: Stage, engine: Shared, until: Deadline) -> tuple[Noisy | Responded, ...]:
    """Execute and release, step by step. The only way to a private row; the price is on disk by now."""
    noisy: list[Noisy | Responded] = []
    with engine.backend.measuring(until) as rows:
        for step in stage.steps:
            if isinstance(step, ResponseStep):
                noisy.append(respond(step, rows.encode(step)))
            else:
                tables = [one for one in noisy if isinstance(one, Noisy)]
                noisy.append(release(step, rows.execute(step, publish(step, tables, engine.public))))
    return tuple(noisy)


def _store_answers(quote: Quote, released: Released, answers: Sequence[Answer], payer: Payer) -> None:
    """Keep what was answered, so that it can be shown again as it was; what counts of units tell is part of it."""
    stage, tables = released.stage, [one for one in released.noisy if isinstance(one, Noisy)]
    shown = list(answers) if stage.kind == quote.main.kind else []
    if stage.shown is not None:
        shown = [answer_from(stage.shown, tables, released.receipt, payer.engine.public)]
    if shown:
        payer.engine.ledger.answered(released.receipt, [pack_answer(answer, tables) for answer in shown])


class Payer:
    """Who pays: an analyst, with a quota where the policy has one for him."""

    def __init__(self, engine: Shared, analyst: str) -> None:
        self.engine = engine
        self.analyst = analyst
        self.charged: Receipt | None = None
        """The last spend: what was paid for, also where it was interrupted or failed afterwards."""
        self.paying = False
        """Is something being paid for, or was that interrupted, so that only the ledger knows?"""

    def reserve(self, quote: Quote, data: Data, fresh: bool) -> tuple[dict[Stage, Released], list[Receipt]]:
        """What is stored of a quote, and the receipts of the rest, which is paid for before a row is read.

        Whoever interrupts this finds all of it done, or nothing: `charged` tells.
        """
        engine = self.engine
        asked = [stage for stage in quote.stages if not fresh or stage.kind == "range"]
        untested = engine.backend.versions.untested
        given_up: list[bool] = []
        paid: list[Receipt] = []

        def spends(known: Known) -> list[Spend]:
            wanted = [stage for stage in quote.stages if stage not in known]
            if wanted:
                engine.backend.check_running()
            told = {"untested": untested} if untested else {}
            return [
                Spend(s.cost, {**s.note, **told}, claim_of(s, data.versions) if s in asked else b"") for s in wanted
            ]

        def pay() -> tuple[dict[Stage, Released], list[Receipt]]:
            self.paying = True
            try:
                known, receipts = engine.ledger.reserve(
                    lambda: look(asked, data.versions, engine.ledger),
                    spends,
                    analyst=self.analyst,
                    quota=quota(engine.policy, self.analyst),
                    patience=float(engine.settings.timeout.seconds),
                    given_up=lambda: bool(given_up),
                )
            except BudgetError:
                self.paying = False  # nothing was recorded
                raise
            except LedgerError as error:
                self.paying = error.code != "release-busy"  # of other errors only the ledger knows
                raise
            self.paying = False
            if receipts:
                self.charged = receipts[-1]
                paid.extend(receipts)
            return known, [replace(receipt, untested=untested) for receipt in receipts]

        try:
            return stoppable(pay, lambda: given_up.append(True))
        except BudgetError as error:
            if quote.offer is not None and error.fits is not None and (fits := quote.offer(error.fits)) is not None:
                error.hint = f"the accuracy that fits is {fits}\n{error.hint}"
            raise
        except BaseException:
            if paid:  # interrupted when all was paid for: nobody goes to work on it
                engine.ledger.give_back(paid)
            raise
