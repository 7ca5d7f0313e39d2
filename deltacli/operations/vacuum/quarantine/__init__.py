"""A quarantine of deleted files: filling it and emptying it."""
