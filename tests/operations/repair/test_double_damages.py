"""Two random damages of real tables, repaired with and without a copy as the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.double_damages import check, damage
from tests.support.effort import in_turn, is_soaking

SEEDS = 1_000 if is_soaking() else 25
AT_ONCE = 25


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_row_is_lost_or_invented(first: int, tmp_path: Path) -> None:
    """
    What is acted on is not found again, and what was replaced can be put back, byte for byte.
    """
    acted, seeds = 0, in_turn(range(first, first + AT_ONCE))
    for seed in seeds:
        damaged = damage(seed, tmp_path / str(seed))
        print(seed, damaged)  # noqa: T201  (for pytest)
        done = check(damaged)
        acted += done is not None and bool(done.steps)
    assert acted > len(seeds) // 3


def test_a_damaged_commit_does_not_replace_a_sound_checkpoint(tmp_path: Path) -> None:
    damaged = damage(201, tmp_path)

    refused = check(damaged)
    done = check(replace(damaged, has_source=False))

    assert refused is not None
    assert ["recover.diverged"] == [one.code for one in refused.plan.refusals], "the source has another commit"

    assert done is not None
    left = {one.rule: one.reason for one in done.plan.unrepaired}
    assert "a commit may be damaged" in left["checkpoint.missing-add"]


@pytest.mark.parametrize("seed", [232, 273, 963])
def test_commits_come_back_or_are_left_with_a_reason(seed: int, tmp_path: Path) -> None:
    assert check(damage(seed, tmp_path)) is not None
