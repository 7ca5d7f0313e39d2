"""Check whether a store implements an optional interface, itself or by forwarding to another store.

Stores that wrap another store forward unknown attributes with `__getattr__`: the cache of log files, for
example, and the stores that `repair` and `copy` read through. `isinstance` with a runtime protocol sees
forwarded attributes in Python 3.11 only. Since Python 3.12 it uses `inspect.getattr_static`, which ignores
`__getattr__`. The result would then be False for a wrapped store, and for example the check that a
directory has not been replaced would be skipped silently.
"""

from __future__ import annotations


def has_members_of(protocol: type, storage: object) -> bool:
    """Return whether a store has all public members of a protocol, its own or forwarded members."""
    return all(hasattr(storage, name) for name in vars(protocol) if not name.startswith("_"))
