"""The files of a log that are gone: which of those that sources offer belong to it, and how it reads with them.

Spec: Delta Log Entries, Checkpoints, Metadata Cleanup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from deltacli.core.errors import CheckpointUnreadable, CommitCorrupt, FileMissing, Refused, Unreadable
from deltacli.delta.checkpoint.last_checkpoint_content import Hint, read_hint
from deltacli.delta.log.commit_lines import read_actions
from deltacli.delta.log.log_path import HINT_NAME, SIDECAR_DIRECTORY, LogFileKind, commit_name
from deltacli.delta.log.segment import LogListing, choose_segment
from deltacli.engine.base import Engine
from deltacli.operations.log.log_copy import StoredFile, at_once, digest, log_location, versioned
from deltacli.operations.recover.object_versions import FileMap, MappedFile
from deltacli.operations.recover.sources import Source
from deltacli.storage import ReadStorage, Storage
from deltacli.table.find_log import read_hint_file
from deltacli.table.needed import FileKind
from deltacli.work.task import TableStores

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


class DivergedError(Refused):
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
        except FileMissing:
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
        except FileMissing:
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
        missing = self._missing(target)
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

    def _missing(self, target: int) -> list[int]:
        """Return the commits without which a version cannot be rebuilt."""
        starts = [one.version for one in self.listing.checkpoints if one.version <= target]
        return [v for v in range(max(starts, default=-1) + 1, target + 1) if v not in self.listing.commits]

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
        except FileMissing:
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
                except CheckpointUnreadable:
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
            return None if ends == (_MAGIC, _MAGIC) else "it is no Parquet file"
        if file.name == HINT_NAME:
            return None if isinstance(read_hint(read_hint_file(storage)), Hint) else "it names no checkpoint"
        data = storage.read(path)
        if digests is not None and file.path.kind is LogFileKind.COMMIT:
            digests[file.name] = digest(data)
        return None if read_actions(data, file.name) or file.path.kind is not LogFileKind.COMMIT else "it is empty"
    except (CommitCorrupt, Unreadable) as fault:
        return fault.message
    except FileMissing:
        return "it was deleted meanwhile"
