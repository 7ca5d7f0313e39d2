"""Describe and open data files and their deletion vectors to read, and report their faults.

Spec: Deletion Vectors; Data Files.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader
from deltacli.core.errors import DataUnreadable, FileMissing, Unreadable, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowField, ArrowScalar, ArrowType, BinaryFile
from deltacli.delta.data_files import fault_of, inline_bytes, unique_id, vector_file
from deltacli.delta.encoding.roaring import PORTABLE, BitmapFaultError, DeletedRows, parse_bitmap
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import decode
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import PHYSICAL_NAME, PrimitiveType, StructField
from deltacli.storage import ReadStorage
from deltacli.work.task import TableFiles, TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.predicate import Predicate

# -- deletion vectors --------------------------------------------------------------------------------------------------

_FIRST = 1
"""Offset of the first vector in a file, after the version byte."""
AROUND = 8
"""Bytes of a vector in a file in addition to its data: the size before it, and the checksum after it."""

Descriptor = Mapping[str, Any]
"""A deletion vector descriptor as found in the log; Any: JSON values."""


class VectorFaultError(ValueError):
    """The reason why a vector cannot be read. `code` is the id of the violated rule."""

    def __init__(self, code: str, reason: str, seen: object = None, expected: object = None) -> None:
        super().__init__(reason)
        self.code, self.seen, self.expected = code, seen, expected


class VectorPlace(NamedTuple):
    """The place of a vector in a file, with size and checksum around it. `shown`: the path in messages."""

    storage: ReadStorage
    path: str
    shown: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Return the offset of the first byte after the checksum."""
        return self.offset + self.size + AROUND


def read_vector(files: TableFiles, descriptor: Descriptor) -> DeletedRows:
    """Return the rows that a vector deletes, fully verified. Raises DataUnreadable (`dv.*`), naming vector and file."""
    shown = "its descriptor"
    try:
        place = find_vector(files, descriptor)
        if place is None:
            return parse_vector(descriptor, inline_data(descriptor))
        shown = place.shown
        stored = place.storage.read_range(place.path, place.offset, place.size + AROUND)
        return parse_vector(descriptor, stored_data(place, stored))
    except FileMissing as fault:
        raise DataUnreadable(
            f"the file of a deletion vector does not exist: {shown}",
            code="dv.file-missing",
            facts={"vector": unique_id(dict(descriptor))[:200], "in": shown},
            hint=fault.hint or command("validate", level="storage"),
        ) from fault
    except VectorFaultError as fault:
        about = {} if fault_of(dict(descriptor)) else {"vector": unique_id(dict(descriptor))[:200], "in": shown}
        raise DataUnreadable(
            f"a deletion vector cannot be read: {fault}",
            code=fault.code,
            facts=about,
            hint=command("validate", level="footers") if about else None,
        ) from fault


def find_vector(files: TableFiles, descriptor: Descriptor) -> VectorPlace | None:
    """Return the place of a vector, None if it is inline. Raises VectorFaultError, UsageError for an unknown scheme."""
    if wrong := fault_of(dict(descriptor)):
        raise VectorFaultError("dv.bad-descriptor", wrong[1])
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "i":
        return None
    if kind not in ("u", "p"):
        raise VectorFaultError("dv.bad-descriptor", f"its storage type is {kind[:20]}")
    path = vector_file(text) if kind == "u" else text
    if path is None:
        raise VectorFaultError("dv.bad-z85", "its text does not identify a file")
    storage, inner = files.below_root(path) if kind == "u" else files.locate(path)
    size, offset = descriptor.get("sizeInBytes"), descriptor.get("offset")
    offset = _FIRST if offset is None else offset
    if not isinstance(size, int) or size < 0 or not isinstance(offset, int) or offset < 0:
        raise VectorFaultError("dv.bad-descriptor", "sizeInBytes or offset is not a valid number")
    return VectorPlace(storage, inner, path, offset, size)


def inline_data(descriptor: Descriptor) -> bytes:
    """Return the data of an inline vector, which writers pad to groups of five characters. Raises VectorFaultError."""
    data, size = inline_bytes(descriptor["pathOrInlineDv"]), descriptor.get("sizeInBytes")
    if data is None:
        raise VectorFaultError("dv.bad-z85", "its text is not Z85")
    return data[:size] if isinstance(size, int) and 0 < size <= len(data) else data


