"""From text to a tree in which every name is a column of a source: parse.py, the passes of rewrite/, bind.py.

functions/ says which scalar functions exist, how each is made total, and how its range follows.
"""
