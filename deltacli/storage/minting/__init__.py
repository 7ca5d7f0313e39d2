"""Credentials that a server makes for others: for one directory, for a time, to read and to list."""
