"""Where private rows are read: base.py is the contract, and each engine that keeps it has a folder."""
