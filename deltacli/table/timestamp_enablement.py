"""From which version on the in-commit timestamps of a table count.

A table that enables in-commit timestamps late has older commits whose time is that of their file. The
properties of the newest version say where the change is, and they decide for all versions, as in Delta
for Spark. After in-commit timestamps were disabled, also commits that have one count by their files.

Spec: In-Commit Timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.state import in_commit_keys, parse_integer

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_BEFORE_ALL_TIMES = -(2**63)


class TimestampEnablement(NamedTuple):
    """The start of in-commit timestamps.

    Attributes:
        version: The first version whose time is its in-commit timestamp.
        timestamp_ms: The in-commit timestamp of that version, in epoch milliseconds.
    """

    version: int
    timestamp_ms: int


def get_timestamp_enablement(newest: Snapshot) -> TimestampEnablement | None:
    """Return where in-commit timestamps start, by the properties of the newest version; None without them."""
    keys = in_commit_keys(newest.protocol.supported_features, newest.properties)
    if keys is None:
        return None
    version = parse_integer(newest.properties, keys.version)
    timestamp_ms = parse_integer(newest.properties, keys.timestamp)
    if version is None or timestamp_ms is None:
        # A table that was created with them does not record where they start.
        return TimestampEnablement(0, _BEFORE_ALL_TIMES)
    return TimestampEnablement(version, timestamp_ms)


def get_enablement_version(newest: Snapshot) -> int | None:
    """Return the first version whose time is its in-commit timestamp; None if all have the times of files."""
    enablement = get_timestamp_enablement(newest)
    return None if enablement is None else enablement.version
