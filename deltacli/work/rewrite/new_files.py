"""Write rows to new data files: those of a group of files that is rewritten, and new ones.

Spec: Data Files; Partition Value Serialization; Column Mapping; Per-file Statistics.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DataUnreadable, DeltacliError, FileMissing, Refused, StorageFailed
from deltacli.core.tempfiles import forget, remember
from deltacli.core.typing import ArrowArray, ArrowField, ArrowScalar, ArrowType, RecordBatch
from deltacli.delta.encoding.digests import Digest, RowDigest
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import constants_of, format_partition_directory, partition_text
from deltacli.delta.paths.spelling import decode, encode
from deltacli.delta.schema.to_arrow import keeps_partition_columns
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.delta.stats.collect import StatisticsCollector
from deltacli.storage import Created, Draft, Existed, ReadStorage, Storage, Unknown
from deltacli.storage.os_errors import writing_faults
from deltacli.work.parquet_writing import ParquetStream
from deltacli.work.rewrite import pieces
from deltacli.work.rewrite.sources import SourceRefusedError, Sources, constants_for, renamed
from deltacli.work.rows.data_files import DataFile, OpenDataFile, data_faults
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.task import TableFiles, TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

# -- write rows to new data files --------------------------------------------------------------------------------------

_TOO_LARGE = 1.5
"""A file of so many times the target size is continued in another one. Sorted rows are many files anyway."""
_LEAST_GROUP = 1 << 20
_ID = b"PARQUET:field_id"
_ROWS_AT_ONCE = 1 << 13
_PAGE_BYTES, _LEAST_ROWS = 1 << 20, 1 << 10
_ROWS_PER_PAGE = 1 << 17
_ROWS = 16_384
_MOST_DISTINCT = 0.9
"""Of a sample in which more values are different, a row group has hundreds of thousands of different ones."""


@dataclass(frozen=True, slots=True)
class Written:
    """The content of a draft."""

    rows: int
    size_bytes: int
    stats: str
    digest: Digest | None
    """The digest of the rows that were written; None if nothing is read back, or rows are sorted."""


def write_file(spec: pieces.RewriteSpec, place: str, name: str, parts: Iterator[RecordBatch]) -> Written:
    """Write one or more tables or batches to a file, called `name` in errors, up to its limit. Raises StorageFailed."""
    statistics = StatisticsCollector(spec.config, spec.schema, from_footer=True, clustering=spec.clustering)
    is_sorted = spec.order is not None
    digest = RowDigest(spec.schema) if spec.reads_back and not is_sorted else None
    most_bytes = spec.target_bytes * (1 if is_sorted else _TOO_LARGE)
    group_bytes = min(spec.group_bytes, max(spec.target_bytes, _LEAST_GROUP)) if is_sorted else spec.group_bytes
    first = next(parts)
    with writing_faults(place, name), pa.OSFile(os.fsencode(place), "wb") as sink:
        stream = ParquetStream(
            sink,
            spec.schema,
            group_rows=spec.group_rows,
            group_bytes=group_bytes,
            compression=spec.encoding.codec,
            data_page_version=spec.encoding.page_version,
            store_schema=False,
            store_decimal_as_integer=True,
            use_dictionary=columns_with_dictionary(first),
            write_batch_size=rows_at_once(first),
            max_rows_per_page=_ROWS_PER_PAGE,
            memory_pool=pa.system_memory_pool(),  # it keeps memory for the next batch
        )
        with stream:
            for rows in chain([first], parts):
                statistics.take(rows)
                if digest is not None:
                    digest.take(rows)
                stream.add(rows)
                if stream.size_bytes >= most_bytes:
                    break
        # Take the bounds from the footer, and from the file where a value is too long for a footer.
        left = statistics.take_footer(stream.footer)
        if left:
            with open(place, "rb") as source:
                reader = ParquetReader(source, metadata=stream.footer)
                for group, leaf in left:
                    for batch in reader.read_leaves(_ROWS_AT_ONCE, group, [leaf]):
                        statistics.take_leaf(leaf, batch)
        return Written(stream.rows, stream.size_bytes, statistics.text(), digest)


def read_back(
    spec: pieces.RewriteSpec, files: TableFiles, place: str, name: str, written: Written, of_all: Digest | None = None
) -> None:
    """Raise StorageFailed unless the file at a place has the schema, the rows and the values that were written to it.
    Its values are added to the digest `of_all` sorted files instead, if there is one.

    It is read as every data file of the table, by the rules of the table.
    """
    spec = spec if spec.reading_back is None else replace(spec, reading=spec.reading_back)
    file = DataFile(name, written.size_bytes)
    found: Digest = RowDigest(spec.schema) if of_all is None else of_all
    with data_faults(file), open(place, "rb") as source:
        parquet = ParquetReader(source, keeps_memory=True)
        opened = OpenDataFile(parquet, parquet.schema_arrow, source, is_near=True)
        _require(_shape(opened.schema) == _shape(spec.schema), name, "another schema")
        _require(parquet.metadata.num_rows == written.rows, name, "another number of rows")
        for batch in read_opened(files, spec.reading, file, opened):
            found.take(renamed(batch, spec.schema))
    if of_all is None:
        _require(written.digest is not None and found.answer() == written.digest.answer(), name, "other values")


def _require(is_same: bool, name: str, what: str) -> None:
    if not is_same:
        raise StorageFailed(f"{name} was written, but has {what} when it is read again", code="data.not-as-written")


def _shape(fields: Iterable[ArrowField]) -> list[object]:
    """Return names, types, nullability and field ids at every depth."""
    found: list[object] = []
    for column in fields:
        inside = _shape(_parts(column.type)) or str(column.type)
        found.append((column.name, column.nullable, (column.metadata or {}).get(_ID), inside))
    return found


def _parts(kind: ArrowType) -> list[ArrowField]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(position) for position in range(kind.num_fields)]


def columns_with_dictionary(sample: pyarrow.RecordBatch) -> list[str]:
    """Return the leaves of a new file that are worth a dictionary, as Arrow's writer takes their paths: a sample of the
    rows decides. Those within lists, maps and structs are all there.

    A dictionary of values that hardly repeat is given up after its first megabyte, which takes twice the time of plain
    encoding and makes the file larger.
    """
    return [
        path
        for column, values in zip(sample.schema, sample.columns, strict=True)
        for path in _leaves(column.name, column.type)
        if path != column.name or _repeats(values.slice(0, _ROWS))
    ]


def rows_at_once(sample: pyarrow.RecordBatch) -> int:
    """Return how many rows of a column Arrow's writer encodes at once: a page, of the widest column too.

    By default it encodes 1,024, for which the memory of a page is taken again and again: a tenth of the time.
    """
    widest: int = max((values.nbytes for values in sample.columns), default=0) // max(sample.num_rows, 1)
    return min(max(_PAGE_BYTES // max(widest, 1), _LEAST_ROWS), _ROWS_PER_PAGE)


def _repeats(values: ArrowArray) -> bool:
    return bool(len(pc.unique(values)) <= max(len(values) - values.null_count, 1) * _MOST_DISTINCT)


def _leaves(path: str, kind: Any) -> Iterator[str]:
    """Yield the paths of the leaves of a column, as Parquet names their groups."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for column in kind:
            yield from _leaves(f"{path}.{column.name}", column.type)
    else:
        yield path


