"""The interface that all stores implement, and its data types.

A store contains the files below one root, such as a table directory in a bucket. `ReadStorage`
contains the methods for reading, `Storage` also those for writing. Both are protocols: a back end
implements the methods without inheriting from them. `tests/storage/test_contract.py` checks the
guarantees that are documented here for every back end.

Methods that only some stores have are in `optional_interfaces.py` and `directory_identity.py`.
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

# The partition directories of a table are on its first levels. They are listed one by one, which
# finds prefixes that can be listed in parallel. Below these levels, listing a whole prefix at once
# takes fewer requests.
_LEVELS_LISTED_ONE_BY_ONE = 2

# Reads wait for the network, so more of them run concurrently than the machine has processors. The
# limit on open file descriptors does not allow many more.
PARALLEL_READS = 16

# The number of connections to one host that are kept open. All tables of a run share them.
MOST_CONNECTIONS = 8 * PARALLEL_READS

# The default of `--retry-budget`: how long a request is retried after its first error. The help text
# contains the value as well.
RETRY_BUDGET = timedelta(minutes=1)

CONNECT_SECONDS = 10


class FileStat(NamedTuple):
    """The properties of a file.

    Attributes:
        name: The file name, without the directory.
        size_bytes: The size.
        modified_ms: The modification time in epoch milliseconds.
        tag: The tag that an object store assigns to the content (ETag or generation). `stat` returns
            it; listings do not.
        md5: The MD5 of the content in hexadecimal digits, if the store reports it. `stat` returns it;
            listings do not.
        archive_class: The storage class of a file that must be restored before it can be read, such
            as `DEEP_ARCHIVE`. Empty for all other files.
        is_restored: Whether a restored copy of an archived file can be read. `stat` returns it;
            listings do not.
    """

    name: str
    size_bytes: int
    modified_ms: int
    tag: str = ""
    md5: str = ""
    archive_class: str = ""
    is_restored: bool = False


class PathKind(StrEnum):
    """Whether a path is a file, a directory, or does not exist."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


class WalkEntry(NamedTuple):
    """Entries of a directory, as `ReadStorage.walk` yields them.

    A large directory is divided into several of these. No file occurs twice.

    Attributes:
        directory: The path of the directory, relative to the root of the store; empty for the root.
        names: The regular files, relative to `directory`. A name contains `/` if the store lists a
            whole prefix at once (`Capabilities.lists_flat`).
        sizes: The sizes of the files; None if they would take one request per file.
        modified_ms: The modification times of the files; None if they would take one request per
            file.
        special: The names of entries that are neither files nor directories: links, pipes and
            sockets. For object stores, directory markers: objects whose name ends with `/`, or is
            empty for `directory` itself.
        is_empty: Whether the directory is empty, or only contains Hadoop's checksum files of files
            that no longer exist.
        directory_modified_ms: The modification time of an empty directory. None for stores without
            directories.
        archived: The name and the archive class (see `FileStat`) of each archived file.
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
"""Receives a directory and the names of its subdirectories. Returns the subdirectories to list."""


class Capabilities(NamedTuple):
    """Properties of a store that callers adapt to.

    Attributes:
        has_cheap_requests: Whether a request takes microseconds, as on a local disk, and a single
            request lists a whole directory. Then checks are repeated instead of caching results.
        parallel_reads: The number of concurrent reads that is useful: 1 for a local disk.
        atomic_create: Whether exactly one of several writers can create a file name, and readers
            never see a partial file. A store without atomic creation is read-only.
        has_directories: Whether directories exist independently of the files in them, so that empty
            directories remain.
        lists_flat: Whether a walk lists the lower levels without their directories
            (`is_flat_level`).
    """

    has_cheap_requests: bool
    parallel_reads: int
    atomic_create: bool
    has_directories: bool = False
    lists_flat: bool = False


def is_flat_level(depth: int, directories: int) -> bool:
    """Return whether a walk lists whole prefixes on a level, instead of one directory after another.

    Args:
        depth: The level; 0 for the root.
        directories: The number of directories on the level. If there are enough to use all
            connections, there is no need to look for more on the next level.
    """
    return depth >= _LEVELS_LISTED_ONE_BY_ONE or (depth > 0 and directories >= PARALLEL_READS)


class Draft(Protocol):
    """A temporary local file that becomes a file of the store when it is published.

    Use it in a `with` statement. The temporary file is removed at the end of the block, whether it
    was published or not. The methods raise the same errors as the writing methods of `Storage`.
    """

    @property
    def local_path(self) -> str:
        """The path of the temporary file. It exists and is empty."""

    def publish(self, *, replace: bool = False) -> Creation:
        """Create the file in the store, like `put_if_absent`.

        May be called again if the outcome was unknown.

        Args:
            replace: Whether to replace an existing file.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...


