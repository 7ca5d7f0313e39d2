"""A listing made by the store, used instead of listing the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.units import format_timestamp, plural
from deltacli.work.files.listing import ListedFiles
from deltacli.work.inventory.files import split_place
from deltacli.work.inventory.inventory import open_inventory

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle


class InventoryListing:
    """The files of an inventory below a table.

    `made_ms` is when the inventory was started, or, where unknown, written: it lacks later files.
    """

    def __init__(self, table: TableHandle, place: str) -> None:
        self._inventory = open_inventory(place, table.open_other, (table.uri, *table.storage.aliases))
        directory, name = split_place(place)
        created = self._inventory.created_ms
        self.made_ms = table.open_other(directory).stat(name).modified_ms if created is None else created
        self._outside = self._without_time = 0

    def files(self, directory: str = "") -> Iterator[ListedFiles]:
        """Yield the files below a directory. Raises Unreadable (`vacuum.inventory`)."""
        below = directory.encode("utf-8", "surrogateescape") + b"/"
        for batch in self._inventory.batches():
            self._outside += batch.outside
            self._without_time += batch.without_time
            is_wanted = pc.invert(pc.starts_with(batch.paths, pattern=f"{LOG_DIRECTORY}/"))
            if directory:
                is_wanted = pc.and_(is_wanted, pc.starts_with(batch.paths, pattern=below))
            yield ListedFiles(*(pc.filter(column, is_wanted) for column in batch[:3]))

    def notes(self) -> Iterator[str]:
        """Return the notes, once the files were read."""
        yield f"the inventory was made at {format_timestamp(self.made_ms)}; files written since are kept"
        if self._outside:
            yield f"{plural(self._outside, 'row')} of the inventory are outside the table"
        if self._without_time:
            yield f"{plural(self._without_time, 'row')} of the inventory have no time or size; these files are kept"
