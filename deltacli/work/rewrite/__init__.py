"""Rewrite data files: the same rows in fewer or cleaner files, with statistics and row ids, read back.

Start with `pieces.py`, the unit of work, then read `sources.py` (rows in) and `new_files.py` (rows
out).
"""
