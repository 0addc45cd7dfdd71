"""The command line: commands of one kind in a file, what they share in options.py, and how answers leave in output.py.
Nothing here imports an engine before a command runs.
"""
