"""Rows and lists of files, streamed a column at a time."""
