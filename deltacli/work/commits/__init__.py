"""Read commits: as values, in columns, or as raw bytes.

Start with `reading.py`. A large commit is parsed in blocks, in columns (`blocks.py`).
"""
