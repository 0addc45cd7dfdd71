"""dpsql: differentially private SQL over parquet, CSV and DuckDB files."""

from __future__ import annotations

from dpsql.core import VERSION

TYPE_CHECKING = False  # typing takes time to import
if TYPE_CHECKING:
    from typing import Any

    from dpsql.answer.model import Answer
    from dpsql.answer.receipts import verify
    from dpsql.core.errors import (
        BudgetError,
        DataError,
        Error,
        ExtraError,
        LedgerError,
        PolicyError,
        PrivacyError,
        ServerError,
        Span,
        SQLError,
    )
    from dpsql.policy.model import Policy
    from dpsql.quote.model import Quote
    from dpsql.remote import connect
    from dpsql.session import Engine, Session

__version__ = VERSION
__all__ = [
    "Answer",
    "BudgetError",
    "DataError",
    "Engine",
    "Error",
    "ExtraError",
    "LedgerError",
    "Policy",
    "PolicyError",
    "PrivacyError",
    "Quote",
    "SQLError",
    "ServerError",
    "Session",
    "Span",
    "connect",
    "verify",
]

_LAZY = {
    "Answer": "dpsql.answer.model",
    "Policy": "dpsql.policy.model",
    "Quote": "dpsql.quote.model",
    "Engine": "dpsql.session",
    "Session": "dpsql.session",
    "connect": "dpsql.remote",
    "verify": "dpsql.answer.receipts",
}


def __getattr__(name: str) -> Any:
    """Load things only when they are asked for: `import dpsql` and `dpsql --help` stay quick."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_LAZY.get(name, "dpsql.core.errors")), name)
    raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
