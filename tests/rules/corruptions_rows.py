"""Damages of rows: nulls that are not allowed, and values that break what the table keeps as SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.rules.corruptions import damage
from tests.rules.data_table import DataTable, Rows, rows_of
from tests.rules.table_builder import column, struct

WRITER_3 = {"minReaderVersion": 1, "minWriterVersion": 3}
WRITER_4 = {"minReaderVersion": 1, "minWriterVersion": 4}


def table_with(
    *, protocol: dict[str, int] = WRITER_3, field: dict[str, Any] | None = None, **options: Any
) -> DataTable:
    """The healthy table with something that is demanded of its ids; `field` is what stands in the metadata of `id`."""
    identity = column("id", "long")
    identity["metadata"] |= field or {}
    schema = struct(identity, column("name", "string"), column("p", "string"))
    return DataTable(schema=schema, protocol=protocol, **options)


def with_first_id(value: int | None) -> Rows:
    """The rows of the newest file, the first id another one."""
    rows = rows_of(4)
    ids = [value, *rows.column("id").to_pylist()[1:]]
    return rows.set_column(0, "id", pa.array(ids, pa.int64()))


# The footer counts the null as well.
@damage("notnull.violated", also=("data.required-mismatch",))
def null_in_a_column_that_must_not_be_null() -> DataTable:
    schema = struct(column("id", "long", nullable=False), column("name", "string"), column("p", "string"))
    table = DataTable(schema=schema)
    table.put_rows(table.add(3), with_first_id(None), 3)
    return table


@damage("notnull.violated", also=("data.column-missing",))
def field_that_must_not_be_null_is_missing_from_structs_that_are_there() -> DataTable:
    inner = struct(column("q", "long"), column("z", "long", nullable=False))
    schema = struct(column("id", "long"), column("s", inner), column("p", "string"))

    def rows(number: int) -> Rows:
        held = pa.array([{"q": 1, "z": 1}, None], pa.struct([("q", pa.int64()), ("z", pa.int64())]))
        lacking = pa.array([{"q": 1}, None], pa.struct([("q", pa.int64())]))
        return pa.table({"id": rows_of(number).column("id")[:2], "s": lacking if number == 4 else held})

    return DataTable(schema=schema, rows=rows)


@damage("notnull.violated")
def null_in_a_list_that_must_not_hold_any() -> DataTable:
    words = {"type": "array", "elementType": "string", "containsNull": False}
    schema = struct(column("id", "long"), column("words", words), column("p", "string"))

    def rows(number: int) -> Rows:
        held = [["a", None] if number == 4 else ["a", "b"], [], None]
        return pa.table({"id": rows_of(number).column("id")[:3], "words": pa.array(held, pa.list_(pa.string()))})

    return DataTable(schema=schema, rows=rows)


@damage("constraint.violated")
def row_below_zero() -> DataTable:
    table = table_with(properties={"delta.constraints.positive": "id >= 0"})
    table.put_rows(table.add(3), with_first_id(-1), 3)
    return table


@damage("constraint.violated")
def row_for_which_the_condition_is_null() -> DataTable:
    table = table_with(properties={"delta.constraints.positive": "id >= 0"})
    table.put_rows(table.add(3), with_first_id(None), 3)
    return table


@damage("invariant.violated")
def row_that_breaks_an_invariant() -> DataTable:
    table = table_with(
        protocol={"minReaderVersion": 1, "minWriterVersion": 2},
        field={"delta.invariants": '{"expression":{"expression":"id >= 0"}}'},
    )
    table.put_rows(table.add(3), with_first_id(-1), 3)
    return table


@damage("generated.violated")
def value_that_its_expression_does_not_give() -> DataTable:
    double = column("double", "long")
    double["metadata"] |= {"delta.generationExpression": "id + 1"}
    schema = struct(column("id", "long"), double, column("p", "string"))

    def rows(number: int) -> Rows:
        ids = rows_of(number).column("id").to_pylist()
        made = [identity + 1 for identity in ids]
        if number == 4:
            made[0] += 1
        return pa.table({"id": pa.array(ids, pa.int64()), "double": pa.array(made, pa.int64())})

    return DataTable(schema=schema, protocol=WRITER_4, rows=rows)


@damage("constraint.violated", also=("expression.not-evaluated",))
def row_below_zero_beside_one_that_overflows() -> DataTable:
    table = table_with(properties={"delta.constraints.positive": "id * id * id >= 0"})
    table.put_rows(table.add(3), pa.concat_tables([with_first_id(2**40), with_first_id(-1)]), 6)
    return table


@damage("expression.not-evaluated")
def row_that_overflows() -> DataTable:
    table = table_with(properties={"delta.constraints.positive": "id * id * id >= 0"})
    table.put_rows(table.add(3), with_first_id(2**40), 3)
    return table


@damage("expression.not-evaluated")
def function_that_nobody_knows() -> DataTable:
    return table_with(properties={"delta.constraints.known": "my_function(id)"})
