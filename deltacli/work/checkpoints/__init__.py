"""Read and write the Parquet files of checkpoints, a row group at a time.

Start with `reading.py`. File actions stay in columns, so memory does not grow with the table.
"""
