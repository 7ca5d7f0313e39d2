"""Writing results as directories of Parquet files, in tasks."""
