"""Parquet files that become a table."""