def measure_rewrite(piece: pieces.RewritePiece, context: TaskContext) -> int | None:
    """Return the bytes of the file that the live rows of a piece's files would become, as the shared `RewriteSpec`
    says; None where one of them cannot be read or kept exactly. A task; nothing of the table is written.
    """
    spec: pieces.RewriteSpec = context.shared(pieces.SPEC)
    try:
        return _measured(spec, piece, context)
    except (DeltacliError, SourceRefusedError):
        return None


def _measured(spec: pieces.RewriteSpec, piece: pieces.RewritePiece, context: TaskContext) -> int | None:
    constants = {}
    if keeps_partition_columns(spec.config):
        constants = constants_of(piece.partition_values.items(), spec.config, piece.sources[0].path)
    sources = Sources(context.files, spec, constants)
    rows = (table for table in sources.tables(piece.sources) if table.num_rows)
    first = next(rows, None)
    size = 0
    if first is not None:
        place = Path(tempfile.mkdtemp(prefix="deltacli-"))
        remember(place)
        try:
            size = write_file(spec, str(place / "sample"), "a temporary file", chain([first], rows)).size_bytes
        finally:
            shutil.rmtree(place, ignore_errors=True)
            forget(place)
    return None if sources.refused else size


# -- the rewrite of one group ------------------------------------------------------------------------------------------

