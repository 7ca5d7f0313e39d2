"""Types that a file format lacks: `alter` refuses them and `validate` reports them, as Paimon 1.4.2 was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.operations.paimon.new_schemas import require_engine_support, require_valid_schema
from deltacli.paimon.evolution.requests import AddColumn, RemoveOption, RenameColumn, SetOption, UpdateType
from deltacli.paimon.schema import Schema, read_schema
from deltacli.paimon.types import parse_type
from deltacli.table.handle import TableHandle
from tests.paimon.format_matrix import GOOD, POSITIONS, TYPES, read_measured, schema_of
from tests.support.in_memory import MemoryStorage
from tests.support.validating import validate_paimon

FORMAT_TYPE, VERSION_2 = "paimon.type-not-in-format", "paimon.version-2-only"
KEYED: Mapping[str, Any] = {"primaryKeys": ["id"]}
VARIANT_COLUMN = {"id": 1, "name": "v", "type": "VARIANT"}
ID = {"id": 0, "name": "id", "type": "INT NOT NULL"}
ROW_WITH_VARIANT = {"type": "ROW", "fields": [{"id": 5, "name": "v", "type": "VARIANT"}]}


def content(*fields: Any, options: Mapping[str, str] | None = None, **changes: Any) -> bytes:  # Any: JSON values
    """Return a schema file."""
    base = {"version": 3, "id": 0, "highestFieldId": 50, "partitionKeys": [], "primaryKeys": []}
    return json.dumps({**base, "fields": list(fields), "options": dict(options or {}), **changes}).encode()


def table_of(*fields: Any, options: Mapping[str, str] | None = None, **changes: Any) -> TableHandle:
    """Return a table with one schema in memory."""
    storage = MemoryStorage()
    storage.put("schema/schema-0", content(*fields, options=options, **changes))
    return TableHandle(storage, clock=lambda: 0)


def findings_of(table: TableHandle) -> list[tuple[str, str]]:
    """Return rule and place of the errors and warnings of a table."""
    found = validate_paimon(table.writable(), EmbeddedEngine()).findings
    return [(one.rule.id, str(one.place.key)) for one in found if one.severity != "info"]


def alter(table: TableHandle, *changes: Any, min_paimon: int | None = None) -> Schema:  # Any: changes
    """Make changes and return the new schema."""
    outcome = execute_change(SchemaAlteration(AlterRequest(changes, min_paimon=min_paimon)), table)
    assert outcome.after is not None
    return outcome.after


def add(type_: Any, name: str = "c") -> AddColumn:
    """Return the change that adds a column of a type."""
    return AddColumn((name,), parse_type(type_))


def code_of_refusal(table: TableHandle, *changes: Any, min_paimon: int | None = None) -> str:  # Any: changes
    """Return the code with which changes are refused; nothing is written."""
    with pytest.raises(Refused) as refusal:
        alter(table, *changes, min_paimon=min_paimon)
    assert ["schema-0"] == [one.name for one in table.storage.list_from("schema")]
    return refusal.value.code


@pytest.mark.parametrize("file_format", list(read_measured()))
def test_a_new_schema_is_refused_where_paimon_was_measured_to_fail(file_format: str) -> None:
    before = read_schema(content(ID, options={"file.format": "parquet"}))
    wrong = []
    for name, letters in read_measured()[file_format].items():
        for (position, place), letter in zip(POSITIONS.items(), letters, strict=True):
            type_, _ = place(*TYPES[name])
            schema = read_schema(json.dumps(schema_of(file_format, type_)).encode())
            if _is_accepted(schema, before) != (letter == GOOD):
                wrong.append((name, position, letter))

    assert [] == wrong


def _is_accepted(schema: Schema, before: Schema) -> bool:
    try:
        require_valid_schema(schema, before)
        require_engine_support(schema, before, min_paimon=None, operation="alter")
    except Refused:
        return False
    return True


@pytest.mark.parametrize(
    ("file_format", "type_", "place"),
    [
        ("avro", "VARIANT", "c"),
        ("orc", "VARIANT", "c"),
        ("orc", {"type": "ARRAY", "element": "VARIANT"}, "c.element"),
        ("avro", {"type": "ARRAY", "element": "TIME(6)"}, "c.element"),
        ("avro", {"type": "ARRAY", "element": "TIMESTAMP(9)"}, "c.element"),
        ("avro", {"type": "MAP", "key": "STRING NOT NULL", "value": ROW_WITH_VARIANT}, "c.value.v"),
        ("orc", {"type": "VECTOR", "element": "FLOAT", "length": 3}, "c"),
        ("csv", ROW_WITH_VARIANT, "c"),
        ("json", {"type": "MULTISET", "element": "STRING"}, "c"),
        ("json", {"type": "MAP", "key": "TIMESTAMP(6) NOT NULL", "value": "INT"}, "c.key"),
    ],
)
def test_alter_refuses_a_column_and_validate_names_it(file_format: str, type_: Any, place: str) -> None:
    options = {"file.format": file_format}

    assert FORMAT_TYPE == code_of_refusal(table_of(ID, options=options), add(type_))
    damaged = table_of(ID, {"id": 1, "name": "c", "type": type_}, options=options)
    assert [(FORMAT_TYPE, place)] == findings_of(damaged)


@pytest.mark.parametrize("name", ["avro", "AVRO", "orc", "json", "csv", "text"])
def test_a_format_that_lacks_the_type_of_a_column_is_refused(name: str) -> None:
    assert FORMAT_TYPE == code_of_refusal(table_of(ID, VARIANT_COLUMN), SetOption("file.format", name))


def test_removing_the_format_is_refused_where_the_default_lacks_the_type() -> None:
    vector = {"id": 1, "name": "v", "type": {"type": "VECTOR", "element": "FLOAT", "length": 3}}
    table = table_of(ID, vector, options={"file.format": "avro"})

    assert VERSION_2 == code_of_refusal(table, RemoveOption("file.format"))


def test_a_wider_type_that_the_format_lacks_is_refused() -> None:
    table = table_of(ID, {"id": 1, "name": "at", "type": "TIMESTAMP(3)"}, options={"file.format": "avro"})

    assert FORMAT_TYPE == code_of_refusal(table, UpdateType(("at",), parse_type("TIMESTAMP(9)")))
    assert "TIMESTAMP(6)" in str(alter(table, UpdateType(("at",), parse_type("TIMESTAMP(6)"))).as_json())


@pytest.mark.parametrize(
    "options",
    [
        {"file.format.per.level": "0:avro"},
        {"file.format.per.level": "1:parquet, 5 : AVRO"},
        {"changelog-file.format": "avro", "changelog-producer": "input"},
    ],
)
def test_formats_of_levels_and_changelogs_count(options: Mapping[str, str]) -> None:
    changes = [SetOption(key, value) for key, value in options.items()]

    assert FORMAT_TYPE == code_of_refusal(table_of(ID, VARIANT_COLUMN, **KEYED), *changes)
    assert [(FORMAT_TYPE, "v")] == findings_of(table_of(ID, VARIANT_COLUMN, options=options, **KEYED))


@pytest.mark.parametrize(
    "options",
    [{"file.format.per.level": "0:avro"}, {"changelog-file.format": "avro"}],
)
def test_formats_that_paimon_does_not_use_are_ignored(options: Mapping[str, str]) -> None:
    # Levels matter for tables with a key only, and the format of changelogs only where there are changelogs.
    keys = KEYED if "changelog-file.format" in options else {}

    assert [] == findings_of(table_of(ID, VARIANT_COLUMN, options=options, **keys))


@pytest.mark.parametrize("levels", ["avro", "x:avro", "0:", ":avro", "0=avro", "0:avro:x", "0:avro,0:orc", "5:xlsx"])
def test_formats_of_levels_that_paimon_cannot_parse_are_refused(levels: str) -> None:
    change = SetOption("file.format.per.level", levels)

    assert "paimon.option-value" == code_of_refusal(table_of(ID, **KEYED), change)


@pytest.mark.parametrize("option", ["changelog-file.format", "vector.file.format", "manifest.format"])
def test_formats_that_paimon_does_not_have_are_refused(option: str) -> None:
    assert "paimon.option-value" == code_of_refusal(table_of(ID), SetOption(option, "xlsx"))


def test_csv_with_a_primary_key_is_refused_because_paimon_reads_other_values() -> None:
    assert FORMAT_TYPE == code_of_refusal(table_of(ID, **KEYED), SetOption("file.format", "csv"))
    assert [] == findings_of(table_of(ID, options={"file.format": "json"}, **KEYED))


TEXT = {"id": 1, "name": "line", "type": "STRING"}
DAY = {"id": 2, "name": "day", "type": "INT"}


@pytest.mark.parametrize(
    ("fields", "partition_keys", "places"),
    [
        ([TEXT], [], []),
        ([TEXT, DAY], ["day"], []),
        ([DAY, TEXT], ["day"], ["day", "line"]),
        ([TEXT, DAY], [], ["day"]),
        ([{**TEXT, "type": "STRING NOT NULL"}, DAY], ["day"], ["line"]),
        ([DAY], [], ["day"]),
    ],
)
def test_text_files_have_one_column_of_text(fields: list[Any], partition_keys: list[str], places: list[str]) -> None:
    table = table_of(*fields, options={"file.format": "text"}, partitionKeys=partition_keys)

    assert [(FORMAT_TYPE, place) for place in places] == findings_of(table)


def test_a_table_that_lacks_a_type_already_can_be_altered_in_other_ways() -> None:
    # Engines that made such a table may be in use: pypaimon writes VARIANT in Avro.
    table = table_of(ID, VARIANT_COLUMN, options={"file.format": "avro"})

    assert alter(table, add("INT", "more")).id == 1
    assert alter(table, RenameColumn(("id",), "number")).id == 2


def test_schemas_that_nothing_uses_any_more_are_not_reported() -> None:
    table = table_of(ID, VARIANT_COLUMN, options={"file.format": "avro"})
    alter(table, SetOption("file.format", "parquet"))

    assert [] == findings_of(table)
