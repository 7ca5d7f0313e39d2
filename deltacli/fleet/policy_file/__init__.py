"""`fleet.toml`: groups of tables, and the policies that apply to them.

Start with `model.py`, which declares every key of the file with its meaning; `reading.py` reads the
file by it.
"""
