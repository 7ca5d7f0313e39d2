"""Options are read as delta-spark means them, and what is unknown or impossible is refused by name."""

from __future__ import annotations

import pytest

from deltacli.core.errors import UsageError
from deltacli.spark.source_options import BatchOptions, StreamOptions, batch_options, size_in_bytes, stream_options

SPARK = "4.3.0"


def test_no_options_are_the_defaults_of_delta_spark() -> None:
    assert StreamOptions("/tbl", most_files=1000) == stream_options({"path": "/tbl"}, SPARK)


def test_every_option_in_any_case() -> None:
    given = {
        "PATH": "/tbl",
        "startingversion": "5",
        "maxFilesPerTrigger": "3",
        "MAXBYTESPERTRIGGER": "2m",
        "readChangeFeed": "TRUE",
        "ignoreDeletes": "true",
        "ignoreChanges": "true",
        "skipChangeCommits": "false",
    }

    assert StreamOptions("/tbl", 5, None, 3, 2 << 20, True, True, True, False) == stream_options(given, SPARK)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-02T00:00:00Z", 86_400_000),
        ("1970-01-02 00:00:00.5+01:00", 82_800_500),
    ],
)
def test_starting_timestamps(text: str, expected: int) -> None:
    assert expected == stream_options({"path": "/t", "startingTimestamp": text}, SPARK).starting_timestamp_ms


def test_the_newest_version_by_name() -> None:
    assert "latest" == stream_options({"path": "/t", "startingVersion": "Latest"}, SPARK).starting_version


@pytest.mark.parametrize(("text", "expected"), [("2g", 2 << 30), ("1.5g", 3 << 29), ("1.5 GB", 3 << 29), ("7", 7)])
def test_sizes_are_read_as_spark_reads_them(text: str, expected: int) -> None:
    assert expected == size_in_bytes("maxBytesPerTrigger", text)


@pytest.mark.parametrize(
    "option, value",
    [
        ("startingVersion", "-1"),
        ("startingVersion", "first"),
        ("startingTimestamp", "2026-01-31 08:00:00"),
        ("startingTimestamp", "yesterday"),
        ("maxFilesPerTrigger", "0"),
        ("maxFilesPerTrigger", "1.5"),
        ("maxBytesPerTrigger", "0"),
        ("maxBytesPerTrigger", "many"),
        ("readChangeFeed", "yes"),
        ("ignoreDeletes", ""),
    ],
)
def test_a_value_that_an_option_does_not_have_is_refused(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"option {option} is ") as caught:
        stream_options({"path": "/t", option: value}, SPARK)

    assert "usage.stream-option" == caught.value.code
    assert "expected" in caught.value.facts


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="the data source has no option ignoreDelete") as caught:
        stream_options({"path": "/t", "ignoreDelete": "true"}, SPARK)

    assert {"did you mean": "ignoreDeletes"} == caught.value.facts


def test_a_version_and_a_time_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        stream_options({"path": "/t", "startingVersion": "1", "startingTimestamp": "2026-01-31"}, SPARK)


def test_no_path_is_refused() -> None:
    with pytest.raises(UsageError, match="the table is missing"):
        stream_options({}, SPARK)


def test_options_of_the_store_and_prefixes() -> None:
    given = {"path": "s3://b/t", "storage.region": "eu-1", "Storage.Endpoint_URL": "http://h:1"}

    read = batch_options({**given, "allowExternal": "/a,b"})
    followed = stream_options({**given, "allowexternal": '["/a", "s3://c"]'}, SPARK)

    assert (("Endpoint_URL", "http://h:1"), ("region", "eu-1")) == read.storage_options == followed.storage_options
    assert (("/a,b",), ("/a", "s3://c")) == (read.allow_external, followed.allow_external)


@pytest.mark.parametrize("value", ["", "[1]", "[", '[""]', '{"a": 1}', "a/b", '["/a", "b"]'])
def test_a_prefix_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        batch_options({"path": "/t", "allowExternal": value})

    assert "usage.stream-option" == caught.value.code


@pytest.mark.parametrize("path", ["tbl", "./tbl", "~/tbl", "file:tbl", "file:", "file://localhost"])
def test_a_relative_path_is_refused(path: str) -> None:
    with pytest.raises(
        UsageError, match="is relative, and processes of Spark have other working directories"
    ) as caught:
        batch_options({"path": path})

    assert f".load(os.path.abspath({path!r}))" == caught.value.hint


@pytest.mark.parametrize("path", ["/tbl", "file:/tbl", "FILE:///tbl", "file://localhost/tbl", "s3://b/t", "memory://t"])
def test_paths_that_mean_the_same_everywhere(path: str) -> None:
    assert path == batch_options({"path": path}).path


@pytest.mark.parametrize("limit", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_streams_need_spark_4_2(limit: str) -> None:
    with pytest.raises(UsageError, match=r"Spark 4\.1\.3 cannot follow a table") as caught:
        stream_options({"path": "/t", limit: "3"}, "4.1.3")

    assert {"needed": "Spark 4.2", "option": limit} == caught.value.facts
    assert 3 == stream_options({"path": "/t", "maxFilesPerTrigger": "3"}, "4.2.0").most_files


def test_options_of_a_version() -> None:
    assert BatchOptions("/t", 3) == batch_options({"path": "/t", "versionAsOf": "3"})
    assert BatchOptions("/t", None, 0) == batch_options({"path": "/t", "timestampAsOf": "1970-01-01"})
    with pytest.raises(UsageError, match="read has no option maxFilesPerTrigger"):
        batch_options({"path": "/t", "maxFilesPerTrigger": "1"})
