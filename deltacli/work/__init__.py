"""Tasks: functions that read or write one part of a table and return Arrow data or a small value.

A task can run in a thread or on an executor of a cluster, more than once. Its pieces and results
are small values that can be pickled; stores and shared values come from the `TaskContext` of
`task.py`, where you should start. A file that a task writes has `context.attempt` in its name,
because two attempts may overlap.
"""
