"""Delta tables without a JVM: `open_table(uri).snapshot(version=…)`, `.history()`, `.validate()`.

>>> import deltacli
>>> table = deltacli.open_table("./tbl")                  # doctest: +SKIP
>>> table.snapshot().counts()                             # doctest: +SKIP
>>> [item.operation for item in table.history().items]    # doctest: +SKIP
>>> [finding.rule.id for finding in table.validate().findings]    # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.release import VERSION

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon, open_paimon
    from deltacli.api.table import Table, open_table
    from deltacli.core.errors import DeltacliError, UsageError
    from deltacli.core.progress import Progress
    from deltacli.engine.spark.engine import SparkEngine
    from deltacli.operations.read.changes import Changes
    from deltacli.operations.read.history import History, HistoryItem
    from deltacli.operations.validate.validate import Validation
    from deltacli.rules.framework.base import Finding, Severity
    from deltacli.table.scan import Scan
    from deltacli.table.version import Snapshot

__version__ = VERSION
__all__ = [
    "Changes",
    "DeltacliError",
    "Finding",
    "History",
    "HistoryItem",
    "Paimon",
    "Progress",
    "Scan",
    "Severity",
    "Snapshot",
    "SparkEngine",
    "Table",
    "UsageError",
    "Validation",
    "__version__",
    "open_paimon",
    "open_table",
]

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
    return sorted([*__all__, *_MODULES])


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import deltacli` itself costs nothing."""
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(_HOMES[name]), name)
