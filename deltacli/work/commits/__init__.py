"""Reading commits: as values, in columns, and byte for byte."""
