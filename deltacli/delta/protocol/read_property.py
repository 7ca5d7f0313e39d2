"""Table properties that deltacli itself acts on: their keys, and reading switches and integers.

Intervals are in `intervals`, retention in `retention`. Spec: Table Properties.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

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

TYPE_WIDENING_ENABLED = "delta.enableTypeWidening"

LOG_CLEANUP = "delta.enableExpiredLogCleanup"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"

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
