"""`read --count`: the number of rows of a version, by the log where that has it of every file, else by reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.lock_free_property import cached_property
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.schema.to_arrow import drop_unsupported_columns
from deltacli.delta.schema.types import PrimitiveType
from deltacli.operations.read.snapshot import count_rows as count_rows_in_log
from deltacli.operations.read.snapshot import doubts_of_rows
from deltacli.table.repeated_files import deduplicate_live_files

if TYPE_CHECKING:
    from deltacli.table.scan import Scan
    from deltacli.table.version import Snapshot

_MAX_CHECKPOINT_BYTES = 64 << 20
"""Of a checkpoint that is read once more only to say how many rows there are: it takes a fraction of a second."""


class RowCount:
    """The number of rows of a version.

    Attributes:
        snapshot: The version.
        scan: The rows that are read to be counted. None: the log has the number.
        is_from_log: True if the log alone says the number, without the footer or the vector of any file.
    """

    def __init__(
        self, snapshot: Snapshot, *, rows: int | None = None, scan: Scan | None = None, is_from_log: bool = False
    ) -> None:
        """Keep a number of rows, or a scan by which they are counted once they are asked for."""
        self.snapshot = snapshot
        self.scan = scan
        self.is_from_log = is_from_log
        self._rows = rows

    @cached_property
    def rows(self) -> int:
        """Return the number. Raises DataUnreadable if rows have to be read, and a file is missing or damaged."""
        if self._rows is not None:
            return self._rows
        assert self.scan is not None
        return self.scan.count()


def count_rows(snapshot: Snapshot, where: str | None) -> RowCount:
    """Count the rows of a version that meet a condition; with None, all rows.

    Raises:
        UsageError: If the condition is invalid.
        DataUnreadable: If a footer or vector is needed, and cannot be read.
    """
    if where is None:
        snapshot = deduplicate_live_files(snapshot)
        rows, is_from_log = count_rows_in_log(snapshot)
        if rows is not None:
            return RowCount(snapshot, rows=rows, is_from_log=is_from_log)

    return RowCount(snapshot, scan=snapshot.scan(columns=_choose_column_to_read(snapshot, where), where=where))


def find_row_count(snapshot: Snapshot) -> int | None:
    """Return how many rows a version has, if its log says it at once and can be trusted; else None."""
    checkpoint = snapshot.segment.checkpoint
    checkpoint_bytes = 0 if checkpoint is None else sum(file.size_bytes for file in checkpoint.files)
    if checkpoint_bytes > _MAX_CHECKPOINT_BYTES or snapshot.sidecars:
        return None

    snapshot = deduplicate_live_files(snapshot)
    counts, _ = snapshot.counts()
    if doubts_of_rows(snapshot, counts):
        return None
    return counts.rows


def _choose_column_to_read(snapshot: Snapshot, where: str | None) -> list[str]:
    """Return the column that a count reads: one of the condition, else if possible one without nested fields."""
    if where is not None:
        used = parse_predicate(where, snapshot.schema).columns
        if used:
            return [next(iter(used))[0]]

    columns = drop_unsupported_columns(snapshot.schema.fields) or snapshot.schema.fields
    by_simplicity = sorted(columns, key=lambda column: not isinstance(column.data_type, PrimitiveType))
    return [column.name for column in by_simplicity[:1]]
