"""Everything that object stores have in common: HTTP, errors, listings, and the storage interface on a few calls.

Start with `calls.py`, the calls that a cloud has to implement, and `store.py`, which builds the
interface on them. A creation is sent once and only once: its answer may be lost, and then the
object is read back.
"""
