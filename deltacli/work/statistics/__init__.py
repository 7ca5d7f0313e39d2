"""Compute the statistics of data files that exist, and compare them with those that the log has.

Start with `file_statistics.py`. `from_footers.py` is fast and used where footers are exact;
`from_rows.py` reads the rows.
"""
