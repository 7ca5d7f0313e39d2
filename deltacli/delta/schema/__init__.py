"""Table schemas: types, column mapping, type widening, and the columns of a table in a data file.

Start with `types.py`, then `file_columns.py`, which finds each column of a table in one file. Spec:
Schema Serialization Format; Column Mapping; Type Widening.
"""
