"""Damages of protocol actions and of features."""

from __future__ import annotations

from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import DEFAULT_SCHEMA, Action, TableBuilder, column, struct

MAPPED_PROPERTIES = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}


def mapped_schema() -> Action:
    """The default schema under column mapping; physical names are the logical ones."""
    fields = [
        field | {"metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}}
        for number, field in enumerate(DEFAULT_SCHEMA["fields"], 1)
    ]
    return struct(*fields)


def protocol(reader: int, writer: int, **lists: Any) -> Action:
    """A protocol action; lists by `readerFeatures` and `writerFeatures`."""
    return {"minReaderVersion": reader, "minWriterVersion": writer, **lists}


def with_features(*names: str, for_readers: tuple[str, ...] = ()) -> Action:
    """A protocol of versions 3 and 7 where readers need some features, or of 1 and 7."""
    if not for_readers:
        return protocol(1, 7, writerFeatures=list(names))
    return protocol(3, 7, readerFeatures=list(for_readers), writerFeatures=[*for_readers, *names])


def without_copies(table: TableBuilder) -> TableBuilder:
    """A table without the files that would repeat a damaged protocol."""
    return table.derive(checkpoint=False, checksums=False)


# A first commit without a protocol is a fault of its own, told of that commit.
@damage("protocol.missing", also=("commit.first-without-protocol",))
def no_protocol_at_all() -> TableBuilder:
    """No commit has a protocol action."""
    table = TableBuilder()
    table.commits[0] = [action for action in table.commits[0] if "protocol" not in action]
    return without_copies(table)


@damage("protocol.version-out-of-range")
def writer_version_eight() -> TableBuilder:
    """One above the highest writer version there is."""
    return TableBuilder(protocol=protocol(1, 8, writerFeatures=[]))


@damage("protocol.version-out-of-range")
def writer_version_zero() -> TableBuilder:
    """One below the lowest."""
    return TableBuilder(protocol=protocol(1, 0))


@damage("protocol.version-out-of-range")
def reader_version_four() -> TableBuilder:
    """One above the highest reader version there is."""
    return TableBuilder(protocol=protocol(4, 7, readerFeatures=[], writerFeatures=[]))


@damage("protocol.version-out-of-range")
def reader_version_zero() -> TableBuilder:
    """One below the lowest."""
    return TableBuilder(protocol=protocol(0, 2))


@damage("protocol.reader3-needs-writer7")
def reader_three_with_writer_six() -> TableBuilder:
    """The highest writer version below the one that is needed."""
    return without_copies(TableBuilder(protocol=protocol(3, 6, readerFeatures=[])))


@damage("protocol.reader-features-missing")
def reader_three_without_a_list() -> TableBuilder:
    """The protocol says that features follow, and they don't."""
    return without_copies(TableBuilder(protocol=protocol(3, 7, writerFeatures=[])))


@damage("protocol.writer-features-missing")
def writer_seven_without_a_list() -> TableBuilder:
    """The protocol says that features follow, and they don't."""
    return without_copies(TableBuilder(protocol=protocol(1, 7)))


@damage("protocol.features-on-legacy")
def writer_features_at_version_two() -> TableBuilder:
    """A list that no engine reads at that version."""
    return without_copies(TableBuilder(protocol=protocol(1, 2, writerFeatures=["appendOnly"])))


@damage("protocol.features-on-legacy")
def reader_features_at_version_two() -> TableBuilder:
    """Reader version 2 means column mapping, without a list."""
    return without_copies(TableBuilder(protocol=protocol(2, 7, readerFeatures=[], writerFeatures=[])))


@damage("protocol.reader-only-feature")
def feature_for_readers_only() -> TableBuilder:
    """A feature of both lists is missing for writers."""
    return TableBuilder(protocol=protocol(3, 7, readerFeatures=["vacuumProtocolCheck"], writerFeatures=[]))


@damage("protocol.rw-feature-not-in-reader")
def feature_of_both_for_writers_only() -> TableBuilder:
    """A feature of both lists is missing for readers of version 3."""
    return TableBuilder(protocol=protocol(3, 7, readerFeatures=[], writerFeatures=["vacuumProtocolCheck"]))


@damage("protocol.rw-feature-not-in-reader")
def feature_of_both_at_reader_version_one() -> TableBuilder:
    """Readers of version 1 have no feature list."""
    return TableBuilder(protocol=protocol(1, 7, writerFeatures=["vacuumProtocolCheck"]))


@damage("protocol.writer-feature-in-reader")
def writer_feature_in_both_lists() -> TableBuilder:
    """Readers are kept out for nothing."""
    return TableBuilder(protocol=with_features(for_readers=("domainMetadata",)))


@damage("protocol.unknown-feature")
def feature_of_the_future() -> TableBuilder:
    """An unknown name."""
    return TableBuilder(protocol=with_features("futureFeature"))


@damage("protocol.preview-feature")
def preview_of_type_widening() -> TableBuilder:
    """A table that uses a feature under the name of its preview."""
    table = TableBuilder(protocol=with_features(for_readers=("typeWidening-preview",)))
    table.configure({"delta.enableTypeWidening": "true"})
    return table


@damage("protocol.dependency")
def shredding_without_variants() -> TableBuilder:
    """A feature without the one it stands on."""
    table = TableBuilder(protocol=with_features(for_readers=("variantShredding",)))
    table.configure({"delta.enableVariantShredding": "true"})
    return table


def iceberg_table(compatibility: str) -> TableBuilder:
    """A mapped table with deletion vectors and an Iceberg compatibility, both of them on."""
    table = TableBuilder(
        schema=mapped_schema(),
        protocol=with_features(f"icebergCompat{compatibility}", for_readers=("columnMapping", "deletionVectors")),
        properties=MAPPED_PROPERTIES,
    )
    table.configure({f"delta.enableIcebergCompat{compatibility}": "true", "delta.enableDeletionVectors": "true"})
    return table


@damage("protocol.exclusive")
def iceberg_v1_and_deletion_vectors() -> TableBuilder:
    """Two features that must not be supported together."""
    return iceberg_table("V1")


@damage("protocol.exclusive")
def iceberg_v2_and_active_deletion_vectors() -> TableBuilder:
    """Two features that must not be active together."""
    return iceberg_table("V2")


@damage("protocol.duplicate-feature")
def feature_listed_twice() -> TableBuilder:
    """One name, two times."""
    return TableBuilder(protocol=with_features("domainMetadata", "domainMetadata"))


@damage("protocol.duplicate-feature")
def feature_in_two_spellings() -> TableBuilder:
    """Names that differ in case."""
    return TableBuilder(protocol=with_features("domainMetadata", "domainmetadata"))


@damage("protocol.downgrade")
def reader_feature_given_up() -> TableBuilder:
    """A later version lowers the protocol while version 0 is still there."""
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    table.commit({"protocol": protocol(1, 3)}, operation="UPGRADE PROTOCOL")
    return table


@damage("protocol.downgrade")
def writer_version_lowered() -> TableBuilder:
    """Features that version numbers imply are given up with the numbers."""
    table = TableBuilder(protocol=protocol(1, 4))
    table.commit({"protocol": protocol(1, 2)}, operation="UPGRADE PROTOCOL")
    return table


@damage("protocol.legacy-oddity")
def writer_five_with_reader_one() -> TableBuilder:
    """Writers map columns but readers do not, so mapping is off."""
    return TableBuilder(protocol=protocol(1, 5))


@damage("protocol.legacy-oddity")
def reader_two_with_writer_four() -> TableBuilder:
    """Readers map columns but writers do not, so mapping is off."""
    return TableBuilder(protocol=protocol(2, 4))


# The keys are unknown fields of the action as well.
@damage("protocol.stray-keys", also=("commit.unknown-field",))
def keys_of_the_samples() -> TableBuilder:
    """The protocol under the keys of the samples, in addition to the right ones."""
    return TableBuilder(protocol={"minReaderVersion": 1, "minWriterVersion": 2, "readerVersion": 1, "writerVersion": 2})


@damage("feature.used-not-supported")
def local_timestamps_without_the_feature() -> TableBuilder:
    """A type that version 2 of writers doesn't have."""
    return TableBuilder(schema=struct(*DEFAULT_SCHEMA["fields"], column("at", "timestamp_ntz")))


@damage("feature.used-not-supported")
def type_inside_an_array() -> TableBuilder:
    """A type of a feature, deep inside."""
    inner = {"type": "array", "elementType": "variant", "containsNull": True}
    nested = {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    return TableBuilder(schema=struct(*DEFAULT_SCHEMA["fields"], column("deep", nested)))


@damage("feature.used-not-supported")
def constraint_at_writer_version_two() -> TableBuilder:
    """Writer version 2 doesn't know constraints."""
    return TableBuilder(properties={"delta.constraints.positive": "id > 0"})


@damage("feature.used-not-supported")
def default_without_the_feature() -> TableBuilder:
    """A default value without the feature for writers."""
    return TableBuilder(schema=struct(*DEFAULT_SCHEMA["fields"], column("n", "integer", CURRENT_DEFAULT="0")))


@damage("feature.used-not-supported")
def row_ids_without_the_feature() -> TableBuilder:
    """A file with row ids in a table that has none."""
    table = TableBuilder()
    table.add(3).update(baseRowId=0, defaultRowCommitVersion=3)
    return table


@damage("feature.used-not-supported")
def row_tracking_domain_without_the_feature() -> TableBuilder:
    """Domains are supported, the feature that this one is of is not."""
    table = TableBuilder(protocol=with_features("domainMetadata"))
    configuration = '{"rowIdHighWaterMark":40}'
    table.commit({"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}})
    return table


@damage("feature.property-without-feature")
def deletion_vectors_on_at_version_two() -> TableBuilder:
    """A property that turns on what the protocol doesn't have."""
    return TableBuilder(properties={"delta.enableDeletionVectors": "true"})


@damage("feature.property-without-feature")
def checkpoint_protection_without_the_feature() -> TableBuilder:
    """A boundary without the feature that makes engines respect it."""
    return TableBuilder(properties={"delta.requireCheckpointProtectionBeforeVersion": "1"})


@damage("feature.supported-not-used")
def change_data_feed_never_on() -> TableBuilder:
    """A listed feature whose property never was true."""
    table = TableBuilder(protocol=with_features("changeDataFeed", "appendOnly", "invariants", "domainMetadata"))
    table.configure({"delta.enableChangeDataFeed": "false"})
    return table


@damage("vacuumcheck.old-vacuum")
def vacuum_by_an_old_engine() -> TableBuilder:
    """The last release before the feature came."""
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    retention = {"specifiedRetentionMillis": 604_800_000, "defaultRetentionMillis": 604_800_000}
    for operation in ("VACUUM START", "VACUUM END"):
        version = table.commit(operation=operation)
        table.action(version, "commitInfo")["operationParameters"] = {"retentionCheckEnabled": "true", **retention}
    for version in table.commits:
        table.action(version, "commitInfo")["engineInfo"] = "Apache-Spark/3.5.0 Delta-Lake/3.1.0"
    return table
