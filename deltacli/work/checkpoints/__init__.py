"""Read and write the Parquet files of checkpoints."""
