"""Keys of live files that only one of two versions has, and files that are named twice."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from deltacli.core.typing import ArrowArray
from deltacli.table.file_keys import KEY_BYTES, find_unmatched_keys
from deltacli.table.needed_files import build_needed_files, join_needed_files, read_live_files
from tests.support.actions import add, birth, deletion_vector
from tests.support.builder import TableBuilder
from tests.support.reading import open_at
from tests.support.storage import RecordingStorage


@pytest.mark.parametrize("width", [8, KEY_BYTES])
@pytest.mark.parametrize("shared", [90_000, 10, 0])
def test_of_many_keys_those_that_differ_are_found(width: int, shared: int) -> None:
    """
    Whether few differ or all, the answer is that of sets, also for keys that occur twice and for a slice.
    """
    choice = random.Random(42)
    data = choice.randbytes(171_000 * width)
    every = [data[place : place + width] for place in range(0, len(data), width)]
    first = every[:91_000]
    second = [*first[:shared], *every[91_000:], every[-1], every[shared - 1]]
    choice.shuffle(second)

    removed, added = find_unmatched_keys(_column(first, width).slice(3), _column(second, width))

    old, new = set(first[3:]), set(second)
    assert [key not in new for key in first[3:]] == removed.to_pylist()
    assert [key not in old for key in second] == added.to_pylist()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ""),
        ("abc", "abc"),
        ("aab", "ab"),
        ("abcab", "abc"),
        ("baab", "ba"),
        ("abcabc", "abc"),
    ],
)
@pytest.mark.parametrize("are_alike", [False, True], ids=["other hashes", "one hash"])
@pytest.mark.parametrize("many", [0, 8], ids=["few are looked up", "all are looked up"])
def test_each_file_is_kept_where_it_is_named_first(
    names: str, expected: str, are_alike: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.table.needed_files._MANY_REPEATED", many)
    if are_alike:
        zeros = "deltacli.table.needed_files.hash_column"
        monkeypatch.setattr(zeros, lambda keys: pa.array([0] * len(keys), pa.int64()))
    parts = []
    for number, name in enumerate(names):
        sizes = pa.array([number], pa.int64())
        parts.append(build_needed_files(["file:///t"], pa.array([name], pa.string()), sizes, sizes))
    parts.append(
        build_needed_files(["file:///t"], *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    )

    files = join_needed_files(parts).files

    assert [name.encode() for name in expected] == files["path"].to_pylist()
    assert [names.index(name) for name in expected] == files["sizeBytes"].to_pylist()


@pytest.mark.parametrize("vector", [False, True], ids=["no vector", "a vector"])
def test_commits_are_read_again_for_live_files_only_where_one_has_a_vector(
    vector: bool, table_builder: TableBuilder
) -> None:
    other = add("b", vector=deletion_vector() if vector else None)
    storage = RecordingStorage(table_builder.commit(*birth(), add("a"), other).in_memory())
    state = open_at(storage).snapshot()
    before = len(storage.touched("read", "read_range"))

    found = read_live_files(state)

    assert [b"a", b"b"] == sorted(found.files["path"].to_pylist()[:2])
    assert (int(vector), vector) == (
        found.vectors.num_rows,
        len(storage.touched("read", "read_range")) > before,
    )


def _column(keys: list[bytes], width: int) -> ArrowArray:
    kind = pa.int64() if width == 8 else pa.binary(width)
    return pa.Array.from_buffers(kind, len(keys), [None, pa.py_buffer(b"".join(keys))])
