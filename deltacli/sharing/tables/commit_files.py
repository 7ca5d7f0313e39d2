"""The files that one commit adds, removes or records as change data, in batches.

A commit with change data files has all of its changes there. Other commits count by their adds and removes, except
those that change no data. Spec: Read Change Data Feed from a Table; Add CDC File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.log.action_fields import arrow_schema
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import whole_actions
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.operations.read.changes import CommitSummary, with_partition_values
from deltacli.sharing.tables.shareable import find_fault, spelled_alike
from deltacli.work.commits.reading import is_large, stream_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.handle import TableHandle

ROWS_A_BATCH = 10_000
"""How many actions of a commit are in memory as objects, about 20 MiB."""

FileBatch = tuple[str, "pyarrow.RecordBatch"]
"""The action (`add`, `remove`, `cdc`), and files in columns."""

_ROWS_OF_MERGE = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def kinds_of(summary: CommitSummary, *, is_feed: bool) -> tuple[str, ...]:
    """Return which actions of a commit are the changes of a feed, or the added and removed files."""
    if not is_feed:
        return "add", "remove"
    if summary.has_change_data:
        return ("cdc",)
    return () if _is_merge_without_changes(summary.info) else ("add", "remove")


def _is_merge_without_changes(info: Action) -> bool:
    """Return True for a MERGE that rewrote files but changed no row, which has no change data files."""
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, dict):
        return False
    return all(str(metrics.get(name)) == "0" for name in _ROWS_OF_MERGE)


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The changed files of a commit. `removed_as` is the configuration of the files that it removes."""

    table: TableHandle
    file: LogFile
    kinds: tuple[str, ...]
    removed_as: TableConfiguration
    config: TableConfiguration
    removed_names: tuple[str, ...]
    """The partition columns of removed files."""

    def batches(self, actions: Iterable[tuple[str, Action]] | None = None) -> Iterator[FileBatch]:
        """Yield the files in batches, always the same ones. `actions` are those of the commit where they are known.

        Raises CommitCorrupt, PathExternal and DataUnreadable for files that cannot be shared.
        """
        waiting: dict[str, list[Action]] = {kind: [] for kind in self.kinds}
        summary = CommitSummary()
        for kind, action in actions if actions is not None else actions_of(self.table, self.file):
            if not summary.take(kind, action) or kind not in waiting:
                continue
            waiting[kind].append(action)
            if len(waiting[kind]) == ROWS_A_BATCH:
                yield kind, self._batch(kind, waiting[kind])
                waiting[kind] = []
        for kind, rest in waiting.items():
            if rest:
                yield kind, self._batch(kind, rest)

    def _batch(self, kind: str, actions: list[Action]) -> pyarrow.RecordBatch:
        """Return checked actions in columns."""
        config = self.config
        if kind == "remove":
            config = self.removed_as
            actions = with_partition_values(self.table, self.file.version, self.removed_names, actions)
        batch = spelled_alike(whole_actions(actions, arrow_schema(kind), self.file.name), config)
        if fault := find_fault([batch], config, self.table.storage.uri):
            raise fault
        return batch


def actions_of(table: TableHandle, file: LogFile) -> Iterable[tuple[str, Action]]:
    """Return the actions of a commit, to be iterated any number of times. Large commits are read each time."""
    return _Reread(table, file) if is_large(file) else list(stream_commit(table.storage, file))


@dataclass(frozen=True)
class _Reread:
    table: TableHandle
    file: LogFile

    def __iter__(self) -> Iterator[tuple[str, Action]]:
        return stream_commit(self.table.storage, self.file)
