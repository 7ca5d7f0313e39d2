"""Shared tables in Spark: the driver asks the sharing server, executors read files by URLs."""
