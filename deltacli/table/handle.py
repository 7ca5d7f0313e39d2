"""The table handle that every operation needs: store, engine, clock, machine and progress.

A handle has no operations, not even to rebuild a version (`rebuild.py`). `Table` and `Paimon` of `deltacli.api` are
handles with the operations as methods; operations accept any handle.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

from deltacli.core.machine import MACHINE, Clock, Machine, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.engine.base import EmbeddedEngine, Engine
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, open_storage
from deltacli.storage.directory_identity import DirectoryIdentity, DirectoryStore, bind_to_directory
from deltacli.storage.optional_interfaces import SharedDirectoryStore, SharedTableStore, require_writable
from deltacli.work.task import TableFiles, TableStores, read_prefixes

if TYPE_CHECKING:
    from deltacli.catalogs.managed_store import ManagedStore
    from deltacli.storage.location import StoreLocation


def managed_store(storage: ReadStorage) -> ManagedStore | None:
    """Return the store of a table that a catalog manages, also behind one that remembers files; None for another."""
    return getattr(storage, "catalog_store", None)


class TableHandle:
    """A table in one directory of a store, with everything that operations on it need.

    Attributes:
        stores: The store of the table, and how tasks open the same store.
        name: The table as the caller wrote it, used in hints of errors. None: the caller inserts it.
        newest_seen: The newest version that was read through this handle.
        open_other: Opens another store, such as that of another table.
        allowed: Where data files may be outside of the table.
        engine: Runs tasks, in this process or on a cluster.
        clock: Returns the time. It is another clock than that of the machine if the time was given (`--now`).
        progress: Where steps are reported.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        engine: Engine | None = None,
        clock: Clock = system_clock,
        progress: Progress = SILENT,
        open_other: Callable[[str], Storage] = open_storage,
        allowed: AllowedPrefixes = NO_PREFIXES,
        name: str | None = None,
        location: StoreLocation | None = None,
        machine: Machine = MACHINE,
    ) -> None:
        """Make a handle.

        Args:
            storage: The store of the table.
            engine: The engine. None: threads of this process.
            clock: The clock.
            progress: Where steps are reported.
            open_other: Opens another store.
            allowed: Where data files may be outside of the table.
            name: The table as the caller wrote it.
            location: Where executors of a cluster find the same table. None: they cannot.
            machine: The clocks, random numbers and sleep of this process.
        """
        if isinstance(storage, SharedDirectoryStore):
            location = None  # such a store tells other processes itself how to open it, with credentials
        self.stores = TableStores(storage, open_other, allowed, location, machine)
        self.name = name
        self.newest_seen: int | None = None
        self.open_other = open_other
        self.allowed = allowed
        self.engine: Engine = engine or EmbeddedEngine()
        self.clock = machine.now_ms if clock is system_clock else clock
        self.progress = progress

    def __dir__(self) -> list[str]:
        """Return the operations, and what identifies the table; operations alone use the rest of the handle."""
        internal_names = {
            "allowed",
            "clock",
            "engine",
            "files",
            "has_given_clock",
            "held",
            "machine",
            "newest_seen",
            "note_version",
            "open_other",
            "open_other_table",
            "progress",
            "replace_storage",
            "require_writable",
            "storage",
            "stores",
            "use_embedded_engine",
            "writable",
        }
        return sorted(set(super().__dir__()) - internal_names)

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        """Return the handle itself: copies of a result share the open table."""
        return self

    @property
    def storage(self) -> ReadStorage:
        """The store of the table, to be read."""
        return self.stores.storage

    def writable(self) -> Storage:
        """Return the store of the table, to be written. A change takes that of its `ChangeExecution`."""
        return self.stores.storage

    @property
    def machine(self) -> Machine:
        """The clocks, random numbers and sleep of this process."""
        return self.stores.machine

    @property
    def has_given_clock(self) -> bool:
        """True if the time is not that of the machine (`--now`)."""
        return self.clock is not self.machine.now_ms

    @property
    def uri(self) -> str:
        """The absolute URI of the table directory."""
        return self.storage.uri

    @property
    def address(self) -> str:
        """The name in the catalog that manages the table, else its URI: by it commands find the table."""
        managed = managed_store(self.storage)
        return self.uri if managed is None else managed.log.uri

    def replace_storage(self, storage: ReadStorage) -> Self:
        """Return the same handle on another store, such as that of another version of the table."""
        handle = copy.copy(self)
        handle.stores = TableStores(
            cast("Storage", storage), self.open_other, self.allowed, self.stores.location, self.machine
        )
        return handle

    def open_other_table(self, uri: str, *, has_own_files: bool = False) -> TableHandle:
        """Return a handle of another table, which is opened and run in the same way.

        Args:
            uri: The other table.
            has_own_files: True if it may open files of this table, too, as a shallow clone does.

        Raises:
            UsageError: For anything that is not a path or a URI.
        """
        from deltacli.table.api_arguments import require_path_text  # which commands without another table do not need

        uri = require_path_text(uri, "uri")
        storage = self.open_other(uri)
        location = self.stores.location
        allowed = self.allowed
        if has_own_files:
            prefixes = read_prefixes((self.uri,))
            allowed = AllowedPrefixes(allowed.directories + prefixes.directories, allowed.uris + prefixes.uris)
        return TableHandle(
            storage,
            engine=self.engine,
            clock=self.clock,
            progress=self.progress,
            open_other=self.open_other,
            allowed=allowed,
            location=None if location is None else location._replace(uri=storage.uri),
            machine=self.machine,
        )

    def use_embedded_engine(self) -> Self:
        """Return the same handle, whose work is done in this process, also where it has the engine of a cluster."""
        handle = self.replace_storage(self.stores.storage)
        if type(self.engine) is not EmbeddedEngine:
            handle.engine = EmbeddedEngine()
        handle.stores = replace(handle.stores, location=None)
        return handle

    def held(self, place: DirectoryIdentity | None = None) -> Self:
        """Return the same handle bound to the directory that is at its path now.

        A path may lead to another directory later, because somebody renames it or turns a link. A bound
        handle then writes to the directory that the plan is about, or raises Refused.

        Args:
            place: The place of a plan, which the directory must be. None for the one that is there.

        Raises:
            Refused: `plan.other-place`, if the directory is not the place, or not the one to which the
                handle is bound already.
            UsageError: For a place that is none.
        """
        if place is not None:
            from deltacli.table.api_arguments import require_place

            require_place(place)
        storage = bind_to_directory(self.stores.storage, place)
        if storage is self.stores.storage or not isinstance(storage, DirectoryStore):
            return self
        handle = self.replace_storage(storage)
        location = self.stores.location
        if location is not None:
            bound_location = location._replace(directory_identity=storage.directory_identity)
            handle.stores = replace(handle.stores, location=bound_location)
        return handle

    def files(self) -> TableFiles:
        """Return the resolver of the files that the log names."""
        return self.stores.files()

    def require_writable(self, *, dry_run: bool = False) -> None:
        """Raise NoAtomicCreate, before any request is sent, where the store is known to be read-only, and UsageError
        for a shared table, for which not even a plan can be made.
        """
        if not dry_run or isinstance(self.storage, SharedTableStore):
            require_writable(self.storage)

    def note_version(self, version: int | None) -> None:
        """Remember a version that was read, if it is the newest so far."""
        if version is not None:
            self.newest_seen = max(version, self.newest_seen or 0)
