"""Where private rows are read: base.py is the contract, and each engine that keeps it has a folder.

statements/ says what is asked of the rows; each engine writes that in its own words.
"""
