"""Damages of the columns of data files: types, names, layouts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.rules.corruptions import damage
from tests.rules.corruptions_mapping import MAX_ID, MODE, PROTOCOL, array_of, mapped
from tests.rules.corruptions_widening import change, changed, protocol_of
from tests.rules.data_table import DataTable, Rows, rows_of
from tests.rules.parquet_edits import two_level_list
from tests.rules.table_builder import column, struct

DECIMALS = pa.array([Decimal("1.50")] * 10, pa.decimal128(10, 2))
TIMES = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 10, pa.timestamp("us", "UTC"))


def with_x(values: pa.Array) -> Callable[[int], Rows]:
    """The usual rows and a column `x`."""
    return lambda number: rows_of(number).append_column("x", values)


def table_with_x(data_type: Any, values: pa.Array, **options: Any) -> DataTable:
    """The usual table and a column `x`, the same in every file."""
    fields = [column("id", "long"), column("name", "string"), column("x", data_type), column("p", "string")]
    return DataTable(schema=struct(*fields), rows=with_x(values), **options)


def other_x(table: DataTable, values: pa.Array, **options: Any) -> DataTable:
    """The last file has its column `x` in another form."""
    table.rewrite(3, with_x(values)(4), **options)
    return table


@damage("data.codec-unsupported")
def file_in_brotli() -> DataTable:
    table = DataTable()
    table.rewrite(3, rows_of(4), compression="brotli")
    return table


@damage("data.type-mismatch")
def text_in_a_column_of_numbers() -> DataTable:
    table = table_with_x("long", pa.array([7] * 10, pa.int64()))
    return other_x(table, pa.array(["7"] * 10))


@damage("data.type-widening-unrecorded")
def integers_in_a_column_of_longs() -> DataTable:
    table = table_with_x("long", pa.array([7] * 10, pa.int64()))
    return other_x(table, pa.array([7] * 10, pa.int32()))


@damage("data.decimal-mismatch")
def decimal_with_more_digits() -> DataTable:
    return other_x(table_with_x("decimal(10,2)", DECIMALS), DECIMALS.cast(pa.decimal128(12, 4)))


@damage("data.timestamp-not-utc")
def timestamps_without_a_zone() -> DataTable:
    return other_x(table_with_x("timestamp", TIMES), TIMES.cast(pa.timestamp("us")))


@damage("data.timestamp-unit")
def timestamps_in_milliseconds() -> DataTable:
    return other_x(table_with_x("timestamp", TIMES), TIMES.cast(pa.timestamp("ms", "UTC")))


@damage("data.timestamp-unit")
def timestamps_as_int96() -> DataTable:
    return other_x(table_with_x("timestamp", TIMES), TIMES, use_deprecated_int96_timestamps=True)


@damage("data.int96-beyond-nanoseconds", also=("data.timestamp-unit",))
def sentinel_as_int96() -> DataTable:
    times = pa.array([datetime(9999, 12, 31, tzinfo=UTC)] * 10, pa.timestamp("us", "UTC"))
    return other_x(table_with_x("timestamp", times), times, use_deprecated_int96_timestamps=True, store_schema=False)


@damage("data.column-missing")
def file_without_a_column() -> DataTable:
    table = DataTable()
    table.put_rows(table.add(3), rows_of(4).select(["id"]), 3)
    return table


@damage("data.column-unknown")
def file_with_one_more_column() -> DataTable:
    table = DataTable()
    table.rewrite(3, with_x(pa.array(range(10)))(4))
    return table


@damage("data.void-materialised")
def stored_void() -> DataTable:
    table = DataTable(schema=struct(*(column(name, "string") for name in ("name", "p")), column("x", "void")))
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        table.put_rows(table.add(version, number), rows_of(4).select(["name"]), version)
    table.rewrite(3, rows_of(4).select(["name"]).append_column("x", pa.nulls(10, pa.int32())))
    return table


@damage("data.required-mismatch")
def nulls_in_a_required_column() -> DataTable:
    fields = [column("id", "long"), column("name", "string", nullable=False), column("p", "string")]
    names = pa.array([f"name {number}" for number in range(10)])
    table = DataTable(schema=struct(*fields), rows=lambda number: rows_of(number).set_column(1, "name", names))
    table.level = "footers"  # the rows tell the same
    table.put_rows(table.add(3), rows_of(4), 3)
    return table


@damage("data.partition-column-missing")
def file_without_its_partition_column() -> DataTable:
    features = ["materializePartitionColumns"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    properties = {"delta.enableMaterializePartitionColumnsFeature": "true"}
    table = DataTable(protocol=protocol, properties=properties)
    for version, number, value in ((1, 0, "a"), (1, 1, "b"), (2, 0, "a")):
        table.rewrite(
            version, table_of(table, version, number).append_column("p", pa.array([value] * 10)), number=number
        )
    return table


def table_of(table: DataTable, version: int, number: int = 0) -> Rows:
    return table.tables[table.add(version, number)["path"]]


@damage("data.nested-layout")
def list_of_two_levels() -> DataTable:
    values = pa.array([[1, 2]] * 10, pa.list_(pa.field("element", pa.int64(), nullable=False)))
    table = table_with_x(array_of("long"), values)
    table.replace_bytes(3, two_level_list(with_x(values)(4), "x"))
    return table


@damage("data.case-mismatch")
def column_in_capitals() -> DataTable:
    table = DataTable()
    table.rewrite(3, rows_of(4).rename_columns(["id", "NAME"]))
    return table


@damage("data.encrypted")
def file_with_an_encrypted_footer() -> DataTable:
    table = DataTable()
    table.replace_bytes(3, b"PARE" + bytes(1000) + (900).to_bytes(4, "little") + b"PARE")
    return table


@damage("data.variant-shape")
def variant_without_its_value() -> DataTable:
    def variants(*names: str) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array([b"\x01\x00\x00"] * 10)] * len(names), names)

    table = table_with_x("variant", variants("metadata", "value"), protocol=protocol_of("variantType"))
    return other_x(table, variants("metadata"))


# -- field ids -------------------------------------------------------------------------------------------------------


def mapped_rows(number: int, ids: tuple[int | None, ...] = (1, 2)) -> Rows:
    """The usual rows under their physical names, with field ids."""
    found = rows_of(number)
    fields = [
        pa.field(
            f"col-{place}",
            found.schema.field(place - 1).type,
            metadata=identity and {"PARQUET:field_id": str(identity)},
        )
        for place, identity in enumerate(ids, 1)
    ]
    return pa.Table.from_arrays(found.columns, schema=pa.schema(fields))


def mapped_table(mode: str) -> DataTable:
    """A table without partitions, with column mapping from its beginning."""
    fields = [mapped("id", "long", 1), mapped("name", "string", 2)]
    return DataTable(
        schema=struct(*fields),
        protocol=PROTOCOL,
        properties={MODE: mode, MAX_ID: "2"},
        partition_columns=(),
        rows=mapped_rows,
    )


@damage("mapping.file-without-field-ids")
def file_without_ids() -> DataTable:
    table = mapped_table("id")
    table.rewrite(3, mapped_rows(4, (None, None)))
    return table


@damage("mapping.file-without-field-ids")
def column_without_an_id() -> DataTable:
    table = mapped_table("id")
    table.rewrite(3, mapped_rows(4, (1, None)))
    return table


@damage("mapping.file-with-logical-names")
def file_with_logical_names() -> DataTable:
    table = mapped_table("name")
    table.rewrite(3, rows_of(4))
    table.set_stats(3, {"numRecords": 10})  # the columns read as null
    return table


@damage("mapping.file-with-logical-names", also=("mapping.file-without-field-ids",))
def file_with_logical_names_where_ids_count() -> DataTable:
    table = mapped_table("id")
    table.rewrite(3, rows_of(4))
    table.set_stats(3, {"numRecords": 10})  # the columns read as null
    return table


@damage("mapping.field-id-mismatch")
def column_with_the_id_of_no_column() -> DataTable:
    table = mapped_table("name")
    table.rewrite(3, mapped_rows(4, (1, 7)))
    return table


@damage("mapping.field-id-mismatch")
def name_with_another_id_where_ids_count() -> DataTable:
    table = mapped_table("id")
    table.rewrite(3, mapped_rows(4, (1, 7)))
    table.set_stats(3, {"numRecords": 10})  # the column reads as null
    return table


@damage("mapping.file-with-other-names")
def column_under_another_name_where_ids_count() -> DataTable:
    table = mapped_table("id")
    rows = mapped_rows(4)
    table.rewrite(3, rows.rename_columns(["col-1", "name"]).cast(_named(rows.schema, "name")))
    return table


def _named(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema with another name of its second column, whose id stays."""
    return pa.schema([schema.field(0), schema.field(1).with_name(name)])


# -- type changes ----------------------------------------------------------------------------------------------------


def widened_table(values: pa.Array) -> DataTable:
    """A table whose column `x` was an integer once."""
    fields = [column("id", "long"), column("name", "string"), changed("x", "long", change("integer", "long"))]
    return DataTable(
        schema=struct(*fields, column("p", "string")),
        protocol=protocol_of("typeWidening"),
        properties={"delta.enableTypeWidening": "true"},
        rows=with_x(values),
    )


@damage("typewidening.removable")
def change_that_no_file_needs() -> DataTable:
    return widened_table(pa.array([7] * 10, pa.int64()))
