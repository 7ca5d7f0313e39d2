"""Read the rows of data files, and evaluate conditions on them.

Start with `row_reader.py`: it decodes the columns of the condition first, and the others only for
the rows that remain. `row_checks.py` answers the questions of `validate` about rows, and
`row_conditions.py` evaluates SQL with DuckDB.
"""
