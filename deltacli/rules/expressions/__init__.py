"""Rules about the SQL that a table keeps, and about the rows it is evaluated over."""
