"""Where private rows are read. One folder per engine."""
