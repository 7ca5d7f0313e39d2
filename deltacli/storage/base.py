"""The storage port: the operations of every back end, their guarantees and faults, and limits of the files to open.

An untrusted table can name any file or host by an absolute path, by `..` or by a symbolic link.

Spec: Add File and Remove File.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Self, runtime_checkable
from urllib.parse import unquote

from deltacli.core.errors import (
    FileMissing,
    NoAtomicCreate,
    NoSpace,
    PathExternal,
    PermissionRefused,
    Refused,
    StorageFailed,
    UsageError,
    parameter,
)
from deltacli.core.texts import require_path
from deltacli.core.typing import BinaryFile
from deltacli.storage.outcomes import Creation, Deletion, Unknown

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects

_LEVELS = 2
"""Levels of directories that are listed one by one by stores that list flat."""

PARALLEL_READS = 16
"""Concurrent reads on a remote store: more than processors because reads wait, but limited by file descriptors."""
MOST_CONNECTIONS = 8 * PARALLEL_READS
"""Connections to a host that are kept for the next request: tables that are used at once share them."""
RETRY_BUDGET = timedelta(minutes=1)
"""How long a request is repeated by default, from its first failure; the help of the option repeats it."""
CONNECT_SECONDS = 10
"""Seconds after which connecting to a remote store is given up."""


class FileStat(NamedTuple):
    """One file of a listing: its name in the directory, its size, and when it was last written.

    `tag` is what an object store calls the content, where a single file was asked for, and `md5` the MD5 of its bytes
    in hexadecimal digits, where the store reports it. `archive_class` is the storage class of a file that cannot be
    read before its store has restored it, as the store spells it (`DEEP_ARCHIVE`); '' for every other file.
    `is_restored` is True where a single file was asked for and the store reports a restored copy, which can be read.
    """

    name: str
    size_bytes: int
    modified_ms: int
    tag: str = ""
    md5: str = ""
    archive_class: str = ""
    is_restored: bool = False


class PathKind(StrEnum):
    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


class WalkEntry(NamedTuple):
    """The entries of a directory found by a walk. A large directory is split into several listings without duplicates.

    `directory` is the path below the root, '' for the root; `names` are those of regular files, relative to it, with a
    `/` in them where the store lists flat. `sizes` and `modified_ms` are None where they would need a call per file.
    `special` are names of entries that are neither regular files nor directories: links, pipes, sockets, and on object
    stores the markers, whose name ends in `/` or is '' for the directory's own. `is_empty`: the directory has no
    entries, or only checksum files of Hadoop whose files are gone; then, on a store that has directories,
    `directory_modified_ms` is its time. `archived` are the names of files that have an archive class (see `FileStat`),
    with that class: none in nearly every table.
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
"""Gets the path of a directory and the names of its subdirectories; returns those to walk into."""


class Capabilities(NamedTuple):
    """The capabilities of a store, so that callers need not check its name.

    `cheap_listing`: a whole directory takes one call, so starting in the middle saves nothing. `parallel_reads`: useful
    number of concurrent reads: many over a network, else 1. `atomic_create`: of several writers that create one name,
    exactly one succeeds, and readers never see a partial file. Without it a store is read-only. `has_directories`:
    directories exist apart from their files, so that empty ones remain. `lists_flat`: a walk does not distinguish
    directories on lower levels (`is_flat_level`).
    """

    cheap_listing: bool
    parallel_reads: int
    atomic_create: bool
    has_directories: bool = False
    lists_flat: bool = False


def is_flat_level(depth: int, directories: int) -> bool:
    """Return True for a level of a walk, from 0, with so many directories, that is better listed flat."""
    return depth >= _LEVELS or (depth > 0 and directories >= PARALLEL_READS)


def no_atomic_create(uri: str, why: str) -> NoAtomicCreate:
    """Return the refusal to write to a store where two writers could both assume to have created one file."""
    return NoAtomicCreate(
        "a store without atomic creation is read-only",
        facts={"store": uri, "why": why},
        hint="write through a local path, gs://, abfss://, or s3:// on a store that honours If-None-Match",
    )


