"""Bytes and text: JSON in columns, text forms of values, fingerprints."""
