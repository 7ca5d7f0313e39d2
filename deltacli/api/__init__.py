"""The Python API: `Table` and `open_table`, on top of the operations."""
