"""Tables in Google Cloud Storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.storage.fsspec_faults import require_libraries
from deltacli.storage.gcs.options import read_options
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_SCHEMES = ("gs", "gcs")
LIBRARIES = ("urllib3", "google.auth.transport.requests")


def open_gcs(uri: str, options: Mapping[str, str], *, retry: Retry | None = None) -> ObjectStorage:
    """Return the store of a URI whose scheme is `gs` or `gcs`. Raises UsageError."""
    uri = uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    bucket, _, root = rest.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": f"the application default credentials, or {parameter('storage_options.token', '@FILE')}"},
        )
    if not _BUCKET.fullmatch(bucket):
        said = f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        raise UsageError(said, code="usage.table", hint="gs://BUCKET/PATH")
    read = read_options(options)
    require_libraries(scheme, *(LIBRARIES[:1] if read.anonymous else LIBRARIES))
    from deltacli.storage.gcs.calls import GcsCalls
    from deltacli.storage.gcs.credentials import GcsCredentials

    policy = retry or Retry()
    calls = GcsCalls(bucket, read, GcsCredentials(read, uri), policy)
    aliases = tuple(f"{other}://{rest}" for other in _SCHEMES if other != scheme)

    def versions(store: ObjectStorage) -> VersionedObjects:
        from deltacli.storage.gcs.versions import GcsVersions

        return GcsVersions(store, calls)

    return ObjectStorage(uri, root, calls, aliases=aliases, retry=policy, versions=versions)
