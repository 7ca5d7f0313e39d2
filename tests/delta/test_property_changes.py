"""Planning changes of properties: each refusal occurs once, without other messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deltacli.core.errors import DeltacliError, Refused, UsageError
from deltacli.delta.log.state import TableConfiguration, read_metadata, read_protocol
from deltacli.delta.protocol.property_changes import PropertiesPlan, pairs_of, plan_set, plan_unset
from deltacli.delta.schema.types import parse_schema

COLUMN = {"nullable": True, "metadata": {}}
FIELDS = [{"name": "id", "type": "long", **COLUMN}, {"name": "a,b", "type": "string", **COLUMN}]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})
FEED = "delta.enableChangeDataFeed"
MODE = "delta.columnMapping.mode"
ICT = "delta.enableInCommitTimestamps"
SINCE = {
    "delta.inCommitTimestampEnablementVersion": "3",
    "delta.inCommitTimestampEnablementTimestamp": "1700000000000",
}
LOG, FILES = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"

Action = dict[str, Any]  # Any: JSON values


def raw(configuration: Mapping[str, Any] | None = None, schema: str = SCHEMA) -> Action:
    """A metaData with an unknown field."""
    return {
        "id": "one",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": dict(configuration or {}),
        "later": {"kept": 1},
    }


def config(metadata: Action, features: Sequence[str] | str = "1,2") -> TableConfiguration:
    """What is in force: legacy versions as `reader,writer`, or features."""
    if isinstance(features, str):
        reader, writer = map(int, features.split(","))
        protocol: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    else:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": [], "writerFeatures": list(features)}
    return TableConfiguration(
        read_protocol(protocol, "test"), read_metadata(metadata, "test"), parse_schema(str(metadata["schemaString"]))
    )


def put(
    values: Mapping[str, str],
    configuration: Mapping[str, Any] | None = None,
    features: Sequence[str] | str = "1,2",
    *,
    schema: str = SCHEMA,
    force: bool = False,
) -> PropertiesPlan:
    metadata = raw(configuration, schema)
    return plan_set(config(metadata, features), metadata, values, force=force)


def drop(
    keys: Sequence[str], configuration: Mapping[str, Any] | None = None, features: Sequence[str] | str = "1,2"
) -> PropertiesPlan:
    metadata = raw(configuration)
    return plan_unset(config(metadata, features), metadata, keys)


def configuration_of(plan: PropertiesPlan) -> Any:  # Any: JSON values
    assert plan.metadata is not None
    return plan.metadata["configuration"]


def test_only_the_requested_properties_change() -> None:
    before = raw({"mine": None, "flag": True, "gone": "x"})
    after = plan_set(config(before), before, {"delta.appendOnly": "True"})
    less = plan_unset(config(before), before, ["gone", "never"])

    assert before | {"configuration": {"mine": None, "flag": True, "gone": "x", "delta.appendOnly": "true"}} == (
        after.metadata
    )
    assert before | {"configuration": {"mine": None, "flag": True}} == less.metadata
    assert [("delta.appendOnly", None, "true")] == list(after.changes)
    assert [("gone", "x", None)] == list(less.changes)
    assert raw({"mine": None, "flag": True, "gone": "x"}) == before


@pytest.mark.parametrize(("duration", "interval"), [("30d", "30 days"), ("2w", "2 weeks"), ("200D", "200 days")])
def test_a_duration_is_written_as_an_interval(duration: str, interval: str) -> None:
    assert f"interval {interval}" == configuration_of(put({LOG: duration}, {}))[LOG]


def test_a_property_that_is_already_set_needs_no_change() -> None:
    plans = [
        put({"owner": "me", LOG: "30 days"}, {"owner": "me", LOG: "interval 30 days"}),
        put({"delta.constraints.c": "id > 0"}, {"delta.constraints.c": "id > 0"}),
        drop(["owner", "delta.nobody", "delta.rowTracking.x"]),
    ]

    absent = tuple(f"{key} is not set" for key in ("owner", "delta.nobody", "delta.rowTracking.x"))
    assert [PropertiesPlan((), None)] * 2 + [PropertiesPlan((), None, absent)] == plans


REFUSED = [
    ("properties.unknown-key", {"delta.chekpointInterval": "3"}, {}, "1,2"),
    ("properties.unknown-key", {"DELTA.mine": "3"}, {}, "1,2"),
    ("properties.key-case", {"delta.appendonly": "true"}, {}, "1,2"),
    ("properties.key-case", {"Delta.appendOnly": "true"}, {}, "1,2"),
    ("property.protocol-in-config", {"delta.feature.deletionVectors": "supported"}, {}, "1,2"),
    ("property.protocol-in-config", {"delta.minReaderVersion": "3"}, {}, "1,2"),
    ("property.cdf-legacy-key", {"delta.enableChangeDataCapture": "true"}, {}, "1,4"),
    ("properties.internal", {"delta.columnMapping.maxColumnId": "9"}, {}, "1,2"),
    ("properties.internal", {"delta.rowTracking.materializedRowIdColumnName": "x"}, {}, "1,2"),
    ("properties.internal", {"delta.requireCheckpointProtectionBeforeVersion": "9"}, {}, "1,2"),
    ("properties.internal", {"delta.coordinatedCommits.commitCoordinator-preview": "x"}, {}, "1,2"),
    ("properties.internal", {"delta.rowTrackingSuspended": "true"}, {}, "1,2"),
    ("properties.constraint", {"delta.constraints.c": "id > 0"}, {}, "1,3"),
    ("properties.engine-only", {"delta.universalFormat.enabledFormats": "iceberg"}, {}, "1,2"),
    ("properties.column-mapping", {MODE: "name"}, {}, "2,5"),
    ("properties.column-mapping", {MODE: "id"}, {MODE: "name"}, "2,5"),
    ("properties.column-mapping", {MODE: "none"}, {MODE: "name"}, "2,5"),
    ("properties.feature-needed", {"delta.enableRowTracking": "true"}, {}, ["domainMetadata"]),
    (
        "rowtracking.suspended",
        {"delta.enableRowTracking": "true"},
        {"delta.rowTrackingSuspended": "true"},
        ["rowTracking", "domainMetadata"],
    ),
    ("properties.iceberg-compat", {"delta.enableIcebergCompatV2": "true"}, {}, ["icebergCompatV2", "columnMapping"]),
    ("properties.feature-needed", {"delta.appendOnly": "true"}, {}, "1,1"),
    ("properties.feature-needed", {FEED: "true"}, {}, "1,3"),
    ("properties.feature-needed", {"delta.enableDeletionVectors": "true"}, {}, "2,6"),
    ("properties.feature-needed", {"delta.checkpointPolicy": "v2"}, {}, ["appendOnly"]),
    ("properties.feature-needed", {"delta.enableTypeWidening": "true"}, {}, "1,2"),
    ("properties.feature-needed", {ICT: "true"}, {}, "1,2"),
    ("properties.feature-needed", {ICT: "true"}, {}, ["inCommitTimestamp-preview"]),
    ("properties.internal", {f"{ICT}-preview": "false"}, {f"{ICT}-preview": "true"}, ["inCommitTimestamp-preview"]),
    (
        "protocol.exclusive",
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableIcebergCompatV2": "true"},
        ["deletionVectors", "icebergCompatV2"],
    ),
    ("protocol.exclusive", {"delta.enableDeletionVectors": "true"}, {}, ["deletionVectors", "icebergCompatV1"]),
    (
        "properties.manifest",
        {"delta.enableDeletionVectors": "true"},
        {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
        ["deletionVectors"],
    ),
    (
        "properties.iceberg-needed",
        {"delta.enableIcebergCompatV2": "false"},
        {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"},
        ["icebergCompatV2"],
    ),
    (
        "properties.iceberg-needed",
        {"delta.enableRowTracking": "false"},
        {"delta.enableIcebergCompatV3": "true", "delta.enableRowTracking": "true"},
        ["icebergCompatV3", "rowTracking"],
    ),
    ("property.retention-order", {LOG: "interval 1 day"}, {}, "1,2"),
    ("property.retention-order", {FILES: "interval 60 days"}, {}, "1,2"),
]


@pytest.mark.parametrize(("code", "values", "configuration", "features"), REFUSED)
def test_properties_the_table_cannot_have_are_refused(
    code: str, values: dict[str, str], configuration: dict[str, str], features: Sequence[str] | str
) -> None:
    with pytest.raises(Refused) as refused:
        put(values, configuration, features)

    assert code == refused.value.code
    assert refused.value.hint or refused.value.facts


@pytest.mark.parametrize(
    ("values", "configuration", "features"),
    [
        ({"chekpointInterval": "3", "deltalike.x": "y"}, {}, "1,1"),
        ({"delta.appendOnly": "true"}, {}, "1,2"),
        ({"delta.appendOnly": "false"}, {}, "1,1"),
        ({FEED: "true"}, {}, "1,4"),
        ({MODE: "none"}, {}, "1,2"),
        ({"delta.checkpointPolicy": "v2"}, {}, ["v2Checkpoint"]),
        ({"delta.checkpointPolicy": "classic"}, {}, "1,2"),
        ({"delta.enableTypeWidening": "true"}, {}, ["typeWidening-preview"]),
        ({"delta.enableDeletionVectors": "true"}, {}, ["deletionVectors", "icebergCompatV2"]),
        ({"delta.enableRowTracking": "false"}, {"delta.enableRowTracking": "true"}, ["rowTracking"]),
        ({"delta.enableRowTracking": "true"}, {"delta.rowTrackingSuspended": "false"}, ["rowTracking"]),
        ({"delta.enableIcebergCompatV2": "false"}, {"delta.enableIcebergCompatV2": "true"}, ["icebergCompatV2"]),
        (
            {"delta.enableIcebergCompatV1": "false"},
            {
                "delta.enableIcebergCompatV1": "true",
                "delta.enableIcebergCompatV2": "true",
                "delta.universalFormat.enabledFormats": "iceberg",
            },
            ["icebergCompatV1", "icebergCompatV2"],
        ),
        (
            {"owner": "me"},
            {"delta.enableDeletionVectors": "true", "delta.compatibility.symlinkFormatManifest.enabled": "true"},
            ["deletionVectors"],
        ),
        ({LOG: "interval 1 day", FILES: "interval 1 day"}, {}, "1,2"),
        ({"owner": "me"}, {LOG: "interval 1 day"}, "1,2"),
        ({"owner": "me"}, {"delta.enableDeletionVectors": "true"}, "1,2"),
        ({"delta.dataSkippingStatsColumns": "id,`a,b`"}, {}, "1,2"),
    ],
)
def test_properties_the_table_can_have_are_planned(
    values: dict[str, str], configuration: dict[str, str], features: Sequence[str] | str
) -> None:
    assert configuration | values == configuration_of(put(values, configuration, features))


def test_unknown_keys_are_set_by_force_and_unset_without() -> None:
    assert {"delta.mine": "1"} == configuration_of(put({"delta.mine": "1"}, force=True))
    assert {} == configuration_of(
        drop(["delta.mine", "delta.appendonly"], {"delta.mine": "1", "delta.appendonly": "x"})
    )
    with pytest.raises(Refused, match=r"spelled delta\.appendOnly"):
        put({"delta.appendonly": "true"}, force=True)
    with pytest.raises(Refused, match=r"spelled delta\.appendOnly"):
        drop(["delta.appendonly"], {"delta.appendOnly": "true"})


@pytest.mark.parametrize(
    ("keys", "configuration", "code"),
    [
        ([MODE], {MODE: "name"}, "properties.column-mapping"),
        (["delta.constraints.c"], {"delta.constraints.c": "id > 0"}, "properties.constraint"),
        (["delta.columnMapping.maxColumnId"], {"delta.columnMapping.maxColumnId": "3"}, "properties.internal"),
        ([LOG], {LOG: "interval 90 days", FILES: "interval 60 days"}, "property.retention-order"),
    ],
)
def test_required_properties_cannot_be_unset(keys: list[str], configuration: dict[str, str], code: str) -> None:
    with pytest.raises(Refused) as refused:
        drop(keys, configuration, "2,5")

    assert code == refused.value.code


def test_a_mode_that_the_protocol_does_not_support_can_be_taken_back() -> None:
    assert {} == configuration_of(drop([MODE], {MODE: "name"}, "1,2"))


def test_commits_without_times_forget_since_when_they_had_them() -> None:
    features = ["inCommitTimestamp"]
    before = {ICT: "true", **SINCE, "owner": "me"}

    assert {"owner": "me"} == configuration_of(drop([ICT], before, features))
    assert {"owner": "me", ICT: "false"} == configuration_of(put({ICT: "false"}, before, features))
    assert {"owner": "me", ICT: "true"} == configuration_of(put({ICT: "true"}, {"owner": "me"}, features))
    assert before == configuration_of(put({"owner": "me"}, before | {"owner": "you"}, features))


def test_a_change_feed_needs_its_column_names() -> None:
    schema = json.loads(SCHEMA)
    schema["fields"][0]["name"] = "_Change_Type"

    with pytest.raises(Refused, match="_Change_Type"):
        put({FEED: "true"}, {}, "1,4", schema=json.dumps(schema))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"delta.appendOnly": "yes"}, "true or false"),
        ({"delta.checkpointInterval": "0"}, "an integer from 1 to 2147483647"),
        ({LOG: "interval 1 month"}, "such as interval 30 days"),
        ({MODE: "names"}, "none or name or id"),
        ({"delta.dataSkippingStatsColumns": "id,nope"}, "id"),
    ],
)
def test_an_invalid_value_is_refused_with_the_expected_form(values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as bad:
        put(values)

    assert "usage.property" == bad.value.code
    assert said in " ".join(bad.value.facts.values())


@pytest.mark.parametrize(
    "values",
    [
        {"": "x"},
        {"a\nb": "x"},
        {"a\x7fb": "x"},
        {"a\u0085b": "x"},
        {"a\x00": "x"},
        {"\udcff": "x"},
        {"a": "\udcff"},
        {"a": 1},
        {1: "a"},
    ],
)
def test_a_name_that_nobody_can_type_and_what_is_no_text_are_usage_errors(values: dict[str, str]) -> None:
    with pytest.raises(UsageError) as bad:
        put(values)

    assert "usage.property" == bad.value.code


def test_a_value_may_have_line_breaks() -> None:
    assert {"note": "two\nlines"} == {change.key: change.after for change in put({"note": "two\nlines"}).changes}


@pytest.mark.parametrize("texts", [["a"], ["=b"], ["a=1", "a=2"]])
def test_an_invalid_property_argument_is_a_usage_error(texts: list[str]) -> None:
    with pytest.raises(DeltacliError) as bad:
        pairs_of(texts)

    assert "usage.property" == bad.value.code
    assert {"a": "b=c", "d": ""} == pairs_of(["a=b=c", "d=", "a=b=c"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({FILES: "interval 1 hour"}, "less than a day"),
        ({FILES: "interval 3 days"}, "less than a week"),
        ({"delta.enableExpiredLogCleanup": "false"}, "grows without limit"),
        ({"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "false"}, "statistics"),
        ({"appendOnly": "true"}, "delta.appendOnly"),
    ],
)
def test_surprising_effects_are_announced(values: dict[str, str], said: str) -> None:
    (caution,) = put(values).cautions

    assert said in caution
    assert () == put({"owner": "me"}, values).cautions


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.parquet.compression.codec", "zstd"),
        ("delta.targetFileSize", "128mb"),
        ("delta.tuneFileSizesForRewrites", "true"),
        ("delta.parquet.vorder.enabled", "true"),
    ],
)
def test_a_property_that_spark_refuses_is_noted(key: str, value: str) -> None:
    (caution,) = put({key: value}).cautions

    assert key in caution
    assert "Spark" in caution
    assert () == put({"delta.parquet.format.version": "1.0.0"}).cautions
