"""The name under which the ledger notes what is learned for everybody."""

STEWARD = "(steward)"
"""Who pays for `dpsql learn`. No analyst has this name, no quota counts its spends, everybody finds its releases."""
