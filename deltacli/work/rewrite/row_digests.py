"""The task that computes a digest of the rows of data files, to compare those of two versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.delta.encoding.multiset_digest import MultisetDigest
from deltacli.work.rewrite.pieces import SourceFile
from deltacli.work.rewrite.sources import with_row_ids
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.row_reader import read_rows
from deltacli.work.task import TaskContext

WANTED = "wanted"
"""The name of the shared `ReadSpec`, which `whole_rows` makes."""

RowsDigest = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DigestRows:
    """Reads files by the rules of their table: partition values, live rows and, with row tracking, the ids of rows."""

    def __call__(self, piece: Sequence[SourceFile], context: TaskContext) -> RowsDigest:
        """Return the digest of all rows of the files. Raises DataUnreadable, PathExternal and StorageFailed."""
        wanted: ReadSpec = context.shared(WANTED)
        digest = MultisetDigest()
        for source in piece:
            for batch in read_rows(context.files, wanted, source.file):
                digest.take(with_row_ids(batch, source) if wanted.row_numbers is not None else batch)
        return digest.answer()
