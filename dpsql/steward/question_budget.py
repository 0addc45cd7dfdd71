"""How much of a drafted budget one question takes, so that a policy isn't used up by the first ten; and in one line,
for the ends of `init` and `check`, when it is worth it to learn how many rows units have.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy, RowUnit

QUESTIONS = 50
"""How many questions a drafted budget lasts for at least, after `dpsql learn`."""
MOST_TO_LEARN = Decimal(1) / 6
"""Of the total ε, what `dpsql learn` is expected to take at most: 0.5 of 3."""


@dataclass(frozen=True, slots=True)
class QuestionBudget:
    """A total ε, and what a question that names no ε spends of it."""

    total: Decimal
    query: Decimal

    @property
    def questions(self) -> int:
        """How many such questions the total is enough for."""
        return int(self.total / self.query)

    @property
    def after_learning(self) -> int:
        """How many it is enough for once rows per unit were learned."""
        return int((self.total - _to_learn(self.total)) / self.query)


def question_budget(total: str) -> QuestionBudget:
    """The largest ε of one digit, or of two where the first is 1, at which a total lasts for QUESTIONS questions."""
    whole = Decimal(total)
    most = (whole - _to_learn(whole)) / QUESTIONS
    step = Decimal(1).scaleb(most.adjusted() - (1 if most.scaleb(-most.adjusted()) < 2 else 0))
    return QuestionBudget(whole, most.quantize(step, rounding=ROUND_DOWN))


def _to_learn(total: Decimal) -> Decimal:
    return min(LEARN_EPSILON, total * MOST_TO_LEARN)


LEARN_EPSILON = Decimal("0.5")
"""The ε that `dpsql learn --steward` takes once for a version of the data, where nobody names another."""


def learning_line(policy: Policy) -> str | None:
    """The line that says what `dpsql learn` does for this policy; None where no unit can have several rows."""
    several = [
        table
        for table in policy.tables.values()
        if not table.public and not isinstance(table.unit, RowUnit) and table.rows_per_unit != 1
    ]
    if not several:
        return None
    return (
        "dpsql learn --steward buys each private table's histogram of rows per unit once; from then on limits are "
        "chosen for free"
    )
