"""From a bound query to a Plan: which private rows are released by which keys, and what is computed of the results.

build.py is the way in and nodes.py the values; what a query may not do to private rows is refused here.
"""
