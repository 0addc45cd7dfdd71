"""Apache Spark: backend.py keeps the contract; queries.py writes statements, server.py reaches a Spark Connect server.

Public tables, post-processing and the empty twin are the local engine's, which is handed over (backends/choose.py).
"""
