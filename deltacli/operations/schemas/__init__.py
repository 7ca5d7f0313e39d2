"""Schemas across formats: reading them at a point, comparing and converting them.

Start with `described.py`, which has a schema of any format as one value.
"""
