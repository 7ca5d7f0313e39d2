"""Rules about per-file statistics."""
