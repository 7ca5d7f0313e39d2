"""The input of checks: the log of a table, read once, in the order of its versions, with look-ups of files.

Views are plain data; nothing here reads a file. A part that could not be read is None, and checks that need it report
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_count
from deltacli.delta.data_files import find_descriptor_fault, unique_id
from deltacli.delta.log import segment
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import extract_num_records_column, parse_num_records
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import canonical_all, canonicalize_path, spell_from_elsewhere
from deltacli.delta.paths.spelling_columns import locate_all
from deltacli.delta.stats.columns import StatsColumns, parse_stats

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.listing import HiddenNames


MOST_ROWS_TOLD = 1_000
"Maximum number of findings per check and view."


class LocatedAction(NamedTuple):
    """An action in a file of JSON lines. `line` counts from 1."""

    kind: str
    action: Action
    line: int


class StoredFile(NamedTuple):
    """A file of a listing. `path` is relative to the listed directory and not percent-encoded. `archive_class` is the
    storage class of a file that cannot be read before its store has restored it; '' for every other file.
    """

    path: str
    size_bytes: int
    modified_ms: int
    archive_class: str = ""


OF_CHECKPOINT = -1
"The version of a live file from a checkpoint: the commit that added it is unknown."


class LiveFile(NamedTuple):
    """A live logical file as of its last add. `version` is that of the add, or OF_CHECKPOINT."""

    path: str
    dv_id: str
    version: int
    line: int | None
    add: Action


class TouchedFile(NamedTuple):
    """A file that a commit adds or removes. `path` is canonical. `dv_id` is None if the deletion vector is invalid.
    `live` are the logical files of the path before the commit, None if unknown.
    """

    placed: LocatedAction
    path: str
    dv_id: str | None
    live: Sequence[LiveFile] | None

    @property
    def key(self) -> tuple[str, str | None]:
        """Return the key of a logical file."""
        return self.path, self.dv_id


def rows_where(mask: ArrowArray) -> list[int]:
    """Return the positions at which a mask is true."""
    rows: list[int] = pc.indices_nonzero(mask).to_pylist()
    return rows


def in_files(count: int) -> str:
    """Return ` in 12 files`, or nothing for one file."""
    return f" in {format_count(count)} files" if count > 1 else ""


@dataclass(eq=False, repr=False)
class CommitView:
    """One commit, its lines parsed. Actions with type faults are reported and left out of all lists here."""

    version: int
    size_bytes: int
    modified_ms: int
    others: list[LocatedAction]
    "Every action except add and remove, in file order, including unrecognized kinds."
    adds: list[LocatedAction]
    removes: list[LocatedAction]
    first_kind: str | None
    """The kind of the first action of the file."""
    before: TableConfiguration
    "In effect when this commit was made."
    after: TableConfiguration
    "In effect from this commit on. A commit must satisfy what it introduces itself."
    live_at: Callable[[str], Sequence[LiveFile] | None]
    "Canonical path -> the logical files of that path which are live before this commit, or None if the necessary "
    "part of the log is missing."
    previous: CommitView | None = None
    "The commit of the previous version, without its adds, or None if it is missing or unreadable."
    now_ms: int = 0
    is_readable: bool = True
    "False if lines could not be parsed, so that other actions may exist."
    live_count_before: int | None = None
    "How many logical files are live before this commit, or None if the necessary part of the log is missing."
    tombstone_of: Callable[[tuple[str, str]], Action | None] = lambda _: None
    """Canonical path and deletion vector id -> the remove of it that is not undone before this commit."""
    uri: str = ""
    "Of the table, empty if unknown."
    live_of_all: Callable[[Collection[str]], Mapping[str, Sequence[LiveFile]]] = lambda _: {}
    "Canonical paths -> the live logical files of each, as of `live_at`; nothing if they are unknown."
    may_have_absolute: bool = False
    "True if a live file may have an absolute path."
    aliases: Sequence[str] = ()
    "Other URIs of the table, as of a root that is reached through a link."

    @property
    def path(self) -> str:
        return f"{segment.LOG_DIRECTORY}/{segment.commit_name(self.version)}"

    def place(self, line: int | None = None, key: str | None = None) -> segment.Place:
        return segment.Place(self.path, line, self.version, key)

    def place_of(self, placed: LocatedAction) -> segment.Place:
        """Return the line and the path of a file action."""
        path = placed.action.get("path")
        return self.place(placed.line, path if isinstance(path, str) else None)

    def live_before(self, path: str) -> Sequence[LiveFile] | None:
        """Return the same for a raw path."""
        return self.live_at(canonicalize_path(path))

    def of_kind(self, kind: str) -> list[LocatedAction]:
        """Return the actions of a kind other than add and remove."""
        return [placed for placed in self.others if placed.kind == kind]

    @cached_property
    def added(self) -> Sequence[TouchedFile]:
        """Return the files of `adds`, looked up once for all checks."""
        return self._touched(self.adds)

    @cached_property
    def removed(self) -> Sequence[TouchedFile]:
        """Return the files of `removes`."""
        return self._touched(self.removes)

    @cached_property
    def removed_as_written(self) -> frozenset[tuple[str, str | None]]:
        """Return the raw paths of `removes`, each with the id of its deletion vector."""
        return frozenset((file.placed.action["path"], file.dv_id) for file in self.removed)

    @cached_property
    def live_from_elsewhere(self) -> Mapping[str, LiveFile]:
        """Return the live files that removes name by an absolute path instead of a relative one, or the reverse.

        To readers both paths are two files, so that the remove has no effect. Files that the commit also removes by
        their own path are left out.

        Returns:
            The live file for the canonical path of each such remove.
        """
        removed = {file.path for file in self.removed}
        others: dict[str, list[str]] = {}
        for file in self.removed if self.uri else ():
            is_absolute = file.path[:1] == "/" or ":" in file.path
            if file.live is None or file.live or not (is_absolute or self.may_have_absolute):
                continue
            spelled = (spell_from_elsewhere(file.path, uri) for uri in (self.uri, *self.aliases))
            others[file.path] = [other for other in spelled if other is not None and other not in removed]
        live = self.live_of_all({*chain.from_iterable(others.values())}) if others else {}
        found = {path: [file for other in spelled for file in live.get(other, ())] for path, spelled in others.items()}
        return {path: files[0] for path, files in found.items() if files}

    def _touched(self, actions: Sequence[LocatedAction]) -> list[TouchedFile]:
        sound = [placed for placed in actions if type(placed.action.get("path")) is str]
        keys = canonical_all([placed.action["path"] for placed in sound])
        touched = []
        for placed, key in zip(sound, keys, strict=True):
            vector = placed.action.get("deletionVector")
            dv_id = "" if vector is None else None if find_descriptor_fault(vector) else unique_id(vector)
            touched.append(TouchedFile(placed, key, dv_id, self.live_at(key)))
        return touched

    @cached_property
    def commit_info(self) -> Action | None:
        """Return the first commitInfo."""
        return next((placed.action for placed in self.others if placed.kind == "commitInfo"), None)

    @cached_property
    def in_commit_timestamp(self) -> int | None:
        """Return `commitInfo.inCommitTimestamp` if it is an integer."""
        value = (self.commit_info or {}).get("inCommitTimestamp")
        return value if type(value) is int else None


@dataclass(eq=False, repr=False)
class MetadataView:
    """A metaData action of a commit (or of the checkpoint a log begins with), and the configuration before it."""

    place: segment.Place
    version: int
    raw: Action
    config: TableConfiguration
    "In effect from this action on."
    previous: TableConfiguration | None
    "None if the configuration before is unknown."
    commit: CommitView | None
    "The commit of the action, or None for that of a checkpoint."
    memory: dict[str, Any]  # Any: each check keeps its own data, by name
    "Lives for the whole run over a table, so that a check can remember older metadata."


@dataclass(eq=False, repr=False)
class ProtocolView:
    """A protocol action, and the configuration before it."""

    place: segment.Place
    version: int
    raw: Action
    config: TableConfiguration
    previous: TableConfiguration | None
    commit: CommitView | None


@dataclass(eq=False, repr=False)
class TableConfigurationView:
    """A protocol and a metadata in effect together, seen once for each pair."""

    place: segment.Place
    "Of the action that completed the pair, which is the metaData if both came at once."
    version: int
    config: TableConfiguration
    memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps its own data, by name
    """The memory of `MetadataView`."""


@dataclass(eq=False, repr=False)
class FilesView:
    """Adds in columns: up to some ten thousand rows that share one configuration, from commits or from a checkpoint.

    `adds` has the fields of `action_schemas().add`. Rows with wrong types are left out.
    """

    adds: pyarrow.RecordBatch
    config: TableConfiguration
    versions: Sequence[int] | None
    "The version of each row. None: all of them are from the checkpoint at `path`."
    lines: Sequence[int] | None
    path: str | None = None
    checkpoint_version: int | None = None
    now_ms: int = 0
    clustering: str | None = None
    "The configuration of the domain `delta.clustering` in effect, or None."

    def place(self, row: int) -> segment.Place:
        """Return the place of a row. Its key is the path of the file."""
        key = self.adds.column("path")[row].as_py()
        if self.versions is None or self.lines is None:
            return segment.Place(self.path or "", None, self.checkpoint_version, key)
        version = self.versions[row]
        return segment.Place(f"{segment.LOG_DIRECTORY}/{segment.commit_name(version)}", self.lines[row], version, key)

    def rows(self, mask: ArrowArray) -> list[int]:
        """Return the rows that a mask marks, at most the first thousand: more findings of a kind add no information."""
        rows: list[int] = pc.indices_nonzero(mask).slice(0, MOST_ROWS_TOLD).to_pylist()
        return rows

    @cached_property
    def rows_with_vectors(self) -> bool:
        """Return True if any add has a deletion vector."""
        vectors = self.adds.column("deletionVector")
        return bool(vectors.null_count < len(vectors))

    @cached_property
    def num_records(self) -> ArrowArray:
        """Return `numRecords` of each row's statistics, null if missing."""
        return extract_num_records_column(self.adds.column("stats"))

    memory: dict[str, Any] = field(default_factory=dict)  # Any: columns that several checks share, by name
    uri: str = ""
    "Of the table, empty if unknown."


