"""The Spark engine: the same tasks on the executors of a cluster, through PySpark, classic or Connect.

The driver ships names and gets values back: a job is a table of pieces, and `worker.py` is what runs for each of them.
"""
