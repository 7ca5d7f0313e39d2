"""Read commits: as values, in columns, or as raw bytes.

Start with `reading.py`. A large commit is parsed in blocks, in columns (`blocks.py`). `provenance.py`
reads the commitInfo alone, and `raw_lines.py` the lines that `log cat` prints.
"""
