"""Schemas, column mappings and hints that are unusual and right: nothing is reported about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.log.segment import checksums
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import open_storage
from tests.rules.corruptions_last_checkpoint import checkpoint_schema, with_hint
from tests.rules.corruptions_mapping import (
    MAX_ID,
    MODE,
    PROTOCOL,
    MappedTable,
    compatible,
    mapped,
    two_structs_with_one_physical_name,
    with_nested_ids,
)
from tests.rules.corruptions_mapping import usual_fields as mapped_fields
from tests.rules.corruptions_schema import array_of, changed_schema, map_of, usual_fields, with_columns, with_schema
from tests.rules.table_builder import NOW_MS, Action, TableBuilder, column, struct
from tests.support.validating import validate_table

Make = Callable[[], TableBuilder]
HEALTHY: list[Make] = []


def healthy(make: Make) -> Make:
    HEALTHY.append(make)
    return make


# -- one schema ------------------------------------------------------------------------------------------------------


@healthy
def every_type_there_is() -> TableBuilder:
    names = ["byte", "short", "integer", "float", "double", "decimal", "boolean", "binary", "date", "timestamp"]
    names += ["timestamp_ntz", "variant", "void", "interval year to month", "interval day to second"]
    names += ["decimal(38,38)", "decimal(1,0)", "decimal(10, 2)", "geometry(OGC:CRS84)", "geography(OGC:CRS84, karney)"]
    return with_columns(*(column(f"c{number}", name) for number, name in enumerate(names)))


@healthy
def deep_types() -> TableBuilder:
    inner = struct(column("a", "void"), column("b", map_of(struct(column("k", "long")), array_of("long"))))
    return with_columns(column("xs", array_of(inner)))


@healthy
def ten_thousand_columns() -> TableBuilder:
    return with_columns(*(column(f"c{number}", "long") for number in range(9_997)))


@healthy
def one_name_in_two_structs() -> TableBuilder:
    return with_columns(column("s", struct(column("name", "long"))))


@healthy
def blanks_in_names_under_column_mapping() -> TableBuilder:
    return MappedTable(mapped("unit price", "double", 4), max_id=4)


@healthy
def schema_with_unknown_keys() -> TableBuilder:
    keys: dict[str, Any] = {"comment": "x", "other.key": 1}
    extra = column("extra", "long", **keys) | {"unknown": [1]}
    return with_schema(struct(*usual_fields(), extra) | {"unknown": {}})


# -- from one schema to the next -------------------------------------------------------------------------------------


@healthy
def columns_added() -> TableBuilder:
    more = [column("extra", "long"), column("s", struct(column("a", "long", nullable=False)))]
    return changed_schema(TableBuilder(), [*usual_fields(), *more], "ADD COLUMNS")


@healthy
def column_that_was_not_null_already() -> TableBuilder:
    must = column("must", array_of("long", contains_null=False), nullable=False)
    return changed_schema(with_columns(must), [*usual_fields(), must, column("extra", "long")], "ADD COLUMNS")


@healthy
def columns_reordered_and_relaxed() -> TableBuilder:
    before = with_columns(column("must", "long", nullable=False))
    return changed_schema(before, [column("must", "long"), *reversed(usual_fields())])


@healthy
def types_widened_and_void_given_a_type() -> TableBuilder:
    before = with_columns(column("n", "integer"), column("v", "void"))
    more = [column("n", "long"), column("v", "string")]
    return changed_schema(before, [*usual_fields(), *more])


def other_fields() -> list[Action]:
    return [column("id", "string", nullable=False), column("Name", "long"), column("p", "string")]


@healthy
def another_schema_with_all_files_replaced() -> TableBuilder:
    table = TableBuilder()
    metadata = table.change_metadata(schemaString=json.dumps(struct(*other_fields())))
    removes = [table.new_remove("a", 3, 4), table.new_remove("b", 2, 4), table.new_remove("b", 4, 4)]
    table.commit(metadata, *removes, operation="UPDATE")
    return table


@healthy
def another_schema_by_an_overwrite() -> TableBuilder:
    table = TableBuilder()
    metadata = table.change_metadata(schemaString=json.dumps(struct(*other_fields())))
    version = table.commit(metadata, table.new_remove("b", 4, 4))
    table.action(version, "commitInfo")["operationParameters"] = {"mode": "Overwrite"}
    return table


@healthy
def another_schema_by_a_restore() -> TableBuilder:
    return changed_schema(TableBuilder(), other_fields(), "RESTORE")


@healthy
def another_schema_of_an_empty_table() -> TableBuilder:
    table = TableBuilder().derive(checkpoint=False)
    for version in (1, 2, 3):
        del table.commits[version]
    return changed_schema(table, other_fields())


# -- column mapping --------------------------------------------------------------------------------------------------


@healthy
def mapping_of_nested_fields() -> TableBuilder:
    inner = struct(mapped("id", "long", 5, "col-1"), mapped("a", "long", 2**31 - 1, "x"))
    return MappedTable(mapped("xs", array_of(inner), 4), max_id=2**31 - 1)


@healthy
def columns_renamed_dropped_and_added_under_mapping() -> TableBuilder:
    one, two, three = mapped_fields()
    table = MappedTable().change(one | {"name": "ID"}, two, three, operation="RENAME COLUMN")
    return table.change(one | {"name": "ID"}, three, mapped("name", "long", 4), maxColumnId="4")


@healthy
def mapping_turned_on_later() -> TableBuilder:
    table = TableBuilder(protocol=PROTOCOL)
    names = [("id", "long"), ("name", "string"), ("p", "string")]
    fields = [mapped(f"{name}_2", kind, number, name) for number, (name, kind) in enumerate(names, 1)]
    fields[2]["name"] = "p"
    metadata = table.change_metadata(schemaString=json.dumps(struct(*fields)))
    metadata["metaData"]["configuration"] |= {MODE: "name", MAX_ID: "3"}
    table.commit(metadata, operation="SET TBLPROPERTIES")
    return table


@healthy
def dropped_column_restored() -> TableBuilder:
    one, two, three = mapped_fields()
    table = MappedTable().change(one, three, operation="DROP COLUMNS")
    return table.change(one, two, three, operation="RESTORE")


@healthy
def ids_of_all_parts_for_iceberg() -> TableBuilder:
    ids = {"col-4.key": 5, "col-4.value": 6, "col-4.value.element": 7}
    return compatible(with_nested_ids(map_of("string", array_of("long")), ids), max_id=7)


@healthy
def names_that_are_physical_elsewhere() -> TableBuilder:
    """`id` is called `name` in files, and `name` is called `id`."""
    fields = [mapped("name", "long", 1, "id"), mapped("id", "string", 2, "name"), mapped("p", "string", 3, "p")]
    return TableBuilder(schema=struct(*fields), protocol=PROTOCOL, properties={MODE: "name", MAX_ID: "3"})


@healthy
def partition_columns_that_are_physical_elsewhere() -> TableBuilder:
    """The files know `p` as `q`, and `q` as `p`."""
    fields = [mapped("id", "long", 1, "id"), mapped("p", "string", 2, "q"), mapped("q", "string", 3, "p")]
    properties = {MODE: "name", MAX_ID: "3"}
    table = TableBuilder(schema=struct(*fields), partition_columns=("p", "q"), protocol=PROTOCOL, properties=properties)
    for version in (1, 2, 3):
        for action in table.commits[version]:
            for kind in action.keys() & {"add", "remove"}:
                action[kind]["partitionValues"] = {"p": "a", "q": "b"}
    return table


# -- hints -----------------------------------------------------------------------------------------------------------


@healthy
def hint_of_unknown_size() -> TableBuilder:
    return with_hint(size=-1, numOfAddFiles=None, sizeInBytes=None)


@healthy
def hint_with_all_it_may_have() -> TableBuilder:
    table = TableBuilder()

    def edit(hint: Action) -> None:
        hint |= {"parts": None, "tags": {"a": "b"}, "checkpointSchema": checkpoint_schema(), "unknown": [1, 2]}
        hint["checksum"] = min(checksums(hint)).upper()

    table.edit_json("_last_checkpoint", edit)
    return table


@pytest.mark.parametrize("make", HEALTHY, ids=lambda make: make.__name__)
def test_unusual_but_valid_values_are_not_reported(make: Make, tmp_path: Path) -> None:
    storage = open_storage(str(make().write(tmp_path / "t")))

    select = ["schema.*", "mapping.*", "hint.*", "validate.*"]
    found = validate_table(storage, EmbeddedEngine(), level="storage", select=select, now_ms=NOW_MS)

    assert [] == [(finding.rule.id, finding.place.key, finding.message) for finding in found.findings]


def test_a_fault_is_reported_where_it_begins_and_where_it_recurs(tmp_path: Path) -> None:
    faulty, sound = struct(*usual_fields(), column("x", "bigint")), struct(*usual_fields(), column("x", "long"))
    table = TableBuilder(schema=faulty)
    for schema in (faulty, sound, faulty):
        table.commit(table.change_metadata(schemaString=json.dumps(schema)), operation="CHANGE COLUMN")

    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["schema.*"], now_ms=NOW_MS)

    assert [("schema.unknown-type", 0), ("schema.unknown-type", 6)] == [
        (finding.rule.id, finding.place.version) for finding in found.findings
    ]


def test_every_fault_of_a_schema_is_reported(tmp_path: Path) -> None:
    fields: list[Any] = [*usual_fields(), {"name": "a"}, column("b", "decimal(99,0)"), column("b", "int"), 7]
    table = with_schema(struct(*fields))

    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["schema.*"], now_ms=NOW_MS)

    assert [
        ("schema.bad-json", "fields[6]"),
        ("schema.decimal-bounds", "b"),
        ("schema.duplicate-column", "b"),
        ("schema.field-missing-key", "a"),
        ("schema.field-missing-key", "a"),
        ("schema.field-missing-key", "a"),
        ("schema.unknown-type", "b"),
    ] == [(finding.rule.id, finding.place.key) for finding in found.findings]


def test_a_remove_of_a_dead_file_replaces_nothing(tmp_path: Path) -> None:
    table = TableBuilder()
    metadata = table.change_metadata(schemaString=json.dumps(struct(*other_fields())))
    dead_and_live = [table.new_remove("a", 1, 4), table.new_remove("a", 3, 4), table.new_remove("b", 2, 4)]
    table.commit(metadata, *dead_and_live, operation="UPDATE")

    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["schema.*"], now_ms=NOW_MS)

    assert ["schema.case-only-change", "schema.not-null-tightened"] == [
        finding.rule.id for finding in found.findings if finding.rule.id != "schema.type-changed-illegally"
    ]


def test_below_structs_with_one_physical_name_nothing_more_is_reported(tmp_path: Path) -> None:
    storage = open_storage(str(two_structs_with_one_physical_name().write(tmp_path / "t")))

    found = validate_table(storage, EmbeddedEngine(), select=["mapping.*"], now_ms=NOW_MS)

    assert [("mapping.physical-path-duplicate", "one")] == [
        (finding.rule.id, finding.place.key) for finding in found.findings
    ]


@pytest.mark.parametrize("value", [None, 7, [], {}, "", "null", "7", '"long"', "[]", '{"type":7}', '{"type":"struct"}'])
def test_odd_schemas_are_checked_without_a_crash(value: Any, tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False)
    table.metadata["schemaString"] = value

    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["schema.*", "mapping.*", "validate.*"], now_ms=NOW_MS)

    assert len(found.findings) == (1 if isinstance(value, str) else 0)
