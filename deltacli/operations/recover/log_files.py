"""Opening the sources that a caller names, the files of a log that they offer, and how it reads with them.

Spec: Delta Log Entries, Checkpoints, Metadata Cleanup.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_size, plural
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.segment import (
    HINT_NAME,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    Hint,
    LogFileKind,
    LogListing,
    choose_segment,
    commit_name,
    read_hint,
)
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.delta.paths.spelling import canonicalize_root, decode_path_bytes, possible_roots
from deltacli.engine.base import Engine
from deltacli.operations.log.log_copy import (
    StoredFile,
    at_once,
    digest,
    find_table_id,
    list_whole_log,
    log_location,
    read_list,
    versioned,
)
from deltacli.operations.recover.copies import (
    NotedChecksums,
    address_of,
    copy_within_store,
    manifest_of,
    newest_first,
    plan_directories,
)
from deltacli.operations.recover.sources import (
    VERSIONS,
    CopySource,
    FileMap,
    FoundFiles,
    MappedFile,
    Overwritten,
    Source,
    open_copy,
    versions_of_files,
    versions_of_log,
)
from deltacli.storage import FileStat, PathKind, ReadStorage, Storage, is_address_of
from deltacli.storage.versions import VersionedObjects, require_versions
from deltacli.table.file_references import FileReferenceReader
from deltacli.table.find_log import list_log, read_hint_file
from deltacli.table.handle import TableHandle
from deltacli.table.hidden_names import build_hidden_names
from deltacli.table.needed_files import FileKind, NeededFiles, combine_chunks, locate_files, read_live_files
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.table.walk import TableWalk
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.table_stores import TableStores

# -- the missing files -------------------------------------------------------------------------------------------------

_CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)
_ORDER = (FileKind.SIDECAR, FileKind.COMMIT, FileKind.CHECKSUM, FileKind.COMPACTION, FileKind.CHECKPOINT, FileKind.HINT)
_MAGIC = b"PAR1"
_COMPARED = 20
"""Commits that two logs have in common whose bytes are compared, the newest; of all others their sizes."""


class LogItem(NamedTuple):
    """A file of the log that a source has, by the number of the source."""

    file: StoredFile
    source: int

    @property
    def path(self) -> str:
        return log_location(self.file.name)

    @property
    def kind(self) -> FileKind:
        return kind_of_log_file(self.file)


@dataclass(frozen=True)
class LogPlan:
    """What a log lacks. `items` are in the order in which they are put in place; `missing` are the names of commits
    that nobody has and without which `version` cannot be rebuilt, and then nothing is to be put in place. `files` has
    the log as it will be. `version_before` is the newest version now, -1 without one.
    """

    version: int
    version_before: int
    items: tuple[LogItem, ...]
    missing: tuple[str, ...]
    listing: LogListing
    files: Storage
    every: Storage
    """The same with everything that sources offer."""
    was_readable: bool
    """The newest version of now can be read from the log of now."""
    unsound: Mapping[str, str]
    """Name -> why what a source has of it is no such file."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Name -> the SHA-256 of a commit as it was judged."""


def kind_of_log_file(file: StoredFile) -> FileKind:
    """Return what a file of the log is."""
    kinds = {
        LogFileKind.COMMIT: FileKind.COMMIT,
        LogFileKind.CHECKSUM: FileKind.CHECKSUM,
        LogFileKind.COMPACTED_COMMIT: FileKind.COMPACTION,
        **dict.fromkeys(_CHECKPOINTS, FileKind.CHECKPOINT),
    }
    return kinds.get(file.path.kind, FileKind.HINT if file.name == HINT_NAME else FileKind.SIDECAR)


