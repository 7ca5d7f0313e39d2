"""What reading has to get right, trap by trap: deletion vectors, partition values, names, physical types."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.errors import DataUnreadable
from tests.support.effort import examples
from tests.support.small_parquet import FIELD_ID, Look
from tests.support.small_tables import ALL_FEATURES
from tests.support.small_types import Array, Column, Map, Struct, Type, Value, plain
from tests.support.small_vectors import MAGIC, Descriptor, inline, roaring32, vector_file, vector_path, z85
from tests.support.small_writer import DataFile, SmallTable

UUID_OF_VECTOR = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


def column(name: str, kind: Type, number: int, *, physical: str | None = None, nullable: bool = True) -> Column:
    return Column(name, kind, number, physical or name, nullable)


def new_table(root: Path, *columns: Column, partition: tuple[int, ...] = (), mapping: str = "none") -> SmallTable:
    return SmallTable(root, columns, partition, mapping=mapping, features=ALL_FEATURES).create()


def read(table: SmallTable, version: int | None = None) -> list[tuple[Value, ...]]:
    """The rows of a version, in the order of their plain forms."""
    scan = open_table(str(table.root)).snapshot(version=version).scan()
    rows = [tuple(row.values()) for batch in scan for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: repr(plain(row)))


def error_of(table: SmallTable) -> DataUnreadable:
    with pytest.raises(DataUnreadable) as raised:
        read(table)
    assert 3 == raised.value.exit_code
    return raised.value


# -- deletion vectors -------------------------------------------------------------------------------------------------


def numbers(root: Path, rows: int = 6, *, directory: str = "") -> tuple[SmallTable, DataFile]:
    """A table of one file of ascending numbers."""
    table = new_table(root, column("id", "long", 1))
    file = table.new_file([{1: number} for number in range(rows)], directory=directory)
    table.append([file])
    return table, file


def delete(table: SmallTable, file: DataFile, rows: set[int], vector: Descriptor) -> None:
    table.mark({file.path: frozenset(rows)}, {file.path: vector})


def test_a_vector_without_an_offset_is_the_first_of_its_file(tmp_path: Path) -> None:
    table, file = numbers(tmp_path)
    stored = vector_file([[1, 2]])
    table.put(vector_path(UUID_OF_VECTOR), stored.data)
    vector = stored.relative(0, UUID_OF_VECTOR)
    del vector["offset"]

    delete(table, file, {1, 2}, vector)

    assert [(0,), (3,), (4,), (5,)] == read(table)


def test_a_vector_is_found_from_the_root_of_the_table_not_from_its_data_file(tmp_path: Path) -> None:
    table, file = numbers(tmp_path, directory="p=1/q=2")
    vectors = table.vectors({file.path: frozenset({5})}, how="u", uuid=UUID_OF_VECTOR, prefix="ab")

    table.mark({file.path: frozenset({5})}, vectors)

    assert 5 == len(read(table))


def test_each_vector_of_a_file_belongs_to_its_own_data_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("id", "long", 1))
    files = [table.new_file([{1: 10 * each + number} for number in range(3)]) for each in range(3)]
    table.append(files)
    deleted = {file.path: frozenset({place}) for place, file in enumerate(files)}

    table.mark(deleted, table.vectors(deleted, how="u", uuid=UUID_OF_VECTOR))

    assert [(1,), (10,), (12,), (2,), (20,), (21,)] == read(table)


def test_vectors_count_where_the_property_that_allows_writing_them_is_off(tmp_path: Path) -> None:
    table, file = numbers(tmp_path)
    table.configuration["delta.enableDeletionVectors"] = "false"

    delete(table, file, {0}, inline([0]))

    assert 5 == len(read(table))


def test_a_vector_may_delete_all_rows_and_give_some_back(tmp_path: Path) -> None:
    table, file = numbers(tmp_path)

    delete(table, file, set(range(6)), inline(range(6)))
    delete(table, file, {0, 1, 2, 3, 4}, inline(range(5)))

    assert [] == read(table, 2)
    assert [(5,)] == read(table, 3)


def test_the_older_layout_of_the_reference_implementation_is_read(tmp_path: Path) -> None:
    table, file = numbers(tmp_path)
    bitmap = roaring32([0, 4])
    data = struct.pack("<III", MAGIC - 1, 1, len(bitmap)) + bitmap

    delete(
        table, file, {0, 4}, {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 2}
    )  # fmt: skip

    assert [(1,), (2,), (3,), (5,)] == read(table)


Damage = Callable[[bytearray, Descriptor], None]


def wrong_checksum(data: bytearray, _: Descriptor) -> None:
    data[-1] ^= 1


def wrong_bytes(data: bytearray, _: Descriptor) -> None:
    data[-6] ^= 1


def wrong_size(_: bytearray, vector: Descriptor) -> None:
    vector["sizeInBytes"] -= 1


def wrong_cardinality(_: bytearray, vector: Descriptor) -> None:
    vector["cardinality"] += 1


def too_short(data: bytearray, _: Descriptor) -> None:
    del data[-3:]


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (wrong_checksum, "dv.crc-mismatch"),
        (wrong_bytes, "dv.crc-mismatch"),
        (wrong_size, "dv.size-mismatch"),
        (wrong_cardinality, "dv.cardinality-mismatch"),
        (too_short, "dv.file-too-short"),
    ],
)
def test_no_row_is_given_out_where_a_vector_is_in_doubt(tmp_path: Path, damage: Damage, code: str) -> None:
    table, file = numbers(tmp_path)
    stored = vector_file([[1, 2]])
    data, vector = bytearray(stored.data), stored.relative(0, UUID_OF_VECTOR)
    damage(data, vector)
    table.put(vector_path(UUID_OF_VECTOR), bytes(data))

    delete(table, file, {1, 2}, vector)

    error = error_of(table)
    assert code == error.code
    assert file.logged in error.message


@pytest.mark.parametrize("row", [6, 2**32, 2**33 + 1])
def test_a_vector_that_deletes_rows_the_file_does_not_have_is_refused(tmp_path: Path, row: int) -> None:
    table, file = numbers(tmp_path)

    delete(table, file, {1}, inline([1, row]))

    assert "dv.row-out-of-range" == error_of(table).code


@st.composite
def row_sets(draw: st.DrawFn, rows: int) -> list[int]:
    """Rows of a file as arrays, bitmaps and runs have them, in several containers or few."""
    chooser = random.Random(draw(st.integers(0, 2**32 - 1)))
    found: set[int] = set()
    for _ in range(draw(st.integers(0, 4))):
        start = chooser.randrange(rows)
        end = min(rows, start + chooser.choice((1, 10, 5_000, 70_000)))
        found |= set(range(start, end, chooser.choice((1, 1, 2, 7))))
    found |= set(draw(st.lists(st.sampled_from([0, 4095, 65_535, 65_536, 131_071, 131_072, rows - 1]), max_size=3)))
    return sorted(found)


@given(st.data())
@examples(25)
def test_large_files_keep_the_rows_that_no_container_deletes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    rows = 290_000
    deleted = data.draw(row_sets(rows))
    run_keys = data.draw(st.sampled_from([frozenset[int](), None, frozenset({0, 2}), frozenset({4})]))
    table = new_table(tmp_path_factory.mktemp("large"), column("id", "long", 1))
    group_rows = data.draw(st.sampled_from([rows, 65_536, 65_535, 100_000, 131_073]))
    pq.write_table(pa.table({"id": pa.array(range(rows))}), table.root / "large.parquet", row_group_size=group_rows)
    add: dict[str, Any] = {  # Any: JSON values
        "path": "large.parquet",
        "partitionValues": {},
        "size": (table.root / "large.parquet").stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows}),
    }
    if deleted:
        stored = vector_file([deleted], run_keys=run_keys)
        table.put(vector_path(UUID_OF_VECTOR), stored.data)
        add["deletionVector"] = stored.relative(0, UUID_OF_VECTOR)
    table.put(f"_delta_log/{1:020d}.json", json.dumps({"add": add}).encode())

    batches = list(open_table(str(table.root)).snapshot().scan())

    ids = sorted(number for batch in batches for number in batch.column("id").to_pylist())
    assert sorted(set(range(rows)) - set(deleted)) == ids


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
        ("decimal(38,0)", "-99999999999999999999999999999999999999", Decimal("-99999999999999999999999999999999999999")),
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
def test_a_partition_value_is_what_its_text_says(tmp_path: Path, kind: str, text: str | None, value: Value) -> None:
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
def test_a_partition_value_that_is_none_of_its_type_is_refused_not_null(tmp_path: Path, kind: str, text: str) -> None:
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
    table.set_columns([table.columns[0], Column("p", "timestamp_ntz", 2, "p", True, (("date", "timestamp_ntz", ""),))], "")

    assert [(1, date(2020, 1, 1))] == read(table, 1)
    assert [(1, datetime(2020, 1, 1))] == read(table, 2)


def test_a_partition_value_of_float_became_the_double_of_its_text_but_data_that_of_its_bits(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("f", "float", 1), column("p", "float", 2), partition=(2,))
    table.append([table.new_file([{1: 0.10000000149011612}], texts={2: "0.1"})])
    change = (("float", "double", ""),)
    table.set_columns([Column("f", "double", 1, "f", True, change), Column("p", "double", 2, "p", True, change)], "")

    assert [(0.10000000149011612, 0.10000000149011612)] == read(table, 1)
    assert [(0.10000000149011612, 0.1)] == read(table, 2)


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


def test_nanoseconds_are_cut_to_the_earlier_microsecond(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("t", "timestamp_ntz", 1))
    put_table(table, pa.table({"t": pa.array([-1, 1_999], pa.timestamp("ns"))}))

    assert [(datetime(1969, 12, 31, 23, 59, 59, 999999),), (datetime(1970, 1, 1, 0, 0, 0, 1),)] == read(table)


def test_a_zone_in_the_schema_that_arrow_keeps_does_not_move_instants(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("t", "timestamp", 1))
    put_table(table, pa.table({"t": pa.array([0], pa.timestamp("ms", "+05:00"))}))

    assert [(datetime(1970, 1, 1, tzinfo=UTC),)] == read(table)


def test_text_that_is_no_text_is_refused(tmp_path: Path) -> None:
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


def test_what_became_wider_is_exact_at_every_depth(tmp_path: Path) -> None:
    old = Map("byte", Array(Struct((column("x", "decimal(5,2)", 2), column("y", "date", 3)))))
    new = Map("decimal(10,0)", Array(Struct((column("x", "decimal(20,10)", 2), column("y", "timestamp_ntz", 3)))))
    table = new_table(tmp_path, column("m", old, 1))
    table.append([table.new_file([{1: [(-128, [{2: Decimal("-999.99"), 3: date(1, 1, 1)}, None])]}])])
    table.set_columns([column("m", new, 1)], "widen")

    assert [([(Decimal(-128), [{"x": Decimal("-999.99"), "y": datetime(1, 1, 1)}, None])],)] == read(table)
