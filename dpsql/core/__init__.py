"""Words that everybody uses: errors, types, ranges, sensitivities, costs, grids, exact integers.

Nothing here imports another part of dpsql.
"""

VERSION = "0.1.1"
"""Which dpsql this is."""
STEWARD = "(steward)"
"""Who pays for `dpsql learn`. No analyst has this name, no quota counts its spends, everybody finds its releases."""