def plan_log(
    storage: ReadStorage,
    present: Mapping[str, StoredFile],
    sources: Sequence[Source],
    offered: Sequence[Mapping[str, StoredFile]],
    engine: Engine,
    version: int | None,
) -> LogPlan:
    """Find the files that a log lacks for a version, or for the newest one that is known. `offered` are the files of
    the log of each source.

    Raises NotATable where neither the table nor a source has a version, VersionAbsent for one that never was.
    """
    offers = [dict(offer) for offer in offered]
    unsound: dict[str, str] = {}
    while True:
        found = _Found(storage, present, sources, offers)
        plan = found.plan(version, unsound)
        digests: dict[str, str] = {}
        faults = found.faults(plan.items, engine, digests)
        if not faults:
            return replace(plan, digests=digests)
        for item, why in faults:
            del offers[item.source][item.file.name]
            unsound[item.file.name] = why


def require_one_history(sources: Sequence[Source], offers: Sequence[Mapping[str, StoredFile]]) -> None:
    """Raise Refused where two sources have different contents of a commit."""
    for number, offer in enumerate(offers):
        for other in range(number + 1, len(offers)):
            pair = sources[number], sources[other]
            if all(source.is_readable for source in pair):
                require_same_commits(
                    (pair[0].name, pair[0].files, offer.values()), (pair[1].name, pair[1].files, offers[other].values())
                )


class DivergedError(errors.Refused):
    """Two logs have different commits of the same `versions`; `source` is the name of the other log."""

    def __init__(self, name: str, source: str, versions: Sequence[int]) -> None:
        super().__init__(
            f"commit {max(versions)} in {name} differs from the one in {source}: their histories have diverged",
            code="recover.diverged",
            facts={"why": "a mixture of both would be a state that never existed"},
        )
        self.source, self.versions = source, tuple(versions)


def require_same_commits(
    one: tuple[str, ReadStorage, Iterable[StoredFile]], other: tuple[str, ReadStorage, Iterable[StoredFile]]
) -> None:
    """Raise DivergedError where commits differ between two logs: together they would be a state that never was. The
    bytes of the newest commits are compared, of all others the sizes.
    """
    (name, files, named), (name_there, files_there, named_there) = one, other
    ours, theirs = versioned(named).commits, versioned(named_there).commits
    differing = []
    for number, version in enumerate(sorted(set(ours) & set(theirs), reverse=True)):
        path = log_location(ours[version].name)
        try:
            is_same = ours[version].size_bytes == theirs[version].size_bytes and (
                number >= _COMPARED or files.read(path) == files_there.read(path)
            )
        except errors.FileMissing:
            continue
        if not is_same:
            differing.append(version)
    if differing:
        raise DivergedError(name, name_there, differing)


def cut_commits(
    ours: tuple[ReadStorage, Mapping[str, StoredFile]], theirs: tuple[ReadStorage, Mapping[str, StoredFile]]
) -> dict[str, StoredFile]:
    """Return the commits of a log that are cut off: empty, or the beginning of the same commit in another log and not
    readable as they are. A commit whose lines are complete is never one, because a writer may have written it so.
    """
    (files, present), (files_there, present_there) = ours, theirs
    found = {}
    for name, file in present.items():
        there = present_there.get(name)
        if file.path.kind is not LogFileKind.COMMIT or there is None or file.size_bytes >= there.size_bytes:
            continue
        try:
            is_beginning = files_there.read(log_location(name)).startswith(files.read(log_location(name)))
        except errors.FileMissing:
            continue
        if is_beginning and fault_of_log_file(files, file) is not None:
            found[name] = file
    return found


