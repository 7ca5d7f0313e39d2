"""Open the store for a path or URI. The back end of a store is only imported when it is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltacli.core import errors
from deltacli.core.texts import require_path
from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes
from deltacli.storage.base import ReadStorage, Storage
from deltacli.storage.local import LocalStorage

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")

# file:/path, file:///path and file://localhost/path
_FILE_URI = re.compile(r"file:(?://(?P<host>[^/]*))?(?=/|$)", re.IGNORECASE)

# Hadoop uses s3a and s3n.
_S3_SCHEMES = ("s3", "s3a", "s3n")
_GCS_SCHEMES = ("gs", "gcs")
_AZURE_SCHEMES = ("abfss", "abfs", "wasbs", "wasb", "az")
_AZURE_HOST = re.compile(r"[a-z0-9-]+\.(?:blob|dfs)\.(?:core|fabric)\.[a-z0-9.-]+/", re.IGNORECASE)
_FSSPEC_SCHEMES = ("ftp", "hdfs", "http", "memory", "sftp", "smb", "webhdfs")

# An address with one of these prefixes may be copied from a cloud console.
_CONSOLE_ADDRESS_PREFIXES = ("arn:", "http://", "https://", *(f"{scheme}://arn:" for scheme in _S3_SCHEMES))


def open_storage(
    uri: str,
    options: Mapping[str, str] | None = None,
    allowed: AllowedPrefixes = NO_PREFIXES,
    *,
    retry: Retry | None = None,
) -> Storage:
    """Open a store.

    Args:
        uri: A local path, a `file:` URI, or a URI of an object store or of an fsspec file system.
        options: Storage options, such as credentials.
        allowed: Prefixes outside a local store that its links may refer to.
        retry: The retry policy of the run.

    Raises:
        UsageError: If the scheme is unknown, or the extra that it needs is not installed.
    """
    if not uri:
        raise errors.UsageError("the table is an empty string", code="usage.table")
    require_path(uri, "the path")
    if uri.lower().startswith(_CONSOLE_ADDRESS_PREFIXES):
        from deltacli.storage.unsupported_addresses import require_store_address

        require_store_address(uri)

    file_uri = _FILE_URI.match(uri)
    if file_uri is not None:
        if (file_uri["host"] or "localhost").lower() != "localhost":
            raise errors.UsageError(
                f"{uri} names another host", code="usage.scheme", hint="mount it, then pass the path"
            )
        return LocalStorage(unquote(uri[file_uri.end() :], errors="surrogateescape"), allowed)

    scheme_match = _SCHEME.match(uri)
    if scheme_match is None:
        return LocalStorage(os.path.expanduser(uri), allowed)
    return _open_remote(scheme_match[1].lower(), uri[scheme_match.end() :], uri, options or {}, retry)


def _open_remote(scheme: str, address: str, uri: str, options: Mapping[str, str], retry: Retry | None) -> Storage:
    """Open a store that is not local.

    Args:
        scheme: The scheme of the URI, in lower case.
        address: The part of the URI after `://`.
        uri: The URI as the user wrote it, for error messages.
        options: Storage options.
        retry: The retry policy of the run.
    """
    if scheme == "uc":
        raise errors.UsageError(
            f"{uri} is a table of a catalog, which cannot be used here",
            code="usage.scheme",
            facts={"expected": "a path, or a URI of a store"},
        )
    if scheme in _S3_SCHEMES:
        from deltacli.storage.s3.store import open_s3

        return open_s3(f"{scheme}://{address}", options, retry=retry)

    if scheme in _GCS_SCHEMES:
        from deltacli.storage.gcs.store import open_gcs

        return open_gcs(f"{scheme}://{address}", options, retry=retry)

    if scheme in _AZURE_SCHEMES or (scheme == "https" and _AZURE_HOST.match(address)):
        from deltacli.storage.azure.store import open_azure

        return open_azure(f"{scheme}://{address}", options, retry=retry)

    from deltacli.storage.fsspec_storage import FsspecStorage

    return FsspecStorage(f"{scheme}://{address}", options, retry=retry)


def list_usable_schemes() -> dict[str, str]:
    """Return the URI schemes whose libraries are installed, each with its back end.

    An example is `{"file": "local", "s3": "s3", "s3a": "s3", "memory": "fsspec"}`.
    """
    # Each kind of store, with a host for an example URI, and its schemes.
    stores = (
        ("s3", "bucket", _S3_SCHEMES),
        ("gcs", "bucket", _GCS_SCHEMES),
        ("azure", "container@account.dfs.core.windows.net", _AZURE_SCHEMES),
        *(("fsspec", "host", (scheme,)) for scheme in _FSSPEC_SCHEMES),
    )
    usable = {"file": "local"}
    for back_end, host, schemes in stores:
        try:
            # Opening a store imports its libraries, but sends no request.
            open_storage(f"{schemes[0]}://{host}/path")
        except errors.UsageError:
            continue
        usable |= dict.fromkeys(schemes, back_end)
    return usable


def is_inside(inner: ReadStorage, outer: ReadStorage) -> bool:
    """Return whether the root of `inner` is the root of `outer` or a directory in it.

    Links in local paths and aliases of stores are taken into account.
    """
    for inner_root in _list_roots(inner):
        for outer_root in _list_roots(outer):
            if f"{inner_root}/".startswith(f"{outer_root.rstrip('/')}/"):
                return True
    return False


def _list_roots(store: ReadStorage) -> tuple[str, ...]:
    """Return the URIs of the root of a store. For a local store, return its path without links."""
    if isinstance(store, LocalStorage):
        return (os.path.realpath(store.root),)
    return (store.uri, *store.aliases)


def is_address_of(store: ReadStorage, uri: str) -> bool:
    """Return whether a URI refers to the root of a store.

    The URI may be an old one, such as that in a saved plan. Links in local paths are resolved as they
    are now.
    """
    return _resolve_address(uri) in {_resolve_address(address) for address in (store.uri, *store.aliases)}


def _resolve_address(address: str) -> str:
    """Return the path of a `file:` URI without links. Other URIs are returned without trailing slashes."""
    file_uri = _FILE_URI.match(address)
    if file_uri is None:
        return address.rstrip("/")
    try:
        return os.path.realpath(unquote(address[file_uri.end() :], errors="surrogateescape"))
    except ValueError:
        # The path contains NUL or half of a surrogate pair, for example from a JSON file. No such
        # file exists.
        return address
