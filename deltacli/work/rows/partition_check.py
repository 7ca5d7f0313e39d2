"""Compare the partition values that a data file contains with those of the log.

Spec: Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.rules.partitions.contents import PartitionDifference
from deltacli.work.facts.row_facts import OpenFileContext, ReadsExtraColumns
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.row_reader import find_extra_column

_HAS_ZONE = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})\Z")
_LONGEST = 100


@dataclass(frozen=True)
class PartitionCheck:
    """Checks whether a file contains the partition values of the log.

    `columns` contains each partition column, its physical name, and the additional column that reads it from the file.
    `reports_types`: a column of another type counts as different; otherwise other rules judge the types.
    """

    wanted: ReadSpec
    columns: Sequence[tuple[StructField, str, StructField]]
    reports_types: bool

    def __call__(self, file: OpenFileContext) -> _PartitionValuesCheck | None:
        """Start the check of a file; None if it contains none of the columns."""
        texts = file.add.get("partitionValues") or {}
        parts = []
        of_other_types = []
        for column, physical_name, beside in self.columns:
            constant = file.data_file.constants.get(column.name)
            text = texts.get(physical_name)
            if constant is None:
                continue
            if find_extra_column(self.wanted, beside, file.stored) is None:
                if self.reports_types and physical_name in file.stored.names:
                    stored_type = f"a column of type {file.stored.field(physical_name).type}"
                    of_other_types.append(PartitionDifference(column.name, 0, stored_type, _format_scalar(constant)))
                continue
            if column.data_type == PrimitiveType("timestamp") and text and not _HAS_ZONE.search(text):
                continue  # the time zone of the writer is unknown
            parts.append(_CheckedColumn(column.name, beside.name, constant, text))
        return _PartitionValuesCheck(parts, of_other_types) if parts or of_other_types else None


@dataclass
class _PartitionValuesCheck(ReadsExtraColumns):
    columns: Sequence[_CheckedColumn]
    of_other_types: Sequence[PartitionDifference]
    rows: int = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for column in self.columns:
            column.take(batch.column(column.beside))

    def answer(self) -> list[PartitionDifference]:
        """Return the columns that differ."""
        differences = [
            PartitionDifference(column.name, column.rows, column.seen or "", _format_scalar(column.constant))
            for column in self.columns
            if column.rows
        ]
        return differences + [difference._replace(rows=self.rows) for difference in self.of_other_types if self.rows]


@dataclass
class _CheckedColumn:
    name: str
    beside: str
    constant: ArrowScalar
    text: str | None
    rows: int = 0
    seen: str | None = None

    def take(self, values: ArrowArray) -> None:
        differs = self._differs(values)
        rows = pc.sum(differs).as_py() or 0
        if rows and self.seen is None:
            self.seen = _format_scalar(pc.filter(values, differs)[0])
        self.rows += rows

    def _differs(self, values: ArrowArray) -> ArrowArray:
        constant = self.constant
        if not constant.is_valid:
            # An empty string in the log is null; a file may contain the empty string itself.
            differs = pc.is_valid(values)
            is_text = self.text == "" and str(values.type) == "string"
            return pc.and_not(differs, pc.fill_null(pc.equal(values, ""), False)) if is_text else differs
        differs = pc.fill_null(pc.not_equal(values, constant), True)
        if pa.types.is_floating(constant.type) and isnan(constant.as_py()):
            differs = pc.fill_null(pc.equal(values, values), True)
        return differs


def _format_scalar(scalar: ArrowScalar) -> str:
    """Return a value as a finding shows it, also a date or a time that Python's calendar does not have."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        value = scalar.cast(pa.int32() if pa.types.is_date(scalar.type) else pa.int64()).as_py()
        return f"{value} {'days' if pa.types.is_date(scalar.type) else 'microseconds'} since 1970"
    if value is None:
        return "null"
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text[:_LONGEST]
