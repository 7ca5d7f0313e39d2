"""Per-file statistics: their schema, and their values in columns.

Start with `schema.py` (which columns have statistics) and `columns.py` (the statistics of many
files at once).
"""
