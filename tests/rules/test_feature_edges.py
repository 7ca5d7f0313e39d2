"""The very edges of rules about protocols, features and properties, on the one side and on the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.log.state import find_metadata_differences, find_protocol_differences, read_metadata
from deltacli.delta.protocol.features import Protocol
from tests.rules.corruptions_checkpoints import v2
from tests.rules.corruptions_iceberg import compatible_table
from tests.rules.corruptions_mapping import MappedTable
from tests.rules.corruptions_protocol import protocol, with_features
from tests.rules.corruptions_widening import change, changed
from tests.rules.edges import Edges, Make, assert_reports
from tests.rules.table_builder import DEFAULT_SCHEMA, Action, TableBuilder, column, struct
from tests.rules.test_protocol_and_metadata import found_in

EDGES = Edges()


# -- metadata --------------------------------------------------------------------------------------------------------


@EDGES.reports("metadata.partitioning-changed")
def partitioning_of_a_mapped_table_changes() -> TableBuilder:
    table = MappedTable()
    table.commit(table.change_metadata(partitionColumns=["p", "name"]))
    return table


@EDGES.reports("schema.bad-json")
def mapped_table_changes_its_partitioning_and_loses_its_schema() -> TableBuilder:
    """It is unknown which columns have the old names in files."""
    table = MappedTable()
    table.commit(table.change_metadata(partitionColumns=["p", "name"], schemaString="[]"))
    return table


# -- protocols and features ------------------------------------------------------------------------------------------


@EDGES.reports("iceberg.mapping-off")
def iceberg_is_on_and_mapping_not_even_supported() -> TableBuilder:
    table = compatible_table("V2", mode=None)
    table.protocol.update(protocol(1, 7, writerFeatures=["icebergCompatV2"]))
    return table


@EDGES.reports("protocol.dependency", "feature.supported-not-used")
def iceberg_is_off_and_mapping_not_supported() -> TableBuilder:
    return TableBuilder(protocol=with_features("icebergCompatV2"))


@EDGES.reports("protocol.exclusive", "iceberg.mapping-off")
def iceberg_and_deletion_vectors_are_on_and_nothing_else_is_supported() -> TableBuilder:
    table = TableBuilder(protocol=with_features("icebergCompatV2", for_readers=("deletionVectors",)))
    table.configure({"delta.enableIcebergCompatV2": "true", "delta.enableDeletionVectors": "true"})
    return table


@EDGES.reports("feature.used-not-supported")
def constraint_at_writer_version_one() -> TableBuilder:
    return TableBuilder(protocol=protocol(1, 1), properties={"delta.constraints.positive": "id > 0"})


@EDGES.reports("protocol.reader-features-missing")
def property_where_readers_have_no_list() -> TableBuilder:
    """What the protocol supports is not known."""
    table = TableBuilder(protocol=protocol(3, 7, writerFeatures=[])).derive(checkpoint=False, checksums=False)
    table.configure({"delta.enableDeletionVectors": "true"})
    return table


@EDGES.reports("protocol.writer-features-missing")
def property_where_writers_have_no_list() -> TableBuilder:
    table = TableBuilder(protocol=protocol(1, 7)).derive(checkpoint=False, checksums=False)
    table.configure({"delta.enableDeletionVectors": "true"})
    return table


def widening(schema: Action) -> TableBuilder:
    """A table whose property turns on type widening, and whose protocol does not have it."""
    table = TableBuilder(schema=schema, properties={"delta.enableTypeWidening": "true"})
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        table.set_stats(version, {"numRecords": 10}, number)
    return table


@EDGES.reports("feature.property-without-feature")
def type_widening_is_on_without_the_feature() -> TableBuilder:
    return widening(DEFAULT_SCHEMA)


@EDGES.reports("typewidening.not-supported")
def type_widening_is_on_and_used_without_the_feature() -> TableBuilder:
    return widening(
        struct(column("id", "long"), changed("c", "long", change("integer", "long")), column("p", "string"))
    )


@EDGES.reports("typewidening.not-supported", "feature.property-without-feature")
def type_widening_is_used_and_another_feature_on() -> TableBuilder:
    table = type_widening_is_on_and_used_without_the_feature()
    table.configure({"delta.enableTypeWidening": None, "delta.enableDeletionVectors": "true"})
    return table


@EDGES.reports("feature.supported-not-used")
def classic_checkpoints_beside_the_feature_of_others() -> TableBuilder:
    return TableBuilder(protocol=with_features(for_readers=("v2Checkpoint",)))


@EDGES.reports()
def checkpoint_with_an_id_in_its_name_uses_its_feature() -> TableBuilder:
    table = v2("uuid-parquet")
    table.configure({"delta.checkpointPolicy": None})
    return table


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Make, tmp_path: Path) -> None:
    assert_reports(rules, make, tmp_path)


# -- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.checkpointInterval": "0" * 998 + "10"}, []),
        ({"delta.checkpointInterval": "0" * 999 + "10"}, ["property.bad-number"]),
        ({"delta.logRetentionDuration": f"interval{' ' * 985}30 days"}, []),
        ({"delta.logRetentionDuration": f"interval{' ' * 986}30 days"}, ["property.bad-interval"]),
    ],
)
def test_texts_of_more_than_a_thousand_characters_are_not_numbers(
    properties: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    assert expected == [rule for rule, _ in found_in(TableBuilder(properties=properties), tmp_path)]


def test_a_table_that_begins_without_statistics_in_checkpoints_is_reported_once(tmp_path: Path) -> None:
    table = TableBuilder(properties={"delta.checkpoint.writeStatsAsJson": "false"}).derive(checkpoint=False)
    table.commit(table.change_metadata(name="new name"), operation="SET TBLPROPERTIES")

    assert [("property.stats-both-off", "warning")] == found_in(table, tmp_path)


# -- copies of protocols and metadata --------------------------------------------------------------------------------

ONE, OTHER, NONE = ("domainMetadata",), ("rowTracking",), None


@pytest.mark.parametrize(
    ("found", "expected", "plainly", "without_null_lists"),
    [
        (Protocol(1, 2, None, None), Protocol(1, 2, None, None), [], []),
        (Protocol(1, 2, None, None), Protocol(1, 2, (), ()), [], []),
        (Protocol(2, 2, None, None), Protocol(1, 2, None, None), ["minReaderVersion"], ["minReaderVersion"]),
        (Protocol(1, 3, None, None), Protocol(1, 2, None, None), ["minWriterVersion"], ["minWriterVersion"]),
        (Protocol(3, 7, ONE, ONE), Protocol(3, 7, OTHER, ONE), ["readerFeatures"], ["readerFeatures"]),
        (Protocol(3, 7, ONE, ONE), Protocol(3, 7, ONE, OTHER), ["writerFeatures"], ["writerFeatures"]),
        (Protocol(3, 7, None, ONE), Protocol(3, 7, ONE, ONE), ["readerFeatures"], []),
        (Protocol(3, 7, ONE, None), Protocol(3, 7, ONE, ONE), ["writerFeatures"], []),
        (Protocol(2, 7, ONE, ONE), Protocol(2, 7, None, ONE), ["readerFeatures"], []),
        (Protocol(1, 6, None, ONE), Protocol(1, 6, None, None), ["writerFeatures"], []),
        (Protocol(2, 7, None, ONE), Protocol(2, 7, ONE, ONE), ["readerFeatures"], ["readerFeatures"]),
        (Protocol(1, 6, None, None), Protocol(1, 6, None, ONE), ["writerFeatures"], ["writerFeatures"]),
        (
            Protocol(3, 7, None, ONE),
            Protocol(2, 7, ONE, OTHER),
            ["minReaderVersion", "readerFeatures", "writerFeatures"],
            ["minReaderVersion", "writerFeatures"],
        ),
    ],
)
def test_copies_of_a_protocol_differ_in_these_fields(
    found: Protocol, expected: Protocol, plainly: list[str], without_null_lists: list[str]
) -> None:
    assert plainly == find_protocol_differences(found, expected)
    assert without_null_lists == find_protocol_differences(found, expected, with_null_lists=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"name": "other"}, ["name"]),
        ({"schemaString": '{"fields": [], "type": "struct"}'}, []),
        ({"schemaString": '{"type":"struct"}'}, ["schemaString"]),
        ({"schemaString": "{"}, ["schemaString"]),
        ({"schemaString": None}, ["schemaString"]),
        ({"partitionColumns": ["p"]}, ["partitionColumns"]),
        ({"createdTime": 2, "format": {"provider": "orc", "options": {}}}, ["format.provider", "createdTime"]),
    ],
)
def test_copies_of_a_metadata_differ_in_these_fields(changes: dict[str, Any], expected: list[str]) -> None:
    raw = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": '{"type":"struct","fields":[]}',
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
    }
    one, other = read_metadata(raw, ""), read_metadata(raw | changes, "")

    assert sorted(expected) == sorted(find_metadata_differences(one, other))
    assert sorted(expected) == sorted(find_metadata_differences(other, one))
