"""Read and write the Parquet files of checkpoints, a row group at a time.

Start with `reading.py`, which opens a checkpoint and plans its row groups. `narrow_rows.py` and
`full_rows.py` read the file actions of a row group, `encoding.py`, `verifying.py` and `sidecars.py`
write them. File actions stay in columns, so memory does not grow with the table.
"""
