"""Describe and open data files, and report their faults.

Spec: Data Files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader
from deltacli.core.errors import DataUnreadable, FileMissing, Unreadable, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowField, ArrowScalar, ArrowType, BinaryFile
from deltacli.delta.encoding.roaring import DeletedRows
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import decode
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import PHYSICAL_NAME, PrimitiveType, StructField
from deltacli.storage import ReadStorage
from deltacli.work.rows.deletion_vectors import Descriptor
from deltacli.work.table_files import TableFiles
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.predicate import Predicate


_Answer = TypeVar("_Answer")

COLUMNS = "columns"
"""The name of the shared `ColumnsOfFiles`."""
_SMALL_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file to read.

    Attributes:
        path: Its path as in the log.
        size_bytes: Its size; None if it is not known.
        constants: The columns with the same value in every row, by logical name.
        vector: The deletion vector, whose rows are left out.
        only: If it is given, only the rows of this vector are read, except those of `vector`.
        version: The version whose changes are read; None for rows of a snapshot.
        groups: The row groups to read; None for all.
        metadata: The footer, if it has been read before.
        deleted: The rows of `vector`, if they have been read before.
        base_row_id: The id of the first row by its add, with row tracking.
        row_commit_version: The version of rows by its add, with row tracking.
        stats: The statistics of its add, where a task asks for them.
    """

    path: str
    size_bytes: int | None
    constants: Mapping[str, ArrowScalar] = field(default_factory=dict)
    vector: Descriptor | None = None
    only: Descriptor | None = None
    version: int | None = None
    groups: tuple[int, ...] | None = None
    metadata: pyarrow.parquet.FileMetaData | None = field(default=None, compare=False, repr=False)
    deleted: DeletedRows | None = field(default=None, compare=False, repr=False)
    base_row_id: int | None = None
    row_commit_version: int | None = None
    stats: str | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        """Return what is pickled: times as arrays, because Arrow's scalars beyond Python's calendar cannot be."""
        constants = {
            name: pa.repeat(value, 1) if pa.types.is_temporal(value.type) else value
            for name, value in self.constants.items()
        }
        return _restore_data_file, ({name: getattr(self, name) for name in self.__slots__} | {"constants": constants},)


def _restore_data_file(fields: dict[str, Any]) -> DataFile:
    constants = {
        name: value[0] if isinstance(value, pa.Array) else value for name, value in fields["constants"].items()
    }
    return DataFile(**fields | {"constants": constants})


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Describes which rows and columns are read from every file of a table.

    Attributes:
        columns: The columns of the table, and after them the extra columns.
        schema: The columns that are returned, in their types.
        full_schema: The Arrow schema of `columns`.
        file_columns: Finds the columns of the table in a file.
        predicate: The condition that rows match; None for all rows.
        extra_columns: The last of `columns`, which are not columns of the table, each with the way to find it in a
            file. A column that a file lacks, or has with another type, is null.
        row_ids: The extra columns with the id and the commit version of each row, which follow from the add where the
            file does not have them. Spec: Row Tracking.
        row_numbers: The last column of `schema`, not in `columns`: the number of each row in its file, counting deleted
            rows.
        required_positions: The positions of the columns of `schema` that must not be null, or have parts that must not
            be.
    """

    columns: tuple[StructField, ...]
    schema: pyarrow.Schema
    full_schema: pyarrow.Schema
    file_columns: FileColumns
    predicate: Predicate | None = None
    extra_columns: Mapping[str, FileColumns] = field(default_factory=dict)
    row_ids: tuple[str, str] | None = None
    row_numbers: str | None = None
    required_positions: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        positions = tuple(position for position, column in enumerate(self.schema) if contains_required_field(column))
        object.__setattr__(self, "required_positions", positions)

    @property
    def table_column_count(self) -> int:
        """Return how many columns of `schema` belong to the table, if all of `columns` are returned."""
        return len(self.columns) - len(self.extra_columns)


def make_row_id_fields(names: tuple[str, str], stored: tuple[str, str]) -> tuple[StructField, StructField]:
    """Return the columns of ids and commit versions of rows under these names; `stored` are their names in files."""
    ids, versions = (
        StructField(name, PrimitiveType("long"), True, {PHYSICAL_NAME: physical})
        for name, physical in zip(names, stored, strict=True)
    )
    return ids, versions


def contains_required_field(column: ArrowField) -> bool:
    """Return True if the column, or a field within it, must not be null."""
    return not column.nullable or any(contains_required_field(child) for child in list_checked_fields(column.type))


def list_checked_fields(kind: ArrowType) -> list[ArrowField]:
    """Return the fields within a type, without the keys of maps, which are never null."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def mentions_encryption(reason: str) -> bool:
    """Return True for what Arrow says of an encrypted footer, or of encrypted columns behind a plain one."""
    return re.search("encrypt|decrypt", reason, re.IGNORECASE) is not None


class ReadingPhase:
    """The phase of reading a data file.

    Attributes:
        level: The lowest level of a validation that finds a fault of what is read next: the footer is read at the level
            `footers`, the pages behind it only at `data`.
    """

    level = "footers"


@contextmanager
def data_faults(file: DataFile) -> Iterator[ReadingPhase]:
    """Raise every fault in the bytes of a data file as DataUnreadable, with the file and the command that finds it."""
    import pyarrow

    phase = ReadingPhase()
    try:
        yield phase
    except DataUnreadable as fault:
        raise DataUnreadable(
            f"{file.path}: {fault.message}", code=fault.code, facts=_make_facts(file) | fault.facts, hint=fault.hint
        ) from fault
    except FileMissing as fault:
        path = decode(file.path)
        as_written = {} if path == file.path else {"in the log": file.path}
        raise DataUnreadable(
            f"{path} does not exist",
            code="data.file-missing",
            facts=_make_facts(file) | {"file": path} | as_written,
            hint=fault.hint or command("validate", level="storage"),
        ) from fault
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        level = "footers" if mentions_encryption(reason) else phase.level
        raise DataUnreadable(
            f"{file.path} cannot be read as a Parquet file",
            facts=_make_facts(file) | {"reason": reason},
            hint=command("validate", level=level),
        ) from fault


