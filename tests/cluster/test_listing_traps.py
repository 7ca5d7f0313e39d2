"""Directories that are read in place of many files: other files in them, and files that arrive later."""

from __future__ import annotations

import gc
import os
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from deltacli.spark import read_table
from deltacli.spark.parquet_scan import is_connect
from tests.cluster.spark_rows import counts_of
from tests.cluster.test_table_traps import explained, many, numbers, own_rows
from tests.support.rows import parquet_bytes


def test_many_other_files_are_excluded_by_a_short_filter(session: Any, tmp_path: Path) -> None:
    root = many(tmp_path / "t")
    for number in range(300):
        (root / f"uncommitted-{'x' * 60}-{number}.parquet").write_bytes(b"not Parquet")

    frame = read_table(session, root)

    assert own_rows(root) == counts_of(frame)
    assert 5_000 > len(explained(frame)) - len(str(root))


@pytest.mark.parametrize("others", [3, 60])
def test_other_files_with_the_checksum_of_a_live_one_are_excluded(
    others: int, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = many(tmp_path / "t")
    for number in range(others):
        (root / f"uncommitted-{number}.parquet").write_bytes(b"not Parquet")

    def alike(path: bytes) -> int:
        """Give one of the other files the checksum of a live one. Spark compares true ones."""
        return zlib.crc32(path.replace(b"uncommitted-1.parquet", b"f1.parquet"))

    monkeypatch.setattr("deltacli.spark.parquet_scan.crc32", alike)

    assert own_rows(root) == counts_of(read_table(session, root))


def test_frames_of_more_other_files_than_a_filter_names_are_read_by_paths(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.spark.parquet_scan.MOST_NAMED", 3)
    root = many(tmp_path / "t")
    for number in range(4):
        (root / f"uncommitted-{number}.parquet").write_bytes(b"not Parquet")
    before = session.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism", None)

    assert own_rows(root) == counts_of(read_table(session, root))
    assert before == session.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism", None)


def test_cached_rows_of_a_directory_do_not_get_those_of_files_that_arrive_later(session: Any, tmp_path: Path) -> None:
    root = many(tmp_path / "t")
    frame = read_table(session, root).cache()
    before = counts_of(frame)

    (root / "arrived.parquet").write_bytes(parquet_bytes(numbers(99)))
    session.catalog.refreshByPath(str(root))

    assert 40 == frame.count()  # which, unlike the rows of the frame itself, is planned anew
    assert before == counts_of(frame)
    frame.unpersist()


def test_files_newer_than_the_clock_are_read(session: Any, tmp_path: Path) -> None:
    root = many(tmp_path / "t")
    os.utime(root / "f1.parquet", (4e9, 4e9))

    assert own_rows(root) == counts_of(read_table(session, root))


def test_a_view_of_connect_ends_with_the_frames_that_are_made_of_it(session: Any, tmp_path: Path) -> None:
    def views() -> set[str]:
        return {table.name for table in session.catalog.listTables() if table.name.startswith("deltacli_")}

    before = views()
    frame = read_table(session, many(tmp_path / "t")).where("id > 3")
    made = views() - before
    gc.collect()

    assert 36 == frame.count()
    assert made <= views()
    del frame
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "deltacli-drop-view":
            thread.join()
    assert is_connect(session) == bool(made)
    assert not made & views()