def require_writable(storage: ReadStorage) -> None:
    """Raise NoAtomicCreate for a store known to be read-only, without a request; UsageError for a share."""
    if isinstance(storage, StoreOfVersions | StoreWithBounds):
        raise storage.refusal()
    if not storage.capabilities.atomic_create:
        raise no_atomic_create(storage.uri, "this store is not known to create files atomically")
    if isinstance(storage, StoreWithGrant):
        storage.begin_to_write()


class Draft(Protocol):
    """A temporary file that becomes visible by `publish`; an unpublished one is removed.

    Raises what the methods of `Storage` that write raise.
    """

    @property
    def place(self) -> str:
        """The local path of an empty file to write to."""

    def publish(self, *, replace: bool = False) -> Creation:
        """Give the file its name as `put_if_absent` does; with `replace` an existing file is replaced. May be called
        again where the outcome is unknown.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...


class ReadStorage(Protocol):
    """The files below one root, to be read. Paths are relative to it, with `/` between their parts and no
    percent-encoding.

    Every method raises FileMissing where the named file or directory is absent, PermissionRefused where access is
    denied and StorageFailed for any other fault of the store. No other errors are raised. All methods are thread-safe.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI without a trailing slash."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other URIs of the same root, written as `uri` is."""

    @property
    def versions(self) -> VersionedObjects | None:
        """The versions of the files; None for a store of a kind that keeps none."""

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files directly in `directory` whose names are `>= start`, bytewise ascending, each once.

        Directories are left out. Nothing is cached between two calls. A caller that stops early causes no further
        requests.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the directories directly in `directory`, ascending."""

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield the entries in `directory` and below it, in no particular order, each regular file once.

        `enter` is called for a directory after its last listing; directories that it omits are not listed. A store that
        lists flat calls it on the upper levels only, so the caller has to check the paths of the files again. Links are
        not followed. A directory deleted meanwhile is skipped; an unreadable one raises PermissionRefused. Stores
        without directories return only those with files. Nothing is cached, and no request is running once the
        iterator is closed or exhausted.
        """

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only where the file ends."""

    def open(self, path: str) -> BinaryFile:
        """Open the file for random access."""

    def tag(self, path: str, opened: Any) -> str:
        """Return an identifier of the content that `opened`, returned by `open` for `path`, reads; it changes when the
        file is rewritten.
        """

    def kind_of(self, path: str) -> PathKind:
        """Return the kind of `path`; an object store has no empty directories."""

    def stat(self, path: str) -> FileStat:
        """Return name, size and time of one file."""

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return sizes and modification times, both -1 for a path that is missing, not a regular file, or behind a
        link. Raises where that cannot be determined.
        """


