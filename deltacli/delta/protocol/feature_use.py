"""What a table uses of each feature, and a protocol with the features that it needs.

Version numbers imply features. Once features are listed, all implied
ones are listed too. Whether a table uses them is known only from its whole history, so none is left out.

Spec: the sections of each feature; Delta Sharing Capabilities Header; Table Features; Table Features for New and
Existing Tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.errors import Refused, command
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration, is_true, parse_integer_property, read_protocol
from deltacli.delta.protocol.features import (
    FEATURES,
    NEWEST_READER_VERSION,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    FeatureKind,
    stable_name,
)
from deltacli.delta.schema import types


class Use(NamedTuple):
    """One place that uses a feature.

    `feature` is its stable name, `key` a column or a property. `is_judged_elsewhere`: a more specific rule reports a
    missing feature.
    """

    feature: str
    what: str
    key: str
    is_judged_elsewhere: bool = False


_TYPES: Mapping[str, str] = {
    "timestamp_ntz": "timestampNtz",
    "variant": "variantType",
    "geometry": "geospatial",
    "geography": "geospatial",
}
_COLUMN_KEYS: Mapping[str, str] = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.identity.step": "identityColumns",
    "delta.identity.highWaterMark": "identityColumns",
    "delta.identity.allowExplicitInsert": "identityColumns",
    "CURRENT_DEFAULT": "allowColumnDefaults",
    "__COLLATIONS": "collations",
    "delta.typeChanges": "typeWidening",
}
_SWITCHES: Mapping[str, str] = {
    **{feature.enabled_by: stable_name(feature.name) for feature in FEATURES.values() if feature.enabled_by},
    "delta.enableChangeDataCapture": "changeDataFeed",
}
"""Boolean properties that activate a feature."""
_NAMED: Mapping[str, str] = {
    feature.used_by: stable_name(feature.name) for feature in FEATURES.values() if feature.used_by
}
"Properties that use a feature if they are set."


PARTITION_COLUMNS_SWITCH = "delta.writePartitionColumnsToParquet"
"""Writers follow this property with and without the feature `materializePartitionColumns`."""


def schema_uses(schema: types.StructType) -> Iterator[Use]:
    """Yield the uses of columns and nested fields, by type or by metadata; each feature once per field."""
    yield from _struct_uses(schema, "")


def constraint_uses(properties: Mapping[str, str]) -> Iterator[Use]:
    """Yield the CHECK constraints."""
    for key in properties:
        if key.lower().startswith("delta.constraints."):
            yield Use("checkConstraints", f"{key} is a CHECK constraint", key)


def property_uses(properties: Mapping[str, str]) -> Iterator[Use]:
    """Yield the properties that activate a feature."""
    for key, feature in _SWITCHES.items():
        if is_true(properties, key):
            yield Use(feature, f"{key} is true", key, feature == "inCommitTimestamp")
    for key, feature in _NAMED.items():
        if properties.get(key):
            yield Use(feature, f"{key} is set", key)
    boundary = "delta.requireCheckpointProtectionBeforeVersion"
    if (parse_integer_property(properties, boundary) or 0) > 0:
        yield Use("checkpointProtection", f"{boundary} is {properties[boundary]}", boundary)
    mode = str(properties.get("delta.columnMapping.mode") or "none")
    if mode.lower() != "none":
        yield Use("columnMapping", f"delta.columnMapping.mode is {mode}", "delta.columnMapping.mode", True)
    if properties.get("delta.checkpointPolicy") == "v2":
        yield Use("v2Checkpoint", "delta.checkpointPolicy is v2", "delta.checkpointPolicy", True)
    if is_true(properties, PARTITION_COLUMNS_SWITCH):
        what = f"{PARTITION_COLUMNS_SWITCH} is true"
        yield Use("materializePartitionColumns", what, PARTITION_COLUMNS_SWITCH, True)


def _struct_uses(struct: types.StructType, prefix: str) -> Iterator[Use]:
    for field in struct.fields:
        path = f"{prefix}{field.name}"
        seen = set()
        for key in field.metadata:
            feature = _COLUMN_KEYS.get(key)
            if feature and feature not in seen:
                seen.add(feature)
                yield Use(feature, f"column {path} has {key}", path, feature == "typeWidening")
        yield from _type_uses(field.data_type, path, field)


def _type_uses(data_type: types.DataType, path: str, field: types.StructField) -> Iterator[Use]:
    match data_type:
        case types.PrimitiveType(name):
            feature = feature_of_type(name)
            if feature:
                was_widened = feature == "timestampNtz" and "delta.typeChanges" in field.metadata
                yield Use(feature, f"column {path} is of type {name}", path, was_widened)
        case types.StructType():
            yield from _struct_uses(data_type, f"{path}.")
        case _:
            for part in types.parts_of(data_type):
                yield from _type_uses(part.data_type, f"{path}.{part.name}", field)


def feature_of_type(name: str) -> str | None:
    """Return the feature that a primitive type needs; None for one that needs none, or is not known."""
    family = name.partition("(")[0].strip().lower()
    if family.startswith("timestamp_") and ("nano" in family or family.endswith("_ns")):
        return "timestampNanos"  # the names of nanosecond types are not final
    return _TYPES.get(family)


OF_THE_LOG = frozenset(
    {
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "catalogManaged",
        "catalogOwned-preview",
        "checkpointProtection",
        "coordinatedCommits-preview",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
    }
)
"""Features that concern only the log or writers."""
_BY_USE = frozenset({"columnMapping", "deletionVectors", "typeWidening", "timestampNtz", "variantType"})
_TYPE_CHANGES = "delta.typeChanges"
_OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_IN_PARQUET = types.PLAIN_TYPES - {"timestamp_ntz"}
"""The types of the parquet format, besides decimals and nested types. Spec: Primitive Types."""


def used_features(config: TableConfiguration, *, has_vectors: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reader features that files of a version need, by their stable names, and why the parquet format of
    shares cannot express them, empty if it can; both sorted.
    """
    assert config.protocol is not None
    assert config.schema is not None
    # The stable name of catalogOwned-preview is not one of those that concern only the log.
    listed = {stable_name(name) for name in config.protocol.reader_features or () if name not in OF_THE_LOG}
    others = listed - _BY_USE
    used = {*others, *_features_of_schema(config.schema)}
    blocking = {f"the feature {name}" for name in used}
    if has_vectors:
        used.add("deletionVectors")
        blocking.add("deletion vectors")
    if config.mapping_mode != "none":
        used.add("columnMapping")
        if config.mapping_mode != "name" or not all(
            config.physical_name(field) == field.name for _, field in types.walk(config.schema)
        ):
            blocking.add("column mapping")
    blocking |= {f"columns of type {name}" for name in _types_not_in_parquet(config.schema)}
    return tuple(sorted(used)), tuple(sorted(blocking))


