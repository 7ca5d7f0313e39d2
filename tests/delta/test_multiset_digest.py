"""A digest of rows in any order: equal for equal rows, different after any change."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.encoding.digests import MultisetDigest

KIND = pa.schema(
    [
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(38, 2)),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.list_(pa.int16()))),
    ]
)
SIXTEEN = st.one_of(st.none(), st.integers(-2, 2))
TEXTS = st.one_of(st.none(), st.text(max_size=20), st.integers(250, 300).map("x".__mul__))
DECIMALS = st.one_of(st.none(), st.integers(-3, 3).map(lambda n: Decimal(n) * Decimal("1e30")))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": SIXTEEN,
            "f": st.one_of(st.none(), st.sampled_from([-1.5, 0.0, 1.0])),
            "d": DECIMALS,
            "t": TEXTS,
            "b": st.one_of(st.none(), st.booleans()),
            "s": st.one_of(
                st.none(),
                st.fixed_dictionaries({"x": SIXTEEN, "y": st.one_of(st.none(), st.lists(TEXTS, max_size=3))}),
            ),
            "m": st.one_of(
                st.none(),
                st.lists(st.tuples(st.text(max_size=2), st.one_of(st.none(), st.lists(SIXTEEN))), max_size=2),
            ),
        }
    ),
    max_size=4,
)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=KIND)


def digest(*batches: pa.RecordBatch) -> tuple[int, ...]:
    whole = MultisetDigest()
    for one in batches:
        whole.take(one)
    return whole.answer()


@pytest.mark.halved
@given(ROWS, ROWS)
def test_digests_are_equal_exactly_for_the_same_rows(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    first, second = batch(rows), batch(others)

    are_equal = Counter(map(repr, first.to_pylist())) == Counter(map(repr, second.to_pylist()))

    assert are_equal == (digest(first) == digest(second))


@pytest.mark.long
@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 4))
def test_order_batches_and_slices_do_not_matter(rows: list[dict[str, Any]], random: random.Random, cut: int) -> None:
    whole = digest(batch(rows))
    random.shuffle(rows)
    shuffled = batch(rows)
    parts = [shuffled.slice(0, cut), shuffled.slice(cut)]

    together = MultisetDigest()
    for part in parts:
        together.add(digest(part))
    assert whole == digest(*parts) == together.answer()
    assert (0, 0, 0) == digest(batch([]))


@pytest.mark.parametrize("size", [*range(1, 18), 24, 33, 100, 300])
def test_every_byte_of_a_text_counts_wherever_it_lies(size: int) -> None:
    text = bytes(range(1, 256)) * 20
    texts = [
        text[:size],
        *(text[:place] + b"\0" + text[place + 1 : size] for place in range(size)),
        text[:size] + b"\0",
    ]

    for first in (0, 3, 7):
        digests = {digest(pa.record_batch({"t": [text[:first], one]}).slice(1)) for one in texts}
        assert len(texts) == len(digests)


def test_values_below_a_null_do_not_matter() -> None:
    numbers = pa.array([1, 2], pa.int64())
    hidden = pa.array([False, True])
    structs = [pa.StructArray.from_arrays([child], ["x"], mask=hidden) for child in (numbers, pa.array([1, 3]))]
    lists = [
        pa.ListArray.from_arrays(pa.array([0, 1, end], pa.int32()), pa.array([1, 2, 3]), mask=hidden) for end in (1, 3)
    ]

    for one, other in (structs, lists):
        assert digest(pa.record_batch({"c": one})) == digest(pa.record_batch({"c": other}))


def test_values_that_change_places_change_the_digest() -> None:
    rows = [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}]
    crossed = [{"n": 1, "t": "b"}, {"n": 2, "t": "a"}]

    assert digest(batch(rows)) != digest(batch(crossed))
    assert digest(pa.record_batch({"a": [1], "b": [2]})) != digest(pa.record_batch({"a": [2], "b": [1]}))
