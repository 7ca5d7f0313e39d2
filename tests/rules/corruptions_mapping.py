"""Damages of column mapping."""

from __future__ import annotations

import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import DEFAULT_SCHEMA, Action, TableBuilder, column, struct

PROTOCOL = {"minReaderVersion": 2, "minWriterVersion": 5}
PHYSICAL = {"id": "col-1", "name": "col-2", "p": "col-3"}
MODE, MAX_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"


def mapped(name: str, data_type: Any, number: int, physical: str | None = None, **more: Any) -> Action:
    """A field with an id and a physical name: `col-<id>` where none is given."""
    keys: dict[str, Any] = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": physical or f"col-{number}",
    }
    return column(name, data_type, **keys, **more)


def usual_fields() -> list[Action]:
    return [mapped("id", "long", 1), mapped("name", "string", 2), mapped("p", "string", 3)]


class MappedTable(TableBuilder):
    """The usual table with column mapping by name: files know their columns as `col-1`, `col-2`, `col-3`."""

    def __init__(
        self,
        *more: Action,
        fields: list[Action] | None = None,
        properties: dict[str, str] | None = None,
        protocol: Action | None = None,
        max_id: int = 3,
    ) -> None:
        super().__init__(
            schema=struct(*(fields or usual_fields()), *more),
            protocol=protocol or PROTOCOL,
            properties={MODE: "name", MAX_ID: str(max_id)} | (properties or {}),
        )

    def path_of(self, partition: str, number: int) -> str:
        return f"col-3={partition}/part-{number:05d}-c000.snappy.parquet"

    def new_add(self, partition: str, number: int, version: int, **changes: Any) -> Action:
        found = super().new_add(partition, number, version, partitionValues={"col-3": partition})
        stats = json.loads(found["add"]["stats"])
        for part in ("minValues", "maxValues", "nullCount"):
            stats[part] = {PHYSICAL[name]: value for name, value in stats[part].items()}
        found["add"]["stats"] = json.dumps(stats, separators=(",", ":"))
        return {"add": found["add"] | changes}

    def new_remove(self, partition: str, number: int, version: int, **changes: Any) -> Action:
        return super().new_remove(partition, number, version, partitionValues={"col-3": partition}, **changes)

    def change(self, *fields: Action, operation: str = "CHANGE COLUMN", **properties: str) -> MappedTable:
        """Commit another schema; properties by the last word of their key: `mode`, `maxColumnId`."""
        newest = self.change_metadata(schemaString=json.dumps(struct(*fields)))
        for key, value in properties.items():
            newest["metaData"]["configuration"][f"delta.columnMapping.{key}"] = value
        self.commit(newest, operation=operation)
        return self


def upgraded_table(protocol: Action | None = None) -> TableBuilder:
    """The usual table with column mapping turned on late: the physical names are the logical ones."""
    fields = [
        mapped(name, data_type, number, name)
        for number, (name, data_type) in enumerate((("id", "long"), ("name", "string"), ("p", "string")), 1)
    ]
    properties = {MODE: "name", MAX_ID: "3"}
    return TableBuilder(schema=struct(*fields), protocol=protocol or PROTOCOL, properties=properties)


def plain_table(**properties: str) -> TableBuilder:
    return TableBuilder(properties={f"delta.columnMapping.{key}": value for key, value in properties.items()})


def array_of(element: Any) -> Action:
    return {"type": "array", "elementType": element, "containsNull": True}


def with_nested_ids(data_type: Any, ids: dict[str, int]) -> Action:
    """The field `xs` with the id 4, and ids for the parts of its type."""
    keys: dict[str, Any] = {"delta.columnMapping.nested.ids": ids}
    return mapped("xs", data_type, 4, **keys)


# -- one metadata ----------------------------------------------------------------------------------------------------


@damage("mapping.mode-invalid")
def mode_that_is_none_of_the_three() -> TableBuilder:
    return plain_table(mode="names")


