"""Damages of schemas, and of the way from one schema to the next."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import DEFAULT_SCHEMA, Action, TableBuilder, column, struct


def with_columns(
    *more: Action, properties: dict[str, str] | None = None, protocol: Action | None = None
) -> TableBuilder:
    """The usual table with more columns, which no file has statistics of."""
    schema = struct(*copy.deepcopy(DEFAULT_SCHEMA["fields"]), *more)
    return TableBuilder(schema=schema, properties=properties, protocol=protocol)


def with_schema(value: Any) -> TableBuilder:
    """The usual table with any value for its schemaString."""
    table = TableBuilder()
    table.metadata["schemaString"] = value if isinstance(value, str) else json.dumps(value)
    return table


def changed_schema(before: TableBuilder, fields: list[Action], operation: str = "CHANGE COLUMN") -> TableBuilder:
    """A table whose newest commit brings another schema."""
    before.commit(before.change_metadata(schemaString=json.dumps(struct(*fields))), operation=operation)
    return before


def array_of(element: Any, *, contains_null: bool = True) -> Action:
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(key: Any, value: Any) -> Action:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def usual_fields() -> list[Action]:
    found: list[Action] = copy.deepcopy(DEFAULT_SCHEMA["fields"])
    return found


# -- one schema ------------------------------------------------------------------------------------------------------


@damage("schema.bad-json")
def torn_schema() -> TableBuilder:
    return with_schema(json.dumps(DEFAULT_SCHEMA)[:-20])


@damage("schema.bad-json")
def schema_that_is_an_array() -> TableBuilder:
    return with_schema(array_of("long"))


@damage("schema.bad-json")
def nullable_that_is_text() -> TableBuilder:
    return with_columns(column("extra", "long") | {"nullable": "yes"})


@damage("schema.bad-json")
def types_nested_too_deeply() -> TableBuilder:
    deep: Any = "long"
    for _ in range(250):
        deep = array_of(deep)
    return with_columns(column("deep", deep))


@damage("schema.field-missing-key")
def field_without_nullable() -> TableBuilder:
    fields = usual_fields()
    del fields[1]["nullable"]
    return with_schema(struct(*fields))


@damage("schema.field-missing-key")
def map_without_value_contains_null() -> TableBuilder:
    without = map_of("string", "long")
    del without["valueContainsNull"]
    return with_columns(column("m", array_of(without)))


@damage("schema.field-missing-key")
def struct_without_fields_key() -> TableBuilder:
    return with_columns(column("s", {"type": "struct"}))


@damage("schema.unknown-type")
def type_by_its_sql_name() -> TableBuilder:
    return with_columns(column("extra", "bigint"))


@damage("schema.unknown-type")
def user_defined_type() -> TableBuilder:
    return with_columns(column("v", {"type": "udt", "class": "VectorUDT", "sqlType": struct()}))


@damage("schema.unknown-type")
def interval_of_two_families() -> TableBuilder:
    return with_columns(column("span", "interval month to day"))


@damage("schema.decimal-bounds")
def precision_of_39() -> TableBuilder:
    return with_columns(column("price", "decimal(39,2)"))


@damage("schema.decimal-bounds")
def precision_of_0() -> TableBuilder:
    return with_columns(column("price", "decimal(0,0)"))


@damage("schema.decimal-bounds")
def scale_above_precision() -> TableBuilder:
    return with_columns(column("prices", array_of("decimal(4, 5)")))


@damage("schema.decimal-bounds")
def negative_scale() -> TableBuilder:
    return with_columns(column("price", "decimal(4,-1)"))


@damage("schema.char-varchar")
def varchar_in_the_schema() -> TableBuilder:
    return with_columns(column("code", "varchar(10)"))


@damage("schema.duplicate-column")
def names_that_differ_in_case() -> TableBuilder:
    return with_columns(column("NAME", "string"))


@damage("schema.duplicate-column")
def twins_within_a_struct() -> TableBuilder:
    return with_columns(column("s", struct(column("a", "long"), column("a", "long"))))


@damage("schema.empty-name")
def field_without_a_name() -> TableBuilder:
    return with_columns(column("s", struct(column("", "long"))))


@damage("schema.invalid-chars")
def blank_in_a_name() -> TableBuilder:
    return with_columns(column("unit price", "double"))


@damage("schema.empty-struct")
def struct_without_fields() -> TableBuilder:
    return with_columns(column("s", struct()))


@damage("schema.no-columns")
def table_without_columns() -> TableBuilder:
    table = TableBuilder(schema=struct(), partition_columns=()).derive(checkpoint=False, checksums=False)
    table.commits = {0: table.commits[0]}
    return table


@damage("schema.map-key-null")
def map_as_the_key_of_a_map() -> TableBuilder:
    return with_columns(column("m", map_of(struct(column("k", map_of("string", "long"))), "long")))


@damage("schema.map-key-null")
def nullable_key() -> TableBuilder:
    return with_columns(column("m", map_of("string", "long") | {"keyContainsNull": True}))


@damage("schema.void-in-complex")
def array_of_void() -> TableBuilder:
    return with_columns(column("xs", array_of("void")))


@damage("schema.void-in-complex")
def struct_of_voids() -> TableBuilder:
    return with_columns(column("s", struct(column("a", "void"), column("b", "void"))))


@damage("schema.metadata-reserved")
def misspelled_key_of_a_column() -> TableBuilder:
    keys: dict[str, Any] = {"delta.generatedExpression": "1"}
    return with_columns(column("extra", "long", **keys))


@damage("schema.collation-of-another", also=("feature.used-not-supported",))
def collation_under_the_name_before_a_rename() -> TableBuilder:
    keys: dict[str, Any] = {"__COLLATIONS": {"city": "icu.UNICODE_CI"}}
    return with_columns(column("town", "string", **keys))


@damage("schema.interval-noncanonical")
def narrow_interval() -> TableBuilder:
    return with_columns(column("span", "interval day to hour"))


@damage("schema.interval-noncanonical")
def narrow_interval_spelled_out_later() -> TableBuilder:
    before = with_columns(column("span", "interval hour"))
    return changed_schema(before, [*usual_fields(), column("span", "interval day to second")])


@damage("schema.too-wide")
def more_than_ten_thousand_columns() -> TableBuilder:
    return with_columns(*(column(f"c{number}", "long") for number in range(9_998)))


# -- from one schema to the next -------------------------------------------------------------------------------------


@damage("schema.not-null-tightened")
def column_that_became_not_null() -> TableBuilder:
    fields = usual_fields()
    fields[0]["nullable"] = False
    return changed_schema(TableBuilder(), fields)


@damage("schema.not-null-tightened")
def element_that_became_not_null() -> TableBuilder:
    after = [*usual_fields(), column("xs", array_of("long", contains_null=False))]
    return changed_schema(with_columns(column("xs", array_of("long"))), after)


@damage("schema.new-not-null-column")
def not_null_column_added() -> TableBuilder:
    return changed_schema(TableBuilder(), [*usual_fields(), column("extra", "long", nullable=False)], "ADD COLUMNS")


@damage("schema.new-not-null-column")
def not_null_field_added_to_a_struct() -> TableBuilder:
    before = with_columns(column("s", struct(column("a", "long"))))
    after = struct(column("a", "long"), column("b", "long", nullable=False))
    return changed_schema(before, [*usual_fields(), column("s", after)], "ADD COLUMNS")


@damage("schema.column-dropped-no-mapping")
def column_dropped() -> TableBuilder:
    return changed_schema(TableBuilder(), [usual_fields()[0], usual_fields()[2]], "DROP COLUMNS")


@damage("schema.column-dropped-no-mapping")
def column_dropped_while_all_files_but_one_are_replaced() -> TableBuilder:
    table = TableBuilder()
    schema = json.dumps(struct(usual_fields()[0], usual_fields()[2]))
    removes = [table.new_remove("a", 3, 4), table.new_remove("b", 2, 4)]
    table.commit(table.change_metadata(schemaString=schema), *removes, operation="MERGE")
    return table


@damage("schema.type-changed-illegally")
def text_that_became_a_number() -> TableBuilder:
    fields = usual_fields()
    fields[1]["type"] = "long"
    return changed_schema(TableBuilder(), fields)


@damage("schema.type-changed-illegally")
def element_that_became_narrower() -> TableBuilder:
    before = with_columns(column("m", map_of("string", array_of("long"))))
    return changed_schema(before, [*usual_fields(), column("m", map_of("string", array_of("integer")))])


@damage("schema.type-changed-illegally")
def array_that_became_its_element() -> TableBuilder:
    return changed_schema(with_columns(column("xs", array_of("long"))), [*usual_fields(), column("xs", "long")])


@damage("schema.case-only-change")
def name_in_capitals() -> TableBuilder:
    fields = usual_fields()
    fields[1]["name"] = "Name"
    return changed_schema(TableBuilder(), fields, "RENAME COLUMN")