class _Found:
    """The log with everything that sources offer."""

    def __init__(
        self,
        storage: ReadStorage,
        present: Mapping[str, StoredFile],
        sources: Sequence[Source],
        offers: Sequence[Mapping[str, StoredFile]],
    ) -> None:
        self.storage, self.present, self.sources = storage, present, sources
        self.offered = {
            name: LogItem(file, number)
            for number, offer in reversed(list(enumerate(offers)))
            for name, file in offer.items()
            if name not in present
        }
        every = [*present.values(), *(item.file for item in self.offered.values())]
        self.listing, self.before = versioned(every), versioned(present.values())

    def plan(self, version: int | None, unsound: Mapping[str, str]) -> LogPlan:
        self.listing.require_versions()
        target = self._newest() if version is None else version
        if target > self.listing.newest_version:
            choose_segment(self.listing, target)  # raises for a version that never was
        starts = [one.version for one in self.listing.checkpoints if one.version <= target]
        missing = [v for v in range(max(starts, default=-1) + 1, target + 1) if v not in self.listing.commits]
        if not missing:
            choose_segment(self.listing, target)
        names = [] if missing else self._wanted(target)
        items = sorted((self.offered[name] for name in names), key=_order)
        return LogPlan(
            version=target,
            version_before=self.before.newest_version,
            items=tuple(items),
            missing=tuple(map(commit_name, missing)),
            listing=self.listing,
            files=self._map(self.offered[item.file.name] for item in items),
            every=self._map(self.offered.values()),
            was_readable=self.before.newest_version in self.before.reconstructable,
            unsound=dict(unsound),
        )

    def _newest(self) -> int:
        """Return the newest version that is known; where one can be read now, the newest that follows it without a gap,
        because commits behind a gap may be those of a table that was here before.
        """
        newest = self.before.newest_version
        if newest not in self.before.reconstructable:
            return self.listing.newest_version
        while newest + 1 in self.listing.commits:
            newest += 1
        return newest

    def _wanted(self, target: int) -> list[str]:
        """Return the names of the files to put in place: all between the oldest version and the newest one where the
        version cannot be read now; else the commits that are gone between them, and the checkpoint of the hint.
        """
        segment = choose_segment(self.listing, target)
        was_readable = target in self.before.reconstructable
        runs = [run for run in self.listing.commit_runs if run[0] <= target <= run[1]] or [(target, target)]
        start = segment.checkpoint.version if segment.checkpoint else 0
        oldest = [*self.before.commits, *(one.version for one in self.before.checkpoints)] or [runs[0][0]]
        low, high = min(start, *oldest), runs[0][1]
        complete = {file.name for one in self.listing.checkpoints for file in one.files}
        hinted = self._hinted()
        names: list[str] = []
        for name, item in self.offered.items():
            path = item.file.path
            is_between = low <= path.version and path.newest <= high
            match item.kind:
                case FileKind.COMMIT:
                    is_wanted = is_between
                case FileKind.CHECKSUM:
                    is_wanted = is_between and (not was_readable or commit_name(path.version) in self.offered)
                case FileKind.COMPACTION:
                    is_wanted = is_between and not was_readable
                case FileKind.CHECKPOINT:
                    is_wanted = is_between and name in complete and (not was_readable or path.version == hinted)
                case FileKind.HINT:
                    is_wanted = not was_readable
                case _:
                    is_wanted = False
            if is_wanted:
                names.append(name)
        return [*names, *self._sidecars(names)]

    def _hinted(self) -> int | None:
        """Return the version of the checkpoint that the hint of the log names."""
        if HINT_NAME not in self.present:
            return None
        try:
            hint = read_hint(read_hint_file(self.storage))
        except errors.FileMissing:
            return None
        return hint.version if isinstance(hint, Hint) else None

    def _sidecars(self, names: Collection[str]) -> list[str]:
        """Return the offered sidecars of the checkpoints that the log has or gets."""
        from deltacli.work.checkpoints.reading import open_checkpoint

        sidecars = {log_location(name): name for name in self.offered if name.startswith(f"{SIDECAR_DIRECTORY}/")}
        if not sidecars:
            return []
        if not all(source.is_readable for source in self.sources):
            return list(sidecars.values())
        stores = TableStores(self._map(self.offered.values()))
        found: dict[str, None] = {}
        for instance in self.listing.checkpoints:
            if all(file.name in names or file.name in self.present for file in instance.files):
                try:
                    found |= dict.fromkeys(open_checkpoint(stores, instance).sidecars)
                except errors.CheckpointUnreadable:
                    continue
        return [sidecars[path] for path in found if path in sidecars]

    def _map(self, items: Iterator[LogItem] | Collection[LogItem]) -> Storage:
        """Return the log with some of the offered files as a store."""
        files = {
            log_location(name): MappedFile(self.storage, log_location(name), file.size_bytes, file.modified_ms)
            for name, file in self.present.items()
        }
        for item in items:
            file = item.file
            files[item.path] = MappedFile(self.sources[item.source].files, item.path, file.size_bytes, file.modified_ms)
        return FileMap(self.storage.uri, files, self.storage.capabilities.parallel_reads)

    def faults(self, items: Sequence[LogItem], engine: Engine, digests: dict[str, str]) -> list[tuple[LogItem, str]]:
        """Return the items that are not what their names say, and why; note the digests of commits."""

        def look(item: LogItem) -> str | None:
            if not self.sources[item.source].is_readable:
                return None
            return fault_of_log_file(self.sources[item.source].files, item.file, digests)

        limit = at_once(self.storage, (item.file.size_bytes for item in items))
        return [
            (item, why)
            for item, why in zip(items, engine.run(look, items, at_once=limit), strict=True)
            if why is not None
        ]


