"""What a version checksum claims against what its version sums up to, number by number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.validate.log_reader import next_config
from deltacli.rules.framework.base import CATALOGUE, Finding
from deltacli.rules.framework.views import ChecksumView, ExpectedState, LiveFile, LocatedAction, Totals
from deltacli.rules.log import checksums
from tests.rules.table_builder import TableBuilder

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 3}
VECTOR_ID = "uab^-aqEH.-t@S}K{vb[*k^"
TIMES: Action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}


def config_of(table: TableBuilder) -> TableConfiguration:
    return next_config(
        TableConfiguration(),
        [LocatedAction("protocol", table.protocol, 1), LocatedAction("metaData", table.metadata, 2)],
        0,
    )


def live(path: str, dv_id: str = "", **add: Any) -> LiveFile:
    return LiveFile(path, dv_id, 1, 1, {"path": path, "size": 1, "partitionValues": {}} | add)


def state(*files: LiveFile, table: TableBuilder | None = None, **fields: Any) -> ExpectedState:
    """What replay makes of a version with these files."""
    vectors = [file.add["deletionVector"]["cardinality"] for file in files if file.dv_id]
    totals = Totals(len(files), sum(file.add["size"] for file in files), len(vectors), sum(vectors))
    sizes = pa.array([file.add["size"] for file in files], pa.int64())
    deleted = [file.add["deletionVector"]["cardinality"] if file.dv_id else None for file in files]
    columns = pa.table({"size": sizes, "dv_cardinality": pa.array(deleted, pa.int64())})
    config = config_of(table or TableBuilder())
    others: dict[str, Any] = {"transactions": {}, "domains": {}, "columns": lambda: columns} | fields
    return ExpectedState(3, config, totals=totals, live=lambda: iter(files), tombstones=lambda _: iter(()), **others)


def judged(claims: Mapping[str, Any], expected: ExpectedState | None = None) -> list[Finding]:
    """What all checks say of a checksum with these claims; that it lacks others is left out."""
    view = ChecksumView(3, json.dumps(claims).encode(), expected)
    found = [finding for check in CATALOGUE.find_checks(ChecksumView) for finding in check.run(view)]
    return [
        finding for finding in found if finding.rule is not checksums.MISSING_REQUIRED or finding.place.key in claims
    ]


def told(claims: Mapping[str, Any], expected: ExpectedState | None = None) -> list[tuple[str, str | None, str | None]]:
    return [(finding.rule.id, finding.seen, finding.expected) for finding in judged(claims, expected)]


def rules(claims: Mapping[str, Any], expected: ExpectedState | None = None) -> list[str]:
    return [finding.rule.id for finding in judged(claims, expected)]


# -- counts and sizes -------------------------------------------------------------------------------------------------


def test_counts_and_sizes_are_those_of_the_live_files() -> None:
    files = state(live("a", size=10), live("b", VECTOR_ID, size=5, deletionVector=VECTOR))
    true = {"numFiles": 2, "tableSizeBytes": 15, "numDeletionVectorsOpt": 1, "numDeletedRecordsOpt": 3}

    assert [] == told(true, files)
    assert [] == told({name: number + 1 for name, number in true.items()}, None)
    for name, rule in zip(true, ["crc.num-files", "crc.table-size", "crc.dv-counts", "crc.dv-counts"], strict=True):
        for wrong in (true[name] - 1, true[name] + 1):
            assert [(rule, str(wrong), str(true[name]))] == told(true | {name: wrong}, files)


def test_counts_that_are_not_numbers_are_not_compared() -> None:
    assert ["crc.missing-required"] == rules({"numFiles": "1"}, state())
    assert ["crc.missing-required"] == rules({"numProtocol": True}, state())
    assert [] == told({"numDeletionVectorsOpt": None, "numDeletedRecordsOpt": None}, state())


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("name", ["numMetadata", "numProtocol"])
def test_there_is_one_protocol_and_one_metadata(name: str, number: int) -> None:
    assert [] == told({name: 1})
    assert [("crc.counts-not-one", str(number), "1")] == told({name: number})


def test_required_fields_have_their_types() -> None:
    found = judged({"numFiles": 1.0, "protocol": [], "metadata": "x"})

    assert [
        ("numFiles", "numFiles of the checksum of version 3 is not an integer"),
        ("metadata", "metadata of the checksum of version 3 is not an object"),
        ("protocol", "protocol of the checksum of version 3 is not an object"),
    ] == [(finding.place.key, finding.message) for finding in found]


# -- histograms -------------------------------------------------------------------------------------------------------


def histogram(boundaries: object, counts: object, sizes: object) -> Action:
    return {"fileSizeHistogram": {"sortedBinBoundaries": boundaries, "fileCounts": counts, "totalBytes": sizes}}


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        (histogram([0, 10], [1, 1], [9]), "has lists of 2, 2 and 1 numbers"),
        (histogram([0, 10], [1], [9, 10]), "has lists of 2, 1 and 2 numbers"),
        (histogram([0], [1, 1], [9, 10]), "has lists of 1, 2 and 2 numbers"),
        (histogram([0], [1, 1], [9]), "has lists of 1, 2 and 1 numbers"),
        (histogram([], [], []), "begins at no boundary, not at 0"),
        (histogram([-1, 10], [1, 1], [9, 10]), "begins at -1, not at 0"),
        (histogram([1, 10], [1, 1], [9, 10]), "begins at 1, not at 0"),
        (histogram([0, 10, 10], [1, 1, 0], [9, 10, 0]), "has boundaries that are not in ascending order"),
        (histogram([0, 10, 9], [1, 1, 0], [9, 10, 0]), "has boundaries that are not in ascending order"),
        (histogram([0, True], [1, 1], [9, 10]), "lacks one of its three lists of integers"),
        (histogram([0, 10.0], [1, 1], [9, 10]), "lacks one of its three lists of integers"),
        (histogram(None, [1, 1], [9, 10]), "lacks one of its three lists of integers"),
        (histogram([0, 10], 1, [9, 10]), "lacks one of its three lists of integers"),
        (histogram([0, 10], [1, 1], None), "lacks one of its three lists of integers"),
        (histogram([0, 2**63], [2, 0], [19, 0]), "lacks one of its three lists of integers"),
        ({"fileSizeHistogram": []}, "lacks one of its three lists of integers"),
    ],
)
def test_a_histogram_of_sizes_has_a_form(claims: Action, fault: str) -> None:
    found = judged(claims, state(live("a", size=9), live("b", size=10)))

    assert [("crc.histogram", f"fileSizeHistogram of the checksum of version 3 {fault}")] == [
        (finding.rule.id, finding.message) for finding in found
    ]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (histogram([0, 10], [1, 1], [9, 10]), []),
        (histogram([0, 11], [2, 0], [19, 0]), []),
        (histogram([0, 2**63 - 1], [2, 0], [19, 0]), []),
        (histogram([0], [2], [19]), []),
        (histogram([0, 10], [2, 0], [9, 10]), [("2 from 0 on", "1 from 0 on")]),
        (histogram([0, 10], [1, 0], [9, 10]), [("0 from 10 on", "1 from 10 on")]),
        (histogram([0, 10], [1, 1], [9, 11]), [("11 from 10 on", "10 from 10 on")]),
        (histogram([0, 10], [0, 1], [0, 10]), [("0 from 0 on", "1 from 0 on"), ("0 from 0 on", "9 from 0 on")]),
    ],
)
def test_a_histogram_of_sizes_counts_the_live_files(claims: Action, expected: list[tuple[str, str]]) -> None:
    files = state(live("a", size=9), live("b", size=10))

    assert [("crc.histogram", *one) for one in expected] == told(claims, files)
    assert [("crc.histogram", *one) for one in expected] == told({"histogramOpt": claims["fileSizeHistogram"]}, files)
    assert [] == told(claims, None)


def test_the_newer_name_of_the_histogram_wins() -> None:
    files = state(live("a", size=9))
    old, new = histogram([0], [2], [9])["fileSizeHistogram"], histogram([0], [1], [9])

    assert [] == told(new | {"histogramOpt": old}, files)
    assert ["crc.histogram"] == rules({"fileSizeHistogram": None, "histogramOpt": old}, files)
    assert ["fileSizeHistogram.fileCounts"] == [
        finding.place.key for finding in judged({"fileSizeHistogram": old, "histogramOpt": None}, files)
    ]


def deleted(*counts: object) -> Action:
    return {"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": list(counts)}}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (deleted(1, 0, 1, 1, 0, 0, 0, 0, 0, 0), []),
        (deleted(1, 1, 0, 1, 0, 0, 0, 0, 0, 0), [("1 from 1 on", "0 from 1 on")]),
        (deleted(0, 0, 1, 1, 0, 0, 0, 0, 0, 0), [("0 from 0 on", "1 from 0 on")]),
    ],
)
def test_a_histogram_of_deleted_records_counts_the_live_files(claims: Action, expected: list[tuple[str, str]]) -> None:
    vectors = [VECTOR | {"cardinality": count} for count in (10, 100)]
    files = state(live("a"), *(live("b", VECTOR_ID, deletionVector=vector) for vector in vectors))

    assert [("crc.deleted-histogram", *one) for one in expected] == told(claims, files)
    assert [] == told(claims, None)
    assert [] == told(claims, state(live("a"), columns=None))


@pytest.mark.parametrize("claims", [deleted(*[0] * 9), deleted(*[0] * 11), deleted(*[0] * 9, "0")])
def test_a_histogram_of_deleted_records_has_ten_bins(claims: Action) -> None:
    assert [("crc.deleted-histogram", "10 numbers")] == [(rule, wanted) for rule, _, wanted in told(claims, state())]


def test_sizes_that_are_not_known_are_not_counted() -> None:
    unknown = pa.table({"size": pa.array([None], pa.int64())})

    assert [] == told(histogram([0], [7], [9]), state(live("a"), columns=lambda: unknown))


# -- files ------------------------------------------------------------------------------------------------------------


def test_all_files_are_the_live_files_by_path_and_vector() -> None:
    rows: list[Action] = [
        {"path": "a%20b", "size": 1, "partitionValues": {"p": ""}},
        {"path": "c", "size": 1, "partitionValues": {}, "deletionVector": VECTOR},
    ]
    files = state(live("a b", partitionValues={"p": None}), live("c", VECTOR_ID, deletionVector=VECTOR))

    assert [] == told({"allFiles": rows}, files)
    assert [] == told({"allFiles": rows[:1]}, None)
    assert [("crc.all-files", "1 file", "2 files")] == told({"allFiles": rows[:1]}, files)
    assert [("crc.all-files", "3 files", "2 files")] == told({"allFiles": [*rows, rows[0]]}, files)
    assert [("crc.all-files", "{}", "2 files")] == told({"allFiles": {}}, files)
    assert [("crc.all-files", "[1]", "2 files")] == told({"allFiles": [1]}, files)
    for vector in (None, VECTOR | {"storageType": "x"}, VECTOR | {"offset": 1}):
        other = [rows[0], rows[1] | {"deletionVector": vector}]
        assert [("crc.all-files", "missing", "live"), ("crc.all-files", "there", "not live")] == told(
            {"allFiles": other}, files
        )


def test_all_files_have_the_size_and_the_partition_of_the_log() -> None:
    files = state(live("a", partitionValues={"p": "x"}))
    row: Action = {"path": "a", "size": 1, "partitionValues": {"p": "x"}}

    assert [("crc.all-files", "2", "1")] == told({"allFiles": [row | {"size": 2}]}, files)
    assert [("crc.all-files", None, "1")] == told({"allFiles": [row | {"size": None}]}, files)
    assert [("crc.all-files", "{'p': 'y'}", "{'p': 'x'}")] == told(
        {"allFiles": [row | {"partitionValues": {"p": "y"}}]}, files
    )
    short = LiveFile("a", "", 1, 1, {"path": "a", "size": 1})
    assert [] == told({"allFiles": [row]}, state(short))


# -- small actions ----------------------------------------------------------------------------------------------------


def transaction(version: object) -> Action:
    return {"setTransactions": [{"appId": "a", "version": version}]}


def test_transactions_are_those_of_the_commits() -> None:
    files = state(transactions={"a": (7, None)})

    assert [] == told(transaction(7), files)
    assert [] == told({"setTransactions": None}, files)
    assert [] == told(transaction(8), None)
    assert [("crc.txns", "8", "7")] == told(transaction(8), files)
    assert [("crc.txns", "none", "7")] == told({"setTransactions": []}, files)
    assert [("crc.txns", "none", "none")] == told(transaction(None), state())
    assert [("crc.txns", "{}", "a list of transactions")] == told({"setTransactions": {}}, files)


def test_only_the_versions_of_transactions_that_may_expire_count() -> None:
    table = TableBuilder(properties={"delta.setTransactionRetentionDuration": "interval 1 day"})

    assert [] == told({"setTransactions": []}, state(table=table, transactions={"a": (7, None)}))
    assert [] == told(transaction(7), state(table=table))
    assert ["crc.txns"] == rules(transaction(8), state(table=table, transactions={"a": (7, None)}))


def domain(**fields: object) -> Mapping[str, object]:
    return {"domainMetadata": [{"domain": "a", "configuration": "{}", "removed": False} | fields]}


def test_domains_are_those_of_the_commits() -> None:
    files = state(domains={"a": "{}"})

    assert [] == told(domain(), files)
    assert [] == told({"domainMetadata": None}, files)
    assert [] == told(domain(configuration="x"), None)
    assert [("crc.domains", "x", "{}")] == told(domain(configuration="x"), files)
    assert [("crc.domains", "removed: true", "{}")] == told(domain(removed=True), files)
    assert [("crc.domains", "none", "{}")] == told({"domainMetadata": []}, files)
    assert [("crc.domains", "{}", "none")] == told(domain(), state())
    assert [("crc.domains", "1", "a list of domains")] == told({"domainMetadata": 1}, files)
    assert [] == told(domain(configuration=None), state(domains={"a": ""}))


# -- the regime -------------------------------------------------------------------------------------------------------


def test_the_configuration_is_reported_by_its_parts() -> None:
    table = TableBuilder()
    metadata = table.metadata | {"configuration": table.metadata["configuration"] | {"x": "1"}}

    assert [] == told({"metadata": table.metadata, "protocol": table.protocol}, state())
    assert ["metadata.configuration"] == [finding.place.key for finding in judged({"metadata": metadata}, state())]
    assert [("crc.protocol-differs", "1", "2")] == told({"protocol": table.protocol | {"minWriterVersion": 1}}, state())
    unread = ExpectedState(3, TableConfiguration(), {}, {}, Totals(0, 0, 0, 0), lambda: iter(()), lambda _: iter(()))
    assert [] == told({"metadata": metadata, "protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}, unread)
    unreadable = {"metadata": {"partitionColumns": 1}, "protocol": {"minReaderVersion": "1"}}
    assert ["metadata", "protocol"] == [finding.place.key for finding in judged(unreadable, state())]


def with_times() -> TableBuilder:
    return TableBuilder(protocol=TIMES, properties={"delta.enableInCommitTimestamps": "true"})


FIVE = {"inCommitTimestampOpt": 5}
OFF = "an in-commit timestamp, and the table does not use them"


def test_the_time_is_that_of_the_commit_where_times_are_on() -> None:
    on, off = with_times(), TableBuilder()

    assert [] == told(FIVE, state(table=on, in_commit_timestamp=5))
    assert [] == told(FIVE, state(table=on, in_commit_timestamp=None))
    assert [] == told({}, state(table=off, in_commit_timestamp=5))
    assert [("crc.ict", "6", "5")] == told({"inCommitTimestampOpt": 6}, state(table=on, in_commit_timestamp=5))
    assert [("crc.ict", "none", "5")] == told({}, state(table=on, in_commit_timestamp=5))
    assert [("crc.ict", "5", "none")] == told(FIVE, state(table=off, in_commit_timestamp=5))
    for value, table, words in (({}, on, "no in-commit timestamp, and the table has them"), (FIVE, off, OFF)):
        message = f"the checksum of version 3 has {words}"
        assert [message] == [finding.message for finding in judged(value, state(table=table))]
    for config in (
        TableConfiguration(protocol=config_of(on).protocol),
        TableConfiguration(metadata=config_of(on).metadata),
    ):
        half = state(table=on)
        half.config = config
        assert [] == told(FIVE, half)
