"""The features that recipients of shares need to read the files of a version. They see neither its log nor its writers.

Spec: Delta Sharing Capabilities Header; Table Features.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.features import stable_name
from deltacli.delta.schema.types import DataType, PrimitiveType, StructType, types_within, walk

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
_IN_PARQUET = frozenset(
    {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp"}
)
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
