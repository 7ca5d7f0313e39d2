"""What a position in a table needs after a restart: versions of the log, and files that are no longer live.

Rows: the data file and the deletion vector of each add that changes data. The change feed: the change files of a commit
that has any, else the files and vectors of its adds and removes. Source: DeltaSource, CDCReader; for our own source
`deltacli/spark/table_log.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.core.typing import ArrowTable
from deltacli.delta.log.segment import LogListing

if TYPE_CHECKING:
    from deltacli.operations.streams.checkpoints import SourceOffsets, StreamCheckpoint
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


@dataclass(frozen=True)
class TableHistory:
    """The newest version of a table and its commits from `first` on, read once for all queries.

    `events` has a row for each file that a commit names, in the order of the log: `version` (int64), `kind` (string:
    add, remove, cdc), `path` and `vector` (strings as in the log; '' without a vector), `size` (int64, bytes, or null),
    `is_change` (bool, `dataChange`), `removed_ms` (int64, epoch milliseconds, of removes). `times` are those of
    commits, epoch milliseconds.
    """

    snapshot: Snapshot
    listing: LogListing
    first: int
    events: ArrowTable = field(repr=False)
    times: Mapping[int, int] = field(repr=False)

    @property
    def table(self) -> TableHandle:
        return self.snapshot.table


@dataclass(frozen=True)
class Needs:
    """What a source needs. `first_version`: the commits from it to the newest version; None where it needs none.
    `snapshots`: versions that must be rebuildable. `files`: data files and vectors that are not live in the newest
    version, `change_data`: change files, both with the columns of `TableHistory.events`; of a row of `files` the data
    file may be live and only its vector not.
    """

    first_version: int | None
    snapshots: tuple[int, ...]
    files: ArrowTable = field(repr=False)
    change_data: ArrowTable = field(repr=False)

    @property
    def log_from(self) -> int | None:
        """Return the version from which the log must be kept: a complete checkpoint at or below it and all commits from
        there; None where nothing of the log is needed.
        """
        wanted = [*self.snapshots, *(() if self.first_version is None else (self.first_version,))]
        return min(wanted, default=None)


def read_history(table: TableHandle, sources: Iterable[tuple[StreamCheckpoint, SourceOffsets]]) -> TableHistory:
    """Read what the sources need of the log of a table, each commit once.

    Raises what `read_snapshot` raises.
    """
    raise NotImplementedError


def needs_of(
    history: TableHistory, checkpoint: StreamCheckpoint, source: SourceOffsets, *, of_feed: bool = False
) -> Needs:
    """Return what a source of a table needs if it reads rows, or with `of_feed` its change feed.

    Raises StorageFailed.
    """
    raise NotImplementedError
