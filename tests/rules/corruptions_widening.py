"""Damages of type widening: tables whose column `id` became long in version 4, and tables made with type changes."""

from __future__ import annotations

import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder, column, struct

FEATURE = "typeWidening"
PREVIEW = "typeWidening-preview"


def protocol_of(*features: str, writer_only: tuple[str, ...] = ()) -> Action:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": [*features, *writer_only],
    }


def change(from_type: str, to_type: str, path: str | None = None, **more: Any) -> Action:
    entry = {"fromType": from_type, "toType": to_type, **more}
    return entry if path is None else {**entry, "fieldPath": path}


def changed(name: str, data_type: Any, *changes: Any) -> Action:
    field = column(name, data_type)
    field["metadata"] = {"delta.typeChanges": list(changes)}
    return field


def table_with(
    field: Action,
    *,
    features: tuple[str, ...] = (FEATURE,),
    writer_only: tuple[str, ...] = (),
    properties: dict[str, str] | None = None,
) -> TableBuilder:
    """A table that begins with a column that has been through changes."""
    schema = struct(column("id", "long"), column("name", "string"), field, column("p", "string"))
    configuration = {"delta.enableTypeWidening": "true"} | (properties or {})
    return TableBuilder(
        schema=schema, protocol=protocol_of(*features, writer_only=writer_only), properties=configuration
    )


def narrow_table(**properties: str) -> TableBuilder:
    schema = struct(column("id", "integer"), column("name", "string"), column("p", "string"))
    return TableBuilder(schema=schema, protocol=protocol_of(FEATURE), properties=properties)


def schema_text(field: Action) -> str:
    return json.dumps(struct(field, column("name", "string"), column("p", "string")))


WIDENED = changed("id", "long", change("integer", "long"))
ARRAY_OF_MAPS = {
    "type": "array",
    "elementType": {"type": "map", "keyType": "string", "valueType": "decimal(10,4)", "valueContainsNull": True},
    "containsNull": True,
}


@damage("typewidening.not-supported")
def changes_without_the_feature() -> TableBuilder:
    schema = struct(column("id", "long"), changed("name", "long", change("integer", "long")), column("p", "string"))
    table = TableBuilder(schema=schema)
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        table.set_stats(version, {"numRecords": 10}, number)
    return table


@damage("typewidening.change-not-allowed")
def long_to_double() -> TableBuilder:
    return table_with(changed("c", "double", change("long", "double")))


@damage("typewidening.change-not-allowed")
def one_digit_too_few() -> TableBuilder:
    """An integer needs ten digits before the point."""
    return table_with(changed("c", "decimal(11,2)", change("integer", "decimal(11, 2)")))


@damage("typewidening.change-not-allowed")
def same_type() -> TableBuilder:
    return table_with(changed("c", "long", change("long", "bigint")))


@damage("typewidening.bad-entry")
def entry_without_a_type() -> TableBuilder:
    return table_with(changed("c", "long", {"fromType": "integer"}))


@damage("typewidening.bad-entry")
def type_that_is_none() -> TableBuilder:
    return table_with(changed("c", "long", change("whole number", "long")))


@damage("typewidening.bad-entry")
def entries_as_text() -> TableBuilder:
    field = column("c", "long")
    field["metadata"] = {"delta.typeChanges": json.dumps([change("integer", "long")])}
    return table_with(field)


@damage("typewidening.bad-path")
def key_instead_of_value() -> TableBuilder:
    """As an early text of the protocol shows it."""
    return table_with(changed("c", ARRAY_OF_MAPS, change("decimal(6, 2)", "decimal(10, 4)", "element.key")))


@damage("typewidening.bad-path")
def no_path_into_a_map() -> TableBuilder:
    return table_with(changed("c", ARRAY_OF_MAPS, change("decimal(6,2)", "decimal(10,4)")))


@damage("typewidening.bad-path")
def path_in_a_plain_column() -> TableBuilder:
    return table_with(changed("c", "long", change("integer", "long", "element")))


@damage("typewidening.chain-broken")
def gap_between_changes() -> TableBuilder:
    return table_with(changed("c", "long", change("byte", "short"), change("integer", "long")))


@damage("typewidening.chain-broken")
def last_change_is_missing() -> TableBuilder:
    return table_with(changed("c", "long", change("byte", "short")))


@damage("typewidening.chain-broken")
def last_change_of_an_element_is_missing() -> TableBuilder:
    return table_with(changed("c", ARRAY_OF_MAPS, change("decimal(6,2)", "decimal(8,3)", "element.value")))


@damage("typewidening.lost-history")
def entry_vanishes() -> TableBuilder:
    table = narrow_table(**{"delta.enableTypeWidening": "true"})
    table.commit(table.change_metadata(schemaString=schema_text(WIDENED)), operation="CHANGE COLUMN")
    table.commit(table.change_metadata(schemaString=schema_text(column("id", "long"))), operation="SET TBLPROPERTIES")
    return table


@damage("typewidening.table-version")
def version_with_the_stable_feature() -> TableBuilder:
    return table_with(changed("c", "long", change("integer", "long", tableVersion=1)))


@damage("typewidening.table-version", also=("protocol.preview-feature",))  # which the table has by itself
def no_version_with_the_preview() -> TableBuilder:
    return table_with(changed("c", "long", change("integer", "long")), features=(PREVIEW,))


@damage("typewidening.property-missing")
def widened_while_off() -> TableBuilder:
    table = narrow_table(**{"delta.enableTypeWidening": "true"})
    metadata = table.change_metadata(schemaString=schema_text(WIDENED))
    metadata["metaData"]["configuration"]["delta.enableTypeWidening"] = "false"
    table.commit(metadata, operation="CHANGE COLUMN")
    return table


@damage("typewidening.iceberg")
def change_that_iceberg_does_not_have() -> TableBuilder:
    """With the feature listed, whether or not it is on."""
    table = table_with(
        changed("c", "double", change("integer", "double")),
        features=(FEATURE, "columnMapping"),
        writer_only=("icebergCompatV2",),
        properties={
            "delta.enableIcebergCompatV2": "true",
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": "4",
        },
    )
    for number, field in enumerate(table.schema["fields"], start=1):
        field["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    table.metadata["schemaString"] = json.dumps(table.schema)
    return table


@damage("typewidening.ntz-feature")
def date_to_timestamp_ntz() -> TableBuilder:
    return table_with(changed("c", "timestamp_ntz", change("date", "timestamp_ntz")))


@damage("typewidening.both-features", also=("protocol.preview-feature",))  # which the table has by itself
def stable_and_preview() -> TableBuilder:
    return table_with(changed("c", "long", change("integer", "long")), features=(FEATURE, PREVIEW))
