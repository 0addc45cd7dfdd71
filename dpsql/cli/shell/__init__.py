"""dpsql shell: statements typed at a terminal or read from a pipe, with the price before each.

Only terminal.py needs prompt_toolkit, and only where somebody sits at a terminal.
"""
