"""Who reads a file and who reports its path agree on whether it is in the table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling_columns import locate, resolve_file_names
from deltacli.rules.paths import ABSOLUTE, ABSOLUTE_INSIDE_ROOT, ESCAPES_ROOT, faults_of_path, suspicious
from deltacli.storage import open_storage
from deltacli.work.table_files import TableFiles
from tests.support.in_memory import MemoryStorage

LITERAL = "bucket/a%20b"
"""A directory on an object store whose name has a percent sign: names of objects are not encoded."""


class _Absolute:
    def __init__(self, name: str) -> None:
        self.storage = MemoryStorage(name)
        self.files = TableFiles(self.storage, MemoryStorage)

    def is_read_as_own(self, path: str) -> bool:
        return self.files.find_path_in_table(path) is not None

    def is_reported_as_own(self, path: str) -> bool:
        rules = {fault.rule.id for fault in faults_of_path(path, self.storage.uri)}
        assert len(rules & {ABSOLUTE.id, ABSOLUTE_INSIDE_ROOT.id}) == 1
        return ABSOLUTE_INSIDE_ROOT.id in rules


@pytest.mark.parametrize(
    ("name", "path", "is_own"),
    [
        (LITERAL, "memory://bucket/a%2520b/part.parquet", True),
        # It means the directory `a b`, where another table may be.
        (LITERAL, "memory://bucket/a%20b/part.parquet", False),
        ("bucket/a b", "memory://bucket/a%20b/part.parquet", True),
        ("bucket/a b", "memory://bucket/a%2520b/part.parquet", False),
        ("bucket/t", "memory://bucket/t/part.parquet", True),
        ("bucket/t", "memory://bucket/tt/part.parquet", False),
    ],
)
def test_an_absolute_path_is_decoded_and_the_name_of_a_table_on_an_object_store_is_not(
    name: str, path: str, is_own: bool
) -> None:
    table = _Absolute(name)

    assert is_own == table.is_read_as_own(path)
    assert is_own == table.is_reported_as_own(path)
    assert is_own == locate(pa.array([path]), table.storage.uri)[0][0].is_valid


@pytest.mark.parametrize("uri", ["s3://bucket/t", "s3a://bucket/t"])
@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("s3://bucket/t/x.parquet", True),
        ("s3a://bucket/t/x.parquet", True),
        ("S3N://bucket/t//x.parquet", True),
        ("s3://other/t/x.parquet", False),
        ("s3://bucket/T/x.parquet", False),
        ("gs://bucket/t/x.parquet", False),
        ("file:/bucket/t/x.parquet", False),
    ],
)
def test_the_schemes_of_a_store_name_one_table(uri: str, path: str, is_own: bool) -> None:
    files = TableFiles(open_storage(uri), open_storage)
    paths = pa.array([path])

    assert is_own == (files.find_path_in_table(path) is not None)
    assert ([b"x.parquet"] if is_own else [None]) == locate(paths, uri)[0].to_pylist()
    assert is_own == (resolve_file_names(paths, [uri])[0].as_py() == b"x.parquet")
    assert is_own == PathKeys([uri]).compute_keys(paths).keys[0].is_valid


@pytest.mark.parametrize("path", ["../x", "%2F../x", "%2F%2E%2E/x", "d%2F..%2F../x", "%2F%2F..%2Fx"])
def test_a_path_that_leaves_the_table_is_no_file_of_it(path: str) -> None:
    paths = pa.array([path])
    files = TableFiles(MemoryStorage(), MemoryStorage)

    assert [True] == suspicious(paths).to_pylist()
    assert ESCAPES_ROOT.id in {fault.rule.id for fault in faults_of_path(path, "memory://table")}
    assert [None] == locate(paths, "memory://table")[0].to_pylist()
    assert path == PathKeys(["memory://table"]).compute_keys(paths).escaping
    assert files.find_path_in_table(path) is None
