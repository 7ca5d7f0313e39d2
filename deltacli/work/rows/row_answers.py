"""Read the rows of data files, one at a time, and answer the questions of the checks about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.delta.partitions.values import constants_of
from deltacli.delta.rules.framework.file_views import FileFault
from deltacli.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed, UsageError
from deltacli.typing import ArrowScalar
from deltacli.work.file_facts import (
    REFUSED,
    FileFacts,
    FooterFiles,
    FooterPool,
    ListedFile,
    read_file,
    refused,
    unread,
)
from deltacli.work.rows.data_files import DataFile
from deltacli.work.rows.row_checks import ChecksOfTable, RowChecks
from deltacli.work.task import TaskContext
from deltacli.work.vector_facts import VectorPiece, rows_of_vector

CHECKS = "checks"
"""The name of the shared `ChecksOfTable`."""
_MOST_KNOWN = 1 << 12
"""Maximum number of partitions whose parsed values are kept."""
_BESIDE_ROWS = 64 << 10
"""Bytes of rows that take as long as opening a file."""


class RowPiece(NamedTuple):
    """One file, with what the questions need of its add. A file is opened once, so it is never split.

    `partition_values` are as in the log; `bytes_in_log` is the size of the file in its add. `vector` has the vector of
    the file, None without one; with `is_vector_unusable` only the footer is read, because the live rows are unknown.
    """

    row: int
    file: ListedFile
    bytes_in_log: int | None
    partition_values: tuple[tuple[str, str | None], ...] | None
    stats: str | None
    base_row_id: int | None
    vector: VectorPiece | None = None
    is_vector_unusable: bool = False

    @property
    def add(self) -> Mapping[str, Any]:  # Any: values of the columns
        """The columns of the add that questions use."""
        values = None if self.partition_values is None else dict(self.partition_values)
        return {"path": self.file.path, "partitionValues": values, "stats": self.stats, "baseRowId": self.base_row_id}


def weight_of_rows(piece: RowPiece) -> int:
    """Return the cost of a piece: the bytes of the file, and as many again as opening it costs."""
    return _BESIDE_ROWS + max(piece.bytes_in_log or 0, 0)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads the rows of a file for the shared `ChecksOfTable`."""

    def __call__(self, piece: RowPiece, context: TaskContext) -> FileFacts:
        """Return the facts about the file."""
        path, footers = piece.file.path, FooterFiles(context)
        of_table: ChecksOfTable = context.shared(CHECKS)
        if context.files.is_refused(path):
            return FileFacts(piece.row, None, REFUSED)
        try:
            if footers.place(piece.file) is None:
                return FileFacts(piece.row, None)
            constants = _constants(piece, of_table.checks)
        except DataUnreadable:  # its partition values are reported by other rules
            return FileFacts(piece.row, *footers.read([piece.file])[0], is_unread=True)
        except FileMissing:
            return FileFacts(piece.row, None, FileFault("data.file-missing", f"{path} not found", "no such file"))
        except PathExternal as refusal:
            return FileFacts(piece.row, None, refused(context.files, path, refusal))
        except (StorageFailed, UsageError) as fault:
            return FileFacts(piece.row, None, unread(path, fault))
        return _answers(piece, constants, of_table.checks, context)


def _answers(
    piece: RowPiece,
    constants: Mapping[str, ArrowScalar],
    checks: RowChecks,
    context: TaskContext,
) -> FileFacts:
    vector, deleted = None, None
    if piece.vector is not None:
        deleted = None if piece.is_vector_unusable else rows_of_vector(piece.vector, context)
        if deleted is None:
            return FileFacts(piece.row, *FooterFiles(context).read([piece.file])[0])
        vector = piece.vector.vectors[0][1]
    data_file = DataFile(piece.file.path, piece.bytes_in_log, constants, vector, deleted=deleted)
    pool = context.stores.kept(FooterPool)
    return read_file(context.files, checks.wanted, piece.row, piece.add, data_file, checks.questions, pool)


def _constants(piece: RowPiece, checks: RowChecks) -> dict[str, ArrowScalar]:
    """Return the partition values of a file by logical name. Raises DataUnreadable (`partition.*`)."""
    known = checks.constants
    parsed = known.get(piece.partition_values)
    if parsed is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        parsed = known[piece.partition_values] = constants_of(piece.partition_values, checks.config, piece.file.path)
    return parsed
