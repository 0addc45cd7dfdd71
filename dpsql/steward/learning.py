"""When it is worth it to learn how many rows units have, in one line for the ends of `init` and `check`."""

from __future__ import annotations

from decimal import Decimal

from dpsql.policy.model import Policy, RowUnit

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
