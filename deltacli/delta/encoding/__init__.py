"""Bytes and text of the log: JSON parsed in columns, text forms of values, bitmaps, digests.

These modules know no table. Start with `ndjson.py`, through which every line of a large commit
goes.
"""
