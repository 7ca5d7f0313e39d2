"""Reading the changes between versions, row by row: from change data files, else from what commits add and remove.

Without column mapping, names in files are those of columns: names in older files may be those of other columns now, and
a column of another type has values in older files that are not of its type.
A table that is created anew with column mapping has new names in files, so its columns would be null in older rows.

A commit with change data files has all of its changes there. In any other commit, the rows of added files are inserts
and the rows of removed files are deletes. Where a file only got another deletion vector, the changes are the rows by
which the vectors differ.

Spec: Column Mapping; Add CDC File; Change Data Files; Reader Requirements for AddCDCFile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import limit_rows
from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.delta.data_files import unique_id
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import ADDED_AND_REMOVED, ADDED_TWICE
from deltacli.delta.log.file_actions import action_schemas, build_action_batch, compute_file_key, is_also_removed
from deltacli.delta.log.segment import MAX_TIME_MS, LogFile, LogListing, compute_file_times, is_representable
from deltacli.delta.log.state import (
    CHANGE_FEED,
    CHECKPOINT_PROTECTION,
    TableConfiguration,
    has_in_commit_timestamps,
    is_true,
    read_metadata,
    read_protocol,
)
from deltacli.delta.paths.spelling import canonicalize_path, encode_path_bytes
from deltacli.delta.paths.spelling_columns import canonicalize_paths
from deltacli.delta.protocol.features import require_readable
from deltacli.delta.schema import types
from deltacli.delta.schema.column_differences import columns_and_parts, exchanged
from deltacli.delta.schema.to_arrow import plain_type, require_partitions
from deltacli.delta.schema.type_changes import canonical_name, fits_type, require_readable_rows
from deltacli.storage.base import ReadStorage
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import iterate_naming_table
from deltacli.table.configuration_actions import read_configuration_actions
from deltacli.table.data_files import PartitionValueWarnings, build_data_files, build_live_data_files, stream_rows
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.table.scan import ArrowRows
from deltacli.table.scan_requests import ChangesRequest, ScanRequest
from deltacli.table.selection import (
    NOT_ENABLED,
    ROW_COMMIT_VERSION,
    ROW_ID,
    Selection,
    find_row_id_columns,
    require_row_ids,
)
from deltacli.table.time_travel import find_version_range
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rows.data_files import DataFile
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.output import WrittenDirectory
    from deltacli.table.version import Snapshot

# -- versions not readable as the last ---------------------------------------------------------------------------------

MAPPING = "columnMapping"


class Break(NamedTuple):
    """A version that removed column mapping, or else replaced columns by others."""

    version: int
    is_removal: bool
    column: str = ""
    """Which column has another type, in words."""

    @property
    def reason(self) -> str:
        if self.is_removal:
            return f"version {self.version} removed column mapping: columns had other names in files before it"
        if self.column:
            return f"version {self.version} replaced the column {self.column}: files before it have the older type"
        return f"version {self.version} replaced columns of the table: older files do not have the current ones"


def may_be_apart(first: TableConfiguration, end: TableConfiguration) -> bool:
    """Return False where certainly no version between two separates them, so that no commit has to be read."""
    return _may_be_removed(first, end) or any(exchanged(first, end)) or _other_type(first, end) != ""


def find_break(table: TableHandle, files: Sequence[LogFile], first: TableConfiguration) -> Break | None:
    """Return the last of some commits that separates versions; `first` is the configuration before them."""
    found, config, by_version = None, first, {file.version: file for file in files}
    for version, actions in read_configuration_actions(table, list(files)):
        before = config
        for kind, action in actions or ():  # a damaged commit is an error of who reads its files
            if kind == "protocol":
                config = replace(config, protocol=read_protocol(action, f"commit {version}"))
            elif kind == "metaData":
                metadata = read_metadata(action, f"commit {version}")
                schema = types.parse_schema(metadata.schema_string or types.NO_COLUMNS)
                config = TableConfiguration(config.protocol, metadata, schema, older_metadata=config.older_metadata)
        if config is not before:
            found = break_at(table, by_version[version], before, config) or found
    return found


def break_at(table: TableHandle, file: LogFile, before: TableConfiguration, after: TableConfiguration) -> Break | None:
    """Return what a commit is, by the configurations before and after it, if it separates versions."""
    if is_mapped(before) and not is_mapped(after):
        return Break(file.version, True)
    if column := _other_type(before, after):
        return Break(file.version, False, column)
    return Break(file.version, False) if _replaces(table, file, before, after) else None


def is_mapped(config: TableConfiguration) -> bool:
    return config.mapping_mode != "none"


def may_have_been_mapped(config: TableConfiguration) -> bool:
    """Return False for a version without column mapping if no commit of its log can have removed one: its protocol then
    lists the feature still, or its properties protect the checkpoints from before the drop. The protocol of a shared
    table lists less, so that its server writes the mode.
    """
    return MAPPING in config.features or CHECKPOINT_PROTECTION in config.properties or types.MODE in config.properties


def _may_be_removed(first: TableConfiguration, end: TableConfiguration) -> bool:
    """Return False where mapping certainly was not removed between two versions."""
    if not is_mapped(end):
        return may_have_been_mapped(end) or is_mapped(first)
    if not is_mapped(first):
        return True
    had, has = (_generated_names(config) for config in (first, end))
    return not had & has  # who removes a mapping gives files the names of columns


def _generated_names(config: TableConfiguration) -> set[str]:
    fields = config.schema.fields if config.schema else ()
    names = (config.physical_name(field) for field in fields)
    return {name for name in names if name.startswith("col-") and len(name) == _GENERATED_LENGTH}


_GENERATED_LENGTH = len("col-8c74a5e3-2a1f-4b8e-9d52-0d1a3f0e7c11")


def _replaces(table: TableHandle, file: LogFile, before: TableConfiguration, after: TableConfiguration) -> bool:
    """Return True for a commit that gives a name to another column, or replaces columns together with rows."""
    gone, new = exchanged(before, after)
    if not gone:
        return False
    return bool(gone & new) or any(
        kind == "remove" and action.get("dataChange") is not False
        for kind, action in stream_commit(table.storage, file)
    )


def _other_type(before: TableConfiguration, after: TableConfiguration) -> str:
    """Return which column got a type that values of older files certainly do not have, in words; "" for none."""
    had = {way: kind for way, _, kind in columns_and_parts(before, before.schema)}
    for way, names, kind in columns_and_parts(after, after.schema):
        if way in had and not _fits(had[way], kind):
            return f"{'.'.join(names)}, {types.simple_name(had[way])} before, by one of type {types.simple_name(kind)}"
    return ""


def _fits(old: types.DataType, new: types.DataType) -> bool:
    match old, new:
        case types.PrimitiveType(had), types.PrimitiveType(has):
            name, wanted = canonical_name(had), canonical_name(has)
            is_same = name == wanted or (name.startswith("timestamp") and wanted.startswith("timestamp"))
            kind = plain_type(name)
            return is_same or "void" in (name, wanted) or kind is None or fits_type(kind, wanted)
        case (types.PrimitiveType("void"), _) | (_, types.PrimitiveType("void")):
            return True
    return type(old) is type(new)


def apart_error(first: int, found: Break, last: int) -> errors.Refused:
    """Return why the changes of some versions cannot be read together, and how they can. What replaced columns may also
    have removed rows, so it is in none of the ranges.
    """
    begin = max(found.version if found.is_removal else found.version + 1, first + 1)
    ranges = [(start, end) for start, end in ((first, found.version - 1), (begin, last)) if start <= end]
    if begin <= last:
        hint = errors.command("changes", from_version=begin)
    elif ranges:
        hint = errors.command("changes", from_version=first, to_version=found.version - 1)
    else:
        hint = errors.command("read", version=found.version - 1)
    return errors.Refused(
        f"{found.reason}, so changes before and after it cannot be read together",
        code="changes.mapping-removed" if found.is_removal else "changes.columns-replaced",
        facts={"versions to read apart": ", ".join(f"{start}-{end}" for start, end in ranges)} if ranges else {},
        hint=hint,
    )


# -- the changes, row by row -------------------------------------------------------------------------------------------

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
CHANGE_COLUMNS = (
    types.StructField(CHANGE_TYPE, types.PrimitiveType("string"), False, {}),
    types.StructField(COMMIT_VERSION, types.PrimitiveType("long"), False, {}),
    types.StructField(COMMIT_TIMESTAMP, types.PrimitiveType("timestamp"), False, {}),
)


class ChangeType(StrEnum):
    """The types of changes derived from files; change data files also have images of updates."""

    INSERT = "insert"
    DELETE = "delete"


class Changes(ArrowRows):
    """The changes of rows from one version to another, both included, as batches of Arrow, in the order of versions.

    The columns are those of the last version, also for files of older versions, without those whose types are not read
    (`left_out`), then `_change_type`, `_commit_version`, `_commit_timestamp`. Raises DataUnreadable, naming file and
    version, also for a file that vacuum has deleted, Refused (`changes.mapping-removed`, `changes.columns-replaced`)
    where the columns of these versions cannot be read together, and immediately Unreadable (`typewidening.*`) where no
    reader may read the last version.
    """

    def __init__(
        self,
        table: TableHandle,
        rows: ScanRequest,
        *,
        from_version: int,
        to_version: int | None,
        is_empty: bool = False,
    ) -> None:
        if from_version < 0:
            raise errors.UsageError(f"version {from_version} is negative")
        if to_version is not None and to_version < from_version and not is_empty:
            end, begin = (
                errors.parameter("changes.to_version", to_version),
                errors.parameter("changes.from_version", from_version),
            )
            raise errors.UsageError(f"{end} is before {begin}")
        self._table = table
        self._end = read_snapshot(table, version=to_version)
        self.from_version, self.to_version = from_version, self._end.version
        require_readable_rows(self._end.config, self._end.version)
        self._listing = list_log(table.storage, progress=table.progress)
        # A poller asks for the version after the last one it has read, which may not exist yet.
        self._is_empty = is_empty or (to_version is None and from_version == self.to_version + 1)
        if not self._is_empty:
            _require_commits(self._listing, from_version, self.to_version)
        self._selection = _select(self._end, rows)
        self._read_spec = self._selection.make_read_spec(self._end.config)
        self._limit = rows.limit
        self._unrecorded: list[int] = []
        self._partition_warnings = PartitionValueWarnings()
        self._disputed = set[str]()

    @property
    def disputed(self) -> tuple[str, ...]:
        """The rules of `validate` for damages of the commits read so far that engines read differently."""
        return tuple(sorted(self._disputed))

    @property
    def snapshot(self) -> Snapshot:
        """The last version, whose columns are used."""
        return self._end

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on the changes; complete after the iteration."""
        if self._is_empty:
            before = f"; the last one before it is version {self.to_version}" if self.to_version >= 0 else ""
            return (f"no version was committed in this range{before}",)
        if not self._unrecorded:
            return ()
        first, last = self._unrecorded[0], self._unrecorded[-1]
        versions = f"version {first}" if first == last else f"versions {first} to {last}"
        text = f"{versions}: {CHANGE_FEED} is not true, so changes are derived from whole files"
        return (f"{text}; a row that a rewrite copied is a delete and an insert",)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iterate_naming_table(limit_rows(self._batches(), self._limit), self._table.name)

    def __repr__(self) -> str:
        span = f"from_version={self.from_version}, to_version={self.to_version}"
        return f"Changes({mask_secrets(self._table.uri)!r}, {span})"

    def write_parquet(self, directory: str | os.PathLike[str]) -> WrittenDirectory:
        """Write the changes as Parquet files, as `Scan.write_parquet` does. File names ascend with the versions."""
        from deltacli.table.output import write_rows

        self.require_all_columns()
        return write_rows(self._table, directory, self._read_spec, self.changed_files(), self._limit)

    def changed_files(self) -> Iterator[DataFile]:
        """Yield the files to read, each with the columns that describe its changes, in the order of versions."""
        self._unrecorded = []
        if self._is_empty:
            return
        for commit in self._commits():
            yield from changed_files(self._table, commit, self._selection)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self._unrecorded = []
        if self._is_empty:
            return
        total = self.to_version - self.from_version + 1
        with self._table.progress.step("reading changes", unit="versions", total=total) as step:
            for commit in self._commits():
                pieces = changed_files(self._table, commit, self._selection)
                yield from stream_rows(self._table.engine, self._files, self._read_spec, pieces)
                step.advance(1)

    def _commits(self) -> Iterator[Commit]:
        commits, ids = read_commits(self._table, self._listing, self._end, self.from_version), self._selection.row_ids
        for commit in commits:
            self._disputed |= commit.disputed
            self._note_odd_values(commit)
            if commit.is_of_whole_files:
                self._unrecorded.append(commit.version)
            if ids and commit.row_ids != ids:
                last = max([commit.version, *(later.version for later in commits if later.row_ids != ids)])
                raise errors.Refused(
                    f"version {last} has no row tracking, or other columns of row ids than version "
                    f"{self.to_version}, so the ids of its rows are not known",
                    code=NOT_ENABLED,
                    hint=errors.command("changes", from_version=last + 1, row_ids=True),
                )
            yield commit

    def _note_odd_values(self, commit: Commit) -> None:
        schema = pa.schema([action_schemas().add.field("partitionValues")])
        added = [*commit.adds, *commit.change_files]
        # The values that a remove lacks are those of its add.
        removed = [remove for remove in commit.removes if remove.get("partitionValues")]
        for actions, config in ((added, commit.config), (removed, commit.before)):
            if actions and config.partition_columns:
                rows = build_action_batch(actions, schema, f"version {commit.version}")
                self._partition_warnings.inspect(rows, config, self._selection.needed)

    @cached_property
    def _files(self) -> TableFiles:
        return self._table.files()


