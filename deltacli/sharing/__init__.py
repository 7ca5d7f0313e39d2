"""Delta Sharing: tables for recipients who have no access to the store, over HTTP. `Client` reads what others share.

Spec: the Delta Sharing protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.sharing.client.client import Client, ClientTable, TableMetadata

__all__ = ["Client", "ClientTable", "TableMetadata"]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("deltacli.sharing.client.client"), name)
