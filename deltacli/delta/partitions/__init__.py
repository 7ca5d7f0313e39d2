"""Partition values: their text, their types, and their columns.

Start with `values.py`. A text that is copied keeps its spelling; `canonical.py` has the one that
Delta writes.
"""
