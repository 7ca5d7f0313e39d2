"""The tables that Spark builds for these tests, one per feature that Delta for Spark can write."""

from __future__ import annotations

from tests.judges.spark_reads.cases import columns, logs, mapping, partitions, row_changes, values
from tests.judges.spark_reads.cases.case import Case

CASES: tuple[Case, ...] = (
    *partitions.CASES,
    *mapping.CASES,
    *row_changes.CASES,
    *columns.CASES,
    *values.CASES,
    *logs.CASES,
)

__all__ = ["CASES", "Case"]
