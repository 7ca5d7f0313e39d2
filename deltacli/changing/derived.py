"""Files of the log that follow from its commits, such as checkpoints: where they may be written, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.changing.basis import Basis, require_past
from deltacli.delta.protocol import protocol_action
from deltacli.errors import ProtocolUnsupported, Unreadable
from deltacli.operations.table.find_log import Log
from deltacli.operations.table.rebuild import rebuild

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


def require_derivable(snapshot: Snapshot) -> None:
    """Raise Refused where the protocol of a version, or of the newest one, does not allow to write files of the log.

    A newest version that is damaged forbids nothing.
    """
    protocol_action.require_derivable(snapshot.protocol, snapshot.version)
    newest = snapshot.listing.newest_version
    if newest > snapshot.version:
        try:
            now = rebuild(snapshot.table, Log(snapshot.listing), newest)
        except ProtocolUnsupported:
            raise
        except Unreadable:
            return
        protocol_action.require_derivable(now.protocol, newest)


def require_unchanged(basis: Basis) -> None:
    """Raise Refused (`plan.other-past`) where the commit that a file was derived from is another one: on a disk always,
    on a store over a network where it was listed some seconds ago.
    """
    storage = basis.table.storage
    if storage.capabilities.cheap_listing or not basis.is_fresh:
        require_past(storage, basis.past)
