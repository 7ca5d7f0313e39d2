"""The numbers of files and rows that writers report, under the names that each of them has for a metric."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.delta.log.operation_metrics import (
    ReportedChanges,
    is_merge_without_changes,
    read_copied_rows,
    read_reported_changes,
)

DELTALAKE_MERGE = {
    "num_source_rows": 3,
    "num_target_rows_inserted": 1,
    "num_target_rows_updated": 2,
    "num_target_rows_deleted": 4,
    "num_target_rows_copied": 8,
    "num_output_rows": 11,
    "num_target_files_added": 1,
    "num_target_files_removed": 2,
}
SPARK_REPLACE_WHERE = {
    "numFiles": "2",
    "numOutputRows": "10",
    "numCopiedRows": "9",
    "numDeletedRows": "6",
    "numRemovedFiles": "1",
}
SPARK_MERGE = {
    "numTargetRowsInserted": "0",
    "numTargetRowsUpdated": "2",
    "numTargetRowsDeleted": "0",
    "numTargetRowsCopied": "7",
    "numOutputRows": "9",
    "numTargetFilesAdded": "1",
    "numTargetFilesRemoved": "1",
}
DELTALAKE_UPDATE = {"num_added_files": 1, "num_removed_files": 1, "num_updated_rows": 5, "num_copied_rows": 9}
CLONED = {"sourceNumOfFiles": 5, "numCopiedFiles": 0, "numRemovedFiles": 0}


@pytest.mark.parametrize(
    ("operation", "metrics", "changes"),
    [
        ("MERGE", DELTALAKE_MERGE, ReportedChanges(1, 2, 1, 2, 4)),
        ("MERGE", SPARK_MERGE, ReportedChanges(1, 1, 0, 2, 0)),
        (
            "UPDATE",
            {"num_added_files": 1, "num_removed_files": 1, "num_updated_rows": 5, "num_copied_rows": 9},
            (1, 1, 0, 5, 0),
        ),
        ("RESTORE", {"numRemovedFile": 1, "numRestoredFile": 3}, (3, 1, 0, 0, 0)),
        ("RESTORE", {"numRemovedFiles": "1", "numRestoredFiles": "3"}, (3, 1, 0, 0, 0)),
        ("FSCK", {"dry_run": False, "files_removed": '["a.parquet","b.parquet"]'}, (0, 2, 0, 0, 0)),
        ("FSCK", {"files_removed": ["a.parquet"]}, (0, 1, 0, 0, 0)),
        ("CONVERT", {"numConvertedFiles": "2"}, (2, 0, 0, 0, 0)),
        ("WRITE", SPARK_REPLACE_WHERE, (2, 1, 1, 0, 6)),
        ("WRITE", {"numFiles": "1", "numOutputRows": "10"}, (1, 0, 10, 0, 0)),
        ("WRITE", {"num_added_files": 1, "num_removed_files": 2, "num_added_rows": 2}, (1, 2, 2, 0, 0)),
        ("OPTIMIZE", {"numFilesAdded": 1, "filesAdded": '{"totalFiles":1}', "numFilesRemoved": 2}, (1, 2, 0, 0, 0)),
        ("VACUUM END", {"numDeletedFiles": 18}, (0, 18, 0, 0, 0)),
    ],
)
def test_each_writer_is_read_by_its_own_names(
    operation: str, metrics: dict[str, Any], changes: tuple[int, ...]
) -> None:
    assert changes == read_reported_changes({"operation": operation, "operationMetrics": metrics})


@pytest.mark.parametrize(
    ("info", "files"),
    [
        ({"operation": "CONVERT", "operationParameters": {"numFiles": "3"}}, 3),
        ({"operation": "WRITE", "operationParameters": {"numFiles": "3"}}, 0),
        ({"operation": "CLONE", "operationParameters": {"isShallow": True}, "operationMetrics": CLONED}, 5),
        ({"operation": "CLONE", "operationParameters": {"isShallow": "true"}, "operationMetrics": CLONED}, 5),
        ({"operation": "CLONE", "operationParameters": {"isShallow": "false"}, "operationMetrics": CLONED}, 0),
        ({"operation": "CLONE", "operationMetrics": {**CLONED, "numCopiedFiles": 5}}, 5),
    ],
)
def test_files_of_a_convert_and_a_clone_are_counted(info: dict[str, Any], files: int) -> None:
    assert files == read_reported_changes(info).files_added


@pytest.mark.parametrize("number", ["-5", -5, True, 1.5, "1_000", "٣", "9" * 5_000, "many", None, [], {}])
def test_what_is_not_a_count_is_not_a_number(number: object) -> None:
    metrics = {"numFiles": number, "numOutputRows": number, "numDeletedRows": number, "files_removed": number}

    assert ReportedChanges() == read_reported_changes({"operation": "WRITE", "operationMetrics": metrics})
    assert read_copied_rows({"operationMetrics": {"numCopiedRows": number}}) is None


@pytest.mark.parametrize("metrics", [None, [], "", 5, {"numOutputRows": 3, "numCopiedRows": 4}])
def test_metrics_without_sense_are_no_changes(metrics: object) -> None:
    assert ReportedChanges() == read_reported_changes({"operation": "WRITE", "operationMetrics": metrics})
    assert ReportedChanges() == read_reported_changes(None)


def test_the_first_name_that_has_a_number_is_taken() -> None:
    info = {"operation": "WRITE", "operationMetrics": {"numAddedFiles": "?", "numFiles": "2"}}

    assert 2 == read_reported_changes(info).files_added


@pytest.mark.parametrize(
    ("operation", "zeros", "is_empty"),
    [
        ("MERGE", {"numTargetRowsInserted": "0", "numTargetRowsUpdated": 0, "numTargetRowsDeleted": "0"}, True),
        ("MERGE", {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "1", "numTargetRowsDeleted": "0"}, False),
        ("MERGE", {"num_target_rows_inserted": 0, "num_target_rows_updated": 0, "num_target_rows_deleted": 0}, False),
        ("UPDATE", {"numTargetRowsInserted": "0", "numTargetRowsUpdated": 0, "numTargetRowsDeleted": "0"}, False),
        ("MERGE", None, False),
    ],
)
def test_a_merge_without_changes_is_one_that_spark_takes_for_one(
    operation: str, zeros: dict[str, object] | None, is_empty: bool
) -> None:
    assert is_empty == is_merge_without_changes({"operation": operation, "operationMetrics": zeros})
