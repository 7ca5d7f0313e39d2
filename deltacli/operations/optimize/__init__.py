"""Compacting the data files of a table."""
