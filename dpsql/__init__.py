"""dpsql: differentially private SQL over parquet, CSV and DuckDB files."""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes time to import
if TYPE_CHECKING:
    from typing import Any

    from dpsql.answer.model import Answer
    from dpsql.core.errors import BudgetError, DataError, Error, LedgerError, PolicyError, PrivacyError, Span, SQLError
    from dpsql.policy.model import Policy
    from dpsql.quote.model import Quote
    from dpsql.session import Engine, Session, connect

__version__ = "0.1.1"
__all__ = [
    "Answer",
    "BudgetError",
    "DataError",
    "Engine",
    "Error",
    "LedgerError",
    "Policy",
    "PolicyError",
    "PrivacyError",
    "Quote",
    "SQLError",
    "Session",
    "Span",
    "connect",
]

_LAZY = {
    "Answer": "dpsql.answer.model",
    "Policy": "dpsql.policy.model",
    "Quote": "dpsql.quote.model",
    "Engine": "dpsql.session",
    "Session": "dpsql.session",
    "connect": "dpsql.session",
}


def __getattr__(name: str) -> Any:
    """Load things only when they are asked for: `import dpsql` and `dpsql --help` stay quick."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_LAZY.get(name, "dpsql.core.errors")), name)
    raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
