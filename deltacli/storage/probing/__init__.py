"""Probes of a store, for `deltacli doctor storage` and `deltacli doctor access`.

The back ends hide how a store behaves: they retry requests, sort listings and refuse stores that
ignore conditions. The classes here send single requests and return the answer of the store as it
is. They also find out who sends the requests and which permissions that identity has.

`interface.py` defines the interface, `opening.py` chooses the implementation: `local.py` for a
directory, `objects.py` for an object store together with `s3.py`, `gcs.py` or `azure.py`. The probes
themselves are in `deltacli/operations/doctor`.

See docs/decisions/0104-probes-beside-the-data.md.
"""
