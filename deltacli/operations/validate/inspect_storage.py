"""Listing the whole log and the whole table, and what each step of `validate` is expected to cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.core.errors import FileMissing, NotATable, PermissionRefused
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import Progress, ProgressPlan, report_items, start_plan
from deltacli.delta.log import segment
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import decode, decode_path_bytes
from deltacli.engine.base import Engine
from deltacli.rules.framework.views import LocatedAction, StoredFile, Totals
from deltacli.storage import FileStat, PathKind, ReadStorage, leads_outside
from deltacli.table.find_log import find_blocked_commit_name, list_log
from deltacli.table.missing_log import build_missing_path_error
from deltacli.work.table_files import TableFiles
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    from deltacli.table.walk import CachedWalk
    from deltacli.work.files.directories import DirectoryListing, ResolvedDirectory, Subdirectory

# -- the whole log -----------------------------------------------------------------------------------------------------

STAGED_DIRECTORY = "_staged_commits"
_FILES_A_REPORT = 1_000


class WholeLog(NamedTuple):
    """Everything in `_delta_log`, by name, size and time."""

    files: tuple[segment.LogFile, ...]
    directories: tuple[str, ...]
    sidecars: tuple[StoredFile, ...]
    staged: tuple[StoredFile, ...]
    listing: segment.LogListing
    has_hint: bool
    exists: bool


class WholeTable(NamedTuple):
    """Every file below the root except those of the log, and the directories that are tables of their own. `unlisted`
    are links to directories outside the table.
    """

    files: dict[str, StoredFile]
    nested_logs: tuple[str, ...]
    unlisted: tuple[str, ...] = ()


def list_log_whole(storage: ReadStorage, progress: Progress) -> WholeLog:
    """List the log and its directories. Raises NotATable where the path does not exist or is a file."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            raise build_missing_path_error(storage)
        case PathKind.FILE:
            message = "this is a file; a table is a directory that contains _delta_log"
            raise NotATable(message, code="table.path-is-file", facts={"path": storage.uri})
    try:
        entries = storage.list_from(segment.LOG_DIRECTORY)
        counted = report_items(entries, progress, "listing the log", unit="files", every=_FILES_A_REPORT)
        files = tuple(segment.make_log_file(stat.name, stat.size_bytes, stat.modified_ms) for stat in counted)
        directories = tuple(storage.list_directories(segment.LOG_DIRECTORY))
    except FileMissing:
        return WholeLog((), (), (), (), segment.read_listing(()), has_hint=False, exists=False)
    listing = segment.read_listing(files)
    if (name := find_blocked_commit_name(storage, listing)) is not None and name not in directories:
        directories += (name,)  # a link to nothing
    return WholeLog(
        files,
        directories,
        _stored(storage, segment.SIDECAR_DIRECTORY, directories),
        _stored(storage, STAGED_DIRECTORY, directories),
        listing,
        has_hint=any(file.name == segment.HINT_NAME for file in files),
        exists=True,
    )


def is_hint_ahead(storage: ReadStorage, listing: segment.LogListing, data: bytes) -> bool:
    """Return True for a hint of a checkpoint that somebody wrote after the log was listed."""
    hint = segment.read_hint(data)
    if not isinstance(hint, segment.Hint) or any(one.version == hint.version for one in listing.checkpoints):
        return False
    now = list_log(storage, start_version=hint.version)
    return any(one.version == hint.version for one in now.checkpoints)


def _stored(storage: ReadStorage, name: str, directories: tuple[str, ...]) -> tuple[StoredFile, ...]:
    if name not in directories or leads_outside(storage, f"{segment.LOG_DIRECTORY}/{name}"):
        return ()
    entries = storage.list_from(f"{segment.LOG_DIRECTORY}/{name}")
    return tuple(StoredFile(stat.name, stat.size_bytes, stat.modified_ms) for stat in entries)


