"""Per-file statistics: their schema, and their values in columns."""
