"""Limits on the files that a table may open outside its own directory.

A log can name files anywhere: by absolute paths, by `..`, or through symbolic links. Whoever made
the table would decide which files and hosts are opened. Only files of the table itself are opened,
and those below prefixes that the user allows.

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

_ROOT_OF_DISK_OR_STORE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*")

_WHY = "only files of the table itself are opened; if you trust the table, allow a prefix"

# A server may decode a path more than once (%252e%252e). A path that is still encoded after this
# many is refused.
_MOST_DECODINGS = 4


class AllowedPrefixes(NamedTuple):
    """Prefixes outside a table below which its files may be opened.

    Attributes:
        directories: Local directories, without symbolic links.
        uris: URIs, spelled as `deltacli.delta.paths.spelling.canonical` does.
    """

    directories: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @classmethod
    def of(cls, prefixes: Iterable[str]) -> Self:
        """Sort canonical prefixes into local directories, whose links are resolved, and URIs.

        Raises:
            UsageError: If a prefix names neither a directory nor a host or bucket.
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

    def has_directory(self, real: str) -> bool:
        """Return whether a local path without links is one of the prefixes or lies below one."""
        return any(is_below(real, directory) for directory in self.directories)

    def has_uri(self, uri: str) -> bool:
        """Return whether a canonical URI lies below a prefix, without any `..` that a server might decode."""
        return any(is_below(uri, prefix) for prefix in self.uris) and not _may_climb(uri)


NO_PREFIXES = AllowedPrefixes()


def is_below(path: str, prefix: str) -> bool:
    """Return whether a path equals a prefix or lies below it. Whole segments are compared: `/a/bc` is not in `/a/b`."""
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")


def _may_climb(uri: str) -> bool:
    """Return whether a URI contains `..`, also percent-encoded several times."""
    for _ in range(_MOST_DECODINGS):
        if ".." in uri.replace("\\", "/").split("/"):
            return True
        decoded = unquote(uri, errors="surrogateescape")
        if decoded == uri:
            return False
        uri = decoded
    return True


def path_external_error(path: str, root: str, target: str, *, is_directory: bool = False) -> PathExternal:
    """Return the refusal to open a file outside a table or store.

    Args:
        path: The path as the table names it.
        root: The root of the table or store.
        target: Where the path leads to.
        is_directory: Whether `target` is a directory. Then it is itself the prefix that the hint
            allows; of a file, it is a directory around it. The root of a disk is never proposed.
    """
    if not is_directory:
        prefix = _find_prefix_around(target)
    elif _ROOT_OF_DISK_OR_STORE.fullmatch(target):
        prefix = None
    else:
        prefix = target
    return PathExternal(
        f"{path} was not opened: it leads outside {root}", facts={"leads to": target, "why": _WHY}, prefix=prefix
    )


def _find_prefix_around(target: str) -> str | None:
    """Return the prefix to allow for a file: the directory above its partitions, else its own, else
    the file itself.

    For `/data/sales/year=2025/month=01/x.parquet` that is `/data/sales`: files of other partitions
    are next.
    """
    parent = target.rpartition("/")[0]
    above_partitions = parent
    while "=" in above_partitions.rpartition("/")[2]:
        above_partitions = above_partitions.rpartition("/")[0]

    for prefix in (above_partitions, parent, target):
        if not _ROOT_OF_DISK_OR_STORE.fullmatch(prefix):
            return prefix
    return None
