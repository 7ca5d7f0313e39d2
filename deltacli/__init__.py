"""Delta tables without a JVM: `open_table(uri).snapshot(version=…)`, `.history()`.

>>> import deltacli
>>> table = deltacli.open_table("./tbl")                  # doctest: +SKIP
>>> table.snapshot().counts()                             # doctest: +SKIP
>>> [item.operation for item in table.history().items]    # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.errors import DeltacliError
    from deltacli.operations.history import History, HistoryItem
    from deltacli.operations.table import Snapshot, Table, open_table
    from deltacli.progress import Progress

__version__ = "0.1.0"
__all__ = ["DeltacliError", "History", "HistoryItem", "Progress", "Snapshot", "Table", "__version__", "open_table"]

_HOMES = {
    "DeltacliError": "deltacli.errors",
    "History": "deltacli.operations.history",
    "HistoryItem": "deltacli.operations.history",
    "Progress": "deltacli.progress",
    "Snapshot": "deltacli.operations.table",
    "Table": "deltacli.operations.table",
    "open_table": "deltacli.operations.table",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import deltacli` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
