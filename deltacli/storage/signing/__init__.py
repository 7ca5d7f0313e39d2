"""Everything that a server gives others for a table: signed URLs of its files, or credentials for its directory.

Start with `values.py`; each cloud has a module that signs.
"""
