"""Checkpoint directories of Spark Structured Streaming: finding them by patterns, and reading where each query is.

A directory costs two listings and at most four reads: `commits` before `offsets`, so that a batch that ends in between
counts as unfinished, the newest file of `commits`, the two newest of `offsets`, and the file `metadata`. These are the
files that Spark reads at every start. `state` is not listed.

Of many directories that a pattern matches in an object store, pages of all keys list those that are small. After a page
with few of them, because `state` is large, the next directories are listed one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from deltacli.core import errors
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.delta import streams
from deltacli.storage.base import PARALLEL_READS, FileStat, PathKind, ReadStorage
from deltacli.storage.optional_interfaces import PrefixStore, is_prefix_store, is_shared_table
from deltacli.table.discover import (
    Opener,
    find_matching_directories,
    identify_directory,
    is_pattern,
    join_name,
    split_pattern,
)

if TYPE_CHECKING:
    from deltacli.engine.base import Engine

OFFSETS, COMMITS, METADATA = "offsets", "commits", "metadata"
_OF_SPARK = (OFFSETS, COMMITS, "sources", "state")
IN_CHECKPOINTS = (*_OF_SPARK, METADATA)
_MOST_LISTINGS = 4
"""The first listing, and three more where a file vanished between listing and reading."""
_FEWEST = PARALLEL_READS
"""Directories that a page of all keys must have, because so many are listed at once without it."""

_Parsed = TypeVar("_Parsed")
_Batches = dict[int, FileStat]
"""Files of batches, by number."""
_Listed = tuple[_Batches, _Batches]
"""Those of `commits` and of `offsets`."""


@dataclass(frozen=True, eq=False)
class _Place:
    """A directory to read, as the user wrote it; its path below the store of a pattern that matched it."""

    name: str
    storage: ReadStorage
    parent: PrefixStore | None = None
    below: str = ""

    @property
    def prefix(self) -> str:
        return f"{self.below}/" if self.below else ""


class Verdict(StrEnum):
    """Whether a query can go on. The worst one counts: the later here, the worse."""

    OK = "ok"
    AT_RISK = "at-risk"
    UNKNOWN = "unknown"
    DEAD = "dead"


_SEVERITY = {one: place for place, one in enumerate(Verdict)}


class Finding(NamedTuple):
    """A verdict and its reason, which is '' for `ok`."""

    verdict: Verdict
    because: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether the query, or the source, can continue."""
        return self.verdict is Verdict.OK


OK = Finding(Verdict.OK)


