"""Reading and writing the Parquet files of checkpoints."""
