"""Row ids of new files: which versions assign them, and the high-water mark that they follow. Spec: Row Tracking."""

from __future__ import annotations

import json
from collections.abc import Iterable

from deltacli.delta.log.actions import Action, exact_number
from deltacli.delta.log.state import DomainMetadata, Metadata, is_true
from deltacli.delta.protocol.features import Protocol

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
ENABLED = "delta.enableRowTracking"
SUSPENDED = "delta.rowTrackingSuspended"
MATERIALIZED_NAMES = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""The names of the columns in which files store ids and commit versions of rows that were rewritten."""

NO_MARK = -1
"""The high-water mark of a table in which no row has an id."""
MAX_ROW_ID = (1 << 63) - 1


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Return True if writers give ids to the rows of new files: where the feature is supported and not suspended."""
    return FEATURE in protocol.supported_features and not is_true(metadata.configuration, SUSPENDED)


def read_mark(configuration: object) -> int | None:
    """Return the high-water mark of a domain's configuration, under the name of engines or that of the spec."""
    if not isinstance(configuration, str):
        return None
    try:
        value = json.loads(configuration, parse_float=exact_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found = value.get("rowIdHighWaterMark", value.get("highWaterMark"))
    return found if type(found) is int else None


def mark_of(domains: Iterable[DomainMetadata]) -> int | None:
    """Return the high-water mark among the domains of a version."""
    return next((read_mark(one.configuration) for one in domains if one.domain == DOMAIN), None)


def mark_action(mark: int) -> Action:
    """Return the action of a domain that sets the high-water mark."""
    return {"domain": DOMAIN, "configuration": f'{{"rowIdHighWaterMark":{mark}}}', "removed": False}
