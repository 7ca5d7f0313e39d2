"""Find the version from which on in-commit timestamps are the commit times of a table.

If in-commit timestamps are enabled on an existing table, the commits before that have no timestamp, and
their time is the modification time of the commit file. The properties
`delta.inCommitTimestampEnablementVersion` and `delta.inCommitTimestampEnablementTimestamp` of the newest
version record when they were enabled. As in Delta for Spark, the newest version decides: if it has
disabled in-commit timestamps, file modification times are used for all versions.

Spec: In-Commit Timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.state import get_in_commit_timestamp_keys, parse_integer_property

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_BEFORE_ALL_TIMES = -(2**63)
"""The smallest 64-bit integer."""


class TimestampEnablement(NamedTuple):
    """The version that enabled in-commit timestamps.

    Attributes:
        version: The first version whose commit time is its in-commit timestamp.
        timestamp_ms: The in-commit timestamp of that version, in epoch milliseconds.
    """

    version: int
    timestamp_ms: int


def get_timestamp_enablement(newest: Snapshot) -> TimestampEnablement | None:
    """Return the version that enabled in-commit timestamps.

    Args:
        newest: The newest version of the table.

    Returns:
        The version and its timestamp; None if in-commit timestamps are not enabled.
    """
    keys = get_in_commit_timestamp_keys(newest.protocol.supported_features, newest.properties)
    if keys is None:
        return None
    version = parse_integer_property(newest.properties, keys.version)
    timestamp_ms = parse_integer_property(newest.properties, keys.timestamp)
    if version is None or timestamp_ms is None:
        # The properties are absent if the first commit enabled in-commit timestamps. Then they are valid
        # for all versions, and for all timestamps that are searched for.
        return TimestampEnablement(0, _BEFORE_ALL_TIMES)
    return TimestampEnablement(version, timestamp_ms)


def get_enablement_version(newest: Snapshot) -> int | None:
    """Return the first version whose commit time is its in-commit timestamp.

    Args:
        newest: The newest version of the table.

    Returns:
        The version; None if the commit times of all versions are file modification times.
    """
    enablement = get_timestamp_enablement(newest)
    return None if enablement is None else enablement.version
