"""Describe what is rewritten together, how, and with which result.

Spec: Row Tracking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from deltacli.core.errors import Unreadable
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import to_arrow, types
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.stats.schema import ColumnPath
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES, is_enabled
from deltacli.work.parquet_encoding import Encoding
from deltacli.work.rows.data_files import DataFile, ReadSpec, make_row_id_fields

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.encoding.digests import Digest


_FILE_WEIGHT = 256 << 10
"""What opening a file costs, in bytes."""
_RESERVED_IDS = (2_147_483_540, 2_147_483_539)
"""The field ids of Iceberg's columns of row ids and versions."""


@dataclass(frozen=True, slots=True)
class RewritePiece:
    """Files of one partition that become one file, in this order of rows; more than one if they are far beyond the
    target size.

    The constants of the files are ignored. `partition_values` are as in an add (physical names, texts). `directory` is
    where the new files go: a path below the table, not percent-encoded, '' for its root.
    """

    number: int
    sources: tuple[DataFile, ...]
    partition_values: Mapping[str, str | None]
    directory: str = ""

    @property
    def amount(self) -> int:
        """The number of files that are finished with this piece, for progress."""
        return len(self.sources)

    @property
    def size_bytes(self) -> int:
        return sum(max(source.size_bytes or 0, 0) for source in self.sources)

    @property
    def weight(self) -> int:
        return self.size_bytes + _FILE_WEIGHT * len(self.sources)


class Ordering(Protocol):
    """An order of rows in new files. It can be pickled."""

    def arrange(self, rows: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows in this order. They have the columns of new files, by physical name (`schema`)."""

    def use_less_memory(self) -> Ordering:
        """Return the same order, for which less memory is used."""

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


class NewFileNames:
    """The paths below the table of new files that tasks of this process gave a name or were about to, so that the
    files of tasks whose results are never read can be found. Another process has its own.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __reduce__(self) -> tuple[type[NewFileNames], tuple[()]]:
        return NewFileNames, ()


class RefusedFile(NamedTuple):
    """A source that was left alone: its path in the log, the code of the error, and a sentence that says why; `column`
    is NOT NULL and has no value in some row.
    """

    path: str
    code: str
    reason: str
    column: str | None = None


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


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """Make it by `make`. It can be pickled.

    `row_columns` are the physical names of the columns of row ids and row commit versions, None unless the rows of the
    table keep their ids. `reads_back` is False only in benchmarks.
    """

    config: TableConfiguration
    reading: ReadSpec
    schema: pyarrow.Schema
    """The schema of new files."""
    target_bytes: int
    encoding: Encoding
    row_columns: tuple[str, str] | None = None
    order: Ordering | None = None
    reads_back: bool = True
    group_rows: int = 1 << 20
    group_bytes: int = 128 << 20
    """Most rows and bytes in memory of a row group of a new file."""
    most_group_bytes: int = 256 << 20
    """A source with a row group of more bytes, without compression, is refused."""
    reading_back: ReadSpec | None = None
    """How new files are read, if they have other names than their sources."""
    clustering: tuple[ColumnPath, ...] = ()
    """The physical paths of the clustering columns, of which each file has statistics."""
    written_by: TableConfiguration | None = None
    """The configuration of the sources, if it is another one."""
    row_id_mark: int | None = None
    """The highest row id that was assigned; a file with a higher one is refused. None: nobody asks."""

    @classmethod
    def make(
        cls,
        config: TableConfiguration,
        *,
        target_bytes: int,
        order: Ordering | None = None,
        reads_back: bool = True,
        written_by: TableConfiguration | None = None,
        clustering: tuple[ColumnPath, ...] = (),
    ) -> RewriteSpec:
        """Describe a rewrite of files of a table. `written_by`: the configuration by which sources have other names of
        the same columns.

        Raises Unreadable (`schema.not-writable`) if files of the schema cannot be written, and Refused for an invalid
        property of their encoding.
        """
        columns = to_arrow.stored_columns(config)
        rows = _find_row_columns(config)
        schema = to_arrow.file_schema(config, columns)
        reading = _make_read_spec(config, columns, rows)
        return cls(
            config,
            reading if written_by is None else _make_read_spec(written_by, to_arrow.stored_columns(written_by), rows),
            schema if rows is None else _append_row_columns(schema, rows, config),
            target_bytes,
            Encoding.of(config.properties),
            rows,
            order,
            reads_back,
            reading_back=None if written_by is None else reading,
            clustering=clustering,
            written_by=written_by,
        )

    @property
    def ending(self) -> str:
        """The end of the names of new files."""
        return self.encoding.extension


def make_full_read_spec(config: TableConfiguration) -> ReadSpec:
    """Return how all columns of a table are read, but those of types that are not read; where rows keep their ids, with
    these and the number of each row.
    """
    return _make_read_spec(
        config,
        to_arrow.drop_unsupported_columns(config.schema.fields if config.schema else ()),
        _find_row_columns(config),
    )


def _find_row_columns(config: TableConfiguration) -> tuple[str, str] | None:
    """Return the columns that keep ids and versions of rows. Raises Unreadable if the table does not name them."""
    if not is_enabled(config):
        return None
    ids, versions = (config.properties.get(key) for key in COLUMN_PROPERTIES)
    if not ids or not versions:
        raise Unreadable("the table does not name its columns of row ids", code="rowtracking.column-names")
    return ids, versions


def _make_read_spec(
    config: TableConfiguration, columns: tuple[types.StructField, ...], rows: tuple[str, str] | None
) -> ReadSpec:
    """Return how the columns are read, with those of `rows` at the end."""
    schema = to_arrow.build_arrow_schema(columns)
    wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
    if rows is None:
        return wanted
    taken = {column.name for column in columns}
    names = _choose_unused_name("row id", taken), _choose_unused_name("row version", taken)
    more = make_row_id_fields(names, rows)
    whole = to_arrow.build_arrow_schema((*columns, *more))
    beside = {column.name: FileColumns("none", types.get_recorded_physical_name) for column in more}
    return ReadSpec((*columns, *more), whole, whole, wanted.file_columns, extra_columns=beside, row_ids=names)


def _choose_unused_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _append_row_columns(schema: pyarrow.Schema, rows: tuple[str, str], config: TableConfiguration) -> pyarrow.Schema:
    is_iceberg = to_arrow.iceberg_compat(config) >= 3
    for name, field_id in zip(rows, _RESERVED_IDS, strict=True):
        metadata = {"PARQUET:field_id": str(field_id)} if is_iceberg else None
        schema = schema.append(pa.field(name, pa.int64(), metadata=metadata))
    return schema


SPEC = "rewrite"
"""The name of the shared `RewriteSpec`."""
