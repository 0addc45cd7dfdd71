"""The Postgres port: psql, drivers and BI tools ask through it. It speaks Postgres' protocol, version 3.

Whoever connects gives a token for a password. Nothing is spent unless the connection or the query names an ε.
"""