def read_changes(table: TableHandle, request: ChangesRequest) -> Changes:
    """Return the changes of a range of versions, which may be empty. Raises what `find_version_range` raises."""
    assert request.first is not None
    span = find_version_range(table, request.first, request.last)
    is_empty = span.first > span.last
    knows_versions = is_shared_table(table.storage)
    if is_shared_table(table.storage) and not is_empty:
        table = table.replace_storage(table.storage.between(span.first, span.last))
    last = None if is_empty and knows_versions else span.last
    found = Changes(table, request, from_version=span.first, to_version=last, is_empty=is_empty)
    found.to_version = span.last
    return found


def _select(end: Snapshot, rows: ScanRequest) -> Selection:
    """Return the requested columns, then those that describe the change, and the ids of rows if they are requested."""
    schema, ours = end.schema, {column.name for column in CHANGE_COLUMNS}
    if taken := [column.name for column in schema.fields if column.name.lower() in ours]:
        raise errors.UsageError(
            f"the column {taken[0]} of the table has the name of a change column",
            code="usage.column",
            hint=errors.command("read"),
        )
    ids = require_row_ids(end) if rows.row_ids else ()
    return Selection.resolve(schema, rows.columns, rows.where, extra_columns=CHANGE_COLUMNS, row_ids=ids)


