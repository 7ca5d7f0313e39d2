"""Rules about the SQL that a table keeps, and about rows that break it.

Most ids begin with `constraint`, `default`, `generated`, `identity`, `invariant` or `notnull`.
"""
