"""How long a table keeps removed files, commits and transactions, as its properties say.

Spec: Table Properties; Add File and Remove File; Metadata Cleanup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltacli.delta.protocol.intervals import parse_interval
from deltacli.units import DAY_MS, LONGEST_MS

DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"

DEFAULT_LOG_RETENTION_MS = 30 * DAY_MS
DEFAULT_DELETED_FILE_RETENTION_MS = 7 * DAY_MS


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
