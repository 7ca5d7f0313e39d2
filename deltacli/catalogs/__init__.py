"""Catalogs that manage tables: what a table's name means, credentials for its files, and who decides its versions.

A table of a catalog is a store of its own kind (`managed_store.py`): reading it shows the versions
that the catalog has ratified, and a commit is created by proposing it to the catalog. Everything
above this package works on it like on any other store. Start with `base.py`, the interface of a
catalog, then read `ratifying.py` for the life of one commit.
"""
