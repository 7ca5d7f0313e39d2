"""What a table uses of each feature, according to its schema and its properties, and the features that recipients of
shares need to read the files of a version: they see neither its log nor its writers.

Spec: the sections of each feature; Delta Sharing Capabilities Header; Table Features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import FEATURES, stable_name
from deltacli.delta.protocol.property_values import is_true, parse_integer
from deltacli.delta.schema.kinds import PLAIN_TYPES
from deltacli.delta.schema.types import (
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    parts_of,
    types_within,
    walk,
)


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


def schema_uses(schema: StructType) -> Iterator[Use]:
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
    if (parse_integer(properties, boundary) or 0) > 0:
        yield Use("checkpointProtection", f"{boundary} is {properties[boundary]}", boundary)
    mode = str(properties.get("delta.columnMapping.mode") or "none")
    if mode.lower() != "none":
        yield Use("columnMapping", f"delta.columnMapping.mode is {mode}", "delta.columnMapping.mode", True)
    if properties.get("delta.checkpointPolicy") == "v2":
        yield Use("v2Checkpoint", "delta.checkpointPolicy is v2", "delta.checkpointPolicy", True)
    knob = "delta.writePartitionColumnsToParquet"  # writers follow it with and without the feature
    if is_true(properties, knob):
        yield Use("materializePartitionColumns", f"{knob} is true", knob, True)


def _struct_uses(struct: StructType, prefix: str) -> Iterator[Use]:
    for field in struct.fields:
        path = f"{prefix}{field.name}"
        seen = set()
        for key in field.metadata:
            feature = _COLUMN_KEYS.get(key)
            if feature and feature not in seen:
                seen.add(feature)
                yield Use(feature, f"column {path} has {key}", path, feature == "typeWidening")
        yield from _type_uses(field.data_type, path, field)


def _type_uses(data_type: DataType, path: str, field: StructField) -> Iterator[Use]:
    match data_type:
        case PrimitiveType(name):
            feature = feature_of_type(name)
            if feature:
                was_widened = feature == "timestampNtz" and "delta.typeChanges" in field.metadata
                yield Use(feature, f"column {path} is of type {name}", path, was_widened)
        case StructType():
            yield from _struct_uses(data_type, f"{path}.")
        case _:
            for part in parts_of(data_type):
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
_IN_PARQUET = PLAIN_TYPES - {"timestamp_ntz"}
"""The types of the parquet format, besides decimals and nested types. Spec: Primitive Types."""


def used_features(config: TableConfiguration, *, has_vectors: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reader features that files of a version need, by their stable names, and why the parquet format of
    shares cannot express them, empty if it can; both sorted.
    """
    assert config.protocol is not None
    assert config.schema is not None
    listed = {stable_name(name) for name in config.protocol.reader_features or ()}
    others = listed - _BY_USE - OF_THE_LOG
    used = {*others, *_features_of_schema(config.schema)}
    blocking = {f"the feature {name}" for name in used}
    if has_vectors:
        used.add("deletionVectors")
        blocking.add("deletion vectors")
    if config.mapping_mode != "none":
        used.add("columnMapping")
        if config.mapping_mode != "name" or not _keeps_names(config, config.schema):
            blocking.add("column mapping")
    blocking |= {f"columns of type {name}" for name in _types_not_in_parquet(config.schema)}
    return tuple(sorted(used)), tuple(sorted(blocking))


def _features_of_schema(schema: StructType) -> Iterator[str]:
    if any(field.metadata.get(_TYPE_CHANGES) for _, field in walk(schema)):
        yield "typeWidening"
    yield from (_OF_TYPES[name] for name in _primitives(schema) if name in _OF_TYPES)


def _types_not_in_parquet(schema: StructType) -> set[str]:
    known = _IN_PARQUET | _OF_TYPES.keys()
    return {name for name in _primitives(schema) if name not in known and not name.startswith("decimal")}


def _primitives(data_type: DataType) -> Iterator[str]:
    """Yield the names of the types without parts, with repetitions."""
    return (one.name for one in types_within(data_type) if isinstance(one, PrimitiveType))


def _keeps_names(config: TableConfiguration, schema: StructType) -> bool:
    """Return True if every column has the same name in files as in the schema."""
    return all(config.physical_name(field) == field.name for _, field in walk(schema))
