"""Delta tables without a JVM: `open_table(uri).snapshot(version=…)`, `.history()`, `.validate()`.

>>> import deltacli
>>> table = deltacli.open_table("./tbl")                  # doctest: +SKIP
>>> table.snapshot().counts()                             # doctest: +SKIP
>>> [item.operation for item in table.history().items]    # doctest: +SKIP
>>> [finding.rule.id for finding in table.validate().findings]    # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.delta.rules.base import Finding, Severity
    from deltacli.errors import DeltacliError, UsageError
    from deltacli.operations.changes import Changes
    from deltacli.operations.history import History, HistoryItem
    from deltacli.operations.scan import Scan
    from deltacli.operations.table import Table, open_table
    from deltacli.operations.validate import Validation
    from deltacli.operations.version import Snapshot
    from deltacli.progress import Progress

__version__ = "0.1.0"
__all__ = [
    "Changes",
    "DeltacliError",
    "Finding",
    "History",
    "HistoryItem",
    "Progress",
    "Scan",
    "Severity",
    "Snapshot",
    "Table",
    "UsageError",
    "Validation",
    "__version__",
    "open_table",
]

_HOMES = {
    "Changes": "deltacli.operations.changes",
    "DeltacliError": "deltacli.errors",
    "Finding": "deltacli.delta.rules.base",
    "History": "deltacli.operations.history",
    "HistoryItem": "deltacli.operations.history",
    "Progress": "deltacli.progress",
    "Scan": "deltacli.operations.scan",
    "Severity": "deltacli.delta.rules.base",
    "Snapshot": "deltacli.operations.version",
    "Table": "deltacli.operations.table",
    "UsageError": "deltacli.errors",
    "Validation": "deltacli.operations.validate",
    "open_table": "deltacli.operations.table",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import deltacli` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
