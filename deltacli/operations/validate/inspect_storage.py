"""Listing the whole log with its directories, and the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.core.errors import FileMissing, NotATable
from deltacli.core.progress import Progress, reported
from deltacli.delta.checkpoint.last_checkpoint_content import Hint, read_hint
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltacli.delta.log.segment import LogFile, LogListing, make_log_file, read_listing
from deltacli.delta.paths import decode, text_of
from deltacli.engine.base import Engine
from deltacli.rules.framework.views import StoredFile
from deltacli.storage import FileStat, PathKind, ReadStorage, leads_outside
from deltacli.table.find_log import list_log, taken_name
from deltacli.work.files.listing import (
    InnerDirectory,
    PlacedDirectory,
    PlacedListing,
    inner_directories,
    list_placed,
    real_place,
)
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.task import TableStores

if TYPE_CHECKING:
    from deltacli.table.walk import KeptWalk

_STAGED_DIRECTORY = "_staged_commits"
_FILES_A_REPORT = 1_000


class WholeLog(NamedTuple):
    """Everything in `_delta_log`, by name, size and time."""

    files: tuple[LogFile, ...]
    directories: tuple[str, ...]
    sidecars: tuple[StoredFile, ...]
    staged: tuple[StoredFile, ...]
    listing: LogListing
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
            raise NotATable("no such file or directory", code="table.path-missing", facts={"path": storage.uri})
        case PathKind.FILE:
            message = "this is a file; a table is a directory that contains _delta_log"
            raise NotATable(message, code="table.path-is-file", facts={"path": storage.uri})
    try:
        entries = storage.list_from(LOG_DIRECTORY)
        counted = reported(entries, progress, "listing the log", unit="files", every=_FILES_A_REPORT)
        files = tuple(make_log_file(stat.name, stat.size_bytes, stat.modified_ms) for stat in counted)
        directories = tuple(storage.list_directories(LOG_DIRECTORY))
    except FileMissing:
        return WholeLog((), (), (), (), read_listing(()), has_hint=False, exists=False)
    listing = read_listing(files)
    if (name := taken_name(storage, listing)) is not None and name not in directories:
        directories += (name,)  # a link to nothing
    return WholeLog(
        files,
        directories,
        _stored(storage, SIDECAR_DIRECTORY, directories),
        _stored(storage, _STAGED_DIRECTORY, directories),
        listing,
        has_hint=any(file.name == HINT_NAME for file in files),
        exists=True,
    )


def is_hint_ahead(storage: ReadStorage, listing: LogListing, data: bytes) -> bool:
    """Return True for a hint of a checkpoint that somebody wrote after the log was listed."""
    hint = read_hint(data)
    if not isinstance(hint, Hint) or any(one.version == hint.version for one in listing.checkpoints):
        return False
    now = list_log(storage, start_version=hint.version)
    return any(one.version == hint.version for one in now.checkpoints)


def _stored(storage: ReadStorage, name: str, directories: tuple[str, ...]) -> tuple[StoredFile, ...]:
    if name not in directories or leads_outside(storage, f"{LOG_DIRECTORY}/{name}"):
        return ()
    entries = storage.list_from(f"{LOG_DIRECTORY}/{name}")
    return tuple(StoredFile(stat.name, stat.size_bytes, stat.modified_ms) for stat in entries)


def list_table(stores: TableStores, engine: Engine, progress: Progress, walk: KeptWalk | None = None) -> WholeTable:
    """List every file below the root except those of the log; nested tables are reported and listed, too. With a
    `walk`, only what it leaves out is listed.
    """
    nested, unlisted = list[str](), list[str]()
    root = PlacedDirectory("", real_place(stores.storage))
    if walk is not None and (found := _of_walk(stores.storage, walk, root)) is not None:
        return found
    listing = _list_by_tasks(stores, engine, root) if engine.may_repeat else _ListingHere(stores.storage)
    walked = _walk(root, listing, nested, unlisted)
    files = {
        file.path: file for file in reported(walked, progress, "listing the table", unit="files", every=_FILES_A_REPORT)
    }
    return WholeTable(files, tuple(sorted(nested)), tuple(sorted(unlisted)))


def _of_walk(storage: ReadStorage, walk: KeptWalk, root: PlacedDirectory) -> WholeTable | None:
    """Return the files of a walk, with those that it leaves out; None where it met links, which it does not follow."""
    found: dict[str, StoredFile] = {}
    nested, unlisted, log = set[str](), list[str](), f"/{LOG_DIRECTORY}/"
    batches = list(walk.files())
    if walk.links:
        return None
    for files in batches:
        names: Any = files.paths
        paths = [text_of(path) for path in names.to_pylist()]
        if files.sizes is None or files.modified_ms is None:
            sizes, times = storage.stat_many(paths)
        else:
            sizes, times = files.sizes.to_pylist(), files.modified_ms.to_pylist()
        for path, size_bytes, modified_ms in zip(paths, sizes, times, strict=True):
            if log in path:
                nested.add(path.partition(log)[0])
            elif size_bytes >= 0:
                found[path] = StoredFile(path, size_bytes, modified_ms)
    for directory in sorted(walk.left_out):
        above, _, name = directory.rpartition("/")
        if name == LOG_DIRECTORY:
            nested.add(above)
            continue
        logs = list[str]()
        left = _walk(PlacedDirectory(directory, f"{root.place}/{directory}"), _ListingHere(storage), logs, unlisted)
        found |= {file.path: file for file in left}
        nested.update(logs)
    return WholeTable(found, tuple(sorted(nested)), tuple(sorted(unlisted)))


class _Listing(Protocol):
    """Finds what is in a directory."""

    def files(self, directory: PlacedDirectory) -> Iterable[FileStat]:
        """Return the files."""

    def inner(self, directory: PlacedDirectory) -> Iterable[InnerDirectory]:
        """Return the directories."""

    def is_outside(self, path: str, inner: InnerDirectory) -> bool:
        """Return True if a directory is outside the table, because a link leads to it."""


def _walk(root: PlacedDirectory, listing: _Listing, nested: list[str], unlisted: list[str]) -> Iterator[StoredFile]:
    """Yield every file, directory by directory. A link to a visited directory is not followed, because it may be a
    cycle. One that leads outside the table is added to `unlisted`.
    """
    seen = {root.place}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        prefix = f"{directory.path}/" if directory.path else ""
        for stat in listing.files(directory):
            yield StoredFile(f"{prefix}{stat.name}", stat.size_bytes, stat.modified_ms)
        for inner in listing.inner(directory):
            if inner.name == LOG_DIRECTORY:
                if directory.path:
                    nested.append(directory.path)
            elif inner.place not in seen:
                seen.add(inner.place)
                path = f"{prefix}{inner.name}"
                if listing.is_outside(path, inner):
                    unlisted.append(path)
                else:
                    waiting.append(PlacedDirectory(path, inner.place))


@dataclass(frozen=True)
class _ListingHere:
    """Lists directories when they are asked for."""

    storage: ReadStorage

    def files(self, directory: PlacedDirectory) -> Iterable[FileStat]:
        return self.storage.list_from(directory.path)

    def inner(self, directory: PlacedDirectory) -> Iterable[InnerDirectory]:
        return inner_directories(self.storage, directory)

    def is_outside(self, path: str, inner: InnerDirectory) -> bool:  # noqa: ARG002
        return leads_outside(self.storage, path)


@dataclass(frozen=True)
class _ListingAtHand:
    """Returns what tasks have listed, by the place of the directory: links may give it several paths."""

    listed: Mapping[str, PlacedListing]

    def files(self, directory: PlacedDirectory) -> Iterable[FileStat]:
        return self.listed[directory.place].files

    def inner(self, directory: PlacedDirectory) -> Iterable[InnerDirectory]:
        return self.listed[directory.place].directories

    def is_outside(self, path: str, inner: InnerDirectory) -> bool:  # noqa: ARG002
        return inner.is_outside


def _list_by_tasks(stores: TableStores, engine: Engine, root: PlacedDirectory) -> _ListingAtHand:
    """List every directory once, level by level."""
    listed: dict[str, PlacedListing] = {}
    level = {root.place: root}
    while level:
        pieces = list(level.values())
        found = engine.spread(list_placed, pieces, stores, at_once=stores.storage.capabilities.parallel_reads)
        level = {}
        for piece, one in zip(pieces, found, strict=True):
            listed[piece.place] = one
            below = f"{piece.path}/" if piece.path else ""
            for inner in one.directories:
                if inner.name != LOG_DIRECTORY and not inner.is_outside:
                    level.setdefault(inner.place, PlacedDirectory(f"{below}{inner.name}", inner.place))
        level = {place: piece for place, piece in level.items() if place not in listed}
    return _ListingAtHand(listed)


def make_exists(storage: ReadStorage, files: TableFiles) -> Callable[[str], bool | None]:
    """Return a function that returns whether an absolute path or URI exists; None for stores other than local disks. An
    inaccessible path counts as existing, and `files` records it as not checked.
    """
    is_local = storage.uri.startswith("file:")

    def exists(path: str) -> bool | None:
        import os

        bare = path[len("file:") :] if path.startswith("file:") else path
        if not is_local or not bare.startswith("/"):
            return None
        return not files.may_look(path) or os.path.exists("/" + decode(bare).lstrip("/"))

    return exists
