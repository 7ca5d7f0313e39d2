"""The protocol and the metadata that clients get in delta format: without features that they need not support.

Both actions always fit each other. Delta for Spark refuses metadata that activate a feature, such as
`delta.enableDeletionVectors=true`, beside a protocol that does not list it (DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH).
So a property is left out together with its feature:

    the version uses the feature   the client supports it   the answer
    yes                            yes                      has the feature and the property
    yes                            no                       is an error
    no                             yes                      has the feature and the property
    no                             no                       has neither

Spec: Protocol in Delta Format; Metadata in Delta Format; Table Features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.feature_use import OF_THE_LOG, PARTITION_COLUMNS_SWITCH, property_uses
from deltacli.delta.protocol.features import FEATURES, WRITER_FEATURES_VERSION, FeatureKind, Protocol, stable_name
from deltacli.delta.schema.types import NO_COLUMNS

_PREFIXES_OF_THE_LOG = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablement",
    "delta.checkpointPolicy",
    "delta.coordinatedCommits.",
)
"""Beginnings of the names of properties that concern the log, which clients write themselves."""
_IDENTITY_COLUMNS_VERSION = 6


def build_client_protocol(protocol: Protocol, raw: Mapping[str, Any], features: Set[str]) -> dict[str, Any]:
    """Return the protocol action for a client.

    Args:
        protocol: The protocol of the version.
        raw: Its action in the log, which is returned where nothing has to be left out or added.
        features: The stable names of the reader features to list, see `ReadingNeeds.features_for`.
    """
    original = protocol.supported_reader_features
    kept = [name for name in original if stable_name(name) in features]
    kept += _find_required(kept, original)
    # Within a range of versions, a feature may be needed that this version does not list yet.
    kept += sorted(features - {stable_name(name) for name in kept})

    concerns_log = not OF_THE_LOG.isdisjoint(protocol.writer_features or ())
    is_minimal = bool(kept) or protocol.min_reader_version == 1
    if set(kept) == set(original) and is_minimal and not concerns_log:
        return dict(raw)

    if not kept and protocol.writer_features is None and protocol.min_writer_version < _IDENTITY_COLUMNS_VERSION:
        # Writer version 5 would imply column mapping. Without it, version 4 implies all that version 5 does.
        return {"minReaderVersion": 1, "minWriterVersion": min(protocol.min_writer_version, 4)}

    of_writers = _writer_features(protocol, kept)
    document: dict[str, Any] = {
        "minReaderVersion": 3 if kept else 1,
        "minWriterVersion": WRITER_FEATURES_VERSION,
        "writerFeatures": sorted({*of_writers, *kept}),
    }
    return document | {"readerFeatures": sorted(kept)} if kept else document


def fit_metadata(raw: Mapping[str, Any], client_protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metadata action without properties whose features the protocol for a client does not list.

    What concerns the log is left out, too: clients write a log of their own, without in-commit timestamps and V2
    checkpoints. A schema that is missing is empty.
    """
    document = {"schemaString": NO_COLUMNS, "partitionColumns": [], **raw}
    properties = raw.get("configuration") or {}
    if isinstance(properties, list):  # as pairs, in a checkpoint
        properties = dict(properties)
    properties = {name: value for name, value in properties.items() if not name.startswith(_PREFIXES_OF_THE_LOG)}

    supported = read_protocol(dict(client_protocol), "the protocol for clients").supported_features
    stable_names = {stable_name(name) for name in supported}
    unfitting = {use.key for use in property_uses(properties) if use.feature not in stable_names}
    unfitting.discard(PARTITION_COLUMNS_SWITCH)
    return document | {"configuration": {name: text for name, text in properties.items() if name not in unfitting}}


def _find_required(kept: Iterable[str], original: Iterable[str]) -> list[str]:
    """Return the supported reader features that kept ones require, as variantShredding requires variantType."""
    kept_names = {stable_name(name) for name in kept}
    required = {other for name in kept if name in FEATURES for other in FEATURES[name].requires}
    return [name for name in original if stable_name(name) in required - kept_names]


def _writer_features(protocol: Protocol, reader_features: Iterable[str]) -> set[str]:
    """Return the writer features of a protocol, without those that require a reader feature which is left out.

    Features that the versions of an older protocol imply are named, because the protocol for clients lists features.
    """
    supported = protocol.supported_features - OF_THE_LOG
    names = {name for name in supported if _is_writer_feature(name)}
    while True:
        listed = {stable_name(name) for name in (*names, *reader_features)}
        lacking = {name for name in names if name in FEATURES and not listed.issuperset(FEATURES[name].requires)}
        if not lacking:
            return names
        # Others may require these: icebergWriterCompatV1 requires icebergCompatV2, which requires columnMapping.
        names -= lacking


def _is_writer_feature(name: str) -> bool:
    return name not in FEATURES or FEATURES[name].kind is FeatureKind.WRITER
