"""Facts of many tables as Spark frames, and the care of a table from a job.

Start with `fact_rows.py`, which declares every frame with its columns.
"""
