"""Options: shared ones, their configuration, and those of single commands."""
