"""Pieces of work: functions of a small description that read a part of a table and return Arrow or a small value.

Safe to repeat.
"""
