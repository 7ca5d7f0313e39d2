"""Damages of clustering."""

from __future__ import annotations

import json

from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder, column, struct

PROTOCOL: Action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "domainMetadata"]}


def domain(configuration: object) -> Action:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    return {"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}}


def clustered_table(columns: object, *, schema: Action | None = None) -> TableBuilder:
    table = TableBuilder(protocol=dict(PROTOCOL), partition_columns=(), schema=schema)
    table.commits[0].append(domain({"clusteringColumns": columns}))
    return table


def mapped_schema() -> Action:
    fields = (column("id", "long"), column("name", "string"), column("p", "string"))
    for number, field in enumerate(fields, start=1):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number}",
        }
    return struct(*fields)


@damage("clustering.domain-missing")
def no_domain() -> TableBuilder:
    return TableBuilder(protocol=dict(PROTOCOL), partition_columns=())


@damage("clustering.bad-config")
def column_that_is_not_there() -> TableBuilder:
    return clustered_table([["id"], ["gone"]])


@damage("clustering.bad-config")
def field_of_no_struct() -> TableBuilder:
    return clustered_table([["name", "first"]])


@damage("clustering.bad-config")
def columns_are_no_list() -> TableBuilder:
    return clustered_table("id")


@damage("clustering.bad-config")
def domain_is_no_json() -> TableBuilder:
    table = clustered_table([["id"]])
    table.commits[0][-1] = domain("id")
    return table


@damage("clustering.bad-config")
def logical_name_under_mapping() -> TableBuilder:
    """The physical name of the other column is right, in the spelling of the protocol's text."""
    protocol = {**PROTOCOL, "minReaderVersion": 2, "writerFeatures": [*PROTOCOL["writerFeatures"], "columnMapping"]}
    table = TableBuilder(
        protocol=protocol,
        partition_columns=(),
        schema=mapped_schema(),
        properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"},
    )
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        text = json.dumps(table.stats(version, number)).replace('"id"', '"col-1"').replace('"name"', '"col-2"')
        table.set_stats(version, text, number)
    table.commits[0].append(domain({"clusteringColumns": ["col-2", "id"]}))
    return table


@damage("clustering.partitioned")
def clustered_and_partitioned() -> TableBuilder:
    table = TableBuilder(protocol=dict(PROTOCOL))
    table.commits[0].append(domain({"clusteringColumns": []}))
    return table


@damage("clustering.type")
def clustered_by_a_map() -> TableBuilder:
    tags = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    schema = struct(column("id", "long"), column("name", "string"), column("tags", tags))
    return clustered_table([["tags"]], schema=schema)


@damage("clustering.type")
def clustered_by_a_boolean() -> TableBuilder:
    schema = struct(column("id", "long"), column("name", "string"), column("flag", "boolean"))
    return clustered_table([["id"], ["flag"]], schema=schema)


def variant_protocol(*features: str) -> Action:
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["variantType"],
        "writerFeatures": ["variantType", *features],
    }


@damage("variant.partition-or-cluster")
def clustered_by_a_variant() -> TableBuilder:
    schema = struct(column("id", "long"), column("name", "string"), column("v", "variant"))
    table = clustered_table([["v"]], schema=schema)
    table.protocol.update(variant_protocol("clustering", "domainMetadata"))
    return table


@damage("variant.partition-or-cluster")
def partitioned_by_a_variant() -> TableBuilder:
    schema = struct(column("id", "long"), column("name", "string"), column("p", "variant"))
    return TableBuilder(schema=schema, protocol=variant_protocol())


@damage("stats.clustering-missing")
def one_file_without_statistics_of_the_column() -> TableBuilder:
    table = clustered_table([["id"]])
    stats = table.stats(3)
    for part in ("minValues", "maxValues", "nullCount"):
        del stats[part]["id"]
    table.set_stats(3, stats)
    return table


@damage("stats.clustering-missing")
def one_file_without_statistics() -> TableBuilder:
    table = clustered_table([["id"]])
    del table.add(3)["stats"]
    return table
