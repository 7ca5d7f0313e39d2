"""Maintenance of the log: expiry, compaction, checksums, backup and restore."""
