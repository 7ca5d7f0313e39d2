"""Azure Blob Storage, with and without hierarchical namespaces, by its REST API.

The module `store.py` has the calls that `deltacli.storage.objects` builds the storage interface on.
"""
