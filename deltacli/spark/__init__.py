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
    from deltacli.spark.care.facts import detail, diff, files, findings, fleet_facts, history, tombstones, vacuum_plan
    from deltacli.spark.data_source import register
    from deltacli.spark.planner import plan_table, read_changes, read_table
    from deltacli.spark.shares.read_share import read_share
    from deltacli.spark.table_plan import TablePlan

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
    "tombstones",
    "vacuum_plan",
]

_HOMES = {
    "care.delta_table": ("DeltaTable", "maintain", "register_tables"),
    "care.facts": ("detail", "diff", "files", "findings", "fleet_facts", "history", "tombstones", "vacuum_plan"),
    "data_source": ("register",),
    "planner": ("plan_table", "read_changes", "read_table"),
    "shares.read_share": ("read_share",),
    "table_plan": ("TablePlan",),
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """Import a public name at its first use. Executors import modules of this package, but not its driver's side."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
