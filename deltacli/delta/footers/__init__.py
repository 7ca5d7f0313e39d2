"""Footers of Parquet files, read from their own bytes."""
