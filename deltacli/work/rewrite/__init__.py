"""Rewrite data files: the same rows in fewer or cleaner files, with statistics and row ids, read back.

Start with `pieces.py`, the unit of work. `exactness.py` refuses files that cannot be copied exactly,
`sources.py` reads rows, `file_writing.py` writes a file, and `rewriting.py` puts them together.
`appending.py` writes new rows.
"""