class ReadStorage(Protocol):
    """The files below a root, for reading. Thread-safe.

    Paths are relative to the root, separated by `/` and not percent-encoded.

    Methods with a path raise FileMissing if the file or directory does not exist, PermissionRefused
    if access is denied, and StorageFailed for all other errors of the store.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI without a trailing slash."""

    @property
    def capabilities(self) -> Capabilities:
        """Properties of the store that callers adapt to."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other URIs of the same root, such as `s3a://` for `s3://`. They have the form of `uri`."""

    @property
    def versions(self) -> VersionedObjects | None:
        """The older versions of files; None if this kind of store does not keep any."""

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files directly in a directory, sorted by the bytes of their names.

        Subdirectories are omitted. Each call lists the store again. The pages of a listing are
        requested when they are needed.

        Args:
            directory: The directory.
            start: Only yield files whose name is greater than or equal to this one.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the subdirectories directly in a directory, sorted."""

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield all files below a directory in no particular order, each of them once.

        Links are not followed. A subdirectory that is deleted during the walk is skipped; one that
        cannot be read raises PermissionRefused. Stores without directories only yield directories
        that contain files. When the iterator is closed or exhausted, no request is running.

        Args:
            directory: The directory to start at.
            enter: Called for each directory after all of its entries were yielded. Subdirectories
                that it does not return are not listed. A store that lists whole prefixes only calls
                it for the upper levels, so the caller must check the paths of files again.
        """

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes of a file from `offset`. Fewer bytes are returned at the end of the file."""

    def open(self, path: str) -> BinaryFile:
        """Open a file for random access."""

    def tag(self, path: str, opened: Any) -> str:
        """Return the tag of the content that an open file reads. It changes when the file is rewritten.

        Args:
            path: The path of the file.
            opened: The file that `open` returned for the path.
        """

    def kind_of(self, path: str) -> PathKind:
        """Return whether a path is a file, a directory or missing.

        An object store has no empty directories: they are missing.
        """

    def stat(self, path: str) -> FileStat:
        """Return the properties of a file."""

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the sizes, and the modification times in epoch milliseconds.

        Both are -1 for a path that is missing, not a regular file, or contains a link. If that cannot
        be determined, an error is raised.
        """


class Storage(ReadStorage, Protocol):
    """The files below a root, for reading and writing.

    Methods that write raise NoAtomicCreate if the store cannot create files atomically.
    """

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        """Create a file if the name does not exist. Exactly one of several concurrent calls succeeds.

        Readers never see a partial file. If an error is raised, nothing was written.

        Args:
            path: The path of the new file. Parent directories are created.
            data: The content.
            modified_ms: The modification time, for stores in which it can be set. Readers never see
                the file with another time.
        """

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        """Write a file and replace an existing one. Readers see either the old or the new content.

        Args:
            path: The path of the file. Parent directories are created.
            data: The content.
            modified_ms: The modification time, for stores in which it can be set.
        """

    def draft(self, path: str) -> Draft:
        """Return a draft for a file of any size. The file appears at `path` when it is published."""

    def copy_within(self, source: str, target: str) -> Creation:
        """Copy a file to a path that does not exist, and compare the sizes of both.

        The store copies the bytes itself if it can. On a local disk, the copy has the modification
        time of the source.
        """

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete files and yield the outcome of each, in the given order.

        Files are deleted in batches if the store supports it. If the store refuses to delete a file,
        for lack of permission or because it is too busy, the outcome is Failed; no error is raised.
        A link is deleted, not its target. For a directory the outcome is Failed.

        Args:
            paths: The files. There may be millions: they are consumed while files are deleted. If
                the caller stops early, the remaining files are not deleted.
        """

    def remove_directory(self, path: str) -> Deletion:
        """Remove an empty directory, or one that only contains checksum files of missing files.

        The outcome is Missing for a store without directories.
        """


def no_atomic_create_error(uri: str, why: str) -> NoAtomicCreate:
    """Return the error for a write to a store without atomic creation.

    In such a store, two writers could both believe that they have created a version of the table.

    Args:
        uri: The URI of the store.
        why: Why atomic creation does not work.
    """
    return NoAtomicCreate(
        "a store without atomic creation is read-only",
        facts={"store": uri, "why": why},
        hint="write through a local path, gs://, abfss://, or s3:// on a store that honours If-None-Match",
    )


def stat_created(storage: ReadStorage, path: str, outcome: Creation) -> FileStat:
    """Return the properties of a file after an attempt to create it.

    Args:
        storage: The store.
        path: The file.
        outcome: The outcome of the attempt.

    Raises:
        StorageFailed: If the file does not exist. This is never a FileMissing, which the caller could
            attribute to the source of a copy.
    """
    try:
        return storage.stat(path)
    except FileMissing as error:
        raise _not_created_error(storage, path, outcome) from error


def _not_created_error(storage: ReadStorage, path: str, outcome: Creation) -> StorageFailed:
    """Return the error for a file that does not exist after an attempt to create it."""
    if isinstance(outcome, Unknown):
        reason = outcome.cause
    else:
        reason = "it was deleted right after it had been written"
    return StorageFailed(f"{storage.uri.rstrip('/')}/{path} cannot be written", facts={"why": reason})


def folds_names(storage: ReadStorage) -> bool:
    """Return whether file names are case-insensitive, as on macOS and Windows shares.

    Nothing is written to find out. On a case-insensitive file system, `_DELTA_LOG` exists if
    `_delta_log` does, but a listing only contains one of the two names.
    """
    if not storage.capabilities.has_directories:
        return False

    spellings = ("_DELTA_LOG", "_delta_log")
    if any(storage.kind_of(name) is not PathKind.DIRECTORY for name in spellings):
        return False
    return not set(spellings) <= set(storage.list_directories(""))
