"""Delta tables as DataFrames of PySpark, without a jar: `read_table`, `plan_table`, `read_changes`, and `read_share`
for shared tables; `diff` for rows that differ; `register` for `readStream` and for appending rows by
`frame.write.format("deltacli")`; facts of many tables, such as `history`; and their maintenance by `DeltaTable` and
`maintain`.

>>> from deltacli.spark import read_table                                        # doctest: +SKIP
>>> read_table(spark, "s3a://lake/events", where="day >= '2026-01-01'").show()   # doctest: +SKIP

Rows are read and appended, never overwritten. Spec: Data Files; Deletion Vectors; Column Mapping; Type Widening; Change
Data Files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.spark.care.delta_table import DeltaTable, maintain, register_tables
    from deltacli.spark.care.facts import (
        detail,
        diff,
        files,
        findings,
        fleet_facts,
        history,
        streams,
        tombstones,
        vacuum_plan,
    )
    from deltacli.spark.data_source import register
    from deltacli.spark.shares.read_share import read_share
    from deltacli.spark.table_plan import TablePlan, plan_table, read_changes, read_table

__all__ = [
    "DeltaTable",
    "TablePlan",
    "detail",
    "diff",
    "files",
    "findings",
    "fleet_facts",
    "history",
    "maintain",
    "plan_table",
    "read_changes",
    "read_share",
    "read_table",
    "register",
    "register_tables",
    "streams",
    "tombstones",
    "vacuum_plan",
]

_HOMES = {
    "DeltaTable": "deltacli.spark.care.delta_table",
    "TablePlan": "deltacli.spark.table_plan",
    "detail": "deltacli.spark.care.facts",
    "diff": "deltacli.spark.care.facts",
    "files": "deltacli.spark.care.facts",
    "findings": "deltacli.spark.care.facts",
    "fleet_facts": "deltacli.spark.care.facts",
    "history": "deltacli.spark.care.facts",
    "maintain": "deltacli.spark.care.delta_table",
    "plan_table": "deltacli.spark.table_plan",
    "read_changes": "deltacli.spark.table_plan",
    "read_share": "deltacli.spark.shares.read_share",
    "read_table": "deltacli.spark.table_plan",
    "register": "deltacli.spark.data_source",
    "register_tables": "deltacli.spark.care.delta_table",
    "streams": "deltacli.spark.care.facts",
    "tombstones": "deltacli.spark.care.facts",
    "vacuum_plan": "deltacli.spark.care.facts",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """Import a public name at its first use. Executors import modules of this package, but not its driver's side."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
