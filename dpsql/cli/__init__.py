"""The command line: one file per command, what they share in options.py, and how answers leave in render.py and
output.py. Nothing here imports an engine before a command runs."""
