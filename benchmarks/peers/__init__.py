"""Other systems, each asked the same queries of the same files: an adapter is a module of this folder.

An adapter has `prepare(files, case, rows)`, rows being a user's limit (50, if it isn't given): what it needs is read
and set up, and what comes back answers once, as columns and rows in the order of the query's. It raises
NotImplementedError with the reason where its system can't. Adapters import nothing of dpsql, and are run by whichever
Python has their system.
"""
