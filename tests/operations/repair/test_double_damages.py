"""Two random damages of real tables, repaired with and without a copy as the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.double_damages import check, damage
from tests.support.effort import is_soaking

pytestmark = pytest.mark.skipif(not corpus.tables(), reason=corpus.absence())

SEEDS = 1_000 if is_soaking() else 40
AT_ONCE = 20


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_row_is_lost_or_invented(first: int, tmp_path: Path) -> None:
    """
    What is acted on is not found again, and what was replaced can be put back, byte for byte.
    """
    acted = 0
    for seed in range(first, first + AT_ONCE):
        damaged = damage(seed, tmp_path / str(seed))
        print(seed, damaged)  # noqa: T201  (for pytest)
        done = check(damaged)
        acted += done is not None and bool(done.steps)
    assert acted > AT_ONCE // 3