def _order(item: LogItem) -> tuple[int, int, str]:
    return _ORDER.index(item.kind), item.file.path.version, item.file.name


def fault_of_log_file(storage: ReadStorage, file: StoredFile, digests: dict[str, str] | None = None) -> str | None:
    """Return why a file of a log cannot be what its name says; None for a sound one. The SHA-256 of a commit is added
    to `digests`. Raises StorageFailed.
    """
    path = log_location(file.name)
    try:
        if file.name.endswith(".parquet"):
            ends = storage.read_range(path, 0, 4), storage.read_range(path, max(file.size_bytes - 4, 0), 4)
            return None if ends == (_MAGIC, _MAGIC) else "it is not a Parquet file"
        if file.name == HINT_NAME:
            return None if isinstance(read_hint(read_hint_file(storage)), Hint) else "it names no checkpoint"
        data = storage.read(path)
        if digests is not None and file.path.kind is LogFileKind.COMMIT:
            digests[file.name] = digest(data)
        return None if read_actions(data, file.name) or file.path.kind is not LogFileKind.COMMIT else "it is empty"
    except (errors.CommitCorrupt, errors.Unreadable) as fault:
        return fault.message
    except errors.FileMissing:
        return "it was deleted meanwhile"


# -- the newest readable version ---------------------------------------------------------------------------------------

_TRIED = 20
"""Versions that are rebuilt to look for their files."""


def newest_complete(table: TableHandle, snapshot: Snapshot, found: FoundFiles) -> int | None:
    """Return the newest version below a snapshot, all of whose files are there or were found; None if none is known."""
    uris = (table.storage.uri, *table.storage.aliases)
    kept = pc.filter(combine_chunks(found.needed.files["path"]), found.is_found)
    lost = pc.filter(combine_chunks(found.needed.files["path"]), pc.invert(found.is_found))

    def lost_of(version: Snapshot) -> ArrowArray:
        files, sizes = locate_files(table.storage, read_live_files(version, uris), table.engine, table.progress)
        is_other = pc.fill_null(pc.not_equal(sizes, combine_chunks(files.files["sizeBytes"])), False)
        is_lost = pc.and_(pc.or_(pc.is_null(sizes), is_other), pc.invert(pc.is_in(files.files["path"], value_set=kept)))
        return pc.filter(combine_chunks(files.files["path"]), combine_chunks(is_lost))

    complete = complete_versions(snapshot.table, snapshot.version, lost, lost_of, uris)
    return next((version.version for version in complete), None)


