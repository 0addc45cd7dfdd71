"""The command line: one file per command, what they share in options.py, and how answers leave in output.py.
Nothing here imports an engine before a command runs."""
