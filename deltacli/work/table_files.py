"""Find the files that the log of a table names, inside the table or in an allowed place outside it.

Spec: Add File and Remove File.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

from deltacli.core.errors import parameter
from deltacli.core.units import plural
from deltacli.delta.paths.spelling import (
    IS_ABSOLUTE,
    canonical,
    climbs,
    decode,
    name_below,
    possible_places,
    root_of,
    without_dots,
)
from deltacli.storage import NOTHING, Allowed, ReadStorage, Storage, path_external
from deltacli.storage.base import is_below
from deltacli.storage.local import will_read
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    pass


_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)(.*)", re.DOTALL)


def parse_allowed_prefixes(prefixes: Iterable[str]) -> Allowed:
    """Return the locations of `--allow-external`: paths, `file:` URIs, or URIs of other stores. Raises UsageError."""
    found: list[str] = []
    for prefix in prefixes:
        if prefix[:5].lower() == "file:":
            found.append(canonical(prefix))
        elif "://" in prefix:
            found += possible_places(prefix)
        else:
            found.append(os.path.abspath(os.path.expanduser(prefix)) if prefix else "")
    return Allowed.of(found)


_MOST_KNOWN = 1 << 14
"""Maximum number of directories whose resolved paths are cached."""


class TableFiles:
    """Finds the store of each file of a table, and the path in it.

    `open_other` opens the stores of files outside the table, which must be below one of `allowed`; `is_bound`: a user
    cannot allow more.
    """

    def __init__(
        self,
        storage: ReadStorage,
        open_other: Callable[[str], Storage],
        allowed: Allowed = NOTHING,
        *,
        is_bound: bool = False,
    ) -> None:
        self._is_bound = is_bound
        self._storage = storage
        self._open_other = open_other
        self._allowed = allowed
        self._root = f"{root_of(storage.uri)}/"
        self._others: dict[str, Storage] = {}
        self._lock = Lock()
        self._real: dict[str, str] = {}
        """Local directory -> the same directory with links resolved."""
        self._refused: set[int] = set()
        self._first_refused = ""

    def locate(self, path: str) -> tuple[ReadStorage, str]:
        """Return the store of a file, and its path below the root of the store.

        The file is given as in the log: percent-encoded, relative or absolute. Raises PathExternal if the file is
        outside the table and the allowed prefixes, and UsageError if the allowed store has an unsupported scheme.
        """
        if not IS_ABSOLUTE.match(path):
            return self.locate_below_root(decode(path))
        place = _find_canonical_location(path)
        if place.startswith(self._root):
            return self.locate_below_root(place[len(self._root) :])
        return self._elsewhere(path, place)

    @property
    def parallel_reads(self) -> int:
        """The number of files of the table that are worth reading at the same time."""
        return self._storage.capabilities.parallel_reads

    def prefetch(self, path: str) -> None:
        """Say that a file given as in the log will be read soon, so that a disk can fetch it while others are read."""
        if not IS_ABSOLUTE.match(path):
            will_read(*self.locate_below_root(decode(path)))

    def find_path_in_table(self, path: str) -> str | None:
        """Return the path below the root of a file given as in the log; None if it is elsewhere. Opens no store."""
        if not IS_ABSOLUTE.match(path):
            return resolve_inner_path(decode(path))
        place = _find_canonical_location(path)
        return resolve_inner_path(place[len(self._root) :]) if place.startswith(self._root) else None

    def find_undecoded_path_in_table(self, path: str) -> str | None:
        """Return the same for the path that `locate_undecoded` returns."""
        is_relative = not IS_ABSOLUTE.match(path)
        return resolve_inner_path(path) if is_relative and decode(path) != path else None

    def is_refused(self, path: str) -> bool:
        """Return whether `locate` certainly raises PathExternal, at a fraction of its cost. A refusal is recorded."""
        if not IS_ABSOLUTE.match(path):
            return False
        place = _find_canonical_location(path)
        if place.startswith(self._root) or self._is_allowed(place):
            return False
        self.record_refusal(path)
        return True

    def locate_undecoded(self, path: str) -> tuple[ReadStorage, str] | None:
        """Return the location of an unencoded relative path; None if decoding does not change the path.

        Used if the file that `locate` returns does not exist, because some writers do not encode paths.
        """
        is_relative = not IS_ABSOLUTE.match(path)
        return self.locate_below_root(path) if is_relative and decode(path) != path else None

    def locate_below_root(self, path: str) -> tuple[ReadStorage, str]:
        """Return the store and the path of a file given relative to the table, not encoded."""
        inner = name_below(path)
        if not climbs(inner):
            return self._storage, inner
        uri = _URI.match(self._root)
        start, directory = (uri[1], uri[2]) if uri is not None else ("", self._root)
        return self._elsewhere(path, start + without_dots(f"{directory}{inner}"))

    def is_local_path_allowed(self, path: str) -> bool:
        """Return whether a local path may be accessed: inside the table or an allowed prefix. Records a refusal."""
        place = without_dots(canonical(path))
        if not place.startswith("/") or self._is_allowed(place):
            return place.startswith("/")
        self.record_refusal(path)
        return False

    def record_refusal(self, path: str) -> None:
        """Record that a file of the log is outside the table and was not read."""
        with self._lock:
            self._refused.add(hash(path))
            self._first_refused = self._first_refused or path

    def not_checked(self) -> Iterator[str]:
        """Yield a sentence about the files that were refused."""
        if self._refused:
            files, first = plural(len(self._refused), "file"), without_secrets(self._first_refused)[:200]
            allowed = parameter("open_table.allow_external", "PREFIX")
            reason = "" if self._is_bound else f" without {allowed}"
            yield f"{files} outside the table, first {first}, not opened{reason}"

    def _elsewhere(self, path: str, place: str) -> tuple[ReadStorage, str]:
        """Return the store of a location outside the table's root. Raises PathExternal."""
        if not self._is_allowed(place):
            self.record_refusal(path)
            shown = without_secrets(place)
            refusal = path_external(without_secrets(path), without_secrets(self._root.rstrip("/") or "/"), shown)
            if self._is_bound:
                refusal.hint, refusal.prefix = None, None
                refusal.facts["why"] = "only locations are opened for which the server of the table gives credentials"
            raise refusal
        directory, _, name = place.rpartition("/")
        with self._lock:
            if directory not in self._others:
                self._others[directory] = self._open_other(directory or "/")
        return self._others[directory], name

    def _is_allowed(self, place: str) -> bool:
        """Return whether a canonical location may be opened. Links in a local path are resolved first."""
        if not place.startswith("/"):
            return self._allowed.has_uri(place)
        try:
            real = os.path.realpath(place) if os.path.islink(place) else self._real_place(place)
            if self._allowed.has_directory(real):
                return True
            return self._root.startswith("/") and is_below(real, self._real_directory(self._root.rstrip("/") or "/"))
        except ValueError:
            return False  # no file can have such a name

    def _real_place(self, place: str) -> str:
        """Return the path of a file that is not a link, with the links of its directory resolved."""
        directory, _, name = place.rpartition("/")
        return f"{self._real_directory(directory or '/').rstrip('/')}/{name}"

    def _real_directory(self, directory: str) -> str:
        real = self._real.get(directory)
        if real is None:
            if len(self._real) >= _MOST_KNOWN:
                self._real.clear()
            real = self._real[directory] = os.path.realpath(directory)
        return real


def _find_canonical_location(path: str) -> str:
    """Return the canonical location of an absolute path."""
    place = canonical(path)
    return without_dots(place) if place.startswith("/") else place


def resolve_inner_path(path: str) -> str | None:
    """Return a path relative to a directory, without inner dot segments; None if it leaves the directory."""
    inner = name_below(path)
    return None if climbs(inner) else inner