_SORTING = BoundedSemaphore(2)
"""Sorting takes up to 400 MiB; further pieces of a process use less memory instead of waiting for the store of
another table.
"""
NAMED = "named"
"""The name of the shared `NewFileNames`, if there are any."""

_MOST_SENT = 3
"""How often a file is sent that is not there afterwards."""


def withdraw(storage: Storage, paths: list[str]) -> None:
    """Delete files that no version names, as far as store and catalog allow it: what went wrong before is the error."""
    with suppress(DeltacliError):
        deque(storage.delete_many(paths) if paths else (), maxlen=0)


class DraftFile(NamedTuple):
    """A file that was written and has no name yet."""

    path: str
    draft: Draft
    written: Written


@dataclass(frozen=True, slots=True)
class RewriteFiles:
    """Writes the live rows of a piece's files to new ones as the shared `RewriteSpec` says, and reads them back.

    Nothing that it finds wrong with a source is an error: the source is left alone and listed in the result. Only the
    caller's commit makes new files part of the table. After an error none is left, unless the store does not say
    whether it was created; then vacuum removes it.
    """

    def __call__(self, piece: pieces.RewritePiece, context: TaskContext) -> pieces.Rewritten:
        """Return the new files. Raises StorageFailed, DataUnreadable for a new file, and PermissionRefused."""
        spec: pieces.RewriteSpec = context.shared(pieces.SPEC)
        refused: list[pieces.RefusedFile] = []
        while True:
            without = {each.path for each in refused}
            left = replace(piece, sources=tuple(each for each in piece.sources if each.path not in without))
            try:
                done = _Run(spec, left, context).run()
            except SourceRefusedError as fault:
                refused.append(fault.refused)
                continue
            return replace(done, refused=(*refused, *done.refused))


