"""A quarantine of deleted files: filling it, emptying it, and how it is laid out."""
