"""Opening tables in S3 and compatible stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError
from deltacli.storage.libraries import require_libraries
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.options import read_s3_options
from deltacli.storage.versions import VersionedObjects

if TYPE_CHECKING:
    from deltacli.storage.grants import RenewableGrant
from deltacli.storage.s3.uploads import S3Uploads
from deltacli.storage.s3.versions import S3Versions

_SCHEMES = ("s3", "s3a", "s3n")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def open_s3(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: RenewableGrant | None = None
) -> ObjectStorage:
    """Open the store of an S3 URI.

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
    require_libraries(scheme, "botocore.session")
    bucket, _, root = address.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": "AWS_PROFILE, or the environment variables of AWS"},
        )
    if not _BUCKET.fullmatch(bucket):
        message = (
            f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        )
        raise UsageError(message, code="usage.table", hint="s3://BUCKET/PATH")
    policy = retry or Retry()

    def make_calls() -> S3Calls:
        made = S3Calls(f"{scheme}://{bucket}", bucket, replace(read_s3_options(options), held=held), policy)
        made.uploads = S3Uploads(made)
        return made

    calls = make_calls() if held is not None else policy.get_shared(f"{scheme}://{bucket}", options, make_calls)
    aliases = tuple(f"{other}://{address}" for other in _SCHEMES if other != scheme)

    def open_versions(store: ObjectStorage) -> VersionedObjects:
        return S3Versions(store, calls)

    return ObjectStorage(uri, root, calls, aliases=aliases, retry=policy, versions=open_versions)
