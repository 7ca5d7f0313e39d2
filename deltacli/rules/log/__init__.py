"""Rules about the files of the log and their history."""
