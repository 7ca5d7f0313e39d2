"""Write new rows to data files, by partition.

Spec: Data Files; Partition Value Serialization; Column Mapping.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, Refused
from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import format_partition_directory, partition_text
from deltacli.delta.paths.spelling import decode
from deltacli.delta.schema.to_arrow import keeps_partition_columns
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.work.rewrite import pieces
from deltacli.work.rewrite.file_writing import DraftFile, delete_unnamed_files, publish_file, read_back, write_file
from deltacli.work.rewrite.sources import rename_columns
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


MOST_HELD_BYTES = 256 << 20
"""Bytes of rows of several partitions in memory; beyond them the largest partition becomes a file."""


class AppendedFile(NamedTuple):
    """A file that was written: its `partition_values` are as in an add."""

    file: pieces.NewFile
    partition_values: Mapping[str, str | None]


class SourceColumn(NamedTuple):
    """A column of the table with its place in a batch; None where the rows lack it, and all have the `value`."""

    column: StructField
    place: int | None
    value: ArrowScalar = None
    most_characters: int | None = None


@dataclass(frozen=True, slots=True)
class AppendSpec:
    """Describes how rows become files. It can be pickled.

    Attributes:
        rewrite: How files are written and read back.
        columns: The columns of the table.
        schema: The types to which they are cast, by their logical names.
        partitions: The partition columns by physical name.
    """

    rewrite: pieces.RewriteSpec
    columns: tuple[SourceColumn, ...]
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
            rows = (self._convert_to_table_types(batch) for batch in batches if batch.num_rows)
            if self.spec.partitions:
                for batch in rows:
                    for key, part in self._divide_by_partition(batch):
                        self._held.setdefault(key, []).append(part)
                        self._bytes[key] = self._bytes.get(key, 0) + part.nbytes
                    # Rows of many partitions arrive mixed. The largest partition makes the most room as one file.
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
        delete_unnamed_files(self.context.storage, [decode(appended.file.path) for appended in self.files])
        self.files = []

    def _convert_to_table_types(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns of the table, in its order and types. Raises Refused for values of other types."""
        arrays = []
        for (column, position, value, most_characters), wanted in zip(self.spec.columns, self.spec.schema, strict=True):
            if position is None:
                absent = pa.scalar(None, wanted.type) if value is None else value
                arrays.append(pa.repeat(absent, batch.num_rows))
                continue
            array = batch.column(position)
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
            if most_characters is not None and (pc.max(pc.utf8_length(arrays[-1])).as_py() or 0) > most_characters:
                raise Refused(
                    f"column {column.name} has texts of more than {most_characters} characters",
                    code="append.value",
                    facts={"column": column.name},
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.spec.schema)

    def _divide_by_partition(
        self, batch: pyarrow.RecordBatch
    ) -> Iterator[tuple[tuple[str | None, ...], pyarrow.RecordBatch]]:
        """Yield the rows of each partition in a batch, with the texts of its values."""
        codes: Any = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for _, column in self.spec.partitions:
            encoded = pc.dictionary_encode(_view_as_bits(batch.column(column.name)), null_encoding="encode")
            pairs = pc.add(pc.multiply(codes, batch.num_rows), pc.cast(encoded.indices, pa.int64()))
            codes = pc.cast(pc.dictionary_encode(pairs).indices, pa.int64())  # numbered anew, or many columns overflow
        for code in range(pc.max(codes).as_py() + 1):
            part = pc.filter(batch, pc.equal(codes, code))
            key = tuple(
                partition_text(part.column(column.name)[0].as_py(), _require_primitive(column), column.name)
                for _, column in self.spec.partitions
            )
            yield key, part

    def _write_partition(self, key: tuple[str | None, ...]) -> None:
        self._bytes.pop(key)
        self._write(iter(self._held.pop(key)), key)

    def _write(self, rows: Iterator[pyarrow.RecordBatch], key: tuple[str | None, ...]) -> None:
        """Write rows of one partition, and begin another file where one is large enough."""
        spec = self.spec.rewrite
        context = self.context
        values = {name: text for (name, _), text in zip(self.spec.partitions, key, strict=True)}
        logical = {column.name: text for (_, column), text in zip(self.spec.partitions, key, strict=True)}
        stored = (self._select_stored_columns(batch) for batch in rows)
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

    def _select_stored_columns(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns that files contain, under their physical names."""
        keeps = keeps_partition_columns(self.spec.config)
        left_out = set() if keeps else {column.name for _, column in self.spec.partitions}
        names = [
            column.name
            for column, *_ in self.spec.columns
            if column.name not in left_out and column.data_type != PrimitiveType("void")
        ]
        return rename_columns(batch.select(names), self.spec.rewrite.schema)

    def _path(self, directory: str) -> str:
        """Return a path below the table that no other task and no other attempt has."""
        name = f"part-{self._number:05}-{uuid.UUID(self.context.attempt)}-c000{self.spec.rewrite.ending}"
        self._number += 1
        return f"{directory}/{name}" if directory else name


def _view_as_bits(array: ArrowArray) -> ArrowArray:
    """Return floats as their bits, which tell -0.0 from 0.0; decimals and others as they are."""
    if pa.types.is_floating(array.type):
        return array.view(pa.int64() if array.type == pa.float64() else pa.int32())
    return array


def _require_primitive(column: StructField) -> PrimitiveType:
    """Return the type of a partition column. Raises Refused for one of another kind."""
    if isinstance(column.data_type, PrimitiveType):
        return column.data_type
    raise Refused(f"partition column {column.name} has a type that partition values cannot have", code="append.type")
