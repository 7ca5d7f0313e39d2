"""Restoring a table to an earlier version in one commit."""
