"""Access to the files of tables: on local disks, in object stores, and on other file systems.

A store contains the files below one root, addressed by relative paths. All code above this package
uses the interface in `base.py`: `ReadStorage` for reading, `Storage` for reading and writing. Start
there, then read a back end.

* `opening.py` opens the store for a path or URI: `open_storage("s3://bucket/table")`.
* `local.py` is the back end for local disks. `objects/` is the back end for object stores; it uses a
  few HTTP requests that `s3/`, `gcs/` and `azure/` implement. `fsspec_storage.py` opens all other
  file systems, read-only.
* `retry.py` retries requests, `request_rate.py` reduces the rate of requests to a busy host, and
  `tally.py` counts requests and estimates their price.
* `outcomes.py` contains the outcomes of creating and deleting a file.
* `grants.py` and `vended.py` use temporary credentials that a catalog or a Delta Sharing server
  grants. `signing/` creates temporary credentials and signed URLs for recipients of a share.
* `probing/` tests the guarantees of a store, for `deltacli doctor`.

Terms:

* **Atomic creation**: if several writers create the same file name, exactly one succeeds. Commits
  depend on it. A store without it is read-only.
* **Unknown outcome**: the response to the creation of a file was lost, so the file may exist. The file
  must be read to find out.
* **Temporary error**: an error after which an idempotent request is retried, such as HTTP 503.
* **Draft**: a temporary local file that appears in the store when it is published.
* **Tag**: identifies the content of a file and changes when it is rewritten. It is an ETag, a
  generation, or inode number and modification time.
* **Grant**: temporary credentials for one directory.

Two rules apply to all back ends. A conditional write is not retried after its response was lost. Texts
from stores and libraries are masked before they are shown, because they may contain secrets.
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
