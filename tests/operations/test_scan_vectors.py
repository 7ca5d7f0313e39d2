"""Deletion vectors in a scan: wherever they lie and however they are stored, or a refusal where they are in doubt."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.operations.read.snapshot import count_rows
from tests.support.effort import examples
from tests.support.small_reading import column, error_of, new_table, read
from tests.support.small_vectors import MAGIC, Descriptor, inline, roaring32, vector_file, vector_path, z85
from tests.support.small_writer import DataFile, SmallTable

UUID_OF_VECTOR = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


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


def test_each_vector_of_a_file_applies_to_its_own_data_file(tmp_path: Path) -> None:
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

    vector = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": 2}
    delete(table, file, {0, 4}, vector)

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
def test_rows_of_a_vector_that_the_file_does_not_have_are_ignored(tmp_path: Path, row: int) -> None:
    table, file = numbers(tmp_path)

    delete(table, file, {1}, inline([1, row]))

    snapshot = open_table(tmp_path).snapshot()
    assert [0, 2, 3, 4, 5] == [value["id"] for batch in snapshot.scan() for value in batch.to_pylist()]
    assert (5, False) == count_rows(snapshot)


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
@examples(12)
@pytest.mark.long
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