class _Run:
    def __init__(self, spec: pieces.RewriteSpec, piece: pieces.RewritePiece, context: TaskContext) -> None:
        self._spec, self._piece, self._context = spec, piece, context
        self._sources = Sources(context.files, spec, constants_for(spec, piece))
        self._order = spec.order
        checked = spec.order if spec.reads_back else None
        self._read = None if checked is None else checked.digest()
        self._read_back = None if checked is None else checked.digest()
        """Digests of the rows to sort, and of those in the new files. None if rows keep their order."""
        self._named: list[str] = []
        self._told: pieces.NewFileNames = context.values.get(NAMED) or pieces.NewFileNames()

    def run(self) -> pieces.Rewritten:
        """Raises SourceRefusedError if it has to be done again without a file."""
        published: list[pieces.NewFile] = []
        has_memory = self._order is not None and _SORTING.acquire(blocking=False)
        if self._order is not None and not has_memory:
            self._order = self._order.in_little_memory()
        try:
            self._write(published)
        except BaseException:
            withdraw(self._context.storage, self._named)
            raise
        finally:
            if has_memory:
                _SORTING.release()
        found = self._sources
        return pieces.Rewritten(tuple(published), tuple(found.used), tuple(found.refused), found.rows)

    def _write(self, published: list[pieces.NewFile]) -> None:
        """Write, read back and name one file after the other, so that no disk holds more than one draft."""
        spec, context = self._spec, self._context
        parts = (rows for rows in self._until_cancelled(self._ordered()) if rows.num_rows)
        first = next(parts, None)
        number = 0
        while first is not None:
            path = self._path(number)
            with context.storage.draft(path) as draft:
                written = write_file(spec, draft.local_path, path, chain([first], parts))
                if spec.reads_back:
                    read_back(spec, context.files, draft.local_path, path, written, self._read_back)
                self._named.append(path)
                self._told.paths.append(path)
                published.append(publish_file(context.storage, DraftFile(path, draft, written)))
            first = next(parts, None)
            number += 1
        if self._read is not None and self._read_back is not None and self._read.answer() != self._read_back.answer():
            raise StorageFailed("the sorted files have other rows than their sources", code="data.not-as-written")

    def _until_cancelled(self, parts: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Pass rows on. Raises CancelledError once nobody waits for the new files."""
        for rows in parts:
            if self._context.is_cancelled():
                from concurrent.futures import CancelledError

                raise CancelledError
            yield rows

    def _ordered(self) -> Iterator[RecordBatch]:
        """Return the rows of the sources in the order of new files. Raises NoSpace."""
        order, tables = self._order, self._sources.tables(self._piece.sources)
        if order is None:
            return tables
        order.require_space(self._piece.size_bytes)
        batches = (batch for table in tables for batch in table.to_batches())
        return order.arrange(self._noted(batches), self._spec.schema)

    def _noted(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            if self._read is not None:
                self._read.take(batch)
            yield batch

    def _path(self, number: int) -> str:
        """Return the path of a new file below the table: no other attempt and no other piece has it."""
        piece = self._piece
        name = f"part-{piece.number:05}-{uuid.UUID(self._context.attempt)}-c{number:03}{self._spec.ending}"
        return f"{piece.directory.rstrip('/')}/{name}" if piece.directory else name


def publish_file(storage: ReadStorage, file: DraftFile) -> pieces.NewFile:
    """Give a file its name, which no other file has: it may be sent again. Raises StorageFailed."""
    for left in reversed(range(_MOST_SENT)):
        match file.draft.publish():
            case Created():
                cause = "it is not there"
            case Existed():
                cause = "the name exists"  # the reply to an earlier request of this attempt was lost
            case Unknown(cause):
                pass
        try:
            found = storage.stat(file.path)
            break
        except FileMissing as fault:
            if not left:
                raise StorageFailed(f"{file.path} was not written", facts={"why": str(cause)}) from fault
    if found.size_bytes != file.written.size_bytes:
        raise StorageFailed(
            f"{file.path} has {found.size_bytes} bytes, expected {file.written.size_bytes}", facts={"why": str(cause)}
        )
    return pieces.NewFile(encode(file.path), found.size_bytes, file.written.rows, file.written.stats, found.modified_ms)


# -- new rows ----------------------------------------------------------------------------------------------------------

MOST_HELD_BYTES = 256 << 20
"""Bytes of rows of several partitions in memory; beyond them the largest partition becomes a file."""


class AppendedFile(NamedTuple):
    """A file that was written: its `partition_values` are as in an add."""

    file: pieces.NewFile
    partition_values: Mapping[str, str | None]


class Source(NamedTuple):
    """A column of the table with its place in a batch; None where the rows lack it, and all have the `value`."""

    column: StructField
    place: int | None
    value: ArrowScalar = None
    most_characters: int | None = None


@dataclass(frozen=True, slots=True)
class AppendSpec:
    """How rows become files. It can be pickled.

    `columns` are those of the table; all are cast to `schema`, which has their logical names. `partitions` are the
    partition columns by physical name.
    """

    rewrite: pieces.RewriteSpec
    columns: tuple[Source, ...]
    schema: pyarrow.Schema
    partitions: tuple[tuple[str, StructField], ...]

    @property
    def config(self) -> TableConfiguration:
        """The configuration of the table that the files are written for."""
        return self.rewrite.config


@dataclass
class AppendRows:
    """Writes the rows of one task. `files` are those that have a name so far."""

    spec: AppendSpec
    context: TaskContext
    files: list[AppendedFile] = field(default_factory=list)
    _held: dict[tuple[str | None, ...], list[pyarrow.RecordBatch]] = field(default_factory=dict)
    _bytes: dict[tuple[str | None, ...], int] = field(default_factory=dict)
    _number: int = 0

    def run(self, batches: Iterator[pyarrow.RecordBatch]) -> list[AppendedFile]:
        """Write all rows, and return the files. After an error none of them is left, unless the store does not say so.

        Raises Refused for values that the table cannot have, and StorageFailed.
        """
        try:
            rows = (self._conformed(batch) for batch in batches if batch.num_rows)
            if self.spec.partitions:
                for batch in rows:
                    for key, part in self._parts(batch):
                        self._held.setdefault(key, []).append(part)
                        self._bytes[key] = self._bytes.get(key, 0) + part.nbytes
                    while sum(self._bytes.values()) > MOST_HELD_BYTES:
                        self._write_partition(max(self._bytes, key=lambda key: self._bytes[key]))
                for key in list(self._held):
                    self._write_partition(key)
            else:
                self._write(rows, ())
        except BaseException:
            self.undo()
            raise
        return self.files

    def undo(self) -> None:
        """Delete the files of this task."""
        withdraw(self.context.storage, [decode(one.file.path) for one in self.files])
        self.files = []

    def _conformed(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns of the table, in its order and types. Raises Refused for values of other types."""
        arrays = []
        for (column, place, value, most), wanted in zip(self.spec.columns, self.spec.schema, strict=True):
            if place is None:
                absent = pa.scalar(None, wanted.type) if value is None else value
                arrays.append(pa.repeat(absent, batch.num_rows))
                continue
            array = batch.column(place)
            try:
                arrays.append(array if array.type.equals(wanted.type) else array.cast(wanted.type))
            except pa.ArrowInvalid as fault:
                raise Refused(
                    f"column {column.name} has values that are not {wanted.type}: {fault}",
                    code="append.value",
                    facts={"column": column.name},
                ) from fault
            if not column.nullable and arrays[-1].null_count:
                raise Refused(
                    f"rows break column {column.name} (NOT NULL)",
                    code="append.constraint",
                    facts={"column": column.name, "nulls": str(arrays[-1].null_count)},
                )
            if most is not None and (pc.max(pc.utf8_length(arrays[-1])).as_py() or 0) > most:
                raise Refused(
                    f"column {column.name} has texts of more than {most} characters",
                    code="append.value",
                    facts={"column": column.name},
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.spec.schema)

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _parts(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[tuple[str | None, ...], pyarrow.RecordBatch]]:
        """Yield the rows of each partition in a batch, with the texts of its values."""
        codes: Any = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for _, column in self.spec.partitions:
            encoded = pc.dictionary_encode(_comparable(batch.column(column.name)), null_encoding="encode")
            pairs = pc.add(pc.multiply(codes, batch.num_rows), pc.cast(encoded.indices, pa.int64()))
            codes = pc.cast(pc.dictionary_encode(pairs).indices, pa.int64())  # numbered anew, or many columns overflow
        for code in range(pc.max(codes).as_py() + 1):
            part = pc.filter(batch, pc.equal(codes, code))
            key = tuple(
                partition_text(part.column(column.name)[0].as_py(), _primitive(column), column.name)
                for _, column in self.spec.partitions
            )
            yield key, part

    def _write_partition(self, key: tuple[str | None, ...]) -> None:
        self._bytes.pop(key)
        self._write(iter(self._held.pop(key)), key)

    # -- files --------------------------------------------------------------------------------------------------------

    def _write(self, rows: Iterator[pyarrow.RecordBatch], key: tuple[str | None, ...]) -> None:
        """Write rows of one partition, and begin another file where one is large enough."""
        spec, context = self.spec.rewrite, self.context
        values = {name: text for (name, _), text in zip(self.spec.partitions, key, strict=True)}
        logical = {column.name: text for (_, column), text in zip(self.spec.partitions, key, strict=True)}
        stored = (self._stored(batch) for batch in rows)
        batch = next(stored, None)
        while batch is not None:
            path = self._path(format_partition_directory(logical if spec.config.mapping_mode == "none" else {}))
            with context.storage.draft(path) as draft:
                written = write_file(spec, draft.local_path, path, chain([batch], stored))
                if spec.reads_back:
                    try:
                        read_back(spec, context.files, draft.local_path, path, written)
                    except DataUnreadable as fault:
                        raise Refused(
                            f"{path} cannot be read again after it was written: {fault.message}", code="append.value"
                        ) from fault
                file = publish_file(context.storage, DraftFile(path, draft, written))
            self.files.append(AppendedFile(file, values))
            batch = next(stored, None)

    def _stored(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns that files contain, under their physical names."""
        keeps = keeps_partition_columns(self.spec.config)
        left_out = set() if keeps else {column.name for _, column in self.spec.partitions}
        names = [
            column.name
            for column, *_ in self.spec.columns
            if column.name not in left_out and column.data_type != PrimitiveType("void")
        ]
        return renamed(batch.select(names), self.spec.rewrite.schema)

    def _path(self, directory: str) -> str:
        """Return a path below the table that no other task and no other attempt has."""
        name = f"part-{self._number:05}-{uuid.UUID(self.context.attempt)}-c000{self.spec.rewrite.ending}"
        self._number += 1
        return f"{directory}/{name}" if directory else name


def _comparable(array: ArrowArray) -> ArrowArray:
    """Return floats as their bits, which tell -0.0 from 0.0; decimals and others as they are."""
    if pa.types.is_floating(array.type):
        return array.view(pa.int64() if array.type == pa.float64() else pa.int32())
    return array


def _primitive(column: StructField) -> PrimitiveType:
    """Return the type of a partition column. Raises Refused for one of another kind."""
    if isinstance(column.data_type, PrimitiveType):
        return column.data_type
    raise Refused(f"partition column {column.name} has a type that partition values cannot have", code="append.type")
