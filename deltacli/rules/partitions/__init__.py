"""Rules about partition values, in the log and in the files of a table."""
