"""Options of a Paimon table that restrict changes, and those that cannot change once the table has a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

ALWAYS_IMMUTABLE = frozenset({"type"})

IMMUTABLE = frozenset(
    {
        *ALWAYS_IMMUTABLE,
        *("bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine"),
        *("sequence.snapshot-ordering", "aggregation.remove-record-on-delete"),
        *("partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"),
        *("rowkind.field", "primary-key", "primary-key.nullable", "partition", "dynamic-bucket.initial-buckets"),
        *("force-lookup", "row-tracking.enabled", "data-evolution.enabled", "index-file-in-data-file-dir"),
        *("blob-field", "blob-descriptor-field", "blob-view-field", "pk-clustering-override"),
    }
)
"""Options that Java refuses to change once the table has a snapshot."""

_ONE_WAY = ("ignore-delete", "ignore-update-before")
"""Options that stay true."""


def is_true(options: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return the value of a boolean option."""
    value = options.get(key)
    return default if value is None else value.strip().lower() == "true"


def why_option_is_refused(
    options: Mapping[str, str], key: str, value: str | None, *, has_snapshots: bool
) -> str | None:
    """Return why Java refuses to set an option (None: to remove it) on a table with these options; None if it does
    not.
    """
    before = options.get(key)
    if before == value:
        return None
    if key in ALWAYS_IMMUTABLE:
        return f"{key} cannot be changed"
    if not has_snapshots:
        return None
    if key in IMMUTABLE:
        return f"{key} cannot be changed once the table has a snapshot"
    if key == "bucket":
        return _why_bucket_is_refused(before or "-1", value)
    was_true, becomes_true = is_true(options, key), is_true({} if value is None else {key: value}, key)
    if key == "deletion-vectors.enabled" and was_true != becomes_true:
        may = is_true(options, "deletion-vectors.modifiable")
        return None if may else "deletion-vectors.enabled can be changed only with deletion-vectors.modifiable=true"
    if key in _ONE_WAY and was_true and not becomes_true:
        return f"{key} cannot be disabled once the table has a snapshot"
    return None


def _why_bucket_is_refused(before: str, after: str | None) -> str | None:
    if after is None:
        return "bucket cannot be removed once the table has a snapshot"
    if not after.removeprefix("-").isdecimal():
        return f"bucket={after} is not a whole number"
    if "-1" in (before, after) and before != after:
        return "bucket cannot be changed to or from -1 once the table has a snapshot"
    return None
