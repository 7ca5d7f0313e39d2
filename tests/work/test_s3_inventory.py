"""S3 Inventory as S3 delivers it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from deltacli.core.errors import Unreadable
from deltacli.storage import Storage, open_storage
from deltacli.work.inventory.reading import Inventory, open_inventory
from tests.support.in_memory import MemoryStorage
from tests.work.test_inventory import MOMENT, TIME, Found, read

CREATED = 1_700_100_000_000
SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
KEY = "inventories/lake/daily/data/part-0.csv.gz"
LINES = b"""\
"lake","tbl/p%3Da%2520b/x+y%2Bz.parquet","v1","true","false","7","2023-11-14T22:13:20.123Z","e"
"lake","tbl/%C3%A9/%2525.parquet","","true","false","8","2023-11-14T22:13:20.123Z","e"
"lake","tbl/old.parquet","v0","false","false","9","2023-11-14T22:13:20.123Z","e"
"lake","tbl/gone.parquet","v2","true","true","","2023-11-14T22:13:20.123Z",""
"lake","tbl/dir/","v1","true","false","0","2023-11-14T22:13:20.123Z","e"
"lake","other/x.parquet","v1","true","false","9","2023-11-14T22:13:20.123Z","e"
"lake","tbl/timeless.parquet","v1","true","false","9","","e"
"""
EXPECTED = Found([(b"p=a%20b/x y+z.parquet", 7, TIME), ("é/%25.parquet".encode(), 8, TIME)], 2, 1)


def manifest(data: bytes, key: str = KEY, **changes: Any) -> bytes:
    file = {"key": key, "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()}
    content = {
        "sourceBucket": "lake",
        "destinationBucket": "arn:aws:s3:::stock",
        "version": "2016-11-30",
        "creationTimestamp": str(CREATED),
        "fileFormat": "CSV",
        "fileSchema": SCHEMA,
        "files": [file],
    }
    return json.dumps(content | changes).encode()


def delivered(root: Path, data: bytes, place: str = "lake/daily/data/part-0.csv.gz", **changes: Any) -> Inventory:
    """An inventory copied to a directory, the file at a place in it."""
    directory = root / "lake/daily/2023-11-16T00-00Z"
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_bytes(manifest(data, **changes))
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_bytes(data)
    return open_inventory(f"{directory}/manifest.json", open_storage, ["s3://lake/tbl"])


@pytest.mark.parametrize(
    "place",
    [
        "lake/daily/data/part-0.csv.gz",
        "lake/daily/2023-11-16T00-00Z/data/part-0.csv.gz",
        "lake/daily/2023-11-16T00-00Z/part-0.csv.gz",
    ],
)
def test_files_are_found_next_to_a_copied_manifest(tmp_path: Path, place: str) -> None:
    inventory = delivered(tmp_path, gzip.compress(LINES), place)

    assert EXPECTED == read(inventory)
    assert CREATED == inventory.created_ms


@pytest.mark.parametrize("kind", ["Parquet", "ORC"])
def test_columnar_inventories_have_keys_as_they_are(tmp_path: Path, kind: str) -> None:
    rows = pa.table(
        {
            "bucket": ["lake", "lake", "lake"],
            "key": ["tbl/p=a%20b/x+y.parquet", "tbl/old.parquet", "tbl/gone.parquet"],
            "is_latest": [True, False, True],
            "is_delete_marker": [False, False, True],
            "size": [7, 8, None],
            "last_modified_date": pa.array([MOMENT] * 3, pa.timestamp("ms")),
        }
    )
    if kind == "ORC":
        orc.write_table(rows, f"{tmp_path}/file")
    else:
        parquet.write_table(rows, f"{tmp_path}/file")
    data = (tmp_path / "file").read_bytes()

    found = read(delivered(tmp_path, data, fileFormat=kind, fileSchema="message s3.inventory {}"))

    assert Found([(b"p=a%20b/x+y.parquet", 7, TIME)], 0, 0) == found


def stores(**files: bytes) -> Callable[[str], Storage]:
    """Opens directories of two buckets in memory, from their full paths."""

    def open_other(uri: str) -> Storage:
        storage = MemoryStorage()
        for name, data in files.items():
            path = f"s3://{name.replace('__', '/').replace('_', '.')}"
            if path.startswith(f"{uri}/"):
                storage.write(path.removeprefix(f"{uri}/"), data)
        return storage

    return open_other


def test_files_are_in_the_destination_bucket() -> None:
    data = gzip.compress(LINES)
    open_other = stores(stock__a__now__manifest_json=manifest(data, "b/c.csv.gz"), stock__b__c_csv_gz=data)

    found = read(open_inventory("s3://stock/a/now/manifest.json", open_other, ["s3://lake/tbl"]))

    assert EXPECTED == found


def test_files_may_be_next_to_a_manifest_copied_to_another_bucket() -> None:
    data = gzip.compress(LINES)
    open_other = stores(copy__a__now__manifest_json=manifest(data, "b/c.csv.gz"), copy__a__data__c_csv_gz=data)

    found = read(open_inventory("s3://copy/a/now/manifest.json", open_other, ["s3://lake/tbl"]))

    assert EXPECTED == found


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert Found([], 0, 0) == read(delivered(tmp_path, gzip.compress(b"")))


def test_a_bucket_without_objects_has_no_files(tmp_path: Path) -> None:
    assert Found([], 0, 0) == read(delivered(tmp_path, b"", files=[]))


@pytest.mark.parametrize("data", [LINES.replace(b"v1", b"v9"), LINES + LINES], ids=["checksum", "size"])
def test_a_file_that_is_not_the_one_listed_is_an_error(tmp_path: Path, data: bytes) -> None:
    inventory = delivered(tmp_path, gzip.compress(LINES, mtime=0))
    (tmp_path / "lake/daily/data/part-0.csv.gz").write_bytes(gzip.compress(data, mtime=0))

    with pytest.raises(Unreadable, match="does not match") as caught:
        read(inventory)

    assert ("vacuum.inventory", KEY) == (caught.value.code, caught.value.facts["file"])


def test_half_a_file_without_a_checksum_is_an_error(tmp_path: Path) -> None:
    data = gzip.compress(LINES)

    with pytest.raises(Unreadable, match="does not match") as caught:
        read(delivered(tmp_path, data, files=[{"key": KEY, "size": len(data) + 1}]))

    assert f"{len(data)} bytes" == caught.value.facts["found"]


def test_a_file_without_a_checksum_is_accepted(tmp_path: Path) -> None:
    data = gzip.compress(LINES)

    assert EXPECTED == read(delivered(tmp_path, data, files=[{"key": KEY}]))


def test_a_file_that_is_missing_is_an_error_with_the_places_tried(tmp_path: Path) -> None:
    inventory = delivered(tmp_path, gzip.compress(LINES), place="elsewhere.gz")

    with pytest.raises(Unreadable, match="names a missing file") as caught:
        read(inventory)

    assert 3 == len(caught.value.facts["tried"].split(", "))


def test_an_inventory_without_times_names_its_columns(tmp_path: Path) -> None:
    inventory = delivered(tmp_path, gzip.compress(LINES), fileSchema="Bucket, Key, Size")

    with pytest.raises(Unreadable) as caught:
        read(inventory)

    assert "Bucket, Key, Size" == caught.value.facts["columns"]


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"files": 7, "fileFormat": "CSV", "destinationBucket": "b"}',
        manifest(b"", files=["x"]),
        manifest(b"", creationTimestamp="yesterday"),
        manifest(b"", fileSchema=7),
    ],
)
def test_a_file_that_is_not_a_manifest_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)

    with pytest.raises(Unreadable, match="is not a manifest") as caught:
        open_inventory(f"{tmp_path}/manifest.json", open_storage, ["s3://lake/tbl"])

    assert "vacuum.inventory" == caught.value.code


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="in the format avro"):
        read(delivered(tmp_path, b"Obj", fileFormat="Avro"))
