"""Tasks: pieces of work that run in a thread of this process or on an executor of a cluster, in the same way; and the
stores of a table in one process, with the files that its log names.

A task is a function at the top of a module, or a frozen dataclass with `__call__`. Its fields, its pieces and its
results are small values that can be pickled; it may run more than once for a piece, and in any order.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from deltacli.core.errors import parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.machine import MACHINE, Machine
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
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, open_storage, path_external_error
from deltacli.storage.allowed_prefixes import is_below
from deltacli.storage.local_paths import prefetch_file
from deltacli.storage.optional_interfaces import SharedDirectoryStore
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    import pyarrow.parquet

    from deltacli.storage.location import StoreLocation

Kept = TypeVar("Kept")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

_MOST_FOOTER_BYTES = 64 << 20
"""Maximum encoded size of the cached footers of a table's checkpoints."""


class FooterCache:
    """Footers of checkpoint files, so that the row groups of a file do not each read it again. Thread-safe."""

    def __init__(self, most_bytes: int = _MOST_FOOTER_BYTES) -> None:
        self._footers: OrderedDict[tuple[str, str], pyarrow.parquet.FileMetaData] = OrderedDict()
        self._left = most_bytes
        self._lock = Lock()

    def get(self, path: str, tag: str) -> pyarrow.parquet.FileMetaData | None:
        """Return the footer of the content of a file that `tag` identifies; None if it is not cached."""
        with self._lock:
            footer = self._footers.get((path, tag))
            if footer is not None:
                self._footers.move_to_end((path, tag))
            return footer

    def put(self, path: str, tag: str, footer: pyarrow.parquet.FileMetaData) -> None:
        """Cache a footer; the least recently used ones make room for it."""
        with self._lock:
            if (path, tag) in self._footers:
                return
            self._footers[(path, tag)] = footer
            self._left -= footer.serialized_size
            while self._left < 0 and self._footers:
                _, dropped = self._footers.popitem(last=False)
                self._left += dropped.serialized_size


@dataclass(frozen=True, eq=False, repr=False)
class TableStores:
    """The open stores of one table in one process: its own, and by `open_other` those of files outside it.

    `location` is where another process finds the same store; None for a store that exists only here.
    """

    storage: Storage
    open_other: Callable[[str], Storage] = open_storage
    allowed: AllowedPrefixes = NO_PREFIXES
    location: StoreLocation | None = None
    machine: Machine = MACHINE
    footers: FooterCache = field(default_factory=FooterCache)
    _kept: dict[type, Any] = field(default_factory=dict)  # Any: an instance of each class
    _others: dict[str, Storage] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def kept(self, kind: type[Kept]) -> Kept:
        """Return the one instance of a class, such as a cache, that all tasks of the table in this process share.

        The class takes no arguments, and its instances are thread-safe.
        """
        found: Kept = self._kept.get(kind) or self._kept.setdefault(kind, kind())
        return found

    def other(self, uri: str) -> Storage:
        """Return the store of an output, opened once in this process. Raises what `open_storage` raises."""
        with self._lock:
            if uri not in self._others:
                self._others[uri] = self.open_other(uri)
            return self._others[uri]

    def files(self) -> TableFiles:
        """Return a resolver of the files that the log names. It records which of them were refused."""
        if isinstance(self.storage, SharedDirectoryStore):
            return TableFiles(
                self.storage, self.storage.open_granted, self.storage.list_granted_prefixes(), is_bound=True
            )
        return TableFiles(self.storage, self.open_other, self.allowed)

    def __reduce__(self) -> NoReturn:
        raise TypeError("open stores cannot be sent to another process; send their StoreLocation")


@dataclass(frozen=True, eq=False, repr=False)
class TaskContext:
    """What a task finds where it runs: the stores of the table, values shared by all pieces, and an id of the attempt,
    which makes the names of the files it writes unique.
    """

    stores: TableStores
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # Any: values of each operation
    is_cancelled: Callable[[], bool] = lambda: False
    """Return True once nobody waits for the result any more; a task that takes long may end with any error then."""

    @property
    def storage(self) -> Storage:
        return self.stores.storage

    @cached_property
    def attempt(self) -> str:
        """The id of the attempt, of 32 hexadecimal digits."""
        return self.stores.machine.new_hex()

    @cached_property
    def files(self) -> TableFiles:
        """The resolver of the files that the log names, shared by the pieces of this context."""
        return self.stores.files()

    def shared(self, name: str) -> Any:  # Any: a value of the operation
        return self.values[name]


def light(task: Callable[[Piece, TaskContext], Result]) -> Callable[[Piece, TaskContext], Result]:
    """Mark a task that reads only some kilobytes per piece: a cluster engine runs a few pieces of it on the driver."""
    task.is_light = True  # type: ignore[attr-defined]
    return task


