"""Limits on the files that may be opened outside a table directory.

The log of a table can refer to any file: by an absolute path, by `..`, or through a symbolic link. A
malicious table could therefore make deltacli read files of the user, or send requests to any host.
Only files inside the table directory are opened, and files below prefixes that the user allows with
`--allow-external`.

Spec: Add File and Remove File.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple, Self
from urllib.parse import unquote

from deltacli.core.errors import PathExternal, UsageError, parameter
from deltacli.core.texts import require_path

# `/`, `file:///` or `s3://`: a prefix of everything.
_EVERYTHING = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*")

_WHY = "only files of the table itself are opened; if you trust the table, allow a prefix"

# A server may decode a path more than once (%252e%252e -> %2e%2e -> ..). A path that is still encoded
# after this many times is rejected.
_MAX_DECODINGS = 4


class AllowedPrefixes(NamedTuple):
    """Prefixes outside the table directory whose files may be opened.

    Attributes:
        directories: Absolute paths of local directories, without symbolic links.
        uris: URIs in the form that `deltacli.delta.paths.spelling.canonical` returns.
    """

    directories: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @classmethod
    def of(cls, prefixes: Iterable[str]) -> Self:
        """Create the prefixes from local paths and URIs.

        Args:
            prefixes: Paths and URIs in canonical form. Links in local paths are resolved.

        Raises:
            UsageError: If a prefix is neither a directory nor a URI with a host or bucket.
        """
        directories = list[str]()
        uris = list[str]()
        for prefix in prefixes:
            require_path(prefix, parameter("open_table.allow_external"))
            scheme, separator, path = prefix.partition("://")
            if not separator and prefix:
                directories.append(os.path.realpath(prefix))
            elif separator and scheme and path.strip("/"):
                uris.append(prefix.rstrip("/"))
            else:
                raise UsageError(
                    f"{parameter('open_table.allow_external')} {prefix!r} does not name a directory, host or bucket",
                    code="usage.allow-external",
                    hint=parameter("open_table.allow_external", "s3://BUCKET/PATH"),
                )
        return cls(tuple(directories), tuple(uris))

    def has_directory(self, path: str) -> bool:
        """Return whether a local path is allowed.

        Args:
            path: An absolute path without symbolic links.
        """
        return any(is_below(path, directory) for directory in self.directories)

    def has_uri(self, uri: str) -> bool:
        """Return whether a URI is allowed.

        A URI with `..` is not, even if the dots are percent-encoded: a server could decode them and
        open a file outside the prefix.

        Args:
            uri: A URI in canonical form.
        """
        return any(is_below(uri, prefix) for prefix in self.uris) and not _has_parent_reference(uri)


NO_PREFIXES = AllowedPrefixes()


def is_below(path: str, prefix: str) -> bool:
    """Return whether a path equals a prefix or is inside it.

    Whole segments are compared: `/a/bc` is not inside `/a/b`.
    """
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")


def _has_parent_reference(uri: str) -> bool:
    """Return whether a URI contains the segment `..`, also percent-encoded several times."""
    for _ in range(_MAX_DECODINGS):
        if ".." in uri.replace("\\", "/").split("/"):
            return True
        decoded = unquote(uri, errors="surrogateescape")
        if decoded == uri:
            return False
        uri = decoded
    return True


def path_external_error(path: str, root: str, target: str, *, is_directory: bool = False) -> PathExternal:
    """Return the error for a file outside the table directory. Its hint is the prefix to allow.

    Args:
        path: The path as it is in the log.
        root: The table directory.
        target: The absolute path or URI that `path` refers to.
        is_directory: Whether `target` is a directory. Then the hint is the directory itself, and for
            a file it is a directory that contains the file.
    """
    if not is_directory:
        prefix = _suggest_prefix(target)
    elif _EVERYTHING.fullmatch(target):
        prefix = None
    else:
        prefix = target
    return PathExternal(
        f"{path} was not opened: it leads outside {root}", facts={"leads to": target, "why": _WHY}, prefix=prefix
    )


def _suggest_prefix(target: str) -> str | None:
    """Return the prefix that the user should allow to open a file.

    Files of other partitions are probably needed as well. So for
    `/data/sales/year=2025/month=01/x.parquet` the result is `/data/sales`. If that is the root of a
    disk or store, the result is the partition directory or the file itself; None if no prefix is
    possible.
    """
    parent = target.rpartition("/")[0]
    table_directory = parent
    while "=" in table_directory.rpartition("/")[2]:
        table_directory = table_directory.rpartition("/")[0]

    for prefix in (table_directory, parent, target):
        if not _EVERYTHING.fullmatch(prefix):
            return prefix
    return None