@dataclass(eq=False, repr=False)
class ListingView:
    """The files of `_delta_log` and of its directories, by name, size and time."""

    files: Sequence[segment.LogFile]
    "Every file directly in the log, in bytewise ascending order."
    directories: Sequence[str]
    sidecars: Sequence[StoredFile]
    staged: Sequence[StoredFile]
    """Of `_staged_commits`."""
    listing: segment.LogListing
    config: TableConfiguration
    "The newest configuration that could be read, empty if none could."
    now_ms: int
    has_hint: bool
    log_exists: bool = True
    named_sidecars: frozenset[str] | None = None
    "Names of the sidecars that complete checkpoints name, or None if one of these could not be read."
    wrong_checkpoints: frozenset[int] = frozenset()
    "Versions whose checkpoints have errors, as far as their rules were selected."
    of_catalog: Sequence[tuple[int, str]] = ()
    "Versions of which the catalog that was asked has another commit than the log, with what differs in words."
    replaced_staged: Sequence[int] = ()
    "Versions that the catalog holds as staged, whose staged file is gone and whose published one is as ratified."
    lost: Sequence[tuple[int, str]] = ()
    "Versions that the catalog ratified and that are neither staged nor published, with the path that is needed."
    may_clean_log: bool | None = None
    "Whether the catalog permits clients to clean the log; None for a table whose catalog was not asked."
    proposable: Sequence[int] = ()
    "Published versions that the catalog has forgotten, and whose staged file can be proposed to it again."

    def place(self, name: str = "", version: int | None = None) -> segment.Place:
        """Return a place in the log."""
        return segment.Place(f"{segment.LOG_DIRECTORY}/{name}" if name else segment.LOG_DIRECTORY, version=version)

    @cached_property
    def newest_commit(self) -> int:
        """-1 if there is none."""
        return max(self.listing.commits, default=-1)

    @cached_property
    def newest_checkpoint(self) -> segment.CheckpointInstance | None:
        return max(self.listing.checkpoints, key=lambda instance: instance.preference, default=None)

    @cached_property
    def oldest_checkpoint(self) -> segment.CheckpointInstance | None:
        return min(self.listing.checkpoints, key=lambda instance: instance.version, default=None)


