"""Orders of rows that let readers skip files: ranges of columns, space-filling curves, clustered tables."""
