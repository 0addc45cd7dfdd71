"""DuckDB: backend.py keeps the contract; sources.py opens and locks, public.py post-processes, run.py executes.

render.py turns statements into SQL trees, out of rows.py, bounding.py, tallies.py and the small pieces.py.
"""
