"""Where the files that a log names lie: below the table, or on another store. Spec: Add File and Remove File."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock

from deltacli.delta.paths import canonical, decode, without_dots
from deltacli.storage import Storage

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")


class TableFiles:
    """Finds the store and the path in it of each file of a table; `open_other` opens the stores of those elsewhere."""

    def __init__(self, storage: Storage, open_other: Callable[[str], Storage]) -> None:
        self._storage = storage
        self._open_other = open_other
        self._root = f"{canonical(storage.uri).rstrip('/')}/"
        self._others: dict[str, Storage] = {}
        self._lock = Lock()

    def locate(self, path: str) -> tuple[Storage, str]:
        """The store and the path below its root of a file as the log names it, percent-encoded, relative or absolute.

        Raises UsageError where the path has a scheme nobody knows.
        """
        if not _ABSOLUTE.match(path):
            return self.below_root(without_dots(decode(path)))
        place = without_dots(canonical(path))
        if place.startswith(self._root):
            return self.below_root(place[len(self._root) :])
        directory, _, name = place.rpartition("/")
        with self._lock:
            if directory not in self._others:
                self._others[directory] = self._open_other(directory or "/")
        return self._others[directory], name

    def as_written(self, path: str) -> tuple[Storage, str] | None:
        """The place of a relative path that its writer did not encode; None where decoding changes nothing.

        To be tried where `locate` leads to no file.
        """
        is_relative = not _ABSOLUTE.match(path)
        return self.below_root(path) if is_relative and decode(path) != path else None

    def below_root(self, path: str) -> tuple[Storage, str]:
        """The same for a path relative to the table, not encoded."""
        return self._storage, path
