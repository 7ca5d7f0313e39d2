"""What clients do with Delta tables: measured with their packages, and written to `deltacli/delta/protocol`."""
