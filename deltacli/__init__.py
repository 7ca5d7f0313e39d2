"""Inspect, check and maintain Delta and Paimon tables, without a JVM.

    import deltacli

    table = deltacli.open_table("./tbl")  # a path or a URI; nothing is read yet
    for item in table.history(limit=5).items:
        print(item.version, item.time.moment, item.operation)
    rows = table.snapshot(version=3).scan(columns=["trip"], limit=5).to_arrow()
    findings = table.validate(level="storage").findings
    plan = table.plan_restore(version=3)  # shows what would change
    table.execute_restore(plan)  # commits it

`open_table` returns a Table and `open_paimon` a Paimon: `help(deltacli.Table)` explains their methods.

- Table.history, snapshot, changes, diff, validate, reach, explain and doctor read.
- Table.vacuum, optimize, restore, repair and others change the table at once, and never ask. With `dry_run=True` they
  change nothing. In two steps: `plan_vacuum()` returns a plan, `execute_vacuum(plan)` carries it out, and so on.

Every exception is a DeltacliError with `code`, `exit_code`, `facts` and `hint`; `deltacli.errors` has them all:
UsageError (a wrong argument), Unreadable (no table, or a damaged one), Refused (by a guard; nothing changed),
PartlyDone (run it again), ConflictLost (to other writers), StorageFailed, OutcomeUnknown (a commit may be there).

`deltacli.sharing` reads what others share, `deltacli.spark` makes DataFrames. The guide is docs/python.md of the
source; `deltacli help topics` explains the rest in a shell. The other packages are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.release import VERSION

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon as Paimon
    from deltacli.api.paimon import open_paimon
    from deltacli.api.table import Table as Table
    from deltacli.api.table import open_table
    from deltacli.core.errors import DeltacliError as DeltacliError
    from deltacli.core.errors import UsageError as UsageError
    from deltacli.core.progress import Progress as Progress
    from deltacli.engine.spark.engine import SparkEngine as SparkEngine
    from deltacli.operations.read.changes import Changes as Changes
    from deltacli.operations.read.history import History as History
    from deltacli.operations.read.history import HistoryItem as HistoryItem
    from deltacli.operations.validate.validate import Validation as Validation
    from deltacli.rules.framework.base import Finding as Finding
    from deltacli.rules.framework.base import Severity as Severity
    from deltacli.table.scan import Scan as Scan
    from deltacli.table.version import Snapshot as Snapshot

__version__ = VERSION
__all__ = ["__version__", "open_paimon", "open_table"]
"""What `help(deltacli)` explains in full; the classes have their own help."""

_HOMES = {
    "Changes": "deltacli.operations.read.changes",
    "DeltacliError": "deltacli.core.errors",
    "Finding": "deltacli.rules.framework.base",
    "History": "deltacli.operations.read.history",
    "HistoryItem": "deltacli.operations.read.history",
    "Paimon": "deltacli.api.paimon",
    "Progress": "deltacli.core.progress",
    "Scan": "deltacli.table.scan",
    "Severity": "deltacli.rules.framework.base",
    "SparkEngine": "deltacli.engine.spark.engine",
    "Snapshot": "deltacli.table.version",
    "Table": "deltacli.api.table",
    "UsageError": "deltacli.core.errors",
    "Validation": "deltacli.operations.validate.validate",
    "open_paimon": "deltacli.api.paimon",
    "open_table": "deltacli.api.table",
}


_MODULES = ("errors", "sharing", "spark")
"""Modules that are part of the API, imported at their first use, too."""


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES, *_MODULES])


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import deltacli` itself costs nothing."""
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(_HOMES[name]), name)
