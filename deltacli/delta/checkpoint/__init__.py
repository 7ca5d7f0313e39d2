"""Checkpoints: the names of their files, what belongs into which part, and their contents in columns.

Start with `layout.py`. Files are read and written by `deltacli.work.checkpoints`. Spec:
Checkpoints; V2 Spec.
"""
