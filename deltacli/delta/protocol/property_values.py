"""Table properties that deltacli itself acts on: reading switches, integers and intervals, and how long a table keeps
removed files, commits and transactions.

Spec: Table Properties; interval text as the reference implementation reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import NamedTuple

from deltacli.core.patterns import pattern
from deltacli.core.units import DAY_MS, LONGEST_MS, UNITS_MS

DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"
TRUNCATION_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"

DEFAULT_LOG_RETENTION_MS = 30 * DAY_MS
DEFAULT_DELETED_FILE_RETENTION_MS = 7 * DAY_MS
DEFAULT_RETENTIONS = {LOG_RETENTION: "interval 30 days", DELETED_FILE_RETENTION: "interval 1 week"}
"""The two defaults as values of their properties."""
SHORTEST_SAFE_RETENTION_MS = DAY_MS
"""Running readers and writers may still need files that were removed later."""


def deleted_file_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long a tombstone is kept: the property if it is valid, at most a thousand years, else one week.

    Spec: Add File and Remove File.
    """
    text = configuration.get(DELETED_FILE_RETENTION)
    parsed = parse_interval(text) if text else None
    return DEFAULT_DELETED_FILE_RETENTION_MS if parsed is None else min(parsed, LONGEST_MS)


def portable_file_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long every engine keeps a tombstone. Some read only one integer and one lower-case unit, and use one
    week or the first part of anything else.
    """
    own_ms = deleted_file_retention_ms(configuration)
    text = (configuration.get(DELETED_FILE_RETENTION) or "").strip()
    if not text or re.fullmatch(r"interval\s+\d+\s+[a-z]+", text):
        return own_ms
    first = re.match(r"interval\s+\d+\s+[a-z]+", text)
    return min(own_ms, DEFAULT_DELETED_FILE_RETENTION_MS, (parse_interval(first[0]) or 0) if first else own_ms)


def log_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long commits are kept: the property if it is valid, else 30 days. Spec: Metadata Cleanup."""
    text = configuration.get(LOG_RETENTION)
    parsed = parse_interval(text) if text else None
    return DEFAULT_LOG_RETENTION_MS if parsed is None else parsed


def log_cutoff_ms(now_ms: int, retention_ms: int, cut_ms: int = DAY_MS) -> int:
    """Return up to when commits may expire: a midnight UTC, or a multiple of `cut_ms`. Spec: Metadata Cleanup."""
    return (now_ms - retention_ms) // cut_ms * cut_ms


def log_expires_at_ms(time_ms: int, retention_ms: int) -> int:
    """Return when that cutoff reaches a time."""
    return -(-time_ms // DAY_MS) * DAY_MS + retention_ms


def truncation_retention_ms(configuration: Mapping[str, str | None]) -> int:
    """Return how long versions are kept that a dropped feature needs: the property if it is valid, else a day, as
    `MEANINGS` says.
    """
    text = configuration.get(TRUNCATION_RETENTION)
    parsed = parse_interval(text) if text else None
    return DAY_MS if parsed is None else min(parsed, LONGEST_MS)


def retentions_out_of_order(configuration: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return the retentions of the log and of deleted files where the first is shorter, so that files are kept which no
    version names any more. Spec: Delta-Spark (it refuses any later change of such a table).
    """
    if log_retention_ms(configuration) >= deleted_file_retention_ms(configuration):
        return None
    log, files = (configuration.get(key) or default for key, default in DEFAULT_RETENTIONS.items())
    return log, files


PORTABLE_INTERVAL = pattern(r"\s*interval\s+[0-9]+\s+(?:week|day|hour|minute|second|millisecond|microsecond)s?\s*")
"The form of an interval that every engine reads the same."

_UNIT_MICROSECONDS = {unit: length * 1_000 for unit, length in UNITS_MS.items()} | {
    "millisecond": 1_000,
    "microsecond": 1,
}
_PAIR = pattern(r"([+-]?)\s*(\d{1,30})(?:\.(\d{1,9}))?\s+([a-z]+?)s?(?=\s|$)")


def parse_interval(text: str) -> int | None:
    """Return the milliseconds of an interval (`interval 1 week`, `30 days 12 hours`), or None if it is invalid.

    Case is ignored, units add up, only seconds may have a fraction, months and years have no fixed length, a day has 24
    hours.
    """
    rest = text.strip().lower()
    rest = re.sub(r"^interval(\s+|$)", "", rest)
    total, seen, position = 0, False, 0
    while position < len(rest):
        match = _PAIR.match(rest, position)
        if match is None or match[4] not in _UNIT_MICROSECONDS or (match[3] and match[4] != "second"):
            return None
        amount = int(match[2]) * _UNIT_MICROSECONDS[match[4]] + (int(match[3].ljust(9, "0")) // 1000 if match[3] else 0)
        total += -amount if match[1] == "-" else amount
        seen = True
        position = match.end()
        while position < len(rest) and rest[position].isspace():
            position += 1
    return total // 1000 if seen and total >= 0 else None


IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
ICT_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ICT_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


class InCommitKeys(NamedTuple):
    """The properties of in-commit timestamps: the switch, and the version and the time from which they apply."""

    switch: str
    version: str
    timestamp: str


IN_COMMIT_KEYS: Mapping[str, InCommitKeys] = {
    "inCommitTimestamp": InCommitKeys(IN_COMMIT_TIMESTAMPS, ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP),
    "inCommitTimestamp-preview": InCommitKeys(
        f"{IN_COMMIT_TIMESTAMPS}-preview", f"{ICT_ENABLEMENT_VERSION}-preview", f"{ICT_ENABLEMENT_TIMESTAMP}-preview"
    ),
}
"Feature -> its own properties. Writers of the preview (Delta 3.2) ignore those of the final feature, and vice versa."

APPEND_ONLY = "delta.appendOnly"
CHANGE_FEED = "delta.enableChangeDataFeed"
TYPE_WIDENING_ENABLED = "delta.enableTypeWidening"
LOG_CLEANUP = "delta.enableExpiredLogCleanup"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"
DEFAULT_CHECKPOINT_INTERVAL = 10


def is_false(configuration: Mapping[str, str | None], key: str) -> bool:
    """Return a boolean property whose default is true."""
    return str(configuration.get(key) or "").strip().lower() == "false"


def is_true(configuration: Mapping[str, str | None], key: str) -> bool:
    """Return a boolean property; absent is false."""
    return str(configuration.get(key) or "").strip().lower() == "true"


def in_commit_keys(features: Set[str], configuration: Mapping[str, str | None]) -> InCommitKeys | None:
    """Return the properties of in-commit timestamps if they are supported and on, else None."""
    supported = (keys for feature, keys in IN_COMMIT_KEYS.items() if feature in features)
    return next((keys for keys in supported if is_true(configuration, keys.switch)), None)


def parse_integer(configuration: Mapping[str, str | None], key: str) -> int | None:
    """Return an integer property, or None if it is absent or not an integer."""
    text = configuration.get(key)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
