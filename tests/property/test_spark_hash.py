"""The hash that spreads actions over parts, a column at a time, against its definition a byte at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.checkpoint.layout import assign_parts, part_of_others, spark_hash
from tests.support.effort import examples

KNOWN = {"ABC": -757602832, "": 142593372, "a": 1485273170, "abcd": -396302900}
"""What Spark SQL's `hash` says; the first is the example of its documentation."""


def murmur(data: bytes) -> int:
    """Murmur3 with 32 bits as Spark's hashUnsafeBytes has it: bytes that fill no word are rounds of their own."""
    state = 42

    def mix(state: int, word: int) -> int:
        word = word * 0xCC9E2D51 & 0xFFFFFFFF
        word = (word << 15 | word >> 17) & 0xFFFFFFFF
        state ^= word * 0x1B873593 & 0xFFFFFFFF
        state = (state << 13 | state >> 19) & 0xFFFFFFFF
        return (state * 5 + 0xE6546B64) & 0xFFFFFFFF

    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        state = mix(state, int.from_bytes(data[start : start + 4], "little"))
    for byte in data[whole:]:
        state = mix(state, (byte - 256 if byte > 127 else byte) & 0xFFFFFFFF)
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


@examples(50)
@given(st.lists(st.text(max_size=40), max_size=20), st.integers(0, 3))
def test_a_column_is_hashed_as_each_text_is(texts: list[str], offset: int) -> None:
    column = pa.array(texts, pa.string()).slice(min(offset, len(texts)))

    assert [murmur(text.encode()) for text in texts[offset:]] == spark_hash(column).to_pylist()


@pytest.mark.parametrize("text", KNOWN)
def test_known_hashes(text: str) -> None:
    assert [KNOWN[text]] == spark_hash(pa.array([text])).to_pylist()
    assert KNOWN[text] == murmur(text.encode())


@examples(25)
@given(st.lists(st.text(max_size=9), min_size=1, max_size=9), st.integers(1, 7))
def test_a_part_is_the_positive_remainder(texts: list[str], parts: int) -> None:
    assert [murmur(text.encode()) % parts for text in texts] == assign_parts(pa.array(texts), parts).to_pylist()


def test_actions_without_a_path_are_handled_as_in_the_seed() -> None:
    assert [0, 0, 2, 42] == [part_of_others(parts) for parts in (2, 3, 40, 43)]
