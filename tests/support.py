"""What several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable

import dpsql

Connect = Callable[..., dpsql.Session]
WHOLE = "DPSQL_WHOLE"  # set where long randomised suites run whole (--whole)


def examples(sample: int) -> int:
    """How many random examples a test takes: a sample, or twenty times as many with --whole."""
    return sample * (20 if os.environ.get(WHOLE) else 1)