def complete_versions(
    table: TableHandle, below: int, lost: ArrowArray, lost_of: Callable[[Snapshot], ArrowArray], uris: tuple[str, ...]
) -> Iterator[Snapshot]:
    """Yield versions below one, the newest first, that need no file that is gone: `lost` are such files, `lost_of`
    returns those of a version, as bytes below the root, whose URIs are `uris`.

    A version is passed over where it is not older than the commits that added files which are gone.
    """
    listing = list_log(table.storage)
    added = _added(table, listing, uris)
    for _ in range(_TRIED):
        if len(lost):
            first = pc.min(added.filter(pc.is_in(added["path"], value_set=lost))["version"]).as_py()
            below = min(below, first or 0)
        below = max((version for version in listing.reconstructable if version < below), default=-1)
        if below < 0:
            return
        try:
            snapshot = read_snapshot(table, version=below)
            lost = lost_of(snapshot)
        except (errors.Unreadable, errors.CommitCorrupt):
            continue
        if not len(lost):
            yield snapshot


def _added(table: TableHandle, listing: LogListing, uris: tuple[str, ...]) -> ArrowTable:
    """Return the files and the files of vectors that commits added, with the versions."""
    keys = PathKeys(uris)
    parts = [pa.table({"path": pa.array([], pa.binary()), "version": pa.array([], pa.int64())})]
    for rows in FileReferenceReader(table, listing).read():
        if rows.kind == "add":
            paths = (
                keys.compute_keys(combine_chunks(rows.path)).keys,
                keys.compute_vector_keys(combine_chunks(rows.vector)).keys,
            )
            parts += [_part(one, rows.version) for one in paths]
    return pa.concat_tables(parts)


def _part(paths: ArrowArray, versions: ArrowArray) -> ArrowTable:
    return pa.table({"path": paths, "version": pc.cast(combine_chunks(versions), pa.int64())}).filter(
        pc.is_valid(paths)
    )


def notes_on_later_files(table: TableHandle, snapshot: Snapshot, needed: NeededFiles) -> Iterator[str]:
    """Yield a note on the data files of the table that were written after a version and that it does not need.
    `snapshot` is the newest version of the log that is put back. Raises StorageFailed.
    """
    if snapshot.time is None:
        return
    names, unknown = build_hidden_names(snapshot, ()), list[str]()
    with table.progress.step("listing the table", unit="files") as step:
        for files in TableWalk(table.storage, names).files():
            paths = encode_paths_as_binary(files.paths) if isinstance(files.paths, list) else files.paths
            is_needed = pc.is_in(paths, value_set=combine_chunks(needed.files["path"]))
            unknown += map(
                decode_path_bytes, pc.filter(paths, pc.invert(pc.or_(is_needed, names.mask(paths)))).to_pylist()
            )
            step.advance(len(paths))
    at_once = table.storage.capabilities.parallel_reads
    stats = list(table.engine.run(partial(_stat, table.storage), unknown, at_once=at_once))
    later = [one.size_bytes for one in stats if one is not None and one.modified_ms > snapshot.time.timestamp_ms]
    count = len(later)
    if count:
        verb = "is" if count == 1 else "are"
        yield (
            f"{plural(count, 'data file')} ({format_size(sum(later))}) {verb} newer than version {snapshot.version}, "
            "the newest of the log that is put back: that log may be too old; do not vacuum the table before a newer "
            "one is ruled out"
        )


def _stat(storage: ReadStorage, path: str) -> FileStat | None:
    try:
        return storage.stat(path)
    except errors.FileMissing:
        return None


# -- the sources of a caller -------------------------------------------------------------------------------------------


