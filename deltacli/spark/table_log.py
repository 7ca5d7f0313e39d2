"""The log of a table as a stream reads it, and which files of a commit it delivers, as delta-spark means its options.

An offset names all that a replay needs. Batches are replayed after a restart from two offsets alone, and where the
first batch is replayed, its start is the beginning again: so each other offset says how the stream began.

Only rows that are added can be delivered. So a commit that changes or deletes rows is refused, unless an option says
what to do with it. Files that were rewritten without a change of data, as by `optimize`, are neither.

A commit after the version whose columns are read must leave them as they are: no column of its files may be left out
unnoticed, so the stream ends before it and begins again with the new columns. A commit before that version is read as
any older version is: missing columns are null, and narrower types become wider ones.

Spec: Delta Log Entries; Action Reconciliation; Add CDC File; Column Mapping; Type Widening; Change Metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from deltacli.core.errors import DeltacliError, FileMissing, Refused, Unreadable, UsageError, VersionAbsent
from deltacli.core.ranges import format_ranges
from deltacli.core.times import format_timestamp
from deltacli.delta.data_files import unique_id
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch, compute_file_key
from deltacli.delta.log.segment import CommitTime, LogFile, compute_file_times
from deltacli.delta.log.state import CHANGE_FEED, TableConfiguration, is_true
from deltacli.delta.schema import types
from deltacli.delta.schema.column_differences import by_physical_name, differences, schema_id
from deltacli.delta.schema.to_arrow import drop_unsupported_columns, require_partitions
from deltacli.delta.schema.type_changes import (
    canonical_name,
    is_allowed_change,
    require_readable_rows,
    was_allowed_in_preview,
)
from deltacli.operations.read import changes
from deltacli.spark.parquet_schema import unread_in_spark
from deltacli.spark.source_options import LATEST, StreamOptions
from deltacli.table.api_arguments import VersionTime
from deltacli.table.data_files import build_data_files
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.selection import Selection
from deltacli.table.time_travel import find_version_range
from deltacli.table.version import Snapshot
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.files_once import FilesOnce

# -- where a stream is in a table, from there to the end of a batch ----------------------------------------------------

FORMAT = 1
_BEGINNING = -1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """All files before it are delivered: those of versions below `version`, and the first `index` ones of it.

    `first` is the first version whose commit is delivered. With `has_snapshot`, the files of the version before it were
    delivered first, all that were live. `schema` identifies the columns that the stream had.
    """

    table: str
    schema: str
    first: int = _BEGINNING
    has_snapshot: bool = False
    version: int = _BEGINNING
    index: int = 0

    @classmethod
    def after(cls, table: str, schema: str, version: int, *, with_snapshot: bool) -> Self:
        """Return the offset from which a stream delivers the commits after a version, or the version itself before."""
        start = version if with_snapshot else version + 1
        return cls(table, schema, version + 1, with_snapshot, start)

    @property
    def is_beginning(self) -> bool:
        """Return True before the first batch, when no version has been chosen."""
        return self.version == _BEGINNING

    @property
    def is_in_snapshot(self) -> bool:
        """Return True if the next file is one of the snapshot that a stream begins with."""
        return not self.is_beginning and self.version < self.first

    @property
    def place(self) -> tuple[int, int]:
        return self.version, self.index

    @property
    def begin(self) -> StreamOffset:
        return replace(self, version=self.first - 1 if self.has_snapshot else self.first, index=0)

    @property
    def after_version(self) -> StreamOffset:
        """Return the offset after the last file of this version."""
        return replace(self, version=self.version + 1, index=0)

    def after_files(self, count: int) -> StreamOffset:
        """Return the offset after so many further files of this version."""
        return replace(self, index=self.index + count)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it in a checkpoint."""
        return {
            "format": FORMAT,
            "table": self.table,
            "schema": self.schema,
            "first": self.first,
            "snapshot": self.has_snapshot,
            "version": self.version,
            "index": self.index,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an offset. Raises Unreadable (`stream.offset`) for one of another format or of another source."""
        found = [value.get(key) for key in ("table", "schema", "first", "snapshot", "version", "index")]
        kinds = (str, str, int, bool, int, int)
        if value.get("format") != FORMAT or any(
            type(item) is not kind for item, kind in zip(found, kinds, strict=True)
        ):
            raise Unreadable(
                "the checkpoint has an offset that deltacli did not write, or that a newer version wrote",
                code="stream.offset",
                facts={"offset": json.dumps(dict(value), default=str)[:200]},
                hint="use another checkpointLocation, with which the stream starts over",
            )
        return cls(*found)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch takes at most. The file that exceeds the bytes is the last one of its batch."""

    files: int | None = None
    size_bytes: int | None = None


class StreamLog(Protocol):
    """What the log gives to a stream. The files of a version are always the same, in the same order."""

    is_atomic: bool
    """Commits are delivered whole, whatever the limits."""

    @property
    def table(self) -> str: ...

    @property
    def schema(self) -> str: ...
    def snapshot_files(self, version: int) -> Sequence[DataFile]: ...

    def commit_files(self, version: int) -> Sequence[DataFile]:
        """Return the files to deliver of a commit. Raises where the stream must stop before it."""
        ...


@dataclass(slots=True)
class _Quota:
    """What is left of the limits of a batch."""

    files: int | None
    size_bytes: int | None

    @property
    def is_used(self) -> bool:
        return (self.files is not None and self.files <= 0) or (self.size_bytes is not None and self.size_bytes <= 0)

    def take(self, files: Sequence[DataFile], *, whole: bool) -> int:
        """Return how many of the files fit, from the first on, and count them; at least one where any is left."""
        taken = 0
        for file in files:
            if self.is_used and not whole:
                break
            taken += 1
            if self.files is not None:
                self.files -= 1
            if self.size_bytes is not None:
                self.size_bytes -= max(file.size_bytes or 0, 0)
        return taken


def next_offset(log: StreamLog, start: StreamOffset, newest: int, limits: Limits) -> StreamOffset:
    """Return the end of the batch that starts at an offset, which is not the beginning; `start` where nothing is new.

    `newest` is the last version that may be delivered. A fault of a commit ends the batch before it, and is raised
    where the batch would be empty: so what precedes a change of the schema is delivered first.
    """
    require_same_table(log, start)
    quota = _Quota(limits.files, limits.size_bytes)
    position = start
    while position.version <= newest and not quota.is_used:
        try:
            files = _files_of(log, position)
        except DeltacliError:
            if position.place == start.place:
                raise
            break
        rest = files[position.index :]
        taken = quota.take(rest, whole=log.is_atomic and not position.is_in_snapshot)
        position = position.after_version if taken == len(rest) else position.after_files(taken)
    return start if position.place == start.place else replace(position, schema=log.schema)


def files_between(log: StreamLog, start: StreamOffset, end: StreamOffset) -> Iterator[DataFile]:
    """Yield the files from one offset to another. Raises what `StreamLog` raises, and Unreadable (`stream.offset`)."""
    require_same_table(log, end)
    position = end.begin if start.is_beginning else start
    require_same_table(log, position)
    while not end.is_beginning and position.place < end.place:
        files = _files_of(log, position)
        if position.version < end.version:
            yield from files[position.index :]
            position = position.after_version
            continue
        if end.index > len(files):
            raise _not_of_this_log(end, len(files))
        yield from files[position.index : end.index]
        return


def _files_of(log: StreamLog, position: StreamOffset) -> Sequence[DataFile]:
    """Return the files of the version of an offset. Raises Unreadable where it names more of them."""
    version = position.version
    files = log.snapshot_files(version) if position.is_in_snapshot else log.commit_files(version)
    if position.index > len(files):
        raise _not_of_this_log(position, len(files))
    return files


def require_same_table(log: StreamLog, offset: StreamOffset) -> None:
    """Raise Unreadable where an offset is of another table, such as one that was here before."""
    if offset.table != log.table:
        raise Unreadable(
            "the checkpoint of the stream is of another table: this one was recreated, or is at another path",
            code="stream.other-table",
            facts={"table id": log.table, "table id in the checkpoint": offset.table},
            hint="use another checkpointLocation, with which the stream starts over",
        )


def _not_of_this_log(offset: StreamOffset, count: int) -> Unreadable:
    return Unreadable(
        f"the checkpoint of the stream is at file {offset.index} of version {offset.version}, which has {count}",
        code="stream.offset",
        facts={"version": str(offset.version)},
        hint="start with the options the stream had before, or use another checkpointLocation",
    )


# -- the log of a table as a stream reads it ---------------------------------------------------------------------------

_TEXT = "string"


class TableLog:
    """The files that a stream delivers: those of a snapshot to begin with, and those of commits.

    The columns are those of the newest version at the time this is made.
    """

    def __init__(self, table: TableHandle, options: StreamOptions) -> None:
        self._table, self._options = table, options
        self._end = read_snapshot(table)
        require_readable_rows(self._end.config, self._end.version)
        self.is_atomic = options.read_change_feed
        self.table, self.schema = self._end.metadata.id, schema_id(self._end.config)
        described = changes.CHANGE_COLUMNS if options.read_change_feed else ()
        ours = {column.name for column in described}
        if taken := [column.name for column in self._end.schema.fields if column.name.lower() in ours]:
            raise UsageError(
                f"the column {taken[0]} of the table has the name of a change column",
                code="usage.column",
                hint="leave out readChangeFeed",
            )
        fields = drop_unsupported_columns(self._end.schema.fields, unread_in_spark)
        self._selection = Selection.resolve(types.StructType((*fields, *described)), None, None)
        self._commits: dict[int, LogFile] = {}
        self._times: dict[int, CommitTime] | None = None
        self._newest = self._end.version
        self._configs: dict[int, TableConfiguration] = {self._end.version: self._end.config}
        self._kept: tuple[tuple[str, int] | None, Sequence[DataFile]] = (None, ())
        self._together: TableConfiguration | None = None
        """That of the last version which no later one separates from the columns that are read."""

    @property
    def columns(self) -> tuple[types.StructField, ...]:
        """The columns of the rows, those that describe a change last."""
        return self._selection.columns

    @property
    def wanted(self) -> ReadSpec:
        return self._selection.make_read_spec(self._end.config)

    def newest(self) -> int:
        """List the log from the last known version on, and return the newest version."""
        start = max(self._commits, default=0)
        listing = list_log(self._table.storage, start_version=start)
        self._commits |= listing.commits
        self._times = None
        self._newest = max(self._newest, listing.newest_version)
        return self._newest

    @property
    def newest_commit(self) -> LogFile | None:
        """Return the newest commit of the log as it was listed last."""
        if not self._commits:
            self.newest()
        return self._commits[max(self._commits)] if self._commits else None

    def first_offset(self, newest: int) -> StreamOffset:
        """Return where a stream begins. Raises VersionAbsent for a version or a time that is not in the log yet."""
        wanted = self._options.starting_version
        if self._options.starting_timestamp_ms is not None:
            wanted = self._first_since(self._options.starting_timestamp_ms)
        match wanted:
            case None:
                return StreamOffset.after(self.table, self.schema, self._end.version, with_snapshot=True)
            case int():
                if wanted > newest + 1:
                    raise _too_new(f"version {wanted} does not exist yet", newest)
                return StreamOffset.after(self.table, self.schema, wanted - 1, with_snapshot=False)
        assert wanted == LATEST
        return StreamOffset.after(self.table, self.schema, newest, with_snapshot=False)

    def _first_since(self, timestamp_ms: int) -> int:
        found = find_version_range(self._table, VersionTime(timestamp_ms), None)
        if found.first > found.last:
            raise _too_new(f"no version was committed at or after {format_timestamp(timestamp_ms)}", found.last)
        return found.first

    def snapshot_files(self, version: int) -> Sequence[DataFile]:
        """Return the live files of a version, oldest first. Raises Unreadable where it can no longer be rebuilt."""
        return self._once("snapshot", version, self._snapshot_files)

    def commit_files(self, version: int) -> Sequence[DataFile]:
        """Return the files to deliver of a commit. Raises VersionAbsent where it is gone, Refused (`stream.*`)."""
        return self._once("commit", version, self._commit_files)

    def _once(self, kind: str, version: int, read: Callable[[int], Sequence[DataFile]]) -> Sequence[DataFile]:
        """Return what was read last, if it is asked for again: batches within a version follow one another."""
        if self._kept[0] != (kind, version):
            self._kept = ((kind, version), read(version))
        return self._kept[1]

    def _snapshot_files(self, version: int) -> list[DataFile]:
        snapshot = self._snapshot_at(version)
        self._require_columns(snapshot.config, version)
        require_partitions(snapshot.config, version)
        config = changes.read_as(self._end.config, snapshot.config)
        needed = self._selection.needed

        def described(adds: pa.RecordBatch) -> list[tuple[Any, DataFile]]:
            times = adds.column("modificationTime").to_pylist()
            files = build_data_files(adds, config, needed)
            return [
                ((time or 0, file.path, unique_id(dict(file.vector or {}))), file)
                for time, file in zip(times, files, strict=True)
            ]

        found = [pair for batch in snapshot.file_actions.map_actions("add", described) for pair in batch]
        in_order = (file for _, file in sorted(found, key=lambda pair: pair[0]))
        files = list(FilesOnce().keep_first(in_order))
        return self._as_inserts(snapshot, files) if self._options.read_change_feed else files

    def _snapshot_at(self, version: int) -> Snapshot:
        return self._end if version == self._end.version else read_snapshot(self._table, version=version)

    def _as_inserts(self, snapshot: Snapshot, files: Sequence[DataFile]) -> list[DataFile]:
        """Return files of a snapshot with the columns that describe a change: all rows are inserts of its version."""
        time_ms = snapshot.time.timestamp_ms if snapshot.time else None
        micros = None if time_ms is None else time_ms * 1000
        constants = {
            changes.CHANGE_TYPE: pa.scalar(changes.ChangeType.INSERT.value, pa.string()),
            changes.COMMIT_VERSION: pa.scalar(snapshot.version, pa.int64()),
            changes.COMMIT_TIMESTAMP: pa.scalar(micros, pa.timestamp("us", tz="UTC")),
        }
        return [replace(file, constants={**file.constants, **constants}) for file in files]

    def _commit_files(self, version: int) -> list[DataFile]:
        commit = self._read_commit(version)
        if self._options.read_change_feed:
            if commit.is_of_whole_files:
                raise _not_recorded(version)
            return list(changes.changed_files(self._table_of(version), commit, self._selection))
        source = self._commits[version].name
        adds = _delivered_adds(commit.adds, commit.removes, self._options, version, source)
        if not adds:
            return []
        rows = build_action_batch(adds, action_schemas().add, f"version {version}")
        return build_data_files(rows, commit.config, self._selection.needed, version=version)

    def _table_of(self, version: int) -> TableHandle:  # noqa: ARG002  (of shares)
        return self._table

    def _read_commit(self, version: int) -> changes.Commit:
        """Read a commit, and remember the configuration after it."""
        file = self._commit_file(version)
        try:  # first: whether the commit is there decides which error is raised
            summary, found = changes.read_changed_files(self._table_of(version).storage, file)
        except FileMissing:
            self._commits.pop(version)
            raise self._cleaned(version) from None
        before = self._config_before(version)
        config = summary.config_after(before, version, file.name)
        if found["remove"] and config is not before and self._options.read_change_feed:
            self._require_columns(before, version - 1)
        self._require_columns(config, version)
        self._configs = {version: config, self._end.version: self._end.config}
        then, now = changes.read_as(self._end.config, before), changes.read_as(self._end.config, config)
        time_ms, is_recorded = self._time_ms(version, summary.stamp(config)), is_true(config.properties, CHANGE_FEED)
        return changes.Commit(version, time_ms, then, now, is_recorded, found["add"], found["remove"], found["cdc"])

    def _time_ms(self, version: int, time_ms: int | None) -> int:
        """Return when a version was committed, in epoch milliseconds: its in-commit timestamp, or that of its file."""
        if not self._options.read_change_feed:
            return 0  # not shown
        if time_ms is None:
            if self._times is None:
                self._times = compute_file_times(self._commits)
            time_ms = self._times[version].timestamp_ms
        changes.require_representable(time_ms, version, self._commits[version].name)
        return time_ms

    def _config_before(self, version: int) -> TableConfiguration:
        """Return the configuration of the version before one; of version 0 and of the oldest commit, its own."""
        if version - 1 in self._configs:
            return self._configs[version - 1]
        try:
            found = read_snapshot(self._table, version=max(version - 1, 0)).config
        except Unreadable:
            found = read_snapshot(self._table, version=version).config
        return found

    def _require_columns(self, config: TableConfiguration, version: int) -> None:
        """Raise Refused where the columns that are read are not those of a version."""
        if version > self._end.version:
            require_same_columns(self._end.config, config, version)
        elif version < self._end.version and config is not self._together:
            found = self._last_break(config, version)
            if found is not None:
                raise other_columns(version, found)
            now = self._end.config
            if changes.is_mapped(config) and not changes.is_mapped(now):
                change: str | None = _NO_MAPPING  # by a commit that is no longer in the log
            else:
                change = _unreadable(now, now.schema, config, config.schema, mapped=changes.is_mapped(now))
            if change is not None:
                raise Refused(
                    f"version {version} has other columns than the table has now: {change}",
                    code="stream.schema-changed",
                    facts={"version": str(version), "change": change},
                    hint="begin at a later version: another checkpointLocation, with startingVersion or without it",
                )
            self._together = config

    def _last_break(self, config: TableConfiguration, version: int) -> changes.Break | None:
        """Return the last version after one that separates it from the columns that are read."""
        if not changes.may_be_apart(config, self._end.config):
            return None
        if not self._commits:
            self.newest()
        after = range(version + 1, self._end.version + 1)
        return changes.find_break(self._table, [self._commits[one] for one in after if one in self._commits], config)

    def _commit_file(self, version: int) -> LogFile:
        if version not in self._commits:
            self.newest()
        if version not in self._commits:
            raise self._cleaned(version)
        return self._commits[version]

    def _cleaned(self, version: int) -> VersionAbsent:
        """Return the error for a commit that is gone: what the stream has not delivered of it is lost."""
        listing = list_log(self._table.storage)
        readable, last_run = set(listing.reconstructable), (listing.commit_runs or [(0, -1)])[-1]
        later = [one for one in range(last_run[0], last_run[1] + 1) if one > version and {one, one - 1} & readable]
        return VersionAbsent(
            f"the commit of version {version} is no longer in the log, so its rows cannot be delivered",
            facts={"commits": format_ranges(listing.commits)},
            hint="start over with another checkpointLocation"
            + (f', with .option("startingVersion", "{later[0]}") or without it' if later else ""),
        )


def _not_recorded(version: int) -> Refused:
    return Refused(
        f"version {version} rewrites files, and {CHANGE_FEED} is not true: which of their rows changed is not recorded",
        code="stream.changes-not-recorded",
        facts={"version": str(version)},
        hint='leave out readChangeFeed, and set .option("skipChangeCommits", "true")',
    )


def _too_new(message: str, newest: int) -> VersionAbsent:
    return VersionAbsent(
        f"{message}: the newest is {newest}",
        hint='.option("startingVersion", "latest")   # what is committed from now on',
    )


def _delivered_adds(
    adds: Sequence[Action], removes: Sequence[Action], options: StreamOptions, version: int, source: str
) -> list[Action]:
    """Return the adds whose files are delivered, of the actions of a commit that change data.

    `ignoreDeletes`: a commit that only removes files delivers nothing. `ignoreChanges`: so does it, and of other
    commits all added files are delivered, including the unchanged rows in them. `skipChangeCommits`: a commit with any
    remove delivers nothing. Raises Refused (`stream.deletes`, `stream.changes`).
    """
    if not removes:
        return _last_of_each(adds, source)
    if options.skip_change_commits:
        return []
    if adds and not options.ignore_changes:
        raise Refused(
            f"version {version} changes rows: it removes files and adds others, and a stream only delivers new rows",
            code="stream.changes",
            facts={"version": str(version), "removed": str(removes[0].get("path"))},
            hint='.option("skipChangeCommits", "true")   # or read the changes: .option("readChangeFeed", "true")',
        )
    if not adds and not (options.ignore_changes or options.ignore_deletes):
        raise Refused(
            f"version {version} deletes rows, and a stream only delivers new rows",
            code="stream.deletes",
            facts={"version": str(version), "removed": str(removes[0].get("path"))},
            hint='.option("ignoreDeletes", "true")   # or read the changes: .option("readChangeFeed", "true")',
        )
    return _last_of_each(adds, source)


def _last_of_each(adds: Iterable[Action], source: str) -> list[Action]:
    """Return the adds in the order of the commit; of two of one file the last."""
    found: dict[str, Action] = {}
    for add in adds:
        key = compute_file_key(add, source)
        found.pop(key, None)
        found[key] = add
    return list(found.values())


def require_same_columns(now: TableConfiguration, later: TableConfiguration, version: int) -> None:
    """Raise Refused (`stream.schema-changed`) where a later commit changes the columns that are read."""
    change = next(differences(now, later), None)
    if change is not None:
        raise Refused(
            f"version {version} changes the schema: {change}. All rows before it are delivered",
            code="stream.schema-changed",
            facts={"version": str(version), "change": change},
            hint="create the frame again with readStream, and start it with the same checkpointLocation",
        )


_NO_MAPPING = "column mapping was removed, and files before that have other names for columns"


def other_columns(version: int, found: changes.Break) -> Refused:
    """Return why a version before `found` is not delivered."""
    begin = found.version if found.is_removal else found.version + 1
    return Refused(
        f"version {version} has other columns than the table has now: {found.reason}",
        code="stream.schema-changed",
        facts={"version": str(version), "change": found.reason},
        hint=f'begin there: another checkpointLocation, with .option("startingVersion", "{begin}") or without it',
    )


def _unreadable(
    now: TableConfiguration,
    now_type: types.DataType | None,
    then: TableConfiguration,
    then_type: types.DataType | None,
    *,
    mapped: bool,
    path: str = "",
) -> str | None:
    """Return why values of an older type cannot be read as the type of now, in words, or None."""

    def inner(new: types.DataType, old: types.DataType, where: str) -> str | None:
        return _unreadable(now, new, then, old, mapped=mapped, path=f"{path}.{where}")

    match now_type, then_type:
        case (None, None):
            return None
        case (types.StructType(), types.StructType()):
            found = by_physical_name(now, now_type)
            for physical, field in by_physical_name(then, then_type).items():
                if physical in found:
                    name = f"{path}.{field.name}" if path else field.name
                    new, old = found[physical].data_type, field.data_type
                    if fault := _unreadable(now, new, then, old, mapped=mapped, path=name):
                        return fault
                elif not mapped:  # with mapping, a dropped column is no more in any older version either
                    return f"column {path}{'.' if path else ''}{field.name} no longer exists"
            return None
        case (types.ArrayType(new, _), types.ArrayType(old, _)):
            return inner(new, old, "element")
        case (types.MapType(new_key, new, _), types.MapType(old_key, old, _)):
            return inner(new_key, old_key, "key") or inner(new, old, "value")
        case (types.PrimitiveType(new_name), types.PrimitiveType(old_name)) if _becomes(old_name, new_name):
            return None
    return f"column {path} had another type"


def _becomes(old: str, new: str) -> bool:
    same = canonical_name(old) == canonical_name(new) or (_is_text(old) and _is_text(new))
    return same or old == "void" or is_allowed_change(old, new) or was_allowed_in_preview(old, new)


def _is_text(name: str) -> bool:
    return name == _TEXT or name.startswith((*types.FIXED_TEXTS, f"{_TEXT} collate "))
