"""Google Cloud Storage, by its JSON API.

The module `store.py` has the calls that `deltacli.storage.objects` builds the storage interface on.
"""
