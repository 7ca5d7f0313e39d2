"""Damages of statistics that only the files tell: their footers, or their rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.rules.corruptions import damage
from tests.rules.corruptions_deletion_vectors import vector_protocol
from tests.rules.corruptions_mapping import MAX_ID, MODE
from tests.rules.corruptions_mapping import PROTOCOL as MAPPED
from tests.rules.corruptions_mapping import mapped as mapped_field
from tests.rules.corruptions_widening import FEATURE, change, changed, protocol_of
from tests.rules.data_table import DATA_SCHEMA, DataTable, rows_of
from tests.rules.table_builder import Action, column, struct
from tests.support.small_vectors import inline

DAY = date(2026, 1, 1)
NOON = datetime(2026, 1, 1, 12, 0, 0)


def footers(table: DataTable) -> DataTable:
    """The same table, looked at as far as footers tell."""
    table.level = "footers"
    return table


def claiming(part: str, **values: Any) -> DataTable:
    """A table in which one part of the statistics of version 3 has other values."""
    table = DataTable()
    stats = table.stats(3)
    stats[part] |= values
    table.set_stats(3, stats)
    return table


def with_column(
    data_type: Any, values: pa.Array, minimum: Any, maximum: Any, *, nulls: Any = None, **options: Any
) -> DataTable:
    """A table with one more column `x`, of which the file of version 3 has these values, and these statistics; it is
    null in the others.
    """
    field = data_type if isinstance(data_type, dict) and "name" in data_type else column("x", data_type)
    schema = struct(column("id", "long"), column("name", "string"), column("p", "string"), field)
    written: Action = {key: options.pop(key) for key in list(options) if key not in ("protocol", "properties")}
    nulls_of_others = pa.nulls(10, values.type)
    table = DataTable(schema=schema, rows=lambda number: rows_of(number).append_column("x", nulls_of_others), **options)
    rows = rows_of(4).slice(0, len(values)).append_column("x", values)
    table.put_rows(table.add(3), rows, 3, **written)
    stats = table.stats(3)
    for part, bound in (("minValues", minimum), ("maxValues", maximum)):
        stats[part].pop("x", None)
        if bound is not None:
            stats[part]["x"] = bound
    stats["nullCount"]["x"] = values.null_count if nulls is None else nulls
    table.set_stats(3, stats)
    return table


@damage("data.nan-beyond-bounds")
def footer_without_nan() -> DataTable:
    # The statistics in the log have no bounds, so only those in the footer are wrong.
    return with_column("double", pa.array([1.0, 2.0, float("nan")]), None, None)


@damage("data.nan-beyond-bounds")
def footer_without_nan_in_a_struct() -> DataTable:
    values = pa.array([{"y": value} for value in (1.0, float("nan"))], pa.struct([("y", pa.float32())]))
    return with_column(struct(column("y", "float")), values, None, None, nulls={"y": 0})


# -- bounds that rows lie beyond --------------------------------------------------------------------------------------


@damage("stats.bounds-not-covering")
def least_id_below_the_minimum() -> DataTable:
    return claiming("minValues", id=41)


@damage("stats.bounds-not-covering")
def footer_below_the_minimum() -> DataTable:
    return footers(claiming("minValues", id=41))


@damage("stats.bounds-not-covering")
def name_above_a_maximum_that_was_merely_cut() -> DataTable:
    table = claiming("maxValues", name="name 4")
    stats = table.stats(3)
    stats["minValues"]["name"] = "name 4"
    table.set_stats(3, stats)
    return table


@damage("stats.bounds-not-covering")
def one_row_group_of_three_above_the_maximum() -> DataTable:
    table = DataTable()
    table.put_rows(table.add(3), rows_of(4), 3, row_group_size=4)
    stats = table.stats(3)
    stats["maxValues"]["id"] = 48
    table.set_stats(3, stats)
    return footers(table)


@damage("stats.bounds-not-covering")
def time_two_milliseconds_above_the_maximum() -> DataTable:
    """999 microseconds are what writers cut off."""
    values = pa.array([NOON, NOON + timedelta(microseconds=1000)], pa.timestamp("us", tz="UTC"))
    return with_column("timestamp", values, "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.000Z")


@damage("stats.bounds-not-covering")
def time_above_a_maximum_that_was_not_cut() -> DataTable:
    """It has digits below milliseconds."""
    values = pa.array([NOON, NOON + timedelta(microseconds=123_999)], pa.timestamp("us", tz="UTC"))
    return with_column("timestamp", values, "2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.123456Z")


@damage("stats.bounds-not-covering")
def decimal_that_went_through_a_double() -> DataTable:
    value = Decimal("1234567890123456789.01")
    return with_column(
        "decimal(38,2)", pa.array([value], pa.decimal128(38, 2)), 1234567890123456700, 1234567890123456700
    )


@damage("stats.bounds-not-covering")
def day_before_the_minimum() -> DataTable:
    return footers(with_column("date", pa.array([DAY, date(1969, 12, 31)]), "1970-01-01", "2026-01-01"))


@damage("stats.bounds-not-covering", also=("data.nan-beyond-bounds",))
def not_a_number_above_the_maximum() -> DataTable:
    return with_column("double", pa.array([1.5, float("nan"), -2.0]), -2.0, 1.5)


@damage("stats.bounds-not-covering", also=("data.nan-beyond-bounds",))
def not_a_number_as_both_bounds() -> DataTable:
    return with_column("double", pa.array([1.5, float("nan")]), "NaN", "NaN")


@damage("stats.bounds-not-covering")
def smallest_double_above_an_infinite_maximum() -> DataTable:
    return with_column("double", pa.array([-1.7976931348623157e308]), None, "-Infinity")


@damage("stats.bounds-not-covering")
def nested_value_above_the_maximum() -> DataTable:
    inner = pa.array([{"y": 1}, None, {"y": 3}], pa.struct([("y", pa.int32())]))
    return with_column(struct(column("y", "integer")), inner, {"y": 1}, {"y": 2}, nulls={"y": 1})


@damage("stats.bounds-not-covering")
def live_row_beside_deleted_ones_below_the_minimum() -> DataTable:
    """Id 40 is deleted, and may lie below; 41 is live."""
    table = with_deleted_rows(0)
    table.set_stats(3, table.stats(3) | {"tightBounds": False, "minValues": {"id": 42}})
    return table


@damage("typewidening.float-bounds")
def bounds_of_floats_for_doubles() -> DataTable:
    return floats_for_doubles()


@damage("typewidening.float-bounds")
def footer_beyond_the_bounds_of_floats() -> DataTable:
    return footers(floats_for_doubles())


def floats_for_doubles() -> DataTable:
    """The float nearest to 0.1 is above it as a double."""
    field = changed("x", "double", change("float", "double"))
    return with_column(
        field,
        pa.array([0.1, -0.5], pa.float32()),
        -0.5,
        0.1,
        protocol=protocol_of(FEATURE),
        properties={"delta.enableTypeWidening": "true"},
    )


# -- bounds that no row has -------------------------------------------------------------------------------------------


@damage("stats.bounds-not-tight")
def maximum_that_no_row_has() -> DataTable:
    return claiming("maxValues", id=50)


@damage("stats.bounds-not-tight")
def maximum_above_that_of_the_footer() -> DataTable:
    return footers(claiming("maxValues", id=50))


@damage("stats.bounds-not-tight")
def word_that_begins_no_name() -> DataTable:
    return claiming("minValues", name="most")


@damage("stats.bounds-not-tight")
def bounds_of_nulls_alone() -> DataTable:
    return with_column("integer", pa.array([None, None], pa.int32()), 1, 2)


# -- nulls ------------------------------------------------------------------------------------------------------------


@damage("stats.null-count-mismatch")
def no_null_where_there_is_one() -> DataTable:
    return claiming("nullCount", name=0)


@damage("stats.null-count-mismatch")
def footer_with_a_null_that_is_not_counted() -> DataTable:
    return footers(claiming("nullCount", name=0))


@damage("stats.null-count-mismatch")
def nulls_alone_where_there_are_names() -> DataTable:
    table = DataTable()
    stats = table.stats(3)
    stats["nullCount"]["name"] = 10
    table.set_stats(3, stats)
    return table


@damage("stats.null-count-mismatch")
def two_nulls_where_there_is_one() -> DataTable:
    return claiming("nullCount", name=2)


@damage("stats.null-count-mismatch", also=("data.column-missing",))  # of which files without the column are the cause
def no_null_in_a_column_that_the_file_has_not() -> DataTable:
    schema = struct(*DATA_SCHEMA["fields"], column("later", "string"))
    table = DataTable(schema=schema)
    stats = table.stats(3)
    stats["nullCount"]["later"] = 0
    table.set_stats(3, stats)
    return footers(table)


@damage("stats.null-count-mismatch")
def null_field_of_a_struct_that_is_there() -> DataTable:
    """One struct is null, one has a null: some count one, others two, none counts none."""
    inner = pa.array([{"y": None}, None, {"y": 3}], pa.struct([("y", pa.int32())]))
    return with_column(struct(column("y", "integer")), inner, {"y": 3}, {"y": 3}, nulls={"y": 0})


@damage("stats.null-count-mismatch")
def list_that_is_null() -> DataTable:
    values = pa.array([[None, 1], [], None], pa.list_(pa.int32()))
    kind = {"type": "array", "elementType": "integer", "containsNull": True}
    return with_column(kind, values, None, None, nulls=2)


@damage("stats.null-count-mismatch")
def null_that_is_not_deleted() -> DataTable:
    """The name that is null stands in the first row; another one is deleted."""
    table = with_deleted_rows(5)
    stats = table.stats(3)
    table.set_stats(3, stats | {"tightBounds": False, "nullCount": {"id": 0, "name": 0}})
    return table


def with_deleted_rows(*rows: int) -> DataTable:
    """A table whose file of version 3 has a deletion vector."""
    table = DataTable(protocol=vector_protocol(), properties={"delta.enableDeletionVectors": "true"})
    table.add(3)["deletionVector"] = inline(rows)
    table.set_stats(3, table.stats(3) | {"tightBounds": False, "nullCount": {"id": 0}})
    return table


# -- columns with other names in the files ----------------------------------------------------------------------------


@damage("stats.bounds-not-covering")
def mapped_column_below_the_minimum() -> DataTable:
    return mapped()


@damage("stats.bounds-not-covering")
def footer_of_a_mapped_column_below_the_minimum() -> DataTable:
    return footers(mapped())


def mapped() -> DataTable:
    """The column `x.y` is `a.b` in files and statistics."""
    usual = (mapped_field("id", "long", 1, "id"), mapped_field("name", "string", 2, "name"))
    inner = struct(mapped_field("y", "long", 4, "b"))
    schema = struct(*usual, mapped_field("x", inner, 3, "a"), mapped_field("p", "string", 5, "p"))
    values = pa.array([{"b": number} for number in range(10)], pa.struct([("b", pa.int64())]))
    table = DataTable(
        schema=schema,
        protocol=MAPPED,
        properties={MODE: "name", MAX_ID: "5"},
        rows=lambda number: rows_of(number).append_column("a", values),
    )
    stats = table.stats(3)
    stats["minValues"]["a"], stats["maxValues"]["a"], stats["nullCount"]["a"] = {"b": 1}, {"b": 9}, {"b": 0}
    table.set_stats(3, stats)
    return table