def _require_commits(listing: LogListing, first: int, last: int) -> None:
    """Raise VersionAbsent unless the commit of each version exists."""
    if first > last:
        raise errors.VersionAbsent(
            f"version {first} does not exist: the newest is {last}",
            facts={"newest": str(last)},
            hint=errors.command("history"),
        )
    missing = next((version for version in range(first, last + 1) if version not in listing.commits), None)
    if missing is None:
        return
    later = [version for version in listing.commits if version > missing]
    raise errors.VersionAbsent(
        f"the commit of version {missing} is no longer in the log, so its changes are not known",
        facts={"commits": ", ".join(f"{run[0]}-{run[1]}" for run in listing.commit_runs)},
        hint=errors.command("changes", from_version=min(later)) if later else errors.command("history"),
    )


class Commit(NamedTuple):
    """One commit: its changes of data, and how its files are read: by the schema of the last version, with the
    partition columns of the commit's version.
    """

    version: int
    time_ms: int
    before: TableConfiguration
    """How the files that it removes are read."""
    config: TableConfiguration
    is_recorded: bool
    """Return True if writers must record changes other than those of whole files."""
    adds: list[Action]
    removes: list[Action]
    change_files: list[Action]
    row_ids: tuple[types.StructField, ...] = ()
    """The columns of row ids in files of its version; none without row tracking."""
    disputed: frozenset[str] = frozenset()
    """The rules of `validate` for damages of the commit that engines read differently."""

    @property
    def is_of_whole_files(self) -> bool:
        """Return True if its changes are derived from files that may contain unchanged rows."""
        return bool(self.adds and self.removes) and not self.change_files and not self.is_recorded


