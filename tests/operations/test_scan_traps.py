"""What reading has to get right, trap by trap: partition values, names, physical types."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from tests.support.small_parquet import FIELD_ID, Look
from tests.support.small_reading import column, error_of, new_table, read
from tests.support.small_types import Array, Column, Map, Struct, Type, Value
from tests.support.small_writer import DataFile, SmallTable

# -- partition values -------------------------------------------------------------------------------------------------


def partitioned(root: Path, kind: str, texts: dict[str, str | None]) -> SmallTable:
    """A table with one file whose partition values are as given, by physical name."""
    table = new_table(root, column("id", "long", 1), column("p", kind, 2), partition=(2,))
    file = table.new_file([{1: 1}], directory="p=lie")
    table.append([DataFile(file.path, file.logged, file.rows, texts, file.size, file.stats)])
    return table


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "", None),
        ("string", None, None),
        ("string", " ", " "),
        ("string", "a%20b/c=d", "a%20b/c=d"),
        ("string", "null", "null"),
        ("binary", "\x01\x02\x03", b"\1\2\3"),
        ("binary", "é", "é".encode()),
        ("integer", "", None),
        ("byte", "-128", -128),
        ("integer", "007", 7),
        ("integer", "+5", 5),
        ("long", "9007199254740993", 9007199254740993),
        ("float", "0.1", 0.10000000149011612),
        ("double", "0.1", 0.1),
        ("double", "1E400", float("inf")),
        ("double", "-Infinity", float("-inf")),
        ("double", "4.9E-324", 5e-324),
        ("decimal(5,2)", "1E+2", Decimal("100.00")),
        ("decimal(5,2)", "12", Decimal("12.00")),
        ("decimal(5,2)", "1.100", Decimal("1.10")),
        ("decimal(38,38)", "1E-38", Decimal("1E-38")),
        (
            "decimal(38,0)",
            "-99999999999999999999999999999999999999",
            Decimal("-99999999999999999999999999999999999999"),
        ),
        ("boolean", "TRUE", True),
        ("date", "1969-12-31", date(1969, 12, 31)),
        ("date", "0001-01-01", date(1, 1, 1)),
        ("timestamp", "1969-12-31T23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp", "2024-02-29 01:02:03", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("timestamp", "2024-02-29 01:02:03.5", datetime(2024, 2, 29, 1, 2, 3, 500000, UTC)),
        ("timestamp", "2024-02-29T01:02:03+02:00", datetime(2024, 2, 28, 23, 2, 3, tzinfo=UTC)),
        ("timestamp_ntz", "2024-02-29 01:02:03.000004", datetime(2024, 2, 29, 1, 2, 3, 4)),
        ("timestamp_ntz", "2020-01-01", datetime(2020, 1, 1)),
    ],
)
def test_a_partition_value_is_read_from_its_text(tmp_path: Path, kind: str, text: str | None, value: Value) -> None:
    assert [(1, value)] == read(partitioned(tmp_path, kind, {"p": text}))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("byte", "128"),
        ("integer", "1.5"),
        ("integer", "x"),
        ("long", "9223372036854775808"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2)", "1.234"),
        ("boolean", "yes"),
        ("date", "2021-02-30"),
        ("date", "2021-01-01 x"),
        ("timestamp", "yesterday"),
        ("timestamp_ntz", "2020-01-01 25:00:00"),
        ("double", "1,5"),
    ],
)
def test_a_partition_value_invalid_for_its_type_is_refused_and_not_null(tmp_path: Path, kind: str, text: str) -> None:
    table = partitioned(tmp_path, kind, {"p": text})

    error = error_of(table)

    assert "partition.unparsable" == error.code
    assert {"part-00000.parquet", text} <= {error.facts["file"].rsplit("/")[-1], error.facts["value"]}
    assert "p" in error.message


def test_a_partition_value_that_the_log_does_not_give_is_refused_not_null(tmp_path: Path) -> None:
    error = error_of(partitioned(tmp_path, "string", {"other": "x"}))

    assert "partition.key-missing" == error.code
    assert "p=lie/part-00000.parquet" == error.facts["file"]


def test_a_partition_value_of_date_became_a_timestamp_without_zone(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("id", "long", 1), column("p", "date", 2), partition=(2,))
    table.append([table.new_file([{1: 1}], texts={2: "2020-01-01"})])
    table.set_columns(
        [table.columns[0], Column("p", "timestamp_ntz", 2, "p", True, (("date", "timestamp_ntz", ""),))], ""
    )

    assert [(1, date(2020, 1, 1))] == read(table, 1)
    assert [(1, datetime(2020, 1, 1))] == read(table, 2)


def test_a_partition_value_of_float_became_the_double_of_its_text_but_data_that_of_its_bits(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("f", "float", 1), column("p", "float", 2), partition=(2,))
    table.append([table.new_file([{1: 0.10000000149011612}], texts={2: "0.1"})])
    change = (("float", "double", ""),)
    table.set_columns([Column("f", "double", 1, "f", True, change), Column("p", "double", 2, "p", True, change)], "")

    assert [(0.10000000149011612, 0.10000000149011612)] == read(table, 1)
    assert [(0.10000000149011612, 0.1)] == read(table, 2)


def test_changes_read_removed_files_by_what_partitioned_the_table_before(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("a", "string", 1), column("b", "string", 2), partition=(2,))
    old = table.new_file([{1: "x"}], texts={2: "y"})
    table.append([old])
    table.partition = (1,)
    new = table.new_file([{2: "w"}], texts={1: "v"})
    table.replace_files([old.path], [new], data_change=True, metadata=True)

    for first in (0, 2):
        changes = open_table(str(table.root)).changes(from_version=first, columns=["a", "b"])
        rows = [tuple(row.values()) for batch in changes for row in batch.to_pylist()]
        assert [("x", "y", "delete"), ("v", "w", "insert")] == [row[:3] for row in rows if row[3] == 2]


@pytest.mark.parametrize("has_details", [True, False])
@pytest.mark.parametrize(
    ("logged", "told", "value"),
    [
        ({"q": "1"}, {"q": "1"}, None),
        ({}, {}, None),
        ({"q": "1"}, {}, None),
        ({"p": "x", "q": "1"}, {"q": "1"}, "x"),
        ({"p": "x", "q": "1"}, None, "x"),
        ({"p": "x", "q": "1"}, {"P": "x", "q": "1"}, "x"),
    ],
)
def test_a_key_that_a_remove_lacks_is_null_or_that_of_the_add(
    logged: dict[str, str], told: dict[str, str] | None, value: str | None, has_details: bool, tmp_path: Path
) -> None:
    """
    Spark leaves null partition values out of removes. Only without `extendedFileMetadata` the add has more to tell.
    """
    table = new_table(
        tmp_path, column("id", "long", 1), column("p", "string", 2), column("q", "long", 3), partition=(2, 3)
    )
    texts = {2: logged.get("p"), 3: logged.get("q")}
    table.append([file := table.new_file([{1: 1}], texts=texts)])
    table.replace_files([file.path], [], data_change=True)
    commit = table.root / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    details = {"partitionValues": told, "extendedFileMetadata": has_details}
    edited = [{"remove": line["remove"] | details} if "remove" in line else line for line in lines]
    commit.write_text("".join(json.dumps(line) + "\n" for line in edited))

    changes = open_table(str(table.root)).changes(from_version=2, columns=["p"])

    is_told_null = has_details and told is not None and "P" not in told
    assert [None if is_told_null else value] == [row["p"] for batch in changes for row in batch.to_pylist()]


# -- names and ids ----------------------------------------------------------------------------------------------------


def put_table(table: SmallTable, arrow: pa.Table) -> None:
    """Append a Parquet file that somebody else wrote."""
    path = f"foreign-{len(table.versions)}.parquet"
    pq.write_table(arrow, table.root / path)
    size = (table.root / path).stat().st_size
    table.append([DataFile(path, path, (), {}, size, None)])


def test_ids_find_columns_whose_names_in_the_file_are_those_of_others(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, column("a", "long", 1, physical="x"), column("b", "long", 2, physical="y"), mapping="id"
    )
    fields = [pa.field("y", pa.int64(), metadata={FIELD_ID: "1"}), pa.field("x", pa.int64(), metadata={FIELD_ID: "2"})]
    put_table(table, pa.table([[1], [2]], schema=pa.schema(fields)))

    assert [(1, 2)] == read(table)


def test_a_file_without_ids_is_read_by_physical_names(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, column("a", "long", 1, physical="x"), column("b", "long", 2, physical="a"), mapping="id"
    )
    put_table(table, pa.table({"a": [2], "x": [1]}))

    assert [(1, 2)] == read(table)


def test_a_name_in_the_file_counts_for_nothing_where_it_has_another_id(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("a", "long", 1, physical="x"), column("b", "long", 2), mapping="id")
    fields = [pa.field("x", pa.int64(), metadata={FIELD_ID: "7"}), pa.field("b", pa.int64(), metadata={FIELD_ID: "2"})]
    put_table(table, pa.table([[1], [2]], schema=pa.schema(fields)))

    assert [(None, 2)] == read(table)


def test_names_decide_in_name_mode_whatever_the_ids_in_the_file(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, column("a", "long", 1, physical="x"), column("b", "long", 2, physical="y"), mapping="name"
    )
    fields = [pa.field("x", pa.int64(), metadata={FIELD_ID: "2"}), pa.field("y", pa.int64(), metadata={FIELD_ID: "1"})]
    put_table(table, pa.table([[1], [2]], schema=pa.schema(fields)))

    assert [(1, 2)] == read(table)


def test_a_column_of_an_old_name_does_not_see_the_values_of_the_dropped_one(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, column("a", "long", 1), column("b", "long", 2), mapping="name"
    )  # physical names are the logical ones, as in a table that was upgraded
    table.append([table.new_file([{1: 1, 2: 2}])])
    table.set_columns([column("b", "long", 2), column("a", "long", 3, physical="col-3")], "drop a, add a")

    assert [(2, None)] == read(table)


def test_two_columns_of_a_file_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("name", "long", 1))
    put_table(table, pa.table({"NAME": [1], "Name": [2]}))

    assert "data.case-mismatch" == error_of(table).code


def test_an_exact_name_wins_over_one_that_differs_in_case(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("name", "long", 1))
    put_table(table, pa.table({"NAME": [1], "name": [2]}))

    assert [(2,)] == read(table)


def test_a_struct_none_of_whose_fields_is_in_the_file_is_null_where_it_was_null(tmp_path: Path) -> None:
    inside = Struct((column("b", "long", 2),))
    table = new_table(tmp_path, column("s", inside, 1), mapping="name")
    table.append([table.new_file([{1: {2: 5}}, {1: None}])])
    table.set_columns([column("s", Struct((column("c", "string", 3),)), 1)], "another field")

    assert [({"c": None},), (None,)] == sorted(read(table), key=lambda row: row[0] is None)


# -- physical types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_int96_reaches_from_the_first_year_to_the_last(tmp_path: Path, kind: str) -> None:
    zone = UTC if kind == "timestamp" else None
    instants = [datetime(1, 1, 1, tzinfo=zone), datetime(9999, 12, 31, 23, 59, 59, 999999, zone)]
    table = new_table(tmp_path, column("t", Array(kind), 1))
    table.append([table.new_file([{1: instants}], look=Look(timestamps="int96", keep_arrow_schema=False))])

    assert [(instants,)] == read(table)


def test_nanoseconds_are_rounded_down_to_microseconds(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("t", "timestamp_ntz", 1))
    put_table(table, pa.table({"t": pa.array([-(1 << 63), -1, 1_999, (1 << 63) - 1], pa.timestamp("ns"))}))

    assert [
        (datetime(1677, 9, 21, 0, 12, 43, 145224),),
        (datetime(1969, 12, 31, 23, 59, 59, 999999),),
        (datetime(1970, 1, 1, 0, 0, 0, 1),),
        (datetime(2262, 4, 11, 23, 47, 16, 854775),),
    ] == read(table)


def test_a_zone_in_the_schema_that_arrow_keeps_does_not_move_instants(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("t", "timestamp", 1))
    put_table(table, pa.table({"t": pa.array([0], pa.timestamp("ms", "+05:00"))}))

    assert [(datetime(1970, 1, 1, tzinfo=UTC),)] == read(table)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("s", "string", 1))
    put_table(table, pa.table({"s": pa.array([b"\xff"], pa.binary())}))

    error = error_of(table)

    assert "data.type-mismatch" == error.code
    assert "foreign-1.parquet" in error.message
    assert "s" == error.facts["column"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("integer", pa.array([1], pa.int64())),
        ("byte", pa.array([200], pa.int32())),
        ("float", pa.array([0.1], pa.float64())),
        ("decimal(5,2)", pa.array([Decimal("1.234")], pa.decimal128(5, 3))),
        ("decimal(9,0)", pa.array([1], pa.int32())),
        ("long", pa.array([1.0], pa.float32())),
        ("string", pa.array([1], pa.int64())),
        ("boolean", pa.array([1], pa.int32())),
        ("date", pa.array([0], pa.timestamp("us"))),
        (Array("long"), pa.array([1], pa.int64())),
        (Struct((column("x", "long", 2),)), pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int64()))),
    ],
    ids=str,
)
def test_a_type_in_the_file_that_is_not_the_tables_is_refused(tmp_path: Path, kind: Type, values: pa.Array) -> None:
    table = new_table(tmp_path, column("c", kind, 1))
    put_table(table, pa.table({"c": values}))

    error = error_of(table)

    assert "data.type-mismatch" == error.code
    assert "foreign-1.parquet" in error.message
    assert "c" == error.facts["column"]


def test_a_column_that_may_not_be_null_and_is_not_there_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("a", "long", 1), column("b", "long", 2, nullable=False))
    put_table(table, pa.table({"a": [1]}))

    assert "data.column-missing" == error_of(table).code


def test_widened_values_are_exact_at_every_depth(tmp_path: Path) -> None:
    old = Map("byte", Array(Struct((column("x", "decimal(5,2)", 2), column("y", "date", 3)))))
    new = Map("decimal(10,0)", Array(Struct((column("x", "decimal(20,10)", 2), column("y", "timestamp_ntz", 3)))))
    table = new_table(tmp_path, column("m", old, 1))
    table.append([table.new_file([{1: [(-128, [{2: Decimal("-999.99"), 3: date(1, 1, 1)}, None])]}])])
    table.set_columns([column("m", new, 1)], "widen")

    assert [([(Decimal(-128), [{"x": Decimal("-999.99"), "y": datetime(1, 1, 1)}, None])],)] == read(table)
