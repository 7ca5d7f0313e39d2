"""The checksums of a quarantine: a Parquet file beside the manifest of a plan, written when all files are copied and
before the first one is deleted from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.errors import FileMissing
from deltacli.operations.quarantine.layout import checksums_of
from deltacli.storage import Storage
from deltacli.typing import ArrowArray, ArrowTable

_ROWS_AT_ONCE = 100_000


class Checksum(NamedTuple):
    """What is noted of a copy: its bytes; the SHA-256 of what passed through this process, or the tag that the store
    gave the copy that it made by itself.
    """

    size_bytes: int
    sha256: bytes | None = None
    tag: str | None = None


def rows_of(paths: ArrowArray, checksums: Sequence[Checksum | None]) -> ArrowTable:
    """Return the rows of some files, by their paths as bytes; those that were gone have none."""
    import pyarrow as pa

    schema = _schema()
    columns = [[None if one is None else one[column] for one in checksums] for column in range(3)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, list(schema)[1:], strict=True)]
    return pa.Table.from_arrays([pc.cast(paths, pa.binary()), *arrays], schema=schema).filter(pc.is_valid(arrays[0]))


def write_checksums(storage: Storage, directory: str, parts: Sequence[ArrowTable]) -> None:
    """Write what was noted of copies, beside what an earlier run noted of others. Raises StorageFailed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.concat_tables(parts or [_schema().empty_table()])
    earlier = [
        batch.filter(pc.invert(pc.is_in(batch.column("path"), value_set=rows["path"].combine_chunks())))
        for batch in _read(storage, directory)
    ]
    rows = pa.concat_tables([rows, pa.Table.from_batches(earlier, _schema())])
    path = checksums_of(directory)
    with storage.draft(path) as draft:
        pq.write_table(rows, draft.place, _ROWS_AT_ONCE, compression="zstd", write_page_checksum=True)
        draft.publish(replace=True)


@dataclass(frozen=True)
class NotedChecksums:
    """The checksums of the directory of a plan, read when they are asked for."""

    storage: Storage
    directory: str

    def of(self, paths: ArrowArray) -> ArrowTable:
        """Return what is noted of some files; nothing where the file of checksums is gone or damaged."""
        import pyarrow as pa

        wanted = (batch.filter(pc.is_in(batch.column("path"), value_set=paths)) for batch in self._read())
        return pa.Table.from_batches(wanted, _schema())

    def _read(self) -> Iterator[ArrowTable]:
        return _read(self.storage, self.directory)


def _read(storage: Storage, directory: str) -> Iterator[ArrowTable]:
    """Yield the rows in batches, as far as they can be read."""
    import pyarrow as pa

    try:
        with storage.open(checksums_of(directory)) as source:
            reader = ParquetReader(source, verify_pages=True)
            for group in range(reader.metadata.num_row_groups):
                yield from reader.read_group(group).cast(_schema()).to_batches()
    except (FileMissing, pa.ArrowException, OSError, ValueError, LookupError):
        return  # what is not noted is not proven, and said to be so


def _schema() -> ArrowTable:
    import pyarrow as pa

    kinds = (("path", pa.binary()), ("sizeBytes", pa.int64()), ("sha256", pa.binary()), ("tag", pa.string()))
    return pa.schema(kinds)
