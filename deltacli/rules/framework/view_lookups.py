"""What checks know of the files of a view: places, removals, statistics, and the rows that a commit adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import Place
from deltacli.delta.paths import locate_all
from deltacli.delta.stats.columns import StatsColumns, parse_stats
from deltacli.delta.stats.record_counts import parse_num_records
from deltacli.rules.framework.views import CommitView, FilesView, StorageView, TouchedFile

if TYPE_CHECKING:
    from deltacli.delta.vacuum.file_kinds import HiddenNames


def place_of(add: Mapping[str, Any]) -> Place:  # Any: values of the columns
    """Return where the log names a live file, by its row of `StorageView.live_adds`."""
    version = add["version"]
    return Place(add["source"], add["line"], version if version >= 0 else None, add["path"])


def newest_removals(tombstones: Iterable[Action], uri: str) -> dict[str, int]:
    """Return path relative to the table -> time of its last removal, 0 if the remove has none."""
    removes = [remove for remove in tombstones if isinstance(remove.get("path"), str)]
    newest: dict[str, int] = {}
    for path, remove in zip(locate_all((remove["path"] for remove in removes), uri), removes, strict=True):
        if path is not None:
            timestamp = remove.get("deletionTimestamp")
            newest[path] = max(newest.get(path, 0), timestamp if type(timestamp) is int else 0)
    return newest


def hidden_names(view: StorageView) -> HiddenNames:
    """Return the rules of the names that a vacuum ignores, with the partition columns of all visible versions."""
    from deltacli.delta.vacuum.file_kinds import HiddenNames, partition_names

    configurations = {id(one): one for commit in view.commits for one in (commit.before, commit.after)}
    return HiddenNames(set[str]().union(*map(partition_names, (*configurations.values(), view.state.config))))


def stats_of(view: FilesView) -> StatsColumns:
    """Return the statistics of a view, parsed at the first call."""
    stats = view.memory.get("stats")
    if not isinstance(stats, StatsColumns):
        stats = view.memory["stats"] = parse_stats(view.adds.column("stats"), view.config)
    return stats


def rows_added(commit: CommitView) -> int | None:
    """Return the rows of added files with `dataChange` minus those of removed files, or None if unknown.

    A removed file has as many rows as its live add records. Spec: Add File and Remove File; Deletion Vectors.
    """
    changes = [(_live_rows(file.placed.action), file) for file in commit.added]
    changes += [(_rows_lost(file), file) for file in commit.removed]
    rows = [count for count, file in changes if file.placed.action.get("dataChange")]
    return None if None in rows else sum(count for count in rows if count is not None)


def _rows_lost(file: TouchedFile) -> int | None:
    """Return minus the live rows of a file before its removal."""
    if file.live is None or file.dv_id is None:
        return None
    adds = [live.add for live in file.live if live.dv_id == file.dv_id]
    rows = _live_rows(adds[0]) if len(adds) == 1 else None
    return None if rows is None else -rows


def _live_rows(add: Action) -> int | None:
    stats, vector = add.get("stats"), add.get("deletionVector")
    records = parse_num_records(stats) if isinstance(stats, str) and stats else add.get("num_records")
    deleted = vector.get("cardinality") if isinstance(vector, dict) else 0
    if not isinstance(records, int) or not isinstance(deleted, int) or not 0 <= deleted <= records:
        return None
    return records - deleted
