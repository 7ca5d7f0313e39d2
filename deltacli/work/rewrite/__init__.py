"""Rewrite data files: the same rows in fewer or cleaner files, with statistics and row ids, read back."""
