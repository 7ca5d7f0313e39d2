"""Keys of live files that only one of two versions has."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from deltacli.core.typing import ArrowArray
from deltacli.table.live_files import KEY_BYTES, differing_keys


@pytest.mark.halved
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

    removed, added = differing_keys(_column(first, width).slice(3), _column(second, width))

    old, new = set(first[3:]), set(second)
    assert [key not in new for key in first[3:]] == removed.to_pylist()
    assert [key not in old for key in second] == added.to_pylist()


def _column(keys: list[bytes], width: int) -> ArrowArray:
    kind = pa.int64() if width == 8 else pa.binary(width)
    return pa.Array.from_buffers(kind, len(keys), [None, pa.py_buffer(b"".join(keys))])
