"""Inventories, which are listings made by a store: Parquet, ORC and CSV files, read instead of listing the table.

Start with `reading.py`. Supported are S3 Inventory as delivered (`manifest.json` and its CSV, ORC or
Parquet files, see `manifest.py`), and any Parquet, ORC or CSV file with a header that has columns for
path, size and time (`files.py`, `columns.py`).

A stale inventory only causes more files to be kept. The current log determines which files are
retained, so a file added since then is either not in the inventory, or protected. A file removed since
then is deleted again, which has no effect. Ages are computed from the times in the inventory: a file
that was recent when the inventory was made is not listed as old. Only a file that was rewritten under
its old name, and that no log names, is newer than the inventory shows. To detect such files, ask the
store for the time of each file before deleting it. Such files were written after `created_ms`.
"""