@dataclass(eq=False, repr=False)
class HistoryView:
    """All commits that could be read, ascending, without their adds; for rules about sequences."""

    commits: Sequence[CommitView]
    listing: segment.LogListing
    config: TableConfiguration
    now_ms: int
    counts: Mapping[int, Mapping[str, int]]
    """version -> kind -> how many actions."""
    used_by_adds: frozenset[str] = frozenset()
    "The features that adds of any version use, by their stable names."


@dataclass(eq=False, repr=False)
class StateView:
    """The state of the newest version that could be rebuilt, as far as its log can be read."""

    version: int
    config: TableConfiguration
    transactions: Mapping[str, tuple[int, int | None]]
    """application -> version, lastUpdated."""
    domains: Mapping[str, str]
    """Without removed ones."""
    live: pyarrow.Table
    "One row per live file: path (raw), key (canonical path, binary), dv_id, size, num_records, dv_cardinality, "
    "base_row_id, default_row_commit_version, version (-1: from a checkpoint)."
    now_ms: int
    memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps its own data, by name
    """The memory of `MetadataView`."""
    uri: str = ""
    "Of the table, empty if unknown."
    aliases: Sequence[str] = ()
    "Other URIs of the table."
    partition_texts: Callable[[str], Collection[str | None]] | None = None
    "Reads the distinct values of a partition column in the live files, by its physical name; None if it cannot."

    def place(self, key: str | None = None) -> segment.Place:
        """Return the newest version as a place."""
        return segment.Place(f"{segment.LOG_DIRECTORY}/{segment.commit_name(self.version)}", None, self.version, key)


