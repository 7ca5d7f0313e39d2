"""The interface of every store: its operations, what they guarantee, and the errors that they raise.

`ReadStorage` is what reading needs, `Storage` adds writing. Both are protocols: a back end
implements the methods and does not inherit. `tests/storage/test_contract.py` holds each back end to
the guarantees stated here.

Interfaces that only some stores have are in `optional_interfaces.py` and `directory_identity.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from deltacli.core.errors import FileMissing, NoAtomicCreate, StorageFailed
from deltacli.core.typing import BinaryFile
from deltacli.storage.outcomes import Creation, Deletion, Unknown

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects

# A table is partitioned on its first levels. Listing these one by one finds parts that can be
# listed in parallel.
_LEVELS_LISTED_ONE_BY_ONE = 2

# More concurrent reads than processors, because they wait for the network; limited by file
# descriptors.
PARALLEL_READS = 16

# Connections to one host that are kept open. Tables that are used at the same time share them.
MOST_CONNECTIONS = 8 * PARALLEL_READS

# How long a request is repeated by default, counted from its first failure. The help of the option
# states it, too.
RETRY_BUDGET = timedelta(minutes=1)

CONNECT_SECONDS = 10


class FileStat(NamedTuple):
    """Properties of one file.

    Attributes:
        name: The name in its directory.
        size_bytes: The size.
        modified_ms: When the file was last written, in epoch milliseconds.
        tag: What an object store calls the content. Only known if this single file was asked for.
        md5: The MD5 of the content in hexadecimal digits, if the store reports it for a single
            file.
        archive_class: The storage class of a file that cannot be read before the store has restored
            it, spelled as the store does (`DEEP_ARCHIVE`). '' for every other file.
        is_restored: Whether the store has a restored copy that can be read, if this single file was
            asked for.
    """

    name: str
    size_bytes: int
    modified_ms: int
    tag: str = ""
    md5: str = ""
    archive_class: str = ""
    is_restored: bool = False


class PathKind(StrEnum):
    """The kind of thing that a path leads to."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


class WalkEntry(NamedTuple):
    """Some entries of a directory that a walk found.

    A large directory is reported in several of these, without duplicates.

    Attributes:
        directory: The path of the directory below the root of the store; '' for the root.
        names: Regular files, relative to `directory`. They contain `/` if the store lists flat.
        sizes: Their sizes; None if that would take one call per file.
        modified_ms: Their modification times; None if that would take one call per file.
        special: Names that are neither regular files nor directories: links, pipes, sockets. On
            object stores, the markers of directories, whose name ends with `/` or is '' for the
            directory itself.
        is_empty: Whether the directory has no entries, or only Hadoop's checksum files whose files
            are gone.
        directory_modified_ms: The time of an empty directory, on a store that has directories.
        archived: Name and archive class (see `FileStat`) of files that have one. Empty in nearly
            every table.
    """

    directory: str
    names: list[str]
    sizes: list[int] | None
    modified_ms: list[int] | None
    special: list[str]
    is_empty: bool = False
    directory_modified_ms: int | None = None
    archived: tuple[tuple[str, str], ...] = ()


ShouldDescend = Callable[[str, Sequence[str]], Iterable[str]]
"""Receives the path of a directory and the names of its subdirectories, and returns those to walk into."""


class Capabilities(NamedTuple):
    """The abilities of a store, so that callers need not check which store it is.

    Attributes:
        has_cheap_requests: A request takes microseconds, as on a local disk, and a whole directory is listed by one
            request. Callers then repeat checks instead of caching results.
        parallel_reads: The useful number of concurrent reads: 1 on a disk, more over a network.
        atomic_create: Of several writers that create one name, exactly one succeeds, and readers
            never see a partial file. A store without it is read-only.
        has_directories: Directories exist independently of their files, so empty ones remain.
        lists_flat: A walk does not distinguish directories on lower levels (`is_flat_level`).
    """

    has_cheap_requests: bool
    parallel_reads: int
    atomic_create: bool
    has_directories: bool = False
    lists_flat: bool = False


def is_flat_level(depth: int, directories: int) -> bool:
    """Return whether a level of a walk is listed flat, as one range of names, instead of directory
    by directory.

    Args:
        depth: The level, 0 for the root.
        directories: The number of directories on the level. Enough of them keep all connections
            busy.
    """
    return depth >= _LEVELS_LISTED_ONE_BY_ONE or (depth > 0 and directories >= PARALLEL_READS)


