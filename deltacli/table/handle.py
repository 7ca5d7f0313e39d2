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
from deltacli.storage.directory_identity import DirectoryIdentity, StoreOfDirectory, bind_to_directory
from deltacli.storage.optional_interfaces import StoreOfVersions, StoreWithBounds, require_writable
from deltacli.work.task import TableFiles, TableStores, read_prefixes

if TYPE_CHECKING:
    from deltacli.catalogs.managed_store import ManagedStore
    from deltacli.storage.location import StoreLocation


def managed_store(storage: ReadStorage) -> ManagedStore | None:
    """Return the store of a table that a catalog manages, also behind one that remembers files; None for another."""
    return getattr(storage, "catalog_store", None)


class TableHandle:
    """A table in one directory of a store; `open_other` opens other stores, for data files only where they are
    `allowed`.

    `name` is the table as the caller wrote it, used in hints of errors; None: the caller inserts it. `location` is
    where executors of a cluster find the same table; None: they cannot. `clock` is another one than that of the
    `machine` where the time was given (`--now`).
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
        location = None if isinstance(storage, StoreWithBounds) else location
        self.stores = TableStores(storage, open_other, allowed, location, machine)
        self.name = name
        self.newest_seen: int | None = None
        """The newest version that was read through this handle."""
        self.open_other = open_other
        self.allowed = allowed
        self.engine: Engine = engine or EmbeddedEngine()
        self.clock = machine.now_ms if clock is system_clock else clock
        self.progress = progress

    def __dir__(self) -> list[str]:
        """Return the operations, and what identifies the table; operations alone use the rest of the handle."""
        parts = {
            "allowed",
            "clock",
            "engine",
            "files",
            "has_given_clock",
            "held",
            "here",
            "beside",
            "machine",
            "newest_seen",
            "note_version",
            "open_other",
            "over",
            "progress",
        }
        return sorted(set(super().__dir__()) - parts - {"require_writable", "storage", "stores", "writable"})

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        """Return the handle itself: copies of a result share the open table."""
        return self

    @property
    def storage(self) -> ReadStorage:
        return self.stores.storage

    def writable(self) -> Storage:
        """Return the store of the table, to be written. A change takes that of its gate, which has looked again."""
        return self.stores.storage

    @property
    def machine(self) -> Machine:
        """What the operations take from their machine."""
        return self.stores.machine

    @property
    def has_given_clock(self) -> bool:
        """Return True where the time is not that of the machine (`--now`)."""
        return self.clock is not self.machine.now_ms

    @property
    def uri(self) -> str:
        """The absolute URI of the table directory."""
        return self.storage.uri

    @property
    def address(self) -> str:
        """Where commands find the table: its name in the catalog that manages it, else its URI."""
        managed = managed_store(self.storage)
        return self.uri if managed is None else managed.log.uri

    def over(self, storage: ReadStorage) -> Self:
        """Return the same handle on another store, such as that of another version of the table."""
        other = copy.copy(self)
        location, machine = self.stores.location, self.machine
        other.stores = TableStores(cast("Storage", storage), self.open_other, self.allowed, location, machine)
        return other

    def beside(self, uri: str, *, has_own_files: bool = False) -> TableHandle:
        """Return a handle of another table, which is opened and run in the same way. `has_own_files`: it may open files
        of this table, too, as a shallow clone does. Raises UsageError for anything that is not a path or a URI.
        """
        from deltacli.table.api_arguments import require_path_text  # which commands without another table do not need

        uri = require_path_text(uri, "uri")
        storage, location, allowed = self.open_other(uri), self.stores.location, self.allowed
        if has_own_files:
            own = read_prefixes((self.uri,))
            allowed = AllowedPrefixes(allowed.directories + own.directories, allowed.uris + own.uris)
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

    def here(self) -> Self:
        """Return the same handle, whose work is done in this process, also where it has the engine of a cluster."""
        other = self.over(self.stores.storage)
        other.engine = self.engine if type(self.engine) is EmbeddedEngine else EmbeddedEngine()
        other.stores = replace(other.stores, location=None)
        return other

    def held(self, place: DirectoryIdentity | None = None) -> Self:
        """Return the same handle bound to the directory that is at its path now: it writes there, or raises Refused.

        Raises Refused (`plan.other-place`) where that is not the `place` of a plan, or the one it is bound to already,
        and UsageError for a `place` that is none.
        """
        if place is not None:
            from deltacli.table.api_arguments import require_place

            require_place(place)
        storage = bind_to_directory(self.stores.storage, place)
        if storage is self.stores.storage or not isinstance(storage, StoreOfDirectory):
            return self
        other, location = self.over(storage), self.stores.location
        if location is not None:
            other.stores = replace(
                other.stores, location=location._replace(directory_identity=storage.directory_identity)
            )
        return other

    def files(self) -> TableFiles:
        """Return the resolver of the files that the log names."""
        return self.stores.files()

    def require_writable(self, *, dry_run: bool = False) -> None:
        """Raise NoAtomicCreate, before any request is sent, where the store is known to be read-only, and UsageError
        for a shared table, for which not even a plan can be made.
        """
        if not dry_run or isinstance(self.storage, StoreOfVersions):
            require_writable(self.storage)

    def note_version(self, version: int | None) -> None:
        """Remember a version that was read, if it is the newest so far."""
        if version is not None:
            self.newest_seen = max(version, self.newest_seen or 0)
