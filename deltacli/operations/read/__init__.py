"""Operations that read: rows and their changes, history, snapshots, raw commits.

Start with `history.py` for a short one. `changes.py` reads change data files where a commit has
some, and otherwise derives the changes from the files that the commit adds and removes. Rows are
read by `deltacli.table.scan`.
"""
