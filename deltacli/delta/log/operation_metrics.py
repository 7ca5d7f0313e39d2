"""What the writer of a commit reports about it: numbers of files and rows in `operationMetrics`.

The metrics are free in form. Spark and deltalake name the same number differently, and deltalake names it differently
per operation: `numTargetRowsInserted`, `num_target_rows_inserted`. Who needs such a number asks here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deltacli.delta.log.actions import Action

_NUMBER = re.compile("[0-9]{1,18}")
_COPIED_ROWS = ("numCopiedRows", "numTargetRowsCopied", "num_copied_rows", "num_target_rows_copied")
_SPARK_MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")

_METRIC_NAMES: Mapping[str, tuple[str, ...]] = {
    "files_added": (
        *("numAddedFiles", "num_added_files", "numTargetFilesAdded", "num_target_files_added", "numFiles"),
        *("numFilesAdded", "filesAdded", "numRestoredFiles", "numRestoredFile", "numConvertedFiles"),
    ),
    "files_removed": (
        *("numRemovedFiles", "num_removed_files", "numTargetFilesRemoved", "num_target_files_removed"),
        *("numFilesRemoved", "filesRemoved", "numRemovedFile", "numDeletedFiles"),
    ),
    "rows_added": ("numTargetRowsInserted", "num_target_rows_inserted", "num_added_rows"),
    "rows_updated": ("numUpdatedRows", "num_updated_rows", "numTargetRowsUpdated", "num_target_rows_updated"),
    "rows_deleted": ("numDeletedRows", "num_deleted_rows", "numTargetRowsDeleted", "num_target_rows_deleted"),
}
"""The names of each metric among writers. The first that holds a number is taken."""


class ReportedChanges(NamedTuple):
    """Numbers of files and rows that a writer reports; 0 where it reports none."""

    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


def read_reported_changes(commit_info: Mapping[str, object] | None) -> ReportedChanges:
    """Return how many files and rows a commit changed, according to its commitInfo."""
    info = commit_info or {}
    metrics = _metrics_of(info)
    changes = {field: _first_number(metrics, names) or 0 for field, names in _METRIC_NAMES.items()}

    if not changes["rows_added"] and info.get("operation") != "MERGE":
        changes["rows_added"] = _new_rows_of_output(metrics)
    if not changes["files_added"]:
        changes["files_added"] = _files_named_elsewhere(info, metrics)
    if not changes["files_removed"]:
        changes["files_removed"] = _count_listed_files(metrics.get("files_removed"))
    return ReportedChanges(**changes)


def read_copied_rows(commit_info: Mapping[str, object]) -> int | None:
    """Return how many rows the writer reports as copied unchanged, or None if it reports no number."""
    return _first_number(_metrics_of(commit_info), _COPIED_ROWS)


def is_merge_without_changes(commit_info: Action) -> bool:
    """Return True for a MERGE of Spark that rewrote files but changed no row.

    Spark reads no changes from such a commit, although it has no change data files. It knows only its own names of
    the metrics, so a MERGE of deltalake counts as one that changes rows.
    """
    metrics = _metrics_of(commit_info)
    return commit_info.get("operation") == "MERGE" and all(str(metrics.get(name)) == "0" for name in _SPARK_MERGED_ROWS)


def _metrics_of(commit_info: Mapping[str, object]) -> Mapping[str, object]:
    metrics = commit_info.get("operationMetrics")
    return metrics if isinstance(metrics, dict) else {}


def _first_number(metrics: Mapping[str, object], names: Iterable[str]) -> int | None:
    for name in names:
        number = _parse_number(metrics.get(name))
        if number is not None:
            return number
    return None


def _parse_number(value: object) -> int | None:
    """Return a count that is written as a number or, as Spark writes it, as text; None for anything else."""
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return None


def _new_rows_of_output(metrics: Mapping[str, object]) -> int:
    """Return the rows of `numOutputRows` that are new.

    Spark's INSERT … REPLACE WHERE counts the rows that it only copies from replaced files among its output. The
    output of a MERGE has updated rows, too, which is why the caller does not ask for it.
    """
    output = _first_number(metrics, ["numOutputRows"]) or 0
    copied = _first_number(metrics, ["numCopiedRows"]) or 0
    return max(output - copied, 0)


def _files_named_elsewhere(info: Mapping[str, object], metrics: Mapping[str, object]) -> int:
    """Return the number of added files that a CONVERT or CLONE does not report under a name of its own.

    deltalake's CONVERT has no metrics; both writers state the files among the parameters. A shallow clone adds all
    files of its source, of which it copies none. A deep clone adds what it copies.
    """
    parameters = info.get("operationParameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    if info.get("operation") == "CONVERT":
        return _first_number(parameters, ["numFiles"]) or 0
    if info.get("operation") == "CLONE":
        is_shallow = str(parameters.get("isShallow")).lower() == "true"
        return _first_number(metrics, ["sourceNumOfFiles" if is_shallow else "numCopiedFiles"]) or 0
    return 0


def _count_listed_files(paths: object) -> int:
    """Return the number of paths in a list as JSON, which deltalake's FSCK has in place of a number."""
    if isinstance(paths, str):
        try:
            paths = json.loads(paths)
        except (ValueError, RecursionError):
            return 0
    return len(paths) if isinstance(paths, list) else 0
