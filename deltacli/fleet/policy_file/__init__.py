"""`fleet.toml`: groups of tables, and the policies that apply to them.

Start with `keys.py`, which declares every key of the file with its meaning, and `model.py`, whose classes hold the
values. `reading.py` reads a file, `checking.py` looks at it once more for `fleet check`.
"""
