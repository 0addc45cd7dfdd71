"""DuckDB: backend.py keeps the contract; sources.py opens and locks, public.py post-processes, run.py executes."""
