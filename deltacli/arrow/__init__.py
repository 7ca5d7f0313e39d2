"""Helpers for Arrow data: Parquet files, and batches of rows.

The other packages use pyarrow directly, except where its function would slow down the start of the command line:
`pyarrow.parquet` and `pyarrow.acero` import all file systems of Arrow and its TLS library. This package calls the
compiled classes below these modules. `parquet` opens and writes files. `batches` aggregates, limits and splits rows.
"""
