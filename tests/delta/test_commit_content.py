"""The bytes of a commit of ours, what keeps it from being made, and what winners make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.core.errors import ProtocolUnsupported, Refused
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.commit_content import (
    CommitRequest,
    PreviousVersion,
    encode_commit_head,
    require_supported_request,
)
from deltacli.delta.log.state import read_metadata, read_protocol
from deltacli.delta.protocol.features import require_commits_supported
from tests.support.actions import Line, domain, metadata, protocol

ICT = {"delta.enableInCommitTimestamps": "true"}
ROWS = {"delta.enableRowTracking": "true"}
FEATURES = ["domainMetadata", "inCommitTimestamp", "rowTracking"]


def base(
    configuration: dict[str, str] | None = None, *, committed_ms: int | None = None, features: list[str] = FEATURES
) -> PreviousVersion:
    """Version 7."""
    return PreviousVersion(
        7,
        read_protocol(protocol(1, 7, writer_features=features)["protocol"], "t"),
        read_metadata(metadata(configuration=configuration)["metaData"], "t"),
        committed_ms,
    )


def with_configuration(**configuration: str) -> CommitRequest:
    action = metadata(configuration={f"delta.{key}": value for key, value in configuration.items()})["metaData"]
    return CommitRequest("SET TBLPROPERTIES", metadata=action)


def encoded(request: CommitRequest, before: PreviousVersion) -> str:
    return encode_commit_head(request, before, txn_id="an-id", now_ms=1_000, engine_info="deltacli/0").decode()


def first_action(request: CommitRequest, before: PreviousVersion) -> dict[str, Any]:
    kind, action = read_actions(encoded(request, before).encode(), "t")[0]
    assert "commitInfo" == kind
    return action


def test_a_commit_is_provenance_then_protocol_then_metadata_then_domains() -> None:
    request = CommitRequest(
        "SET TBLPROPERTIES",
        operation_parameters={"properties": {"a": "b\nc"}, "isCheck": True, "limit": 5, "name": "x"},
        operation_metrics={"numFiles": 3},
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": FEATURES},
        metadata={"id": "i", "configuration": {"a": "b\nc"}},
        domains=({"domain": "d", "configuration": "{}", "removed": False},),
    )

    assert encoded(request, base()) == (
        '{"commitInfo":{"timestamp":1000,"operation":"SET TBLPROPERTIES","operationParameters":'
        '{"properties":"{\\"a\\":\\"b\\\\nc\\"}","isCheck":true,"limit":5,"name":"x"},"readVersion":7,'
        '"isolationLevel":"Serializable","isBlindAppend":false,"operationMetrics":{"numFiles":"3"},'
        '"engineInfo":"deltacli/0","txnId":"an-id"}}\n'
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":7,'
        '"writerFeatures":["domainMetadata","inCommitTimestamp","rowTracking"]}}\n'
        '{"metaData":{"id":"i","configuration":{"a":"b\\nc"},'
        '"format":{"provider":"parquet","options":{}},"partitionColumns":[]}}\n'
        '{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}\n'
    )


def test_provenance_alone_is_a_commit() -> None:
    request = CommitRequest("VACUUM END", operation_parameters={"status": "COMPLETED"})

    assert encoded(request, base()) == (
        '{"commitInfo":{"timestamp":1000,"operation":"VACUUM END","operationParameters":{"status":"COMPLETED"},'
        '"readVersion":7,"isolationLevel":"Serializable","isBlindAppend":false,"operationMetrics":{},'
        '"engineInfo":"deltacli/0","txnId":"an-id"}}\n'
    )


@pytest.mark.parametrize(("committed_ms", "stamp"), [(998, 1_000), (999, 1_000), (1_000, 1_001), (5_000, 5_001)])
def test_an_in_commit_timestamp_comes_first_and_always_grows(committed_ms: int, stamp: int) -> None:
    text = encoded(CommitRequest("X"), base(ICT, committed_ms=committed_ms))

    assert text.startswith(f'{{"commitInfo":{{"inCommitTimestamp":{stamp},"timestamp":1000,')


def test_a_timestamp_is_never_made_without_the_one_before() -> None:
    with pytest.raises(ValueError):
        encoded(CommitRequest("X"), base(ICT))


def test_enabling_timestamps_records_version_and_time() -> None:
    request = with_configuration(enableInCommitTimestamps="true", other="x")

    text = encoded(request, base(committed_ms=2_000))

    assert text.startswith('{"commitInfo":{"inCommitTimestamp":2001,')
    assert {
        "delta.enableInCommitTimestamps": "true",
        "delta.other": "x",
        "delta.inCommitTimestampEnablementVersion": "8",
        "delta.inCommitTimestampEnablementTimestamp": "2001",
    } == json.loads(text.splitlines()[1])["metaData"]["configuration"]


def test_timestamps_that_are_on_keep_their_beginning() -> None:
    text = encoded(with_configuration(enableInCommitTimestamps="true"), base(ICT, committed_ms=5))

    assert "Enablement" not in text


def test_switching_timestamps_off_writes_none() -> None:
    assert "inCommitTimestamp" not in encoded(with_configuration(other="x"), base(ICT))


def test_commits_record_that_row_ids_are_kept_if_rows_are_tracked() -> None:
    tagged = first_action(CommitRequest("X", tags={"a": "b"}), base(ROWS))

    assert {"a": "b", "delta.rowTracking.preserved": "true"} == tagged["tags"]
    assert ["operationMetrics", "tags", "engineInfo", "txnId"] == list(tagged)[-4:]
    assert "tags" not in first_action(CommitRequest("X"), base(ROWS, features=["domainMetadata"]))
    assert "tags" in first_action(with_configuration(enableRowTracking="true"), base())


def test_text_that_is_not_unicode_keeps_its_escapes() -> None:
    request = CommitRequest("X", metadata={"id": "\ud800", "schemaString": "ü"})

    (_, (kind, action)) = read_actions(encoded(request, base()).encode(), "t")

    assert ("metaData", "\ud800", "ü") == (kind, action["id"], action["schemaString"])


WRITES_D = CommitRequest("X", domains=(domain("d")["domainMetadata"],))
ALLOWED = read_protocol(protocol(1, 7, writer_features=FEATURES)["protocol"], "t")


@pytest.mark.parametrize(
    ("line", "configuration", "code"),
    [
        (protocol(1, 8), {}, "protocol.version-out-of-range"),
        (protocol(1, 7, writer_features=["futureOne"]), {}, "protocol.unknown-feature"),
        (protocol(1, 7), {}, "protocol.writer-features-missing"),
        (protocol(3, 6, reader_features=[]), {}, "protocol.reader3-needs-writer7"),
        (protocol(3, 7, writer_features=[]), {}, "protocol.reader-features-missing"),
        (
            protocol(3, 7, reader_features=["timestampNtz"], writer_features=[]),
            {},
            "protocol.reader-only-feature",
        ),
        (
            protocol(3, 7, reader_features=["catalogManaged"], writer_features=["catalogManaged"]),
            {},
            "catalog.managed",
        ),
        (protocol(1, 7, writer_features=["coordinatedCommits-preview"]), {}, "catalog.managed"),
        (protocol(), {"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"}, "catalog.managed"),
        (protocol(1, 7, writer_features=["redirectWriterOnly-preview"]), {}, "table.redirected"),
        (protocol(), {"delta.redirectWriterOnly-preview": "{}"}, "table.redirected"),
        (protocol(), {"delta.redirectReaderWriter-preview": "{}"}, "table.redirected"),
        (
            protocol(3, 7, reader_features=["adaptiveMetadata"], writer_features=["adaptiveMetadata"]),
            {},
            "protocol.unknown-feature",
        ),
    ],
)
def test_a_version_that_is_not_ours_to_follow_is_refused(line: Line, configuration: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as raised:
        require_commits_supported(read_protocol(line["protocol"], "t"), configuration, 12)

    assert code == raised.value.code
    assert "version 12 " in raised.value.message


@pytest.mark.parametrize("line", [protocol(1, 1), protocol(2, 5), protocol(1, 7, writer_features=FEATURES)])
def test_a_supported_version_is_rebased_over(line: Line) -> None:
    require_commits_supported(read_protocol(line["protocol"], "t"), {"delta.appendOnly": "true"}, 12)


def test_the_resulting_protocol_is_checked_as_well() -> None:
    unknown = CommitRequest("X", protocol=protocol(1, 7, writer_features=[*FEATURES, "futureOne"])["protocol"])

    with pytest.raises(Refused, match="version 8 has the writer feature futureOne"):
        require_supported_request(unknown, base())
    with pytest.raises(ProtocolUnsupported):
        require_supported_request(
            CommitRequest("X", protocol=protocol(4, 7, writer_features=FEATURES)["protocol"]), base()
        )


def test_domains_are_refused_where_they_are_not_supported() -> None:
    with pytest.raises(Refused) as raised:
        require_supported_request(WRITES_D, base(features=[]))

    assert "domain.without-feature" == raised.value.code
    adding = CommitRequest("X", protocol=protocol(1, 7, writer_features=FEATURES)["protocol"], domains=WRITES_D.domains)
    require_supported_request(adding, base(features=[]))


@pytest.mark.parametrize(
    "request_",
    [
        CommitRequest("X", domains=WRITES_D.domains * 2),
        CommitRequest("X", domains=(domain("delta.rowTracking")["domainMetadata"],)),
        CommitRequest("X", transactions=({"appId": "a", "version": 1}, {"appId": "a", "version": 2})),
        CommitRequest("X", metadata=metadata("another-id")["metaData"]),
        CommitRequest("X", protocol=protocol(1, 7, writer_features=["rowTracking"])["protocol"]),
    ],
)
def test_an_invalid_commit_request_is_an_internal_error(request_: CommitRequest) -> None:
    with pytest.raises(ValueError):
        require_supported_request(request_, base())


def test_timestamps_are_not_enabled_without_version_and_time() -> None:
    adding = CommitRequest("X", protocol=protocol(1, 7, writer_features=FEATURES)["protocol"])

    with pytest.raises(ValueError):
        require_supported_request(adding, base(ICT, features=[]))


@pytest.mark.parametrize(("preview", "stamp"), [("-preview", 5_001), ("", None)])
def test_the_preview_of_in_commit_timestamps_is_switched_on_by_its_own_property(
    preview: str, stamp: int | None
) -> None:
    """
    Its writers do not read the property of the final feature.
    """
    before = base(
        {f"delta.enableInCommitTimestamps{preview}": "true"}, committed_ms=5_000, features=["inCommitTimestamp-preview"]
    )

    info = first_action(CommitRequest("VACUUM START"), before)

    assert stamp == info.get("inCommitTimestamp")
    assert stamp is None or "inCommitTimestamp" == next(iter(info))
