"""Open the Parquet files of a checkpoint, and read columns of one row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader, read_footer_bytes
from deltacli.core.errors import CheckpointUnreadable, FileMissing, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import BinaryFile, RecordBatch
from deltacli.delta.checkpoint.content import CheckpointColumns, RowGroup
from deltacli.delta.log.segment import SIDECAR_DIRECTORY
from deltacli.delta.schema.file_columns import hybrid_column
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.page_sizes import ROWS_A_BATCH, choose_rows_per_batch, require_consistent_footer
from deltacli.work.checkpoints.stored_times import mark_instants_as_utc, rebase_batch
from deltacli.work.table_stores import TableStores

FAR_BUFFER_BYTES = 1 << 20
"""Buffer of a column chunk where a read is a request; elsewhere it has `BUFFER_BYTES`."""


class CheckpointPiece(NamedTuple):
    """One row group of one Parquet file of a checkpoint.

    Attributes:
        path: The file, below the table.
        group: The row group.
        tag: Identifies the content of the file when the piece was planned.
        has_parsed_statistics: Whether the file has `add.stats_parsed`.
    """

    path: str
    group: RowGroup
    tag: str
    has_parsed_statistics: bool


@contextmanager
def checkpoint_faults(path: str) -> Iterator[None]:
    """Raise every fault in the bytes of a checkpoint file as CheckpointUnreadable, naming the file."""
    import pyarrow

    try:
        yield
    except FileMissing as fault:
        rule = "sidecar.missing" if SIDECAR_DIRECTORY in path else "checkpoint.unreadable"
        raise CheckpointUnreadable(f"{path} does not exist", code=rule, facts={"file": path}) from fault
    except (pyarrow.ArrowException, OSError, KeyError, UnicodeDecodeError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        raise CheckpointUnreadable(
            f"{path} cannot be read as a checkpoint", facts={"file": path, "reason": reason}
        ) from fault


class OpenParquet(NamedTuple):
    """An open Parquet file of a checkpoint.

    Attributes:
        path: The file, below the table.
        file: Reads its columns.
        source: Its bytes.
        is_near: Whether reading some bytes is cheap, because it is not a request.
        tag: Identifies the content of the file.
        columns: Finds the columns of actions in it.
    """

    path: str
    file: ParquetReader
    source: BinaryFile
    is_near: bool
    tag: str
    columns: CheckpointColumns

    def batches(self, group: int, columns: list[str], *, rows: int = ROWS_A_BATCH) -> Iterator[RecordBatch]:
        """Yield the named columns of a row group, `rows` rows at a time, or fewer if they would not fit into memory."""
        return self.read_measured_batches(group, columns, self.choose_rows_per_batch(group, columns, rows))

    def choose_rows_per_batch(self, group: int, columns: list[str], most: int = ROWS_A_BATCH) -> int:
        """Return how many rows of these columns fit into memory at a time, at `most`.

        Raises what `require_consistent_footer` raises.
        """
        # Measuring takes one read per page, which on a remote store are as many requests.
        if not self.is_near:
            return min(most, ROWS_A_BATCH)
        leaves = self.file.find_leaves(columns)
        require_consistent_footer(self.file.metadata, group, leaves)
        return choose_rows_per_batch(self.source, self.file.metadata, group, leaves, self.path, most)

    def read_measured_batches(self, group: int, columns: list[str], rows: int) -> Iterator[RecordBatch]:
        """Yield the named columns of a row group, which have been measured, `rows` rows at a time.

        Raises:
            CheckpointUnreadable: If the pages have fewer rows than the footer says.
        """
        rows_read = 0
        expected_rows = self.file.metadata.row_group(group).num_rows
        leaves = self.file.find_leaves(columns)
        int96_paths = self.file.find_int96_paths(leaves)

        # Spark 2 and, in its mode LEGACY, later ones write parsed statistics in the calendar of their data files.
        hybrid = hybrid_column(self.file.metadata.schema, leaves, self.file.metadata.metadata)
        for batch in self.file.read_leaves(rows, group, leaves):
            rows_read += batch.num_rows
            instants = mark_instants_as_utc(batch, int96_paths)
            yield instants if hybrid is None else rebase_batch(instants, hybrid)

        # Arrow stops where the pages end, without an error. The actions that are missing would change the table.
        if rows_read != expected_rows:
            raise CheckpointUnreadable(
                f"{self.path} cannot be read as a checkpoint",
                facts={
                    "file": self.path,
                    "reason": f"row group {group} has {expected_rows} rows, but its pages have {rows_read}",
                },
            )


@contextmanager
def open_parquet(storage: ReadStorage, path: str) -> Iterator[OpenParquet]:
    """Open a Parquet file of a checkpoint; every fault while it is open is raised as CheckpointUnreadable."""
    with checkpoint_faults(path), storage.open(path) as source:
        file = ParquetReader(source, buffer_size=_choose_buffer_bytes(storage))
        columns = CheckpointColumns(file.metadata, file.paths, read_footer_bytes(source))
        # Row groups of the file are read later, perhaps by other processes: they compare the tag.
        tag = storage.tag(path, source)
        yield OpenParquet(path, file, source, storage.capabilities.has_cheap_requests, tag, columns)


@contextmanager
def open_piece(stores: TableStores, piece: CheckpointPiece) -> Iterator[OpenParquet]:
    """Open the file of a row group as `open_parquet` does, with its cached footer.

    It must be the file that the piece was planned from. If another writer has replaced the same version, some rows
    would be read twice and others skipped.
    """
    storage = stores.storage
    path = piece.path
    with checkpoint_faults(path), storage.open(path) as source:
        if storage.tag(path, source) != piece.tag:
            raise CheckpointUnreadable(
                f"{path} was changed while it was read",
                facts={"file": path, "next": "run the same command again"},
                hint=command("snapshot"),
            )
        file = ParquetReader(
            source, metadata=stores.footers.get(path, piece.tag), buffer_size=_choose_buffer_bytes(storage)
        )
        stores.footers.put(path, piece.tag, file.metadata)
        columns = CheckpointColumns(file.metadata, file.paths)
        yield OpenParquet(path, file, source, storage.capabilities.has_cheap_requests, piece.tag, columns)


def _choose_buffer_bytes(storage: ReadStorage) -> int:
    return BUFFER_BYTES if storage.capabilities.has_cheap_requests else FAR_BUFFER_BYTES


def require_struct(column: Any, path: str) -> Any:  # Any: pyarrow has no types
    """Return the column if it contains actions. Raises CheckpointUnreadable."""
    import pyarrow.types

    if not pyarrow.types.is_struct(column.type):
        raise CheckpointUnreadable(
            f"{path} cannot be read as a checkpoint",
            facts={"file": path, "reason": f"an action is {str(column.type)[:80]}, expected a struct"},
        )
    return pc.cast(column, replace_view_types(column.type)) if "_view" in str(column.type) else column


def replace_view_types(kind: Any) -> Any:  # Any: pyarrow has no types
    """Return a type with plain strings and binaries instead of views, which few Arrow functions accept."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(replace_view_types(field.type)) for field in fields])
    if pa.types.is_map(kind):
        return pa.map_(replace_view_types(kind.key_type), replace_view_types(kind.item_type))
    return pa.list_(replace_view_types(kind.value_type)) if pa.types.is_list(kind) else kind


def select_rows_of_kind(batch: Any, kind: str, source: str) -> Any:  # Any: pyarrow has no types
    """Return the struct array of one action kind without the rows of other kinds; None if there are no rows."""
    index = batch.schema.get_field_index(kind)
    if index < 0:
        return None
    column = require_struct(batch.column(index), source)
    if column.null_count == len(column):
        return None
    return pc.filter(column, pc.is_valid(column)) if column.null_count else column
