"""Tables in S3 and compatible stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltacli.errors import UsageError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.remote_faults import require_libraries
from deltacli.storage.retry import Retry
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.options import read_options
from deltacli.storage.s3.uploads import S3Uploads

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def open_s3(uri: str, options: Mapping[str, str], *, retry: Retry | None = None) -> ObjectStorage:
    """Return the store of a URI whose scheme is `s3`, `s3a` or `s3n`. Raises UsageError."""
    uri = uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    require_libraries(scheme, "botocore.session")
    bucket, _, root = rest.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": "AWS_PROFILE, or the environment variables of AWS"},
        )
    if not _BUCKET.fullmatch(bucket):
        said = f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        raise UsageError(said, code="usage.table", hint="s3://BUCKET/PATH")
    policy = retry or Retry()
    calls = S3Calls(uri, bucket, read_options(options), policy)
    calls.uploads = S3Uploads(calls)

    def versions(store: ObjectStorage) -> VersionedObjects:
        from deltacli.storage.s3.versions import S3Versions

        return S3Versions(store, calls)

    return ObjectStorage(uri, root, calls, retry=policy, versions=versions)
