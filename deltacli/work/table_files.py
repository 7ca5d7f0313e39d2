"""Find the files that the log of a table names, inside the table or in an allowed location outside it.

A log can name files anywhere: by absolute paths, by `..`, or through links. Whoever made the table would decide which
files and hosts are opened. So each name is compared with the allowed locations before any store is opened. A local
store resolves links a second time when it opens a file (docs/decisions/0050).

Spec: Add File and Remove File.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from deltacli.core.errors import parameter
from deltacli.core.units import plural
from deltacli.delta.paths.spelling import (
    IS_ABSOLUTE,
    canonicalize_path,
    canonicalize_root,
    climbs,
    decode,
    name_below,
    possible_places,
    without_dots,
)
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, path_external_error
from deltacli.storage.allowed_prefixes import is_below
from deltacli.storage.local_paths import prefetch_file
from deltacli.storage.secrets import mask_secrets

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)(.*)", re.DOTALL)
_MOST_KNOWN = 1 << 14
"""Maximum number of directories whose resolved paths are cached."""


def parse_allowed_prefixes(prefixes: Iterable[str]) -> AllowedPrefixes:
    """Return the locations of `--allow-external`: paths, `file:` URIs, or URIs of other stores. Raises UsageError."""
    locations: list[str] = []
    for prefix in prefixes:
        if prefix[:5].lower() == "file:":
            locations.append(canonicalize_path(prefix))
        elif "://" in prefix:
            locations += possible_places(prefix)
        else:
            locations.append(os.path.abspath(os.path.expanduser(prefix)) if prefix else "")
    return AllowedPrefixes.of(locations)


class TableFiles:
    """Finds the store of each file of a table, and the path in it. Records which files were refused.

    A path of the log is percent-encoded, and relative to the table or absolute:

        part=a%20b/f.parquet              the store of the table, and "part=a b/f.parquet"
        s3://other/t/f.parquet            the store of s3://other/t, and "f.parquet", if the location is allowed
        ../other/f.parquet                the same for a location that the path climbs to
    """

    def __init__(
        self,
        storage: ReadStorage,
        open_other: Callable[[str], Storage],
        allowed: AllowedPrefixes = NO_PREFIXES,
        *,
        is_bound: bool = False,
    ) -> None:
        """Make the finder of a table.

        Args:
            storage: The store of the table.
            open_other: Opens the stores of files outside the table.
            allowed: The locations outside the table that may be opened.
            is_bound: True if a user cannot allow more locations, because a server gives the credentials.
        """
        self._is_bound = is_bound
        self._storage = storage
        self._open_other = open_other
        self._allowed = allowed
        self._root = f"{canonicalize_root(storage.uri)}/"
        self._others: dict[str, Storage] = {}
        self._lock = Lock()
        self._resolved_directories: dict[str, str] = {}
        self._refused: set[int] = set()
        self._first_refused = ""

    def locate(self, path: str) -> tuple[ReadStorage, str]:
        """Return the store of a file, and its path below the root of the store.

        Args:
            path: The file as in the log: percent-encoded, relative or absolute.

        Raises:
            PathExternal: If the file is outside the table and the allowed prefixes.
            UsageError: If the allowed store has an unsupported scheme.
        """
        if not IS_ABSOLUTE.match(path):
            return self.locate_below_root(decode(path))
        location = _find_canonical_location(path)
        if location.startswith(self._root):
            return self.locate_below_root(location[len(self._root) :])
        return self._locate_elsewhere(path, location)

    @property
    def parallel_reads(self) -> int:
        """The number of files of the table that are worth reading at the same time."""
        return self._storage.capabilities.parallel_reads

    def prefetch(self, path: str) -> None:
        """Say that a file given as in the log will be read soon, so that a disk can fetch it while others are read."""
        if not IS_ABSOLUTE.match(path):
            prefetch_file(*self.locate_below_root(decode(path)))

    def find_path_in_table(self, path: str) -> str | None:
        """Return the path below the root of a file given as in the log; None if it is elsewhere. Opens no store."""
        if not IS_ABSOLUTE.match(path):
            return resolve_inner_path(decode(path))
        location = _find_canonical_location(path)
        if not location.startswith(self._root):
            return None
        return resolve_inner_path(location[len(self._root) :])

    def find_undecoded_path_in_table(self, path: str) -> str | None:
        """Return the path below the root that `locate_undecoded` locates. Opens no store."""
        is_relative = not IS_ABSOLUTE.match(path)
        return resolve_inner_path(path) if is_relative and decode(path) != path else None

    def is_refused(self, path: str) -> bool:
        """Return whether `locate` certainly raises PathExternal, at a fraction of its cost. A refusal is recorded."""
        if not IS_ABSOLUTE.match(path):
            return False
        location = _find_canonical_location(path)
        if location.startswith(self._root) or self._is_allowed(location):
            return False
        self.record_refusal(path)
        return True

    def locate_undecoded(self, path: str) -> tuple[ReadStorage, str] | None:
        """Return the store and the path of a relative path as it is written, not decoded.

        Some writers do not encode paths, so this is tried if the file that `locate` returns does not exist.

        Returns:
            None if decoding does not change the path.
        """
        is_relative = not IS_ABSOLUTE.match(path)
        return self.locate_below_root(path) if is_relative and decode(path) != path else None

    def locate_below_root(self, path: str) -> tuple[ReadStorage, str]:
        """Return the store and the path of a file given relative to the table, not encoded."""
        inner = name_below(path)
        if not climbs(inner):
            return self._storage, inner

        # `..` in the path of a URI must not reach its host: s3://bucket/../x is not s3://x.
        uri = _URI.match(self._root)
        host, directory = uri.groups() if uri is not None else ("", self._root)
        return self._locate_elsewhere(path, host + without_dots(f"{directory}{inner}"))

    def is_local_path_allowed(self, path: str) -> bool:
        """Return whether a local path may be accessed: inside the table or an allowed prefix. Records a refusal."""
        location = without_dots(canonicalize_path(path))
        if not location.startswith("/"):
            return False
        if self._is_allowed(location):
            return True
        self.record_refusal(path)
        return False

    def record_refusal(self, path: str) -> None:
        """Record that a file of the log is outside the table and was not read."""
        with self._lock:
            self._refused.add(hash(path))
            self._first_refused = self._first_refused or path

    def not_checked(self) -> Iterator[str]:
        """Yield a sentence about the files that were refused."""
        if not self._refused:
            return
        files = plural(len(self._refused), "file")
        first = mask_secrets(self._first_refused)[:200]
        allowed = parameter("open_table.allow_external", "PREFIX")
        reason = "" if self._is_bound else f" without {allowed}"
        yield f"{files} outside the table, first {first}, not opened{reason}"

    def _locate_elsewhere(self, path: str, location: str) -> tuple[ReadStorage, str]:
        """Return the store and the path of a location outside the table's root. Raises PathExternal."""
        if not self._is_allowed(location):
            self.record_refusal(path)
            root = self._root.rstrip("/") or "/"
            refusal = path_external_error(mask_secrets(path), mask_secrets(root), mask_secrets(location))
            if self._is_bound:
                refusal.hint = None
                refusal.prefix = None
                refusal.facts["why"] = "only locations are opened for which the server of the table gives credentials"
            raise refusal

        directory, _, name = location.rpartition("/")
        with self._lock:
            if directory not in self._others:
                self._others[directory] = self._open_other(directory or "/")
        return self._others[directory], name

    def _is_allowed(self, location: str) -> bool:
        """Return whether a canonical location may be opened. Links in a local path are resolved first."""
        if not location.startswith("/"):
            return self._allowed.has_uri(location)
        try:
            is_link = os.path.islink(location)
            real_path = os.path.realpath(location) if is_link else self._resolve_directory_of(location)
            if self._allowed.has_directory(real_path):
                return True
            # A link elsewhere may lead back into the table.
            return self._root.startswith("/") and is_below(
                real_path, self._resolve_directory(self._root.rstrip("/") or "/")
            )
        except ValueError:
            return False  # no file can have such a name

    def _resolve_directory_of(self, location: str) -> str:
        """Return the path of a file that is not a link, with the links of its directory resolved."""
        directory, _, name = location.rpartition("/")
        return f"{self._resolve_directory(directory or '/').rstrip('/')}/{name}"

    def _resolve_directory(self, directory: str) -> str:
        """Return a local directory with its links resolved. Each is resolved once: thousands of files share it."""
        real_path = self._resolved_directories.get(directory)
        if real_path is None:
            if len(self._resolved_directories) >= _MOST_KNOWN:
                self._resolved_directories.clear()
            real_path = os.path.realpath(directory)
            self._resolved_directories[directory] = real_path
        return real_path


def _find_canonical_location(path: str) -> str:
    """Return the canonical location of an absolute path."""
    location = canonicalize_path(path)
    return without_dots(location) if location.startswith("/") else location


def resolve_inner_path(path: str) -> str | None:
    """Return a path relative to a directory, without inner dot segments; None if it leaves the directory."""
    inner = name_below(path)
    return None if climbs(inner) else inner