@dataclass
class CommitSummary:
    """What a commit does besides adding and removing files."""

    protocol: Action | None = None
    metadata: Action | None = None
    info: Action = field(default_factory=dict)
    has_change_data: bool = False
    disputed: set[str] = field(default_factory=set)
    """The rules of `validate` for damages of the commit that engines read differently."""

    def take(self, kind: str, action: Action) -> bool:
        """Note an action; return True for a file whose data the commit changes, or that records a change."""
        match kind:
            case "add" | "remove":
                return action.get("dataChange") is not False
            case "cdc":
                self.has_change_data = True
                return True
            case "protocol":
                self.protocol = action
            case "metaData":
                self.metadata = action
            case "commitInfo":
                self.info = action
        return False

    def config_after(self, before: TableConfiguration, version: int, name: str) -> TableConfiguration:
        """Return the configuration after the commit. Raises CommitCorrupt, ProtocolUnsupported and Unreadable."""
        protocol, metadata, schema = before.protocol, before.metadata, before.schema
        if self.protocol is not None:
            protocol = read_protocol(self.protocol, name)
            require_readable(protocol, version)
        if self.metadata is not None:
            metadata = read_metadata(self.metadata, name)
            schema = types.parse_schema(metadata.schema_string or types.NO_COLUMNS)
        is_same = protocol is before.protocol and metadata is before.metadata
        if is_same:
            return before
        config = TableConfiguration(
            protocol=protocol, metadata=metadata, schema=schema, older_metadata=before.older_metadata
        )
        require_partitions(config, version)
        return config

    def stamp(self, config: TableConfiguration) -> int | None:
        """Return the in-commit timestamp, which counts where the configuration after the commit says so."""
        assert config.protocol is not None
        assert config.metadata is not None
        stamp = self.info.get("inCommitTimestamp")
        return stamp if type(stamp) is int and has_in_commit_timestamps(config.protocol, config.metadata) else None


