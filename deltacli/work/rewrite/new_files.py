"""Write rows to new data files: to a draft, which is read back before it gets its name, or to a temporary file, which
only measures.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.core.tempfiles import forget, remember
from deltacli.core.typing import ArrowArray, ArrowField, ArrowType, RecordBatch
from deltacli.delta.encoding.digests import Digest, RowDigest
from deltacli.delta.partitions.values import constants_of
from deltacli.delta.schema.to_arrow import keeps_partition_columns
from deltacli.delta.stats.collect import StatisticsCollector
from deltacli.storage.disk_faults import writing_faults
from deltacli.work.outputs.parquet_stream import ParquetStream
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.pieces import RewritePiece, RewriteSpec, SourceFile
from deltacli.work.rewrite.sources import SourceRefusedError, Sources, rows_for_new_file
from deltacli.work.rows.data_files import DataFile, OpenDataFile, data_faults
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

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


def write_file(spec: RewriteSpec, place: str, name: str, parts: Iterator[RecordBatch]) -> Written:
    """Write tables or batches, at least one, to the file at a place, up to its largest size. Errors call it `name`.

    Raises StorageFailed.
    """
    import pyarrow as pa

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
        _take_footer(statistics, stream.footer, place)
        return Written(stream.rows, stream.size_bytes, statistics.text(), digest)


def _take_footer(statistics: StatisticsCollector, footer: pyarrow.parquet.FileMetaData, place: str) -> None:
    """Take the bounds from the footer, and from the file where a value is too long for a footer."""
    left = statistics.take_footer(footer)
    if left:
        with open(place, "rb") as source:
            reader = ParquetReader(source, metadata=footer)
            for group, leaf in left:
                for batch in reader.read_leaves(_ROWS_AT_ONCE, group, [leaf]):
                    statistics.take_leaf(leaf, batch)


def read_back(
    spec: RewriteSpec, files: TableFiles, place: str, name: str, written: Written, of_all: Digest | None = None
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
        for batch in rows_for_new_file(files, spec, SourceFile(file), opened):
            found.take(batch)
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
    import pyarrow as pa

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
    import pyarrow as pa

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


def measure_rewrite(piece: RewritePiece, context: TaskContext) -> int | None:
    """Return the bytes of the file that the live rows of a piece's files would become, as the shared `RewriteSpec`
    says; None where one of them cannot be read or kept exactly. A task; nothing of the table is written.
    """
    spec: RewriteSpec = context.shared(SPEC)
    try:
        return _measured(spec, piece, context)
    except (DeltacliError, SourceRefusedError):
        return None


def _measured(spec: RewriteSpec, piece: RewritePiece, context: TaskContext) -> int | None:
    constants = {}
    if keeps_partition_columns(spec.config):
        constants = constants_of(piece.partition_values.items(), spec.config, piece.sources[0].file.path)
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
