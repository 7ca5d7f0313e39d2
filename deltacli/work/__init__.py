"""Units of work: functions that read a part of a table and return Arrow data or a small value.

Each takes a small description, and is safe to repeat.
"""