def read_changed_files(storage: ReadStorage, file: LogFile) -> tuple[CommitSummary, dict[str, list[Action]]]:
    """Return what a commit does, and by kind the actions of the files whose data it changes."""
    summary = CommitSummary()
    found: dict[str, list[Action]] = {"add": [], "remove": [], "cdc": []}
    for kind, action in stream_commit(storage, file, disputed_rules=summary.disputed):
        if summary.take(kind, action):
            found[kind].append(action)
    adds = _keep_last(found["add"], file.name)
    removes = _keep_last(found["remove"], file.name)
    if any(adds[compute_file_key(add)] != add for add in found["add"]):
        summary.disputed.add(ADDED_TWICE)
    if any(key in adds and is_also_removed(adds[key], remove) for key, remove in removes.items()):
        summary.disputed.add(ADDED_AND_REMOVED)
    return summary, {**found, "add": list(adds.values()), "remove": list(removes.values())}


def _keep_last(actions: Iterable[Action], source: str) -> dict[str, Action]:
    """Return file actions of one kind by their keys: of two with one key the last, which is that of the state."""
    return {compute_file_key(action, source): action for action in actions}


def read_commits(table: TableHandle, listing: LogListing, end: Snapshot, first: int) -> Iterator[Commit]:
    """Yield the commits from version `first` to the last version, ascending. Raises Refused where one of them separates
    those before it from those after it.
    """

    is_searched = False

    def require_together(config: TableConfiguration, versions: range) -> None:
        nonlocal is_searched
        if versions and not is_searched and may_be_apart(config, end.config):
            is_searched = True
            found = find_break(table, [listing.commits[one] for one in versions], config)
            if found is not None:
                raise apart_error(first, found, end.version)

    times = compute_file_times(listing.commits)
    current = (end if first == end.version else read_snapshot(table, version=first)).config
    require_partitions(current, first)
    require_together(current, range(first + 1, end.version + 1))
    config = read_as(end.config, current)
    for version in range(first, end.version + 1):
        file = listing.commits[version]
        summary, found = read_changed_files(table.storage, file)
        before, current = config, summary.config_after(current, version, file.name)
        if summary.metadata is not None:
            require_together(current, range(version + 1, end.version + 1))
            config = read_as(end.config, current)
        stamp = summary.stamp(current)
        time_ms = times[version].timestamp_ms if stamp is None else stamp
        require_representable(time_ms, version, file.name)
        is_recorded = is_true(current.properties, CHANGE_FEED)
        if version == first and summary.metadata is not None and found["remove"] and first > 0:
            earlier, is_searched = read_snapshot(table, version=first - 1).config, False
            require_partitions(earlier, first - 1)
            require_together(earlier, range(first, end.version + 1))
            before = read_as(end.config, earlier)
        files, ids = (found["add"], found["remove"], found["cdc"]), find_row_id_columns(current)
        yield Commit(version, time_ms, before, config, is_recorded, *files, ids, frozenset(summary.disputed))


