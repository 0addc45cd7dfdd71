"""Data that changes: one function accepts a new version of it, verifies its promises and says what is other than before
(refresh.py); the steward's commands and, where the policy says so, queries go through it.
"""
