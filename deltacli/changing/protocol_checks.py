"""Checks that the protocol of a table, or the catalog that manages it, allows a change at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.protocol import features
from deltacli.table.find_log import ListedLog
from deltacli.table.handle import managed_store
from deltacli.table.rebuild import rebuild_version

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot


def require_committable(snapshot: Snapshot) -> None:
    """Require that deltacli may commit after a version.

    A table that was opened by the name in its catalog is asked there: the catalog allows features, such as catalog
    commits, that nobody may write without it.

    Raises:
        Refused: If the protocol or the catalog forbids it.
    """
    managed = managed_store(snapshot.table.storage)
    if managed is not None:
        managed.require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
    else:
        features.require_committable(snapshot.protocol, snapshot.properties, snapshot.version)


def require_derivable(snapshot: Snapshot) -> None:
    """Require that files of the log may be written for a version: a checkpoint, a compaction, a checksum.

    The newest version is asked as well: its protocol says what a writer to this log has to understand now. A newest
    version that is damaged forbids nothing by itself.

    Raises:
        Refused: If the protocol of either version forbids it, or if the newest version is of another table than the
            name in the catalog.
    """
    features.require_derivable(snapshot.protocol, snapshot.version)
    newest_snapshot = _read_newest_readable(snapshot)
    if newest_snapshot is not snapshot:
        features.require_derivable(newest_snapshot.protocol, newest_snapshot.version)

    # Versions from before a catalog managed the table do not name it, so only the newest one counts.
    managed = managed_store(newest_snapshot.table.storage)
    if managed is not None:
        managed.require_no_other_table(newest_snapshot.properties, newest_snapshot.version)


def _read_newest_readable(snapshot: Snapshot) -> Snapshot:
    """Return the newest version, or the version at hand if the newest one is damaged.

    Raises:
        ProtocolUnsupported: If the newest version needs a feature that is not supported.
    """
    newest_version = snapshot.listing.newest_version
    if newest_version <= snapshot.version:
        return snapshot
    try:
        return rebuild_version(snapshot.table, ListedLog(snapshot.listing), newest_version)
    except errors.ProtocolUnsupported:
        raise
    except errors.Unreadable:
        return snapshot
