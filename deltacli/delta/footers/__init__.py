"""Footers of Parquet files, read from their own bytes.

`validate` reads footers of files that nobody vouches for. pyarrow ends the process on a hostile
statistic, so these parsers are our own. Start with `parse.py`: after some footers of one shape it
compiles the shape to a regular expression over bytes, which takes a third of the time that pyarrow
needs to open one.
"""