@damage("mapping.mode-without-protocol")
def mode_under_an_old_protocol() -> TableBuilder:
    return upgraded_table(protocol={"minReaderVersion": 1, "minWriterVersion": 2})


# Giving up a feature is a fault by itself, whatever the metadata asks for.
@damage("mapping.mode-without-protocol", also=("protocol.downgrade",))
def protocol_that_loses_the_feature() -> TableBuilder:
    lost = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}
    table = upgraded_table()
    table.commit({"protocol": lost}, operation="UPGRADE PROTOCOL")
    return table


@damage("mapping.id-missing")
def field_without_an_id() -> TableBuilder:
    fields = usual_fields()
    del fields[1]["metadata"]["delta.columnMapping.id"]
    return MappedTable(fields=fields)


@damage("mapping.id-missing")
def id_that_is_text_within_an_array() -> TableBuilder:
    inner = mapped("a", "long", 5)
    inner["metadata"]["delta.columnMapping.id"] = "5"
    return MappedTable(mapped("xs", array_of(struct(inner)), 4), max_id=5)


@damage("mapping.name-missing")
def field_without_a_physical_name() -> TableBuilder:
    extra = mapped("extra", "long", 4)
    del extra["metadata"]["delta.columnMapping.physicalName"]
    return MappedTable(extra, max_id=4)


@damage("mapping.id-duplicate")
def two_columns_with_one_id() -> TableBuilder:
    return MappedTable(mapped("extra", "long", 2, "col-4"))


@damage("mapping.physical-path-duplicate")
def two_columns_with_one_physical_name() -> TableBuilder:
    return MappedTable(mapped("extra", "string", 4, "col-2"), max_id=4)


@damage("mapping.physical-path-duplicate")
def physical_name_of_a_column_given_to_another() -> TableBuilder:
    return MappedTable().change(*usual_fields(), mapped("extra", "string", 4, "col-2"), maxColumnId="4")


@damage("mapping.physical-path-duplicate")
def two_structs_with_one_physical_name() -> TableBuilder:
    one = mapped("one", struct(mapped("a", "long", 6, "a")), 4, "s")
    two = mapped("two", struct(mapped("b", "long", 7, "a")), 5, "s")
    return MappedTable(one, two, max_id=7)


@damage("mapping.id-out-of-range")
def id_of_0() -> TableBuilder:
    return MappedTable(mapped("extra", "long", 0, "col-4"))


@damage("mapping.id-out-of-range")
def id_of_33_bits() -> TableBuilder:
    return MappedTable(mapped("extra", "long", 2**31, "col-4"))


@damage("mapping.max-id-too-small")
def highest_id_below_a_column() -> TableBuilder:
    return MappedTable(max_id=2)


@damage("mapping.max-id-too-small")
def highest_id_below_an_element() -> TableBuilder:
    return MappedTable(with_nested_ids(array_of("long"), {"col-4.element": 5}), max_id=4)


@damage("mapping.max-id-too-small")
def highest_id_lowered_below_a_column() -> TableBuilder:
    return MappedTable().change(*usual_fields(), maxColumnId="2")


@damage("mapping.max-id-missing")
def no_highest_id() -> TableBuilder:
    table = MappedTable()
    table.configure({MAX_ID: None})
    return table


@damage("mapping.stray-annotations")
def ids_without_a_mode() -> TableBuilder:
    table = upgraded_table()
    table.configure({MODE: None, MAX_ID: None})
    return table


COMPATIBLE = {
    "minReaderVersion": 2,
    "minWriterVersion": 7,
    "writerFeatures": ["columnMapping", "icebergCompatV2"],
}


def compatible(*more: Action, max_id: int) -> TableBuilder:
    """A table that can be read as an Iceberg table, so that every part of its types needs an id."""
    return MappedTable(*more, protocol=COMPATIBLE, properties={"delta.enableIcebergCompatV2": "true"}, max_id=max_id)


