"""The table whose data files are examined, and which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.log_path import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.framework.data_file_views import LiveAdds
from deltacli.storage import Storage
from deltacli.work.file_facts import FilesInListing
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.task import TableStores

if TYPE_CHECKING:
    from deltacli.delta.predicate import Predicate


class TableContext(NamedTuple):
    """The table whose files are checked, in the configuration of its newest version at `place`. `sizes`: path of every
    file below it, not encoded -> bytes. `domains`: domain -> its configuration. `files` records the files that are not
    opened.
    """

    stores: TableStores
    files: TableFiles
    config: TableConfiguration
    sizes: Mapping[str, int]
    domains: Mapping[str, str]
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


@dataclass
class FileSelection:
    """`share`: the share of files to check, 1 for all, at least one file; the choice depends only on paths and `salt`.
    `predicate`: only files that may contain matching rows, by their partition values and statistics.
    """

    share: float = 1.0
    salt: str = ""
    predicate: Predicate | None = None

    @property
    def limits(self) -> bool:
        """Return True unless all files are checked."""
        return self.share < 1 or self.predicate is not None

    def of(self, live: LiveAdds, config: TableConfiguration) -> LiveAdds:
        """Return the live files to check."""
        if not self.limits or not live.adds.num_rows:
            return live
        rows = list(range(live.adds.num_rows))
        if self.predicate is not None:
            from deltacli.delta.predicate.prune import prune_files

            kept = prune_files(live.adds, self.predicate, config).kept.to_pylist()
            rows = [row for row in rows if kept[row]]
        if self.share < 1:
            paths = live.adds.column("path").to_pylist()
            rows = [rows[place] for place in self.sample([paths[row] for row in rows])]
        return live.take(rows)

    def sample(self, paths: Sequence[str]) -> list[int]:
        """Return the indices of the sampled paths, ascending."""
        by_chance = sorted(range(len(paths)), key=lambda place: self._digest(paths[place]))
        return sorted(by_chance[: ceil(len(paths) * self.share)])

    def _digest(self, path: str) -> bytes:
        from hashlib import blake2b

        return blake2b(f"{self.salt}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
