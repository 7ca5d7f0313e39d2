"""Damages of version checksums: the derived checksum of version 3 says something else than the commits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import START_MS, Action, TableBuilder

CHECKSUM = "_delta_log/00000000000000000003.crc"
NAME = "00000000000000000003.crc"


def with_checksum(edit: Callable[[Action], Action | None], table: TableBuilder | None = None) -> TableBuilder:
    """A table whose newest checksum is changed."""
    table = table or TableBuilder()
    table.edit_json(NAME, edit)
    return table


def saying(table: TableBuilder | None = None, **fields: Any) -> TableBuilder:
    """A table whose newest checksum has these values."""
    return with_checksum(lambda found: found | fields, table)


def histogram_of(boundaries: list[int], counts: list[int], sizes: list[int]) -> Action:
    return {"sortedBinBoundaries": boundaries, "fileCounts": counts, "totalBytes": sizes}


def with_vector() -> TableBuilder:
    """A table that is healthy, and whose newest file has a deletion vector with two rows."""
    table = TableBuilder(
        protocol={
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors"],
        },
        properties={"delta.enableDeletionVectors": "true"},
    )
    table.add(3)["deletionVector"] = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 2,
    }
    stats = table.stats(3)
    table.set_stats(3, stats | {"tightBounds": False, "nullCount": {"id": 0, "name": 0}})
    return table


def with_commit_times() -> TableBuilder:
    """A table that is healthy and has in-commit timestamps, also in its checksums."""
    table = TableBuilder(
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]},
        properties={"delta.enableInCommitTimestamps": "true"},
    )
    for version, actions in table.commits.items():
        time = table.time_of(version)
        actions[0]["commitInfo"]["inCommitTimestamp"] = time
        table.edit_json(f"{version:020d}.crc", partial(_with_time, time))
    return table


def _with_time(time_ms: int, found: Action) -> Action:
    return found | {"inCommitTimestampOpt": time_ms}


@damage("crc.bad-json")
def torn_checksum() -> TableBuilder:
    table = TableBuilder()
    table.put(CHECKSUM, '{"tableSizeBytes":20')
    return table


@damage("crc.bad-json")
def checksum_that_is_a_list() -> TableBuilder:
    table = TableBuilder()
    table.put(CHECKSUM, "[]")
    return table


@damage("crc.missing-required")
def checksum_without_protocol() -> TableBuilder:
    return with_checksum(lambda found: {name: value for name, value in found.items() if name != "protocol"})


@damage("crc.missing-required")
def checksum_with_a_count_as_text() -> TableBuilder:
    return saying(numFiles="3")


@damage("crc.num-files")
def checksum_with_a_file_too_many() -> TableBuilder:
    return with_checksum(lambda found: found | {"numFiles": found["numFiles"] + 1})


@damage("crc.num-files")
def checksum_with_a_file_too_few() -> TableBuilder:
    return with_checksum(lambda found: found | {"numFiles": found["numFiles"] - 1})


@damage("crc.table-size")
def checksum_with_a_byte_too_many() -> TableBuilder:
    return with_checksum(lambda found: found | {"tableSizeBytes": found["tableSizeBytes"] + 1})


@damage("crc.metadata-differs")
def checksum_with_another_property() -> TableBuilder:
    def edit(found: Action) -> Action:
        metadata = found["metadata"]
        return found | {"metadata": metadata | {"configuration": metadata["configuration"] | {"app.x": "1"}}}

    return with_checksum(edit)


@damage("crc.metadata-differs")
def checksum_with_another_schema() -> TableBuilder:
    def edit(found: Action) -> Action:
        metadata = found["metadata"]
        return found | {"metadata": metadata | {"schemaString": metadata["schemaString"].replace("long", "integer")}}

    return with_checksum(edit)


@damage("crc.protocol-differs")
def checksum_with_another_protocol() -> TableBuilder:
    return saying(protocol={"minReaderVersion": 1, "minWriterVersion": 1})


@damage("crc.counts-not-one")
def checksum_with_two_protocols() -> TableBuilder:
    return saying(numProtocol=2)


@damage("crc.counts-not-one")
def checksum_without_metadata_counted() -> TableBuilder:
    return saying(numMetadata=0)


@damage("crc.ict")
def checksum_with_a_time_the_table_does_not_use() -> TableBuilder:
    return saying(inCommitTimestampOpt=START_MS)


@damage("crc.ict")
def checksum_with_another_time() -> TableBuilder:
    table = with_commit_times()
    return saying(table, inCommitTimestampOpt=table.time_of(3) + 1)


@damage("crc.ict")
def checksum_without_a_time() -> TableBuilder:
    table = with_commit_times()
    return saying(table, inCommitTimestampOpt=None)


@damage("crc.txns")
def checksum_with_an_older_transaction() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append({"txn": {"appId": "stream", "version": 7, "lastUpdated": table.time_of(3)}})
    return saying(table, setTransactions=[{"appId": "stream", "version": 6}])


@damage("crc.txns")
def checksum_without_a_transaction() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append({"txn": {"appId": "stream", "version": 7, "lastUpdated": table.time_of(3)}})
    return saying(table, setTransactions=[])


@damage("crc.txns")
def checksum_with_an_invented_transaction() -> TableBuilder:
    return saying(setTransactions=[{"appId": "stream", "version": 6}])


def with_domain() -> TableBuilder:
    """A table that is healthy and has a domain of its users."""
    table = TableBuilder(protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]})
    table.commits[1].append({"domainMetadata": {"domain": "app.a", "configuration": "{}", "removed": False}})
    return table


@damage("crc.domains")
def checksum_without_a_domain() -> TableBuilder:
    return saying(with_domain(), domainMetadata=[])


@damage("crc.domains")
def checksum_with_a_removed_domain() -> TableBuilder:
    table = with_domain()
    removed = {"domain": "app.a", "configuration": "{}", "removed": True}
    table.commits[3].append({"domainMetadata": removed})
    return saying(table, domainMetadata=[removed])


@damage("crc.histogram")
def histogram_of_unequal_lists() -> TableBuilder:
    return saying(fileSizeHistogram=histogram_of([0, 1024], [3], [3009]))


@damage("crc.histogram")
def histogram_that_does_not_begin_at_zero() -> TableBuilder:
    return saying(fileSizeHistogram=histogram_of([1, 1024], [3, 0], [3009, 0]))


@damage("crc.histogram")
def histogram_that_is_not_sorted() -> TableBuilder:
    return saying(fileSizeHistogram=histogram_of([0, 2048, 2048], [3, 0, 0], [3009, 0, 0]))


@damage("crc.histogram")
def histogram_with_a_file_below_its_bin() -> TableBuilder:
    """Sizes are 1002, 1003 and 1004: a bin holds its first size, not that of the next."""
    return saying(histogramOpt=histogram_of([0, 1003, 1004], [2, 0, 1], [2005, 0, 1004]))


@damage("crc.histogram")
def histogram_with_other_bytes() -> TableBuilder:
    return saying(fileSizeHistogram=histogram_of([0, 1003, 1004], [1, 1, 1], [1002, 1003, 1005]))


@damage("crc.deleted-histogram")
def deleted_histogram_of_three_bins() -> TableBuilder:
    return saying(deletedRecordCountsHistogramOpt={"deletedRecordCounts": [3, 0, 0]})


@damage("crc.deleted-histogram")
def deleted_histogram_with_a_file_too_many() -> TableBuilder:
    return saying(deletedRecordCountsHistogramOpt={"deletedRecordCounts": [3, 1, 0, 0, 0, 0, 0, 0, 0, 0]})


@damage("crc.all-files")
def checksum_without_any_file() -> TableBuilder:
    return saying(allFiles=[])


@damage("crc.all-files")
def checksum_with_another_file() -> TableBuilder:
    table = TableBuilder()
    files = [dict(add) for add in table.replay(3)["add"].values()]
    files[0]["path"] = "p=a/other.parquet"
    return saying(table, allFiles=files)


@damage("crc.all-files")
def checksum_with_a_file_of_another_size() -> TableBuilder:
    table = TableBuilder()
    files = [dict(add) for add in table.replay(3)["add"].values()]
    files[0]["size"] += 1
    return saying(table, allFiles=files)


@damage("crc.dv-counts")
def checksum_with_invented_vectors() -> TableBuilder:
    return saying(numDeletionVectorsOpt=1)


@damage("crc.dv-counts")
def checksum_with_too_few_deleted_records() -> TableBuilder:
    return saying(with_vector(), numDeletionVectorsOpt=1, numDeletedRecordsOpt=1)


@damage("crc.without-commit")
def checksum_above_the_newest_commit() -> TableBuilder:
    table = TableBuilder()
    table.edit_files(lambda root: _copy(root / CHECKSUM, root / CHECKSUM.replace("3.", "4.")))
    return table


# What a cleaned up log always brings: its checkpoint can't be compared, and older versions can't be read any more.
@damage("crc.without-commit", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def checksums_below_the_oldest_commit() -> TableBuilder:
    table = TableBuilder()
    table.drop("_delta_log/00000000000000000000.json")
    table.drop("_delta_log/00000000000000000001.json")
    return table


@damage("crc.missing")
def version_without_checksum() -> TableBuilder:
    table = TableBuilder()
    table.drop("_delta_log/00000000000000000002.crc")
    return table


def _copy(path: Path, target: Path) -> None:
    target.write_bytes(path.read_bytes())
