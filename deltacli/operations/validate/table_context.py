"""The table whose data files are examined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deltacli.delta.log.log_path import Place
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.storage import Storage
from deltacli.work.file_facts import FilesInListing
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.task import TableStores


class TableContext(NamedTuple):
    """The table whose files are checked, in the configuration of its newest version at `place`. `sizes`: path of every
    file below it, not encoded -> bytes. `files` records the files that are not opened.
    """

    stores: TableStores
    files: TableFiles
    config: TableConfiguration
    sizes: Mapping[str, int]
    place: Place

    @property
    def storage(self) -> Storage:
        """The store of the table."""
        return self.stores.storage

    @property
    def is_near(self) -> bool:
        """Whether reading a file costs little more than its bytes."""
        return self.storage.capabilities.cheap_listing

    @property
    def reads_at_once(self) -> int | None:
        """The useful number of concurrent small reads; None: as many as compute."""
        return None if self.is_near else self.storage.capabilities.parallel_reads

    def listed(self) -> FilesInListing:
        """Return the files of the listing."""
        return FilesInListing(self.files, self.sizes)