class Storage(ReadStorage, Protocol):
    """The files below one root, to be written, too; NoAtomicCreate where the store cannot create atomically."""

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        """Create the file unless the name exists; of several concurrent calls exactly one returns Created.

        Readers never see a partial file, nor, where the store keeps times, another time than `modified_ms`. Parent
        directories are created. If an error is raised, nothing was written.
        """

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        """Write the file, replacing an existing one; readers see the complete old or new one."""

    def draft(self, path: str) -> Draft:
        """Return a draft of a file of any size that appears at `path` when it is published; use it in a `with`."""

    def copy_within(self, source: str, target: str) -> Creation:
        """Copy a file of the store to another path of it, as `put_if_absent` creates one, and compare the sizes. The
        bytes do not pass through this process where the store can copy. A local copy has the time of the source.
        """

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete the paths and yield the outcome of each, in the given order; in bulk where the store supports it.

        Paths are consumed lazily, so there may be millions. Stopping early leaves the rest undeleted. A refusal of the
        store, for lack of permission or because of throttling, is Failed and not raised. For a link the link is
        deleted, not its target; a directory is Failed.
        """

    def remove_directory(self, path: str) -> Deletion:
        """Remove a directory if it is empty, checksum files of Hadoop without their files apart; Missing on a store
        without directories.
        """


@runtime_checkable
class StoreOfVersions(Protocol):
    """A store that shows one version of a table at a time."""

    def at(self, version: int | None, timestamp_ms: int | None) -> Storage:
        """Return the store of a version, or of the newest one at a time; neither: of the newest one."""

    def expecting(
        self,
        *,
        where: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        at_ms: int | None = None,
    ) -> Storage:
        """Return the store for one scan of the rows that match a condition, or for some rows: files without any may be
        left out.
        """

    def between(self, first: int, last: int) -> Storage:
        """Return the store with the commits of a range of versions, both included."""

    def recent(self, limit: int) -> Storage:
        """Return the store with the commits of the newest `limit` versions (0: all), as far as they are known."""

    # Methods, because `isinstance` evaluates properties, and these ask the server.
    def untimed_versions(self) -> frozenset[int]:
        """Return the versions whose times are not known: their commit files have times that only keep their order."""

    def knows_protocol(self) -> bool:
        """Return whether the protocol is that of the table, not one that suffices to read what the store shows."""

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def newest_version(self) -> int:
        """Return the newest version that exists now."""

    def has_change_feed(self) -> bool:
        """Return whether the newest version says that changes are recorded."""

    def version_since(self, timestamp_ms: int) -> int:
        """Return the first version committed at or after a time."""

    def version_until(self, timestamp_ms: int) -> int:
        """Return the last version committed at or before a time."""


Place = tuple[str, int, int]
"""The identity of a directory: the kernel that numbers devices, since its start, the device and the inode."""


@cache
def running_kernel() -> str:
    """Return a text that identifies the running kernel since its start; '' where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as source:
            return source.read().strip()
    except (OSError, ValueError):
        return ""


class Openable(Protocol):
    """What tells another process how to open a store: a small value that can be pickled, and compared with others."""

    @property
    def allowed(self) -> Allowed:
        """The prefixes that links may point to."""

    def open(self) -> Storage:
        """Open the store."""

    def open_other(self, uri: str) -> Storage:
        """Open the store of files elsewhere."""


@runtime_checkable
class StoreWithBounds(Protocol):
    """A store whose table reads files elsewhere only where the giver of its credentials allows it, with credentials for
    them, whatever the user allows.
    """

    def to_send(self) -> Openable:
        """Return what another process needs to open it, with credentials that last for some time."""

    def open_within(self, uri: str) -> Storage:
        """Return the store of a directory that one of the locations covers."""

    def allowed_within(self) -> Allowed:
        """Return the locations."""

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""

    def require_announced(self, table_id: str | None, newest: int) -> None:
        """Raise Unreadable unless the log is that of the table that was announced, and not older. None: unknown."""


