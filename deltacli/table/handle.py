"""The table handle: the environment in which an operation accesses a table.

It combines the store of the table with an engine, a clock and a progress display. `Table` and
`Paimon` of `deltacli.api` are subclasses that provide the operations as methods. Operations are
functions that accept any handle, and a snapshot of a version is created by `rebuild.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

from deltacli.core.machine import MACHINE, Clock, Machine, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, ReadStorage, Storage, open_storage
from deltacli.storage.directory_identity import DirectoryIdentity, bind_to_directory, is_directory_store
from deltacli.storage.optional_interfaces import (
    is_shared_directory,
    is_shared_table,
    require_writable,
)
from deltacli.work.table_files import TableFiles, parse_allowed_prefixes
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    from deltacli.catalogs.managed_store import ManagedStore
    from deltacli.storage.location import StoreLocation


def managed_store(storage: ReadStorage) -> ManagedStore | None:
    """Return the store of a catalog-managed table, or None for a table that no catalog manages.

    The managed store may be wrapped, for example by a store that caches files.
    """
    return getattr(storage, "catalog_store", None)


class TableHandle:
    """A table in a directory of a store, together with the environment of operations.

    Attributes:
        stores: The store of the table, and the information that tasks in other processes need to
            open it.
        name: The path or URI with which the caller opened the table, for hints of errors. None if
            the caller inserts the table into hints itself.
        newest_seen: The newest version that was read with this handle. None before the first read.
        open_other: Opens the store of another path or URI, such as the source of a clone.
        allowed: Directories and URIs outside the table directory from which data files may be read.
        engine: Runs tasks in threads of this process or on a cluster.
        clock: Returns the current time in epoch milliseconds, or the fixed time of `--now`.
        progress: Displays the progress of long steps.
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
        """Create a handle. The store is not accessed.

        Args:
            storage: The store of the table.
            engine: The engine. None runs tasks in threads of this process.
            clock: The clock.
            progress: The progress display.
            open_other: Opens the store of another path or URI.
            allowed: Directories and URIs outside the table directory from which data files may be
                read.
            name: The path or URI with which the caller opened the table.
            location: A description of the store that executors of a cluster can open. None if they
                cannot open it.
            machine: Clocks, random numbers and sleep. Tests replace it.
        """
        if is_shared_directory(storage):
            # Other processes open such a store with credentials that the store itself provides.
            location = None
        self.stores = TableStores(storage, open_other, allowed, location, machine)
        self.name = name
        self.newest_seen: int | None = None
        self.open_other = open_other
        self.allowed = allowed
        self.engine: Engine = engine or EmbeddedEngine()
        self.clock = machine.now_ms if clock is system_clock else clock
        self.progress = progress

    def __dir__(self) -> list[str]:
        """Hide the attributes that only operations use from completion in notebooks and shells."""
        internal_names = {
            "allowed",
            "bind_to_directory",
            "clock",
            "engine",
            "files",
            "has_given_clock",
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
        """Return the handle itself, so that a deep copy of a result refers to the same open table."""
        return self

    @property
    def storage(self) -> ReadStorage:
        """The store of the table, for reading."""
        return self.stores.storage

    def writable(self) -> Storage:
        """Return the store of the table for writing.

        Changes use the store of their `ChangeExecution` instead, which checks the plan before each
        write.
        """
        return self.stores.storage

    @property
    def machine(self) -> Machine:
        """The clocks, random numbers and sleep of this process."""
        return self.stores.machine

    @property
    def has_given_clock(self) -> bool:
        """True if the clock was set by the caller (`--now`)."""
        return self.clock is not self.machine.now_ms

    @property
    def uri(self) -> str:
        """The absolute URI of the table directory."""
        return self.storage.uri

    @property
    def address(self) -> str:
        """The name with which a command can open the table: its URI, or the name in the catalog that manages it."""
        managed = managed_store(self.storage)
        return self.uri if managed is None else managed.log.uri

    def replace_storage(self, storage: ReadStorage) -> Self:
        """Return a copy of the handle that uses another store of the same table, for example one that caches files."""
        handle = copy.copy(self)
        handle.stores = TableStores(
            cast("Storage", storage), self.open_other, self.allowed, self.stores.location, self.machine
        )
        return handle

    def open_other_table(self, uri: str, *, may_read_this_table: bool = False) -> TableHandle:
        """Open another table with the engine, clock and progress display of this table.

        Args:
            uri: The path or URI of the other table.
            may_read_this_table: True if data files of the other table may be in the directory of
                this table, as those of a shallow clone are.

        Raises:
            UsageError: If `uri` is neither a string nor a path object.
        """
        # Most commands open one table and start faster without this import.
        from deltacli.table.api_arguments import require_path_text

        uri = require_path_text(uri, "uri")
        storage = self.open_other(uri)
        location = self.stores.location
        allowed = self.allowed
        if may_read_this_table:
            prefixes = parse_allowed_prefixes((self.uri,))
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
        """Return a copy of the handle that runs all tasks in this process instead of on a cluster."""
        handle = self.replace_storage(self.stores.storage)
        if type(self.engine) is not EmbeddedEngine:
            handle.engine = EmbeddedEngine()
        handle.stores = replace(handle.stores, location=None)
        return handle

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> Self:
        """Return a copy of the handle that is bound to the directory that currently exists at its path.

        The path may refer to another directory later, if a directory is renamed or a symbolic link
        is changed. A bound handle then raises Refused, so that a plan is never executed on a
        different table.

        Args:
            identity: The identity of the directory for which a plan was made. None accepts any
                directory.

        Raises:
            Refused: `plan.other-place`, if the directory does not have this identity, or if the
                handle is already bound to another directory.
            UsageError: If `identity` is not a `DirectoryIdentity`.
        """
        if identity is not None:
            # Only a saved plan contains an identity. Most commands start faster without this import.
            from deltacli.table.api_arguments import require_place

            require_place(identity)
        storage = bind_to_directory(self.stores.storage, identity)
        if storage is self.stores.storage or not is_directory_store(storage):
            return self
        handle = self.replace_storage(storage)
        location = self.stores.location
        if location is not None:
            bound_location = location._replace(directory_identity=storage.directory_identity)
            handle.stores = replace(handle.stores, location=bound_location)
        return handle

    def files(self) -> TableFiles:
        """Return an object that opens data files by their path in the log."""
        return self.stores.files()

    def require_writable(self, *, dry_run: bool = False) -> None:
        """Require a store that can be written to. No request is sent.

        Args:
            dry_run: True if only a plan is made. This is possible for a read-only store, but not
                for a shared table.

        Raises:
            NoAtomicCreate: If the store is read-only.
            UsageError: If the table is a shared table.
        """
        if not dry_run or is_shared_table(self.storage):
            require_writable(self.storage)

    @property
    def is_shared(self) -> bool:
        """True if the table is read through a sharing server, which sends versions instead of a log."""
        return is_shared_table(self.storage)

    def note_version(self, version: int | None) -> None:
        """Update `newest_seen` after a version was read."""
        if version is not None:
            self.newest_seen = max(version, self.newest_seen or 0)
