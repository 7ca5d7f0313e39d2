"""What the server knows of shared tables: versions, snapshots in columns, and changes.

Start with `snapshots.py`, the cache that all requests share.
"""
