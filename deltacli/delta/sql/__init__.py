"""SQL expressions that tables keep as text (constraints, defaults, generated columns), parsed but never run.

Start with `parser.py`, which parses as Spark does. An expression that is not understood may refer
to any column, so what it could forbid is refused. `translation` turns expressions into DuckDB's
SQL.
"""