def require_representable(time_ms: int, version: int, name: str) -> None:
    """Raise CommitCorrupt where the time of a commit does not fit `_commit_timestamp`."""
    if not is_representable(time_ms):
        raise errors.CommitCorrupt(
            f"{name}: the in-commit timestamp of version {version} does not fit 64 bits in microseconds",
            file=name,
            code="ict.future" if time_ms > 0 else "ict.not-monotone",
            facts={"found": str(time_ms), "largest timestamp": f"{MAX_TIME_MS} (epoch milliseconds)"},
            hint=errors.command("validate", select=[errors.DoubleQuoted("ict.*")]),
        )


def read_as(now: TableConfiguration, then: TableConfiguration) -> TableConfiguration:
    """Return the last version's schema, with the partition columns of the commit's version."""
    assert now.schema is not None
    assert now.metadata is not None
    logical = {now.physical_name(column): column.name for column in now.schema.fields}
    names = tuple(logical[name] for name in then.partition_columns if name in logical)
    return replace(now, metadata=now.metadata._replace(partition_columns=names))


def changed_files(table: TableHandle, commit: Commit, selection: Selection) -> Iterator[DataFile]:
    """Yield the files to read of a commit, each with the type of change of its rows. Rows of change data files have no
    ids. Spec: Row Tracking.
    """
    if commit.change_files:
        yield from _marked(commit, None, _files(commit, "cdc", commit.change_files, selection))
        return
    removed, added = _by_path(commit.removes), _by_path(commit.adds)
    replaced = [path for path in added if len(added[path]) == 1 == len(removed.get(path, ()))]
    pairs = [(removed.pop(path)[0], added.pop(path)[0]) for path in replaced]
    names = tuple(commit.before.partition_columns)
    lone = [remove for removes in removed.values() for remove in removes]
    deleted = with_partition_values(table, commit.version, names, lone)
    if selection.row_ids:
        deleted = _with_row_ids(table, commit.version, deleted)
    inserted = [add for adds in added.values() for add in adds]
    yield from _marked(commit, ChangeType.DELETE, _files(commit, "remove", deleted, selection))
    yield from _marked(commit, ChangeType.INSERT, _files(commit, "add", inserted, selection))
    files = _files(commit, "add", [add for _, add in pairs], selection)
    for file, (remove, add) in zip(files, pairs, strict=True):
        before, after = remove.get("deletionVector"), add.get("deletionVector")
        if unique_id(before) == unique_id(after):
            continue
        if after is not None:
            newly_deleted = replace(file, only=after, vector=before)
            yield from _marked(commit, ChangeType.DELETE, [newly_deleted])
        if before is not None:
            yield from _marked(commit, ChangeType.INSERT, [replace(file, only=before, vector=after)])


