"""Limits on the location of files to open: below the root of a store, and below prefixes that the user allows.

An untrusted table can name any file or host by an absolute path, by `..` or by a symbolic link.
Spec: Add File and Remove File.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import NamedTuple, Self
from urllib.parse import unquote

from deltacli.core.errors import PathExternal, UsageError, require_path
from deltacli.core.hints import parameter

_MOST_KNOWN = 1 << 16
"""Number of directories whose resolved path is cached."""

_ROOT = r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*"

_WHY = "only files of the table itself are opened; if you trust the table, allow a prefix"

_MOST_ESCAPES = 4
"""Maximum number of decodings of a path to find hidden `..`."""
_LONGEST_PATH = 32_767
"""Of Windows; of others it is 4,096."""


class Allowed(NamedTuple):
    """Prefixes outside a table below which its files may be opened: local directories without symbolic links, and URIs
    as `deltacli.delta.paths.canonical` spells them.
    """

    directories: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @classmethod
    def of(cls, prefixes: Iterable[str]) -> Self:
        """Sort canonical prefixes into local ones, whose links are resolved, and URIs. Raises UsageError for a prefix
        that names neither a directory nor a host or bucket.
        """
        directories, uris = list[str](), list[str]()
        for prefix in prefixes:
            require_path(prefix, parameter("open_table.allow_external"))
            scheme, separator, rest = prefix.partition("://")
            if not separator and prefix:
                directories.append(os.path.realpath(prefix))
            elif separator and scheme and rest.strip("/"):
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
        """Return whether a canonical URI lies below a prefix. A path that contains `..` after decoding by a server
        is not.
        """
        return any(is_below(uri, prefix) for prefix in self.uris) and not _may_climb(uri)


NOTHING = Allowed()


def require_openable(path: str) -> None:
    """Raise OSError for a path that is longer than any system opens, before each directory of it is looked at."""
    if len(path) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def is_below(path: str, prefix: str) -> bool:
    """Return whether a path is a prefix or lies below it, compared by whole segments."""
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")


def _may_climb(uri: str) -> bool:
    for _ in range(_MOST_ESCAPES):
        if ".." in uri.replace("\\", "/").split("/"):
            return True
        if (decoded := unquote(uri, errors="surrogateescape")) == uri:
            return False
        uri = decoded
    return True


class LocalBounds:
    """Resolves directories below a local root. Raises PathExternal for paths outside the root and the allowed
    prefixes.
    """

    def __init__(self, root: str, allowed: Allowed) -> None:
        self.allowed = allowed
        self._root = root
        self._real: dict[str, str] = {}

    def directory_of(self, path: str) -> str:
        """Return the resolved path of the directory that contains `path`, which is relative to the root."""
        require_openable(path)
        directory = path.rpartition("/")[0]
        known = self._real.get(directory)
        return known if known is not None else self._place(directory, path)

    def file(self, path: str) -> str:
        """Return the resolved path of a file."""
        real = os.path.realpath(f"{self.directory_of(path)}/{path.rpartition('/')[2]}")
        self._require(real, path)
        return real

    def _place(self, directory: str, path: str) -> str:
        known = self._real.get("")
        if known is None:
            known = self._real[""] = os.path.realpath(self._root)
        place = known
        parts = directory.split("/") if directory else []
        for count, name in enumerate(parts, 1):
            above = "/".join(parts[:count])
            if (real := self._real.get(above)) is None:
                real = f"{place.rstrip('/')}/{name}"
                if name in ("", ".", "..") or os.path.islink(real):
                    real = os.path.realpath(real)
                    self._require(real, path, is_directory=True)
                if len(self._real) >= _MOST_KNOWN:
                    self._real.clear()
                self._real[above] = real
            place = real
        return place

    def _require(self, real: str, path: str, *, is_directory: bool = False) -> None:
        """Check that `real`, the resolved path of `path` or of a directory above it, is allowed."""
        root = os.path.realpath(self._root)
        if is_below(real, root) or self.allowed.has_directory(real):
            return
        self._real.clear()  # the root may be a link that was changed
        raise path_external(f"{self._root}/{path}", self._root, real, is_directory=is_directory)


def path_external(path: str, root: str, place: str, *, is_directory: bool = False) -> PathExternal:
    """Return the refusal to open `place`, outside the table or store at `root`. The prefix to allow is a directory
    itself, or one around a file, but not the root of a disk.
    """
    prefix = (None if re.fullmatch(_ROOT, place) else place) if is_directory else _prefix_around(place)
    return PathExternal(
        f"{path} was not opened: it leads outside {root}", facts={"leads to": place, "why": _WHY}, prefix=prefix
    )


def _prefix_around(place: str) -> str | None:
    """Return the directory to allow for a file: the one with its siblings of other partitions, or the file itself where
    that is the root of a disk.
    """
    parent = place.rpartition("/")[0]
    above = parent
    while "=" in above.rpartition("/")[2]:
        above = above.rpartition("/")[0]
    return next((prefix for prefix in (above, parent, place) if not re.fullmatch(_ROOT, prefix)), None)
