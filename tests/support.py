"""What several test files share."""

from __future__ import annotations

from collections.abc import Callable

import dpsql

Connect = Callable[..., dpsql.Session]
