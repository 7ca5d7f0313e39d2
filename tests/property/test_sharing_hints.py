"""Hints of recipients lose no row, whatever rules their clients evaluate them by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.hinted_files import check_hints


@given(st.integers(0, 1 << 48))
@examples(100)
def test_hints_lose_no_row(seed: int) -> None:
    check_hints(seed)
