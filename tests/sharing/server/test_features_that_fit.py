"""Protocol and configuration of an answer in delta format always fit, as Delta for Spark requires."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sharing.asgi import Reply
from tests.sharing.served import Served, shared
from tests.support.actions import SCHEMA_STRING, Line, add, commit_info, deletion_vector, metadata, protocol, remove
from tests.support.builder import TableBuilder

SWITCHES = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableVariantShredding": "variantShredding",
    "delta.coordinatedCommits.commitCoordinator-preview": "coordinatedCommits",
    "delta.requireCheckpointProtectionBeforeVersion": "checkpointProtection",
    "delta.checkpointPolicy": "v2Checkpoint",
    "delta.columnMapping.mode": "columnMapping",
    "io.example.team": "",
}
"""Properties that activate features, by Spark; the last one activates none."""
LEGACY = {"appendOnly": 2, "invariants": 2, "checkConstraints": 3, "changeDataFeed": 4, "generatedColumns": 4}
EVERYTHING = "deletionvectors,columnmapping,timestampntz,typewidening,varianttype"


def header(features: str) -> str:
    return f"responseformat=delta;readerfeatures={features}"


def supported(action: dict[str, Any]) -> set[str]:  # Any: JSON values
    named = {*action.get("readerFeatures", ()), *action.get("writerFeatures", ())}
    if action["minWriterVersion"] < 7:
        named |= {name for name, version in LEGACY.items() if version <= action["minWriterVersion"]}
        if action["minReaderVersion"] == 2:
            named.add("columnMapping")
    return {name.removesuffix("-preview") for name in named}


def active(configuration: dict[str, str]) -> set[str]:
    on = {key for key, text in configuration.items() if text not in ("false", "none", "classic")}
    return {SWITCHES[key] for key in on & SWITCHES.keys()} - {""}


def require_fitting(reply: Reply) -> set[str]:
    """Return the features of the last protocol; each configuration must fit the last protocol before it."""
    assert 200 == reply.status, reply.body
    features: set[str] = set()
    for line in reply.lines:
        if "protocol" in line:
            action = line["protocol"]["deltaProtocol"]
            features = supported(action)
            assert set(action.get("readerFeatures", ())) <= set(action.get("writerFeatures", ()))
        if "metaData" in line:
            configuration = line["metaData"]["deltaMetadata"]["configuration"]
            assert active(configuration) <= features, (configuration, features)
    return features


def configurations(reply: Reply) -> list[dict[str, str]]:
    return [line["metaData"]["deltaMetadata"]["configuration"] for line in reply.lines if "metaData" in line]


def features_of(readers: Sequence[str], writers: Sequence[str] = ()) -> Line:
    return protocol(3, 7, reader_features=readers, writer_features=[*readers, *writers])


def serve(path: Path, *commits: Sequence[Line]) -> Served:
    table = TableBuilder()
    for commit in commits:
        table.commit(*commit)
    return Served((shared(table.write(path)),))


CASES = [
    pytest.param("deletionVectors", "delta.enableDeletionVectors", id="vectors"),
    pytest.param("typeWidening", "delta.enableTypeWidening", id="widening"),
    pytest.param("typeWidening-preview", "delta.enableTypeWidening", id="widening-preview"),
]


@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("feature, switch", CASES)
def test_an_unused_feature_is_kept_with_its_property_for_clients_that_support_it(
    tmp_path: Path, feature: str, switch: str, announces: bool
) -> None:
    properties = {switch: "true", "delta.enableChangeDataFeed": "true", "io.example.team": "data"}
    served = serve(
        tmp_path / "t",
        [features_of([feature], ["changeDataFeed"]), metadata(configuration=properties), add("a", size=1)],
        [commit_info(), add("b", size=1)],
    )
    asks = header(EVERYTHING if announces else "columnmapping")
    replies = [
        served.query(delta_sharing_capabilities=asks),
        served.query(b'{"version":0}', delta_sharing_capabilities=asks),
        served.query(b'{"startingVersion":0}', delta_sharing_capabilities=asks),
        served.query(b'{"startingVersion":0,"includeHistoricalProtocol":true}', delta_sharing_capabilities=asks),
        served.table("/metadata", delta_sharing_capabilities=asks),
        served.table("/changes?startingVersion=0", delta_sharing_capabilities=asks),
    ]

    for reply in replies:
        features = require_fitting(reply)
        (configuration,) = configurations(reply)
        assert announces == (feature.removesuffix("-preview") in features)
        assert announces == (configuration.get(switch) == "true")
        assert "changeDataFeed" in features
        assert ("true", "data") == (configuration["delta.enableChangeDataFeed"], configuration["io.example.team"])


def test_a_feature_that_is_used_is_required_of_clients(tmp_path: Path) -> None:
    served = serve(
        tmp_path / "t",
        [
            features_of(["deletionVectors"]),
            metadata(configuration={"delta.enableDeletionVectors": "true"}),
            add("a", size=1, vector=deletion_vector()),
        ],
    )

    assert 400 == served.query(delta_sharing_capabilities=header("columnmapping")).status
    features = require_fitting(served.query(delta_sharing_capabilities=header("deletionvectors")))
    assert "deletionVectors" in features


@pytest.mark.parametrize("client", ["deletionvectors,typewidening", "columnmapping"])
@pytest.mark.parametrize("with_protocol", [True, False])
def test_metadata_in_a_range_fit_the_protocol_that_the_client_got(
    tmp_path: Path, client: str, with_protocol: bool
) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    served = serve(
        tmp_path / "t",
        [features_of([]), metadata(configuration={}), add("a", size=1)],
        [commit_info(), features_of(["deletionVectors"]), metadata(configuration=vectors)],
        [
            commit_info(),
            features_of(["deletionVectors", "typeWidening"], ["rowTracking", "domainMetadata"]),
            metadata(configuration=vectors | {"delta.enableTypeWidening": "true", "delta.enableRowTracking": "true"}),
        ],
        [commit_info(), metadata(configuration={}), remove("a")],
    )
    body = {"startingVersion": 0, "includeHistoricalProtocol": with_protocol}
    reply = served.query(json.dumps(body).encode(), delta_sharing_capabilities=header(client))
    require_fitting(reply)

    seen = [set(configuration) for configuration in configurations(reply)]
    switches = {"delta.enableDeletionVectors", "delta.enableTypeWidening"} if "vectors" in client else set()
    rows = {"delta.enableRowTracking"} if with_protocol else set()
    assert [set(), switches - {"delta.enableTypeWidening"}, switches | rows, set()] == seen


def test_features_of_the_log_are_left_out_with_their_properties(tmp_path: Path) -> None:
    properties = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "3",
        "delta.inCommitTimestampEnablementTimestamp": "1700000000000",
        "delta.checkpointPolicy": "v2",
        "delta.requireCheckpointProtectionBeforeVersion": "2",
        "delta.coordinatedCommits.commitCoordinator-preview": "dynamodb",
        "delta.coordinatedCommits.commitCoordinatorConf-preview": "{}",
        "delta.enableDeletionVectors": "true",
    }
    readers = ["deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
    writers = ["inCommitTimestamp", "checkpointProtection", "coordinatedCommits-preview"]
    served = serve(tmp_path / "t", [features_of(readers, writers), metadata(configuration=properties)])

    reply = served.query(delta_sharing_capabilities=header(EVERYTHING + ",v2checkpoint,vacuumprotocolcheck"))

    assert {"deletionVectors"} == require_fitting(reply)
    # The mode stands for what the protection says: column mapping may have been removed.
    assert [{"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "none"}] == configurations(reply)


def test_identity_columns_of_an_older_protocol_stay_without_its_column_mapping(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA_STRING)
    schema["fields"][0]["metadata"] = {"delta.identity.start": 1, "delta.identity.step": 1}
    served = serve(tmp_path / "t", [protocol(2, 6), metadata(schema_string=json.dumps(schema))])

    def ask(client: str) -> dict[str, Any]:  # Any: JSON values
        found: dict[str, Any] = served.query(delta_sharing_capabilities=header(client)).lines[0]["protocol"]
        return dict(found["deltaProtocol"])

    without_mapping = ask("deletionvectors")
    assert (1, 7) == (without_mapping["minReaderVersion"], without_mapping["minWriterVersion"])
    assert {"identityColumns", "changeDataFeed"} <= set(without_mapping["writerFeatures"])
    assert "columnMapping" not in without_mapping["writerFeatures"]
    assert {"minReaderVersion": 2, "minWriterVersion": 6} == ask("columnmapping")


def test_required_features_are_kept_and_features_that_require_one_left_out_go_with_it(tmp_path: Path) -> None:
    served = serve(
        tmp_path / "t",
        [
            features_of(
                ["columnMapping", "variantShredding", "variantType"], ["icebergCompatV2", "icebergWriterCompatV1"]
            ),
            metadata(configuration={"delta.enableVariantShredding": "true"}),
        ],
    )

    some = require_fitting(served.query(delta_sharing_capabilities=header("variantshredding")))
    more = require_fitting(served.query(delta_sharing_capabilities=header("variantshredding,columnmapping")))

    assert {"variantShredding", "variantType"} == some
    assert some | {"columnMapping", "icebergCompatV2", "icebergWriterCompatV1"} == more


def test_a_preview_of_catalog_management_concerns_only_the_log(tmp_path: Path) -> None:
    served = serve(tmp_path / "t", [features_of(["catalogOwned-preview"]), metadata()])

    assert set() == require_fitting(served.query(delta_sharing_capabilities=header("deletionvectors")))
