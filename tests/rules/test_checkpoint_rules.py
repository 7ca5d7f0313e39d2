"""What rules about checkpoints and checksums let pass: other healthy forms, and the very edge of their thresholds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.rules.checkpoints.columns import is_older
from deltacli.rules.framework.base import Severity
from deltacli.rules.log.checksums import DELETED_RECORDS, bins_of
from deltacli.storage import open_storage
from tests.rules.corruptions_checkpoints import (
    DAY_MS,
    CheckpointBuilder,
    begin_at_checkpoint,
    in_parts,
    mapped,
    parsed,
    part_name,
    protected,
    v2,
    with_domain,
    with_fields,
    with_rows,
    with_sidecar_path,
    with_transaction,
    without,
)
from tests.rules.corruptions_checksums import histogram_of, saying, with_commit_times, with_vector
from tests.rules.table_builder import MINUTE_MS, NOW_MS, Action, TableBuilder
from tests.support.validating import validate_table


def inspect(table: TableBuilder, root: Path) -> Validation:
    return validate_table(open_storage(str(table.write(root / "t"))), EmbeddedEngine(), level="storage", now_ms=NOW_MS)


def rules_of(table: TableBuilder, root: Path) -> set[str]:
    return {finding.rule.id for finding in inspect(table, root).findings}


HEALTHY: dict[str, Callable[[], TableBuilder]] = {
    "JSON checkpoint with a sidecar": v2,
    "JSON checkpoint with its files": lambda: v2(sidecars=0),
    "Parquet checkpoint with two sidecars": lambda: v2("uuid-parquet", sidecars=2),
    "V2 content under a classic name": lambda: v2("classic"),
    "two parts": lambda: in_parts(2),
    "parsed columns": parsed,
    "column mapping": mapped,
    "in-commit timestamps": with_commit_times,
    "deletion vector": with_vector,
    "domain": with_domain,
    "transaction": with_transaction,
}


@pytest.mark.parametrize("make", HEALTHY.values(), ids=HEALTHY.keys())
def test_other_healthy_forms_are_silent(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path)

    ignored = {"property.stats-struct-unsupported", "feature.supported-not-used"}
    assert [] == [(f.rule.id, f.message) for f in found.findings if f.rule.id not in ignored]


def test_a_transaction_expires_when_it_is_as_old_as_the_retention(tmp_path: Path) -> None:
    table = with_transaction(**{"delta.setTransactionRetentionDuration": f"interval {MINUTE_MS + 1000} milliseconds"})

    assert "checkpoint.missing-txn" not in rules_of(with_rows(without("txn"), table), tmp_path)


def test_a_schema_may_be_spelled_otherwise(tmp_path: Path) -> None:
    def respell(rows: list[Action]) -> None:
        for row in rows:
            if "metaData" in row:
                schema = json.loads(row["metaData"]["schemaString"])
                row["metaData"]["schemaString"] = json.dumps(schema, indent=1, sort_keys=True)

    assert set() == rules_of(with_rows(respell), tmp_path)


@pytest.mark.parametrize(("before", "expected"), [(0, False), (1, True), (2, False), (3, False), (4, False)])
def test_a_checkpoint_at_the_protected_version_is_enough(before: int, expected: bool, tmp_path: Path) -> None:
    assert expected is ("checkpoint.protected-missing" in rules_of(protected(before=before), tmp_path))


def test_a_part_without_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    table = in_parts(2).derive(hint=False, checksums=False)
    table.drop(part_name(2, 2))
    table.drop("_delta_log/00000000000000000000.json")

    found = inspect(table, tmp_path)

    severities = {
        finding.severity for finding in found.findings if finding.rule.id == "checkpoint.multipart-incomplete"
    }
    assert {Severity.ERROR} == severities


def test_parts_by_the_billion_are_counted_and_not_listed(tmp_path: Path) -> None:
    table = TableBuilder()
    table.put(part_name(1, 9_999_999_999), "PAR1")

    found = [f for f in inspect(table, tmp_path).findings if f.rule.id == "checkpoint.multipart-incomplete"]

    assert ["the multi-part checkpoint of version 2 has 1 part of 9999999999: missing 2-6 and 9999999993 more"] == [
        finding.message for finding in found
    ]


def test_a_sidecar_of_a_day_may_belong_to_a_checkpoint_that_is_being_written(tmp_path: Path) -> None:
    table = v2()
    table.put("_delta_log/_sidecars/young.parquet", "x", modified_ms=NOW_MS - DAY_MS)

    assert set() == rules_of(table, tmp_path)


def test_hadoop_checksums_of_sidecars_are_not_sidecars(tmp_path: Path) -> None:
    table = v2()
    table.put("_delta_log/_sidecars/.old.parquet.crc", "x", modified_ms=NOW_MS - 2 * DAY_MS)

    assert set() == rules_of(table, tmp_path)


def test_no_sidecar_is_an_orphan_while_a_checkpoint_is_unreadable(tmp_path: Path) -> None:
    table = v2()
    table.put("_delta_log/_sidecars/old.parquet", "x", modified_ms=NOW_MS - 2 * DAY_MS)
    table.put("_delta_log/00000000000000000003.checkpoint.parquet", "no checkpoint")

    assert "sidecar.orphan" not in rules_of(table, tmp_path)


@pytest.mark.parametrize("directory", ["_delta_log/_sidecars/", "s3://bucket/t/_delta_log/_sidecars/", "./"])
def test_a_path_may_lead_into_the_directory_of_sidecars(directory: str, tmp_path: Path) -> None:
    assert "sidecar.path-outside" not in rules_of(with_sidecar_path(directory), tmp_path)


def test_a_classic_checkpoint_shows_old_clients_the_features_they_lack(tmp_path: Path) -> None:
    assert "checkpoint.v2-compat-missing" not in rules_of(begin_at_checkpoint(v2("classic")), tmp_path)


CHECKSUMS: dict[str, Callable[[], TableBuilder]] = {
    "sizes on the boundaries": lambda: saying(
        fileSizeHistogram=histogram_of([0, 1002, 1003, 1004, 1005], [0, 1, 1, 1, 0], [0, 1002, 1003, 1004, 0])
    ),
    "vectors": lambda: saying(
        with_vector(),
        numDeletionVectorsOpt=1,
        numDeletedRecordsOpt=2,
        deletedRecordCountsHistogramOpt={"deletedRecordCounts": [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]},
    ),
    "all files": lambda: saying(allFiles=list(TableBuilder().replay(3)["add"].values())),
    "nulls": lambda: saying(
        fileSizeHistogram=None, allFiles=None, setTransactions=None, domainMetadata=None, numDeletedRecordsOpt=None
    ),
    "features as an empty list": lambda: saying(
        protocol={"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [], "writerFeatures": []}
    ),
    "newest without": lambda: _dropping(3),
    "two of four": lambda: _dropping(1, 2),
}


def _dropping(*versions: int) -> TableBuilder:
    table = TableBuilder()
    for version in versions:
        table.drop(f"_delta_log/{version:020d}.crc")
    return table


@pytest.mark.parametrize("make", CHECKSUMS.values(), ids=CHECKSUMS.keys())
def test_true_checksums_are_silent(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path)

    assert [] == [(finding.rule.id, finding.message) for finding in found.findings]


def test_expiring_transactions_may_be_missing_in_a_checksum(tmp_path: Path) -> None:
    table = with_transaction(**{"delta.setTransactionRetentionDuration": "interval 1 hour"})

    assert "crc.txns" not in rules_of(saying(table, setTransactions=[]), tmp_path)


def test_bins_begin_at_their_boundary() -> None:
    counts, sums = bins_of(pa.array([0, 9, 10, 10_000_000, 2_147_483_646, 2_147_483_647, 1]), DELETED_RECORDS)

    assert [1, 2, 1, 0, 0, 0, 0, 0, 2, 1] == counts
    assert [0, 10, 10, 0, 0, 0, 0, 0, 2_157_483_646, 2_147_483_647] == sums


def test_bins_of_no_files_are_empty() -> None:
    assert ([0, 0], [0, 0]) == bins_of(pa.array([], pa.int64()), [0, 10])


@pytest.mark.parametrize(
    ("arrow_type", "name", "expected"),
    [
        (pa.int32(), "long", True),
        (pa.int64(), "long", False),
        (pa.int64(), "integer", False),
        (pa.int32(), "double", True),
        (pa.int64(), "double", False),
        (pa.float32(), "double", True),
        (pa.float64(), "double", False),
        (pa.int32(), "decimal(10,0)", True),
        (pa.int32(), "decimal(9,0)", False),
        (pa.int64(), "decimal(20,0)", True),
        (pa.int64(), "decimal(20,1)", False),
        (pa.decimal128(10, 2), "decimal(12,4)", True),
        (pa.decimal128(10, 2), "decimal(11,4)", False),
        (pa.decimal128(10, 2), "decimal(10,2)", False),
        (pa.date32(), "timestamp_ntz", True),
        (pa.date32(), "timestamp", False),
        (pa.string(), "long", False),
        (None, "long", False),
    ],
)
def test_a_type_is_older_if_it_can_be_widened(arrow_type: Any, name: str, expected: bool) -> None:
    assert expected is is_older(arrow_type, name)


def test_a_checkpoint_of_the_newest_commit_is_silent(tmp_path: Path) -> None:
    table = TableBuilder()
    table.checkpoint_version = 3

    assert set() == rules_of(table, tmp_path)


@pytest.mark.parametrize(("gone", "expected"), [((0, 1, 2), Severity.ERROR), ((), Severity.WARNING)])
def test_parts_weigh_more_where_the_log_begins_after_them(
    gone: tuple[int, ...], expected: Severity, tmp_path: Path
) -> None:
    table = in_parts(2).derive(hint=False, checksums=False)
    table.drop(part_name(2, 2))
    for version in gone:
        table.drop(f"_delta_log/{version:020d}.json")

    found = [f for f in inspect(table, tmp_path).findings if f.rule.id == "checkpoint.multipart-incomplete"]

    assert [expected] == [finding.severity for finding in found]


def test_missing_columns_for_absent_statistics_are_not_reported(tmp_path: Path) -> None:
    table = CheckpointBuilder()
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        del table.add(version, number)["stats"]
    table.columns = with_fields("add", without=("stats",))

    assert "checkpoint.stats-policy" not in rules_of(table, tmp_path)
