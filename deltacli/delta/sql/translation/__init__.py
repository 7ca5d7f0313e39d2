"""Spark's SQL translated for DuckDB, from a list of constructs whose meaning is equal in both.

Start with `translate.py`, which has the entry points. A construct that is not in the list, or that
depends on `spark.sql.ansi.enabled`, is refused by its name; `tests/spark/test_stored_conditions.py`
compares each one with Spark.
"""
