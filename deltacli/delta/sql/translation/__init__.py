"""Spark's SQL translated for DuckDB, with a list of equivalent constructs. `translate` has the entry points."""
