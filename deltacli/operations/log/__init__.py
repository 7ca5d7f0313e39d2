"""Maintenance of the log: expiry, compaction, checksums, backup and restore.

Start with `expire.py`. It proves its plan on the listing that would remain before it deletes
anything: no kept version loses its start, and the newest version is rebuilt unchanged. Commits are
deleted before the checkpoint of their version, old ones first, so that a valid log remains wherever
the deletion stops.
"""
