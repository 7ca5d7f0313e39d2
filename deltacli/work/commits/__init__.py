"""Read commits: as values, in columns, or as raw bytes."""
