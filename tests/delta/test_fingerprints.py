"""Eight bytes that stand for a text, which of many texts may occur more than once, and looking up many."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.encoding.many_values import KeyIndex, compute_fingerprints, find_repeated_hashes
from deltacli.rules.paths import rows_that_may_repeat
from tests.support.effort import examples


@pytest.mark.parametrize("length", [0, 1, 8, 47, 48, 49, 100])
def test_equal_keys_have_equal_fingerprints_next_to_keys_of_any_length(length: int) -> None:
    key = bytes(range(65, 65 + 100))[100 - length :]

    alone = compute_fingerprints(pa.array([key], pa.binary())).to_pylist()
    beside = compute_fingerprints(pa.array([b"x", key, b"y" * 48, key], pa.binary())).to_pylist()

    assert [*alone, *alone] == [beside[1], beside[3]]


def test_each_of_the_last_bytes_distinguishes_keys() -> None:
    whole = b"a" * 60
    keys = [whole, *(whole[:-end] + b"b" + whole[len(whole) - end + 1 :] for end in range(1, 49))]

    assert len(keys) == len(set(compute_fingerprints(pa.array(keys, pa.binary())).to_pylist()))


@pytest.mark.parametrize(
    ("prints", "expected"),
    [([], []), ([1], []), ([2, 1], []), ([1, 1], [1]), ([3, 1, 2, 1, 3, 1], [1, 3]), ([-1, 5, -1, 4], [-1])],
)
def test_repeated_values_are_found_in_order(prints: list[int], expected: list[int]) -> None:
    assert expected == find_repeated_hashes(pa.array(prints, pa.int64())).to_pylist()


@given(st.lists(st.sampled_from([-(2**63), -(2**60) - 1, -(2**60), -1, 0, 2**60 - 1, 2**60, 2**63 - 1]), max_size=12))
@examples(20)
def test_repeated_values_among_many_are_found_in_order(some: list[int]) -> None:
    many = [number * 0x9E3779B97F4A7C15 % 2**64 - 2**63 for number in range(1, 20_001)]
    prints = [*many[:7_000], *some, *many[7_000:], *many[::1_999]]

    found = find_repeated_hashes(pa.array(prints, pa.int64())).to_pylist()

    assert sorted(number for number, times in Counter(prints).items() if times > 1) == found


def test_rows_that_may_repeat_are_found_across_arrays() -> None:
    arrays = [pa.array(keys, pa.binary()) for keys in ([b"b", b"a"], [], [b"c"], [b"a", b"c", b"d"])]

    assert [False, True, True, True, True, False] == rows_that_may_repeat(arrays).to_pylist()
    assert [] == rows_that_may_repeat([]).to_pylist()
    assert [] == rows_that_may_repeat(arrays[1:2]).to_pylist()


@given(st.lists(st.binary(max_size=2), max_size=60), st.lists(st.binary(max_size=2), max_size=60))
@examples(40)
def test_keys_are_found_by_their_index_here_and_in_another_process(known: list[bytes], asked: list[bytes]) -> None:
    index = KeyIndex(pa.array(known, pa.binary()))

    for one in (index, pickle.loads(pickle.dumps(index))):
        assert [key in known for key in asked] == one.contains(pa.array(asked, pa.binary())).to_pylist()
