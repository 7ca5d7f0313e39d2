"""Sets of integers tell what comes twice, wherever it lies."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.encoding.many_values import IntegerSet, Repeated
from tests.support.effort import examples

PLENTY = 1 << 24
INTEGERS = st.one_of(
    st.integers(-70_000, 70_000), st.integers(131_000, 131_100), st.sampled_from([-(2**63), 2**63 - 1])
)
RANGES = st.tuples(st.integers(-70_000, 140_000), st.integers(1, 70_000)).map(
    lambda run: range(run[0], run[0] + run[1])
)
VALUES = st.one_of(st.lists(INTEGERS, max_size=60), RANGES.map(list), RANGES.map(lambda run: list(run[::3])))


def array(values: object) -> pa.Int64Array:
    return pa.array(values, pa.int64())


@examples(50)
@given(st.lists(VALUES, max_size=4))
def test_repeated_numbers_are_reported(parts: list[list[int]]) -> None:
    known = IntegerSet(PLENTY)
    before: set[int] = set()
    for values in parts:
        again = [value for value in set(values) if value in before]
        twice = [value for value, count in Counter(values).items() for _ in range(count - 1)]
        expected = Repeated(len(again) + len(twice), min(again + twice, default=None))

        assert expected == known.add(array(values))

        before |= set(values)


@examples(25)
@given(VALUES, RANGES)
def test_ranges_and_other_sets_are_as_their_integers(values: list[int], run: range) -> None:
    some, others = IntegerSet(PLENTY), IntegerSet(PLENTY)
    some.add(array(values))
    others.add_range(run.start, len(run))
    both = set(values) & set(run)
    expected = Repeated(len(both), min(both, default=None))

    assert expected == some.common(others)
    assert expected == others.common(some)
    assert expected == some.merge(others)
    assert Repeated(len(run), run.start) == some.common(others)


@pytest.mark.parametrize("count", [1, 20])
def test_a_full_set_is_reported(count: int) -> None:
    known = IntegerSet(3 * 8192)

    known.add(array([place + 65_536 * chunk for chunk in range(3) for place in range(0, 2 * count, 2)]))
    assert not known.is_full

    known.add(array([3 * 65_536]))
    assert known.is_full


def test_a_range_without_end_is_not_walked() -> None:
    known = IntegerSet(PLENTY)

    known.add_range(0, 1 << 60)

    assert known.is_full
