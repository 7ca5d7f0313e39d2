"""Which tables there are, and what is due for each.

Start with `due.py`, which compares facts of a table with its policy. `discovery.py` finds the
tables.
"""
