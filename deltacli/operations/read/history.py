"""`history`: one item per commit file, from its provenance alone.

Never opens a checkpoint; reads file actions only when counting them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, cast

from deltacli.core.errors import CheckpointUnreadable, CommitCorrupt, FileMissing, LogIncomplete, ProtocolUnsupported
from deltacli.core.progress import SILENT, Progress, start_weighed_step
from deltacli.core.ranges import find_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import (
    CommitTime,
    LogFile,
    LogListing,
    TimestampSource,
    compute_file_times,
    format_time_as_json,
)
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage, Storage
from deltacli.storage.optional_interfaces import (
    is_shared_directory,
    is_shared_table,
)
from deltacli.table.find_log import find_blocked_commit_name, list_log
from deltacli.work.commits.provenance import Provenance, read_provenance
from deltacli.work.commits.reading import stream_commit

PROVENANCE_FIELDS = (
    "operation",
    "operationParameters",
    "operationMetrics",
    "userId",
    "userName",
    "engineInfo",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "userMetadata",
    "txnId",
)
_RENAMED = {"timestamp": "commitInfoTimestampMs", "inCommitTimestamp": "inCommitTimestampMs"}
ITEM_FIELDS = (
    *("version", "timestampMs", "timestamp", "timestampSource", "hasCommitInfo"),
    *_RENAMED.values(),
    *PROVENANCE_FIELDS,
    *("commitInfo", "problem", "actions", "addedFiles", "removedFiles", "addedBytes", "removedBytes"),
)
"""The fields of an item with a fixed meaning; any other one is a key of commitInfo that a writer added."""
Between: TypeAlias = Callable[[LogListing], tuple[int, int]]
"""Returns the first and the last version to show of a log."""
_TAKEN = frozenset({*ITEM_FIELDS, "type"})


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """The content of a commit: numbers of actions by kind, and the files and bytes it adds and removes.

    A remove may have no size: `removed_bytes` is that of the others, None where none of them has one.
    """

    actions: Mapping[str, int]
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int | None


@short_repr("version", "time=time.moment", "operation", "problem")
@dataclass(frozen=True, slots=True, repr=False)
class HistoryItem:
    """One commit.

    `time` is None where a share does not tell it; `commit_info` is verbatim, None where there is none; `problem` is a
    rule id where the commit cannot be read.
    """

    version: int
    time: CommitTime | None
    commit_info: Action | None
    problem: str | None = None
    counts: ActionCounts | None = None

    @property
    def operation(self) -> str | None:
        operation = (self.commit_info or {}).get("operation")
        return None if operation is None else str(operation)

    def as_json(self) -> dict[str, Any]:
        """Return the item as in the document `deltacli.history`, without unknown fields."""
        info = self.commit_info or {}
        item: dict[str, Any] = {
            "version": self.version,
            **format_time_as_json(self.time),
            "hasCommitInfo": self.commit_info is not None,
        }
        item |= {name: info[source] for source, name in _RENAMED.items() if info.get(source) is not None}
        item |= {name: info[name] for name in PROVENANCE_FIELDS if info.get(name) is not None}
        item |= self._other_info()
        if self.problem is not None:
            item["problem"] = self.problem
        if self.counts is not None:
            item["actions"] = dict(self.counts.actions)
            item["addedFiles"] = self.counts.added_files
            item["removedFiles"] = self.counts.removed_files
            item["addedBytes"] = self.counts.added_bytes
            item["removedBytes"] = self.counts.removed_bytes
        return item

    def _other_info(self) -> dict[str, Json]:
        """Return the keys of commitInfo that no field has, verbatim; those named like a field in `commitInfo`."""
        others = {
            key: value
            for key, value in (self.commit_info or {}).items()
            if value is not None and key not in PROVENANCE_FIELDS and key not in _RENAMED
        }
        shadowed = {key: value for key, value in others.items() if key in _TAKEN}
        other_info = {key: value for key, value in others.items() if key not in shadowed}
        return other_info | ({"commitInfo": shadowed} if shadowed else {})


@short_repr("table", "items", "total", "gaps", "missing", "lost")
@dataclass(frozen=True, slots=True, repr=False)
class History:
    """Commits newest first. `total` is their number in the log; fewer items mean that a limit cut the list.

    `lost` are versions that have a commit file but cannot be rebuilt, because earlier files are missing; `missing` are
    versions without a commit file that no checkpoint replaces, and every gap between commit files, or after them if
    the name of the next one is taken by something else.
    """

    table: str
    items: tuple[HistoryItem, ...]
    total: int
    gaps: tuple[tuple[int, int], ...]
    missing: tuple[tuple[int, int], ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    newest_readable: int | None = None
    """The newest version that can be rebuilt, judged by the listing and the items."""
    times_ms: tuple[int, ...] = ()
    """The times of all commits in the log, or only of the items where these have in-commit timestamps."""
    asked: tuple[int, int] | None = None
    """The first and the last version asked for; None for all."""
    oldest: int | None = None
    """The oldest commit of the log."""

    @property
    def is_complete(self) -> bool:
        return len(self.items) == self.total


def read_history(
    storage: ReadStorage,
    engine: Engine,
    *,
    limit: int = 0,
    counts: bool = False,
    progress: Progress = SILENT,
    between: Between | None = None,
) -> History:
    """Return the newest `limit` commits (0: all) of a range, across gaps and regardless of the table's features.

    A commit whose first line cannot be read, or whose file is empty or torn, becomes an item with a `problem`. Raises
    NotATable.
    """
    if is_shared_table(storage):
        # Versions that only rearranged files are not told, which is not a gap.
        recent = storage.recent(limit if between is None else 0)
        known = _read_commits(recent, engine, limit=limit, counts=counts, progress=progress, between=between)
        untimed = recent.untimed_versions() if is_shared_table(recent) else frozenset()
        items = tuple(replace(item, time=None) if item.version in untimed else item for item in known.items)
        times_ms = tuple(item.time.timestamp_ms for item in items if item.time is not None)
        return replace(known, table=storage.uri, items=items, times_ms=times_ms, gaps=(), missing=(), lost=())
    if is_shared_directory(storage):
        from deltacli.table.handle import TableHandle
        from deltacli.table.rebuild import read_snapshot

        # It compares the table with the announced version, and need not be readable.
        with suppress(ProtocolUnsupported, LogIncomplete, CommitCorrupt, CheckpointUnreadable):
            read_snapshot(TableHandle(cast("Storage", storage), engine=engine, progress=progress))
    return _read_commits(storage, engine, limit=limit, counts=counts, progress=progress, between=between)


def _read_commits(
    storage: ReadStorage, engine: Engine, *, limit: int, counts: bool, progress: Progress, between: Between | None
) -> History:
    listing = list_log(storage, progress=progress)
    listing.require_versions()
    times = compute_file_times(listing.commits)
    asked = None if between is None else between(listing)
    newest_first = sorted((one for one in listing.commits if _overlap((one, one), asked)), reverse=True)
    chosen = newest_first[:limit] if limit else newest_first
    read = partial(_read_item, storage, times=times, counts=counts)
    files = [listing.commits[version] for version in chosen]
    history_items = engine.run(read, files, at_once=storage.capabilities.parallel_reads)
    items = _told(history_items, files, progress, counts=counts)
    if any(item.time is not None and item.time.source is TimestampSource.IN_COMMIT for item in items):
        items = _with_selecting_times(items, times, storage, engine, listing)
    gaps = tuple((before[1] + 1, after[0] - 1) for before, after in pairwise(listing.commit_runs))
    if find_blocked_commit_name(storage, listing) is not None:
        gaps += ((listing.newest_version + 1,) * 2,)
    lost = tuple(find_ranges(listing.commits.keys() - set(listing.reconstructable)))
    first = min(listing.commits, default=0)
    head = ((0, first - 1),) if lost and first and lost[0][0] == first else ()
    readable = listing.readable_without({item.version for item in items if item.problem is not None})
    newest = readable[-1] if readable else None
    of_items = [item.time for item in items if item.time is not None]
    is_by_files = all(time.source is not TimestampSource.IN_COMMIT for time in of_items)
    known = times.values() if is_by_files else of_items
    moments = tuple(time.timestamp_ms for time in known)
    gaps, missing = (tuple(one for one in found if _overlap(one, asked)) for found in (gaps, (*head, *gaps)))
    oldest = min(listing.commits, default=None)
    return History(
        storage.uri, items, len(newest_first), gaps, missing, lost, newest, moments, asked=asked, oldest=oldest
    )


def _with_selecting_times(
    items: tuple[HistoryItem, ...],
    times: Mapping[int, CommitTime],
    storage: ReadStorage,
    engine: Engine,
    listing: LogListing,
) -> tuple[HistoryItem, ...]:
    """Return the commits with the times that select their versions: those of files for commits whose in-commit
    timestamps do not count, because they were enabled later, or are disabled by now.
    """
    if is_shared_table(storage):
        return items  # the server of a share selects versions by its own times
    from deltacli.table.handle import TableHandle
    from deltacli.table.rebuild import find_enablement_version  # no other history rebuilds a version

    first_stamped = find_enablement_version(TableHandle(cast("Storage", storage), engine=engine), listing)
    return tuple(
        replace(item, time=times[item.version]) if first_stamped is None or item.version < first_stamped else item
        for item in items
    )


def _overlap(versions: tuple[int, int], asked: tuple[int, int] | None) -> bool:
    return asked is None or (versions[0] <= asked[1] and asked[0] <= versions[1])


def _told(
    history_items: Iterator[HistoryItem], files: Sequence[LogFile], progress: Progress, *, counts: bool
) -> tuple[HistoryItem, ...]:
    """Collect the commits and report progress; a commit is read whole where actions are counted."""
    if progress is SILENT:
        return tuple(history_items)
    weights = [file.size_bytes if counts else 1 for file in files]
    items = []
    with start_weighed_step(
        progress, "reading the history", unit="commits", total=len(files), weight=sum(weights)
    ) as step:
        for item, weight in zip(history_items, weights, strict=True):
            items.append(item)
            step.advance(weight=weight)
    return tuple(items)


def _read_item(storage: ReadStorage, file: LogFile, *, times: Mapping[int, CommitTime], counts: bool) -> HistoryItem:
    try:
        can_be_torn = storage.capabilities.has_cheap_requests  # stores create objects atomically
        provenance = read_provenance(storage, file, to_the_end=can_be_torn and not counts)
        counted, problem = _count(storage, file) if counts and provenance.problem is None else (None, None)
    except FileMissing as gone:  # the log was cleaned between the listing and now
        provenance, counted, problem = Provenance(problem=gone.code), None, None
    stamped = provenance.in_commit_timestamp
    return HistoryItem(
        file.version,
        times[file.version] if stamped is None else CommitTime(stamped, TimestampSource.IN_COMMIT),
        provenance.commit_info,
        provenance.problem or problem,
        counted,
    )


def _count(storage: ReadStorage, file: LogFile) -> tuple[ActionCounts | None, str | None]:
    """Count the actions of a commit; return a rule id instead where a line cannot be read."""
    actions: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    try:
        for kind, action in stream_commit(storage, file):
            actions[kind] += 1
            size = action.get("size")
            if kind in ("add", "remove") and type(size) is int:
                sizes[kind] += size
    except CommitCorrupt as corrupt:
        return None, corrupt.code
    removed_bytes = sizes["remove"] if "remove" in sizes or not actions["remove"] else None
    return ActionCounts(
        dict(sorted(actions.items())), actions["add"], actions["remove"], sizes["add"], removed_bytes
    ), None
