"""Delta Sharing: tables for recipients who have no access to the store, over HTTP. `Client` reads what others share.

Spec: the Delta Sharing protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.sharing.client.client import Client, ClientTable, TableMetadata
    from deltacli.sharing.pulling.pull import PullPlan, PullResult

__all__ = ["Client", "ClientTable", "PullPlan", "PullResult", "TableMetadata"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "deltacli.sharing.pulling.pull" if name in ("PullPlan", "PullResult") else "deltacli.sharing.client.client"
    return getattr(import_module(module), name)