def _make_facts(file: DataFile) -> dict[str, str]:
    version = {} if file.version is None else {"version": str(file.version)}
    return {"file": file.path} | version


def require_valid_values(batch: pyarrow.RecordBatch) -> None:
    """Raise Unreadable for a value that is not of its type, such as text not in UTF-8: no format has it."""
    from pyarrow import ArrowInvalid

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except ArrowInvalid as fault:
            raise Unreadable(
                f"column {name!r} holds a value that is not of its type",
                code="data.bad-value",
                facts={"found": str(fault)},
            ) from fault


class OpenDataFile(NamedTuple):
    """An open data file."""

    parquet: ParquetReader
    schema: pyarrow.Schema
    source: BinaryFile
    is_near: bool


def _call_with_path(
    files: TableFiles,
    path: str,
    storage: ReadStorage,
    decoded_path: str,
    function: Callable[[ReadStorage, str], _Answer],
) -> _Answer:
    """Ask for a file by its decoded path or, if that does not exist, by the literal one: some writers do not encode."""
    try:
        return function(storage, decoded_path)
    except FileMissing:
        # The error of the decoded path is raised: it is the one that the log means.
        other = files.locate_undecoded(path)
        if other is None:
            raise
        with suppress(FileMissing):
            return function(*other)
        raise


def read_small_file(files: TableFiles, file: DataFile) -> BinaryFile | None:
    """Return the content of a small file, None for others. Raises DataUnreadable and PathExternal."""
    storage, inner_path = files.locate(file.path)
    with data_faults(file):
        return _read_small_content(files, file, storage, inner_path)


def _read_small_content(files: TableFiles, file: DataFile, storage: ReadStorage, inner_path: str) -> BinaryFile | None:
    """Return the content of a small file, read by one request, as `read_small_file` does."""
    if not _is_small(file):
        return None
    # One byte more shows whether the file is larger than the log says. Memory is taken for all that is asked for.
    one_more = (file.size_bytes or 0) + 1
    data = _call_with_path(
        files, file.path, storage, inner_path, lambda store, tried_path: store.read_range(tried_path, 0, one_more)
    )
    return pa.BufferReader(data) if len(data) < one_more else None


@contextmanager
def open_data_file(
    files: TableFiles, file: DataFile, *, whole: bool = False, content: BinaryFile | None = None
) -> Iterator[OpenDataFile]:
    """Open a data file as Parquet. Every fault while it is open is raised as DataUnreadable.

    On a remote store the data is fetched in few requests. With `whole`, for readers of all columns, a small file is
    read at once, which takes a quarter less time. `content` is that of the file if it has been read before.
    """
    storage, inner_path = files.locate(file.path)
    is_near = storage.capabilities.has_cheap_requests
    with data_faults(file) as phase:
        if whole and content is None:
            content = _read_small_content(files, file, storage, inner_path)
        opened = content or _call_with_path(
            files, file.path, storage, inner_path, lambda store, tried_path: store.open(tried_path)
        )
        with opened as source:
            parquet = ParquetReader(
                source,
                metadata=file.metadata,
                pre_buffer=not is_near and content is None,
                buffer_size=0 if not is_near or _is_small(file) else BUFFER_BYTES,
                keeps_memory=whole,
            )
            opened_file = OpenDataFile(parquet, parquet.schema_arrow, source, is_near)
            # The footer could be read. A fault from here on is in the pages, which only the level `data` reads.
            phase.level = "data"
            yield opened_file


def _is_small(file: DataFile) -> bool:
    """Return True for a file whose column chunks may be held in memory: reading them whole is 20 % faster."""
    return file.size_bytes is not None and 0 <= file.size_bytes <= _SMALL_BYTES


def split_file(files: TableFiles, file: DataFile, parts: int) -> list[DataFile]:
    """Split a file into up to `parts` pieces of whole row groups."""
    with open_data_file(files, file) as opened:
        metadata = opened.parquet.metadata
    groups = range(metadata.num_row_groups)
    step = max(1, -(-len(groups) // parts))
    starts = groups[::step] or [0]
    return [replace(file, groups=tuple(groups[start : start + step]), metadata=metadata) for start in starts]


@dataclass(frozen=True)
class ColumnsOfFiles:
    """Columns of a table, and the configuration by which they are found in files."""

    config: TableConfiguration
    columns: tuple[StructField, ...]


def find_type_mismatches(piece: Sequence[str], context: TaskContext) -> list[str | None]:
    """Return for each path in the log what is wrong with the types of the file, None if those of the shared
    `ColumnsOfFiles` can be read in those of the table. A task.

    Raises DataUnreadable for a file that cannot be read, and PathExternal.
    """
    wanted: ColumnsOfFiles = context.shared(COLUMNS)
    finder = FileColumns(wanted.config.mapping_mode, wanted.config.physical_name)
    return [_find_type_mismatch(path, finder, wanted.columns, context) for path in piece]


def _find_type_mismatch(
    path: str, finder: FileColumns, columns: Sequence[StructField], context: TaskContext
) -> str | None:
    try:
        with open_data_file(context.files, DataFile(path, None)) as opened:
            finder.find(opened.schema, columns)
    except DataUnreadable as fault:
        if fault.code != "data.type-mismatch":
            raise
        return fault.message
    return None
