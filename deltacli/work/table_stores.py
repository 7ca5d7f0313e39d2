"""The open stores of one table in one process, and what the tasks of that table share there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from deltacli.core.machine import MACHINE, Machine
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, Storage, open_storage
from deltacli.storage.optional_interfaces import is_shared_directory
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow.parquet

    from deltacli.storage.location import StoreLocation


Instance = TypeVar("Instance")

_MOST_FOOTER_BYTES = 64 << 20
"""Maximum encoded size of the cached footers of a table's checkpoints."""


class FooterCache:
    """Footers of checkpoint files, so that the row groups of a file do not each read it again. Thread-safe.

    A footer belongs to a path and a tag. The tag identifies the content of the file, so that the footer of a file that
    another writer has replaced is not used.
    """

    def __init__(self, most_bytes: int = _MOST_FOOTER_BYTES) -> None:
        self._footers: OrderedDict[tuple[str, str], pyarrow.parquet.FileMetaData] = OrderedDict()
        self._free_bytes = most_bytes
        self._lock = Lock()

    def get(self, path: str, tag: str) -> pyarrow.parquet.FileMetaData | None:
        """Return the footer of a file with this content; None if it is not cached."""
        with self._lock:
            footer = self._footers.get((path, tag))
            if footer is not None:
                self._footers.move_to_end((path, tag))
            return footer

    def put(self, path: str, tag: str, footer: pyarrow.parquet.FileMetaData) -> None:
        """Cache a footer. The least recently used ones make room for it."""
        with self._lock:
            if (path, tag) in self._footers:
                return
            self._footers[(path, tag)] = footer
            self._free_bytes -= footer.serialized_size
            while self._free_bytes < 0 and self._footers:
                _, dropped = self._footers.popitem(last=False)
                self._free_bytes += dropped.serialized_size


@dataclass(frozen=True, eq=False, repr=False)
class TableStores:
    """The open stores of one table in one process: its own, and those of files outside it.

    Attributes:
        storage: The store of the table.
        open_other: Opens the store of a URI outside the table.
        allowed: The locations outside the table whose files may be opened.
        location: Where another process finds the same store; None for a store that exists only in this process.
        machine: The clock and the random numbers.
        footers: The cached footers of checkpoint files.
    """

    storage: Storage
    open_other: Callable[[str], Storage] = open_storage
    allowed: AllowedPrefixes = NO_PREFIXES
    location: StoreLocation | None = None
    machine: Machine = MACHINE
    footers: FooterCache = field(default_factory=FooterCache)
    _instances: dict[type, Any] = field(default_factory=dict)  # Any: an instance of each class
    _outputs: dict[str, Storage] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def get_shared_instance(self, kind: type[Instance]) -> Instance:
        """Return the one instance of a class, such as a cache, that all tasks of the table in this process share.

        The class takes no arguments, and its instances are thread-safe.
        """
        # `setdefault` decides between two threads that make an instance at the same time.
        instance: Instance = self._instances.get(kind) or self._instances.setdefault(kind, kind())
        return instance

    def open_output(self, uri: str) -> Storage:
        """Return the store of an output directory, opened once in this process. Raises what `open_storage` raises."""
        with self._lock:
            if uri not in self._outputs:
                self._outputs[uri] = self.open_other(uri)
            return self._outputs[uri]

    def files(self) -> TableFiles:
        """Return a new finder of the files that the log names. It records which of them were refused."""
        # Such a store gets its credentials from a server, which alone decides about locations outside the table.
        if is_shared_directory(self.storage):
            return TableFiles(
                self.storage, self.storage.open_granted, self.storage.list_granted_prefixes(), is_bound=True
            )
        return TableFiles(self.storage, self.open_other, self.allowed)

    def __reduce__(self) -> NoReturn:
        raise TypeError("open stores cannot be sent to another process; send their StoreLocation")
