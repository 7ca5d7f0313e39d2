"""What is rewritten together, and what became of it: values that go to a task and come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.encoding.row_digest import Digest

_FILE_WEIGHT = 256 << 10
"""What opening a file costs, in bytes."""


class SourceFile(NamedTuple):
    """A live file to rewrite. Its vector, if it has one, is in `file`; `file.constants` are ignored.

    The last two are those of its add, with row tracking.
    """

    file: DataFile
    base_row_id: int | None = None
    row_commit_version: int | None = None


@dataclass(frozen=True, slots=True)
class RewritePiece:
    """Files of one partition that become one file, in this order of rows; more than one if they are far beyond the
    target size.

    `partition_values` are as in an add (physical names, texts). `directory` is where the new files go: a path below
    the table, not percent-encoded, '' for its root.
    """

    number: int
    sources: tuple[SourceFile, ...]
    partition_values: Mapping[str, str | None]
    directory: str = ""

    @property
    def amount(self) -> int:
        """The number of files that are finished with this piece, for progress."""
        return len(self.sources)

    @property
    def size_bytes(self) -> int:
        """The bytes of the files."""
        return sum(max(source.file.size_bytes or 0, 0) for source in self.sources)

    @property
    def weight(self) -> int:
        """The relative cost of the piece."""
        return self.size_bytes + _FILE_WEIGHT * len(self.sources)


class Ordering(Protocol):
    """An order of rows in new files. It can be pickled."""

    def arrange(self, rows: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows in this order. They have the columns of new files, by physical name (`schema`)."""

    def require_space(self, size_bytes: int) -> None:
        """Raise NoSpace where there is no room for temporary files of the rows of data files of so many bytes."""

    def digest(self) -> Digest:
        """Return an empty digest that does not depend on the order of rows."""


class NewFile(NamedTuple):
    """A file that was written and read back. `path` is as in the log; `stats` is the JSON text of its add."""

    path: str
    size_bytes: int
    rows: int
    stats: str
    modification_ms: int


class NamedFiles:
    """The paths below the table of new files that tasks of this process gave a name or were about to, so that the
    files of tasks whose results are never read can be found. Another process has its own.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __reduce__(self) -> tuple[type[NamedFiles], tuple[()]]:
        return NamedFiles, ()


class RefusedFile(NamedTuple):
    """A source that was left alone: its path in the log, the code of the error, and a sentence that says why."""

    path: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of a piece.

    `files` have exactly the live rows of the sources with the paths `used`. There are none if none of these has a live
    row, and `used` is empty if all sources are `refused`.
    """

    files: tuple[NewFile, ...]
    used: tuple[str, ...]
    refused: tuple[RefusedFile, ...]
    rows: int
