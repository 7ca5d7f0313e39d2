"""Hints of recipients lose no row, whatever rules their clients evaluate them by."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.hinted_files import check_hints


@given(st.integers(0, 1 << 48))
@settings(examples(1), max_examples=400)
def test_ten_thousand_hints_lose_no_row(seed: int) -> None:
    check_hints(seed)
