"""Damages of the last checkpoint file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltacli.delta.log.segment import checksums
from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder

HINT = "_last_checkpoint"


def with_hint(**changes: Any) -> TableBuilder:
    """The usual table with other values in its hint; None takes one away."""
    table = TableBuilder()

    def edit(hint: Action) -> None:
        for key, value in changes.items():
            hint.pop(key, None)
            if value is not None:
                hint[key] = value

    table.edit_json(HINT, edit)
    return table


def struct_of(*fields: Action) -> Action:
    return {"type": "struct", "fields": list(fields)}


def field(name: str, data_type: Any) -> Action:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


def map_of(key: Any, value: Any) -> Action:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def checkpoint_schema() -> Action:
    """The schema of the checkpoint that the builder writes, as Spark puts it into a hint."""
    strings = map_of("string", "string")
    texts = {"type": "array", "elementType": "string", "containsNull": True}
    vector = struct_of(
        field("storageType", "string"),
        field("pathOrInlineDv", "string"),
        field("offset", "integer"),
        field("sizeInBytes", "integer"),
        field("cardinality", "long"),
    )
    row_ids = (field("baseRowId", "long"), field("defaultRowCommitVersion", "long"))
    add = struct_of(
        field("path", "string"),
        field("partitionValues", strings),
        field("size", "long"),
        field("modificationTime", "long"),
        field("dataChange", "boolean"),
        field("stats", "string"),
        field("tags", strings),
        field("deletionVector", vector),
        *row_ids,
        field("clusteringProvider", "string"),
    )
    remove = struct_of(
        field("path", "string"),
        field("deletionTimestamp", "long"),
        field("dataChange", "boolean"),
        field("extendedFileMetadata", "boolean"),
        field("partitionValues", strings),
        field("size", "long"),
        field("deletionVector", vector),
        *row_ids,
    )
    metadata = struct_of(
        *(field(name, "string") for name in ("id", "name", "description")),
        field("format", struct_of(field("provider", "string"), field("options", strings))),
        field("schemaString", "string"),
        field("partitionColumns", texts),
        field("configuration", strings),
        field("createdTime", "long"),
    )
    protocol = struct_of(
        field("minReaderVersion", "integer"),
        field("minWriterVersion", "integer"),
        field("readerFeatures", texts),
        field("writerFeatures", texts),
    )
    transaction = struct_of(field("appId", "string"), field("version", "long"), field("lastUpdated", "long"))
    domain = struct_of(field("domain", "string"), field("configuration", "string"), field("removed", "boolean"))
    return struct_of(
        field("txn", transaction),
        field("add", add),
        field("remove", remove),
        field("metaData", metadata),
        field("protocol", protocol),
        field("domainMetadata", domain),
    )


@damage("hint.missing")
def checkpoint_without_a_hint() -> TableBuilder:
    table = TableBuilder()
    table.has_hint = False
    return table


@damage("hint.bad-json")
def torn_hint() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/_last_checkpoint", '{"version":')
    return table


@damage("hint.bad-json")
def hint_that_names_a_key_twice() -> TableBuilder:
    table = TableBuilder()
    table.put("_delta_log/_last_checkpoint", '{"version":2,"size":5,"version":2}')
    return table


@damage("hint.missing-field")
def hint_without_a_size() -> TableBuilder:
    return with_hint(size=None)


@damage("hint.missing-field")
def version_that_is_text() -> TableBuilder:
    return with_hint(version="2")


@damage("hint.checkpoint-missing")
def hint_at_a_version_without_a_checkpoint() -> TableBuilder:
    return with_hint(version=3)


@damage("hint.checkpoint-missing")
def hint_that_counts_parts_that_are_not_there() -> TableBuilder:
    return with_hint(parts=2)


@damage("hint.checkpoint-missing")
def hint_that_names_another_file() -> TableBuilder:
    name = "00000000000000000002.checkpoint.8e1a6ad6-5a0b-4d8f-9d5f-1d2f6f7e9c11.parquet"
    return with_hint(v2Checkpoint={"path": name})


@damage("hint.stale")
def newer_checkpoint_than_the_hint() -> TableBuilder:
    table = TableBuilder()
    table.has_hint = False

    def write_older(root: Path) -> None:
        older = TableBuilder()
        older.checkpoint_version = 1
        older.write(root.parent / "older")
        for name in ("00000000000000000001.checkpoint.parquet", HINT):
            (root.parent / "older/_delta_log" / name).rename(root / "_delta_log" / name)

    table.edit_files(write_older)
    return table


@damage("hint.size-wrong")
def one_action_less() -> TableBuilder:
    return with_hint(size=4)


@damage("hint.size-wrong")
def one_file_more() -> TableBuilder:
    return with_hint(numOfAddFiles=3)


@damage("hint.size-wrong")
def other_number_of_bytes() -> TableBuilder:
    return with_hint(sizeInBytes=1)


@damage("hint.parts-on-classic")
def one_part_of_one() -> TableBuilder:
    return with_hint(parts=1)


@damage("hint.checksum-bad")
def checksum_of_something_else() -> TableBuilder:
    return with_hint(checksum="0" * 32)


@damage("hint.checksum-order")
def checksum_that_depends_on_the_order() -> TableBuilder:
    table = TableBuilder()

    def edit(hint: Action) -> None:
        hint["tags"] = {"list": list(range(11))}
        hint["checksum"] = min(checksums(hint))

    table.edit_json(HINT, edit)
    return table


@damage("hint.schema-wrong")
def schema_without_a_column() -> TableBuilder:
    schema = checkpoint_schema()
    del schema["fields"][-1]
    return with_hint(checkpointSchema=schema)


@damage("hint.schema-wrong")
def schema_with_another_type() -> TableBuilder:
    schema = checkpoint_schema()
    schema["fields"][0]["type"]["fields"][1]["type"] = "string"
    return with_hint(checkpointSchema=json.loads(json.dumps(schema)))


@damage("hint.ahead-of-log")
def hint_at_a_version_to_come() -> TableBuilder:
    return with_hint(version=4)