def _features_of_schema(schema: types.StructType) -> Iterator[str]:
    if any(field.metadata.get(_TYPE_CHANGES) for _, field in types.walk(schema)):
        yield "typeWidening"
    yield from (_OF_TYPES[name] for name in _primitives(schema) if name in _OF_TYPES)


def _types_not_in_parquet(schema: types.StructType) -> set[str]:
    known = _IN_PARQUET | _OF_TYPES.keys()
    return {name for name in _primitives(schema) if name not in known and not name.startswith("decimal")}


def _primitives(data_type: types.DataType) -> Iterator[str]:
    """Yield the names of the types without parts, with repetitions."""
    return (one.name for one in types.types_within(data_type) if isinstance(one, types.PrimitiveType))


# -- a protocol with more features -------------------------------------------------------------------------------------


def way_to_mapping(raw_protocol: Action | None) -> str:
    """Return the command that enables column mapping, with the upgrade that this protocol needs for it; empty where the
    caller has none.
    """
    if not raw_protocol or upgraded(raw_protocol, ["columnMapping"]) is None:
        return command("alter", "mapping", "name")
    return command("alter", "mapping", "name", upgrade_protocol=True)


def upgraded(raw_protocol: Action, names: Iterable[str]) -> Action | None:
    """Return the protocol with more features, in order, or None if it has them. Raises Refused for an invalid one."""
    protocol = read_protocol(raw_protocol, "the protocol")
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    _require_legal(reader, writer)
    wanted = list(names)
    of_readers, of_writers = _listed(raw_protocol, "readerFeatures"), _listed(raw_protocol, "writerFeatures")
    if not wanted:
        return None
    is_complete = all(name in of_writers and (name in of_readers or not _concerns_readers(name)) for name in wanted)
    needs_reader = any(_concerns_readers(name) for name in wanted)
    if is_complete and writer == WRITER_FEATURES_VERSION and (reader == READER_FEATURES_VERSION or not needs_reader):
        return None
    of_writers += [*(name for name in FEATURES if name in protocol.supported_features), *of_readers]
    action = {**raw_protocol, "minWriterVersion": WRITER_FEATURES_VERSION}
    if needs_reader:
        if reader < READER_FEATURES_VERSION:
            # Writers that could list features before readers could left column mapping to the reader's version.
            of_readers += [name for name in of_writers if _concerns_readers(name)]
        of_readers += [name for name in wanted if _concerns_readers(name)]
        action |= {"minReaderVersion": READER_FEATURES_VERSION, "readerFeatures": _once(of_readers)}
    action["writerFeatures"] = _once([*of_writers, *wanted])
    return action


def added_features(before: Action, after: Action) -> tuple[str, ...]:
    """Return the features that one protocol supports and the other did not, in the order of their list."""
    known = read_protocol(before, "the protocol").supported_features
    return tuple(name for name in _listed(after, "writerFeatures") if name not in known)


def _require_legal(reader: int, writer: int) -> None:
    facts = {"protocol": f"reader {reader}, writer {writer}"}
    if not (1 <= reader <= NEWEST_READER_VERSION and 1 <= writer <= WRITER_FEATURES_VERSION):
        message = (
            f"the protocol cannot be upgraded: deltacli supports readers 1 to {NEWEST_READER_VERSION} and writers 1 "
            f"to {WRITER_FEATURES_VERSION}"
        )
        raise Refused(message, code="protocol.version-out-of-range", facts=facts, hint=command("snapshot"))
    if reader == READER_FEATURES_VERSION and writer < WRITER_FEATURES_VERSION:
        raise Refused(
            f"the protocol cannot be upgraded: reader version {reader} needs writer version "
            f"{WRITER_FEATURES_VERSION}, and the table has {writer}",
            code="protocol.reader3-needs-writer7",
            facts=facts,
            hint=command("validate", select=["protocol.*"]),
        )


def _concerns_readers(name: str) -> bool:
    feature = FEATURES.get(name)
    return feature is not None and feature.kind is FeatureKind.READER_WRITER


def _listed(action: Action, key: str) -> list[str]:
    """Return the names in their original order, which reading sorts."""
    return [str(name) for name in action.get(key) or ()]


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
