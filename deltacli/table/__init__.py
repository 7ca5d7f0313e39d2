"""Opening a table, rebuilding its versions, and what all rooms read of them: rows, files, what is around."""
