"""Listings that a store made: what of them is a file of the table, and what can't be judged."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import csv, orc, parquet

from deltacli.core.errors import FileMissing, StorageFailed, Unreadable
from deltacli.storage import open_storage
from deltacli.work.inventory.columns import parse_times
from deltacli.work.inventory.reading import Inventory, open_inventory
from tests.support.storage import RecordingStorage

ROOT = "s3://lake/tbl"
TIME = 1_700_000_000_123
MOMENT = datetime.fromtimestamp(1_700_000_000.123, UTC)


class Found(NamedTuple):
    files: list[tuple[bytes, int, int]]
    outside: int
    without_time: int


def read(inventory: Inventory) -> Found:
    files: list[tuple[bytes, int, int]] = []
    outside = without_time = 0
    for batch in inventory.batches():
        files += zip(batch.paths.to_pylist(), batch.sizes.to_pylist(), batch.modified_ms.to_pylist(), strict=True)
        outside, without_time = outside + batch.outside, without_time + batch.without_time
    return Found(files, outside, without_time)


def written(directory: Path, columns: Mapping[str, Any]) -> str:
    place = f"{directory}/inventory.parquet"
    parquet.write_table(pa.table(dict(columns)), place)
    return place


def inventory_of(directory: Path, columns: Mapping[str, Any], root: str = ROOT) -> Found:
    return read(open_inventory(written(directory, columns), open_storage, [root]))


@pytest.mark.parametrize(
    "names",
    [
        ("path", "length", "modificationTime"),
        ("PATH", "Size", "modified"),
        ("name", "sizeBytes", "last_modified"),
        ("key", "size_bytes", "LastModifiedDate"),
        ("Key", "SIZE", "modification_time"),
        ("path", "sizeBytes", "modificationTimeMs"),
    ],
)
def test_columns_are_found_in_the_common_spellings(tmp_path: Path, names: Sequence[str]) -> None:
    values = (["p=1/x.parquet"], [7], [TIME])

    found = inventory_of(tmp_path, {"other": [None], **dict(zip(names, values, strict=True))})

    assert Found([(b"p=1/x.parquet", 7, TIME)], 0, 0) == found


def test_the_inventory_schema_of_delta_spark_works(tmp_path: Path) -> None:
    columns = {
        "path": ["s3://lake/tbl/p=1", "s3a://lake/tbl/p=1/a b%20c.parquet", "s3://lake/tbl/d"],
        "length": [0, 7, 0],
        "isDir": [True, False, None],
        "modificationTime": [TIME, TIME, TIME],
    }

    assert Found([(b"p=1/a b%20c.parquet", 7, TIME)], 0, 0) == inventory_of(tmp_path, columns)


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        (ROOT, b"x.parquet", b"x.parquet"),
        (ROOT, b"p=a%20b/x", b"p=a%20b/x"),
        (ROOT, b"a:b/x", b"a:b/x"),
        (ROOT, b"p=\xff/x", b"p=\xff/x"),
        (ROOT, b"s3n://lake/tbl/s3://lake/tbl/x", None),
        (ROOT, b"s3n://lake/tbl/lake/tbl/x", b"lake/tbl/x"),
        (ROOT, b"s3://lake/tbl2/x", None),
        (ROOT, b"s3://lake/tbl", None),
        (ROOT, b"s3://other/tbl/x", None),
        (ROOT, b"gs://lake/tbl/x", None),
        (ROOT, b"/lake/tbl/x", None),
        (ROOT, b"s3://lake/tbl/../other/x", None),
        (ROOT, b"s3://lake/tbl//x", None),
        (ROOT, b"../x", None),
        (ROOT, b"a/./x", None),
        (ROOT, b"a/..", None),
        (ROOT, b"a//x", None),
        (ROOT, b"dir/", None),
        (ROOT, b"a/..x/x..", b"a/..x/x.."),
        (ROOT, b"", None),
        (ROOT, None, None),
        ("s3://lake", b"s3://lake/x", b"x"),
        ("s3://lake/a%20b", b"s3://lake/a%20b/x", b"x"),
        ("s3://lake/a%20b", b"s3://lake/a b/x", None),
        ("file:///data/a%20b", b"/data/a b/x", b"x"),
        ("file:///data/a%20b", b"file:/data/a b/x", b"x"),
        ("file:///data/a%20b", b"file:///data/a b/x", b"x"),
        ("file:///data/a%20b", b"/data/a%20b/x", None),
        ("abfss://c@account.net/tbl", b"abfs://c@account.net/tbl/x", b"x"),
    ],
)
def test_paths_are_those_below_the_root(tmp_path: Path, root: str, path: bytes, expected: bytes | None) -> None:
    columns = {"path": pa.array([path], pa.binary()), "size": [7], "modified": [TIME]}

    files = [] if expected is None else [(expected, 7, TIME)]

    assert Found(files, 0 if files else 1, 0) == inventory_of(tmp_path, columns, root)


def test_a_bucket_and_a_key_are_a_path(tmp_path: Path) -> None:
    columns = {
        "bucket": ["lake", "other", None],
        "key": ["tbl/a+b%20.parquet", "tbl/x", "tbl/x"],
        "size": [7, 7, 7],
        "last_modified_date": [MOMENT, MOMENT, MOMENT],
    }

    assert Found([(b"a+b%20.parquet", 7, TIME)], 2, 0) == inventory_of(tmp_path, columns)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([TIME, 1_700_000_000, 0, -5, None, 10**15], [TIME, 1_700_000_000_000, None, None, None, None]),
        ([1_700_000_000.123, float(TIME), float("nan"), float("inf")], [TIME, TIME, None, None]),
        ([Decimal("1700000000.123")], [TIME]),
        (pa.array([TIME * 1000 + 999], pa.timestamp("us")), [TIME]),
        (pa.array([TIME * 10**6, 0, None], pa.timestamp("ns", "Europe/Paris")), [TIME, None, None]),
        (pa.array([1_700_000_000, 9 * 10**18], pa.timestamp("s")), [1_700_000_000_000, None]),
        (pa.array([2**64 - 1, TIME], pa.uint64()), [None, TIME]),
        (["2023-11-14T22:13:20.123Z", "2023-11-14 22:13:20.123", "2023-11-14T22:13:20Z"], [TIME, TIME, TIME - 123]),
        (["2023-11-15T00:13:20.123+02:00", "2023-11-14T22:13:20.123Z", f" {TIME}"], [TIME, TIME, None]),
        ([str(TIME), "1700000000", "", "x", None], [TIME, 1_700_000_000_000, None, None, None]),
        (["2023-11-14", "2023-11-14 22:13:20 Europe/Paris"], [None, None]),
        (["2023-02-30T00:00:00Z", "2023-11-14T22:13:20.123Z"], [None, TIME]),
        (["9999-12-31T00:00:00Z"], [None]),
        (pa.array(["2023-11-14T22:13:20.123Z"] * 2).dictionary_encode(), [TIME, TIME]),
    ],
)
def test_times_may_be_written_in_many_ways(values: Any, expected: list[int | None]) -> None:
    column = values if isinstance(values, pa.Array) else pa.array(values)

    assert expected == parse_times("modified", column).to_pylist()


def test_a_row_without_a_time_is_kept_out_and_counted(tmp_path: Path) -> None:
    found = inventory_of(tmp_path, {"path": ["x", "y"], "size": [7, 7], "modified": ["2023-11-14", str(TIME)]})

    assert Found([(b"y", 7, TIME)], 0, 1) == found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 7, None, -1], [0, 7, None, None]),
        (pa.array([2**64 - 1], pa.uint64()), [None]),
        ([7.0, float("nan"), 1e30, None], [7, None, None, None]),
        (["7", "", "7 KiB", "-1"], [7, None, None, None]),
        ([Decimal("7")], [7]),
    ],
)
def test_a_row_without_a_size_is_kept_out_and_counted(tmp_path: Path, values: Any, expected: list[int | None]) -> None:
    count = len(expected)

    found = inventory_of(tmp_path, {"path": ["x"] * count, "size": values, "modified": [TIME] * count})

    assert [size for size in expected if size is not None] == [size for _, size, _ in found.files]
    assert expected.count(None) == found.without_time


def test_rows_outside_are_not_counted_twice(tmp_path: Path) -> None:
    columns = {"path": ["/x", "y", "z"], "size": [1, 1, 1], "modified": [None, None, TIME]}

    assert Found([(b"z", 1, TIME)], 1, 1) == inventory_of(tmp_path, columns)


def test_the_newest_time_is_that_of_the_rows_read(tmp_path: Path) -> None:
    place = written(tmp_path, {"path": ["x", "/outside"], "size": [1, 1], "modified": [TIME, TIME + 5]})
    inventory = open_inventory(place, open_storage, [ROOT])

    before = inventory.newest_ms
    read(inventory)

    assert (None, TIME + 5, None) == (before, inventory.newest_ms, inventory.created_ms)


CSV = (
    b'path,size,last_modified,note\r\n"tbl,1/a ""b"".parquet",7,2023-11-14T22:13:20.123Z,\r\n'
    b'p=\xff/x,8,1700000000123,"two\nlines"\r\ny,,1700000000123,\r\n'
)
OF_CSV = Found([(b'tbl,1/a "b".parquet', 7, TIME), (b"p=\xff/x", 8, TIME)], 0, 1)


@pytest.mark.parametrize(
    "data",
    [CSV, b"\xef\xbb\xbf" + CSV, gzip.compress(CSV), gzip.compress(CSV[:40]) + gzip.compress(CSV[40:])],
    ids=["plain", "marked", "packed", "packed twice"],
)
def test_csv_names_its_columns_in_the_first_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "listing").write_bytes(data)

    assert OF_CSV == read(open_inventory(f"{tmp_path}/listing", open_storage, [ROOT]))


def test_line_breaks_inside_of_values_do_not_end_a_row(tmp_path: Path) -> None:
    count, note = 50_000, "\n" * 100
    lines = "".join(f'"{i}","{note}",7,{TIME}\n' for i in range(count))
    (tmp_path / "listing").write_text("path,note,size,modified\n" + lines)

    found = read(open_inventory(f"{tmp_path}/listing", open_storage, [ROOT]))

    assert [(b"%d" % i, 7, TIME) for i in range(count)] == found.files


def test_orc_is_read(tmp_path: Path) -> None:
    table = pa.table({"path": ["x.parquet"], "size": [7], "modified": pa.array([MOMENT], pa.timestamp("ms"))})
    orc.write_table(table, f"{tmp_path}/listing.orc")

    assert Found([(b"x.parquet", 7, TIME)], 0, 0) == read(
        open_inventory(f"file://{tmp_path}/listing.orc", open_storage, [ROOT])
    )


def test_only_needed_columns_are_read_and_a_large_inventory_is_read_in_batches(tmp_path: Path) -> None:
    count = 200_000
    place = written(
        tmp_path, {"path": [f"{i}.parquet" for i in range(count)], "size": [1] * count, "modified": [TIME] * count}
    )

    batches = [len(batch.paths) for batch in open_inventory(place, open_storage, [ROOT]).batches()]

    assert count == sum(batches)
    assert max(batches) <= 65_536


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ({"path": ["x"], "size": [1]}, "path, size"),
        ({"path": ["x"], "modified": [TIME], "bytes": [1]}, "path, modified, bytes"),
        ({"file": ["x"], "size": [1], "modified": [TIME]}, "file, size, modified"),
        ({"path": ["x"], "Path": ["y"], "size": [1], "modified": [TIME]}, "path, Path, size, modified"),
    ],
)
def test_a_column_that_is_missing_names_those_found(tmp_path: Path, columns: Mapping[str, Any], fact: str) -> None:
    with pytest.raises(Unreadable) as caught:
        inventory_of(tmp_path, columns)

    assert ("vacuum.inventory", fact) == (caught.value.code, caught.value.facts["columns"])


@pytest.mark.parametrize(
    "columns",
    [
        {"path": [1], "size": [1], "modified": [TIME]},
        {"path": ["x"], "size": [True], "modified": [TIME]},
        {"path": ["x"], "size": [1], "modified": [MOMENT.date()]},
    ],
)
def test_a_column_of_another_type_is_an_error(tmp_path: Path, columns: Mapping[str, Any]) -> None:
    with pytest.raises(Unreadable) as caught:
        inventory_of(tmp_path, columns)

    assert "vacuum.inventory" == caught.value.code
    assert "expected" in caught.value.facts


@pytest.mark.parametrize("cut", [5, 200, -5, 0])
@pytest.mark.parametrize("kind", ["parquet", "orc", "gzip"])
def test_half_a_file_is_an_error(tmp_path: Path, kind: str, cut: int) -> None:
    table = pa.table(
        {"path": [f"{i * 7919 % 10_007}" for i in range(9_000)], "size": range(9_000), "modified": [TIME] * 9_000}
    )
    place = tmp_path / "listing"
    match kind:
        case "parquet":
            parquet.write_table(table, place)
        case "orc":
            orc.write_table(table, str(place))
        case _:
            with gzip.open(place, "wb") as file:
                csv.write_csv(table, file)
    place.write_bytes(place.read_bytes()[:cut])

    with pytest.raises(Unreadable) as caught:
        read(open_inventory(str(place), open_storage, [ROOT]))

    assert "vacuum.inventory" == caught.value.code


@pytest.mark.parametrize("name", ["none.parquet", "none/none.json"])
def test_an_inventory_that_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unreadable, match="no inventory found at"):
        open_inventory(f"{tmp_path}/{name}", open_storage, [ROOT])


def test_a_directory_is_not_an_inventory(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="is a directory"):
        open_inventory(str(tmp_path), open_storage, [ROOT])


def test_a_storage_error_is_passed_on(tmp_path: Path) -> None:
    place = written(tmp_path, {"path": ["x"], "size": [1], "modified": [TIME]})

    class Broken(RecordingStorage):
        def open(self, path: str) -> Any:
            raise StorageFailed(f"{path}: throttled")

    inventory = open_inventory(place, lambda uri: Broken(open_storage(uri)), [ROOT])

    with pytest.raises(StorageFailed) as caught:
        read(inventory)
    assert not isinstance(caught.value, FileMissing)
