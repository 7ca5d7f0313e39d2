"""Write one new data file with its statistics, read it back, and publish it.

Spec: Data Files; Per-file Statistics.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DeltacliError, FileMissing, StorageFailed
from deltacli.core.typing import ArrowArray, ArrowField, ArrowType, RecordBatch
from deltacli.delta.encoding.digests import Digest, RowDigest
from deltacli.delta.paths.spelling import encode
from deltacli.delta.stats.collect import StatisticsCollector
from deltacli.storage import Created, Draft, Existed, ReadStorage, Storage, Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.parquet_writing import ParquetStream
from deltacli.work.rewrite import pieces
from deltacli.work.rewrite.sources import rename_columns
from deltacli.work.rows.data_files import DataFile, OpenDataFile, data_faults
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


_TOO_LARGE = 1.5
"""A file of so many times the target size is continued in another one. Sorted rows are many files anyway."""
_LEAST_GROUP = 1 << 20
_ID = b"PARQUET:field_id"
_ROWS_AT_ONCE = 1 << 13
_PAGE_BYTES = 1 << 20
_LEAST_ROWS = 1 << 10
_ROWS_PER_PAGE = 1 << 17
_ROWS = 16_384
_MOST_DISTINCT = 0.9
"""Of a sample in which more values are different, a row group has hundreds of thousands of different ones."""


@dataclass(frozen=True, slots=True)
class WrittenContent:
    """The content of a draft."""

    rows: int
    size_bytes: int
    stats: str
    digest: Digest | None
    """The digest of the rows that were written; None if nothing is read back, or rows are sorted."""


def write_file(spec: pieces.RewriteSpec, local_path: str, name: str, parts: Iterator[RecordBatch]) -> WrittenContent:
    """Write rows to a file, until there are no more or the file has reached its size.

    Args:
        spec: How the file is written.
        local_path: Where to write.
        name: The file in errors.
        parts: One or more tables or batches. Those that are left belong to the next file.

    Returns:
        What was written, with the statistics of the file.

    Raises:
        StorageFailed: If the file cannot be written.
    """
    statistics = StatisticsCollector(spec.config, spec.schema, from_footer=True, clustering=spec.clustering)
    is_sorted = spec.order is not None
    digest = RowDigest(spec.schema) if spec.reads_back and not is_sorted else None

    most_bytes = spec.target_bytes * (1 if is_sorted else _TOO_LARGE)
    group_bytes = min(spec.group_bytes, max(spec.target_bytes, _LEAST_GROUP)) if is_sorted else spec.group_bytes

    # The first rows decide about the encoding of all.
    first = next(parts)
    with translate_write_errors(local_path, name), pa.OSFile(os.fsencode(local_path), "wb") as sink:
        stream = ParquetStream(
            sink,
            spec.schema,
            group_rows=spec.group_rows,
            group_bytes=group_bytes,
            compression=spec.encoding.codec,
            data_page_version=spec.encoding.page_version,
            store_schema=False,
            store_decimal_as_integer=True,
            use_dictionary=choose_dictionary_columns(first),
            write_batch_size=choose_write_batch_rows(first),
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
            with open(local_path, "rb") as source:
                reader = ParquetReader(source, metadata=stream.footer)
                for group, leaf in left:
                    for batch in reader.read_leaves(_ROWS_AT_ONCE, group, [leaf]):
                        statistics.take_leaf(leaf, batch)
        return WrittenContent(stream.rows, stream.size_bytes, statistics.text(), digest)


def read_back(
    spec: pieces.RewriteSpec,
    files: TableFiles,
    local_path: str,
    name: str,
    written: WrittenContent,
    shared_digest: Digest | None = None,
) -> None:
    """Read a new file as every data file of the table is read, and compare it with what was written to it.

    Args:
        spec: How the file was written.
        files: The files of the table.
        local_path: The draft of the file.
        name: The file in errors.
        written: What was written.
        shared_digest: Gets the values of the file, if they are compared later together with those of other files:
            sorted files have no counterpart among their sources.

    Raises:
        StorageFailed: If the schema, the number of rows or a value is another one.
        DataUnreadable: If the file cannot be read.
    """
    # New files have the names of the new configuration, sources perhaps those of an older one.
    spec = spec if spec.reading_back is None else replace(spec, reading=spec.reading_back)
    file = DataFile(name, written.size_bytes)
    digest: Digest = RowDigest(spec.schema) if shared_digest is None else shared_digest
    with data_faults(file), open(local_path, "rb") as source:
        parquet = ParquetReader(source, keeps_memory=True)
        opened = OpenDataFile(parquet, parquet.schema_arrow, source, is_near=True)
        _require_same(_describe_fields(opened.schema) == _describe_fields(spec.schema), name, "another schema")
        _require_same(parquet.metadata.num_rows == written.rows, name, "another number of rows")
        for batch in read_opened(files, spec.reading, file, opened):
            digest.take(rename_columns(batch, spec.schema))
    if shared_digest is None:
        _require_same(written.digest is not None and digest.answer() == written.digest.answer(), name, "other values")


def _require_same(is_same: bool, name: str, what: str) -> None:
    if not is_same:
        raise StorageFailed(f"{name} was written, but has {what} when it is read again", code="data.not-as-written")


def _describe_fields(fields: Iterable[ArrowField]) -> list[object]:
    """Return names, types, nullability and field ids at every depth."""
    descriptions: list[object] = []
    for column in fields:
        inside = _describe_fields(_list_inner_fields(column.type)) or str(column.type)
        descriptions.append((column.name, column.nullable, (column.metadata or {}).get(_ID), inside))
    return descriptions


def _list_inner_fields(kind: ArrowType) -> list[ArrowField]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(position) for position in range(kind.num_fields)]


def choose_dictionary_columns(sample: pyarrow.RecordBatch) -> list[str]:
    """Return the leaves of a new file that are worth a dictionary, as Arrow's writer takes their paths: a sample of the
    rows decides. Those within lists, maps and structs are all there.

    A dictionary of values that hardly repeat is given up after its first megabyte, which takes twice the time of plain
    encoding and makes the file larger.
    """
    return [
        path
        for column, values in zip(sample.schema, sample.columns, strict=True)
        for path in _list_leaf_paths(column.name, column.type)
        if path != column.name or _repeats(values.slice(0, _ROWS))
    ]


def choose_write_batch_rows(sample: pyarrow.RecordBatch) -> int:
    """Return how many rows of a column Arrow's writer encodes at once: a page, of the widest column too.

    By default it encodes 1,024, for which the memory of a page is taken again and again: a tenth of the time.
    """
    widest: int = max((values.nbytes for values in sample.columns), default=0) // max(sample.num_rows, 1)
    return min(max(_PAGE_BYTES // max(widest, 1), _LEAST_ROWS), _ROWS_PER_PAGE)


def _repeats(values: ArrowArray) -> bool:
    return bool(len(pc.unique(values)) <= max(len(values) - values.null_count, 1) * _MOST_DISTINCT)


def _list_leaf_paths(path: str, kind: Any) -> Iterator[str]:
    """Yield the paths of the leaves of a column, as Parquet names their groups."""
    if pa.types.is_map(kind):
        yield from _list_leaf_paths(f"{path}.key_value.key", kind.key_type)
        yield from _list_leaf_paths(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _list_leaf_paths(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for column in kind:
            yield from _list_leaf_paths(f"{path}.{column.name}", column.type)
    else:
        yield path


_MOST_SENT = 3
"""How often a file is sent that is not there afterwards."""


def delete_unnamed_files(storage: Storage, paths: list[str]) -> None:
    """Delete files that no version names, as far as store and catalog allow it: what went wrong before is the error."""
    with suppress(DeltacliError):
        deque(storage.delete_many(paths) if paths else (), maxlen=0)


class DraftFile(NamedTuple):
    """A file that was written and has no name yet."""

    path: str
    draft: Draft
    written: WrittenContent


def publish_file(storage: ReadStorage, file: DraftFile) -> pieces.NewFile:
    """Give a file its name, which no other file has: it may be sent again. Raises StorageFailed."""
    # A file that is not there after an unknown outcome was not sent, and nobody else has its name: it is sent again.
    for remaining_attempts in reversed(range(_MOST_SENT)):
        match file.draft.publish():
            case Created():
                cause = "it is not there"
            case Existed():
                cause = "the name exists"  # the reply to an earlier request of this attempt was lost
            case Unknown(cause):
                pass
        try:
            stat = storage.stat(file.path)
            break
        except FileMissing as fault:
            if not remaining_attempts:
                raise StorageFailed(f"{file.path} was not written", facts={"why": str(cause)}) from fault
    if stat.size_bytes != file.written.size_bytes:
        raise StorageFailed(
            f"{file.path} has {stat.size_bytes} bytes, expected {file.written.size_bytes}", facts={"why": str(cause)}
        )
    return pieces.NewFile(encode(file.path), stat.size_bytes, file.written.rows, file.written.stats, stat.modified_ms)
