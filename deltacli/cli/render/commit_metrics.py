"""What a commit changed, by the metrics in its commitInfo, whatever the writer calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deltacli.typing import JsonObject
from deltacli.units import format_count


class Changes(NamedTuple):
    """Numbers of files and rows; 0 where the metrics are silent."""

    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


_NAMES: Mapping[str, tuple[str, ...]] = {
    "files_added": (
        *("numAddedFiles", "num_added_files", "numTargetFilesAdded", "numFiles"),
        *("numFilesAdded", "filesAdded"),
    ),
    "files_removed": (
        *("numRemovedFiles", "num_removed_files", "numTargetFilesRemoved", "numFilesRemoved"),
        *("filesRemoved", "numDeletedFiles"),
    ),
    "rows_added": ("numTargetRowsInserted", "numOutputRows", "num_added_rows"),
    "rows_updated": ("numUpdatedRows", "numTargetRowsUpdated"),
    "rows_deleted": ("numDeletedRows", "numTargetRowsDeleted", "num_deleted_rows"),
}
"""The names of each metric among writers; the first that a commit has is taken."""

_WORDS = (
    ("files_added", "+{} file"),
    ("files_removed", "-{} file"),
    ("rows_added", "+{} row"),
    ("rows_updated", "~{} row"),
    ("rows_deleted", "-{} row"),
)


def changes_of(commit_info: JsonObject | None) -> Changes:
    """Return what the `operationMetrics` of a commitInfo say changed."""
    metrics = (commit_info or {}).get("operationMetrics")
    if not isinstance(metrics, dict):
        return Changes()
    changes = {
        field: next((_whole(metrics[name]) for name in names if name in metrics), None)
        for field, names in _NAMES.items()
    }
    return Changes(**{field: number for field, number in changes.items() if number})


def in_words(changes: Changes) -> str:
    """Return changes as `+5 files, -2 files, +120 rows`, those of 0 left out."""
    counted = [(pattern, getattr(changes, field)) for field, pattern in _WORDS]
    return ", ".join(
        pattern.format(format_count(number)) + ("" if number == 1 else "s") for pattern, number in counted if number
    )


def _whole(value: object) -> int | None:
    """Return a metric as a number: Spark writes strings, other writers numbers. Nested ones are left out."""
    try:
        return int(value) if isinstance(value, str | int) else None
    except ValueError:
        return None
