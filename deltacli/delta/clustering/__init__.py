"""Orders of rows that let readers skip files: ranges of columns, space-filling curves, clustered tables.

Start with `sorting.py`, which chooses the files that are sorted together.
`deltacli.work.curve_sort` sorts their rows.
"""
