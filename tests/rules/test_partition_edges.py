"""How many partitions and files are too many, and which paths are one where case does not count."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.rules.framework.views import StateView
from deltacli.rules.partitions.partitions import MANY_FILES, MANY_PARTITIONS, SMALL_BYTES, partitions_that_are_too_small
from deltacli.rules.paths import paths_that_differ_in_case

PARTITIONED = TableConfiguration(metadata=read_metadata({"id": "x", "format": {}, "partitionColumns": ["p"]}, ""))


def state(paths: Sequence[str], size: int | None) -> StateView:
    live = pa.table(
        {
            "path": pa.chunked_array([pa.array(paths, pa.string())]),
            "size": pa.array([size] * len(paths), pa.int64()),
        }
    )
    return StateView(version=7, config=PARTITIONED, transactions={}, domains={}, live=live, now_ms=0)


def told(paths: Sequence[str], size: int | None) -> list[str]:
    return [finding.message for finding in partitions_that_are_too_small(state(paths, size))]


def directories(partitions: int, files: int) -> list[str]:
    return [f"p={number % partitions}/x.parquet" for number in range(files)]


@pytest.mark.parametrize(
    ("files", "size", "expected"),
    [
        (MANY_FILES, 1, []),
        (MANY_FILES + 1, SMALL_BYTES, []),
        (MANY_FILES + 1, None, ["the 1,001 files of the partitioned table have an average size of 0 B"]),
        (
            MANY_FILES + 1,
            SMALL_BYTES - 1,
            ["the 1,001 files of the partitioned table have an average size of 976.6 KiB"],
        ),
    ],
)
def test_more_than_a_thousand_files_of_less_than_a_megabyte_are_too_small(
    files: int, size: int | None, expected: list[str]
) -> None:
    assert expected == told(directories(2, files), size)


@pytest.mark.parametrize(
    ("partitions", "files", "size", "expected"),
    [
        (MANY_PARTITIONS, MANY_PARTITIONS, SMALL_BYTES, []),
        (MANY_PARTITIONS, MANY_PARTITIONS + 1, SMALL_BYTES, []),
        (MANY_PARTITIONS + 1, MANY_PARTITIONS + 1, SMALL_BYTES, ["the table has 100,001 partitions"]),
        (MANY_PARTITIONS + 1, MANY_PARTITIONS + 1, 1, ["the table has 100,001 partitions"]),
        (2, MANY_PARTITIONS + 1, 1, ["the 100,001 files of the partitioned table have an average size of 1 B"]),
    ],
)
def test_more_than_a_hundred_thousand_directories_are_too_many(
    partitions: int, files: int, size: int, expected: list[str]
) -> None:
    assert expected == told(directories(partitions, files), size)


def keyed(paths: Sequence[str]) -> StateView:
    text = pa.chunked_array([pa.array(paths, pa.string())] if paths else [], pa.string())
    live = pa.table({"path": text, "key": text.cast(pa.binary())})
    return StateView(version=7, config=TableConfiguration(), transactions={}, domains={}, live=live, now_ms=0)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["a"], []),
        (["a", "a"], []),
        (["a", "b"], []),
        (["a", "A"], ["the path differs from a only in case"]),
        (["A", "é", "a", "É"], ["the path differs from A only in case", "the path differs from é only in case"]),
        (["a", "A", "a", "A"], ["the path differs from a only in case"]),
        # One name on a file system that ignores case, as a vacuum takes them: two forms of sigma, and of double s.
        (["σ", "ς"], ["the path differs from σ only in case"]),
        (["straße", "STRASSE"], ["the path differs from straße only in case"]),
        (["é", "e\u0301"], ["the path differs from é only in how its letters are composed"]),
        (["É", "e\u0301"], ["the path differs from É only in case"]),
    ],
)
def test_paths_that_differ_only_in_case_are_reported_once(paths: Sequence[str], expected: list[str]) -> None:
    assert expected == [finding.message for finding in paths_that_differ_in_case(keyed(paths))]
