"""Checks that the protocol of a table, or the catalog that manages it, allows deltacli to write to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.protocol import features
from deltacli.table.find_log import ListedLog
from deltacli.table.handle import managed_store
from deltacli.table.rebuild import rebuild_version

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot


def require_commit_allowed(snapshot: Snapshot) -> None:
    """Require that deltacli may commit a version after a snapshot.

    If the table was opened by its name in a catalog, the catalog decides. It allows table features, such as catalog
    commits, that only writers with access to the catalog may write.

    Raises:
        Refused: If the protocol or the catalog forbids the commit.
    """
    managed = managed_store(snapshot.table.storage)
    if managed is not None:
        managed.require_commits_supported(snapshot.protocol, snapshot.properties, snapshot.version)
    else:
        features.require_commits_supported(snapshot.protocol, snapshot.properties, snapshot.version)


def require_derived_files_allowed(snapshot: Snapshot) -> None:
    """Require that deltacli may write derived log files for a version: a checkpoint, a log compaction, a checksum file.

    The newest version must allow it as well, because its protocol applies to all writers to the log. A newest version
    that is damaged is ignored.

    Raises:
        Refused: If the protocol of either version forbids it; or if the newest version belongs to another table than
            the one that is registered in the catalog.
    """
    features.require_derived_files_supported(snapshot.protocol, snapshot.version)
    newest_snapshot = _read_newest_readable(snapshot)
    if newest_snapshot is not snapshot:
        features.require_derived_files_supported(newest_snapshot.protocol, newest_snapshot.version)

    # If a table was registered in a catalog after some of its versions were created, only later versions have the
    # property with the table id of the catalog. So the newest version is compared.
    managed = managed_store(newest_snapshot.table.storage)
    if managed is not None:
        managed.require_registered_table(newest_snapshot.properties, newest_snapshot.version)


def _read_newest_readable(snapshot: Snapshot) -> Snapshot:
    """Return the newest version, or the given version if the newest one is damaged.

    Raises:
        ProtocolUnsupported: If the newest version requires a feature that deltacli does not support.
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
