"""Absolute paths in the spelling of Hadoop's `Path`, which Spark compares as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltacli.delta.paths.hadoop import (
    are_spelled_otherwise,
    make_absolute,
    respell,
    spell_as_hadoop,
    spell_root_as_hadoop,
)
from deltacli.delta.paths.spelling import canonicalize_path

# What `new Path(…).toUri().toString()` of Hadoop returns for the decoded path of each.
SPELLED = {
    "file:///lake/t/a.parquet": "file:/lake/t/a.parquet",
    "file:/lake/t/a.parquet": "file:/lake/t/a.parquet",
    "file://localhost/lake/a.parquet": "file:/lake/a.parquet",
    "FILE:/lake/a.parquet": "file:/lake/a.parquet",
    "file:///lake/a%20b/p%3D1/x.parquet": "file:/lake/a%20b/p=1/x.parquet",
    "file:///lake/t%C3%A4/x.parquet": "file:/lake/tä/x.parquet",
    "file:/lake/13%253A00/x.parquet": "file:/lake/13%253A00/x.parquet",
    "file:/lake/a%3A%40%2C%2B%26/x.parquet": "file:/lake/a:@,+&/x.parquet",
    "file:/lake/%5B1%5D%23%3F%22%5C/x.parquet": "file:/lake/%5B1%5D%23%3F%22%5C/x.parquet",
    "file:/lake/a%C2%A0b/x.parquet": "file:/lake/a%C2%A0b/x.parquet",
    "file:/lake/%FF/x.parquet": "file:/lake/%FF/x.parquet",
    "s3a://bucket/a%20b/p%3D%C3%A4/x.parquet": "s3a://bucket/a%20b/p=ä/x.parquet",
    "abfss://lake@account.dfs.core.windows.net/t/x.parquet": "abfss://lake@account.dfs.core.windows.net/t/x.parquet",
    "file://host/share/x.parquet": "file://host/share/x.parquet",
    "/lake/t/a%C3%A4.parquet": "/lake/t/a%C3%A4.parquet",
}


@pytest.mark.parametrize(("path", "spelled"), SPELLED.items())
def test_a_path_as_hadoop_spells_it(path: str, spelled: str) -> None:
    assert spelled == spell_as_hadoop(path)
    assert spelled == spell_as_hadoop(spelled)


@pytest.mark.parametrize(("path", "spelled"), SPELLED.items())
def test_both_spellings_are_one_file_to_replay(path: str, spelled: str) -> None:
    assert canonicalize_path(path) == canonicalize_path(spelled)


def test_a_column_of_paths() -> None:
    paths = pa.array([*SPELLED, "p=1/a%C3%A4.parquet", "c=13:00/a.parquet"], pa.string())

    assert [*SPELLED.values(), "p=1/a%C3%A4.parquet", "c=13:00/a.parquet"] == respell(paths).to_pylist()
    assert [path != SPELLED.get(path, path) for path in paths.to_pylist()] == are_spelled_otherwise(paths).to_pylist()
    assert [] == respell(paths.slice(0, 0)).to_pylist()


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("file:///lake/a%20b%3D%C3%A4", "file:/lake/a%20b=ä/"),
        ("file:///", "file:/"),
        ("s3://bucket/a b%20cé", "s3://bucket/a%20b%2520cé/"),
        ("s3a://bucket", "s3a://bucket/"),
        ("gs://bucket/lake/", "gs://bucket/lake/"),
    ],
)
def test_the_beginning_of_the_paths_of_a_table(uri: str, root: str) -> None:
    assert root == spell_root_as_hadoop(uri)


def test_relative_paths_are_made_absolute_and_spelled_anew() -> None:
    paths = pa.array(["a.parquet", "p=t%C3%A4/a.parquet", "file:///other/a.parquet", "s3://bucket/a.parquet"])

    absolute = make_absolute(paths, "file:///lake/t")

    assert [
        "file:/lake/t/a.parquet",
        "file:/lake/t/p=tä/a.parquet",
        "file:/other/a.parquet",
        "s3://bucket/a.parquet",
    ] == absolute.to_pylist()
