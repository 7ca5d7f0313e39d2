"""Damages of metaData actions."""

from __future__ import annotations

import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import DEFAULT_SCHEMA, START_MS, TableBuilder, column, struct


def partitioned_by(*columns: str, schema: Any = None, values: dict[str, str] | None = None) -> TableBuilder:
    """The table with other partition columns from the start; every file gets `values` in addition to its `p`."""
    table = TableBuilder(schema=schema)
    table.metadata["partitionColumns"] = list(columns)
    for actions in table.commits.values():
        for action in actions:
            for fields in action.values():
                if "partitionValues" in fields:
                    fields["partitionValues"] |= values or {}
    return table


@damage("metadata.id-not-guid")
def id_is_a_name() -> TableBuilder:
    """Any text as the id."""
    table = TableBuilder()
    table.metadata["id"] = "my-table"
    return table


@damage("metadata.id-changed")
def another_table_written_over() -> TableBuilder:
    """A later metaData action has the id of another table."""
    table = TableBuilder()
    table.commit(table.change_metadata(id="0c5d2f44-7d1c-4e6c-8a9e-2b8a0b7f6d21"), operation="WRITE")
    return table


@damage("metadata.format-not-parquet")
def files_said_to_be_orc() -> TableBuilder:
    """Another provider."""
    table = TableBuilder()
    table.metadata["format"]["provider"] = "orc"
    return table


@damage("metadata.format-not-parquet")
def format_with_an_option() -> TableBuilder:
    """The right provider, with an option."""
    table = TableBuilder()
    table.metadata["format"]["options"] = {"compression": "zstd"}
    return table


@damage("metadata.created-time")
def created_time_missing() -> TableBuilder:
    """No createdTime, which is optional."""
    table = TableBuilder()
    del table.metadata["createdTime"]
    return table


@damage("metadata.created-time")
def created_time_changes() -> TableBuilder:
    """A later metaData action was made a minute later, and says so."""
    table = TableBuilder()
    table.commit(table.change_metadata(createdTime=START_MS + 1), operation="SET TBLPROPERTIES")
    return table


@damage("metadata.partition-column-unknown")
def partition_column_not_in_the_schema() -> TableBuilder:
    """A column that is nowhere."""
    return partitioned_by("p", "q", values={"q": "1"})


@damage("metadata.partition-column-duplicate")
def partition_column_twice() -> TableBuilder:
    """One column, named twice."""
    return partitioned_by("p", "p")


@damage("metadata.partition-column-type")
def partition_column_of_an_array() -> TableBuilder:
    """A column without a text form."""
    array = {"type": "array", "elementType": "string", "containsNull": True}
    return partitioned_by("p", schema=struct(column("id", "long"), column("name", "string"), column("p", array)))


@damage("metadata.partition-column-nested")
def partition_column_inside_a_struct() -> TableBuilder:
    """A field of a column."""
    address = column("address", struct(column("country", "string")))
    schema = struct(*DEFAULT_SCHEMA["fields"], address)
    return partitioned_by("p", "address.country", schema=schema, values={"address.country": "AT"})


@damage("metadata.all-columns-partitioned")
def no_column_left_for_the_files() -> TableBuilder:
    """One column, and it is the partition column."""
    table = TableBuilder(schema=struct(column("p", "string")))
    for version, actions in table.commits.items():
        for number in range(sum("add" in action for action in actions)):
            table.set_stats(version, {"numRecords": 10}, number)
    return table


@damage("metadata.partitioning-changed")
def partition_column_added_over_old_files() -> TableBuilder:
    """The files of before stay, without a value for the new column."""
    table = TableBuilder()
    metadata = table.change_metadata(partitionColumns=["p", "name"])
    table.commit(metadata, operation="REPLACE TABLE")
    return table


@damage("metadata.partitioning-changed")
def all_files_but_one_replaced() -> TableBuilder:
    """Two of three live files go with the old partitioning."""
    table = TableBuilder()
    schema = json.dumps(DEFAULT_SCHEMA)
    table.commit(
        table.change_metadata(partitionColumns=[], schemaString=schema),
        table.new_remove("b", 2, 4),
        table.new_remove("a", 3, 4),
        operation="REPLACE TABLE",
    )
    return table
