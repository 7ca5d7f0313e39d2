"""Storage of tables: one port, and a back end per kind of store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltacli.core.errors import UsageError, require_path
from deltacli.storage.base import (
    NOTHING,
    Allowed,
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
    path_external,
)
from deltacli.storage.local import LocalStorage, has_link, is_taken, leads_outside, link_targets, require_inside
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Existed, Failed, Missing, Unknown

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry

__all__ = [
    "NOTHING",
    "Allowed",
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
    "is_flat_level",
    "is_inside",
    "is_taken",
    "leads_outside",
    "link_targets",
    "open_storage",
    "path_external",
    "require_inside",
    "usable_schemes",
]

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]+)://"
_FILE_URI = r"(?i)file:(?://(?P<host>[^/]*))?(?=/|$)"

_S3_SCHEMES = ("s3", "s3a", "s3n")  # the last two are Hadoop's names for the same store
_GCS_SCHEMES = ("gs", "gcs")
_AZURE_SCHEMES = ("abfss", "abfs", "wasbs", "wasb", "az")
_AZURE_HOST = r"(?i)[a-z0-9-]+\.(?:blob|dfs)\.(?:core|fabric)\.[a-z0-9.-]+/"


def open_storage(
    uri: str,
    options: Mapping[str, str] | None = None,
    allowed: Allowed = NOTHING,
    *,
    retry: Retry | None = None,
) -> Storage:
    """Return the store of `uri`: a path, a `file:` URI, or any scheme with a file system of fsspec. `allowed`: prefixes
    that links of a local directory may point to, besides the directory itself. `retry` is the policy for repeating
    calls over a network.

    Raises UsageError for an unknown scheme or an extra that is not installed.
    """
    if not uri:
        raise UsageError("the table is an empty string", code="usage.table")
    require_path(uri, "the path")
    if local := re.match(_FILE_URI, uri):
        if (local["host"] or "localhost").lower() != "localhost":
            raise UsageError(f"{uri} names another host", code="usage.scheme", hint="mount it, then pass the path")
        return LocalStorage(unquote(uri[local.end() :], errors="surrogateescape"), allowed)
    scheme = re.match(_SCHEME, uri)
    if scheme is None:
        return LocalStorage(os.path.expanduser(uri), allowed)
    name, rest = scheme[1].lower(), uri[scheme.end() :]
    if name == "uc":
        raise UsageError(
            f"{uri} is a table of a catalog, which cannot be used here",
            code="usage.scheme",
            facts={"expected": "a path, or a URI of a store"},
        )
    if name in _S3_SCHEMES:
        from deltacli.storage.s3.store import open_s3

        return open_s3(f"{name}://{rest}", options or {}, retry=retry)
    if name in _GCS_SCHEMES:
        from deltacli.storage.gcs.store import open_gcs

        return open_gcs(f"{name}://{rest}", options or {}, retry=retry)
    if name in _AZURE_SCHEMES or (name == "https" and re.match(_AZURE_HOST, rest)):
        from deltacli.storage.azure.store import open_azure

        return open_azure(f"{name}://{rest}", options or {}, retry=retry)
    from deltacli.storage.fsspec_storage import RemoteStorage

    return RemoteStorage(f"{name}://{rest}", options or {}, retry=retry)


def usable_schemes() -> dict[str, str]:
    """Return the schemes of addresses that can be opened here, each with the back end that serves it."""
    stores = (
        ("s3", "bucket", _S3_SCHEMES),
        ("gcs", "bucket", _GCS_SCHEMES),
        ("azure", "container@account.dfs.core.windows.net", _AZURE_SCHEMES),
        *(("fsspec", "host", (scheme,)) for scheme in ("ftp", "hdfs", "http", "memory", "sftp", "smb", "webhdfs")),
    )
    found = {"file": "local"}
    for name, host, schemes in stores:
        try:
            open_storage(f"{schemes[0]}://{host}/path")
        except UsageError:
            continue
        found |= dict.fromkeys(schemes, name)
    return found


def is_inside(inner: ReadStorage, outer: ReadStorage) -> bool:
    """Return True if one store's root equals or is below another's; links of local paths are followed, and other names
    of a store are recognized.
    """

    def roots(store: ReadStorage) -> tuple[str, ...]:
        return (os.path.realpath(store.root),) if isinstance(store, LocalStorage) else (store.uri, *store.aliases)

    return any(f"{below}/".startswith(f"{above.rstrip('/')}/") for below in roots(inner) for above in roots(outer))


def is_address_of(store: ReadStorage, uri: str) -> bool:
    """Return True for a URI, noted earlier, that names the root of a store now; links of local paths are followed."""

    def place(address: str) -> str:
        local = re.match(_FILE_URI, address)
        path = address if local is None else unquote(address[local.end() :], errors="surrogateescape")
        return address.rstrip("/") if local is None else os.path.realpath(path)

    return place(uri) in {place(address) for address in (store.uri, *store.aliases)}
