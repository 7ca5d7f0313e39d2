"""Partition values: their text, their types, and their columns."""
