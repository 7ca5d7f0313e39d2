"""Resolves the links in paths below a local root, and refuses those that lead outside.

Called whenever `LocalStorage` reads, writes or deletes. A directory is resolved once, component by
component, and then remembered; a table with a thousand partitions costs a thousand calls of
`lstat`, however many files it has.
"""

from __future__ import annotations

import errno
import os

from deltacli.storage.allowed_prefixes import AllowedPrefixes, is_below, path_external_error

# Number of directories whose resolved path is remembered. The memory of a run stays limited.
_MOST_REMEMBERED = 1 << 16

# The limit of Windows. Other systems permit 4,096.
_LONGEST_PATH = 32_767


def require_openable(path: str) -> None:
    """Raise OSError for a path that is longer than any system opens, before each directory in it is looked at."""
    if len(path) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


class LocalBounds:
    """The limits of one local root.

    Attributes:
        allowed: Prefixes outside the root that links may lead to.
    """

    def __init__(self, root: str, allowed: AllowedPrefixes) -> None:
        self.allowed = allowed
        self._root = root
        # Directory relative to the root, and the path it resolves to.
        self._resolved: dict[str, str] = {}

    def directory_of(self, path: str) -> str:
        """Return the resolved path of the directory that contains `path`, which is relative to the root.

        Raises:
            PathExternal: If a link or `..` leads outside the root and the allowed prefixes.
        """
        require_openable(path)
        directory = path.rpartition("/")[0]
        resolved = self._resolved.get(directory)
        return resolved if resolved is not None else self._resolve(directory, path)

    def file(self, path: str) -> str:
        """Return the resolved path of a file that is a link. Raises PathExternal as `directory_of` does."""
        resolved = os.path.realpath(f"{self.directory_of(path)}/{path.rpartition('/')[2]}")
        self._require_allowed(resolved, path)
        return resolved

    def _resolve(self, directory: str, path: str) -> str:
        """Resolve a directory component by component, so that each directory above it is remembered as well."""
        resolved = self._resolved.get("")
        if resolved is None:
            resolved = os.path.realpath(self._root)
            self._resolved[""] = resolved

        names = directory.split("/") if directory else []
        for count, name in enumerate(names, 1):
            prefix = "/".join(names[:count])
            known = self._resolved.get(prefix)
            resolved = known if known is not None else self._resolve_component(resolved, name, prefix, path)
        return resolved

    def _resolve_component(self, parent: str, name: str, prefix: str, path: str) -> str:
        """Resolve one directory in a resolved parent, and remember it under its path below the root."""
        resolved = f"{parent.rstrip('/')}/{name}"
        if name in ("", ".", "..") or os.path.islink(resolved):
            resolved = os.path.realpath(resolved)
            self._require_allowed(resolved, path, is_directory=True)
        if len(self._resolved) >= _MOST_REMEMBERED:
            self._resolved.clear()
        self._resolved[prefix] = resolved
        return resolved

    def _require_allowed(self, resolved: str, path: str, *, is_directory: bool = False) -> None:
        """Refuse a resolved path, of `path` or of a directory above it, that is outside."""
        root = os.path.realpath(self._root)
        if is_below(resolved, root) or self.allowed.has_directory(resolved):
            return

        # The root may be a link that was changed meanwhile. What was resolved below the old one is
        # void.
        self._resolved.clear()
        raise path_external_error(f"{self._root}/{path}", self._root, resolved, is_directory=is_directory)