@runtime_checkable
class StoreOfPrefix(Protocol):
    """A store of the objects below a prefix, which can look above it, and list directories together."""

    def with_above(self, name: str) -> str | None:
        """Return the URI of the nearest prefix above the root that has a directory of a name; None without one."""

    def below(self, directory: str) -> Storage:
        """Return the store of a directory, which shares client, connections and credentials."""

    def page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the files at and below the root that one request lists from a path on, and whether there are no more.
        Names are paths, ascending, and include those that end in `/`. ([], False) where the store cannot do so.
        """


@runtime_checkable
class StoreWithGrant(Protocol):
    """A store that may have been opened with credentials that a server gave to this process."""

    def begin_to_write(self) -> None:
        """Ask for credentials that suffice to write, once, where those so far are to read."""


def is_of_this_process(storage: ReadStorage) -> bool:
    has_grant = getattr(storage, "grant", None) is not None
    is_managed = getattr(storage, "catalog_store", None) is not None
    return has_grant or isinstance(storage, StoreOfVersions) or is_managed


@runtime_checkable
class StoreWithPlace(Protocol):
    """A store whose root is a path, where a link or a rename can put another directory at any time."""

    @property
    def place(self) -> Place | None:
        """The directory that the store is bound to; None for one that follows its path."""

    def held(self, place: Place | None = None) -> Storage:
        """Return the store bound to the directory that is at its path now, so that it writes there or not at all: what
        writes raises Refused (`plan.other-place`) once the path leads elsewhere. The same store where nothing is at the
        path yet, or where the file system gives the directory another identity each time.

        With a `place`, that of a plan or of another process of the same kernel, raises the same where the directory is
        another one; so does a store that is bound already.
        """

    def require_place(self) -> None:
        """Raise Refused (`plan.other-place`) where the store is bound to a directory that is not at its path now."""


def held(storage: Storage, place: Place | None = None) -> Storage:
    """Return the store bound to the directory at its path, if it has one. Raises Refused where that is not `place`."""
    return storage.held(place) if isinstance(storage, StoreWithPlace) else storage


def require_place(storage: ReadStorage) -> None:
    """Raise Refused (`plan.other-place`) where a store is bound to a directory that is not at its path now."""
    if isinstance(storage, StoreWithPlace):
        storage.require_place()


OTHER_PLACE = "plan.other-place"


def other_place(path: str) -> Refused:
    """Return the refusal to write to a path that leads to another directory than when the change was planned."""
    return Refused(
        f"another directory is at {path} than when this was planned",
        code=OTHER_PLACE,
        facts={"why": "the directory was renamed or replaced, or a link in its path leads elsewhere now"},
    )


def folds_names(storage: ReadStorage) -> bool:
    """Return True where file names are case-insensitive; tested with the files of the table's log, without writing."""
    if not storage.capabilities.has_directories:
        return False
    spellings = ("_DELTA_LOG", "_delta_log")
    if any(storage.kind_of(name) is not PathKind.DIRECTORY for name in spellings):
        return False
    return not set(spellings) <= set(storage.list_directories(""))


# -- translation of errors of the operating system about local files to errors of deltacli -----------------------------

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def reason_of(fault: OSError) -> str:
    text = os.strerror(fault.errno) if fault.errno else " ".join(str(fault).split())[:200]
    return text.lower()


def disk_fault(fault: OSError, name: str, place: str, what: str) -> StorageFailed:
    """Return the error of a file at `place`, called `name`, that could not be `what`, such as "written"."""
    reason, preamble = reason_of(fault), f"{name} cannot be {what}: "
    if fault.errno in _DENIED:
        where = _visible(place if what == "read" else os.path.dirname(place))
        denied = PermissionRefused(reason, preamble=preamble, hint=f"ls -ld {shlex.quote(where)}")
        denied.denied_path = where
        return denied
    if fault.errno in _NO_SPACE:
        return NoSpace(reason, preamble=preamble, hint=f"df -h {shlex.quote(_visible(os.path.dirname(place)))}")
    return StorageFailed(reason, preamble=preamble)


def stat_created(storage: ReadStorage, path: str, outcome: Creation) -> FileStat:
    """Return facts about a file after an attempt to create it.

    Raises:
        StorageFailed: If the file is not there. The error has the answer of the store to the attempt, and is no
            FileMissing, which a caller could take for one about the file that was to be copied.
    """
    try:
        return storage.stat(path)
    except FileMissing as fault:
        raise not_created(storage, path, outcome) from fault


def not_created(storage: ReadStorage, path: str, outcome: Creation) -> StorageFailed:
    """Return the error for a file that was to be created and is not there."""
    why = outcome.cause if isinstance(outcome, Unknown) else "it was deleted right after it had been written"
    return StorageFailed(f"{storage.uri.rstrip('/')}/{path} cannot be written", facts={"why": why})


@contextmanager
def writing_faults(place: str, name: str) -> Iterator[None]:
    """Raise StorageFailed where the block cannot write the file at `place`, which errors refer to as `name`."""
    try:
        yield
    except OSError as fault:
        raise disk_fault(fault, name, place, "written") from fault


def _visible(place: str) -> str:
    """Return the path, or the nearest accessible directory above it, which lacks the permission."""
    while not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place