class Draft(Protocol):
    """A temporary local file that appears in the store when it is published. It is removed at the
    end in any case.

    Raises what the writing methods of `Storage` raise.
    """

    @property
    def local_path(self) -> str:
        """The path of an empty local file to write to."""

    def publish(self, *, replace: bool = False) -> Creation:
        """Give the file its name, as `put_if_absent` does. With `replace`, an existing file is
        replaced.

        May be called again after an unknown outcome.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...


class ReadStorage(Protocol):
    """The files below one root, to be read. Thread-safe.

    Paths are relative to the root, with `/` between their parts and without percent-encoding.

    Every method raises FileMissing if the named file or directory does not exist, PermissionRefused
    if access is denied, and StorageFailed for any other failure of the store. No other errors are
    raised.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI without a trailing slash."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other URIs of the same root, spelled as `uri` is."""

    @property
    def versions(self) -> VersionedObjects | None:
        """The versions of the files; None if stores of this kind keep none."""

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files directly in `directory` whose names are `>= start`, bytewise ascending,
        each once.

        Directories are left out. Nothing is cached between two calls. A caller that stops early
        causes no further requests.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the directories directly in `directory`, ascending."""

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield all entries below `directory`, in no particular order, each regular file once.

        Links are not followed. A directory that is deleted meanwhile is skipped; an unreadable one
        raises PermissionRefused. Stores without directories report only those that contain files.
        Nothing is cached, and no request is running once the iterator is closed or exhausted.

        Args:
            directory: Where to begin.
            enter: Called for a directory after its last listing. Subdirectories that it does not
                return are not listed. A store that lists flat calls it on the upper levels only, so
                the caller checks the paths of files again.
        """

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, or fewer if the file ends before."""

    def open(self, path: str) -> BinaryFile:
        """Open the file for random access."""

    def tag(self, path: str, opened: Any) -> str:
        """Return an identifier of the content that an open file reads. It changes when the file is
        rewritten.

        Args:
            path: The path of the file.
            opened: What `open` returned for the path.
        """

    def kind_of(self, path: str) -> PathKind:
        """Return what a path leads to. An object store has no empty directories."""

    def stat(self, path: str) -> FileStat:
        """Return the properties of one file."""

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return sizes and modification times in milliseconds.

        Both are -1 for a path that is missing, not a regular file, or behind a link. An error is
        raised if that cannot be determined.
        """


class Storage(ReadStorage, Protocol):
    """The files below one root, to be written as well.

    Methods that write raise NoAtomicCreate if the store cannot create files atomically.
    """

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        """Create the file unless the name exists. Of several concurrent calls, exactly one returns
        Created.

        Readers never see a partial file. If an error is raised, nothing was written.

        Args:
            path: Where to create it. Parent directories are created.
            data: The content.
            modified_ms: The modification time, on stores whose files have one to set. Readers never
                see another.
        """

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        """Write the file, replacing an existing one. Readers see the complete old or the complete new one."""

    def draft(self, path: str) -> Draft:
        """Return a draft of a file of any size that appears at `path` when it is published. Use it in a `with`."""

    def copy_within(self, source: str, target: str) -> Creation:
        """Copy a file to another path of the store, as `put_if_absent` creates one, and compare the
        sizes.

        The bytes do not pass through this process if the store can copy. A local copy keeps the
        time of its source.
        """

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete files and yield the outcome of each, in the given order; in bulk if the store
        supports it.

        A refusal of the store, for lack of permission or because of throttling, is Failed and is
        not raised. Of a link, the link is deleted and not its target. A directory is Failed.

        Args:
            paths: Consumed lazily, so there may be millions. If the caller stops early, the others
                remain.
        """

    def remove_directory(self, path: str) -> Deletion:
        """Remove a directory that is empty, or that holds only Hadoop's checksum files without
        their files.

        Missing on a store without directories.
        """


def no_atomic_create(uri: str, why: str) -> NoAtomicCreate:
    """Return the refusal to write to a store where two writers could both believe to have created one file."""
    return NoAtomicCreate(
        "a store without atomic creation is read-only",
        facts={"store": uri, "why": why},
        hint="write through a local path, gs://, abfss://, or s3:// on a store that honours If-None-Match",
    )


def stat_created(storage: ReadStorage, path: str, outcome: Creation) -> FileStat:
    """Return the properties of a file after an attempt to create it.

    Raises:
        StorageFailed: If the file is not there, with the store's answer to the attempt. It is never
            FileMissing, which a caller could take for an error about the file that was to be
            copied.
    """
    try:
        return storage.stat(path)
    except FileMissing as error:
        raise not_created(storage, path, outcome) from error


def not_created(storage: ReadStorage, path: str, outcome: Creation) -> StorageFailed:
    """Return the error for a file that was to be created and is not there."""
    if isinstance(outcome, Unknown):
        reason = outcome.cause
    else:
        reason = "it was deleted right after it had been written"
    return StorageFailed(f"{storage.uri.rstrip('/')}/{path} cannot be written", facts={"why": reason})


def folds_names(storage: ReadStorage) -> bool:
    """Return whether names of files are case-insensitive.

    Nothing is written: on such a store the directory of the log exists under a second spelling,
    although a listing shows only one of the two.
    """
    if not storage.capabilities.has_directories:
        return False

    spellings = ("_DELTA_LOG", "_delta_log")
    if any(storage.kind_of(name) is not PathKind.DIRECTORY for name in spellings):
        return False
    return not set(spellings) <= set(storage.list_directories(""))