class OpenedSource(NamedTuple):
    """A source as the caller named it: `kept` for the versions of the store, else `copy`. `has_log`: its log is one of
    this table. `is_same`: its table is known to be this one. `refusal`: the store keeps no versions.
    """

    name: str
    copy: CopySource | None = None
    kept: VersionedObjects | None = None
    has_log: bool = False
    is_same: bool = False
    refusal: errors.Refused | None = None
    cut: Mapping[str, StoredFile] = {}
    """Commits of the table that are cut off, which this source has completely."""


def open_sources(
    table: TableHandle, names: Sequence[str], present: Mapping[str, StoredFile], table_id: str | None
) -> list[OpenedSource]:
    """Open sources. `present` is the log of the table, `table_id` its id, None where that is not known.

    Raises Refused for the source of another table and for a log that has another history; UsageError, Unreadable and
    StorageFailed for what cannot be opened.
    """
    found: list[OpenedSource] = []
    for name in dict.fromkeys(names):
        if name == VERSIONS:
            found.append(_versions_of(name, table.storage))
            continue
        copy = _with_copier(table, open_copy(name, table.open_other(name), table.storage))
        opened = _checked(table, copy, present, table_id)
        if table_id is None and opened.has_log:
            table_id = find_table_id(copy.files, table.engine)  # the first log tells which table it is
        found.append(opened)
    return found


def require_usable(opened: Sequence[OpenedSource]) -> tuple[str, ...]:
    """Return a note for a store that keeps no versions. Raises Refused where there is no other source."""
    without = [one.refusal for one in opened if one.refusal is not None]
    if without and len(without) == len(opened):
        raise without[0]
    return tuple(f"{one.message}: {one.facts['why']}" for one in without)


def _versions_of(name: str, storage: ReadStorage) -> OpenedSource:
    try:
        return OpenedSource(name, kept=require_versions(storage), has_log=True, is_same=True)
    except errors.Refused as refused:
        refused.hint = refused.hint or errors.suggest_parameters(errors.parameter("undelete.sources", "COPY"))
        return OpenedSource(name, refusal=refused)


def _checked(
    table: TableHandle, copy: CopySource, present: Mapping[str, StoredFile], table_id: str | None
) -> OpenedSource:
    if copy.files.kind_of(LOG_DIRECTORY) is not PathKind.DIRECTORY:
        return OpenedSource(copy.name, copy)
    if _is_clone_of(copy.files, table):
        return OpenedSource(copy.name, copy, is_same=True)
    listed = read_list(copy.files)
    theirs = listed.table_id if listed is not None and listed.table_id else find_table_id(copy.files, table.engine)
    if None not in (theirs, table_id) and theirs != table_id:
        raise other_table(copy.name, theirs, table_id)
    theirs_listed = list_whole_log(copy.files) or {}
    cut = cut_commits((table.storage, present), (copy.files, theirs_listed))
    sound = [file for name, file in present.items() if name not in cut]
    require_same_commits(("the log", table.storage, sound), (copy.name, copy.files, theirs_listed.values()))
    return OpenedSource(copy.name, copy, has_log=True, is_same=theirs is not None and theirs == table_id, cut=cut)


def other_table(name: str, theirs: str | None, ours: str | None) -> errors.Refused:
    """Return the refusal of a source that has files of another table."""
    return errors.Refused(
        f"{name} has the files of another table",
        code="recover.other-table",
        facts={"table id there": str(theirs), "table id of this table": str(ours)},
    )


def _is_clone_of(storage: ReadStorage, table: TableHandle) -> bool:
    """Return True for a table that was cloned from this one: its log is its own, its files may be of this table."""
    commits = list_log(storage).commits
    for version in sorted(commits)[:1]:
        info = read_provenance(storage, commits[version]).commit_info or {}
        parameters = info.get("operationParameters")
        source = parameters.get("source") if isinstance(parameters, dict) else None
        if info.get("operation") == "CLONE" and isinstance(source, str):
            places = possible_roots(source.removeprefix("delta.").strip("`"))
            return not places.isdisjoint(map(canonicalize_root, (table.storage.uri, *table.storage.aliases)))
    return False


