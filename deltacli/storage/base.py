"""The storage port: the few verbs every back end offers, and what each must guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self

from deltacli.errors import NoAtomicCreate, PermissionRefused

MANY_READS = 16
"""Reads at a time on a store behind a network: they wait, so more than processors, yet few for file descriptors."""


class FileStat(NamedTuple):
    """One file of a listing: its name in the directory, its size, and when it was last written."""

    name: str
    size_bytes: int
    modified_ms: int


class PathKind(StrEnum):
    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


class WalkEntry(NamedTuple):
    """What a walk found in a directory, or a piece of it: a large one comes in several, of which each file is in one.

    `directory` is the path below the root, '' for the root; `names` are those of regular files, relative to it, with a
    `/` in them where the store lists flat. `sizes` and `modified_ms` are None where they would cost a look at each
    file. `odd` are names of what is neither a regular file nor a directory: links, pipes, sockets, and on object
    stores the markers, whose name ends in `/` or is '' for the directory's own. `is_empty` says that there is nothing
    in it at all; then, on a store that has directories, `directory_modified_ms` is its time.
    """

    directory: str
    names: list[str]
    sizes: list[int] | None
    modified_ms: list[int] | None
    odd: list[str]
    is_empty: bool = False
    directory_modified_ms: int | None = None


ShouldDescend = Callable[[str, Sequence[str]], Iterable[str]]
"""Says which of the directories directly in one, whose path and whose directories' names it gets, are walked into."""


class Capabilities(NamedTuple):
    """What a store can do, so that nobody has to ask for its name.

    `cheap_listing`: a whole directory costs one call, so there is nothing to save by starting in the middle.
    `parallel_reads`: how many reads are useful at a time: many where a read waits for a network, else 1.
    `atomic_create`: of all who create one name, one wins and nobody sees half a file. Without it a store is read-only.
    `keeps_times`: a file gets the modification time it is written with; elsewhere that is when it was written.
    `has_directories`: there are directories apart from the files in them, so that empty ones stay behind.
    """

    cheap_listing: bool
    parallel_reads: int
    atomic_create: bool
    keeps_times: bool = False
    has_directories: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """The file was absent and is there now, whole and durable."""


@dataclass(frozen=True, slots=True)
class Existed:
    """Somebody has that name already; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The file may be there, whole, or not at all: only reading it back tells."""

    cause: str


Creation = Created | Existed | Unknown


@dataclass(frozen=True, slots=True)
class Deleted:
    """The file is gone. Stores that don't tell say this of a file that never was, too."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There was no such file: as good as deleted."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The file is still there, or may be. `denied` is the error where permission is missing."""

    reason: str
    denied: PermissionRefused | None = field(default=None, compare=False, repr=False)


Deletion = Deleted | Missing | Failed


def no_atomic_create(uri: str, why: str) -> NoAtomicCreate:
    """The refusal to write to a store where two writers could both believe to have created one file."""
    return NoAtomicCreate(
        "a store that can't create atomically is read-only",
        facts={"store": uri, "why": why},
        hint="write through a local path, or s3:// on a store that honours If-None-Match",
    )


def require_writable(storage: Storage) -> None:
    """Raise NoAtomicCreate for a store that is known to be read-only; nothing is asked of it."""
    if not storage.capabilities.atomic_create:
        raise no_atomic_create(storage.uri, "nothing is known of atomic creation there")


class Draft(Protocol):
    """A file in the making. Nobody sees it before `publish`, and what is not published leaves nothing behind.

    Raises what the methods of `Storage` that write raise.
    """

    @property
    def place(self) -> str:
        """The local path of an empty file to write to."""

    def publish(self, *, replace: bool = False) -> Creation:
        """Give the file its name as `put_if_absent` does; with `replace` in place of whatever has it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Storage(Protocol):
    """The files below one root. Paths are relative to it, with `/` between their parts and no percent-encoding.

    Every method raises FileMissing where the thing named is absent, PermissionRefused where access is denied and
    StorageFailed for any other fault of the store, and what writes raises NoAtomicCreate where the store can't create
    atomically; nothing else leaves a back end. Every method may be called by many threads at a time.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI without a trailing slash."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other URIs of the same root, written as `uri` is."""

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files directly in `directory` whose names are `>= start`, bytewise ascending, each once.

        Directories are left out. Nothing is cached between two calls. A caller that stops early costs no more than it
        read.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the directories directly in `directory`, ascending."""

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield what is in `directory` and below it, in no order: each regular file once.

        `enter` is called for a directory after its last piece; what it leaves out is never listed. A store that lists
        flat asks it on the upper levels only, so the paths of the files have to be judged again. Links are never
        followed. A directory that vanishes meanwhile was never there; one that can't be read raises PermissionRefused.
        Stores without directories tell of those alone that hold files. Nothing is cached, and nothing goes on in the
        background once the iterator is closed or has ended.
        """

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only where the file ends."""

    def open(self, path: str) -> Any:  # Any: whatever pyarrow and a `with` accept as a seekable binary file
        """Open the file for random access."""

    def tag(self, path: str, opened: Any) -> str:
        """Tell the content that `opened`, which `open` gave for `path`, reads: another text once the file was written
        again.
        """

    def kind_of(self, path: str) -> PathKind:
        """Tell what lies at `path`; an object store has no empty directories."""

    def stat(self, path: str) -> FileStat:
        """Tell name, size and time of one file."""

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return sizes and modification times, both -1 for what is missing, is or lies behind a link, or is no regular
        file. What can't be known is raised.
        """

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        """Create the file unless its name is taken; of many who try one is told Created.

        Nobody ever sees half of it, nor, where the store keeps times, with another time than `modified_ms`.
        Directories above it are made. What is raised left nothing behind.
        """

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        """Put the file in place of whatever was there; readers see the old one or the new one, whole."""

    def draft(self, path: str) -> Draft:
        """Begin a file of any size that appears at `path` when it is published, whole; use it in a `with`."""

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Yield what became of each path, each once and in the order given; in bulk where the store can.

        Paths are taken as they are needed, so there may be millions. Stopping early leaves the rest undeleted. What
        the store refuses, for lack of rights or because it is asked too often, is Failed and not raised. A link goes
        itself, never what it leads to; a directory is Failed.
        """

    def remove_directory(self, path: str) -> Deletion:
        """Remove a directory if it is empty; Missing on a store that has none."""


def folds_names(storage: Storage) -> bool:
    """True where a file is found under a name that differs from its own by case; told by the table's log, if it has
    one, without writing anything.
    """
    if not storage.capabilities.has_directories:
        return False
    spellings = ("_DELTA_LOG", "_delta_log")
    if any(storage.kind_of(name) is not PathKind.DIRECTORY for name in spellings):
        return False
    return not set(spellings) <= set(storage.list_directories(""))
