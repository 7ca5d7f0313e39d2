"""Damages of what data files are."""

from __future__ import annotations

from tests.rules.corruptions import damage
from tests.rules.data_table import DataTable, rows_of


@damage("data.not-parquet")
def file_of_zeros() -> DataTable:
    table = DataTable()
    table.replace_bytes(3, bytes(1000))
    return table


@damage("data.row-count-zero")
def file_without_rows() -> DataTable:
    table = DataTable()
    table.put_rows(table.add(3), rows_of(4).slice(0, 0), 3)
    return table


@damage("stats.num-records-mismatch")
def one_record_too_many() -> DataTable:
    table = DataTable()
    stats = table.stats(3)
    table.set_stats(3, stats | {"numRecords": stats["numRecords"] + 1})
    return table