Task = Callable[[Piece, TaskContext], Result]
"""A task. One that is mostly Python, so that threads only wait for the interpreter, has an attribute `quick_seconds`:
the embedded engine uses one thread as long as a piece takes at most that long per unit of its weight. One with an
attribute `unit_seconds`, the usual time per unit of its weight, is divided into fewer parts by a cluster engine where
it is short. One with `small_results` gets more pieces in flight than threads in the embedded engine.
"""


# -- the files that a log names. Spec: Add File and Remove File --------------------------------------------------------

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)(.*)", re.DOTALL)


def read_prefixes(prefixes: Iterable[str]) -> AllowedPrefixes:
    """Return the locations of `--allow-external`: paths, `file:` URIs, or URIs of other stores. Raises UsageError."""
    found: list[str] = []
    for prefix in prefixes:
        if prefix[:5].lower() == "file:":
            found.append(canonical(prefix))
        elif "://" in prefix:
            found += possible_places(prefix)
        else:
            found.append(os.path.abspath(os.path.expanduser(prefix)) if prefix else "")
    return AllowedPrefixes.of(found)


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
        allowed: AllowedPrefixes = NO_PREFIXES,
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
            return self.below_root(decode(path))
        place = _place_of(path)
        if place.startswith(self._root):
            return self.below_root(place[len(self._root) :])
        return self._elsewhere(path, place)

    @property
    def parallel_reads(self) -> int:
        """The number of files of the table that are worth reading at the same time."""
        return self._storage.capabilities.parallel_reads

    def announce(self, path: str) -> None:
        """Say that a file given as in the log will be read soon, so that a disk can fetch it while others are read."""
        if not IS_ABSOLUTE.match(path):
            prefetch_file(*self.below_root(decode(path)))

    def inside(self, path: str) -> str | None:
        """Return the path below the root of a file given as in the log; None if it is elsewhere. Opens no store."""
        if not IS_ABSOLUTE.match(path):
            return inner_path(decode(path))
        place = _place_of(path)
        return inner_path(place[len(self._root) :]) if place.startswith(self._root) else None

    def inside_as_written(self, path: str) -> str | None:
        """Return the same for the path that `as_written` returns."""
        is_relative = not IS_ABSOLUTE.match(path)
        return inner_path(path) if is_relative and decode(path) != path else None

    def is_refused(self, path: str) -> bool:
        """Return whether `locate` certainly raises PathExternal, at a fraction of its cost. A refusal is recorded."""
        if not IS_ABSOLUTE.match(path):
            return False
        place = _place_of(path)
        if place.startswith(self._root) or self._is_allowed(place):
            return False
        self.refuse(path)
        return True

    def as_written(self, path: str) -> tuple[ReadStorage, str] | None:
        """Return the location of an unencoded relative path; None if decoding does not change the path.

        Used if the file that `locate` returns does not exist, because some writers do not encode paths.
        """
        is_relative = not IS_ABSOLUTE.match(path)
        return self.below_root(path) if is_relative and decode(path) != path else None

    def below_root(self, path: str) -> tuple[ReadStorage, str]:
        """Return the store and the path of a file given relative to the table, not encoded."""
        inner = name_below(path)
        if not climbs(inner):
            return self._storage, inner
        uri = _URI.match(self._root)
        start, directory = (uri[1], uri[2]) if uri is not None else ("", self._root)
        return self._elsewhere(path, start + without_dots(f"{directory}{inner}"))

    def may_look(self, path: str) -> bool:
        """Return whether a local path may be accessed: inside the table or an allowed prefix. Records a refusal."""
        place = without_dots(canonical(path))
        if not place.startswith("/") or self._is_allowed(place):
            return place.startswith("/")
        self.refuse(path)
        return False

    def refuse(self, path: str) -> None:
        """Record that a file of the log is outside the table and was not read."""
        with self._lock:
            self._refused.add(hash(path))
            self._first_refused = self._first_refused or path

    def not_checked(self) -> Iterator[str]:
        """Yield a sentence about the files that were refused."""
        if self._refused:
            files, first = plural(len(self._refused), "file"), mask_secrets(self._first_refused)[:200]
            allowed = parameter("open_table.allow_external", "PREFIX")
            reason = "" if self._is_bound else f" without {allowed}"
            yield f"{files} outside the table, first {first}, not opened{reason}"

    def _elsewhere(self, path: str, place: str) -> tuple[ReadStorage, str]:
        """Return the store of a location outside the table's root. Raises PathExternal."""
        if not self._is_allowed(place):
            self.refuse(path)
            shown = mask_secrets(place)
            refusal = path_external_error(mask_secrets(path), mask_secrets(self._root.rstrip("/") or "/"), shown)
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


def _place_of(path: str) -> str:
    """Return the canonical location of an absolute path."""
    place = canonical(path)
    return without_dots(place) if place.startswith("/") else place


def inner_path(path: str) -> str | None:
    """Return a path relative to a directory, without inner dot segments; None if it leaves the directory."""
    inner = name_below(path)
    return None if climbs(inner) else inner
