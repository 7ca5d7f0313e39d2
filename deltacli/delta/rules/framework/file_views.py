"""What checks of data files look at: footers in columns, deletion vectors, and what was learned of rows.

Views are plain data, as in `views.py`. Adds have the fields of `action_schemas().add`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.footers.parse import ChunkFacts, Footer, leaf_columns
from deltacli.delta.footers.schema import FileSchema
from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name
from deltacli.delta.log.place import Place
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.rules.framework.views import OF_CHECKPOINT
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.units import plural

if TYPE_CHECKING:
    import pyarrow


@dataclass
class LiveAdds:
    """Live files in columns, and where the log names them. `versions` are OF_CHECKPOINT, and `lines` None, where a
    checkpoint does.
    """

    adds: pyarrow.RecordBatch
    versions: Sequence[int]
    lines: Sequence[int | None]
    checkpoint_path: str

    def place(self, row: int) -> Place:
        """Where a row stands; its key is the path of the file."""
        key, version = self.adds.column("path")[row].as_py(), self.versions[row]
        if version == OF_CHECKPOINT:
            return Place(self.checkpoint_path, None, None, key)
        return Place(f"{LOG_DIRECTORY}/{commit_name(version)}", self.lines[row], version, key)

    def take(self, rows: Sequence[int]) -> LiveAdds:
        """Some of the rows."""
        import pyarrow as pa

        return LiveAdds(
            pc.take(self.adds, pa.array(rows, pa.int64())),
            [self.versions[row] for row in rows],
            [self.lines[row] for row in rows],
            self.checkpoint_path,
        )


UNREAD = "validate.file-unreadable"
"""The rule about files that are there and could not be read: the right is missing, or a disk or store fails."""


class FileFault(NamedTuple):
    """Why nothing can be said of a file. `code` is a rule: `data.not-parquet`, `data.encrypted`, `data.unreachable` (a
    store that can't be opened), `UNREAD`, or `data.file-missing` (of a file outside the table, which no listing told).
    """

    code: str
    message: str
    seen: str | None = None


@dataclass
class FileFaultView:
    """A live file, or one of change data, that could not be read as Parquet. `place.key` is its path."""

    place: Place
    fault: FileFault


class LeafRows(NamedTuple):
    """What footers say of one column, a row for each row group. `files` are rows of the view. Bounds are bytes as they
    stand in the file, null where there are none.
    """

    files: pyarrow.Int64Array
    values: pyarrow.Int64Array
    nulls: pyarrow.Int64Array
    low: pyarrow.BinaryArray
    high: pyarrow.BinaryArray
    old_low: pyarrow.BinaryArray
    old_high: pyarrow.BinaryArray
    is_low_exact: pyarrow.BooleanArray
    is_high_exact: pyarrow.BooleanArray
    codec: pyarrow.Int64Array


@dataclass
class FootersView:
    """Live files of one schema, up to some thousand."""

    live: LiveAdds
    footers: Sequence[Footer]
    """Of each row of `live`."""
    schema: FileSchema
    config: TableConfiguration
    memory: dict[str, Any] = field(default_factory=dict)  # Any: columns that several checks share, under their names
    run_memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps what it likes, for the whole run
    rows_follow: bool = False
    """True where the rows are read as well, and tell more: an `AnswersView` of the same files comes after this one."""

    @property
    def adds(self) -> pyarrow.RecordBatch:
        return self.live.adds

    def place(self, row: int) -> Place:
        """Where the log names a file."""
        return self.live.place(row)

    @cached_property
    def rows(self) -> pyarrow.Int64Array:
        """How many rows each file has."""
        import pyarrow as pa

        return pa.array([footer.rows for footer in self.footers], pa.int64())

    @cached_property
    def columns(self) -> FileColumns:
        """Finds the columns of the table in these files."""
        return FileColumns(self.config.mapping_mode, self.config.physical_name)

    def leaf(self, index: int) -> LeafRows:
        """What is said of the column with this number in `schema.leaves`."""
        import pyarrow as pa

        known = self.memory.setdefault("leaves", {})
        if index not in known:
            files, fields = leaf_columns(self.footers, index)
            of = dict(zip(ChunkFacts._fields, fields, strict=True))
            kinds = {"codec": pa.int64(), "values": pa.int64(), "nulls": pa.int64()}
            kinds |= dict.fromkeys(("low", "high", "old_low", "old_high"), pa.binary())
            kinds |= dict.fromkeys(("is_low_exact", "is_high_exact"), pa.bool_())
            known[index] = LeafRows(
                files=pa.array(files, pa.int64()), **{name: pa.array(of[name], kind) for name, kind in kinds.items()}
            )
        found: LeafRows = known[index]
        return found


@dataclass
class FileSchemaView:
    """One schema that data files have: seen once, after all files. `files` have it, with `rows` rows together; `place`
    is that of the first.
    """

    schema: FileSchema
    config: TableConfiguration
    place: Place
    files: int
    rows: int
    memory: dict[str, Any] = field(default_factory=dict)  # Any: what several checks share, under their names

    @property
    def in_files(self) -> str:
        """` in 12 files` where there are several."""
        return f" in {self.files:,} files" if self.files > 1 else ""

    @property
    def shown_files(self) -> str:
        """The files, for a message: `part-0.parquet`, `part-0.parquet and 11 other files`."""
        others = self.files - 1
        more = f" and {plural(others, 'other file')}" if others > 0 else ""
        return f"{self.place.key}{more}"


@dataclass
class AllFootersView:
    """After the last footer: every schema that files have. `run_memory` is that of the `FootersView`s. `complete`: the
    footers of all live files were read, so that what holds over all of them can be judged.
    """

    place: Place
    config: TableConfiguration
    schemas: Sequence[FileSchemaView]
    complete: bool
    run_memory: dict[str, Any]  # Any: as in FootersView


class VectorFacts(NamedTuple):
    """A deletion vector that was read: `rows` deleted, the highest of them `last` (-1: none). `code` is the rule that
    it breaks, and `reason` says how; a vector that could not be read has neither of the other two, and no code where
    somebody else tells why. `is_native`: it has the older layout of the reference implementation.
    """

    row: int
    code: str | None
    reason: str
    rows: int | None
    last: int | None
    seen: str | None = None
    expected: str | None = None
    is_native: bool = False


@dataclass
class VectorsView:
    """The deletion vectors of live files. `file_rows`: how many rows the footer of each row of `live` has, None where
    it was not read.
    """

    live: LiveAdds
    vectors: Sequence[VectorFacts]
    file_rows: Sequence[int | None]
    config: TableConfiguration

    def place(self, row: int) -> Place:
        """Where the log names the file with the vector."""
        return self.live.place(row)


class ChangeTypes(NamedTuple):
    """How often a file of change data, or all of a version, says each kind of change. `bad` rows say something else:
    `example` is one of these values.
    """

    counts: Mapping[str, int]
    bad: int = 0
    example: str | None = None


@dataclass
class ChangeFileView:
    """A file of change data that could be read. `types` are only known at level `data`."""

    place: Place
    version: int
    schema: FileSchema
    rows: int
    types: ChangeTypes | None = None


@dataclass
class ChangedVersionView:
    """A version whose files of change data were all read (level `data`). `rows_added`: what its adds bring less what
    its removes take; None where the log can't tell.
    """

    place: Place
    version: int
    types: ChangeTypes
    rows_added: int | None


@dataclass
class AnswersView:
    """What was asked of the rows of live files (level `data`): `answers` of each row of `live`, by question; a file
    that could not be read to its end has none.
    """

    live: LiveAdds
    footers: Sequence[Footer | None]
    answers: Sequence[Mapping[str, Any]]  # Any: what each question makes of a file
    config: TableConfiguration
    schemas: Mapping[bytes, FileSchema]
    """`Footer.schema` -> what it is."""
    memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps what it likes, for the whole run
    limited: bool = False
    """True where not all files were read: what holds over all of them can't be judged."""

    def place(self, row: int) -> Place:
        """Where the log names a file."""
        return self.live.place(row)


@dataclass
class AllRowsView:
    """After the last `AnswersView`: for what can only be told when all rows were seen. `memory` is theirs."""

    place: Place
    config: TableConfiguration
    memory: dict[str, Any]  # Any: as in AnswersView
    limited: bool
