"""Resolve the links in paths of a local store, and reject paths that are outside the store.

`LocalStorage` does this before it reads, writes or deletes a file. The resolved path of a directory
is cached. A table with 1,000 partition directories therefore takes about 1,000 calls of `lstat`,
regardless of the number of its files.
"""

from __future__ import annotations

import errno
import os

from deltacli.storage.allowed_prefixes import AllowedPrefixes, is_below, path_external_error

# The number of directories in the cache, to limit its memory.
_MAX_CACHED_DIRECTORIES = 1 << 16

# The limit of Windows, in characters. Other systems allow 4,096 bytes.
_MAX_PATH_LENGTH = 32_767


def require_openable(path: str) -> None:
    """Check that a path is not longer than any system allows.

    A hostile log may contain a path with millions of components. Each would take a system call.

    Raises:
        OSError: If the path is too long.
    """
    if len(path) > _MAX_PATH_LENGTH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


class LocalBounds:
    """Resolves paths of one store, and checks that they are inside the root or an allowed prefix.

    Attributes:
        allowed: Prefixes outside the root that links may refer to.
    """

    def __init__(self, root: str, allowed: AllowedPrefixes) -> None:
        self.allowed = allowed
        self._root = root
        # Maps directories, relative to the root, to their resolved paths.
        self._resolved: dict[str, str] = {}

    def directory_of(self, path: str) -> str:
        """Return the resolved path of the directory that contains a file.

        Args:
            path: The path of the file, relative to the root.

        Raises:
            PathExternal: If the directory is outside the root and the allowed prefixes, because of a
                link or `..`.
        """
        require_openable(path)
        directory = path.rpartition("/")[0]
        resolved = self._resolved.get(directory)
        return resolved if resolved is not None else self._resolve(directory, path)

    def file(self, path: str) -> str:
        """Return the resolved path of a file that is a link.

        Args:
            path: The path of the link, relative to the root.

        Raises:
            PathExternal: If the target is outside the root and the allowed prefixes.
        """
        resolved = os.path.realpath(f"{self.directory_of(path)}/{path.rpartition('/')[2]}")
        self._require_allowed(resolved, path)
        return resolved

    def _resolve(self, directory: str, path: str) -> str:
        """Resolve a directory. Its parent directories are cached as well.

        Args:
            directory: The directory, relative to the root.
            path: The path of the file to open, for error messages.
        """
        resolved = self._resolved.get("")
        if resolved is None:
            resolved = os.path.realpath(self._root)
            self._resolved[""] = resolved

        names = directory.split("/") if directory else []
        for count, name in enumerate(names, 1):
            prefix = "/".join(names[:count])
            cached = self._resolved.get(prefix)
            resolved = cached if cached is not None else self._resolve_component(resolved, name, prefix, path)
        return resolved

    def _resolve_component(self, parent: str, name: str, prefix: str, path: str) -> str:
        """Resolve the last component of a directory, and cache the result.

        Args:
            parent: The resolved path of the parent directory.
            name: The name of the directory.
            prefix: The directory, relative to the root.
            path: The path of the file to open, for error messages.
        """
        resolved = f"{parent.rstrip('/')}/{name}"
        if name in ("", ".", "..") or os.path.islink(resolved):
            resolved = os.path.realpath(resolved)
            self._require_allowed(resolved, path, is_directory=True)

        if len(self._resolved) >= _MAX_CACHED_DIRECTORIES:
            self._resolved.clear()
        self._resolved[prefix] = resolved
        return resolved

    def _require_allowed(self, resolved: str, path: str, *, is_directory: bool = False) -> None:
        """Check that a resolved path is inside the root or an allowed prefix.

        Args:
            resolved: A path without links.
            path: The path of the file to open, relative to the root.
            is_directory: Whether `resolved` is a directory of the path, not the file itself.

        Raises:
            PathExternal: If the path is outside.
        """
        root = os.path.realpath(self._root)
        if is_below(resolved, root) or self.allowed.has_directory(resolved):
            return

        # If the root is a link, it may have been changed. Then the cached paths are wrong.
        self._resolved.clear()
        raise path_external_error(f"{self._root}/{path}", self._root, resolved, is_directory=is_directory)
