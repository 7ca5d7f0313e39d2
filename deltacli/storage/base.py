"""The storage port: the few verbs every back end offers, and what each must guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class FileStat:
    """One file of a listing: its name in the directory, its size, and when it was last written."""

    name: str
    size_bytes: int
    modified_ms: int


class PathKind(StrEnum):
    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do, so that nobody has to ask for its name.

    `cheap_listing`: a whole directory costs one call, so there is nothing to save by starting in the middle.
    `parallel_reads`: a read waits for a network, so several at a time are faster than one after the other.
    """

    cheap_listing: bool
    parallel_reads: bool


class Storage(Protocol):
    """The files below one root. Paths are relative to it, with `/` between their parts and no percent-encoding.

    Every method raises FileMissing where the thing named is absent, PermissionRefused where access is denied and
    StorageFailed for any other fault of the store; nothing else leaves a back end.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI without a trailing slash."""

    @property
    def capabilities(self) -> Capabilities: ...

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files directly in `directory` whose names are `>= start`, bytewise ascending, each once.

        Directories are left out. Nothing is cached between two calls. A caller that stops early costs no more than it
        read.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the names of the directories directly in `directory`, ascending."""

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only where the file ends."""

    def open(self, path: str) -> Any:  # Any: whatever pyarrow and a `with` accept as a seekable binary file
        """Open the file for random access."""

    def kind_of(self, path: str) -> PathKind:
        """Tell what lies at `path`; an object store has no empty directories."""
