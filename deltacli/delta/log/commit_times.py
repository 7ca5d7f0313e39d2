"""Commit times: in-commit timestamps, and file times made monotonic.

Spec: In-Commit Timestamps; Recommendations for Readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from deltacli.delta.log.segment import LogFile
from deltacli.units import EPOCH

MAX_TIME_MS = (2**63 - 1) // 1000
"The latest time that engines can represent, in epoch milliseconds: timestamps are microseconds in 64 bits."


def is_representable(timestamp_ms: int) -> bool:
    """Return True if a time in epoch milliseconds fits a timestamp of 64 bits in microseconds."""
    return abs(timestamp_ms) <= MAX_TIME_MS


class TimestampSource(StrEnum):
    IN_COMMIT = "inCommitTimestamp"
    FILE = "fileModificationTime"
    FILE_ADJUSTED = "fileModificationTimeAdjusted"


class CommitTime(NamedTuple):
    """When a version was committed, and the source of that time."""

    timestamp_ms: int
    source: TimestampSource

    @property
    def moment(self) -> datetime | None:
        """Return the same time as a datetime in UTC, or None if it is out of range."""
        try:
            return EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            return None


def file_times(commits: Mapping[int, LogFile]) -> dict[int, CommitTime]:
    """Return the commit time of every listed commit by file modification time, made strictly increasing.

    Starting at the earliest commit, a file that is not newer than its predecessor gets the predecessor's time plus 1
    ms.
    """
    times: dict[int, CommitTime] = {}
    previous: int | None = None
    for version in sorted(commits):
        modified_ms = commits[version].modified_ms
        if previous is not None and modified_ms <= previous:
            previous += 1
            times[version] = CommitTime(previous, TimestampSource.FILE_ADJUSTED)
        else:
            previous = modified_ms
            times[version] = CommitTime(modified_ms, TimestampSource.FILE)
    return times
