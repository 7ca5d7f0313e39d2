"""Azure Blob Storage, with and without hierarchical namespaces, with its REST API.

Start with `store.py`, which opens a store. `calls.py` implements the requests that `deltacli.storage.objects` builds
the storage interface on.
"""
