"""The storage of tables: one interface, and a back end for each kind of store.

Everything above this package sees a store as files below one root, named by relative paths. The
interface is in `base.py`: `ReadStorage` to read, `Storage` to write as well. Start there, then read
a back end.

How the parts fit together:

* `opening.py` chooses the back end for an address: `open_storage("s3://bucket/table")`.
* `local.py` is the local file system. `objects/` implements the interface on a few HTTP requests,
  which `s3/`, `gcs/` and `azure/` send. `fsspec_storage.py` is any other file system of fsspec,
  read-only.
* `retry.py` repeats requests within a time budget, `request_rate.py` slows down when a store is too
  busy, `tally.py` counts requests and their price.
* `outcomes.py` says what happened to a file that was to be created or deleted.
* `grants.py` and `vended.py` hold credentials that a server or catalog gives for one table.
  `signing/` makes credentials and signed URLs for recipients of a share.
* `probing/` tests what a store guarantees and what its caller may do, for `deltacli doctor`.

Words:

* **Atomic creation**: of several writers that create the same name, exactly one succeeds. Commits
  depend on it. A store without it is read-only.
* **Unknown outcome**: the answer to a creation was lost, and the file may exist. It is read back
  and never sent again.
* **Temporary error**: an error after which an idempotent request is sent again (HTTP 503, a broken
  connection).
* **Draft**: a temporary local file that becomes visible in the store when it is published.
* **Tag**: an identifier of a file's content (ETag, generation, inode and time), which changes when
  it is rewritten.
* **Grant**: temporary credentials for one directory, given by a server.

Two rules hold everywhere. A conditional creation is sent once, because a repeated one finds the
object of the first and takes it for another writer's. Text from a store or a library is shown only
after secrets were removed from it.
"""

from __future__ import annotations

from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes, path_external_error
from deltacli.storage.base import (
    Capabilities,
    Draft,
    FileStat,
    PathKind,
    ReadStorage,
    ShouldDescend,
    Storage,
    WalkEntry,
    folds_names,
    is_flat_level,
)
from deltacli.storage.local import LocalStorage
from deltacli.storage.local_paths import has_link, is_taken, leads_outside, require_inside, resolve_links
from deltacli.storage.opening import is_address_of, is_inside, list_usable_schemes, open_storage
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Existed, Failed, Missing, Unknown

__all__ = [
    "NO_PREFIXES",
    "AllowedPrefixes",
    "Capabilities",
    "Created",
    "Creation",
    "Deleted",
    "Deletion",
    "Draft",
    "Existed",
    "Failed",
    "FileStat",
    "LocalStorage",
    "Missing",
    "PathKind",
    "ReadStorage",
    "ShouldDescend",
    "Storage",
    "Unknown",
    "WalkEntry",
    "folds_names",
    "has_link",
    "is_address_of",
    "is_flat_level",
    "is_inside",
    "is_taken",
    "leads_outside",
    "list_usable_schemes",
    "open_storage",
    "path_external_error",
    "require_inside",
    "resolve_links",
]
