"""`diff`: what differs between two versions of a table, or between two tables."""
