"""Following a table as a stream: which files belong to a batch. Nothing here needs Spark."""
