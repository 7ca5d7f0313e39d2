"""Spark as a reader of our Parquet files; it runs in an environment of its own."""