def list_table(stores: TableStores, engine: Engine, progress: Progress, walk: CachedWalk | None = None) -> WholeTable:
    """List every file below the root except those of the log; nested tables are reported and listed, too. With a
    `walk`, only what it leaves out is listed.
    """
    from deltacli.work.files.directories import ResolvedDirectory, resolve_table_path

    nested, unlisted = list[str](), list[str]()
    root = ResolvedDirectory("", resolve_table_path(stores.storage))
    if walk is not None and (found := _of_walk(stores.storage, walk, root)) is not None:
        return found
    listing = _list_by_tasks(stores, engine, root) if engine.may_repeat else _ListingHere(stores.storage)
    walked = _walk(root, listing, nested, unlisted)
    files = {
        file.path: file
        for file in report_items(walked, progress, "listing the table", unit="files", every=_FILES_A_REPORT)
    }
    return WholeTable(files, tuple(sorted(nested)), tuple(sorted(unlisted)))


def _of_walk(storage: ReadStorage, walk: CachedWalk, root: ResolvedDirectory) -> WholeTable | None:
    """Return the files of a walk, with those that it leaves out; None where it met links, which it does not follow."""
    found: dict[str, StoredFile] = {}
    nested, unlisted, log = set[str](), list[str](), f"/{segment.LOG_DIRECTORY}/"
    batches = list(walk.files())
    if walk.links:
        return None
    for files in batches:
        names: Any = files.paths
        paths = [decode_path_bytes(path) for path in names.to_pylist()]
        if files.sizes is None or files.modified_ms is None:
            sizes, times = storage.stat_many(paths)
        else:
            sizes, times = files.sizes.to_pylist(), files.modified_ms.to_pylist()
        archive_classes = dict(files.archived)
        for path, size_bytes, modified_ms in zip(paths, sizes, times, strict=True):
            if log in path:
                nested.add(path.partition(log)[0])
            elif size_bytes >= 0:
                found[path] = StoredFile(path, size_bytes, modified_ms, archive_classes.get(path, ""))
    for directory in sorted(walk.skipped_directories):
        above, _, name = directory.rpartition("/")
        if name == segment.LOG_DIRECTORY:
            nested.add(above)
            continue
        logs = list[str]()
        left = _walk(
            root._replace(path=directory, place=f"{root.place}/{directory}"), _ListingHere(storage), logs, unlisted
        )
        found |= {file.path: file for file in left}
        nested.update(logs)
    return WholeTable(found, tuple(sorted(nested)), tuple(sorted(unlisted)))


class _Listing(Protocol):
    """Finds what is in a directory."""

    def files(self, directory: ResolvedDirectory) -> Iterable[FileStat]:
        """Return the files."""

    def inner(self, directory: ResolvedDirectory) -> Iterable[Subdirectory]:
        """Return the directories."""

    def is_outside(self, path: str, inner: Subdirectory) -> bool:
        """Return True if a directory is outside the table, because a link leads to it."""


def _walk(root: ResolvedDirectory, listing: _Listing, nested: list[str], unlisted: list[str]) -> Iterator[StoredFile]:
    """Yield every file by directory. Links that may be a cycle are not followed; those outside are `unlisted`."""
    seen = {root.place}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        prefix = f"{directory.path}/" if directory.path else ""
        for stat in listing.files(directory):
            yield StoredFile(f"{prefix}{stat.name}", stat.size_bytes, stat.modified_ms, stat.archive_class)
        for inner in listing.inner(directory):
            if inner.name == segment.LOG_DIRECTORY:
                if directory.path:
                    nested.append(directory.path)
            elif inner.place not in seen:
                seen.add(inner.place)
                path = f"{prefix}{inner.name}"
                if listing.is_outside(path, inner):
                    unlisted.append(path)
                else:
                    waiting.append(root._replace(path=path, place=inner.place))


@dataclass(frozen=True)
class _ListingHere:
    """Lists directories when they are asked for."""

    storage: ReadStorage

    def files(self, directory: ResolvedDirectory) -> Iterable[FileStat]:
        return self.storage.list_from(directory.path)

    def inner(self, directory: ResolvedDirectory) -> Iterable[Subdirectory]:
        from deltacli.work.files.directories import list_subdirectories

        return list_subdirectories(self.storage, directory)

    def is_outside(self, path: str, inner: Subdirectory) -> bool:  # noqa: ARG002
        return leads_outside(self.storage, path)


