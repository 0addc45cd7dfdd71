"""What left and may leave again: noisy tables and answers as bytes (archive.py), and how they are found (reuse.py)."""
