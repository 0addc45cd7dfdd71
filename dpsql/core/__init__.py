"""Words that everybody uses: errors, types, ranges, sensitivities, costs, grids, exact integers.

Nothing here imports another part of dpsql.
"""
