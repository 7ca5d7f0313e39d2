"""Commands between a table and what is not one."""