class Totals(NamedTuple):
    """The totals of a version. `deleted_records` and `vectors` count deletion vectors of live files."""

    files: int
    size_bytes: int
    vectors: int
    deleted_records: int


@dataclass(eq=False, repr=False)
class ExpectedState:
    """The state of a version replayed from older files, with which checkpoints and checksums are compared."""

    version: int
    config: TableConfiguration
    transactions: Mapping[str, tuple[int, int | None]]
    domains: Mapping[str, str]
    totals: Totals
    live: Callable[[], Iterator[LiveFile]]
    tombstones: Callable[[int | None], Iterator[Action]]
    "Yield removes that are not undone, as in the log: those whose deletionTimestamp is greater than a time, or all "
    "for None."
    in_commit_timestamp: int | None = None
    whole_adds: Callable[[], Iterator[pyarrow.RecordBatch]] | None = None
    "Yield the live files as batches of `action_schemas().add`. Statistics are null if unknown."
    columns: Callable[[], pyarrow.Table] | None = None
    "Return the live files as in `StateView.live`. For a million files use this instead of `live`."


@dataclass(eq=False, repr=False)
class CheckpointView:
    """A complete checkpoint, opened. File actions come in columns, batch by batch."""

    instance: segment.CheckpointInstance
    version: int
    small: Sequence[tuple[str, Action, str]]
    """(kind, row, file) of every small action; maps are dictionaries."""
    schemas: Mapping[str, pyarrow.Schema]
    """Path of each Parquet file, top-level ones and sidecars -> its Arrow schema."""
    file_sizes: Mapping[str, int]
    """Path -> bytes, of all files that exist."""
    rows: Mapping[str, int]
    """Path -> number of actions."""
    counts: Mapping[str, int]
    """Kind -> number of actions, over all files."""
    inline_file_actions: int
    missing_sidecars: Sequence[str]
    config: TableConfiguration
    "The configuration in the checkpoint itself."
    expected: ExpectedState | None
    "None if the commits below are missing. Then only the checkpoint itself can be checked."
    modified_ms: int
    now_ms: int
    small_is_whole: bool = True
    "False if a file of its own, not of a sidecar, could not be read, so that `small` may be incomplete."
    is_readable: bool = True
    "False if a file could not be read to its end, so that `counts` are too small."

    @property
    def path(self) -> str:
        return f"{segment.LOG_DIRECTORY}/{self.instance.files[0].name}"

    def place(self, path: str | None = None, key: str | None = None) -> segment.Place:
        return segment.Place(path or self.path, None, self.version, key)

    @cached_property
    def is_v2(self) -> bool:
        return any(kind in ("checkpointMetadata", "sidecar") for kind, _, _ in self.small)


