"""What `diff` and `reach` show of the versions of a table."""
