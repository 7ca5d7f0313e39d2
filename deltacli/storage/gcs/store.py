"""Opening tables in Google Cloud Storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.gcs.calls import GcsCalls
from deltacli.storage.gcs.credentials import GcsCredentials
from deltacli.storage.gcs.options import read_gcs_options
from deltacli.storage.gcs.versions import GcsVersions
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.libraries import require_libraries
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.versions import VersionedObjects

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_SCHEMES = ("gs", "gcs")
LIBRARIES = ("urllib3", "google.auth.transport.requests")


def open_gcs(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: RenewableGrant | None = None
) -> ObjectStorage:
    """Open the store of a `gs` or `gcs` URI.

    Stores of the same bucket and options have common connections, except stores with vended credentials.

    Args:
        uri: The URI.
        options: The storage options.
        retry: The retry policy of the run.
        held: Vended credentials; None to use the credentials of the user.

    Raises:
        UsageError: If the URI or an option is invalid.
    """
    uri = uri.rstrip("/")
    scheme, _, address = uri.partition("://")
    bucket, _, root = address.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": f"the application default credentials, or {parameter('storage_options.token', '@FILE')}"},
        )
    if not _BUCKET.fullmatch(bucket):
        message = (
            f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        )
        raise UsageError(message, code="usage.table", hint="gs://BUCKET/PATH")
    read = read_gcs_options(options) if held is None else replace(read_gcs_options(options, {}), held=held)
    has_token = read.anonymous or held is not None or read.access_token
    require_libraries(scheme, *(LIBRARIES[:1] if has_token else LIBRARIES))
    policy = retry or Retry()

    def make_calls() -> GcsCalls:
        return GcsCalls(bucket, read, GcsCredentials(read, f"{scheme}://{bucket}"), policy)

    calls = make_calls() if held is not None else policy.get_shared(f"{scheme}://{bucket}", options, make_calls)
    aliases = tuple(f"{other}://{address}" for other in _SCHEMES if other != scheme)

    def open_versions(store: ObjectStorage) -> VersionedObjects:
        return GcsVersions(store, calls)

    return ObjectStorage(uri, root, calls, aliases=aliases, retry=policy, versions=open_versions)
