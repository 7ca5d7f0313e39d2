"""Read the facts about data files, change data files and deletion vectors that the rules of `validate` judge.

Start with `footer_files.py`, which finds a file and reads its footer. `row_facts.py` opens a file once
for its footer and all checks of its rows, and `vector_facts.py` reads deletion vectors.
"""