@dataclass(frozen=True)
class _ListingAtHand:
    """Returns what tasks have listed, by the place of the directory: links may give it several paths."""

    listed: Mapping[str, DirectoryListing]

    def files(self, directory: ResolvedDirectory) -> Iterable[FileStat]:
        return self.listed[directory.place].files

    def inner(self, directory: ResolvedDirectory) -> Iterable[Subdirectory]:
        return self.listed[directory.place].directories

    def is_outside(self, path: str, inner: Subdirectory) -> bool:  # noqa: ARG002
        return inner.is_outside


def _list_by_tasks(stores: TableStores, engine: Engine, root: ResolvedDirectory) -> _ListingAtHand:
    """List every directory once, level by level."""
    from deltacli.work.files.directories import list_directory

    listed: dict[str, DirectoryListing] = {}
    level = {root.place: root}
    while level:
        pieces = list(level.values())
        found = engine.run_tasks(list_directory, pieces, stores, at_once=stores.storage.capabilities.parallel_reads)
        level = {}
        for piece, one in zip(pieces, found, strict=True):
            listed[piece.place] = one
            below = f"{piece.path}/" if piece.path else ""
            for inner in one.directories:
                if inner.name != segment.LOG_DIRECTORY and not inner.is_outside:
                    level.setdefault(inner.place, root._replace(path=f"{below}{inner.name}", place=inner.place))
        level = {place: piece for place, piece in level.items() if place not in listed}
    return _ListingAtHand(listed)


def make_exists(storage: ReadStorage, files: TableFiles) -> Callable[[str], bool | None]:
    """Return a function that returns whether an absolute path or URI exists; None for stores other than local disks. An
    inaccessible path counts as existing, and `files` records it as not checked.
    """
    is_local = storage.uri.startswith("file:")

    def exists(path: str) -> bool | None:
        bare = path[len("file:") :] if path.startswith("file:") else path
        if not is_local or not bare.startswith("/"):
            return None
        return not files.is_local_path_allowed(path) or os.path.exists("/" + decode(bare).lstrip("/"))

    return exists


def find_archived(storage: ReadStorage, listed: Mapping[str, str]) -> dict[str, str]:
    """Return which files cannot be read before their store has restored them, with their archive class.

    A listing does not say which files are restored, so that every file is asked for, several at a time. The listing
    decides unless the store reports a restored copy, or the file is gone by now.

    Args:
        storage: The store of the table.
        listed: The archive class of each file, by path, according to a listing.
    """

    def is_archived(path: str) -> bool:
        try:
            return not storage.stat(path).is_restored
        except FileMissing:
            return False
        except PermissionRefused:
            return True

    with ThreadPool(storage.capabilities.parallel_reads) as pool:
        answers = list(pool.map(is_archived, listed))
    return {path: listed[path] for path, answer in zip(listed, answers, strict=True) if answer}


# -- the expected cost -------------------------------------------------------------------------------------------------

READING_ROWS, READING_FOOTERS = "reading rows", "reading footers"

_NEAR = {
    "reading the checkpoint": 2.2e-6,
    "looking for duplicates": 1.1e-6,
    "comparing the checkpoint": 5.7e-6,
    "checking the log": 2.2e-8,
    "checking the state": 2.2e-6,
    "listing the table": 4.7e-6,
    "comparing files": 2.3e-6,
    READING_FOOTERS: 4e-5,
    READING_ROWS: 1e-8,
    "reading change data": 2e-4,
}
"""Seconds per row, byte of commits, file, and byte of data files: processor time of one core for 1,000,000 adds and for
20,000 files on a disk. A byte of commits takes 1.5e-8 where adds have long statistics and 2.6e-8 where they have short
ones.
"""
_FAR = {"listing the table": 7.4e-5, READING_FOOTERS: 2.5e-3, "checking the log": 5e-8}
"""Those of remote stores: listing from docs/scale.md, footers as in `core/progress.py`, commits estimated."""
_ONLY_OF = {
    "listing the table": ("storage", "footers", "data"),
    "comparing files": ("storage", "footers", "data"),
    READING_FOOTERS: ("footers", "data"),
    READING_ROWS: ("data",),
    "reading change data": ("footers", "data"),
}
OPENING_BYTES = 64 << 10
"""How many bytes of rows take as long as opening a file does: 20,000 files of 4 KB took 0.7 to 1 ms each."""
_BYTES_A_COMMITTED_FILE, _BYTES_A_ROW, _BYTES_A_DATA_FILE = 400, 40, 1 << 20
"""What a file takes in a commit and in a checkpoint, and what it has, until that is known."""