def data_copies(table: TableHandle, opened: OpenedSource, table_id: str | None) -> list[CopySource]:
    """Return where a copy has data files: itself, or each directory of a quarantine, the newest first. Copies of a
    table have its id, so of a quarantine only the directories with the address of this table are used; all of them
    where the caller named the directory of the id.

    Raises Refused for a quarantine without files of this table.
    """
    copy = opened.copy
    assert copy is not None
    if opened.has_log or opened.is_same:
        return [copy]
    directories = copy.files.list_directories("")
    if table_id is not None and table_id in directories:
        addresses = {one: address_of(copy.files, one, table_id) for one in newest_first(copy.files, table_id)}
        own = [one for one, uri in addresses.items() if uri is None or is_address_of(table.storage, uri)]
        if addresses and not own:
            raise _other_address(copy.name, table, table_id, str(next(iter(addresses.values()))))
        return [_below(table, copy, directory) for directory in own]
    above, _, last = copy.name.rstrip("/").rpartition("/")
    if (
        table_id is not None
        and last == table_id
        and any(copy.files.kind_of(manifest_of(one)) is PathKind.FILE for one in directories)
    ):
        quarantine = copy._replace(name=above or ".", files=table.open_other(above or "."))
        return [_below(table, quarantine, one) for one in newest_first(quarantine.files, table_id)]
    held = [name for name in directories if "=" not in name and _has_manifest(copy.files, name)]
    if held:
        raise other_table(copy.name, ", ".join(held[:3]), table_id)
    return [copy]


def _other_address(name: str, table: TableHandle, table_id: str, address: str) -> errors.Refused:
    named = f"{name.rstrip('/')}/{table_id}"
    return errors.Refused(
        f"{name} has the files of another table with the same id",
        code="recover.other-table",
        facts={"table there": address, "this table": table.uri, "why": "a copy of a table has its id"},
        hint=f"where the table was moved, add {errors.parameter('undelete.sources', named)}",
    )


def _has_manifest(storage: ReadStorage, directory: str) -> bool:
    return any(storage.kind_of(manifest_of(plan)) is PathKind.FILE for plan in plan_directories(storage, directory)[:1])


def _below(table: TableHandle, copy: CopySource, path: str) -> CopySource:
    below = CopySource(copy.name, table.open_other(f"{copy.name.rstrip('/')}/{path}"))
    return _with_copier(table, below._replace(digests=NotedChecksums(copy.files, path)))


def _with_copier(table: TableHandle, copy: CopySource) -> CopySource:
    """Return a copy whose files a store copies by itself, where an object store has both places."""
    if copy.files.capabilities.has_directories or table.storage.capabilities.has_directories:
        return copy
    return copy._replace(within=copy_within_store(table, copy.files, table.writable()))


def log_sources(table: TableHandle, opened: Sequence[OpenedSource]) -> tuple[list[Source], tuple[Overwritten, ...]]:
    """Return the sources of log files, as they were named, and the commits of which the store has several contents."""
    found: list[Source] = []
    overwritten: list[Overwritten] = []
    for one in opened:
        if one.kept is not None:
            kept, several = versions_of_log(table.storage, one.kept, table.engine)
            found += kept
            overwritten += several
        elif one.has_log and one.copy is not None:
            found.append(one.copy)
    return found, tuple(overwritten)


def data_sources(
    table: TableHandle, opened: Sequence[OpenedSource], missing: NeededFiles, table_id: str | None
) -> list[Source]:
    """Return the sources of some data files, in the order in which they were named. Raises Refused."""
    found: list[Source] = []
    for one in opened:
        if one.kept is not None:
            found += versions_of_files(table.storage, one.kept, missing) if missing.files.num_rows else []
        elif one.copy is not None:
            found += data_copies(table, one, table_id)
    return found
