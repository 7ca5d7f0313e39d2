"""The store that an address names: `open_storage` chooses the back end, and imports it only then."""

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
_FILE_URI = re.compile(r"file:(?://(?P<host>[^/]*))?(?=/|$)", re.IGNORECASE)

# Hadoop has two more names for S3.
_S3_SCHEMES = ("s3", "s3a", "s3n")
_GCS_SCHEMES = ("gs", "gcs")
_AZURE_SCHEMES = ("abfss", "abfs", "wasbs", "wasb", "az")
_AZURE_HOST = re.compile(r"[a-z0-9-]+\.(?:blob|dfs)\.(?:core|fabric)\.[a-z0-9.-]+/", re.IGNORECASE)
_FSSPEC_SCHEMES = ("ftp", "hdfs", "http", "memory", "sftp", "smb", "webhdfs")

# Beginnings of addresses that other tools show of a store, and that are refused with the one to
# use.
_ADDRESSES_OF_OTHER_TOOLS = ("arn:", "http://", "https://", *(f"{scheme}://arn:" for scheme in _S3_SCHEMES))


def open_storage(
    uri: str,
    options: Mapping[str, str] | None = None,
    allowed: AllowedPrefixes = NO_PREFIXES,
    *,
    retry: Retry | None = None,
) -> Storage:
    """Return the store at an address.

    Args:
        uri: A path, a `file:` URI, or a URI of any scheme with a file system of fsspec.
        options: Storage options, such as credentials.
        allowed: Prefixes that links of a local directory may lead to, besides the directory itself.
        retry: The policy for repeating calls over a network.

    Raises:
        UsageError: For an unknown scheme, or an extra that is not installed.
    """
    if not uri:
        raise errors.UsageError("the table is an empty string", code="usage.table")
    require_path(uri, "the path")
    if uri.lower().startswith(_ADDRESSES_OF_OTHER_TOOLS):
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
    """Return the store of a scheme in lower case, and what follows it in the URI."""
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


def usable_schemes() -> dict[str, str]:
    """Return the schemes of addresses that can be opened here, each with the back end that serves it."""
    stores = (
        ("s3", "bucket", _S3_SCHEMES),
        ("gcs", "bucket", _GCS_SCHEMES),
        ("azure", "container@account.dfs.core.windows.net", _AZURE_SCHEMES),
        *(("fsspec", "host", (scheme,)) for scheme in _FSSPEC_SCHEMES),
    )
    usable = {"file": "local"}
    for back_end, host, schemes in stores:
        try:
            open_storage(f"{schemes[0]}://{host}/path")
        except errors.UsageError:
            continue
        usable |= dict.fromkeys(schemes, back_end)
    return usable


def is_inside(inner: ReadStorage, outer: ReadStorage) -> bool:
    """Return whether one store's root is another's or below it, also by links and other names of a store."""
    for below in _all_roots(inner):
        for above in _all_roots(outer):
            if f"{below}/".startswith(f"{above.rstrip('/')}/"):
                return True
    return False


def _all_roots(store: ReadStorage) -> tuple[str, ...]:
    """Return the root of a store under all of its names; the path of a local one without links."""
    if isinstance(store, LocalStorage):
        return (os.path.realpath(store.root),)
    return (store.uri, *store.aliases)


def is_address_of(store: ReadStorage, uri: str) -> bool:
    """Return whether a URI that was noted earlier names the root of a store now. Links of local paths are followed."""
    return _resolve_address(uri) in {_resolve_address(address) for address in (store.uri, *store.aliases)}


def _resolve_address(address: str) -> str:
    """Return a `file:` URI as a path without links, and any other address as it is."""
    file_uri = _FILE_URI.match(address)
    if file_uri is None:
        return address.rstrip("/")
    try:
        return os.path.realpath(unquote(address[file_uri.end() :], errors="surrogateescape"))
    except ValueError:
        return address  # no file can have a name with NUL or half of a surrogate, which JSON can have