_MATRIX = array_of(array_of("long"))


@damage("mapping.nested-ids")
def elements_without_ids() -> TableBuilder:
    return compatible(mapped("xs", array_of("long"), 4), max_id=4)


@damage("mapping.nested-ids")
def id_of_a_part_that_is_not_there() -> TableBuilder:
    return compatible(
        with_nested_ids(_MATRIX, {"col-4.element": 5, "col-4.element.element": 6, "col-4.key": 7}), max_id=7
    )


@damage("mapping.nested-ids")
def id_of_an_element_that_a_column_has() -> TableBuilder:
    return compatible(with_nested_ids(_MATRIX, {"col-4.element": 5, "col-4.element.element": 1}), max_id=5)


@damage("mapping.compat-physical-name")
def physical_name_that_is_not_made_of_the_id() -> TableBuilder:
    protocol: dict[str, Any] = COMPATIBLE | {
        "writerFeatures": ["columnMapping", "icebergCompatV2", "icebergWriterCompatV1"]
    }
    properties = {
        "delta.enableIcebergCompatV2": "true",
        "delta.enableIcebergWriterCompatV1": "true",
        MODE: "id",
    }
    return MappedTable(mapped("extra", "long", 4, "extra"), protocol=protocol, properties=properties, max_id=4)


# -- over versions ---------------------------------------------------------------------------------------------------


@damage("mapping.mode-change-illegal")
def mode_changed_to_id() -> TableBuilder:
    return MappedTable().change(*usual_fields(), mode="id")


@damage("mapping.mode-change-illegal")
def mapping_turned_off() -> TableBuilder:
    table = upgraded_table()
    newest = table.change_metadata(schemaString=json.dumps(DEFAULT_SCHEMA))
    for key in (MODE, MAX_ID):
        del newest["metaData"]["configuration"][key]
    table.commit(newest, operation="UNSET TBLPROPERTIES")
    return table


@damage("mapping.physical-name-changed")
def another_physical_name_for_a_column() -> TableBuilder:
    one, _, three = usual_fields()
    return MappedTable().change(one, mapped("name", "string", 2, "col-x"), three)


@damage("mapping.id-reused")
def id_of_a_dropped_column_given_again() -> TableBuilder:
    extra = mapped("extra", "long", 4)
    table = MappedTable(extra, max_id=4).change(*usual_fields())
    return table.change(*usual_fields(), mapped("other", "long", 4, "col-5"))


@damage("mapping.physical-path-reused")
def physical_name_of_a_dropped_column_given_again() -> TableBuilder:
    extra = mapped("extra", "long", 4)
    table = MappedTable(extra, max_id=4).change(*usual_fields())
    return table.change(*usual_fields(), mapped("other", "long", 5, "col-4"), maxColumnId="5")


@damage("mapping.max-id-decreased")
def highest_id_lowered() -> TableBuilder:
    return MappedTable(max_id=7).change(*usual_fields(), maxColumnId="6")


# -- adds ------------------------------------------------------------------------------------------------------------


@damage("mapping.partition-key-logical")
def partition_value_under_the_logical_name() -> TableBuilder:
    table = MappedTable()
    table.add(3)["partitionValues"] = {"p": "b"}
    return table


@damage("mapping.stats-key-logical")
def statistics_under_the_logical_name() -> TableBuilder:
    table = MappedTable()
    stats = table.stats(3)
    stats["maxValues"] = {"col-1": 49, "name": "z"}
    table.set_stats(3, stats)
    return table


@damage("mapping.stats-key-logical")
def statistics_of_a_nested_field_under_the_logical_name() -> TableBuilder:
    table = MappedTable(mapped("s", struct(mapped("a", "long", 5)), 4), max_id=5)
    for version, keys in ((1, {"col-5": 0}), (3, {"a": 0})):
        stats = table.stats(version)
        stats["nullCount"]["col-4"] = keys
        table.set_stats(version, stats)
    return table
