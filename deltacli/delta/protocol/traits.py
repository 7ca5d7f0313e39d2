"""What of a table decides which clients read and write it: its features, whether they are used, and a few types.

A trait is the name of a feature (`columnMapping`: the protocol supports it), the same with `.used` (metadata or schema
use it), or one of `OTHERS`. Facts about clients are stated for traits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.feature_use import constraint_uses, property_uses, schema_uses
from deltacli.delta.protocol.features import FEATURES, FeatureKind, stable_name
from deltacli.delta.protocol.protocol_action import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    types_within,
)

USED = ".used"
OTHERS: Mapping[str, str] = {
    "features.reader": "the protocol lists reader features",
    "features.writer": "the protocol lists writer features",
    "columnMapping.by-id": "columns are mapped by id",
    "columnMapping.by-id-partition": "columns are mapped by id, and a partition column follows another column",
    "columnMapping.in-arrays": "columns are mapped, and arrays or maps have structs",
    "type.map": "a column has the type map",
    "type.void": "a column has the type void",
    "partition.decimal": "a partition column has the type decimal",
    "partition.large-decimal": "a partition column has a decimal type of more than 18 digits",
    "widen.partition-date": "a partition column was widened from date to timestamp_ntz",
    "widen.partition-decimal": "a partition column was widened to a decimal type of more decimal places",
}
"""Traits that are not features of a protocol, in words."""

_DIGITS_OF_LONG = 18


def traits_of(config: TableConfiguration, domains: Collection[str] = ()) -> frozenset[str]:
    """Return the traits of a table with live `domains`."""
    return frozenset(_traits(config, domains))


def feature_of(trait: str) -> str:
    """Return the feature that a trait is about, or the trait itself where it is about none."""
    feature = trait.partition(".")[0]
    return feature if feature in FEATURES or trait == feature + USED else trait


def needs_readers(trait: str) -> bool:
    """Return False for a trait that readers may ignore: a writer feature, or its use."""
    feature = FEATURES.get(feature_of(trait))
    return trait != "features.writer" and (feature is None or feature.kind is FeatureKind.READER_WRITER)


def traits_without(traits: Collection[str], before: TableConfiguration, after: TableConfiguration) -> frozenset[str]:
    """Return the traits that are left of a table after features were dropped, with all that used them."""
    dropped = before.features - after.features
    gone = {one for one in (*traits, *traits_of(after)) if one.partition(".")[0] in dropped}
    kept = {one for one in traits if one not in before.features and not one.startswith("features.")}
    return frozenset({*traits_of(after), *kept} - gone)


def _traits(config: TableConfiguration, domains: Collection[str]) -> Iterator[str]:
    yield from config.features
    protocol = config.protocol
    if protocol is not None and protocol.min_reader_version >= READER_FEATURES_VERSION:
        yield "features.reader"
    if protocol is not None and protocol.min_writer_version >= WRITER_FEATURES_VERSION:
        yield "features.writer"
    uses = {use.feature for use in (*property_uses(config.properties), *constraint_uses(config.properties))}
    if config.schema is not None:
        uses |= {use.feature for use in schema_uses(config.schema)}
    if "delta.clustering" in domains:
        uses.add("clustering")
    if domains:
        uses.add("domainMetadata")
    for feature in config.features:
        if stable_name(feature) in uses:
            yield feature + USED
    if config.schema is not None:
        yield from _of_schema(config, config.schema)


def _of_schema(config: TableConfiguration, schema: StructType) -> Iterator[str]:
    partitions = {name.lower() for name in (config.metadata.partition_columns if config.metadata else ())}
    is_partition = [field.name.lower() in partitions for field in schema.fields]
    if config.mapping_mode == "id":
        yield "columnMapping.by-id"
        if any(is_partition[place] and not all(is_partition[:place]) for place in range(len(is_partition))):
            yield "columnMapping.by-id-partition"
    if config.mapping_mode in ("id", "name") and _has_structs_within(schema):
        yield "columnMapping.in-arrays"
    if any(isinstance(one, MapType) for one in types_within(schema)):
        yield "type.map"
    if any(isinstance(one, PrimitiveType) and one.name in ("void", "null") for one in types_within(schema)):
        yield "type.void"
    for field in schema.fields:
        if field.name.lower() in partitions:
            yield from _of_partition(field)


def _of_partition(field: StructField) -> Iterator[str]:
    name = field.data_type.name if isinstance(field.data_type, PrimitiveType) else ""
    if name.startswith("decimal"):
        yield "partition.decimal"
        digits = name.partition("(")[2].partition(",")[0].strip()
        if digits.isdigit() and int(digits) > _DIGITS_OF_LONG:
            yield "partition.large-decimal"
    changes = field.metadata.get(TYPE_CHANGES_KEY)
    for change in changes if isinstance(changes, list) else ():
        pair = (str(change.get("fromType")), str(change.get("toType"))) if isinstance(change, Mapping) else ("", "")
        if pair == ("date", "timestamp_ntz"):
            yield "widen.partition-date"
        elif _places(pair[1]) > _places(pair[0]):
            yield "widen.partition-decimal"


def _places(data_type: str) -> int:
    """Return the number of decimal places of a type by its name."""
    digits = data_type.partition(",")[2].rstrip(") ").strip()
    return int(digits) if digits.isdigit() else 0


def _has_structs_within(schema: StructType) -> bool:
    inner = (kind for kind in types_within(schema) if isinstance(kind, ArrayType | MapType))
    return any(isinstance(one, StructType) for kind in inner for one in types_within(kind))
