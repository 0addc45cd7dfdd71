"""What several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import dpsql
from dpsql.accounting.ledger import Ledger, Receipt, Spend
from dpsql.core.cost import Cost

Connect = Callable[..., dpsql.Session]
WHOLE = "DPSQL_WHOLE"  # set where long randomised suites run whole (--whole)


def charge(ledger: Ledger, price: Cost, note: Mapping[str, object], **named: Any) -> Receipt:
    """Spend this, for a release that is shared with nobody."""
    _, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(price, note)], **named)
    return receipt


def examples(sample: int) -> int:
    """How many random examples a test takes: a sample, or twenty times as many with --whole."""
    return sample * (20 if os.environ.get(WHOLE) else 1)