def _by_path(actions: Iterable[Action]) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {}
    for action in actions:
        found.setdefault(canonicalize_path(str(action.get("path"))), []).append(action)
    return found


def _files(commit: Commit, kind: str, actions: Sequence[Action], selection: Selection) -> list[DataFile]:
    schemas = action_schemas()
    schema, config = (schemas.remove, commit.before) if kind == "remove" else (schemas.add, commit.config)
    rows = build_action_batch(actions, schema, f"version {commit.version}") if actions else None
    if rows is None:
        return []
    if kind == "add":
        return build_live_data_files(rows, config, selection, version=commit.version)
    return build_data_files(rows, config, selection.needed, version=commit.version)


def _marked(commit: Commit, change: ChangeType | None, files: Iterable[DataFile]) -> Iterator[DataFile]:
    """Return files with the columns that describe the change; rows of change data files have their own type."""
    constants = {
        COMMIT_VERSION: pa.scalar(commit.version, pa.int64()),
        COMMIT_TIMESTAMP: pa.scalar(commit.time_ms * 1000, pa.timestamp("us", tz="UTC")),
    }
    if change is not None:
        constants[CHANGE_TYPE] = pa.scalar(change.value, pa.string())
    else:
        constants |= dict.fromkeys((ROW_ID, ROW_COMMIT_VERSION), pa.scalar(None, pa.int64()))
    yield from (replace(file, constants={**file.constants, **constants}) for file in files)


def with_partition_values(
    table: TableHandle, version: int, names: Sequence[str], removes: list[Action]
) -> list[Action]:
    """Return the removes of a version with a value for each partition column (physical names): a missing one is null,
    or taken from the earlier add. A remove without any stays as it is where the earlier add is not known.
    """
    if not names:
        return removes
    from deltacli.delta.partitions.values import are_lacking_values_null, lacking_values, with_values

    lacking = [remove for remove in removes if lacking_values(remove, names)]
    if not lacking:
        return removes
    unsure = [remove for remove in lacking if not are_lacking_values_null(remove)]
    known = fields_of_adds(table, version - 1, map(path_of, unsure), "partitionValues")
    return [with_values(remove, names, known.get(path_of(remove))) for remove in removes]


def _with_row_ids(table: TableHandle, version: int, removes: list[Action]) -> list[Action]:
    """Return the removes of a version with the ids of the earlier adds where they have none."""
    lacking = [path_of(remove) for remove in removes if any(remove.get(name) is None for name in _IDS)]
    for name in _IDS if lacking else ():
        known = fields_of_adds(table, version - 1, lacking, name)
        removes = [
            {**remove, name: known.get(path_of(remove))} if remove.get(name) is None else remove for remove in removes
        ]
    return removes


_IDS = ("baseRowId", "defaultRowCommitVersion")


def path_of(action: Action) -> str:
    return canonicalize_path(str(action.get("path")))


def fields_of_adds(table: TableHandle, version: int, paths: Iterable[str], name: str) -> dict[str, Any]:  # Any: values
    """Return a field of live files of a version, by canonical path; none where the log has no such version."""
    paths = sorted(set(paths))
    if not paths or version < 0:
        return {}
    wanted = pa.array([encode_path_bytes(path) for path in paths], pa.binary())

    def values_of(adds: pa.RecordBatch) -> dict[str, Any]:
        found = pc.filter(adds, pc.is_in(canonicalize_paths(adds.column("path")), value_set=wanted))
        values = found.column(name).to_pylist(maps_as_pydicts="strict")
        return dict(zip(map(canonicalize_path, found.column("path").to_pylist()), values, strict=True))

    known: dict[str, Any] = {}
    with suppress(
        errors.VersionAbsent, errors.LogIncomplete
    ):  # the log may begin here: only the values in the removes are available
        for found in read_snapshot(table, version=version).file_actions.map_actions("add", values_of):
            known |= found
    return known
