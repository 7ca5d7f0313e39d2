"""A listing that the store made, in place of our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli import arrow_compute as pc
from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing
from deltacli.operations.vacuum.candidates import ListedFiles
from deltacli.operations.vacuum.other_tables import kind_at
from deltacli.quantities import format_timestamp, plural
from deltacli.work.inventory import open_inventory
from deltacli.work.inventory_files import split_place

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table import Table
    from deltacli.storage import Storage


class InventoryListing:
    """The files of an inventory that lie below a table.

    `made_ms` is when it was begun, or, where it does not say, when it was written: what came later is not in it.
    """

    def __init__(self, table: Table, place: str) -> None:
        self._storage = table.storage
        self._inventory = open_inventory(place, table.open_other, (table.uri, *table.storage.aliases))
        directory, name = split_place(place)
        created = self._inventory.created_ms
        self.made_ms = table.open_other(directory).stat(name).modified_ms if created is None else created
        self.shows_log = False
        """It names files of the table's own log: then logs of tables below it are in it, too."""
        self._outside = self._without_time = 0

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files. Raises Unreadable (`vacuum.inventory`)."""
        for batch in self._inventory.batches():
            self._outside += batch.outside
            self._without_time += batch.without_time
            is_log = pc.starts_with(batch.paths, pattern=f"{LOG_DIRECTORY}/")
            if pc.any(is_log).as_py():
                self.shows_log = True
            yield ListedFiles(*(pc.filter(column, pc.invert(is_log)) for column in batch[:3]))

    def notes(self) -> Iterator[str]:
        """What is to be said after the files were read."""
        yield f"the inventory is of {format_timestamp(self.made_ms)}: what was written since stays"
        if self._outside:
            yield f"{plural(self._outside, 'row')} of the inventory lie outside of the table"
        if self._without_time:
            yield f"{plural(self._without_time, 'row')} of the inventory tell no time or size: these files stay"

    def tables(self, old: pyarrow.Table) -> dict[str, str]:
        """The directories of files that may go that are tables of their own, where the inventory can't show them:
        directory -> format. Each directory on the way is looked at once.
        """
        if self.shows_log:
            return {}
        parents = pc.unique(pc.replace_substring_regex(old.column("path"), "/?[^/]*$", "")).to_pylist()
        above: set[str] = set()
        for parent in parents:
            parts = parent.decode("utf-8", "surrogateescape").split("/")
            above |= {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}
        found = {directory: _kind_at(self._storage, directory) for directory in sorted(above | {""})}
        return {directory: kind for directory, kind in found.items() if kind is not None}


def _kind_at(storage: Storage, directory: str) -> str | None:
    try:
        return kind_at(storage, directory)
    except FileMissing:
        return None
