"""Rows sorted along a curve in little memory: the same rows, in the order of their keys."""

from __future__ import annotations

import errno
import os
import random
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.core.errors import NoSpace, StorageFailed
from deltacli.work.curve_sort import CurveOrder

KIND = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("name", pa.string())])),
        ("n", pa.int32()),
        ("d", pa.decimal128(20, 3)),
        ("tags", pa.map_(pa.string(), pa.list_(pa.int8()))),
    ]
)
NAME, NUMBER, DECIMAL = ("s", "name"), ("n",), ("d",)


def rows_of(count: int, seed: int = 0) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": number,
            "s": chance.choice([None, {"name": None}, {"name": f"{chance.randrange(50):x}"}]),
            "n": chance.choice([None, chance.randrange(-1000, 1000)]),
            "d": chance.choice([None, Decimal(chance.randrange(100)) / 8]),
            "tags": chance.choice([None, [("a", [1, None]), ("b", None)]]),
        }
        for number in range(count)
    ]


def arranged(order: CurveOrder, rows: list[dict[str, Any]], step: int = 7) -> list[dict[str, Any]]:
    batches = (pa.RecordBatch.from_pylist(rows[at : at + step], schema=KIND) for at in range(0, len(rows), step))
    found = order.arrange(batches, KIND)
    return [row for batch in found for row in batch.to_pylist()]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


@settings(max_examples=25)
@given(st.integers(0, 60), st.sampled_from([500, 2000, 1 << 20]), st.booleans(), st.integers(1, 3), st.integers(0, 9))
def test_rows_stay_the_same_however_much_memory_there_is(
    count: int, held_bytes: int, is_hilbert: bool, columns: int, seed: int
) -> None:
    rows = rows_of(count, seed)
    paths = (NAME, NUMBER, DECIMAL)[:columns]

    found = arranged(CurveOrder(paths, is_hilbert, held_bytes=held_bytes), rows)

    assert by_id(rows) == by_id(found)
    in_memory = arranged(CurveOrder(paths, is_hilbert), rows)
    assert [row["id"] for row in in_memory] == [row["id"] for row in found]


@pytest.mark.parametrize("held_bytes", [500, 1 << 20], ids=["on disk", "in memory"])
def test_rows_of_one_column_are_in_its_order(held_bytes: int, tmp_path: Path) -> None:
    found = arranged(CurveOrder((NUMBER,), temp_dir=str(tmp_path), held_bytes=held_bytes), rows_of(700))

    numbers = [-(10**6) if row["n"] is None else row["n"] for row in found]
    assert sorted(numbers) == numbers
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("is_hilbert", [False, True], ids=["z-order", "hilbert"])
def test_pieces_of_the_order_have_short_ranges_of_every_column(is_hilbert: bool) -> None:
    side = 64
    rows = [{"id": x * side + y, "n": x, "d": Decimal(y)} for x in range(side) for y in range(side)]
    random.Random(1).shuffle(rows)

    found = arranged(CurveOrder((NUMBER, DECIMAL), is_hilbert, held_bytes=20_000), rows, 100)

    for first in range(0, len(found), 64):
        piece = found[first : first + 64]
        for column in ("n", "d"):
            assert max(row[column] for row in piece) - min(row[column] for row in piece) < 16


def test_temporary_files_are_removed_when_the_reader_stops_or_the_source_fails(tmp_path: Path) -> None:
    order = CurveOrder((NUMBER,), temp_dir=str(tmp_path), held_bytes=500)
    batches = [pa.RecordBatch.from_pylist(rows_of(100), schema=KIND)] * 20

    def broken() -> Any:
        yield from batches
        raise ValueError

    with closing(order.arrange(iter(batches), KIND)) as found:
        next(found)
        assert 1 == len(os.listdir(tmp_path))
    with pytest.raises(ValueError):
        list(order.arrange(broken(), KIND))

    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["gone", "/dev/full/x"])
def test_a_directory_that_cannot_be_written_is_an_error_with_its_name(place: str, tmp_path: Path) -> None:
    place = os.path.join(tmp_path, place)
    with pytest.raises(StorageFailed, match="cannot be written"):
        arranged(CurveOrder((NUMBER,), temp_dir=place, held_bytes=500), rows_of(100))


def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def write_batch(self, _: Any) -> None:
            raise OSError(errno.ENOSPC, "[Errno 28] No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr(pa.ipc, "new_file", Full)

    with pytest.raises(NoSpace):
        arranged(CurveOrder((NUMBER,), temp_dir=str(tmp_path), held_bytes=500), rows_of(100))

    assert [] == os.listdir(tmp_path)
