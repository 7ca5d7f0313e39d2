"""Damages of Iceberg compatibility."""

from __future__ import annotations

import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder, column, struct

NESTED_IDS = "delta.columnMapping.nested.ids"


def compatible_table(*versions: str, extra: Action | None = None, mode: str | None = "name") -> TableBuilder:
    """A table with column mapping, whose physical names are the logical ones, and versions of compatibility on."""
    fields = [column("id", "long"), column("name", "string"), *([extra] if extra else []), column("p", "string")]
    properties = {f"delta.enableIcebergCompat{version}": "true" for version in versions}
    if mode is not None:
        for number, field in enumerate(fields, start=1):
            field["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
        properties |= {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
    features = ["columnMapping", *(f"icebergCompat{version}" for version in versions)]
    protocol = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": features}
    return TableBuilder(schema=struct(*fields), protocol=protocol, properties=properties)


def field_with_ids(name: str, data_type: Any, ids: dict[str, int]) -> Action:
    field = column(name, data_type)
    field["metadata"] = {NESTED_IDS: ids}
    return field


ARRAY = {"type": "array", "elementType": "long", "containsNull": True}


@damage("iceberg.mapping-off")
def compatibility_without_mapping() -> TableBuilder:
    return compatible_table("V2", mode=None)


@damage("iceberg.type-not-allowed")
def array_with_the_first_version() -> TableBuilder:
    return compatible_table("V1", extra=column("list", ARRAY))


@damage("iceberg.type-not-allowed", also=("feature.used-not-supported",))
def variant_in_version_1() -> TableBuilder:
    return compatible_table("V1", extra=column("free", "variant"))


@damage("iceberg.type-not-allowed")
def void_with_the_second_version() -> TableBuilder:
    return compatible_table("V2", extra=column("nothing", "void"))


@damage("iceberg.versions-conflict")
def two_versions_on() -> TableBuilder:
    return compatible_table("V1", "V2")


@damage("iceberg.num-records")
def file_without_its_number_of_records() -> TableBuilder:
    table = compatible_table("V2", extra=field_with_ids("list", ARRAY, {"list.element": 8}))
    stats = table.stats(3)
    del stats["numRecords"]
    table.set_stats(3, json.dumps(stats))
    return table


@damage("iceberg.metadata-at-risk")
def directory_of_iceberg() -> TableBuilder:
    table = TableBuilder()
    table.put("metadata/v1.metadata.json", "{}")
    return table
