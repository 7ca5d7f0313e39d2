"""Helpers for Arrow data: Parquet files, and batches of rows.

Modules use pyarrow directly. These helpers exist where pyarrow's own function would import its larger modules, which
load all of Arrow's file systems and TLS, or where it has no such function. `parquet` opens and writes files; `batches`
groups, limits and cuts rows.
"""
