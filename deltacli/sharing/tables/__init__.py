"""What the server knows of shared tables: versions, snapshots in columns, and changes."""