@dataclass(eq=False, repr=False)
class HintView:
    """`_last_checkpoint`."""

    data: bytes
    listing: segment.LogListing
    checkpoints: Mapping[int, Sequence[CheckpointView]]
    "Version -> its checkpoints that could be opened."
    now_ms: int

    def place(self, key: str | None = None) -> segment.Place:
        return segment.Place(f"{segment.LOG_DIRECTORY}/_last_checkpoint", key=key)


@dataclass(eq=False, repr=False)
class ChecksumView:
    """A version checksum, `N.crc`."""

    version: int
    data: bytes
    expected: ExpectedState | None
    "None if the version cannot be rebuilt."

    @property
    def path(self) -> str:
        return segment.checksum_path(self.version)

    def place(self, key: str | None = None) -> segment.Place:
        return segment.Place(self.path, None, self.version, key)


@dataclass(eq=False, repr=False)
class CompactionView:
    """A log compaction file and the commits it replaces."""

    file: segment.LogFile
    actions: Sequence[LocatedAction]
    commits: Sequence[Sequence[LocatedAction]] | None
    "All actions of each commit of its range, ascending. None if one is missing or unreadable."
    is_readable: bool

    def place(self, line: int | None = None, key: str | None = None) -> segment.Place:
        return segment.Place(f"{segment.LOG_DIRECTORY}/{self.file.name}", line, self.file.path.last_version, key)


@dataclass(eq=False, repr=False)
class StorageView:
    """One listing of the table's directory and its newest state."""

    files: Mapping[str, StoredFile]
    "Relative path, not encoded -> every file below the root except those of `_delta_log`."
    nested_logs: Sequence[str]
    "Directories below the root that have their own `_delta_log`."
    state: StateView
    live_adds: pyarrow.Table
    "One row per live file: path (raw), size, modification_time, version, line (null from a checkpoint), dv_storage, "
    "dv_path, source (the file of the log that names it)."
    tombstones: Sequence[Action]
    "Removes of the newest state, as in the log, and of all visible commits."
    cdc: Sequence[tuple[LocatedAction, int]]
    """Every cdc action of visible commits with its version."""
    commits: Sequence[CommitView]
    uri: str
    now_ms: int
    exists: Callable[[str], bool | None]
    "An absolute path or URI -> whether it exists, None if that cannot be determined from here."
    unlisted: Sequence[str] = ()
    "Directories below the root whose files are not in `files`: links that point outside the table."
    manifests: Mapping[str, Sequence[set[str]]] = field(default_factory=dict)
    "Path of a symlink manifest -> the paths below the root that each of its lines may mean."
    has_clones: Callable[[], bool] = lambda: False
    "Whether the table has notes of shallow clones, whose files a vacuum keeps."
    find_archived: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
    "Path -> archive class, of files that a listing shows in an archive; returns those that are not restored. It sends "
    "a request per file, because a listing does not say which files are restored."

    def may_be_there(self, path: str) -> bool:
        """Return whether a file below the root was listed, or is in a directory that was not listed."""
        return path in self.files or any(path.startswith(f"{directory}/") for directory in self.unlisted)


class UnfitChecksum(NamedTuple):
    """A checksum file of Hadoop that does not fit its file.

    Attributes:
        path: The checksum file, below the table.
        file: The file that it belongs to, below the table.
        offset: Where the first chunk begins that does not fit. Above 0, the beginning of the file does.
    """

    path: str
    file: str
    offset: int


@dataclass(eq=False, repr=False)
class HadoopChecksumsView:
    """The checksum files of Hadoop in the log and in the table that do not fit their files."""

    unfit: Sequence[UnfitChecksum]


# -- what checks know of the files of a view ---------------------------------------------------------------------------


def place_of_live_file(add: Mapping[str, Any]) -> segment.Place:  # Any: values of the columns
    """Return where the log names a live file, by its row of `StorageView.live_adds`."""
    version = add["version"]
    return segment.Place(add["source"], add["line"], version if version >= 0 else None, add["path"])


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
    from deltacli.delta.listing import HiddenNames, list_partition_directory_names

    configurations = {id(one): one for commit in view.commits for one in (commit.before, commit.after)}
    return HiddenNames(
        set[str]().union(*map(list_partition_directory_names, (*configurations.values(), view.state.config)))
    )


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
