"""Read facts about change data files.

Spec: Change Data Files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, StorageFailed
from deltacli.core.typing import ArrowArray
from deltacli.delta.footers.parse import Footer
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.rules.framework.data_file_views import ChangeTypes, FileFault
from deltacli.work.facts.footer_files import FooterFiles, FooterPiece, make_reading_fault, make_unreadable_fault
from deltacli.work.rows import data_files
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.table_files import TableFiles
from deltacli.work.task import TaskContext

CHANGE_TYPE = "_change_type"
KINDS = ("insert", "update_preimage", "update_postimage", "delete")


class ChangeFacts(NamedTuple):
    """The result for one file. Without a footer nothing is known. `types` is None if rows were not read."""

    footer: Footer | None
    fault: FileFault | None
    types: ChangeTypes | None = None


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Reads change data files: footers only, or footers and rows."""

    with_rows: bool

    def __call__(self, piece: FooterPiece, context: TaskContext) -> list[ChangeFacts]:
        """Read the files. A missing file has neither a footer nor a fault."""
        read = FooterFiles(context).read(piece)
        return [
            self._rows(context.files, file.path, *footer_read) for file, footer_read in zip(piece, read, strict=True)
        ]

    def _rows(self, files: TableFiles, path: str, footer: Footer | None, fault: FileFault | None) -> ChangeFacts:
        if footer is None or fault is not None or not self.with_rows:
            return ChangeFacts(footer, fault)
        try:
            return ChangeFacts(footer, None, count_change_types(files, path))
        except DataUnreadable as unreadable:
            # The column is no string: another rule reports that from the footer.
            if unreadable.code == "data.type-mismatch":
                return ChangeFacts(footer, None)
            return ChangeFacts(footer, make_reading_fault(path, unreadable))
        except StorageFailed as failed:
            return ChangeFacts(footer, make_unreadable_fault(path, failed))


def count_change_types(files: TableFiles, path: str) -> ChangeTypes | None:
    """Count the change types in a file; None if it has no such column. Raises DataUnreadable."""
    column = StructField(CHANGE_TYPE, PrimitiveType("string"), True, {})
    schema = build_arrow_schema((column,))
    wanted = data_files.ReadSpec((column,), schema, schema, FileColumns("none", lambda field: field.name))
    file = data_files.DataFile(path, None)
    counts: Counter[str] = Counter()
    bad = 0
    example = None
    with data_files.open_data_file(files, file) as opened:
        if CHANGE_TYPE not in opened.schema.names:
            return None
        for batch in read_opened(files, wanted, file, opened):
            values = batch.column(0)
            known = sum(_count_kind(values, kind, counts) for kind in KINDS)
            if known < len(values):
                bad += len(values) - known
                example = example or _format_unknown_value(values)
    return ChangeTypes(counts, bad, example)


def _count_kind(values: ArrowArray, kind: str, counts: Counter[str]) -> int:
    count: int = pc.sum(pc.equal(values, kind)).as_py() or 0
    counts[kind] += count
    return count


def _format_unknown_value(values: ArrowArray) -> str:
    strange = pc.filter(values, pc.invert(pc.is_in(values, value_set=pa.array(KINDS, pa.string()))))
    value = strange[0].as_py()
    return "null" if value is None else repr(value)[:100]
