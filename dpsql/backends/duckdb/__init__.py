"""DuckDB: sources.py opens and locks, render.py turns plan nodes into SQL trees, run.py executes them."""
