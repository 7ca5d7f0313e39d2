"""Planning more features: what comes with them, what is refused, and what makes a feature active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deltacli.core.errors import Refused, UsageError
from deltacli.delta.log.state import TableConfiguration, read_protocol
from deltacli.delta.protocol.feature_changes import FeaturesPlan, plan_features, show_features
from deltacli.delta.protocol.features import FEATURES, FeatureKind, require_commits_supported, require_readable
from tests.delta.test_property_changes import config, raw

Action = dict[str, Any]  # Any: JSON values


def listed(features: Sequence[str]) -> Action:
    """A protocol that lists features, each where it belongs."""
    of_readers = [name for name in features if FEATURES[name].kind is FeatureKind.READER_WRITER]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return versions | {"readerFeatures": of_readers, "writerFeatures": list(features)}


def in_force(protocol: Action, configuration: Mapping[str, str] | None = None) -> TableConfiguration:
    return replace(config(raw(configuration)), protocol=read_protocol(protocol, "test"))


def plan(protocol: Action, *names: str, configuration: Mapping[str, str] | None = None) -> FeaturesPlan:
    return plan_features(in_force(protocol, configuration), protocol, names)


LEGACY = {"minReaderVersion": 1, "minWriterVersion": 2}


def test_features_implied_by_version_numbers_are_listed_with_the_new_ones() -> None:
    found = plan(LEGACY, "deletionVectors", "changeDataFeed")

    assert ["deletionVectors", "changeDataFeed"] == [one.name for one in found.added]
    assert {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "invariants", "deletionVectors", "changeDataFeed"],
    } == found.protocol_after
    assert "clients without support for table features, or for deletionVectors, lose access" == found.readers
    assert "clients without support for table features, or for deletionVectors or changeDataFeed, lose access" == (
        found.writers
    )


def test_a_feature_of_writers_leaves_readers_alone() -> None:
    found = plan(listed(["v2Checkpoint"]), "domainMetadata")

    assert "clients that can read the table now can still read it afterwards" == found.readers
    assert "clients without support for domainMetadata lose access" == found.writers


def test_required_features_are_added_once() -> None:
    found = plan(LEGACY, "icebergCompatV3", "rowTracking")

    assert [
        ("columnMapping", "icebergCompatV3"),
        ("domainMetadata", "rowTracking"),
        ("rowTracking", "icebergCompatV3"),
        ("icebergCompatV3", None),
    ] == [tuple(one) for one in found.added]


def test_a_preview_is_enough_for_what_needs_the_feature() -> None:
    found = plan(listed(["variantType-preview"]), "variantShredding")

    assert ["variantShredding"] == [one.name for one in found.added]


@pytest.mark.parametrize(
    ("protocol", "names"),
    [(LEGACY, ["appendOnly"]), (listed(["deletionVectors"]), ["deletionVectors", "deletionVectors"])],
)
def test_a_supported_feature_needs_no_change(protocol: Action, names: list[str]) -> None:
    assert FeaturesPlan((), protocol, None) == plan(protocol, *names)


@pytest.mark.parametrize(
    ("code", "protocol", "name", "configuration"),
    [
        ("features.preview", listed(["typeWidening-preview"]), "typeWidening", {}),
        ("features.preview", listed(["inCommitTimestamp-preview"]), "inCommitTimestamp", {}),
        ("features.not-alone", LEGACY, "inCommitTimestamp-preview", {}),
        ("features.would-activate", LEGACY, "inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}),
        ("features.would-activate", LEGACY, "rowTracking", {"delta.enableRowTracking": "true"}),
        ("features.would-activate", LEGACY, "columnMapping", {"delta.columnMapping.mode": "name"}),
        ("protocol.exclusive", listed(["deletionVectors"]), "icebergCompatV1", {}),
        ("protocol.exclusive", listed(["icebergCompatV1", "columnMapping"]), "deletionVectors", {}),
        ("protocol.reader3-needs-writer7", {"minReaderVersion": 3, "minWriterVersion": 2}, "domainMetadata", {}),
    ],
)
def test_features_that_cannot_be_added_are_refused(
    code: str, protocol: Action, name: str, configuration: dict[str, str]
) -> None:
    with pytest.raises(Refused) as refused:
        plan(protocol, name, configuration=configuration)

    assert code == refused.value.code


@pytest.mark.parametrize(
    ("protocol", "name", "configuration"),
    [
        (LEGACY, "inCommitTimestamp", {"delta.enableInCommitTimestamps": "false"}),
        (LEGACY, "deletionVectors", {"delta.enableDeletionVectors": "true"}),
        (LEGACY, "columnMapping", {}),
        (listed(["icebergCompatV2", "columnMapping"]), "deletionVectors", {}),
        (listed(["typeWidening-preview"]), "v2Checkpoint", {}),
        (listed(["icebergCompatV1", "columnMapping", "deletionVectors"]), "v2Checkpoint", {}),
    ],
)
def test_features_that_can_be_added_are_planned(protocol: Action, name: str, configuration: dict[str, str]) -> None:
    assert name in [one.name for one in plan(protocol, name, configuration=configuration).added]


def test_an_unknown_name_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"did you mean deletionVectors\?") as bad:
        plan(LEGACY, "DeletionVector")

    assert "usage.feature" == bad.value.code


REFUSED_ALONE = {name for name in FEATURES if name.endswith(("-preview", "-dev"))} | {
    "adaptiveMetadata",
    "catalogManaged",
    "checkpointProtection",
    "clustering",
    "columnMappingUsageTracking",
    "liquid",
    "timestampWithoutTimezone",
}


@pytest.mark.parametrize("name", sorted(FEATURES.keys() - REFUSED_ALONE))
def test_every_other_feature_makes_a_protocol_that_we_may_build_upon(name: str) -> None:
    after = plan(LEGACY, name).protocol_after or LEGACY

    protocol = read_protocol(after, "test")
    require_readable(protocol, 1)
    require_commits_supported(protocol, {}, 1)
    assert {name, "appendOnly", "invariants"} <= protocol.supported_features
    assert all(needed in protocol.supported_features for needed in FEATURES[name].requires)


@pytest.mark.parametrize("name", sorted(REFUSED_ALONE))
def test_features_that_would_be_invalid_alone_are_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        plan(LEGACY, name)

    assert "features.not-alone" == refused.value.code
    assert refused.value.facts or refused.value.hint


def test_a_feature_is_active_where_something_uses_it() -> None:
    protocol = listed(["appendOnly", "domainMetadata", "clustering", "v2Checkpoint", "checkConstraints"])
    protocol["writerFeatures"].append("fancyFuture")
    configuration = {"delta.appendOnly": "true", "delta.constraints.c": "id > 0"}
    found = {one.name: one for one in show_features(in_force(protocol, configuration), ["delta.clustering"])}

    assert {
        "appendOnly": True,
        "checkConstraints": True,
        "clustering": True,
        "domainMetadata": True,
        "fancyFuture": None,
        "v2Checkpoint": False,
    } == {name: one.is_active for name, one in found.items()}
    assert "delta.appendOnly is true" == found["appendOnly"].because
    assert [(False, "writer")] * 2 == [(one.is_listed, one.kind) for one in show_features(in_force(LEGACY), [])]
