"""Check the partition columns stored in data files, which other readers ignore."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.rules.partitions.contents import PartitionDifference
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.typing import ArrowArray, ArrowScalar
from deltacli.work.file_facts import AskingBeside, OpenFileContext
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.row_reader import find_beside

if TYPE_CHECKING:
    import pyarrow

_HAS_ZONE = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})\Z")
_LONGEST = 100


@dataclass(frozen=True)
class PartitionCheck:
    """Checks whether a file contains the partition values of the log.

    `columns` contains each partition column, its physical name, and the additional column that reads it from the file.
    """

    wanted: ReadSpec
    columns: Sequence[tuple[StructField, str, StructField]]

    def __call__(self, file: OpenFileContext) -> _AskingPartitions | None:
        """Start the check of a file; None if it contains none of the columns."""
        texts = file.add.get("partitionValues") or {}
        parts = []
        for column, physical_name, beside in self.columns:
            constant = file.data_file.constants.get(column.name)
            text = texts.get(physical_name)
            if constant is None or find_beside(self.wanted, beside, file.stored) is None:
                continue
            if column.data_type == PrimitiveType("timestamp") and text and not _HAS_ZONE.search(text):
                continue  # the time zone of the writer is unknown
            parts.append(_Column(column.name, beside.name, constant, text))
        return _AskingPartitions(parts) if parts else None


@dataclass
class _AskingPartitions(AskingBeside):
    columns: Sequence[_Column]

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Process a batch of rows."""
        for column in self.columns:
            column.take(batch.column(column.beside))

    def answer(self) -> list[PartitionDifference]:
        """Return the columns that differ."""
        return [
            PartitionDifference(column.name, column.rows, column.seen or "", _shown(column.constant.as_py()))
            for column in self.columns
            if column.rows
        ]


@dataclass
class _Column:
    name: str
    beside: str
    constant: ArrowScalar
    text: str | None
    rows: int = 0
    seen: str | None = None

    def take(self, values: Any) -> None:  # Any: an array of the type of the constant
        differs = self._differs(values)
        rows = pc.sum(differs).as_py() or 0
        if rows and self.seen is None:
            self.seen = _shown(pc.filter(values, differs)[0].as_py())
        self.rows += rows

    def _differs(self, values: ArrowArray) -> ArrowArray:
        constant = self.constant
        if not constant.is_valid:
            # An empty string in the log is null; a file may contain the empty string itself.
            differs = pc.is_valid(values)
            is_text = self.text == "" and str(values.type) == "string"
            return pc.and_not(differs, pc.fill_null(pc.equal(values, ""), False)) if is_text else differs
        differs = pc.fill_null(pc.not_equal(values, constant), True)
        if constant.as_py() != constant.as_py():  # NaN
            differs = pc.fill_null(pc.equal(values, values), True)
        return differs


def _shown(value: object) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text[:_LONGEST]
