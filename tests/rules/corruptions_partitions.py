"""Damages of partition values."""

from __future__ import annotations

from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import TableBuilder, column, struct

FEATURES_NTZ = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["timestampNtz"],
}


def table_by(name: str, data_type: str, value: str | None, *, nullable: bool = True, **more: Any) -> TableBuilder:
    """A table partitioned by one column of a type, which holds one value everywhere."""
    schema = struct(column("id", "long"), column("name", "string"), column(name, data_type, nullable=nullable))
    table = TableBuilder(schema=schema, partition_columns=(name,), **more)
    for actions in table.commits.values():
        for action in actions:
            for kind in ("add", "remove"):
                if kind in action:
                    action[kind]["partitionValues"] = {name: value}
    return table


@damage("partition.kernel-unreadable")
def decimal_without_its_scale() -> TableBuilder:
    return table_by("amount", "decimal(10,2)", "1.5")


@damage("partition.kernel-unreadable")
def decimal_with_an_exponent() -> TableBuilder:
    return table_by("amount", "decimal(38,0)", "1E+2")


@damage("partition.kernel-unreadable")
def time_without_seconds() -> TableBuilder:
    return table_by("at", "timestamp", "2026-01-01 10:00")


@damage("partition.kernel-unreadable")
def number_with_a_blank() -> TableBuilder:
    return table_by("year", "integer", "7 ")


@damage("partition.kernel-unreadable")
def integer_that_is_an_empty_text() -> TableBuilder:
    return table_by("year", "integer", "")


@damage("partition.kernel-unreadable")
def time_that_is_an_empty_text_in_one_file() -> TableBuilder:
    table = table_by("at", "timestamp", "2026-01-01T00:00:00.000000Z")
    table.add(3)["partitionValues"] = {"at": ""}
    return table


@damage("partition.kernel-unreadable")
def decimal_that_is_an_empty_text() -> TableBuilder:
    return table_by("amount", "decimal(10,2)", "")


@damage("partition.binary-altered")
def bytes_as_deltalake_writes_them() -> TableBuilder:
    return table_by("key", "binary", r"\u0041\u00C3")


@damage("partition.binary-altered")
def bytes_as_duckdb_writes_them() -> TableBuilder:
    return table_by("key", "binary", r"a\xC3\xA9")


@damage("partition.binary-altered")
def bytes_that_are_no_text() -> TableBuilder:
    table = table_by("key", "binary", "a")
    table.add(3)["partitionValues"] = {"key": "a\ufffd"}
    return table


@damage("partition.key-missing")
def add_without_its_partition_value() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["partitionValues"] = {}
    return table


@damage("partition.key-extra")
def add_with_a_value_too_many() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["partitionValues"]["name"] = "x"
    return table


@damage("partition.key-case")
def add_with_a_key_in_capitals() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["partitionValues"] = {"P": "b"}
    return table


@damage("partition.unparsable")
def integer_partition_with_a_word() -> TableBuilder:
    table = table_by("year", "integer", "2026")
    table.add(3)["partitionValues"] = {"year": "MMXXVI"}
    return table


@damage("partition.unparsable")
def byte_partition_one_above_its_range() -> TableBuilder:
    """127 is the greatest byte, and the healthy files hold it."""
    table = table_by("level", "byte", "127")
    table.add(3)["partitionValues"] = {"level": "128"}
    return table


@damage("partition.unparsable")
def date_partition_with_a_day_that_is_not() -> TableBuilder:
    table = table_by("day", "date", "2024-02-29")
    table.add(3)["partitionValues"] = {"day": "2023-02-29"}
    return table


@damage("partition.empty-string")
def string_partition_that_is_empty() -> TableBuilder:
    table = TableBuilder()
    table.commit({"add": table.new_add("c", 5, 4)["add"] | {"path": "part-5.parquet", "partitionValues": {"p": ""}}})
    return table


@damage("partition.null-in-not-null")
def null_in_a_partition_column_that_forbids_it() -> TableBuilder:
    table = table_by("year", "integer", "2026", nullable=False)
    table.add(3)["partitionValues"] = {"year": None}
    return table


# The damage is the same text.
@damage("partition.null-in-not-null", also=("partition.kernel-unreadable",))
def empty_text_in_a_partition_column_of_integers() -> TableBuilder:
    """An empty text is null for every type except text."""
    table = table_by("year", "integer", "2026", nullable=False)
    table.add(3)["partitionValues"] = {"year": ""}
    return table


@damage("partition.timestamp-zoneless")
def timestamp_partition_without_zone() -> TableBuilder:
    table = table_by("at", "timestamp", "2026-01-01T00:00:00.000000Z")
    table.add(3)["partitionValues"] = {"at": "2026-01-01 00:00:00"}
    return table


@damage("partition.noncanonical")
def integer_partition_with_a_leading_zero() -> TableBuilder:
    table = table_by("year", "integer", "2026")
    table.add(3)["partitionValues"] = {"year": "02026"}
    return table


@damage("partition.noncanonical")
def boolean_partition_in_capitals() -> TableBuilder:
    table = table_by("flag", "boolean", "true")
    table.add(3)["partitionValues"] = {"flag": "TRUE"}
    return table


@damage("partition.hive-default")
def name_of_hives_directory_of_nulls() -> TableBuilder:
    table = TableBuilder()
    add = table.new_add("c", 5, 4)["add"]
    table.commit({"add": add | {"path": "part-5.parquet", "partitionValues": {"p": "__HIVE_DEFAULT_PARTITION__"}}})
    return table


@damage("partition.dir-mismatch")
def directory_of_another_partition() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["partitionValues"] = {"p": "c"}
    return table


@damage("partition.values-on-unpartitioned")
def values_in_a_table_without_partitions() -> TableBuilder:
    table = TableBuilder(partition_columns=())
    table.add(3)["partitionValues"] = {"p": "b"}
    return table


# Files of a few bytes are the smallness that partitions cause and data.small-files counts.
@damage("partition.cardinality", also=("data.small-files",))
def thousands_of_files_of_a_kilobyte() -> TableBuilder:
    table = TableBuilder().derive(checkpoint=False)
    table.commit(*(table.new_add("b", number, 4) for number in range(5, 1_005)))
    return table


@damage("partition.ntz-date-only")
def date_alone_in_a_partition_of_timestamps() -> TableBuilder:
    table = table_by("at", "timestamp_ntz", "2026-01-01 00:00:00", protocol=FEATURES_NTZ)
    table.add(3)["partitionValues"] = {"at": "2026-01-01"}
    return table