def worst(findings: Sequence[Finding]) -> Finding:
    """Return the worst finding, of equal ones the first."""
    return max(findings, key=lambda one: _SEVERITY[one.verdict], default=OK)


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Where a source is: `start` and `end` of the newest planned batch. `start` is None without an earlier offset."""

    name: str
    start: streams.Offset
    end: streams.Offset

    @property
    def positions(self) -> tuple[streams.Position, ...]:
        """Return those of start and end that are positions in a table."""
        return tuple(one for one in (self.start, self.end) if isinstance(one, streams.Position))

    @property
    def table_id(self) -> str | None:
        return self.positions[-1].table_id if self.positions else None

    def reads(self, table_id: str) -> bool:
        """Return whether one of the offsets is a position in a table."""
        return any(one.table_id == table_id for one in self.positions)

    @property
    def finding(self) -> Finding:
        """Return whether the offsets can be read, and are of the same table: Spark gives an offset to the source whose
        place it has, which refuses that of another one.
        """
        both = self.end, self.start
        found = [_of_unread(one, "an offset cannot be read") for one in both if isinstance(one, streams.Unread)]
        # A share in the Parquet form may go on in the Delta form.
        if self.positions and any(
            isinstance(one, streams.OtherOffset) and one.kind is streams.SourceKind.OTHER for one in both
        ):
            found.append(Finding(Verdict.DEAD, "the offsets of its last two batches are of different kinds of sources"))
        if len({one.table_id for one in self.positions}) > 1:
            found.append(Finding(Verdict.DEAD, "the offsets of its last two batches are of different tables"))
        return worst(found)


@dataclass(frozen=True)
class StreamCheckpoint:
    """A checkpoint directory. `name` is its path as the user wrote it; `query_id` is None where it cannot be read.

    `newest` is the newest planned batch (None: none was planned), `before` the entry below it that a restart reads, and
    `is_committed` whether the newest one is finished and its file in `commits` can be read. `findings` are what is
    wrong with the directory and its offsets.
    """

    name: str
    storage: ReadStorage = field(repr=False, compare=False)
    query_id: str | None = None
    newest: int | None = None
    before: int | None = None
    is_committed: bool = False
    sources: tuple[SourceOffsets, ...] = ()
    findings: tuple[Finding, ...] = ()
    of_commit: Finding = OK
    """What is wrong with the newest file of `commits`. It does not bear on which tables the query reads."""
    of_metadata: Finding = OK
    """What is wrong with the file `metadata`."""
    touched_ms: int | None = None
    """When the newest file of `offsets` and `commits` was written, epoch milliseconds; an idle query writes none."""
    is_named_by_user: bool = False
    """Whether its path was named. A pattern may well match queries of other tables."""

    @property
    def uri(self) -> str:
        return self.storage.uri

    @property
    def batch(self) -> int | None:
        """Return the batch after which a restart goes on: the newest one if it is finished, else the one before."""
        return self.newest if self.is_committed else self.before

    def position(self, source: SourceOffsets) -> streams.Offset:
        """Return where a restart goes on in a source: after `batch`. At batch 0 that is where the source began, if the
        checkpoint holds it; Delta's own source keeps it in the first snapshot only.
        """
        if self.is_committed or not isinstance(source.end, streams.Position):
            return source.end
        if source.start is not None:
            return source.start
        end = source.end
        return end.first_of_source or (replace(end, delivered=0) if end.in_snapshot else None)

    @property
    def may_read_named_table(self) -> bool:
        """Return whether the user says that it reads the tables asked about: it is named, and reads a table."""
        return self.is_named_by_user and any(source.positions for source in self.sources)

    @property
    def findings_of_files(self) -> tuple[Finding, ...]:
        """Return what is wrong with the files that each restart reads, whatever the sources are."""
        return (*self.findings, self.of_commit, self.of_metadata)

    @property
    def finding(self) -> Finding:
        """Return the verdict of the directory itself, without any table."""
        return worst([*self.findings_of_files, *(source.finding for source in self.sources)])

    def is_named(self, query: str) -> bool:
        """Return whether QUERY, an id or a path, names this query."""
        return query == self.query_id or query.rstrip("/") in (self.name.rstrip("/"), self.uri)


def _of_unread(found: streams.Unread, what: str) -> Finding:
    return Finding(Verdict.DEAD if found.is_cut else Verdict.UNKNOWN, f"{what}: {found.reason}")


# -- finding -----------------------------------------------------------------------------------------------------------


def find_checkpoints(
    names: Sequence[str], open_: Opener, engine: Engine, *, progress: Progress = SILENT
) -> list[StreamCheckpoint]:
    """Read the checkpoint directories at paths and patterns, each once, in their order.

    Raises Refused (`streams.none-found`) for a pattern without one, Unreadable (`streams.not-a-checkpoint`) for a path
    that is none, UsageError for a share, and what a store raises that cannot be listed for a pattern.
    """
    places: dict[str, _Place] = {}
    wanted: list[tuple[str, bool, list[str]]] = []
    for name in names:
        storage = open_(name)
        if is_shared_table(storage):
            raise errors.UsageError(
                f"{errors.parameter('streams.checkpoints', name)} is the address of a share",
                code="usage.checkpoints",
                hint="name a directory that a query has as its checkpointLocation",
            )
        is_of_many = is_pattern(storage, name)
        here = list(_matches(name, open_)) if is_of_many else [_Place(name, storage)]
        places |= {
            identify_directory(one.storage): one for one in here if identify_directory(one.storage) not in places
        }
        wanted.append((name, is_of_many, [identify_directory(one.storage) for one in here]))
    found = dict(_read_all(list(places.values()), engine, progress))
    for name, is_of_many, keys in wanted:
        if not any(found[places[key]] is not None for key in keys):
            raise _none_found(name) if is_of_many else _not_a_checkpoint(name, places[keys[0]].storage)
    named_by_user = {key for _, is_of_many, keys in wanted if not is_of_many for key in keys}
    return [
        replace(checkpoint, is_named_by_user=key in named_by_user)
        for key, checkpoint in ((key, found[place]) for key, place in places.items())
        if checkpoint is not None
    ]


def _matches(pattern: str, open_: Opener) -> Iterator[_Place]:
    """Yield the directories that a pattern matches. What Spark writes into a checkpoint is not looked at; it may
    contain other checkpoints, and a query may be called as what Spark writes.
    """
    prefix, segments = split_pattern(pattern)
    base = open_(prefix or ".")

    def directories(at: str) -> list[str]:
        try:
            names = base.list_directories(at)
        except errors.FileMissing:
            return []
        return [one for one in names if one not in _OF_SPARK] if {OFFSETS, COMMITS} <= set(names) else names

    parent = base if is_prefix_store(base) else None
    for below in find_matching_directories(directories, segments, table_marker=""):
        name = join_name(prefix, quote(below) if prefix.startswith("file:") else below) or "."
        storage = parent.below(below) if below and parent is not None else open_(name)
        yield _Place(name, storage, parent, below)


def _read_all(
    places: Sequence[_Place], engine: Engine, progress: Progress
) -> Iterator[tuple[_Place, StreamCheckpoint | None]]:
    """Yield directories with their checkpoints, in any order; None for other directories."""
    at_once = max([1, *(one.storage.capabilities.parallel_reads for one in places)])

    def read(listed: tuple[_Place, _Listed | None]) -> tuple[_Place, StreamCheckpoint | None]:
        place, batches = listed
        return place, read_checkpoint(place.name, place.storage, batches)

    found = engine.run(read, _listed(places), at_once=at_once)
    return report_items(found, progress, "reading stream checkpoints", unit="directories", total=len(places))


def _listed(places: Iterable[_Place]) -> Iterator[tuple[_Place, _Listed | None]]:
    """Yield directories with what pages of all keys have of them, None for those that must be listed. A page is asked
    for when the directories before are being read.
    """
    for parent, group in groupby(places, lambda one: one.parent):
        rest, apart = sorted(group, key=lambda one: one.prefix), _FEWEST
        while len(rest) >= _FEWEST and parent is not None:
            try:
                files, is_all = parent.list_page_from(rest[0].prefix)
            except errors.StorageFailed:
                break  # listed one by one, each has its own fault
            listed = list(_whole(files, rest, is_all=is_all))
            count = len(listed)
            if is_all or count - listed.count(None) >= _FEWEST:
                apart = _FEWEST
            else:
                count, apart = max(count, 1) + apart, 2 * apart
            yield from zip_longest(rest[:count], listed)
            rest = rest[count:]
        yield from ((one, None) for one in rest)


def _whole(files: Sequence[FileStat], places: Iterable[_Place], *, is_all: bool) -> Iterator[_Listed | None]:
    """Yield what a page has of directories, in order, as far as it has them whole. None for one without a batch: in the
    order of some stores it is on another page. That page has all of it, or nothing.
    """
    names = [one.name for one in files]

    def batches(directory: str) -> _Batches:
        part = files[bisect_left(names, f"{directory}/") : bisect_left(names, f"{directory}0")]
        return _by_number(one._replace(name=one.name[len(directory) + 1 :]) for one in part)

    for one in places:
        if not is_all and (not names or names[-1] < f"{one.prefix}{OFFSETS}0"):
            return
        found = batches(one.prefix + COMMITS), batches(one.prefix + OFFSETS)
        yield found if found[1] else None


def _none_found(pattern: str) -> errors.Refused:
    return errors.Refused(
        f"no checkpoint of a streaming query matches {pattern}",
        code="streams.none-found",
        facts={"a checkpoint has": "the directories offsets and commits, and the file metadata"},
        hint="name the directories that the queries have as checkpointLocation",
    )


def _not_a_checkpoint(name: str, storage: ReadStorage) -> errors.Unreadable:
    return errors.Unreadable(
        f"{name} is not a checkpoint of a streaming query: it has no offsets, commits or metadata",
        code="streams.not-a-checkpoint",
        facts={"path": storage.uri},
        hint=errors.command("streams", checkpoints=f"{name.rstrip('/')}/*"),
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def read_checkpoint(name: str, storage: ReadStorage, listed: _Listed | None = None) -> StreamCheckpoint | None:
    """Return the state of a checkpoint directory, with what is wrong with it; None for another directory. `listed`
    is what was listed of it just now.
    """
    try:
        found = _read(StreamCheckpoint(name, storage), listed)
        metadata = _content(storage, METADATA)
    except (errors.StorageFailed, errors.PathExternal) as fault:
        return _unreachable(StreamCheckpoint(name, storage), fault)
    if metadata is None:
        if found.newest is None and not found.findings:
            return None
        why = (
            "the file metadata is missing: Spark 4.3 refuses; 4.1 goes on at the same offsets with a new id of the "
            "query, by which a Delta table as sink does not recognize a batch that it has"
        )
        return replace(found, of_metadata=Finding(Verdict.UNKNOWN, why))
    query_id = streams.read_query_id(metadata)
    if isinstance(query_id, streams.Unread):
        return replace(found, of_metadata=_of_unread(query_id, "the file metadata cannot be read"))
    return replace(found, query_id=query_id)


def _unreachable(checkpoint: StreamCheckpoint, fault: errors.DeltacliError) -> StreamCheckpoint:
    finding = Finding(Verdict.UNKNOWN, f"it cannot be read: {fault.message}")
    return replace(checkpoint, sources=(), findings=(finding,))


@dataclass(frozen=True)
class _NewestBatches:
    """The files of batches that Spark reads at every start, by number and content.

    Attributes:
        planned: The newest file of `offsets`; None if no batch was planned.
        end: Content of that file.
        before: The file of `offsets` below it; None without one.
        start: Content of that file.
        finished: The newest file of `commits`; None without one.
        commit_problem: Why Spark cannot read that file; None if it can.
        touched_ms: When the newest file of both was written, in epoch milliseconds; None without any.
    """

    planned: int | None
    end: streams.OffsetEntry | streams.Unread | None
    before: int | None
    start: streams.OffsetEntry | streams.Unread | None
    finished: int | None
    commit_problem: streams.Unread | None
    touched_ms: int | None

    @property
    def is_finished(self) -> bool:
        """Return whether the newest planned batch is finished.

        A batch whose commit file cannot be read counts as unfinished: no query starts before that file is deleted, and
        then the batch runs again and reads its files.
        """
        return self.planned is not None and self.finished == self.planned and self.commit_problem is None


class _FileVanished(Exception):
    """A file was deleted after it had been listed: a running query purges old batches."""


def _read(checkpoint: StreamCheckpoint, listed: _Listed | None) -> StreamCheckpoint:
    """Return a checkpoint with its newest batches, which are listed again if a file vanishes meanwhile."""
    storage = checkpoint.storage
    for known in (listed, *[None] * (_MOST_LISTINGS - 1)):
        commits, offsets = known or (_batches(storage, COMMITS), _batches(storage, OFFSETS))
        if known and max(commits, default=-1) > max(offsets, default=-1):
            continue  # a page may be of several moments
        try:
            batches = _read_newest(storage, commits, offsets)
        except _FileVanished:
            continue
        return replace(
            checkpoint,
            newest=batches.planned,
            before=batches.before,
            is_committed=batches.is_finished,
            sources=tuple(_sources(batches.start, batches.end)),
            findings=(*_findings(batches), *_find_left_checksums(storage, batches)),
            of_commit=_find_commit_problem(storage, batches),
            touched_ms=batches.touched_ms,
        )
    restless = Finding(Verdict.UNKNOWN, f"its files vanished while they were read, {_MOST_LISTINGS} times")
    return replace(checkpoint, sources=(), findings=(restless,))


def _read_newest(storage: ReadStorage, commits: _Batches, offsets: _Batches) -> _NewestBatches:
    """Read the newest commit file and the two newest offset files. Raises _FileVanished."""
    planned, before = [*sorted(offsets, reverse=True)[:2], None, None][:2]
    finished = max(commits, default=None)
    newest_files = [
        *([] if finished is None else [commits[finished]]),
        *([] if planned is None else [offsets[planned]]),
    ]
    return _NewestBatches(
        planned=planned,
        end=_read_batch(storage, OFFSETS, offsets, planned, streams.read_offsets),
        before=before,
        start=_read_batch(storage, OFFSETS, offsets, before, streams.read_offsets),
        finished=finished,
        commit_problem=_read_batch(storage, COMMITS, commits, finished, streams.read_commit),
        touched_ms=max((file.modified_ms for file in newest_files), default=None),
    )


def _read_batch(
    storage: ReadStorage, directory: str, files: _Batches, number: int | None, parse: Callable[[bytes], _Parsed | None]
) -> _Parsed | streams.Unread | None:
    """Return what a file of a batch contains; None without a number. Raises _FileVanished."""
    if number is None:
        return None
    name = files[number].name
    if name != str(number):
        # Spark lists `007` as batch 7, and then opens `7`.
        return streams.Unread(f"Spark looks for {directory}/{number}, not {directory}/{name}", is_cut=True)
    content = _content(storage, f"{directory}/{name}")
    if content is None:
        raise _FileVanished
    return parse(content)


def _batches(storage: ReadStorage, directory: str) -> _Batches:
    try:
        return _by_number(storage.list_from(directory))
    except errors.FileMissing:
        return {}


def _by_number(files: Iterable[FileStat]) -> _Batches:
    """Return the files of batches, by number; of two with one number, that which Spark writes."""
    numbered = sorted(((streams.batch_of(one.name), one) for one in files), key=_by_spelling)
    return {number: one for number, one in numbered if number is not None}


def _by_spelling(file: tuple[int | None, FileStat]) -> int:
    return -len(file[1].name)


def _content(storage: ReadStorage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except errors.FileMissing:
        return None


def _sources(
    start: streams.OffsetEntry | streams.Unread | None, end: streams.OffsetEntry | streams.Unread | None
) -> Iterator[SourceOffsets]:
    """Yield the sources of a query: those of the newest entry, and of format 2 those that only the one before has."""
    first, last = (one.offsets if isinstance(one, streams.OffsetEntry) else {} for one in (start, end))
    for name in dict.fromkeys([*last, *first]):
        yield SourceOffsets(name, first.get(name), last.get(name, first.get(name)))


def _findings(batches: _NewestBatches) -> Iterator[Finding]:
    """Yield what prevents a restart, whatever the sources are. Source: MicroBatchExecution.populateStartOffsets."""
    planned, before, finished = batches.planned, batches.before, batches.finished
    if finished is not None and (planned is None or finished > planned):
        yield Finding(Verdict.DEAD, f"commits/{finished} has no offsets/{finished}: a restart ends in an error")
    if planned is None:
        return

    if planned and before is None:
        yield Finding(Verdict.DEAD, f"offsets/{planned - 1} is missing, which a restart reads")
    elif before is not None and before != planned - 1:
        why = f"offsets/{planned - 1} is missing: only a query with async progress tracking restarts"
        yield Finding(Verdict.AT_RISK, why)

    for number, entry in ((planned, batches.end), (before, batches.start)):
        if isinstance(entry, streams.Unread):
            yield _of_unread(entry, f"offsets/{number} cannot be read")
    yield from _find_changed_sources(batches)


def _find_commit_problem(storage: ReadStorage, batches: _NewestBatches) -> Finding:
    """Return what is wrong with the newest file of `commits`, or with the place where a restart will write one."""
    planned, finished = batches.planned, batches.finished
    if planned is None or (finished is not None and finished > planned):
        return OK  # nothing is planned that could be recorded; `_findings` has the commit without a batch
    if batches.commit_problem is not None:
        return _describe_unreadable_commit(storage, batches, batches.commit_problem)
    return OK if finished == planned else _find_directory_of_commit(storage, planned)


def _describe_unreadable_commit(storage: ReadStorage, batches: _NewestBatches, problem: streams.Unread) -> Finding:
    """Return the finding about the newest commit file, with the way out if no Spark can read it.

    On local paths the checksum file of Hadoop has to be deleted, too: as long as it is there, Spark cannot write the
    commit file anew.
    """
    name = f"commits/{batches.finished}"
    finding = _of_unread(problem, f"{name} cannot be read")
    if not problem.is_cut:
        return finding
    is_local = storage.capabilities.has_cheap_requests
    deleted = f"{name} and commits/.{batches.finished}.crc are deleted" if is_local else f"{name} is deleted"
    return finding._replace(because=f"{finding.because}. Once {deleted}, a restart runs batch {batches.planned} again")


def _find_directory_of_commit(storage: ReadStorage, planned: int) -> Finding:
    """Return whether a directory stands where a restart will write the commit file of the batch in flight.

    Spark does not count it as a finished batch, runs the batch again at every start, and then fails. Object stores
    have no directories.
    """
    if not storage.capabilities.has_cheap_requests:
        return OK
    try:
        directories = storage.list_directories(COMMITS)
    except errors.FileMissing:
        return OK
    if str(planned) not in directories:
        return OK
    return Finding(
        Verdict.DEAD, f"commits/{planned} is a directory: a restart runs batch {planned}, but cannot finish it"
    )


def _find_left_checksums(storage: ReadStorage, batches: _NewestBatches) -> Iterator[Finding]:
    """Yield the checksum files of Hadoop that stand where a restart will write the files of its next batch.

    They are left where the last batch was deleted by hand. Spark takes such a file for one of another query that runs
    with the same checkpoint, and fails once. Only local file systems have them.
    """
    if batches.planned is None or not storage.capabilities.has_cheap_requests:
        return
    next_offsets = batches.planned + 1
    next_commit = next_offsets if batches.finished == batches.planned else batches.planned
    for directory, number in ((OFFSETS, next_offsets), (COMMITS, next_commit)):
        checksum = f"{directory}/.{number}.crc"
        if storage.kind_of(checksum) is not PathKind.FILE:
            continue
        # A running query writes the file first, then its checksum. So the file is looked for after the checksum.
        if storage.kind_of(f"{directory}/{number}") is PathKind.MISSING:
            why = f"{checksum} was left when {directory}/{number} was deleted: it stops once at that batch. Delete it"
            yield Finding(Verdict.AT_RISK, why)


def _find_changed_sources(batches: _NewestBatches) -> Iterator[Finding]:
    """Yield the difference between the numbers of sources, which format 1 tells apart by their position only."""
    start, end = batches.start, batches.end
    if not isinstance(start, streams.OffsetEntry) or not isinstance(end, streams.OffsetEntry):
        return
    if start.format == end.format == 1 and len(start.offsets) != len(end.offsets):
        counts = f"offsets/{batches.before} has {len(start.offsets)} sources, offsets/{batches.planned}"
        yield Finding(Verdict.DEAD, f"{counts} has {len(end.offsets)}")


def read_newest_file(storage: ReadStorage, directory: str) -> bytes | None:
    """Return the content of the file with the highest number in a directory, or None without one."""
    files = _batches(storage, directory)
    return _content(storage, f"{directory}/{files[max(files)].name}") if files else None