def is_no_file(place: str) -> bool:
    """Return whether a name is taken by something else than a file or a link to one, such as a directory."""
    try:
        return not (os.path.isfile(place) or stat.S_ISREG(os.lstat(place).st_mode))
    except (OSError, ValueError):
        return False


# -- what stores that nothing is written to have in common -------------------------------------------------------------


class ReadOnlyFiles(ABC):
    """The part of the port that writes, all of it refused. Such a store has no other names and keeps no versions."""

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def versions(self) -> None:
        return None

    @abstractmethod
    def _refuse(self) -> NoReturn:
        """Raise the refusal."""

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def draft(self, path: str) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def copy_within(self, source: str, target: str) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def delete_many(self, paths: Iterable[str]) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def remove_directory(self, path: str) -> NoReturn:  # noqa: ARG002
        self._refuse()


# -- limits on the location of files to open ---------------------------------------------------------------------------

_ROOT = r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/*"

_WHY = "only files of the table itself are opened; if you trust the table, allow a prefix"

_MOST_ESCAPES = 4
"""Maximum number of decodings of a path to find hidden `..`."""


class Allowed(NamedTuple):
    """Prefixes outside a table below which its files may be opened: local directories without symbolic links, and URIs
    as `deltacli.delta.paths.spelling.canonical` spells them.
    """

    directories: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @classmethod
    def of(cls, prefixes: Iterable[str]) -> Self:
        """Sort canonical prefixes into local ones, whose links are resolved, and URIs. Raises UsageError for a prefix
        that names neither a directory nor a host or bucket.
        """
        directories, uris = list[str](), list[str]()
        for prefix in prefixes:
            require_path(prefix, parameter("open_table.allow_external"))
            scheme, separator, rest = prefix.partition("://")
            if not separator and prefix:
                directories.append(os.path.realpath(prefix))
            elif separator and scheme and rest.strip("/"):
                uris.append(prefix.rstrip("/"))
            else:
                raise UsageError(
                    f"{parameter('open_table.allow_external')} {prefix!r} does not name a directory, host or bucket",
                    code="usage.allow-external",
                    hint=parameter("open_table.allow_external", "s3://BUCKET/PATH"),
                )
        return cls(tuple(directories), tuple(uris))

    def has_directory(self, real: str) -> bool:
        """Return whether a local path without links is one of the prefixes or lies below one."""
        return any(is_below(real, directory) for directory in self.directories)

    def has_uri(self, uri: str) -> bool:
        """Return whether a canonical URI lies below a prefix, without any `..` that a server might decode."""
        return any(is_below(uri, prefix) for prefix in self.uris) and not _may_climb(uri)


NOTHING = Allowed()


def is_below(path: str, prefix: str) -> bool:
    """Return whether a path is a prefix or lies below it, compared by whole segments."""
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")


def _may_climb(uri: str) -> bool:
    for _ in range(_MOST_ESCAPES):
        if ".." in uri.replace("\\", "/").split("/"):
            return True
        if (decoded := unquote(uri, errors="surrogateescape")) == uri:
            return False
        uri = decoded
    return True


def path_external(path: str, root: str, place: str, *, is_directory: bool = False) -> PathExternal:
    """Return the refusal to open `place`, outside the table or store at `root`. The prefix to allow is a directory
    itself, or one around a file, but not the root of a disk.
    """
    prefix = (None if re.fullmatch(_ROOT, place) else place) if is_directory else _prefix_around(place)
    return PathExternal(
        f"{path} was not opened: it leads outside {root}", facts={"leads to": place, "why": _WHY}, prefix=prefix
    )


def _prefix_around(place: str) -> str | None:
    """Return the directory to allow for a file, with its partitions; the file itself at the root of a disk."""
    parent = place.rpartition("/")[0]
    above = parent
    while "=" in above.rpartition("/")[2]:
        above = above.rpartition("/")[0]
    return next((prefix for prefix in (above, parent, place) if not re.fullmatch(_ROOT, prefix)), None)
