"""Hints of recipients lose no row, whatever rules their clients evaluate them by, and leave out many other files."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.hinted_files import PREDICATES, check_hints

TABLES = 40


@pytest.mark.long
def test_a_thousand_hints_lose_no_row_and_leave_out_files() -> None:
    seen: Counter[str] = Counter()

    for seed in range(TABLES):
        seen += check_hints(seed)

    assert TABLES * PREDICATES == 1_000 == seen["hints"]
    assert seen["used"] > 0.7 * seen["hints"], seen
    assert seen["left out"] > 0.25 * seen["files"], seen
