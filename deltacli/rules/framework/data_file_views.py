"""The views of data files for checks: footers in columns, deletion vectors, and results from rows.

Views are plain data, as in `views.py`. Adds have the fields of `action_schemas().add`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.units import plural
from deltacli.delta.footers.columns import FileSchema
from deltacli.delta.footers.parse import ChunkFacts, Footer, collect_leaf_columns
from deltacli.delta.log.segment import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.rules.framework.views import OF_CHECKPOINT


@dataclass(eq=False, repr=False)
class LiveAdds:
    """Live files in columns, and their places in the log: without version (OF_CHECKPOINT) and line in a checkpoint."""

    adds: pa.RecordBatch
    versions: Sequence[int]
    lines: Sequence[int | None]
    checkpoint_path: str

    def place(self, row: int) -> Place:
        """Return the place of a row. Its key is the path of the file."""
        key, version = self.adds.column("path")[row].as_py(), self.versions[row]
        if version == OF_CHECKPOINT:
            return Place(self.checkpoint_path, None, None, key)
        return Place(f"{LOG_DIRECTORY}/{commit_name(version)}", self.lines[row], version, key)

    def take(self, rows: Sequence[int]) -> LiveAdds:
        """Return some of the rows."""
        return LiveAdds(
            pc.take(self.adds, pa.array(rows, pa.int64())),
            [self.versions[row] for row in rows],
            [self.lines[row] for row in rows],
            self.checkpoint_path,
        )


MISSING = "data.file-missing"
VANISHED = "vanished"
"The code of a fault: the file was listed, and deleted before it was read."


class FileFault(NamedTuple):
    """Why a file could not be checked. `code` is a rule: `data.not-parquet`, `data.encrypted`, `data.unreachable` (a
    store that cannot be opened), `UNREAD`, or `MISSING` (for a file outside the table, which no listing covers); or it
    is `VANISHED`.
    """

    code: str
    message: str
    seen: str | None = None


@dataclass(eq=False, repr=False)
class FileFaultView:
    """A live file, or one of change data, that could not be read as Parquet. `place.key` is its path."""

    place: Place
    fault: FileFault


class LeafRows(NamedTuple):
    """A column in footers, a row per row group. `files`: rows of the view. Bounds: bytes of the file, null for none."""

    files: pa.Int64Array
    values: pa.Int64Array
    nulls: pa.Int64Array
    low: pa.BinaryArray
    high: pa.BinaryArray
    old_low: pa.BinaryArray
    old_high: pa.BinaryArray
    is_low_exact: pa.BooleanArray
    is_high_exact: pa.BooleanArray
    codec: pa.Int64Array


class _OfLiveFiles:
    """A view whose rows are live files."""

    live: LiveAdds

    def place(self, row: int) -> Place:
        """Return where the log names a file."""
        return self.live.place(row)


@dataclass(eq=False, repr=False)
class FootersView(_OfLiveFiles):
    """Live files of one schema, up to some thousand."""

    live: LiveAdds
    footers: Sequence[Footer]
    "For each row of `live`."
    schema: FileSchema
    config: TableConfiguration
    memory: dict[str, Any] = field(default_factory=dict)  # Any: columns that several checks share, by name
    run_memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps its own data for the whole run
    rows_follow: bool = False
    "True if the rows are read as well and give more precise results: an `AnswersView` of the same files follows."

    @property
    def adds(self) -> pa.RecordBatch:
        return self.live.adds

    @cached_property
    def rows(self) -> pa.Int64Array:
        """Return how many rows each file has."""
        return pa.array([footer.rows for footer in self.footers], pa.int64())

    @cached_property
    def columns(self) -> FileColumns:
        """Return the columns of the table in these files."""
        return FileColumns(self.config.mapping_mode, self.config.physical_name)

    def leaf(self, index: int) -> LeafRows:
        """Return what footers record about the column with this number in `schema.leaves`."""
        known = self.memory.setdefault("leaves", {})
        if index not in known:
            files, fields = collect_leaf_columns(self.footers, index)
            of = dict(zip(ChunkFacts._fields, fields, strict=True))
            kinds = {"codec": pa.int64(), "values": pa.int64(), "nulls": pa.int64()}
            kinds |= dict.fromkeys(("low", "high", "old_low", "old_high"), pa.binary())
            kinds |= dict.fromkeys(("is_low_exact", "is_high_exact"), pa.bool_())
            known[index] = LeafRows(
                files=pa.array(files, pa.int64()), **{name: pa.array(of[name], kind) for name, kind in kinds.items()}
            )
        rows: LeafRows = known[index]
        return rows


@dataclass(eq=False, repr=False)
class FileSchemaView:
    """One schema of data files, seen once after all files. `files` and `rows` have it; `place` is that of the first."""

    schema: FileSchema
    config: TableConfiguration
    place: Place
    files: int
    rows: int
    memory: dict[str, Any] = field(default_factory=dict)  # Any: what several checks share, by name

    @property
    def shown_files(self) -> str:
        """Return the files for a message: `part-0.parquet`, `part-0.parquet and 11 other files`."""
        others = self.files - 1
        more = f" and {plural(others, 'other file')}" if others > 0 else ""
        return f"{self.place.key}{more}"


@dataclass(eq=False, repr=False)
class AllFootersView:
    """Every schema of the data files, after the last footer. `run_memory` is that of the `FootersView`s. `complete`:
    the footers of all live files were read, so statements about all of them can be checked.
    """

    place: Place
    config: TableConfiguration
    schemas: Sequence[FileSchemaView]
    complete: bool
    run_memory: dict[str, Any]  # Any: as in FootersView


class VectorFacts(NamedTuple):
    """A deletion vector that was read: `rows` deleted, `last` the highest of them (-1: none). `code` is the rule it
    violates and `reason` says how. An unreadable vector has neither `rows` nor `last`, and no code if another check
    reports the reason. `is_native`: it has the older layout of the reference implementation.
    """

    row: int
    code: str | None
    reason: str
    rows: int | None
    last: int | None
    seen: str | None = None
    expected: str | None = None
    is_native: bool = False


@dataclass(eq=False, repr=False)
class VectorsView(_OfLiveFiles):
    """The deletion vectors of live files. `file_rows`: rows by the footer of each row of `live`, None if not read."""

    live: LiveAdds
    vectors: Sequence[VectorFacts]
    file_rows: Sequence[int | None]
    config: TableConfiguration


class ChangeTypes(NamedTuple):
    """How often a change data file, or all of a version, has each change type. `bad` rows have another value, `example`
    is one of these values.
    """

    counts: Mapping[str, int]
    bad: int = 0
    example: str | None = None


@dataclass(eq=False, repr=False)
class ChangeFileView:
    """A change data file that could be read. `types` are only known at level `data`."""

    place: Place
    version: int
    schema: FileSchema
    rows: int
    types: ChangeTypes | None = None


@dataclass(eq=False, repr=False)
class ChangedVersionView:
    """A version whose change data files were all read (level `data`). `rows_added`: the rows of its adds minus those of
    its removes, None if the log does not record them.
    """

    place: Place
    version: int
    types: ChangeTypes
    rows_added: int | None


@dataclass(eq=False, repr=False)
class AnswersView(_OfLiveFiles):
    """Results from rows of live files: `answers` per question for each row of `live`; none for a file not all read."""

    live: LiveAdds
    footers: Sequence[Footer | None]
    answers: Sequence[Mapping[str, Any]]  # Any: the result of each question for a file
    config: TableConfiguration
    schemas: Mapping[bytes, FileSchema]
    "`Footer.schema` -> the parsed schema."
    memory: dict[str, Any] = field(default_factory=dict)  # Any: each check keeps its own data for the whole run
    limited: bool = False
    "True if not all files were read, so statements about all of them cannot be checked."
    domains: Mapping[str, str] = field(default_factory=dict)
    "Domain -> its configuration."


@dataclass(eq=False, repr=False)
class AllRowsView:
    """After the last `AnswersView`: for checks that need all rows. `memory` is that of the `AnswersView`s."""

    place: Place
    config: TableConfiguration
    memory: dict[str, Any]  # Any: as in AnswersView
    limited: bool
