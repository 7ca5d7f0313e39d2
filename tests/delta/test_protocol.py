"""Who may read a version, and which feature is in the way."""

from __future__ import annotations

from typing import cast

import pytest

from deltacli.core.errors import ProtocolUnsupported, Refused
from deltacli.delta.protocol.features import (
    FEATURES,
    Feature,
    FeatureKind,
    Protocol,
    require_readable,
    require_writable,
)


@pytest.mark.parametrize("reader", [1, 2, 3])
def test_known_reader_versions_are_read(reader: int) -> None:
    require_readable(Protocol(reader, 7, (), ()), 0)


@pytest.mark.parametrize("reader", [-1, 0, 4, 99])
def test_other_reader_versions_are_refused_by_number(reader: int) -> None:
    with pytest.raises(ProtocolUnsupported) as raised:
        require_readable(Protocol(reader, 2), 12)

    assert "protocol.version-out-of-range" == raised.value.code
    assert f"version 12 needs reader version {reader}" in raised.value.message


def test_an_unknown_reader_feature_is_refused_by_name() -> None:
    with pytest.raises(ProtocolUnsupported) as raised:
        require_readable(Protocol(3, 7, ("deletionVectors", "futureOne", "futureTwo"), ("futureOne", "futureTwo")), 5)

    assert "protocol.unknown-feature" == raised.value.code
    assert "futureOne, futureTwo" in raised.value.message
    assert "deletionVectors" not in raised.value.message


def test_an_unknown_writer_feature_does_not_hinder_reading() -> None:
    require_readable(Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "futureWriterFeature")), 0)


@pytest.mark.parametrize("name", ["adaptiveMetadata", "adaptiveMetadata-preview", "redirectReaderWriter-preview"])
def test_a_feature_whose_state_is_not_in_the_log_is_refused(name: str) -> None:
    with pytest.raises(ProtocolUnsupported) as raised:
        require_readable(Protocol(3, 7, (name,), (name,)), 0)

    assert name in raised.value.message


def test_feature_that_is_readable_only_is_read_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    readable = Feature("readable", FeatureKind.WRITER, is_writable=False)
    monkeypatch.setitem(cast("dict[str, Feature]", FEATURES), readable.name, readable)
    protocol = Protocol(3, 7, (), (readable.name,))

    require_readable(protocol, 0)
    with pytest.raises(Refused) as raised:
        require_writable(protocol, 0)

    assert "protocol.unknown-feature" == raised.value.code
    assert "feature readable, which deltacli cannot write" in raised.value.message


def test_every_other_known_reader_feature_is_read() -> None:
    readable = tuple(
        name for name, feature in FEATURES.items() if feature.kind is FeatureKind.READER_WRITER and feature.is_readable
    )

    require_readable(Protocol(3, 7, readable, readable), 0)


@pytest.mark.parametrize(
    ("protocol", "implied"),
    [
        (Protocol(1, 1), set()),
        (Protocol(1, 2), {"appendOnly", "invariants"}),
        (Protocol(1, 4), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (
            Protocol(2, 5),
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (Protocol(1, 5), {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "appendOnly")), {"deletionVectors", "appendOnly"}),
        (Protocol(2, 7, None, ("columnMapping",)), {"columnMapping"}),
    ],
)
def test_features_are_those_listed_and_those_the_versions_imply(protocol: Protocol, implied: set[str]) -> None:
    assert implied == protocol.supported_features


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_catalog_managed_tables_are_known_as_such(feature: str) -> None:
    assert Protocol(3, 7, (feature,), (feature,)).is_catalog_managed
    assert not Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)).is_catalog_managed
