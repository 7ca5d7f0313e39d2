"""Checkpoints that unpack to a hundred times their size and more: bounded memory, and the right answer or an error."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import CheckpointUnreadable
from deltacli.delta.footers.thrift import DATA_PAGE, DICTIONARY_PAGE, PageHeader, ThriftFaultError, read_page_header
from deltacli.storage.local import LocalStorage
from tests.hostile.bombs import repeated, write
from tests.support import damage
from tests.support.builder import TableBuilder
from tests.support.checkpoints import Shape
from tests.support.peak import deltacli
from tests.support.reading import open_at, open_built

MEGABYTE = 1_000_000
EXTRA_MIB = 300


def bomb(place: Path, rows: int, *, store_schema: bool = False) -> Path:
    """A table whose paths and statistics are a megabyte each, and take a hundred kilobytes together."""
    stats = '{"numRecords":1,"filler":"' + "s" * MEGABYTE + '"}'
    adds = {
        "path": repeated("p" * MEGABYTE, rows),
        "size": pa.repeat(pa.scalar(1, pa.int64()), rows),
        "stats": repeated(stats, rows),
    }
    return write(place, adds, rows=rows, store_schema=store_schema)


@pytest.mark.parametrize(
    ("rows", "store_schema"), [(400, False), (400, True), pytest.param(10_000, False, marks=pytest.mark.soak)]
)
def test_one_long_text_in_every_row_is_counted_and_listed_in_bounded_memory(
    rows: int, store_schema: bool, tmp_path: Path
) -> None:
    """
    2 MB a row. Where the file says that its columns are dictionaries (`store_schema`), Arrow hands them out as such.
    """
    place = bomb(tmp_path, rows, store_schema=store_schema)

    counted = deltacli("snapshot", place, "--json")
    listed = deltacli("snapshot", place, "--files", "--limit", "2", "--format", "ndjson")

    assert (0, 0) == (counted.code, listed.code)
    assert f'"count":{rows},"sizeBytes":{rows},"records":{rows}'.encode() in counted.out
    assert 3 == listed.out.count(b"\n")
    assert [] == [run.extra_mib for run in (counted, listed) if run.extra_mib > EXTRA_MIB]


@pytest.mark.soak
def test_a_page_of_150_megabytes_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    stats = pa.array(["s" * 150 * MEGABYTE, None, None])
    adds = {"path": pa.array(["a", "b", "c"]), "size": pa.array([1, 1, 1], pa.int64()), "stats": stats}
    place = write(tmp_path, adds, rows=3, compression="zstd", use_dictionary=False, write_statistics=False)

    run = deltacli("snapshot", place, "--json")

    assert 3 == run.code
    assert '"code":"checkpoint.unreadable"' in run.error
    assert "a page of add.stats unpacks to 1500000" in run.error
    assert run.extra_mib <= EXTRA_MIB


def test_a_page_above_the_limit_makes_the_checkpoint_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.work.checkpoints.page_sizes.MAX_PAGE_BYTES", 8)
    place = TableBuilder().commits(3).checkpoint(2).write(tmp_path)

    snapshot = open_at(LocalStorage(str(place))).snapshot()

    assert (2, ("checkpoint.unreadable",), None) == (snapshot.version, snapshot.problems, snapshot.segment.checkpoint)


def test_long_values_are_read_few_at_a_time_and_mean_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TableBuilder().commits(40).checkpoint(39, shape=Shape(row_group_rows=50)).write(tmp_path)
    expected = open_at(LocalStorage(str(place))).snapshot().counts()
    monkeypatch.setattr("deltacli.work.checkpoints.page_sizes.MAX_COLUMN_BYTES", 1)

    found = open_at(LocalStorage(str(place))).snapshot()

    assert expected == found.counts()
    assert expected[0].count == sum(batch.num_rows for batch in found.files())
    assert 1 == max(batch.num_rows for batch in found.files())


def test_page_headers_are_read_as_they_were_written(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x" * 100, "y" * 50] * 10}), tmp_path / "x", compression="none")
    data = (tmp_path / "x").read_bytes()

    dictionary = read_page_header(data[4:])
    assert dictionary is not None
    page = read_page_header(data[4 + dictionary.length + dictionary.packed_bytes :])

    assert (DICTIONARY_PAGE, 158, 158, 2) == (
        dictionary.kind,
        dictionary.unpacked_bytes,
        dictionary.packed_bytes,
        dictionary.values,
    )
    assert page is not None
    assert (DATA_PAGE, 20) == (page.kind, page.values)


@pytest.mark.parametrize(
    "data", [b"", b"\x15", b"\x15\x00\x15", b"\x15\x00\x15\x80", b"\x18\xff\xff\xff\xff\x07", b"\x1c" * 3]
)
def test_a_header_that_is_cut_asks_for_more(data: bytes) -> None:
    assert read_page_header(data) is None


@pytest.mark.parametrize(
    "data", [b"\0", b"\x15\x00\x15\x01\x15\x02\0", b"\x15" + b"\xff" * 20, b"\x19\x00", b"\x1c" * 99]
)
def test_an_invalid_header_is_a_fault(data: bytes) -> None:
    with pytest.raises(ThriftFaultError):
        read_page_header(data)


def test_a_header_may_claim_two_gigabytes() -> None:
    assert PageHeader(11, 0, 2**31 - 1, 1, 0) == read_page_header(b"\x15\x00\x15\xfe\xff\xff\xff\x0f\x15\x02\0rest")


def test_a_footer_that_contradicts_itself_does_not_end_the_process() -> None:
    """
    A level histogram of another length than the column's levels, a chunk of another type than its column: pyarrow
    26.0.1 aborts when it is asked for the column, or for its statistics.
    """
    builder = TableBuilder().commits(3).checkpoint(2).damaged(damage.head_cleaned(3))
    name = next(name for name in builder.files if "checkpoint" in name)
    whole = builder.files[name].data
    start = len(whole) - 8 - struct.unpack("<I", whole[-8:-4])[0]
    tried = 0
    for position in range(start, len(whole) - 8, 101):
        builder.file(name, whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with contextlib.suppress(CheckpointUnreadable):
            open_built(builder).snapshot().counts()
        tried += 1

    assert tried > 50
