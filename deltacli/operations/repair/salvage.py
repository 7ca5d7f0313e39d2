"""The rows of a damaged data file that can still be read: whole row groups, without rows that were deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.delta.paths import decode
from deltacli.errors import DataUnreadable, DeltacliError, StorageFailed
from deltacli.memory_limit import stop_if_exhausted
from deltacli.storage import Unknown
from deltacli.storage.disk_faults import writing_faults
from deltacli.work.outputs.parquet_stream import ParquetStream
from deltacli.work.rows.data_files import DataFile, open_data_file
from deltacli.work.rows.deletion_vectors import Descriptor, read_vector

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.encoding.roaring import DeletedRows
    from deltacli.operations.repair.plan import Run


class DamagedFile(NamedTuple):
    """A data file, parts of which may be readable: its path as in the log, and its vector."""

    path: str
    vector: Descriptor | None


def salvage(run: Run, files: tuple[DamagedFile, ...]) -> int:
    """Write the readable rows of files below `rows/` of the backup, and return their number.

    A file is passed over where its footer or its vector cannot be read: then it is not known which rows it had.
    """
    return sum(_salvaged(run, file) for file in files)


def _salvaged(run: Run, file: DamagedFile) -> int:
    import pyarrow as pa

    files = run.table.files()
    store, target = run.backup.store, run.backup.below(f"rows/{decode(file.path).rpartition('://')[2].lstrip('/')}")
    try:
        deleted = None if file.vector is None else read_vector(files, file.vector)
        with open_data_file(files, DataFile(file.path, None)) as opened:
            reader = ParquetReader(opened.source, verify_pages=True)
            groups = _groups(reader, deleted)
            first = next(groups, None)
            if first is None:
                return 0
            with store.draft(target) as draft:
                with writing_faults(draft.place, target), open(draft.place, "wb") as sink:
                    stream = ParquetStream(sink, first.schema)
                    for table in (first, *groups):
                        for batch in table.to_batches():
                            stream.add(batch)
                    stream.finish()
                outcome = draft.publish(replace=True)
                if isinstance(outcome, Unknown):
                    raise StorageFailed(f"{target} may not have been written: {outcome.cause}")
                return stream.rows
    except DataUnreadable:
        return 0
    except (pa.ArrowException, OSError) as fault:
        if isinstance(fault, DeltacliError):
            raise
        stop_if_exhausted(fault)
        return 0


def _groups(reader: ParquetReader, deleted: DeletedRows | None) -> Iterator[pyarrow.Table]:
    """Yield the row groups that can be read, without deleted rows."""
    import pyarrow as pa

    metadata, begin = reader.metadata, 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        try:
            table = reader.read_group(group)
            for column in table.columns:
                column.validate(full=True)
        except (pa.ArrowException, OSError) as fault:
            stop_if_exhausted(fault)
        else:
            mask = None if deleted is None else deleted.mask(begin, rows)
            yield table if mask is None else table.filter(pc.invert(mask))
        begin += rows
