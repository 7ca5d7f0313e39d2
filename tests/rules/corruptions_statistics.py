"""Damages of statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.rules.corruptions import damage
from tests.rules.corruptions_deletion_vectors import table_with_a_vector
from tests.rules.table_builder import TableBuilder, column, set_time, struct


def table_with(data_type: Any, minimum: Any, maximum: Any, *, nulls: Any = 0, **more: Any) -> TableBuilder:
    """A table with one more column `x`, of which version 3 has statistics."""
    schema = struct(column("id", "long"), column("name", "string"), column("p", "string"), column("x", data_type))
    table = TableBuilder(schema=schema, **more)
    stats = table.stats(3)
    stats["minValues"]["x"], stats["maxValues"]["x"], stats["nullCount"]["x"] = minimum, maximum, nulls
    table.set_stats(3, stats)
    return table


def change(part: str, **values: Any) -> TableBuilder:
    """A table in which one part of the statistics of version 3 has other values."""
    table = TableBuilder()
    stats = table.stats(3)
    stats[part] |= values
    table.set_stats(3, stats)
    return table


@damage("stats.bad-json")
def statistics_cut_short() -> TableBuilder:
    table = TableBuilder()
    table.set_stats(3, '{"numRecords":10,"minValues":{"id"')
    return table


@damage("stats.bad-json")
def statistics_with_a_number_that_json_lacks() -> TableBuilder:
    schema = struct(column("id", "long"), column("name", "string"), column("p", "string"), column("x", "double"))
    table = TableBuilder(schema=schema)
    table.set_stats(3, '{"numRecords":10,"maxValues":{"x":NaN}}')
    return table


@damage("stats.num-records-missing")
def statistics_without_a_count() -> TableBuilder:
    table = TableBuilder()
    table.set_stats(3, {"minValues": {"id": 40}, "maxValues": {"id": 49}})
    return table


@damage("stats.num-records-negative")
def fewer_than_no_records() -> TableBuilder:
    table = TableBuilder()
    table.set_stats(3, {"numRecords": -1})
    return table


@damage("stats.cardinality-exceeds")
def vector_of_more_rows_than_there_are() -> TableBuilder:
    """The file has 10 records; a vector of all 10 is a matter of `dv.all-rows`."""
    table = table_with_a_vector()
    table.add(4)["deletionVector"]["cardinality"] = 11
    return table


@damage("stats.null-count-range")
def one_null_more_than_records() -> TableBuilder:
    """Ten nulls in ten records are in order, and the healthy column has them."""
    return change("nullCount", id=10, name=11)


@damage("stats.null-count-range")
def fewer_than_no_nulls() -> TableBuilder:
    return change("nullCount", id=-1)


@damage("stats.null-count-wide")
def worthless_count_under_wide_bounds() -> TableBuilder:
    """No null and nulls alone say something; `id` has none."""
    table = TableBuilder()
    table.set_stats(3, table.stats(3) | {"tightBounds": False, "nullCount": {"id": 0, "name": 9}})
    return table


@damage("stats.min-greater-max")
def minimum_above_the_maximum() -> TableBuilder:
    return change("minValues", id=50)


@damage("stats.min-greater-max")
def decimals_that_differ_in_their_last_digit() -> TableBuilder:
    table = table_with("decimal(38,10)", 1, 1)
    stats = json.dumps(table.stats(3))
    low, high = '"x": 1234567890123456789012345678.0000000002', '"x": 1234567890123456789012345678.0000000001'
    table.set_stats(3, stats.replace('"x": 1', low, 1).replace('"x": 1}', high + "}", 1))
    return table


@damage("stats.min-greater-max")
def not_a_number_as_the_minimum() -> TableBuilder:
    """NaN is the greatest float."""
    return table_with("double", "NaN", "Infinity")


@damage("stats.min-greater-max")
def time_a_millisecond_above_the_maximum() -> TableBuilder:
    """A maximum that was cut lies less than a millisecond too low."""
    return table_with("timestamp", "2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.000Z")


@damage("stats.min-greater-max")
def true_as_the_minimum_of_false() -> TableBuilder:
    return table_with("boolean", True, False)


@damage("stats.min-greater-max")
def nested_minimum_above_the_maximum() -> TableBuilder:
    return table_with(struct(column("y", "string")), {"y": "b"}, {"y": "a"}, nulls={"y": 0})


def table_of_codes(kind: str, minimum: str, maximum: str) -> TableBuilder:
    """A table with a column `x` of `kind`, of which version 3 has statistics."""
    codes = column("x", "string", __CHAR_VARCHAR_TYPE_STRING=kind)
    table = TableBuilder(schema=struct(column("id", "long"), column("name", "string"), column("p", "string"), codes))
    stats = table.stats(3)
    stats["minValues"]["x"], stats["maxValues"]["x"] = minimum, maximum
    table.set_stats(3, stats)
    return table


@damage("stats.text-too-long")
def text_of_one_character_more_than_its_type() -> TableBuilder:
    """Characters count, not bytes: those of the minimum are enough."""
    return table_of_codes("varchar(5)", "äöüäö", "äöüäöü")


@damage("stats.text-too-long")
def cut_text_that_is_too_long() -> TableBuilder:
    """A cut maximum has one character more, which may be none of its value."""
    return table_of_codes("char(31)", "a" * 31, "b" * 32 + "\ufffd")


@damage("stats.timestamp-precision")
def maximum_cut_to_milliseconds() -> TableBuilder:
    return table_with("timestamp", "2026-01-01T00:00:00.000999Z", "2026-01-01T00:00:00.000Z")


@damage("stats.unknown-column")
def statistics_of_no_column() -> TableBuilder:
    return change("minValues", no_such_column=1)


@damage("stats.unknown-column")
def minimum_of_a_nested_field_that_is_not() -> TableBuilder:
    return table_with(struct(column("y", "string")), {"y": "a", "z": 1}, {"y": "b"}, nulls={"y": 0})


@damage("stats.partition-column")
def statistics_of_the_partition_column() -> TableBuilder:
    return change("minValues", p="b")


@damage("stats.type-mismatch")
def word_for_an_integer() -> TableBuilder:
    return change("minValues", id="forty")


@damage("stats.type-mismatch")
def integer_one_above_64_bits() -> TableBuilder:
    """The greatest long is a maximum like any other, and `id` of the file before has it."""
    table = change("maxValues", id=2**63)
    stats = table.stats(2)
    stats["maxValues"]["id"] = 2**63 - 1
    table.set_stats(2, stats)
    return table


@damage("stats.type-mismatch")
def decimal_with_a_digit_too_many() -> TableBuilder:
    return table_with("decimal(5,2)", 999.99, 1000)


@damage("stats.interval-bounds")
def bounds_of_an_interval() -> TableBuilder:
    return table_with("interval year to month", "INTERVAL '1-0' YEAR TO MONTH", "INTERVAL '2-0' YEAR TO MONTH")


@damage("stats.variant-encoding")
def variant_bounds_as_json() -> TableBuilder:
    features = ["variantType"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    return table_with("variant", '{"a": 1}', '{"a": 2}', protocol=protocol)


@damage("stats.tight-with-dv")
def tight_bounds_beside_a_vector() -> TableBuilder:
    table = table_with_a_vector()
    table.set_stats(4, table.stats(4) | {"tightBounds": True})
    return table


@damage("stats.nullcounts-spelling")
def parsed_counts_of_nulls_as_the_draft_spells_them() -> TableBuilder:
    table = TableBuilder(properties={"delta.checkpoint.writeStatsAsStruct": "true"})

    def add_parsed_statistics(root: Path) -> None:
        path = root / "_delta_log" / f"{2:020d}.checkpoint.parquet"
        read = pq.read_table(path)
        position = read.schema.get_field_index("add")
        adds = read.column("add").to_pylist()
        kind = read.schema.field("add").type
        bounds = pa.struct([("id", pa.int64()), ("name", pa.string())])
        nulls = pa.struct([("id", pa.int64()), ("name", pa.int64())])
        parsed = pa.struct(
            [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCounts", nulls)]
        )
        partitions = pa.struct([("p", pa.string())])
        for add in adds:
            if add is not None:
                stats = json.loads(add["stats"])
                add["stats_parsed"] = stats | {"nullCounts": stats["nullCount"]}
                add["partitionValues_parsed"] = dict(add["partitionValues"])
        wider = pa.struct([*kind, ("stats_parsed", parsed), ("partitionValues_parsed", partitions)])
        pq.write_table(read.set_column(position, pa.field("add", wider), pa.array(adds, wider)), path)
        hint = root / "_delta_log" / "_last_checkpoint"
        hint.write_text(json.dumps(json.loads(hint.read_text()) | {"sizeInBytes": path.stat().st_size}))
        set_time(path, table.time_of(2) + 1000)
        set_time(hint, table.time_of(2) + 2000)

    table.edit_files(add_parsed_statistics)
    return table
