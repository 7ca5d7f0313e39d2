"""Spark's SQL translated for DuckDB, by a list of what means the same. `translate` holds the entry points."""