def foreseen(progress: Progress, level: str, *, is_far: bool) -> AbstractContextManager[ProgressPlan]:
    """Start the progress of a validation."""
    costs = _NEAR | (_FAR if is_far else {})
    costs = {what: cost for what, cost in costs.items() if level in _ONLY_OF.get(what, (level,))}
    return start_plan(progress, "checking the table", costs)


class Foresight:
    """Tells the plan of a validation how much there is to do: from the sizes of the log, from the files that its
    commits add, from the rows of its checkpoints.
    """

    def __init__(self, plan: ProgressPlan, log: WholeLog, *, with_rows: bool) -> None:
        self._plan, self._asks_for_rows, self._with_rows = plan, with_rows, with_rows
        self._config = TableConfiguration()
        commits = log.listing.commits
        self._commit_bytes, self._bytes_done = sum(file.size_bytes for file in commits.values()), 0
        sizes = [sum(part.size_bytes for part in instance.files) for instance in log.listing.checkpoints]
        self._checkpoints = sum(sizes) / max([*sizes, 1])
        """How many as large as the largest they would be."""
        self._checkpoint_bytes = sum(sizes) + sum(file.size_bytes for file in log.sidecars)
        self._has_all = 0 in commits
        self._files = self._commit_bytes / _BYTES_A_COMMITTED_FILE if self._has_all else self._rows_of(1 / _BYTES_A_ROW)
        self._bytes_a_file: float = _BYTES_A_DATA_FILE
        self._plan.expect("checking the log", self._commit_bytes)
        self._tell()

    def take_config(self, config: TableConfiguration) -> None:
        """Learn from a schema whether rows can be read; else only the footers of the files are."""
        if not self._asks_for_rows or config.metadata is self._config.metadata:
            return
        from deltacli.work.rows.row_checks import ChecksOfTable

        self._config, self._with_rows = config, ChecksOfTable(config).are_possible
        self._tell()

    def take_live(self, size_bytes: int, live: Totals | None) -> None:
        """Learn from the live files after a commit, if they are known, how many there will be."""
        self._bytes_done += size_bytes
        if live is not None:
            self._extrapolate(self._bytes_done, live.files, live.size_bytes)

    def take_first(self, size_bytes: int, config: TableConfiguration, adds: Sequence[LocatedAction]) -> None:
        """Learn from the first commit before it is checked, which takes about as long as reading it did."""
        self.take_config(config)
        self._extrapolate(size_bytes, len(adds), sum(placed.action.get("size") or 0 for placed in adds))

    def _extrapolate(self, commit_bytes: int, files: int, size_bytes: int) -> None:
        if files:
            growth = self._commit_bytes / max(commit_bytes, 1) if self._has_all else 1.0
            self._files, self._bytes_a_file = files * growth, size_bytes / files
            self._tell()

    def take_rows(self, rows: int, size_bytes: int, *, is_known: bool) -> None:
        """Learn from rows of a checkpoint and what they take in its file."""
        if not is_known:
            self._files = self._rows_of(rows / max(size_bytes, 1))
            self._tell()

    def _rows_of(self, rows_a_byte: float) -> float:
        return self._checkpoint_bytes * rows_a_byte / max(self._checkpoints, 1)

    def _tell(self) -> None:
        rows = self._files * self._checkpoints
        self._plan.expect("reading the checkpoint", rows)
        self._plan.expect("looking for duplicates", rows)
        self._plan.expect(
            "comparing the checkpoint", rows if self._has_all else max(rows - self._files, 0)
        )  # one is first
        for what in ("checking the state", "listing the table", "comparing files"):
            self._plan.expect(what, self._files)
        self._plan.expect(READING_FOOTERS, 0 if self._with_rows else self._files)
        self._plan.expect(READING_ROWS, self._files * (self._bytes_a_file + OPENING_BYTES) if self._with_rows else 0)