def stored_data(place: VectorPlace, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the data of a vector from the bytes at its place, with its checksum verified. Raises VectorFaultError.

    `file_bytes` is the size of the file, if known.
    """
    return stored_data_of(place.size, place.end, stored, file_bytes)


def stored_data_of(expected: int, end: int, stored: bytes, file_bytes: int | None = None) -> bytes:
    """Return the same for a vector of `expected` bytes whose checksum ends at `end`. Raises VectorFaultError."""
    if len(stored) < expected + AROUND:
        reason = f"the file ends before byte {end}"
        raise VectorFaultError("dv.file-too-short", reason, seen=file_bytes, expected=f"at least {end}")
    size = int.from_bytes(stored[:4], "big")
    if size != expected:
        reason = f"it has {size} bytes by its file, but {expected} by the log"
        raise VectorFaultError("dv.size-mismatch", reason, seen=expected, expected=size)
    data, checksum = stored[4 : 4 + expected], int.from_bytes(stored[4 + expected :], "big")
    if (computed := zlib.crc32(data)) != checksum:
        reason = "its checksum does not match its bytes"
        raise VectorFaultError("dv.crc-mismatch", reason, seen=f"{checksum:08x}", expected=f"{computed:08x}")
    return data


def parse_vector(descriptor: Descriptor, data: bytes) -> DeletedRows:
    """Read the data of a vector, which must have as many rows as its descriptor declares. Raises VectorFaultError."""
    rows = parse_rows(data)
    if rows.count != descriptor.get("cardinality"):
        raise cardinality_fault(descriptor, rows)
    return rows


def parse_rows(data: bytes) -> DeletedRows:
    """Read the data of a vector with any number of rows. Raises VectorFaultError."""
    try:
        return parse_bitmap(data)
    except BitmapFaultError as fault:
        if fault.code == "dv.magic":
            seen = int.from_bytes(data[:4], "little")
            raise VectorFaultError(fault.code, str(fault), seen=seen, expected=PORTABLE) from fault
        raise VectorFaultError(fault.code, str(fault)) from fault


def cardinality_fault(descriptor: Descriptor, rows: DeletedRows) -> VectorFaultError:
    """Return the fault of a vector whose number of rows differs from its descriptor."""
    told = descriptor.get("cardinality")
    reason = f"it deletes {rows.count} rows, but {told} by the log"
    return VectorFaultError("dv.cardinality-mismatch", reason, seen=told, expected=rows.count)


# -- data files --------------------------------------------------------------------------------------------------------

_Answer = TypeVar("_Answer")

COLUMNS = "columns"
"""The name of the shared `ColumnsOfFiles`."""
_SMALL_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read.

    `path` is as in the log. `constants` are the columns with the same value in every row, by logical name.

    Rows of `vector` are left out. If `only` is given, only its rows are read, except those of `vector`. `groups` are
    the row groups to read (None: all). `metadata` is the footer, and `deleted` the rows of `vector`, if they have been
    read before.
    """

    path: str
    size_bytes: int | None
    constants: Mapping[str, ArrowScalar] = field(default_factory=dict)
    vector: Descriptor | None = None
    only: Descriptor | None = None
    version: int | None = None
    """The version whose changes are read; None for rows of a snapshot."""
    groups: tuple[int, ...] | None = None
    metadata: pyarrow.parquet.FileMetaData | None = field(default=None, compare=False, repr=False)
    deleted: DeletedRows | None = field(default=None, compare=False, repr=False)
    base_row_id: int | None = None
    row_commit_version: int | None = None
    """The id of the first row, and the version of rows, of its add, with row tracking."""
    stats: str | None = field(default=None, compare=False, repr=False)
    """The statistics of its add, where a task asks for them."""

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        """Return what is pickled: times as arrays, because Arrow's scalars beyond Python's calendar cannot be."""
        constants = {
            name: pa.repeat(value, 1) if pa.types.is_temporal(value.type) else value
            for name, value in self.constants.items()
        }
        return _data_file, ({name: getattr(self, name) for name in self.__slots__} | {"constants": constants},)


def _data_file(fields: dict[str, Any]) -> DataFile:
    constants = {
        name: value[0] if isinstance(value, pa.Array) else value for name, value in fields["constants"].items()
    }
    return DataFile(**fields | {"constants": constants})


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What is read from every file: `columns` of the table, returned as `schema` where `predicate` is true."""

    columns: tuple[StructField, ...]
    schema: pyarrow.Schema
    whole_schema: pyarrow.Schema
    """The Arrow schema of `columns`."""
    file_columns: FileColumns
    predicate: Predicate | None = None
    beside: Mapping[str, FileColumns] = field(default_factory=dict)
    """The last of `columns`, which are not columns of the table, each with the way to find it in a file.

    A column that a file lacks, or has with another type, is null.
    """
    row_ids: tuple[str, str] | None = None
    """The columns of `beside` with the id and the commit version of each row, which follow from the add where the file
    does not have them. Spec: Row Tracking.
    """
    row_numbers: str | None = None
    """The last column of `schema`, not in `columns`: the number of each row in its file, counting deleted rows."""
    demanding: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """The positions of the columns of `schema` that must not be null, or have parts that must not be."""

    def __post_init__(self) -> None:
        found = tuple(place for place, column in enumerate(self.schema) if is_demanding(column))
        object.__setattr__(self, "demanding", found)

    @property
    def of_table(self) -> int:
        """Return how many columns of `schema` belong to the table, if all of `columns` are returned."""
        return len(self.columns) - len(self.beside)


def row_id_fields(names: tuple[str, str], stored: tuple[str, str]) -> tuple[StructField, StructField]:
    """Return the columns of ids and commit versions of rows under these names; `stored` are their names in files."""
    ids, versions = (
        StructField(name, PrimitiveType("long"), True, {PHYSICAL_NAME: physical})
        for name, physical in zip(names, stored, strict=True)
    )
    return ids, versions


def is_demanding(column: ArrowField) -> bool:
    """Return True if the column, or a field within it, must not be null."""
    return not column.nullable or any(is_demanding(child) for child in checked_fields(column.type))


def checked_fields(kind: ArrowType) -> list[ArrowField]:
    """Return the fields within a type, without the keys of maps, which are never null."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def is_about_encryption(reason: str) -> bool:
    """Return True for what Arrow says of an encrypted footer, or of encrypted columns behind a plain one."""
    return re.search("encrypt|decrypt", reason, re.IGNORECASE) is not None


class ReadingPhase:
    """How far a data file has been read.

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
            f"{file.path}: {fault.message}", code=fault.code, facts=_facts(file) | fault.facts, hint=fault.hint
        ) from fault
    except FileMissing as fault:
        path = decode(file.path)
        as_written = {} if path == file.path else {"in the log": file.path}
        raise DataUnreadable(
            f"{path} does not exist",
            code="data.file-missing",
            facts=_facts(file) | {"file": path} | as_written,
            hint=fault.hint or command("validate", level="storage"),
        ) from fault
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        level = "footers" if is_about_encryption(reason) else phase.level
        raise DataUnreadable(
            f"{file.path} cannot be read as a Parquet file",
            facts=_facts(file) | {"reason": reason},
            hint=command("validate", level=level),
        ) from fault


def _facts(file: DataFile) -> dict[str, str]:
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


def _at(
    files: TableFiles, path: str, storage: ReadStorage, place: str, ask: Callable[[ReadStorage, str], _Answer]
) -> _Answer:
    """Ask for a file by its decoded path or, if that does not exist, by the literal one: some writers do not encode."""
    try:
        return ask(storage, place)
    except FileMissing:
        other = files.as_written(path)
        if other is None:
            raise
        with suppress(FileMissing):
            return ask(*other)
        raise


def read_small_file(files: TableFiles, file: DataFile) -> BinaryFile | None:
    """Return the content of a small file, None for others. Raises DataUnreadable and PathExternal."""
    storage, place = files.locate(file.path)
    with data_faults(file):
        return _content(files, file, storage, place)


def _content(files: TableFiles, file: DataFile, storage: ReadStorage, place: str) -> BinaryFile | None:
    """Return the content of a small file, read by one request, as `read_small_file` does."""
    if not _is_small(file):
        return None
    one_more = (file.size_bytes or 0) + 1  # not more: memory is taken for all that is asked for
    data = _at(files, file.path, storage, place, lambda store, found: store.read_range(found, 0, one_more))
    return pa.BufferReader(data) if len(data) < one_more else None


@contextmanager
def open_data_file(
    files: TableFiles, file: DataFile, *, whole: bool = False, content: BinaryFile | None = None
) -> Iterator[OpenDataFile]:
    """Open a data file as Parquet. Every fault while it is open is raised as DataUnreadable.

    On a remote store the data is fetched in few requests. With `whole`, for readers of all columns, a small file is
    read at once, which takes a quarter less time. `content` is that of the file if it has been read before.
    """
    storage, place = files.locate(file.path)
    is_near = storage.capabilities.has_cheap_requests
    with data_faults(file) as phase:
        if whole and content is None:
            content = _content(files, file, storage, place)
        opened = content or _at(files, file.path, storage, place, lambda store, found: store.open(found))
        with opened as source:
            parquet = ParquetReader(
                source,
                metadata=file.metadata,
                pre_buffer=not is_near and content is None,
                buffer_size=0 if not is_near or _is_small(file) else BUFFER_BYTES,
                keeps_memory=whole,
            )
            opened_file = OpenDataFile(parquet, parquet.schema_arrow, source, is_near)
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


def check_types(piece: Sequence[str], context: TaskContext) -> list[str | None]:
    """Return for each path in the log what is wrong with the types of the file, None if those of the shared
    `ColumnsOfFiles` can be read in those of the table. A task.

    Raises DataUnreadable for a file that cannot be read, and PathExternal.
    """
    wanted: ColumnsOfFiles = context.shared(COLUMNS)
    finder = FileColumns(wanted.config.mapping_mode, wanted.config.physical_name)
    return [_mismatch(path, finder, wanted.columns, context) for path in piece]


def _mismatch(path: str, finder: FileColumns, columns: Sequence[StructField], context: TaskContext) -> str | None:
    try:
        with open_data_file(context.files, DataFile(path, None)) as opened:
            finder.find(opened.schema, columns)
    except DataUnreadable as fault:
        if fault.code != "data.type-mismatch":
            raise
        return fault.message
    return None
