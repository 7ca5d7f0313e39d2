"""Names of files and the paths that mean them: each way of encoding has its way back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltacli.delta.paths.lookalikes import common_spelling, decodings_of, fold_letters, fold_letters_column
from deltacli.delta.paths.spelling import (
    canonicalize_path,
    canonicalize_root,
    decode,
    encode,
    encode_least,
    encode_path_bytes,
    leaves_directory,
    possible_roots,
    spellings_of_root,
)
from deltacli.delta.paths.spelling_columns import are_absolute

NAMES = [
    "a.parquet",
    "a b%20.parquet",
    "c=13:00/a+b;c?d#e.parquet",
    "C:/x.parquet",
    "file:/x.parquet",
    "a\\b\tc\nd.parquet",
    "\u00e9 \U0001f600 e\u0301.parquet",
    "not UTF-8 \udcff.parquet",
    "%",
    "%zz %25",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_encoded_name_is_decoded_to_itself_and_is_relative(name: str) -> None:
    for path in (encode(name), encode_least(name)):
        assert name == decode(path) == canonicalize_path(path)
        assert [False] == are_absolute(pa.array([path])).to_pylist()
    assert common_spelling(encode_path_bytes(name)) == common_spelling(encode(name).encode())


@pytest.mark.parametrize("uri", ["file:///a%20b/t", "file:///", "s3a://bucket/a b", "/a b/t"])
def test_a_plain_absolute_path_begins_like_the_root(uri: str) -> None:
    for start in spellings_of_root(uri):
        name = start.decode() + "x.parquet"
        assert f"{canonicalize_root(uri)}/x.parquet" == canonicalize_path(name.replace("%", "%25"))


def test_a_root_has_two_readings_if_anybody_may_have_written_it() -> None:
    assert {"s3://b/a%20b", "s3://b/a b"} == possible_roots("s3a://b/a%20b/")
    assert "s3://b/a%20b" == canonicalize_root("s3a://b/a%20b/")
    assert "/a b" == canonicalize_root("file:///a%20b")


@pytest.mark.parametrize(
    ("name", "leaves"),
    [("a/../b", False), ("a/../../b", True), ("..", True), ("../a/..", True), ("..a/b", False), ("./a/..", False)],
)
def test_only_a_path_with_more_parents_than_directories_leaves_its_directory(name: str, *, leaves: bool) -> None:
    assert leaves == leaves_directory(name)


def test_names_are_folded_alike_one_by_one_and_in_a_column() -> None:
    names = [b"A", "\u00c9".encode(), b"b\xff", "STRASSE \u00df".encode(), b""]

    assert [fold_letters(name) for name in names] == fold_letters_column(pa.array(names, pa.binary())).to_pylist()


def test_an_encoded_name_of_an_inventory_may_be_that_of_a_form() -> None:
    assert ["a+b c", "a b c"] == decodings_of("a+b%20c")
    assert [] == decodings_of("a.parquet")
