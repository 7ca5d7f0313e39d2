"""Restore a table to an earlier version in one commit.

Start with `restore.py`. `difference.py` compares the live files of both versions, `metadata.py`
decides what of protocol and metadata goes back, and `constraints.py` checks files against
constraints that did not exist when they were written.
"""
